"""Run evaluations in the background of a notebook's kernel. The state consists of plain values, so a test can read it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from ... import constants
from ...base.messages import in_panel, say
from ...base.redact import redact, surprise_text
from ...certify.certificate import why_run_uncertified, why_uncertified
from ...certify.issue import binding_of_judge
from ...errors import BudgetReached, ConfigError, RunStopped, SocJudgeError
from ...judging.dataset import load_eval_dataset
from ...judging.judge import count_retries
from ...judging.own_assistant import Assistant
from ...models.pacing import get_settings
from ...records import EvalQuestion, EvaluationResult, EvaluationRun, Rubric
from ...runs.assignment import Assignment, assign_rejudging, assign_suite
from ...runs.estimate import Estimate, estimate_run
from ...runs.given_answers import needs_index, open_answers
from ...runs.load import load_run
from ...runs.running import RunTerms, run_assignment
from ...runs.unfinished import UnfinishedRun, load_unfinished, unfinished_runs
from ...settings import default_k, project_rubric

TELL_S = 0.2  # seconds; a run may give hundreds of results a second, and a page need not show each
# Settings that say how calls are made, not what is asked. output_tokens is one of them, because a run that ended on a
# too small context is resumed with a lower limit. An answer that the limit cut off is `truncated` in the log.
HOW = ("max_concurrency", "max_cost_usd", "output_tokens", "timeout_s", "patience_s", "fresh")
State = Literal["idle", "building", "running", "stopping", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Settings:
    """Hold the settings of a run. Most have the name and meaning of an argument of `run_evaluation_suite` or of a field
    of RunOptions. The others are:

    - dataset: the file of the questions.
    - answers: a log whose stored answers are judged again, as by `rejudge`; None if the assistant is asked.
    - own: the argument `answers` of `run_evaluation_suite`, such as the name of an assistant in socjudge.toml. If it is
      not empty, the settings of socjudge's own assistant have no effect.
    - require_certificate: whether the run is refused if the judge has no valid certificate.
    """

    dataset: Path = field(default_factory=lambda: constants.EVAL_DATASET_PATH)
    answers: Path | None = None
    own: str = ""
    assistant_model: str = "auto"
    judge_model: str = "auto"
    judge_prompt: str | None = None
    assistant_prompt: str | None = None
    answer_repeats: int = 1
    judge_repeats: int = 1
    k: int = field(default_factory=default_k)
    max_concurrency: int = 8
    max_cost_usd: float | None = None
    output_tokens: int | None = None
    timeout_s: float | None = None
    patience_s: float | None = None
    fresh: bool = False
    require_certificate: bool = False

    def is_same_run(self, other: Settings | None) -> bool:
        """Return whether a run with these settings would resume an interrupted run with the settings `other`.

        Two kinds of settings are not compared: those that only say how calls are made, and `require_certificate`.
        """
        how = {name: getattr(self, name) for name in (*HOW, "require_certificate")}
        return other is not None and replace(other, **how) == self


@dataclass(frozen=True)
class RunPreview:
    """Hold what a run with the given settings would do if it were started now.

    - assignment: what the run would have to do. It is None if the search index must be built first, if the models or
      prompts cannot be used, or if a required certificate is missing.
    - already: how many answers were scored in an interrupted run that would be resumed; 0 if there is no such run.
    - left: the estimate of what remains to be paid for that run; None if there is no such run.
    - other: the newest interrupted run with other settings; None if there is none.
    - problem: why the run is not possible (no key, a damaged journal); empty if it is possible or if only the index is
      missing.
    - note: what the user is told before the first call, such as which variables are sent to which host.

    While a run is going on or the index is being built, interrupted runs are not looked up. Then already is 0, and left
    and other are None.
    """

    n_questions: int
    estimate: Estimate
    assignment: Assignment | None = None
    already: int = 0
    left: Estimate | None = None
    other: UnfinishedRun | None = None
    problem: str = ""
    note: str = ""

    @property
    def total(self) -> int:
        """Return how many judged answers the finished run will have."""
        return 0 if self.assignment is None else self.assignment.total


@dataclass(frozen=True)
class _Task:
    """Hold what a run has to do: the questions, and how to make and to judge the answers.

    - judging: the arguments of `run_evaluation_suite` about the judge. answering: those about the answers.
    """

    questions: Sequence[EvalQuestion]
    judging: dict[str, Any]
    answering: dict[str, Any]

    def estimate(self) -> Estimate:
        """Return the estimated calls and cost of the whole run."""
        return estimate_run(self.questions, **self.judging, **self.answering)


@dataclass(frozen=True)
class Progress:
    """Hold how much of a run is done.

    - done, total: numbers of judged answers. While the index is being built, they are numbers of texts.
    - before: how many of `done` were judged before this start of the run. The fields below do not count these.
    - mean: the mean score (0–100) of the scored answers; None if there are none.
    - cost_usd: the cost of the results so far in US dollars; None if unknown.
    - retries: the number of repeated calls.
    - unread: the number of judged answers without usable scores.
    """

    done: int = 0
    total: int = 0
    before: int = 0
    mean: float | None = None
    cost_usd: float | None = 0.0
    retries: int = 0
    unread: int = 0


_sessions: dict[tuple[Any, ...], Session] = {}


class Session:
    """Run one task at a time, such as an evaluation, in a thread of its own, so that the kernel stays free.

    - state: "idle", "building" (the search index), "running", "stopping" (calls already sent are completed),
      "finished", "stopped" or "failed". A stopped run can be resumed.
    - problem: in state "failed", why the task failed and what to do. In state "stopped", it says that the budget ended
      the run, or it is empty if the user stopped the run. In any other state, it is empty.
    - run: the finished run; None if there is none.
    - changed_late: whether `stop_changed` stopped the run.

    Functions in `listeners` are called in threads of the session when its state or its progress changes. When results
    arrive, they are called at most once in `TELL_S` seconds, and always after the last result. If a listener raises an
    error, there is a warning and the run goes on.
    """

    def __init__(self) -> None:
        self.state: State = "idle"
        self.progress = Progress()
        self.problem = ""
        self.changed_late = False
        self.run: EvaluationRun | None = None
        self.listeners: list[Callable[[], Any]] = []
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._scored, self._told = (0, 0.0), 0.0
        self._later: threading.Timer | None = None  # sends the last notification that came too early

    @classmethod
    def over(cls, **folders: Path) -> Self:
        """Return the session for these folders.

        Each call with the same folders returns the same session, so that a cell finds its session when it is run again.
        """
        key = cls, *(folder.resolve() for folder in folders.values())
        if key not in _sessions:
            _sessions[key] = cls(**folders)
        return cast(Self, _sessions[key])

    @property
    def is_busy(self) -> bool:
        """Return whether a task is running, such as a run or the building of the index."""
        return self.state in ("building", "running", "stopping")

    def stop(self) -> None:
        """End the run after the calls already sent are completed. Nothing that was paid for is lost.

        If no run is going on, do nothing.
        """
        with self._lock:
            if self.state != "running":
                return
            self._stop.set()
            self.state = "stopping"
        self._notify()

    def stop_changed(self) -> None:
        """Stop the run because the value of a control changed during it.

        The page locks the controls during a run. So the user made the change before the start, but it arrived after the
        start: JupyterLab may reorder the messages of different controls.
        """
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

    def _count(self, result: EvaluationResult, *, answered: bool = True) -> None:
        """Add a result to the progress.

        answered: whether the answer of this result was made in this run. If it was made before, its cost is not
        counted, because it was paid for then.
        """
        marks, answer, before = result.evaluation, result.answer, self.progress
        if marks.status == "ok":
            self._scored = (self._scored[0] + 1, self._scored[1] + marks.average_score)
        count, points = self._scored
        is_new = answered and not result.judge_repeat
        costs = [before.cost_usd, marks.usage.cost_usd, answer.usage.cost_usd if is_new else 0.0]
        self.progress = replace(
            before,
            done=min(before.done + 1, before.total),  # a judgement that could not be parsed may be made again
            mean=points / count if count else None,
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            retries=before.retries + len(answer.retries) * is_new + count_retries(marks.error),
            unread=before.unread + (marks.status != "ok"),
        )
        self._notify_soon()

    def _notify_soon(self) -> None:
        """Notify the listeners, but at most once in `TELL_S` seconds.

        If the last notification is too recent, they are notified later, once for all results that have arrived until
        then.
        """
        with self._lock:
            wait_s = self._told + TELL_S - time.monotonic()
            if wait_s > 0:
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


class RunSession(Session):
    """Run evaluations of the assistant, and build the search index that they need.

    settings: the settings of the run that was started last; None before the first start.
    """

    def __init__(self, *, runbooks: Path, index_dir: Path, logs_dir: Path) -> None:
        super().__init__()
        self.settings: Settings | None = None
        self._stored: tuple[Path, EvaluationRun] | None = None  # the log that was read last
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

    def preview(self, settings: Settings) -> RunPreview:
        """Return what a run with these settings would do and cost. No model is called.

        Raises ConfigError if these settings do not even allow an estimate of the cost, such as if the dataset cannot be
        read.
        """
        get_settings(settings.output_tokens, settings.timeout_s, settings.patience_s)
        task, assign = self._foresee_again(settings) if settings.answers else self._foresee(settings)
        own = task.answering.get("answers")
        told = [own.told_before] if isinstance(own, Assistant) else []
        preview = RunPreview(len(task.questions), task.estimate(), note="\n".join(filter(None, told)))
        if assign is None:
            return preview
        try:
            assignment = assign()
            if settings.require_certificate:
                judge, prompt, rubric = (task.judging[name] for name in ("judge_model", "judge_prompt", "rubric"))
                _refuse(why_uncertified(binding_of_judge(judge, prompt, rubric=rubric)))
            preview = replace(preview, assignment=assignment)
            if self.is_busy:
                return preview
            found = [run for run in unfinished_runs(self.logs_dir) if run.is_resumable][::-1]  # newest first
        except SocJudgeError as error:
            return replace(preview, problem=str(error))
        key = assignment.key
        waiting, other = (next((run for run in found if (run.key == key) is same), None) for same in (True, False))
        if waiting is None:
            return replace(preview, other=other)
        return replace(preview, already=waiting.done, left=preview.estimate.after(waiting.done, waiting.total))

    def _foresee(self, settings: Settings) -> tuple[_Task, Callable[[], Assignment] | None]:
        """Prepare a run in which the assistant is asked.

        Return the task of the run, and a function that returns its assignment. If the search index is needed but
        missing, return None instead of the function.
        """
        from ...runbooks.index import find_index

        questions = load_eval_dataset(settings.dataset)
        own = open_answers(settings.own or None, questions)
        answering: dict[str, Any] = {
            "answers": own, "assistant_model": settings.assistant_model, "assistant_prompt": settings.assistant_prompt,
            "answer_repeats": settings.answer_repeats, "k": settings.k,
        }  # fmt: skip
        task = _task(settings, questions, answering, project_rubric())
        index = find_index(self.runbooks, index_dir=self.index_dir)
        if index is None and needs_index(own):
            return task, None
        return task, lambda: assign_suite(task.questions, index=index, **task.judging, **answering)

    def _foresee_again(self, settings: Settings) -> tuple[_Task, Callable[[], Assignment]]:
        """Prepare a run in which stored answers are judged.

        Return the task of the run, and a function that returns its assignment.
        """
        assert settings.answers is not None
        if self._stored is None or self._stored[0] != settings.answers:
            self._stored = settings.answers, load_run(settings.answers)
        run = self._stored[1]
        stored = [result for result in run.results if result.judge_repeat == 0]
        answering = {"answers": [result.answer for result in stored]}
        task = _task(settings, [result.question for result in stored], answering, run.rubric)
        return task, lambda: assign_rejudging(run, **task.judging)

    def build_index(self) -> None:
        """Build the index in the background."""
        self._begin("building", self._build)

    def start(self, settings: Settings, preview: RunPreview | None = None) -> None:
        """Run the evaluation in the background. If a run with the same settings was interrupted, it is resumed.
        If `settings.fresh` is true, the run starts from the beginning instead.

        preview: an up-to-date result of `preview` for these settings; computed here if None.
        """
        foreseen = self.preview(settings) if preview is None else preview

        def evaluate() -> State:
            self.run, self._scored, self.settings = None, (0, 0.0), settings
            self.progress = Progress()
            return self._evaluate(settings, foreseen)

        self._begin("running", evaluate)

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

    def _evaluate(self, settings: Settings, preview: RunPreview) -> State:
        assignment = preview.assignment
        if assignment is None or (preview.problem and not settings.fresh):
            raise ConfigError(
                preview.problem
                or say("{index}: no index that fits {runbooks}; build it", index=self.index_dir, runbooks=self.runbooks)
            )
        already = 0 if settings.fresh else preview.already
        self.progress = Progress(already, preview.total, before=already)
        self._notify()
        runs = unfinished_runs(self.logs_dir) if already else []
        journals = [run.path for run in runs if run.is_resumable and run.key == assignment.key]
        paid = {_answer(result) for journal in journals for result in load_unfinished(journal).results}

        def count(result: EvaluationResult) -> None:
            """Add a result to the progress, without the cost of an answer that was paid for before."""
            self._count(result, answered=settings.answers is None and _answer(result) not in paid)

        terms = RunTerms(
            **{name: getattr(settings, name) for name in HOW}, logs_dir=self.logs_dir, on_result=count, stop=self._stop,
            progress=False,
        )  # fmt: skip
        self.run = finished = run_assignment(assignment, terms)
        if settings.require_certificate:  # only now is it known which model answered
            _refuse(why_run_uncertified(finished))
        return "finished"


def _refuse(reason: str) -> None:
    """Raise ConfigError with the reason. If the reason is empty, do nothing."""
    if reason:
        raise ConfigError(reason)


def _answer(result: EvaluationResult) -> tuple[Any, int]:
    return result.question.id, result.answer_repeat


def _task(settings: Settings, questions: Sequence[EvalQuestion], answering: dict[str, Any], rubric: Rubric) -> _Task:
    judging = {
        "judge_model": settings.judge_model, "judge_prompt": settings.judge_prompt, "rubric": rubric,
        "judge_repeats": settings.judge_repeats,
    }  # fmt: skip
    return _Task(questions, judging, answering)
