"""Show the panel that runs an evaluation. `RunPanel()` shows itself in a notebook cell."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import traitlets
from IPython import get_ipython

from .. import constants
from ..answering.dataset import load_eval_dataset
from ..base.messages import listed, say
from ..base.showing import block, clipped, escape
from ..models.gate import get_settings
from ..models.opening import list_models
from ..records import EvaluationRun, RunOptions
from ..runbooks.index import build_index, find_index, outdated_files
from ..runs.forecast import RunPlan, foresee
from ..runs.given_answers import open_answers
from ..runs.logs import load_run
from ..runs.plan import Plan, plan_answers, plan_rejudging
from ..settings import open_project
from .controls import (
    OWN,
    ROW,
    button,
    field,
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
)
from .finished import Finished
from .key_box import KeyBox
from .state.session import Progress, Session, State
from .uploads import UploadBox
from .views import index_html, results_html, rule_html
from .work import WorkPanel

# The specification's words, which are Japanese in every language.
RUN = "評価を実行"
RUN_TITLE = "🧪 評価実行"

# Controls that say what a run is. A stopped run is resumed only with the same values.
_WHAT = (
    "dataset", "answers", "assistant_model", "assistant_prompt", "answer_repeats", "k", "judge_model", "judge_prompt",
    "judge_repeats",
)  # fmt: skip
# How its calls are made. output_tokens is one of them, because a run that ended on a too small context is resumed with a
# lower limit. An answer that the limit cut off is `truncated` in the log.
_HOW = ("max_concurrency", "output_tokens", "timeout_s", "patience_s", "fresh")


class RunPanel(WorkPanel):
    """Show 「🧪 評価実行」 (run an evaluation) of the specification.

    You choose whose answers are judged, the judge, its prompt and the most that it may cost, see what this run costs,
    start and stop it, and read the results. 「詳しい設定」 has all other settings.

    The run goes on in the background. Other cells can be executed at the same time, and closing the browser tab does
    not end the run. If the panel's cell is executed again, it shows the same run. No run starts before a click, and no
    run that costs money starts before the cost box is ticked."""

    def __init__(
        self,
        *,
        dataset: Path | str | None = None,
        runbooks: Path | str | None = None,
        index_dir: Path | str | None = None,
        logs_dir: Path | str | None = None,
    ) -> None:
        self.runbooks, self.index_dir = Path(runbooks or constants.RUNBOOKS_DIR), Path(index_dir or constants.INDEX_DIR)
        self.logs_dir = Path(logs_dir or constants.LOGS_DIR)
        super().__init__(Session.over(runbooks=self.runbooks, index_dir=self.index_dir, logs_dir=self.logs_dir), RUN)
        self.run_button = self.start_button
        self._shown: EvaluationRun | None = None  # the run whose results are shown
        self._make_settings(dataset)
        self._make_rest()
        self._locked += [getattr(self, name) for name in (*_WHAT, *_HOW)]
        self._locked += [self.key.key, self.key.base_url, self.key.forget_button]
        self.more = self._folded_settings()
        self.children = [
            heading(RUN_TITLE),
            widgets.HBox([self.build_button, self.index_text]),
            self.answers,
            self.answer_file,
            widgets.HBox([self.judge_model, self.list_button], layout=ROW),
            self.models,
            self.judge_prompt,
            self.max_cost_usd,
            self.rule,
            self.more,
            self.payment,
            self.buttons,
            self.bar,
            self.status,
            self.results,
            self.finished,
        ]
        self.add_class("socjudge-run-panel")
        self._list_answers()
        for name, value in self.session.settings.items():  # the cell was run again, and shows the run that is or was
            with contextlib.suppress(traitlets.TraitError):  # a log or a prompt that is gone
                getattr(self, name).value = value
        for name in (*_WHAT, *_HOW):
            getattr(self, name).observe(lambda change: self._choose(change["owner"]), "value")
        self._follow_session()
        if shell := get_ipython():
            shell.events.register("post_run_cell", self._look_again)

    def close(self) -> None:
        """Close the panel, and stop looking for an index after each cell."""
        if shell := get_ipython():
            with contextlib.suppress(ValueError):  # it was closed before
                shell.events.unregister("post_run_cell", self._look_again)
        super().close()

    @property
    def run(self) -> EvaluationRun | None:
        """Return the finished run. Return None if there is none."""
        return self.session.run

    def list_choices(self) -> None:
        """List prompts and stored answers again. What was chosen stays chosen."""
        if not self.session.is_busy:
            self._list_prompts()
            self._list_answers()

    def _list_prompts(self) -> None:
        list_prompts_in(self.judge_prompt, "judge")
        list_prompts_in(self.assistant_prompt, "assistant")

    def _list_answers(self) -> None:
        chosen, logs = self.answers.value, log_choices(self.logs_dir) if self.logs_dir.is_dir() else []
        ours = (say("Have the assistant answer"), "")
        self.answers.options = [ours, *own_choices(), *((label, str(log)) for label, log in logs)]
        self.answers.value = chosen if chosen in [value for _, value in self.answers.options] else ""

    # -- controls

    def _make_settings(self, dataset: Path | str | None) -> None:
        project, usual = open_project(), get_settings()  # values from the environment
        self.answers = field(widgets.Dropdown, say("Answers to judge"), options=[("", ""), *own_choices()])
        self.answers.value = f"{OWN}{project.answers}" if project.answers else ""
        self.judge_model = model_box("Judge", "judge")
        self.judge_prompt = prompt_box(say("Judge prompt"), "judge")
        self.judge_repeats = number_box(say("Judgements per answer"), 1)
        self.assistant_model = model_box(say("Assistant"), "answer")
        self.assistant_prompt = prompt_box(say("Assistant prompt"), "assistant")
        ours = constants.EVAL_DATASET_PATH
        known = [path for path in (ours, ours.with_name("eval_dataset_extended.json")) if path.is_file()]
        self.dataset = field(
            widgets.Combobox,
            say("Evaluation dataset"),
            value=str(dataset or ours),
            options=list(map(str, known)),
            continuous_update=False,
        )
        self.answer_repeats = number_box(say("Answers per question"), 1)
        self.k = number_box(say("Passages per question, k"), project.k)
        self.max_concurrency = number_box(say("Calls at a time"), 8)
        self.output_tokens = number_box(say("Limit of output tokens"), usual.output_tokens, most=1_000_000)
        self.timeout_s = seconds_box(say("Wait for a reply (seconds)"), usual.timeout_s, least=0.1)
        self.patience_s = seconds_box(say("Wait for a service to return (seconds)"), usual.patience_s)
        self.fresh = tick_box(say("Begin anew"))

    def _make_rest(self) -> None:
        self.key = KeyBox(self._settle)
        self.list_button = button(say("Ask the server for its models"), "list")
        self.build_button = button(say("Build the index"), "database")
        self.index_text, self.rule, self.models, self.results = (html() for _ in range(4))
        self.finished = Finished(self.logs_dir, self._judge_again)
        answers, tables = constants.EVAL_DIR / "answers", (".csv", ".jsonl", ".xlsx")
        self.answer_file = UploadBox(say("Add a file of answers"), answers, tables, self._take_answers)
        self.dataset_file = UploadBox(
            say("Add questions"), constants.EVAL_DIR, (".json", ".csv", ".xlsx"), self._take_questions
        )
        texts = (".md", ".txt", ".docx", ".xlsx", ".pdf", ".html")
        self.runbook_file = UploadBox(say("Add a runbook"), self.runbooks, texts, lambda _: self._settle())
        self.list_button.on_click(lambda _: self._list_models())
        self.build_button.on_click(lambda _: self.session.begin("building", self._build, Progress()))

    def _folded_settings(self) -> Any:
        seldom = [
            self.assistant_model, self.assistant_prompt, self.dataset, self.answer_repeats, self.judge_repeats, self.k,
            self.max_concurrency, self.output_tokens, self.timeout_s, self.patience_s, self.fresh,
        ]  # fmt: skip
        inside = widgets.VBox([widgets.HBox(seldom, layout=ROW), self.key, self.dataset_file, self.runbook_file])
        more = widgets.Accordion([inside], titles=(say("More settings"),))
        # What was added recently is listed when a person is about to choose.
        more.observe(lambda _: self.list_choices(), "selected_index")
        return more

    # -- what a person does

    def _look_again(self, *_: Any) -> None:
        if not (self.build_button.disabled or self.session.is_busy):  # the cell may have built the index
            self._settle()

    def _choose(self, control: Any) -> None:
        self.session.stop_changed()  # a run that is under way has other settings than the person saw
        if control in (self.max_concurrency, self.output_tokens, self.timeout_s, self.patience_s):
            self._redraw()  # it is the same run
        else:
            self._settle()

    def _list_models(self) -> None:
        with told_in(self.models):
            names = list_models()
            for box in (self.judge_model, self.assistant_model):
                box.options = list(dict.fromkeys([*names, *box.options]))
            self.models.value = block("", escape(say("The server has: {names}", names=listed(names))))

    def _take_answers(self, path: Path) -> None:
        value = f"{OWN}{path}"
        self.answers.options = [
            *self.answers.options,
            (say("answers of {name}", name=clipped(path.name)), value),
        ]
        self.answers.value = value

    def _take_questions(self, path: Path) -> None:
        self.dataset.value = str(path)

    def _judge_again(self, log: Path) -> str:
        self._list_answers()
        self.answers.value = str(log)
        self.judge_model.focus()
        return block("", say("The answers of this run are chosen above. Choose another judge there, and start"))

    # -- what the library does

    def _build(self) -> State:
        def show(done: int, total: int) -> None:
            self.session.progress = Progress(done, total)
            self.session.tell()

        try:
            build_index(self.runbooks, index_dir=self.index_dir, on_progress=show)
        finally:
            self.session.progress = Progress()
        return "idle"

    def _run_to_plan(self) -> Plan:
        chosen = self.answers.value
        judging: dict[str, Any] = {
            "judge_model": self.judge_model.value.strip(), "judge_prompt": self.judge_prompt.value,
            "judge_repeats": self.judge_repeats.value,
        }  # fmt: skip
        if chosen and not chosen.startswith(OWN):
            return plan_rejudging(load_run(Path(chosen)), **judging)
        questions = load_eval_dataset(self.dataset.value)
        return plan_answers(
            questions,
            answers=open_answers(chosen.removeprefix(OWN) or None, questions),
            index=find_index(self.runbooks, index_dir=self.index_dir),
            k=self.k.value,
            assistant_model=self.assistant_model.value.strip(),
            assistant_prompt=self.assistant_prompt.value,
            answer_repeats=self.answer_repeats.value,
            rubric=open_project().rubric,
            **judging,
        )

    def _plan(self) -> tuple[Sequence[RunPlan], str]:
        how = RunOptions(**{name: getattr(self, name).value for name in _HOW})
        plan = foresee(self._run_to_plan(), how, self.logs_dir)
        self.rule.value = rule_html(plan.plan.rubric)
        return [plan], block("muted", *map(escape, plan.note.splitlines())) if plan.note else ""

    def _begin(self, limit: float | None) -> None:
        plans = self.plans
        self.fresh.value = False  # only once, because a run that is stopped now should be resumed
        self.session.settings = {name: getattr(self, name).value for name in (*_WHAT, *_HOW, "max_cost_usd")}
        self.session.judge(plans, limit)

    # -- what is shown

    def _follow(self) -> None:
        if not self.session.is_busy:
            self._list_prompts()
        super()._follow()

    def _draw(self) -> None:
        session, chosen = self.session, self.answers.value
        is_own, is_busy = chosen.startswith(OWN), self.session.is_busy
        has_index = is_busy or find_index(self.runbooks, index_dir=self.index_dir) is not None
        has_index = has_index and session.state != "building"
        changed = [] if has_index or is_busy or chosen else outdated_files(self.runbooks, index_dir=self.index_dir)
        self.index_text.value = index_html(session, has_index, changed, is_needed=not chosen)
        self.build_button.disabled = is_busy or has_index
        self.build_button.layout.display = "none" if has_index else ""
        for control in (self.dataset, self.answer_repeats, self.k):  # of a stored run, they have no effect
            control.disabled = is_busy or (bool(chosen) and not is_own)
        for control in (self.assistant_model, self.assistant_prompt):
            control.disabled = is_busy or bool(chosen)
        if session.run is not self._shown:
            self._shown = run = session.run
            self.results.value = "" if run is None else results_html(run)
            self.finished.show(run)

    def _state(self) -> State:
        session = self.session
        is_same = all(getattr(self, name).value == session.settings.get(name) for name in _WHAT)
        # A stopped run can only be resumed with its own settings. What a finished one comes to is told by its results.
        is_over = session.state == "finished" or (session.state == "stopped" and not (session.changed_late or is_same))
        return "idle" if is_over else session.state
