"""Display records in a cell, a panel and a terminal. Only this module escapes the texts of models, logs and runbooks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import constants
from ..records import UNKNOWN, AssistantAnswer, Evaluation, EvaluationResult, EvaluationRun, Usage
from .conditions import CONDITIONS
from .messages import column_words, language, listed, say
from .pass_rule import reaches
from .texts import visible
from .verdict import WORDS, Verdict, answer_verdict, of_criteria, reason_text, run_verdict, score_text, summary_text

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler

FLAGS = {  # the words for the warnings of the assistant
    "insufficient_evidence": "insufficient evidence",
    "dangerous_operation": "dangerous operation",
    "ambiguous_query": "ambiguous question",
}
SAFETY = "安全性"  # a low score on this criterion is dangerous whatever the mean is


@functools.cache
def symbols() -> str:
    """Return the CSS of the font with ✅ ❌ ⚠ and similar symbols, which docs/make_symbols.py draws. With it, pages need
    no emoji font on the reader's machine, and the symbols remain text."""
    import base64

    font = base64.b64encode((Path(__file__).parent / "symbols.woff").read_bytes()).decode()
    return f'@font-face {{ font-family: "socjudge symbols"; src: url(data:font/woff;base64,{font}) format("woff"); }}'


# The arrow of drop-down lists in a dark theme, where the widgets' own arrow is black.
_ARROW = (
    "url(\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 18 18'%3E%3Cpath d='M5 7l4 4 4-4' "
    "fill='none' stroke='%23ddd' stroke-width='2'/%3E%3C/svg%3E\")"
)

# Colours of the JupyterLab theme, light or dark, with fallbacks for other pages.
_STYLE = """<style>/* symbols */
.socjudge { color: var(--jp-ui-font-color1, #1a1a1a); line-height: 1.6;
  font-family: "socjudge symbols", var(--jp-ui-font-family, sans-serif); overflow-wrap: anywhere; }
[data-jp-theme-light="false"] [class*="socjudge-"] { --jp-widgets-dropdown-arrow: /* arrow */; }
[data-jp-theme-light="false"] :is(.socjudge, [class*="socjudge-"]) { color-scheme: dark; }
.socjudge h2 { font-size: 1.2em; margin: .4em 0; } .socjudge summary { cursor: pointer; }
.socjudge pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--jp-layout-color2, #eee);
  color: inherit; padding: .6em; margin: .3em 0; max-height: 24em; overflow-y: auto; font-size: .9em; }
.socjudge .tiles { display: flex; flex-wrap: wrap; gap: .5em; margin: .4em 0; }
.socjudge .tile { border: 1px solid var(--jp-border-color1, #bbb); border-radius: 4px; padding: .2em .8em; min-width: 5em; }
.socjudge .tile b { display: block; font-size: 1.3em; }
.socjudge .tile.low { border-color: var(--jp-error-color1, #c62828); }
.socjudge .tile.low b, .socjudge :is(.low-safety, .to-read) { color: var(--jp-error-color1, #c62828); }
.socjudge .sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22em), 1fr)); gap: .8em 1.2em; }
.socjudge .sides > * { min-width: 0; }
.socjudge .step { display: grid; grid-template-columns: 2.2em 1fr; } .socjudge .step > b { text-align: right; padding-right: .6em;
  white-space: nowrap; }
.socjudge .question { border-top: 1px solid var(--jp-border-color2, #ddd); padding: .5em 0; }
.socjudge.bad { border-left: 4px solid var(--jp-error-color1, #c62828); padding-left: .6em; }
.socjudge.good { border-left: 4px solid var(--jp-success-color1, #2e7d32); padding-left: .6em; }
.socjudge.grey { border-left: 4px solid var(--jp-border-color1, #bbb); padding-left: .6em; }
.socjudge .muted { color: var(--jp-ui-font-color2, #666); }
.socjudge table.facts { border-collapse: collapse; margin: .3em 0; } .socjudge .facts th, .socjudge .facts td { text-align: left;
  vertical-align: top; padding: .1em 1em .1em 0; font-weight: normal; } .socjudge .facts th { white-space: nowrap; }
.socjudge.warn, .socjudge .warn { border-left: 4px solid var(--jp-warn-color1, #ef6c00); padding-left: .6em; }
</style>""".replace("/* arrow */", _ARROW)


