"""Return what the prompt panel shows, as HTML: the diff, the cost of a trial, and what the trial changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from statistics import fmean

from ...base.messages import listed, say
from ...base.pass_rule import run_rule
from ...base.showing import block, escape, question_html
from ...records import EvaluationResult
from ...report.trial import PromptTrial, QuestionChange, TrialPlan
from ..state.trials import Trial

_CONTEXT = 2  # unchanged lines around a change


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
    return block("", f"<b>{title}</b>{say(' (- base, + new)')}", shown if rows else same)


def placeholders_html(names: Iterable[str]) -> str:
    """Return HTML that says which placeholders a usable prompt has."""
    found = listed(f"{{{name}}}" for name in sorted(names))
    return block("good", escape(say("✅ Placeholders: {names}", names=found)))


def work_html(work: TrialPlan) -> str:
    """Return HTML with what the user should know of a trial's cost before it starts."""
    lines = []
    if work.base_calls:
        words = (
            "{calls} of them are for the base prompt (the scores in the log are of another judge or prompt, and "
            "cannot be compared)"
        )
        lines.append(say(words, calls=work.base_calls))
    if work.kind == "assistant":
        words = (
            "The assistant answers anew, which takes calls too. The difference is that of the answers and the "
            "noise of judging together"
        )
        lines.append(say(words))
    if work.is_unread:
        words = (
            "The embedded {who} does not read the prompt, so a change makes no difference; choose an LLM as {who} "
            "to try it"
        )
        lines.append(say(words, who="Judge" if work.kind == "judge" else say("Assistant")))
    return block("warn", *lines) if lines else ""


def trial_label(trial: Trial) -> str:
    """Return a label for a trial: its start, base prompt, change of the mean score, and the user's note."""
    choice = trial.choice
    if not trial.after:
        moved = say("not finished")
    elif trial.difference is None:
        moved = say("difference unknown")
    else:
        moved = say("overall {difference:+.1f}", difference=trial.difference)
    words = [trial.id[5:16].replace("T", " "), choice.base, moved, trial.note]
    return " ".join(word for word in words if word)


def effect_html(effect: PromptTrial, trial: Trial) -> str:
    """Return HTML that shows what the edited prompt changed: the differences between the scores, paired by question,
    then each question with the change of its verdict (if there is one) and its results with both prompts."""
    same = "The answers themselves differ. The differences are paired by question."
    if effect.same_answers:
        same = "The same stored answers were judged."
    title = say("Result: difference from the base prompt {base}", base=trial.choice.base)
    line = run_rule(effect.after.run).line
    each = "".join(_question(both, line) for both in effect.questions)
    return (
        block("", f"<h2>{escape(title)}</h2>{escape(trial_label(trial))}<br>{say(same)}")
        + effect.comparison._repr_html_()
        + block("", f"<b>{say('Scores and reasons by question')}</b>{each}")
    )


def _question(both: QuestionChange, line: float) -> str:
    question = both.after[0].question
    flip = f"<b>{escape(both.direction)}</b> " if both.direction else ""
    title = f"{flip}{escape(question.id)}. {escape(question.question)}"
    title += say(" ({before} → {after})", before=_mean(both.before), after=_mean(both.after))
    sides = "".join(
        f"<section><b>{name}</b>{''.join(question_html(result, line=line) for result in results)}</section>"
        for name, results in ((say("Base"), both.before), (say("New"), both.after))
    )
    is_open = " open" if both.direction else ""
    return f'<details{is_open}><summary>{title}</summary><div class="sides">{sides}</div></details>'


def _mean(results: Sequence[EvaluationResult]) -> str:
    means = [result.evaluation.average_score for result in results if result.evaluation.status == "ok"]
    return say("{points:.1f}", points=fmean(means)) if means else say("not scored")
