"""Show the panel that tries edited prompts. `PromptLab()` shows itself in a notebook cell.

state/trials.py runs the trials."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..base.messages import listed, say
from ..base.pass_rule import run_rule
from ..base.showing import block, escape, question_html
from ..prompts.saved import list_prompts
from ..records import EvaluationResult
from ..report.trial import PromptTrial, QuestionChange, TrialPlan
from ..runs.forecast import RunPlan
from .controls import Words, button, field, heading, html, log_choices, model_box, told_in
from .state.session import State, tell_idle
from .state.trials import Trial, TrialSession
from .work import WorkPanel

_CONTEXT = 2  # unchanged lines around a change
# Two columns from about 900 pixels on. In a narrower window, each takes the whole width.
_COLUMN = {"flex": "1 1 26em", "width": "auto", "min_width": "min(100%, 26em)", "max_width": "100%"}


class PromptLab(WorkPanel):
    """Edit a prompt, try it with the button 「採点してみる」 (try it), and see what it changes.

    The scores with the edited prompt are compared with those of the prompt from which it was made. A judge prompt is
    tried on the stored answers of a run, so such a trial costs only judge calls. In a trial of an assistant prompt, the
    assistant answers the run's questions again. Trials run in the background and are kept in logs_dir/trials, apart
    from the history. No trial starts before a click, and no trial that costs money starts before the cost box is
    ticked.
    """

    session: TrialSession

    def __init__(self, *, logs_dir: Path | str | None = None, index_dir: Path | str | None = None) -> None:
        folders = {"logs_dir": logs_dir or constants.LOGS_DIR, "index_dir": index_dir or constants.INDEX_DIR}
        super().__init__(TrialSession.over(**{name: Path(folder) for name, folder in folders.items()}), say("Try it"))
        self.try_button = self.start_button
        self._logs: list[tuple[str, str]] = []  # as the list shows them
        self._work: TrialPlan  # what a start would do, if the prompt can be tried
        self._shown: PromptTrial | None = None  # the effect that is shown
        self._filling = False  # true while the panel itself sets controls
        kinds = [(say("Judge's prompt"), "judge"), (say("Assistant prompt"), "assistant")]
        self.kind = field(widgets.Dropdown, say("What to try"), options=kinds)
        self.source = field(widgets.Dropdown, say("Evaluation log"))
        self.base = field(widgets.Dropdown, say("Base prompt"))
        self.judge_model = model_box("Judge", "judge")
        self.assistant_model = model_box(say("Assistant"), "answer")
        self.editor = widgets.Textarea(
            description=say("Prompt (edit it here)"),
            tooltip="",
            rows=24,
            style={"description_width": "initial"},
            layout={"width": "calc(100% - 4px)", "flex_flow": "column"},
        )
        self.note = field(widgets.Text, say("Note"), placeholder=say("What was changed"))
        self.trials = field(widgets.Dropdown, say("Trials so far"))
        self.reopen_button = button(say("Go back to this trial"), "history")
        self.name = field(widgets.Text, say("Name to save as"), placeholder=say("For example: guide-2"))
        self.save_button = button(say("Save as"), "save")
        self.check, self.diff, self.results, self.saved = (html() for _ in range(4))
        self._choices = {  # {name of a field of TrialSettings: its control}
            "kind": self.kind,
            "log": self.source,
            "base": self.base,
            "text": self.editor,
            "judge_model": self.judge_model,
            "assistant_model": self.assistant_model,
        }
        self._locked += [*self._choices.values(), self.reopen_button, self.note, self.save_button]
        # A box of its own, because controls share layouts and would be hidden together.
        self.answering = widgets.VBox([self.assistant_model])
        self.history = widgets.VBox([self.trials, widgets.HBox([self.reopen_button])])
        self.children = self._parts()
        self.add_class("socjudge-prompt-lab")
        self._fill()
        for name, control in self._choices.items():
            control.observe(lambda change, name=name: self._choose(name, change["new"]), "value")
        self.reopen_button.on_click(lambda _: self._reopen())
        self.save_button.on_click(lambda _: self._save())
        self._follow_session()

    def _parts(self) -> list[Any]:
        edited = widgets.VBox([self.editor, self.check], layout=_COLUMN)
        beside = widgets.VBox([self.diff], layout=_COLUMN)
        return [
            heading(f"📝 {say('Try a prompt')}"),
            self.kind, self.source, self.base, self.judge_model, self.answering,
            widgets.Box([edited, beside], layout={"flex_flow": "row wrap", "grid_gap": "0 1em"}),
            self.note, self.max_cost_usd, self.payment, self.buttons, self.bar, self.status, self.results, self.history,
            self.name, widgets.HBox([self.save_button]), self.saved,
        ]  # fmt: skip

    def reload(self) -> None:
        """List the logs and prompts again. What was typed and chosen is kept."""
        if not self.session.is_busy:
            self.session.choose_log()
            self._fill()

    @property
    def effect(self) -> PromptTrial | None:
        """Return the `PromptTrial` of the trial that is shown. Return None if no finished trial is shown."""
        return self.session.effect

    # -- what a person does

    def _choose(self, name: str, value: str) -> None:
        if self._filling:
            return
        if self.session.is_busy:
            # the trial was started without this change; the change is adopted when the trial has ended
            self.session.stop_changed()
            return
        chosen = {name: value.strip() if name.endswith("_model") else value}
        # Other controls depend on these.
        follow = self._fill if name in ("kind", "log", "base") else self._settle
        self._then(lambda: self.session.choose(**chosen), follow)

    def _then(self, act: Callable[[], Any], follow: Callable[[], Any]) -> None:
        problem = Words()
        with told_in(problem):
            act()  # its error, such as that a prompt no longer exists, is shown in the panel
        follow()
        if problem.value:
            self.status.value = problem.value

    def _reopen(self) -> None:
        trial = next(trial for trial in self.session.trials if trial.id == self.trials.value)
        self._then(lambda: self.session.reopen(trial), self._fill)
        self.note.value = trial.note

    def _save(self) -> None:
        with told_in(self.saved):
            path = self.session.save(self.name.value.strip(), note=self.note.value)
            where = say("Judge prompt") if self.kind.value == "judge" else say("Assistant prompt")
            tell_idle()
            self._fill()
            saved = say("✅ {name} is saved", name=path.name)
            use = say(
                'To use it in the next evaluation, choose {name} as "{where}" in RunPanel', where=where, name=path.stem
            )
            self.saved.value = block("good", escape(saved), escape(use))

    # -- what is tried

    def _plan(self) -> tuple[Sequence[RunPlan], str]:
        session, choice, text_problem = self.session, self.session.choice, Words()
        self.diff.value = self.check.value = ""
        with told_in(text_problem):
            self.diff.value = diff_html(session.base_text, choice.text)
            self.check.value = placeholders_html(session.checked().placeholders)
        self.answering.layout.display = "" if choice.kind == "assistant" else "none"
        if text_problem.value:
            self.check.value = block("bad", say("⚠️ This prompt cannot be used")) + text_problem.value
            return [], ""
        self._work = work = session.plan()
        return work.sides, work_html(work)

    def _begin(self, limit: float | None) -> None:
        with told_in(self.status):
            self.session.start(self._work, note=self.note.value.strip(), max_cost_usd=limit)

    def _follow(self) -> None:
        if self.session.changed_late and not self.session.is_busy:
            self.session.choose(**{name: control.value for name, control in self._choices.items()})
        super()._follow()

    # -- what is shown

    def _fill(self) -> None:
        session, choice = self.session, self.session.choice
        self._filling = True
        try:
            if session.logs != [name for _, name in self._logs]:
                labels = {log.name: label for label, log in log_choices(session.logs_dir)}
                self._logs = [(labels.get(name, name), name) for name in session.logs]
            _offer(self.source, self._logs, choice.log)
            _offer(self.base, list_prompts(choice.kind), choice.base)
            for name, control in self._choices.items():
                control.value = getattr(choice, name)
        finally:
            self._filling = False
        self._settle()

    def _draw(self) -> None:
        session = self.session
        if session.effect is not self._shown:
            self._shown = session.effect
            self.results.value = effect_html(session.effect, session.trial) if session.effect and session.trial else ""
        numbered = list(enumerate(session.trials, start=1))
        labels = [(f"{number}. {trial_label(trial)}", trial.id) for number, trial in reversed(numbered)]
        if list(self.trials.options) != labels:
            self.trials.options = labels
            self.trials.value = labels[0][1]
        self.history.layout.display = "" if labels else "none"

    def _state(self) -> State:
        session = self.session
        # The end of a trial is only shown while its settings are still chosen.
        is_other = not (session.is_busy or session.changed_late) and session.tried != session.choice
        return "idle" if is_other else session.state


def _offer(box: Any, options: list[Any], chosen: str) -> None:
    """Offer texts, or (label, value) pairs. What is chosen is offered even if it is gone; a text says what to do then."""
    values = [option if isinstance(option, str) else option[1] for option in options]
    gone = chosen if values == options else (chosen, chosen)
    box.options = options if chosen in values else [gone, *options]


# -- what is shown, as HTML


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