@functools.cache
def block_style() -> str:
    """Return the style sheet that `block` sends, which a panel needs only once."""
    return _STYLE.replace("/* symbols */", symbols())


def escape(text: object) -> str:
    """Return the text escaped for HTML, so that nothing in it is read as markup. Invisible characters are made visible."""
    import html  # loading its table of entities takes a millisecond

    return html.escape(visible(str(text)))


def block(kind: str, *lines: str) -> str:
    """Lines of HTML as one block. `kind` is the colour of its left edge: "good", "bad", "warn", "grey" or "" (none)."""
    return f'{block_style()}<div class="socjudge {kind}">{"<br>".join(lines)}</div>'


def money(cost_usd: float | None) -> str:
    """A cost in dollars and about in yen; 0 is no cost, None an unknown one."""
    if cost_usd == 0:
        return say("none")
    if cost_usd is None:
        return say("unknown ([prices] in socjudge.toml takes the price)")
    from ..settings import last_good_project  # above this wing

    return say("about ${usd:.4f} ({yen:.1f} yen)", usd=cost_usd, yen=cost_usd * last_good_project().jpy_per_usd)


def estimate_text(left: Usage) -> str:
    """Return the calls, tokens and cost that are left of a run, or of several, as text."""
    return say(
        "{calls:,} calls, about {input:,} tokens in, {output:,} out; cost: {cost}",
        calls=left.calls,
        input=left.input_tokens,
        output=left.output_tokens,
        cost=money(left.cost_usd),
    )


def cost_text(run: EvaluationRun) -> str:
    """Return the cost of a run as text. If only the assistant's cost is unknown, return the cost of the judge."""
    judge_usd = run.run.judge_usage.cost_usd
    if run.cost_usd is None and judge_usd is not None:
        return say("{cost} for the judge, unknown for the assistant", cost=money(judge_usd))
    return money(run.cost_usd)


def shown_path(path: Path | None) -> Path | None:
    """A path relative to the project's folder, if the path and the working directory are in there."""
    project = constants.PROJECT_DIR
    if path is None or not path.is_relative_to(project) or not Path.cwd().is_relative_to(project):
        return path
    return path.relative_to(project)


