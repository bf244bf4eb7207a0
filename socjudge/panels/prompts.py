"""Show the panel that tries edited prompts. `PromptLab()` shows itself in a notebook cell.

state/trials.py runs the trials."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..base.messages import in_panel, say
from ..base.showing import block, escape
from ..errors import SocJudgeError
from ..prompts.saved import list_prompts
from ..prompts.templates import Prompt
from ..runs.estimate import unpriced
from .controls import (
    Payment,
    SessionPanel,
    Words,
    button,
    choice_box,
    heading,
    html,
    log_choices,
    model_box,
    text_box,
    told_in,
)
from .state.run import tell_idle_runs
from .state.trial_store import ALL, DISPUTED
from .state.trials import TrialSession
from .views.common import progress_text, stopped_html
from .views.prompts import diff_html, effect_html, text_html, trial_label, work_html

# Two columns from about 900 pixels on. In a narrower window, each takes the whole width.
_COLUMN = widgets.Layout(flex="1 1 26em", width="auto", min_width="min(100%, 26em)", max_width="100%")


class PromptLab(SessionPanel):
    """Edit a prompt, try it with the button 「採点してみる」 (try it), and see what it changes.

    The scores with the edited prompt are compared with those of the prompt from which it was made. A judge prompt is
    tried on the stored answers of a run, so such a trial costs only judge calls. In a trial of an assistant prompt, the
    assistant answers the run's questions again. Trials run in the background and are kept in logs_dir/trials, apart
    from the history. No trial starts before a click, and no trial that costs money starts before the cost box is
    ticked.
    """

    session: TrialSession

    def __init__(self, *, logs_dir: Path | str | None = None, index_dir: Path | str | None = None) -> None:
        logs_dir = logs_dir or constants.LOGS_DIR
        index_dir = index_dir or constants.INDEX_DIR
        self.session = TrialSession.over(logs_dir=Path(logs_dir), index_dir=Path(index_dir))
        self._logs: list[str] = []
        self._log_choices: list[tuple[str, str]] = []  # the logs as the list shows them
        kinds = [(say("Judge's prompt"), "judge"), (say("Assistant prompt"), "assistant")]
        self.kind, self.source, self.base, self.answers = (
            choice_box(name)
            for name in (
                say("What to try"),
                say("Evaluation log"),
                say("Base prompt"),
                say("Answers to judge"),
            )
        )
        self.kind.options = kinds
        self.judge_model = model_box("Judge")
        self.assistant_model = model_box(say("Assistant"))
        self.editor = widgets.Textarea(
            description=say("Prompt (edit it here)"),
            rows=24,
            style={"description_width": "initial"},
            layout=widgets.Layout(width="calc(100% - 4px)", flex_flow="column"),
        )
        self.undo_button = button(say("Undo"), "undo")
        self.note = text_box(say("Note"), placeholder=say("What was changed"))
        self.payment = Payment(self._settle)
        self.max_cost_usd, self.allow_cost = self.payment.max_cost_usd, self.payment.allow_cost
        self.cost = self.payment.cost
        self.try_button = button(say("Try it"), "play", button_style="primary")
        self.stop_button = button(say("Stop"), "stop")
        self.bar = widgets.IntProgress(layout=widgets.Layout(width="auto"))
        self.trials = choice_box(say("Trials so far"))
        self.reopen_button = button(say("Go back to this trial"), "history")
        self.name = text_box(say("Name to save as"), placeholder=say("For example: guide-2"))
        self.author = text_box(say("Author"))
        self.save_button = button(say("Save as"), "save")
        self.check, self.diff, self.status, self.results, self.saved = (html() for _ in range(5))
        self._unfit = False  # whether the prompt cannot be tried
        self._is_named = False  # whether the name for saving can be used
        self._filling = False  # true while the panel itself sets controls
        self._lock = threading.Lock()

        # A box of its own, because controls share layouts and would be hidden together.
        self.answering = widgets.VBox([self.assistant_model])
        self.history = widgets.VBox([self.trials, widgets.HBox([self.reopen_button])])
        columns = [widgets.VBox([self.editor, self.check, widgets.HBox([self.undo_button])], layout=_COLUMN)]
        columns.append(widgets.VBox([self.diff], layout=_COLUMN))
        super().__init__(
            [
                heading(f"📝 {say('Try a prompt')}"),
                self.kind, self.source, self.base, self.answers, self.judge_model, self.answering,
                widgets.Box(columns, layout=widgets.Layout(flex_flow="row wrap", grid_gap="0 1em")),
                self.note, self.max_cost_usd, self.payment,
                widgets.HBox([self.try_button, self.stop_button]), self.bar, self.status, self.results, self.history,
                self.name, self.author, widgets.HBox([self.save_button]), self.saved,
            ]
        )  # fmt: skip
        self.add_class("socjudge-prompt-lab")
        self._fill()
        for name, control in self._choices.items():
            control.observe(lambda change, name=name: self._choose(name, change["new"]), "value")
        self.payment.on_change = lambda _: self._change()
        self.reopen_button.on_click(lambda _: self._reopen())
        self.undo_button.on_click(lambda _: self._undo())
        self.try_button.on_click(lambda _: self._start())
        self.stop_button.on_click(lambda _: self.session.stop())
        self.name.observe(lambda _: self._check_name(), "value")
        self.save_button.on_click(lambda _: self._save())
        self._follow_session(self._follow)

    def reload(self) -> None:
        """List the logs and prompts again. What was typed and chosen is kept."""
        if not self.session.is_busy:
            self.session.choose_log()
            self._fill()

    @property
    def effect(self) -> Any:
        """Return the `PromptTrial` of the trial that is shown. Return None if no finished trial is shown."""
        return self.session.effect

    @property
    def _choices(self) -> dict[str, Any]:
        return {  # {name of a field of TrialSettings: its control}
            "kind": self.kind, "log": self.source, "base": self.base, "text": self.editor, "answers": self.answers,
            "judge_model": self.judge_model, "assistant_model": self.assistant_model,
        }  # fmt: skip

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

    def _change(self) -> None:
        self.session.stop_changed()
        self._redraw()

    def _undo(self) -> None:
        self.session.undo()
        self._fill()

    def _reopen(self) -> None:
        trial = next(trial for trial in self.session.trials if trial.id == self.trials.value)
        self._then(lambda: self.session.reopen(trial), self._fill)
        self.note.value = trial.note

    def _start(self) -> None:
        self._settle()  # a click may come before the page has followed a change
        if not self.try_button.disabled:
            limit = self.payment.limit
            if refused := self.payment.take():
                self.status.value = refused
            else:
                self.session.start(note=self.note.value.strip(), max_cost_usd=limit)

    def _check_name(self) -> None:
        name, self._is_named = self.name.value.strip(), False
        self.saved.value = ""
        if name:
            with told_in(self.saved):
                self.saved.value = block("", escape(say("Will be saved as {path}", path=self.session.check_name(name))))
                self._is_named = True
        self._redraw()

    def _save(self) -> None:
        with told_in(self.saved):
            path = self.session.save(self.name.value.strip(), author=self.author.value, note=self.note.value)
            where = say("Judge prompt") if self.kind.value == "judge" else say("Assistant prompt")
            self._is_named = False  # the name is now taken
            tell_idle_runs()
            self.saved.value = block(
                "good",
                escape(say("✅ {name} is saved", name=path.name)),
                escape(
                    say(
                        'To use it in the next evaluation, choose {name} as "{where}" in RunPanel',
                        where=where,
                        name=path.stem,
                    )
                ),
            )
            self._fill()

    # -- what is shown

    def _fill(self) -> None:
        session, choice = self.session, self.session.choice
        self._filling = True
        try:
            logs, bases = session.logs, list_prompts(choice.kind)
            parts = [
                (say("All"), ALL),
                (say("Answers on which judges disagree"), DISPUTED),
                *((name, name) for name in session.categories),
            ]
            self.kind.value = choice.kind
            # The current choice is offered even if it no longer exists. A text below says what to do.
            if logs != self._logs:
                self._logs, labels = logs, {log.name: label for label, log in log_choices(session.logs_dir)}
                self._log_choices = [(labels.get(name, name), name) for name in logs]
            gone = [] if choice.log in logs else [(choice.log, choice.log)]
            self.source.options = [*gone, *self._log_choices]
            self.base.options = bases if choice.base in bases else [choice.base, *bases]
            self.answers.options = parts if choice.answers in dict(parts).values() else [*parts, choice.answers]
            for name, control in self._choices.items():
                control.value = getattr(choice, name)
        finally:
            self._filling = False
        self._settle()

    def _list_trials(self) -> None:
        numbered = list(enumerate(self.session.trials, start=1))
        labels = [(f"{number}. {trial_label(trial)}", trial.id) for number, trial in reversed(numbered)]
        if list(self.trials.options) != labels:
            self.trials.options = labels
            self.trials.value = labels[0][1]
        self.history.layout.display = "" if labels else "none"

    def _settle(self) -> None:
        session, choice = self.session, self.session.choice
        prompt = Prompt(choice.base, choice.text)
        self.diff.value, problem = "", ""
        with in_panel():
            try:
                self.diff.value = diff_html(session.base_text, choice.text)
                session.check_text()
            except SocJudgeError as error:
                problem = str(error)
        self.check.value = text_html(problem, prompt.placeholders)
        self._unfit, shown, due, names = True, Words(), None, []
        if not problem:
            with told_in(shown):
                work = session.plan()
                due, names = work.left, [model.name for side in work.sides for model in unpriced(side)]
                shown.value = work_html(work, choice)
                self._unfit = False
        self.payment.offer(due, shown.value, names)
        self._redraw()
        self.answering.layout.display = "" if choice.kind == "assistant" else "none"

    def _follow(self) -> None:
        """Update the panel after a change of the session, which calls this method in its own thread."""
        if self.session.is_busy:
            self._redraw()
            return
        if self.session.changed_late:
            self.session.choose(**{name: control.value for name, control in self._choices.items()})
        self._settle()  # after a trial has ended, fewer answers may have to be judged

    def _redraw(self) -> None:
        session, progress = self.session, self.session.progress
        with self._lock, in_panel():  # the session's thread calls this method too
            self.try_button.disabled = session.is_busy or self._unfit or not self.payment.is_ready
            self.stop_button.disabled = session.state != "running"
            self.save_button.disabled = session.is_busy or not self._is_named
            self.undo_button.disabled = session.is_busy or not session.can_undo
            for control in (*self._choices.values(), self.reopen_button, self.note, self.allow_cost, self.max_cost_usd):
                control.disabled = session.is_busy
            self.bar.max, self.bar.value = max(progress.total, 1), progress.done
            self.bar.layout.visibility = "visible" if progress.total else "hidden"
            self.status.value = self._status_html()
            self.results.value = effect_html(session.effect, session.trial) if session.effect and session.trial else ""
            self._list_trials()

    def _status_html(self) -> str:
        session = self.session
        numbers = progress_text(session.progress)
        # The end of a trial is only shown while its settings are still chosen.
        is_other = not (session.is_busy or session.changed_late) and session.tried != session.choice
        match "idle" if is_other else session.state:
            case "running":
                return block("", say("⏳ Judging... other cells can be run meanwhile"), numbers)
            case "stopping" | "stopped":
                return stopped_html(session, say("Try it"))
            case "failed":
                return block("bad", say("⚠️ Judging cannot go on ({numbers})", numbers=numbers), escape(session.problem))
            case "finished":
                return block("good", say("✅ Judged ({numbers})", numbers=numbers))
        if self._unfit:
            return ""
        try:
            waiting = session.unfinished()
        except SocJudgeError as error:
            return block("bad", escape(error))
        if not waiting:
            return ""
        done, total = waiting
        return block(
            "warn",
            say('This trial was stopped ({done}/{total}); "Try it" takes it up from there', done=done, total=total),
        )
