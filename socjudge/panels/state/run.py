"""Run evaluations in the background of a notebook's kernel. The state consists of plain values, so a test can read it."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from ... import constants
from ...answering.dataset import load_eval_dataset
from ...base.messages import in_panel, say
from ...base.redact import redact, surprise_text
from ...certify.certificate import why_run_uncertified, why_uncertified
from ...certify.issue import binding_of_judge
from ...errors import BudgetReached, ConfigError, RunStopped, SocJudgeError
from ...judging.judge import count_retries
from ...models.gate import get_settings
from ...records import EvaluationResult, EvaluationRun, RunOptions
from ...runs.forecast import RunPlan, foresee
from ...runs.load import load_run
from ...runs.plan import Plan, plan_answers, plan_rejudging
from ...runs.unfinished import UnfinishedRun, find_journal, load_unfinished, unfinished_runs
from ...settings import open_project

TICK_S = 1.0  # seconds; what a run waits for is shown even if no result comes
SHOWN_QUESTIONS = 4
TELL_S = 0.2  # seconds; a run may give hundreds of results a second, and a page need not show each
# Settings that say how calls are made, not what is asked. output_tokens is one of them, because a run that ended on a
# too small context is resumed with a lower limit. An answer that the limit cut off is `truncated` in the log.
HOW = ("max_concurrency", "max_cost_usd", "output_tokens", "timeout_s", "patience_s", "fresh")
# "building" is about the search index. "stopping" means that calls already sent are completed. A stopped run can be
# resumed.
State = Literal["idle", "building", "running", "stopping", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Settings:
    """Hold the settings of a run. Most are arguments of `run_evaluation_suite` or fields of RunOptions."""

    dataset: Path = field(default_factory=lambda: constants.EVAL_DATASET_PATH)
    answers: Path | None = None  # a log whose stored answers are judged again; None if the assistant is asked
    # The argument `answers` of `run_evaluation_suite`, such as the name of an assistant in socjudge.toml. If it is not
    # empty, the settings of socjudge's own assistant have no effect.
    own: str = ""
    assistant_model: str = "auto"
    judge_model: str = "auto"
    judge_prompt: str | None = None
    assistant_prompt: str | None = None
    answer_repeats: int = 1
    judge_repeats: int = 1
    k: int = field(default_factory=lambda: open_project().k)
    max_concurrency: int = 8
    max_cost_usd: float | None = None
    output_tokens: int | None = None
    timeout_s: float | None = None
    patience_s: float | None = None
    fresh: bool = False
    require_certificate: bool = False  # refuse the run if the judge has no valid certificate

    def is_same_run(self, other: Settings | None) -> bool:
        """Return whether a run with these settings would resume an interrupted run with the settings `other`."""
        # Not compared: how calls are made, and whether a certificate is required.
        how = {name: getattr(self, name) for name in (*HOW, "require_certificate")}
        return other is not None and replace(other, **how) == self


@dataclass(frozen=True)
class Progress:
    """Hold how much of a run is done."""

    done: int = 0  # judged answers; texts while the index is being built
    total: int = 0
    before: int = 0  # how many were judged before this start of the run; the fields below do not count them
    mean: float | None = None  # of the scored answers (0–100); None if there are none
    cost_usd: float | None = 0.0  # of the results so far; None if unknown
    retries: int = 0  # repeated calls
    unread: int = 0  # unscored answers
    left_s: float | None = None  # seconds that the rest will take at the present pace; None if nobody knows
    asked: tuple[str, ...] = ()  # ids of the questions that are under way
    is_refused: bool = False  # whether the service answers "too many requests" (429), so that calls wait


_sessions: dict[tuple[Any, ...], Session] = {}


class Session:
    """Run one task at a time, such as an evaluation, in a thread of its own, so that the kernel stays free."""

    def __init__(self) -> None:
        self.state: State = "idle"
        self.progress = Progress()
        self.problem = ""  # why the task failed and what to do, or that the budget ended the run; otherwise empty
        self.changed_late = False  # whether `stop_changed` stopped the run
        self.run: EvaluationRun | None = None
        self.listeners: list[Callable[[], Any]] = []  # called in threads of the session, when it has changed
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._scored, self._told = (0, 0.0), 0.0
        self._began = 0.0  # when the first call of this start could be sent; seconds
        self._later: threading.Timer | None = None  # sends the last notification that came too early

    @classmethod
    def over(cls, **folders: Path) -> Self:
        """Return the session for these folders, always the same one, so that a cell finds it when it is run again."""
        key = cls, *(folder.resolve() for folder in folders.values())
        if key not in _sessions:
            _sessions[key] = cls(**folders)
        return cast(Self, _sessions[key])

    @property
    def is_busy(self) -> bool:
        return self.state in ("building", "running", "stopping")

    def stop(self) -> None:
        """End the run after the calls already sent are completed. Nothing that was paid for is lost."""
        with self._lock:
            if self.state != "running":
                return
            self._stop.set()
            self.state = "stopping"
        self._notify()

    def stop_changed(self) -> None:
        """Stop the run because the value of a control changed during it."""
        # The page locks the controls during a run. So the user made the change before the start, but it arrived after
        # the start: JupyterLab may reorder the messages of different controls.
        self.changed_late = self.changed_late or self.state == "running"
        self.stop()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until no task is running, or until the timeout (seconds) has passed."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _begin(self, state: State, work: Callable[[], State]) -> None:
        with self._lock:
            if self.is_busy:
                return  # it was a second click
            self.state, self.problem, self.changed_late = state, "", False
            self._stop.clear()

        def in_background() -> None:
            try:
                with in_panel():
                    ended = work()
            except BudgetReached as error:
                self.problem, ended = str(error), "stopped"
            except RunStopped:
                ended = "stopped"
            except SocJudgeError as error:
                self.problem, ended = str(error), "failed"
            except Exception as surprise:  # shown in the panel as a cell would show it
                self.problem = surprise_text(surprise)
                ended = "failed"
            with self._lock:
                self.state = ended
            self._notify()

        self._thread = threading.Thread(target=in_background, name="socjudge-run", daemon=True)
        self._notify()
        self._thread.start()
        threading.Thread(target=self._tick, args=(self._thread,), name="socjudge-tick", daemon=True).start()

    def _tick(self, work: threading.Thread) -> None:
        while work.is_alive():
            work.join(TICK_S)
            if work.is_alive() and self.state == "running" and self.look_at():
                self._notify()

    def look_at(self) -> bool:
        """Note what the run waits for. Return whether that has changed."""
        return False

    def _count(self, result: EvaluationResult, *, answered: bool = True) -> None:
        evaluation, answer, before = result.evaluation, result.answer, self.progress
        if evaluation.status == "ok":
            self._scored = (self._scored[0] + 1, self._scored[1] + evaluation.average_score)
        count, points = self._scored
        is_new = answered and not result.judge_repeat  # an answer that was made before was paid for then
        costs = [before.cost_usd, evaluation.usage.cost_usd, answer.usage.cost_usd if is_new else 0.0]
        self.progress = replace(
            before,
            done=min(before.done + 1, before.total),  # an unparsable judgement may be made again
            mean=points / count if count else None,
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            retries=before.retries + len(answer.retries) * is_new + count_retries(evaluation.error),
            unread=before.unread + (evaluation.status != "ok"),
        )
        new, left = self.progress.done - before.before, before.total - self.progress.done
        if new > 0:
            self.progress = replace(self.progress, left_s=(time.monotonic() - self._began) / new * left)
        self._notify_soon()

    def _notify_soon(self) -> None:
        with self._lock:
            wait_s = self._told + TELL_S - time.monotonic()
            if wait_s > 0:  # too soon; one notification follows for all results that have arrived until then
                if self._later is None:
                    self._later = threading.Timer(wait_s, self._notify)
                    self._later.daemon = True
                    self._later.start()
                return
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            self._told = time.monotonic()
            if self._later is not None:
                self._later.cancel()
                self._later = None
        for listener in list(self.listeners):
            try:
                with in_panel():
                    listener()
            except Exception as problem:  # an error in a display must not end a run that is paid for
                warnings.warn(
                    say("the panel could not be drawn: {problem}", problem=redact(str(problem))), stacklevel=2
                )


def tell_idle_runs() -> None:
    """Have the panels of runs list their choices again, because a prompt was saved."""
    for session in list(_sessions.values()):
        if isinstance(session, RunSession) and not session.is_busy:
            session._notify()


class RunSession(Session):
    """Run evaluations of the assistant, and build the search index that they need."""

    def __init__(self, *, runbooks: Path, index_dir: Path, logs_dir: Path) -> None:
        super().__init__()
        self.settings: Settings | None = None  # of the run that was started last
        self._stored: tuple[Path, EvaluationRun] | None = None  # the log that was read last
        self._waiting: list[str] = []  # ids of the questions that have no result yet
        self._plan_run: RunPlan | None = None  # the run that is under way
        self.runbooks, self.index_dir, self.logs_dir = runbooks, index_dir, logs_dir

    @property
    def has_index(self) -> bool:
        """Return whether the index is built and no runbook has changed since then."""
        from ...runbooks.index import find_index

        return find_index(self.runbooks, index_dir=self.index_dir) is not None

    @property
    def outdated(self) -> list[str]:
        """Return the names of the runbooks that changed since the index was built. Return [] if there is no index."""
        from ...runbooks.index import outdated_files

        return outdated_files(self.runbooks, index_dir=self.index_dir)

    def preview(self, settings: Settings, earlier: RunPlan | None = None) -> RunPlan:
        """Return what a run with these settings would do and cost. No model is called. `earlier`: a preview that
        differs in how calls are made. ConfigError if it cannot be planned: an unreadable dataset, no key …"""
        get_settings(settings.output_tokens, settings.timeout_s, settings.patience_s)
        options = RunOptions(**{name: getattr(settings, name) for name in HOW if name != "max_cost_usd"})
        plan = foresee(earlier.plan if earlier else self._plan(settings), options, self.logs_dir)
        if settings.require_certificate and not plan.problem:
            judged = plan.plan
            binding = binding_of_judge(judged.judge, judged.judge_prompt, rubric=judged.rubric)
            plan = replace(plan, problem=why_uncertified(binding))
        return plan

    def find_other(self, plan: RunPlan) -> UnfinishedRun | None:
        """Return the newest interrupted run that a start would not resume."""
        found = [] if self.is_busy else unfinished_runs(self.logs_dir)
        others = (run for run in reversed(found) if run.is_resumable and run.identity != plan.plan.identity)
        return next(others, None)

    def _plan(self, settings: Settings) -> Plan:
        from ...runbooks.index import find_index

        judging: dict[str, Any] = {
            "judge_model": settings.judge_model, "judge_prompt": settings.judge_prompt,
            "judge_repeats": settings.judge_repeats,
        }  # fmt: skip
        if settings.answers:
            if self._stored is None or self._stored[0] != settings.answers:
                self._stored = settings.answers, load_run(settings.answers)
            return plan_rejudging(self._stored[1], **judging)
        return plan_answers(
            load_eval_dataset(settings.dataset), answers=settings.own or None,
            index=find_index(self.runbooks, index_dir=self.index_dir), assistant_model=settings.assistant_model,
            assistant_prompt=settings.assistant_prompt, answer_repeats=settings.answer_repeats, k=settings.k,
            rubric=open_project().rubric, **judging,
        )  # fmt: skip

    def build_index(self) -> None:
        """Build the index in the background."""
        self._begin("building", self._build)

    def start(self, settings: Settings, plan: RunPlan | None = None) -> None:
        """Run the evaluation in the background. An interrupted run with the same settings is resumed, unless `fresh`.
        `plan` must be a preview for these settings. If it is None, it is made here."""
        foreseen = self.preview(settings) if plan is None else plan

        def evaluate() -> State:
            self.run, self._scored, self.settings = None, (0, 0.0), settings
            self.progress = Progress()
            return self._evaluate(settings, foreseen)

        self._begin("running", evaluate)

    def look_at(self) -> bool:
        """Note which questions are under way, and whether the service refuses calls for now."""
        plan, before = self._plan_run, self.progress
        if plan is None or not before.total:
            return False
        # Answers are begun in their order, as many at a time as the settings allow.
        asked = tuple(dict.fromkeys(self._waiting[: min(SHOWN_QUESTIONS, plan.options.max_concurrency)]))
        models = (plan.plan.judge, plan.plan.assistant)
        refused = any(getattr(model, "is_refused", False) for model in models)
        self.progress = replace(before, asked=asked, is_refused=refused)
        return before.asked != asked or refused or before.is_refused

    def _build(self) -> State:
        from ...runbooks.index import build_index

        def show(done: int, total: int) -> None:
            self.progress = Progress(done, total)
            self._notify()

        try:
            build_index(self.runbooks, index_dir=self.index_dir, on_progress=show)
        finally:
            self.progress = Progress()
        return "idle"

    def _evaluate(self, settings: Settings, plan: RunPlan) -> State:
        self.progress = Progress(plan.already, plan.total, before=plan.already)
        self._notify()
        self._plan_run, self._began = plan, time.monotonic()
        journal = find_journal(self.logs_dir, plan.plan.identity) if plan.already else None
        judged = [] if journal is None else load_unfinished(journal).results
        done = Counter(str(result.question.id) for result in judged)
        self._waiting = []
        for place in range(plan.plan.total):  # the judgements that are left, in the order in which they are begun
            question = str(plan.plan.sample_at(place // plan.plan.judge_repeats).question.id)
            if done[question]:
                done[question] -= 1
            else:
                self._waiting.append(question)
        # The cost of answers that were paid for before is not counted again.
        paid = {_answer(result) for result in judged}

        def count(result: EvaluationResult) -> None:
            if (question := str(result.question.id)) in self._waiting:
                self._waiting.remove(question)
            self.look_at()
            self._count(result, answered=settings.answers is None and _answer(result) not in paid)

        self.run = finished = plan.run(
            max_cost_usd=settings.max_cost_usd, on_result=count, stop=self._stop, progress=False
        )
        self.progress = replace(self.progress, asked=(), is_refused=False)
        if settings.require_certificate:  # only now is it known which model answered
            _refuse(why_run_uncertified(finished))
        return "finished"


def _refuse(reason: str) -> None:
    if reason:
        raise ConfigError(reason)


def _answer(result: EvaluationResult) -> tuple[Any, int]:
    return result.question.id, result.answer_repeat