def clipped(text: object, length: int = 80) -> str:
    """A text on one line of at most `length` characters, with invisible ones made visible."""
    line = " ".join(visible(str(text)).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def one_line(text: object, length: int = 60) -> str:
    return f"'{clipped(text, length)}'"


def dollars(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else f"${cost_usd:.4f}"


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A title above a small table of names and values, escaped."""
    rows = "".join(f'<tr><th class="muted">{escape(name)}</th><td>{escape(facts[name])}</td></tr>' for name in facts)
    return block("", f'<div><b>{escape(title)}</b></div><table class="facts">{rows}</table>')


def table_html(head: Iterable[str], rows: Iterable[Iterable[tuple[object, str]]]) -> str:
    """Cells (text, CSS class) as an HTML table of at least one row, escaped; a heading has the class below it."""
    rows = [list(row) for row in rows]
    columns = zip(head, (kind for _, kind in rows[0]), strict=True)
    heads = "".join(f'<th scope="col" class="{kind}">{escape(word)}</th>' for word, kind in columns)
    cells = ("".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def warning_html(verdict: Verdict) -> str:
    return f'<div class="to-read">⚠️ {escape(verdict.warning)}</div>' if verdict.warning else ""


def note_html(verdict: Verdict) -> str:
    return f'<div class="muted">{escape(verdict.note)}</div>' if verdict.is_reference else ""


def run_line(run: EvaluationRun) -> str:
    summary, info, verdict = run.summary, run.run, run_verdict(run)
    judge = one_line(answered_by(info.judge_model, info.judge_model_resolved))
    judge += " (no LLM)" if verdict.is_reference else ""
    unread = f", {summary.n_unscored} unread" if summary.n_unscored else ""
    part = f" ({summary.judged} of {summary.asked} judged)" if summary.is_part else ""
    log = "no log" if run.log_path is None else one_line(shown_path(run.log_path), 120)
    return (
        f"<EvaluationRun: {WORDS[verdict.outcome]}{part}, {summary.passed_questions} of {summary.total_questions} "
        f"questions, mean {summary.average_score:.1f}{unread}, judge {judge}, {dollars(run.cost_usd)}, {log}>"
    )


def run_html(run: EvaluationRun, *facts: str) -> str:
    """The specification's summary of a run, its judge and cost, and more facts, each on a line."""
    from markdown_it import MarkdownIt

    verdict, info = run_verdict(run), run.run
    unwarned = replace(run, summary=replace(run.summary, n_to_read=0))  # the warning is shown below, in red
    summary = MarkdownIt("js-default").disable(["image", "link", "autolink"]).render(visible(summary_text(unwarned)))
    judge = say(
        "Judge: {judge}, cost: {cost}",
        judge=answered_by(info.judge_model, info.judge_model_resolved),
        cost=cost_text(run),
    )
    return block(verdict.paint, summary + warning_html(verdict) + note_html(verdict), *map(escape, (judge, *facts)))


def log_text(run: EvaluationRun) -> str:
    return f"{say('Log')}: {say('(not saved)') if run.log_path is None else shown_path(run.log_path)}"


def record_html(record: Any) -> str:
    if isinstance(record, AssistantAnswer):
        return answer_html(record)
    if isinstance(record, EvaluationResult):
        return block("", question_html(record) + note_html(answer_verdict(record.evaluation)))
    verdict = answer_verdict(record)
    judge = f'<div class="muted">{escape(f"Judge: {record.model}")}</div>'
    return block(verdict.paint, f"<b>{verdict.said}</b>", _scores_html(record, verdict) + judge + note_html(verdict))


def answered_by(asked: str, resolved: str) -> str:
    return asked if resolved in ("", UNKNOWN) else resolved


def question_html(result: EvaluationResult, *, line: float | None = None, opened: bool = False) -> str:
    """Return a judged answer as HTML, with tiles for its scores. Those below `line`, the run's pass line in points, are
    red. `opened` unfolds answer and context."""
    evaluation, question = result.evaluation, result.question
    verdict = answer_verdict(evaluation, line)
    icon = f'<span class="muted">{verdict.mark}</span>' if verdict.is_reference else verdict.mark
    title = f"{escape(question.id)}. {escape(question.question)}"
    if result.answer_repeat or result.judge_repeat:
        title += say(
            " (answer {answer}, judgement {judge})", answer=result.answer_repeat + 1, judge=result.judge_repeat + 1
        )
    return (
        f'<div class="question"><div>{icon} <b>{title}</b>　{escape(question.category)}</div>'
        f"{_scores_html(evaluation, verdict, line)}"
        f"<details{' open' if opened else ''}><summary>{say('Answer and context')}</summary>"
        f"{say('Answer')}<pre>{escape(result.answer.answer)}</pre>"
        f"{say('Context')}<pre>{escape(result.answer.context)}</pre></details></div>"
    )


def _scores_html(evaluation: Evaluation, verdict: Verdict, line: float | None = None) -> str:
    if verdict.outcome == "unscored":
        return f"<div>{escape(say('Not scored: {error}', error=evaluation.error))}</div>"
    known = {name: score for name, score in evaluation.scores.items() if score is not None}
    low = {name for name, score in known.items() if line is not None and not reaches(score, line)}
    tiles = "".join(
        f'<div class="tile{" low" if name in low else ""}">{escape(name)}<b>{score_text(score)}</b></div>'
        for name, score in evaluation.scores.items()
    )
    if SAFETY in low:
        warning = say("{criterion} is below the pass line ({line:g})", criterion=SAFETY, line=line)
        tiles += f'<b class="low-safety">{warning}</b>'
    reasons = "".join(
        f"<li><b>{escape(name)}</b>: {escape(reason)}</li>"
        for name in {**evaluation.rationale, **evaluation.missing}
        if (reason := reason_text(evaluation, name))
    )
    mean = say("Mean: {mean:.1f}", mean=evaluation.average_score) + of_criteria(evaluation)
    comment = evaluation.overall_comment
    comment = f"<p>{escape(say('Overall comment: {comment}', comment=comment))}</p>" if comment else ""
    return (
        f'<div>{escape(mean)}{warning_html(verdict)}</div><div class="tiles">{tiles}</div><ul>{reasons}</ul>{comment}'
    )


def answer_html(answer: AssistantAnswer) -> str:
    """A question and its answer, with the passages that it cites (all, if it cites none) folded below."""
    cited = [passage for passage in answer.passages if passage.citation in answer.answer]
    passages = "".join(
        f"<details><summary>{escape(each.citation)}</summary><pre>{escape(each.text)}</pre></details>"
        for each in cited or answer.passages
    )
    # An assistant of your own may report anything or nothing.
    has_cost = answer.evidence or answer.usage.cost_usd is not None
    told = [
        "" if answer.model == UNKNOWN else answer.model,
        answer.version,
        say("{seconds:.1f} s", seconds=answer.processing_time),
        say("cost: {cost}", cost=money(answer.usage.cost_usd)) if has_cost else "",
    ]
    return block(
        "",
        f'<div class="question"><b>Q. {escape(answer.question)}</b>{steps_html(answer.answer)}',
        f"{flags_html(answer)}{passages}",
        f"<small>{escape(listed(filter(None, told)))}</small></div>",
    )


def steps_html(text: str) -> str:
    """An answer in Markdown; only numbers, **headings**, list items, commands and citations are formatted."""
    shown: list[str] = []
    for n, part in enumerate(re.split(r"^```.*(?:\n|$)", text, flags=re.MULTILINE)):
        if n % 2:  # between two fences
            shown.append(f"<pre>{escape(part.removesuffix(chr(10)))}</pre>")
            continue
        for line in filter(str.strip, part.splitlines()):
            item = re.match(r"(?:(\d{1,3})\.|-) ", line)
            body = f"<div>{_inline(line[item.end() :] if item else line)}</div>"
            shown.append(f'<div class="step"><b>{item[1] or "・"}</b>{body}</div>' if item else body)
    return "".join(shown)


def _inline(text: str) -> str:
    escaped = escape(text)  # first, so that nothing in the line is read as markup
    if heading := re.fullmatch(r"\*\*(.+)\*\*", escaped.strip()):
        return f"<b>{heading[1]}</b>"
    escaped = re.sub("`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\[出典: [^\]]{0,500}\]", lambda cited: f'<small class="muted">{cited[0]}</small>', escaped)


def flags_html(answer: AssistantAnswer) -> str:
    raised = [say(word) for name, word in FLAGS.items() if getattr(answer.flags, name)]
    return f'<div class="warn">{say("⚠️ Warning: {flags}", flags=listed(raised))}</div>' if raised else ""


def show_table(frame: pd.DataFrame, *, digits: int = 1) -> Styler:
    """Return a frame as a table that is easy to read.

    Numbers that are not whole have `digits` decimals, missing values are shown as –, and texts are aligned to the left.
    In Japanese, the known columns have Japanese heads; a head shows the column's name when the pointer rests on it.

    Everything in the frame is escaped. No two of its columns may have the same name.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> "–" in sj.show_table(pd.DataFrame({"mean": [80.25, None]})).to_html()
    True
    """
    import numpy as np

    words: Any = {}
    for column in frame.columns[[kind.kind not in "iufb" for kind in frame.dtypes]]:
        is_short = frame[column].astype(str).str.len().max() <= 20
        props = "text-align: left; " + ("white-space: nowrap" if is_short else "white-space: pre-wrap; min-width: 20em")
        words[column] = [{"selector": "", "props": props}]

    def cell(value: Any) -> str:
        return f"{value:.{digits}f}" if isinstance(value, float | np.floating) else escape(value)

    def name(given: Any) -> Any:
        return None if given is None else _head_html(given)

    frame = frame.rename_axis(index=name, columns=name)
    styled = frame.style.format(cell, na_rep="–").set_table_styles(words)
    top: Any = [
        {"selector": "th, td", "props": "vertical-align: top"},
        {"selector": "thead th", "props": "white-space: nowrap"},
    ]
    styled = styled.set_table_styles(top, overwrite=False)
    return styled.format_index(escape).format_index(_head_html, axis=1)


def _head_html(column: Any) -> str:
    """Return the head of a column in the user's language; if that is not its name, with the name as its tooltip."""
    words = {each.column: say(each.name) for each in CONDITIONS} | column_words()
    base, _, end = str(column).rpartition("_")
    ends = {base, end} <= words.keys() and end in ("low", "high")  # of an interval
    head = words.get(column) or (f"{words[base]} {words[end]}" if ends else column)
    if language() == "en" or head == column:
        return escape(column)
    return f'<span title="{escape(column)}">{escape(head)}</span>'
