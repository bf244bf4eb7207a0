"""Return what the prompt panel shows, as HTML: the diff, the cost of a trial, and what the trial changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ...base.messages import listed, say
from ...base.showing import block, escape
from ...base.verdict import reason_text, score_text
from ...records import EvaluationResult
from ...report.trial import PromptTrial, QuestionChange, TrialPlan
from ..state.trial_store import Trial, TrialSettings
from .common import cost_html

_CONTEXT = 2  # unchanged lines around a change

# Half-transparent colours, for light and dark themes.
STYLE = """<style>
.socjudge .diff { font-family: var(--jp-code-font-family, monospace); font-size: .85em; line-height: 1.5;
  border: 1px solid var(--jp-border-color1, #bbb); border-radius: 2px; max-height: 40em; overflow-y: auto; }
.socjudge .diff div { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .4em 0 1.6em; text-indent: -1.2em; }
.socjudge .diff ins, .socjudge .diff del { display: block; text-decoration: none; }
.socjudge .diff .new { background: rgba(46, 160, 67, .2); } .socjudge .diff .old { background: rgba(229, 57, 53, .2); }
.socjudge .diff .gap { color: var(--jp-ui-font-color2, #666); }
.socjudge .sides > div { border-top: 2px solid var(--jp-border-color1, #bbb); }
.socjudge .sides ul { padding-left: 1.2em; margin: .2em 0; }
</style>"""


def diff_html(before: str, after: str) -> str:
    """Return the differences between two texts as HTML, line by line. If the texts are equal, the HTML says so."""
    old, new = before.split("\n"), after.split("\n")
    rows: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        if group[0][1]:
            from_line = say("… from line {line}", line=group[0][1] + 1)
            rows.append(f'<div class="gap">{from_line}</div>')
        for kind, i, j, k, m in group:
            if kind == "equal":
                rows += [f"<div>  {escape(line)}</div>" for line in old[i:j]]
            else:
                rows += [f'<del><div class="old">- {escape(line)}</div></del>' for line in old[i:j]]
                rows += [f'<ins><div class="new">+ {escape(line)}</div></ins>' for line in new[k:m]]
    title = say("Changes")
    shown = f'<div class="diff" tabindex="0" role="region" aria-label="{title}">{"".join(rows)}</div>'
    same = say("The same as the base prompt")
    return STYLE + block("", f"<b>{title}</b>{say(' (- base, + new)')}", shown if rows else same)


def text_html(problem: str, placeholders: set[str]) -> str:
    """Return HTML that says why the edited prompt cannot be used (`problem`), or which placeholders it has."""
    if problem:
        return block("bad", say("⚠️ This prompt cannot be used"), escape(problem))
    names = listed(f"{{{name}}}" for name in sorted(placeholders))
    return block("good", escape(say("✅ Placeholders: {names}", names=names)))


def work_html(work: TrialPlan, choice: TrialSettings) -> str:
    """Return the cost of a trial as HTML, with what the user should know before it starts."""
    lines = []
    if work.base_calls:
        lines.append(
            say(
                "{calls} of them are for the base prompt (the scores in the log are of another judge or prompt, and "
                "cannot be compared)",
                calls=work.base_calls,
            )
        )
    if choice.kind == "assistant":
        lines.append(
            say(
                "The assistant answers anew, which takes calls too. The difference is that of the answers and the "
                "noise of judging together"
            )
        )
    if work.is_unread:
        who = "Judge" if choice.kind == "judge" else say("Assistant")
        lines.append(
            say(
                "The embedded {who} does not read the prompt, so a change makes no difference; choose an LLM as "
                "{who} to try it",
                who=who,
            )
        )
    return cost_html(work.left, work.edited.total) + (block("warn", *lines) if lines else "")


def trial_label(trial: Trial) -> str:
    """Return a label for a trial: its start, base prompt, change of the mean score, and the user's note."""
    choice = trial.choice
    if not trial.after:
        moved = say("stopped")
    elif trial.difference is None:
        moved = say("difference unknown")
    else:
        moved = say("overall {difference:+.1f}", difference=trial.difference)
    words = [trial.id[5:16].replace("T", " "), choice.base, moved, trial.note]
    return " ".join(word for word in words if word)


def effect_html(effect: PromptTrial, trial: Trial) -> str:
    """Return HTML that shows what the edited prompt changed: the differences between the scores, paired by question,
    then each question with the change of its verdict (if there is one) and its results with both prompts."""
    same = (
        say("The same stored answers were judged.")
        if effect.same_answers
        else say("The answers themselves differ. The differences are paired by question.")
    )
    title = say("Result: difference from the base prompt {base}", base=trial.choice.base)
    each = "".join(_question(both, effect) for both in effect.questions)
    return (
        STYLE
        + block("", f"<h2>{escape(title)}</h2>{escape(trial_label(trial))}<br>{same}")
        + effect.comparison._repr_html_()
        + block("", f"<b>{say('Scores and reasons by question')}</b>{each}")
    )


def _side_names() -> tuple[str, str]:
    return say("Base"), say("New")


def _question(both: QuestionChange, effect: PromptTrial) -> str:
    question = both.after[0].question
    means = [_mean(side) for side in (both.before, both.after)]
    flip = f"<b>{escape(both.direction)}</b> " if both.direction else ""
    title = f"{flip}{escape(question.id)}. {escape(question.question)}"
    title += say(" ({before} → {after})", before=means[0], after=means[1])
    stored = f"{say('Stored answer')}<pre>{escape(both.after[0].answer.answer)}</pre>"
    answers = stored if effect.same_answers else ""
    sides = "".join(
        f"<div><b>{name}</b> {say('Mean')} {mean}{_reasons(side)}{'' if effect.same_answers else _answers(side)}</div>"
        for name, mean, side in zip(_side_names(), means, (both.before, both.after), strict=True)
    )
    is_open = " open" if both.direction else ""
    return f'<details{is_open}><summary>{title}</summary><div class="sides">{sides}</div>{answers}</details>'


def _mean(results: Sequence[EvaluationResult]) -> str:
    evaluation = [result.evaluation.average_score for result in results if result.evaluation.status == "ok"]
    return say("{points:.1f}", points=sum(evaluation) / len(evaluation)) if evaluation else say("not scored")


def _reasons(results: Sequence[EvaluationResult]) -> str:
    lists = []
    for result in results:
        evaluation = result.evaluation
        if evaluation.status != "ok":
            lists.append(f"<p>{escape(say('Could not be scored: {error}', error=evaluation.error))}</p>")
            continue
        reasons = "".join(
            f"<li><b>{escape(name)} {score_text(score)}</b> {escape(reason_text(evaluation, name))}</li>"
            for name, score in evaluation.scores.items()
        )
        lists.append(f"<ul>{reasons}</ul>{escape(evaluation.overall_comment)}")
    return "".join(lists)


def _answers(results: Sequence[EvaluationResult]) -> str:
    answers = dict.fromkeys(result.answer.answer for result in results)
    return "".join(f"{say('Answer')}<pre>{escape(answer)}</pre>" for answer in answers)
