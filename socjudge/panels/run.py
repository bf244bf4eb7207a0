"""Show the panel that runs an evaluation. `RunPanel()` shows itself in a notebook cell.

The code that runs the evaluation is in state/run.py."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..base.messages import in_panel, listed, say
from ..base.showing import block, escape
from ..models.gate import get_settings
from ..models.listing import list_models
from ..runs.estimate import unpriced
from ..runs.forecast import RunPlan
from ..runs.journal import drop_journal
from ..runs.unfinished import UnfinishedRun
from ..settings import open_project
from .controls import (
    AUTO,
    OWN,
    ROW,
    KeyBox,
    Payment,
    SessionPanel,
    Words,
    as_choice,
    button,
    choice_box,
    dataset_box,
    heading,
    html,
    list_prompts_in,
    log_choices,
    model_box,
    number_box,
    own_choices,
    prompt_box,
    seconds_box,
    tick_box,
    told_in,
    usual_model,
)
from .finished import Finished
from .state.run import HOW, RunSession, Settings
from .uploads import UploadBox
from .views.common import cost_html, progress_text, results_html, rule_html, running_html, stopped_html

# The specification's words, which are Japanese in every language.
RUN = "評価を実行"
RUN_TITLE = "🧪 評価実行"
SHOWN_FILES = 3  # changed runbooks that are named

# Controls with the same names as their settings.
_MODELS = ("assistant_model", "judge_model")
_PROMPTS = ("judge_prompt", "assistant_prompt")
_PLAIN = (
    "answer_repeats", "judge_repeats", "k", "max_concurrency", "require_certificate", "output_tokens",
    "timeout_s", "patience_s",
)  # fmt: skip


class RunPanel(SessionPanel):
    """Show 「🧪 評価実行」 (run an evaluation) of the specification.

    You choose whose answers are judged, the judge, its prompt and the most that it may cost, see what this run costs,
    start and stop it, and read the results. 「詳しい設定」 has all other settings.

    The run goes on in the background. Other cells can be executed at the same time, and closing the browser tab does
    not end the run. If the panel's cell is executed again, it shows the same run. No run starts before a click, and no
    run that costs money starts before the cost box is ticked."""

    session: RunSession

    def __init__(
        self,
        *,
        dataset: Path | str | None = None,
        runbooks: Path | str | None = None,
        index_dir: Path | str | None = None,
        logs_dir: Path | str | None = None,
    ) -> None:
        runbooks = runbooks or constants.RUNBOOKS_DIR
        index_dir = index_dir or constants.INDEX_DIR
        logs_dir = logs_dir or constants.LOGS_DIR
        self.session = RunSession.over(runbooks=Path(runbooks), index_dir=Path(index_dir), logs_dir=Path(logs_dir))
        self.judge_model = model_box("Judge", usual_model("judge"))
        self.assistant_model = model_box(say("Assistant"), usual_model("answer"))
        self.judge_prompt = prompt_box(say("Judge prompt"), "judge")
        self.assistant_prompt = prompt_box(say("Assistant prompt"), "assistant")
        self.dataset = dataset_box(say("Evaluation dataset"), dataset)
        self._ask_anew = (say("Have the assistant answer"), "")
        self.answers = choice_box(
            say("Answers to judge"),
            options=[self._ask_anew, *own_choices()],
            tooltip=say(
                "Choose an earlier run to judge its answers again with another judge or prompt; the assistant "
                "is not asked"
            ),
        )
        if default := open_project().answers:
            self.answers.value = f"{OWN}{default}"
        self.answer_repeats = number_box(say("Answers per question"), 1)
        self.judge_repeats = number_box(say("Judgements per answer"), 1)
        self.require_certificate = tick_box(say("Require a certificate (no run unless one holds for these settings)"))
        self.k = number_box(say("Passages per question, k"), open_project().k)
        self.max_concurrency = number_box(say("Calls at a time"), 8)
        self.payment = Payment(self._settle)
        self.max_cost_usd, self.allow_cost = self.payment.max_cost_usd, self.payment.allow_cost
        self.cost = self.payment.cost
        usual = get_settings()  # values from the environment
        self.output_tokens = number_box(say("Limit of output tokens"), usual.output_tokens, most=1_000_000)
        self.timeout_s = seconds_box(say("Wait for a reply (seconds)"), usual.timeout_s, least=0.1)
        self.patience_s = seconds_box(say("Wait for a service to return (seconds)"), usual.patience_s)
        self.output_tokens.tooltip = say("The most that one reply may hold, with what the model thinks to itself")
        self.timeout_s.tooltip = say("Longer for models that run on a CPU or think for long")
        self.patience_s.tooltip = say(
            "When a service that has worked stops, this is how long its restart is waited for"
        )
        self.key = KeyBox(self._settle)
        self.fresh = tick_box(say("Begin anew"))
        self.list_button = button(say("Ask the server for its models"), "list")
        self.build_button = widgets.Button(description=say("Build the index"), icon="database", layout=AUTO)
        self.run_button = widgets.Button(description=RUN, icon="play", button_style="primary")
        self.stop_button = widgets.Button(description=say("Stop"), icon="stop")
        self.drop_button = widgets.Button(icon="trash", layout=AUTO)
        self._dropping = False  # whether the button was clicked once
        self.bar = widgets.IntProgress(layout=AUTO)
        self.index_text, self.rule, self.models, self.status, self.results = (html() for _ in range(5))
        self.finished = Finished(self.session.logs_dir, self._judge_again)
        self.answer_file = UploadBox(
            say("Add a file of answers"),
            constants.EVAL_DIR / "answers",
            (".csv", ".jsonl", ".xlsx"),
            self._take_answers,
        )
        self.dataset_file = UploadBox(
            say("Add questions"), constants.EVAL_DIR, (".json", ".csv", ".xlsx"), self._take_questions
        )
        self.runbook_file = UploadBox(
            say("Add a runbook"), self.session.runbooks, (".md", ".txt", ".docx", ".xlsx", ".pdf", ".html"),
            lambda _: self._settle(), say("; it is read after “Build the index”"),
        )  # fmt: skip
        self._preview: RunPlan | None = None  # what the settings mean; None if they cannot be used
        self._other_run: UnfinishedRun | None = None  # an interrupted run with other settings
        self._shown: Any = None  # the run whose results are shown
        self._lock = threading.Lock()

        if self.session.settings is not None:  # the cell was run again, so show the run that is or was under way
            self._take(self.session.settings)
        seldom = [
            self.assistant_model, self.assistant_prompt, self.dataset, self.answer_repeats, self.judge_repeats, self.k,
            self.max_concurrency, self.output_tokens, self.timeout_s, self.patience_s, self.require_certificate, self.fresh,
        ]  # fmt: skip
        first = [self.answers, self.judge_model, self.judge_prompt, self.max_cost_usd]
        self._controls = [*first, *seldom, self.allow_cost]
        hint = say(
            "The limit of output tokens is the length of one reply, with what a model thinks to itself. Wait "
            "longer for a model that runs on a CPU (600 seconds, say), and lower the limit for a model with a "
            "small context."
        )
        self.more = widgets.Accordion(
            [
                widgets.VBox(
                    [
                        widgets.HBox([*seldom, widgets.HTML(block("muted", hint))], layout=ROW), self.key,
                        self.dataset_file, self.runbook_file,
                    ]
                )
            ],
            titles=(say("More settings"),),
        )  # fmt: skip
        super().__init__(
            [
                heading(RUN_TITLE), widgets.HBox([self.build_button, self.index_text]),
                self.answers, self.answer_file, widgets.HBox([self.judge_model, self.list_button], layout=ROW), self.models,
                self.judge_prompt, self.max_cost_usd, self.rule, self.more, self.payment,
                widgets.HBox([self.run_button, self.stop_button]), self.bar, self.status, self.drop_button,
                self.results, self.finished,
            ]
        )  # fmt: skip
        self.add_class("socjudge-run-panel")
        self.payment.on_change = self._change
        for control in self._controls:
            if control not in (self.allow_cost, self.max_cost_usd):  # which the payment watches
                control.observe(lambda change: self._change(change["owner"]), "value")
        # What was added recently is listed when a person is about to choose.
        self.more.observe(lambda _: self.list_choices(), "selected_index")
        self.list_button.on_click(lambda _: self._list_models())
        self.build_button.on_click(lambda _: self.session.build_index())
        self.run_button.on_click(lambda _: self._start())
        self.drop_button.on_click(lambda _: self._drop())
        self.stop_button.on_click(lambda _: self.session.stop())
        self.list_choices()
        self._follow_session(self._follow)
        self._settle()

    @property
    def run(self) -> Any:
        """Return the finished run. Return None if there is none."""
        return self.session.run

    @property
    def settings(self) -> Settings:
        """Return the settings that are set in the controls."""
        chosen = self.answers.value
        own = chosen.removeprefix(OWN) if chosen.startswith(OWN) else ""
        return Settings(
            dataset=Path(self.dataset.value), answers=Path(chosen) if chosen and not own else None, own=own,
            max_cost_usd=self.payment.limit, fresh=self.fresh.value,
            **{name: getattr(self, name).value.strip() for name in _MODELS},
            **{name: getattr(self, name).value for name in (*_PROMPTS, *_PLAIN)},
        )  # fmt: skip

    def _take(self, settings: Settings) -> None:
        self.dataset.value = str(settings.dataset)
        for name in (*_MODELS, *_PLAIN):
            getattr(self, name).value = getattr(settings, name)
        self._list_answers()
        chosen = f"{OWN}{settings.own}" if settings.own else str(settings.answers or "")
        if chosen in [value for _, value in self.answers.options]:
            self.answers.value = chosen
        if settings.max_cost_usd is not None:
            self.max_cost_usd.value = 0 if settings.max_cost_usd == math.inf else settings.max_cost_usd
        for name in _PROMPTS:
            if getattr(settings, name) in getattr(self, name).options:
                getattr(self, name).value = getattr(settings, name)

    @property
    def _asking(self) -> list[Any]:
        # If stored answers are judged, these controls have no effect.
        return [self.assistant_model, self.assistant_prompt, self.dataset, self.answer_repeats, self.k]

    def list_choices(self) -> None:
        """List prompts and stored answers again. What was chosen stays chosen."""
        if not self.session.is_busy:
            self._list_prompts()
            self._list_answers()

    def _list_prompts(self) -> None:
        list_prompts_in(self.judge_prompt, "judge")
        list_prompts_in(self.assistant_prompt, "assistant")

    def _list_answers(self) -> None:
        chosen, folder = self.answers.value, self.session.logs_dir
        choices = [(label, str(log)) for label, log in log_choices(folder)] if folder.is_dir() else []
        choices = [*own_choices(), *choices]
        self.answers.options = [self._ask_anew, *choices]
        self.answers.value = chosen if chosen in [value for _, value in choices] else ""

    def _list_models(self) -> None:
        with told_in(self.models):
            names = list_models()
            for box in (self.judge_model, self.assistant_model):
                box.options = list(dict.fromkeys([*names, *box.options]))
            self.models.value = block("", escape(say("The server has: {names}", names=listed(names))))

    def _take_answers(self, path: Path) -> None:
        self._list_answers()
        value = f"{OWN}{path}"
        self.answers.options = [*self.answers.options, (say("answers of {name}", name=as_choice(path.name)), value)]
        self.answers.value = value

    def _take_questions(self, path: Path) -> None:
        self.dataset.value = str(path)

    def _judge_again(self, log: Path) -> str:
        self._list_answers()
        self.answers.value = str(log)
        self.judge_model.focus()
        return block("", say("The answers of this run are chosen above. Choose another judge there, and start"))

    def _change(self, control: Any) -> None:
        self.session.stop_changed()  # a run that is under way has other settings than the person saw
        if control is self.fresh:
            self._settle(self._preview)
        elif control is self.allow_cost or control in [getattr(self, name) for name in HOW]:
            self._redraw()  # it is the same run
        else:
            self._settle()

    def _start(self) -> None:
        self._settle()  # a click may come before the page has followed a change
        if not self.run_button.disabled:
            settings, plan = self.settings, self._preview
            if refused := self.payment.take():
                self.status.value = refused
                return
            self.fresh.value = False  # only once, because a run that is stopped now should be resumed
            self.session.start(settings, plan)

    def _drop(self) -> None:
        other = self._other()
        if other is None or not self._dropping:
            self._dropping = True  # the first click only asks whether to delete the run
            self._redraw()
            return
        with told_in(self.cost):
            drop_journal(other.path)
            self._settle()

    def _settle(self, earlier: RunPlan | None = None) -> None:
        self._preview, self._other_run, self._dropping = None, None, False
        problem, due, names = Words(), None, []
        with told_in(problem):
            self._preview = plan = self.session.preview(self.settings, earlier)
            self._other_run = self.session.find_other(plan)
            due, names = plan.left, [model.name for model in unpriced(plan.plan)] if plan.left.calls else []
            note = block("muted", *map(escape, plan.note.splitlines())) if plan.note else ""
            problem.value = cost_html(due, plan.n_questions, plan.already) + note
            self.rule.value = rule_html(plan.plan.rubric)
        self.payment.offer(due, problem.value, names)
        self._redraw()

    def _follow(self) -> None:
        """Update the panel after a change of the session, which calls this method in its own threads."""
        if self.session.is_busy:
            self._redraw()
        else:
            self._list_prompts()
            self._settle()  # after a run has ended, another number of calls may be due

    def _redraw(self) -> None:
        session = self.session
        with self._lock, in_panel():  # the session's threads call this method too
            has_index = session.has_index if not session.is_busy else session.state != "building"
            self.index_text.value = _index_html(session, has_index, is_needed=not self.answers.value)
            self.build_button.disabled = session.is_busy or has_index
            is_ready = has_index or self.answers.value  # the preview says if the index is needed even so
            self.run_button.disabled = session.is_busy or not is_ready or not self.payment.is_ready
            self.stop_button.disabled = session.state != "running"
            for control in self._controls:
                control.disabled = session.is_busy
            is_own = self.answers.value.startswith(OWN)
            for control in self._asking:
                means_something = is_own and control in (self.dataset, self.answer_repeats, self.k)
                control.disabled = session.is_busy or (bool(self.answers.value) and not means_something)
            self.build_button.layout.display = "none" if has_index else ""
            self.key.lock(session.is_busy)
            progress = session.progress
            self.bar.max, self.bar.value = max(progress.total, 1), progress.done
            self.bar.layout.visibility = "visible" if progress.total else "hidden"
            self.status.value = self._status_html()
            other = self._other()
            self.drop_button.layout.display = "none" if other is None else ""
            sure = say("Really discard it, with its {done} judged answers", done=other.done) if other else ""
            self.drop_button.description = sure if self._dropping else say("Discard it")
            run = session.run
            if session.state in ("finished", "failed") and run is not None and run is not self._shown:
                self._shown = run
                self.finished.show(run)
                self.results.value = results_html(run)
            elif session.state == "running" and self.results.value:
                self._shown, self.results.value = None, ""
                self.finished.show(None)

    def _state(self) -> str:
        is_stopped = self.session.state == "stopped" and not self.session.changed_late
        # A stopped run can only be resumed with its own settings.
        is_other = is_stopped and not self.settings.is_same_run(self.session.settings)
        return "idle" if is_other else self.session.state

    def _other(self) -> UnfinishedRun | None:
        # There is none while the panel must show something else: a task of the session, a problem, or an interrupted
        # run that the next start would resume.
        plan = self._preview
        is_free = plan is not None and self._state() == "idle" and not plan.problem and not plan.already
        return self._other_run if is_free else None

    def _status_html(self) -> str:
        session, progress = self.session, self.session.progress
        numbers = progress_text(progress)
        match self._state():
            case "running":
                return running_html(progress)
            case "stopping" | "stopped":
                return stopped_html(session, RUN)
            case "failed":
                failed = (
                    say("⚠️ The evaluation cannot go on ({numbers})", numbers=numbers)
                    if progress.total
                    else say("⚠️ Error")
                )
                return block("bad", failed, escape(session.problem))
            case "idle" if self._preview is not None:
                preview = self._preview
                if preview.problem:
                    return block("bad", escape(preview.problem))
                if preview.already:
                    return block(
                        "warn",
                        say(
                            "An earlier run was stopped ({done}/{total}); running takes it up from there",
                            done=preview.already,
                            total=preview.total,
                        ),
                    )
                if other := self._other():
                    judge = other.run.judge_model
                    words = say(
                        "A run with other settings was stopped (judge {judge}, {done}/{total}); with the same "
                        "settings it can be taken up",
                        judge=judge,
                        done=other.done,
                        total=other.total,
                    )
                    return block("warn", escape(words))
        return ""


def _index_html(session: RunSession, has_index: bool, *, is_needed: bool) -> str:
    if session.state == "building":
        progress = session.progress
        count = f" {progress.done}/{progress.total}" if progress.total else ""
        return block("", say("⏳ Building the index...{count}", count=count))
    if has_index:
        return block("", say("✅ The index is built"))
    if not is_needed:
        return ""
    changed = session.outdated
    if not changed:
        return block("", say("⚠️ The index is not built yet"))
    names = ", ".join(changed[:SHOWN_FILES]) + (" …" if len(changed) > SHOWN_FILES else "")
    return block(
        "", escape(say("⚠️ Runbooks changed after the index was built ({files}); press “Build the index”", files=names))
    )
