"""Do a panel's work in the background of a notebook's kernel. The state consists of plain values, so a test can read it."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from ...base.messages import say
from ...base.redact import redact, surprise_text
from ...errors import BudgetReached, RunStopped, SocJudgeError
from ...records import EvaluationResult, EvaluationRun
from ...runs.forecast import RunPlan
from ...runs.running import shared_budget
from ...runs.unfinished import find_journal, load_unfinished

TELL_S = 0.2  # seconds; a run may give hundreds of results a second, and a page need not show each
SHOWN_QUESTIONS = 4
# "building" is about the search index. "stopping" means that calls already sent are completed. A stopped run can be
# resumed.
State = Literal["idle", "building", "running", "stopping", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Progress:
    """Hold how much of a run is done."""

    done: int = 0  # judged answers; texts while the index is being built
    total: int = 0
    before: int = 0  # how many were judged before this start of the run; the fields below do not count them
    mean: float | None = None  # of the scored answers (0–100); None if there are none
    cost_usd: float | None = 0.0  # of the results so far; None if unknown
    unread: int = 0  # unscored answers
    left_s: float | None = None  # seconds that the rest will take at the present pace; None if nobody knows


_sessions: dict[tuple[Any, ...], Session] = {}


class Session:
    """Do one task at a time, such as an evaluation, in a thread of its own, so that the kernel stays free."""

    def __init__(self, **folders: Path) -> None:
        self.state: State = "idle"
        self.progress = Progress()
        self.problem = ""  # why the task failed and what to do, or that the budget ended the run; otherwise empty
        self.changed_late = False  # whether `stop_changed` stopped the run
        self.run: EvaluationRun | None = None
        self.done: list[EvaluationRun] = []  # of a series that was stopped; they count against its cap
        self.settings: dict[str, Any] = {}  # what the panel's controls had at the last start
        self.listeners: list[Callable[[], Any]] = []  # called in threads of the session, when it has changed
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._watched: tuple[RunPlan, list[Any]] | None = None  # what is judged now, and the questions without a result
        self._scored = (0, 0.0)  # how many answers, and the sum of their means
        self._began = 0.0  # when the first call of this start could be sent; seconds

    @classmethod
    def over(cls, **folders: Path) -> Self:
        """Return the session for these folders, always the same one, so that a cell finds it when it is run again."""
        key = cls, *((name, folder.resolve()) for name, folder in folders.items())
        if key not in _sessions:
            _sessions[key] = cls(**folders)
        return cast(Self, _sessions[key])

    @property
    def is_busy(self) -> bool:
        return self.state in ("building", "running", "stopping")

    @property
    def under_way(self) -> tuple[list[str], bool]:
        """Return the ids of the questions that are under way, and whether the service answers "too many requests" (429),
        so that calls wait."""
        if self._watched is None:
            return [], False
        plan, waiting = self._watched
        # Answers are begun in their order, as many at a time as the settings allow.
        asked = dict.fromkeys(map(str, waiting[: min(SHOWN_QUESTIONS, plan.options.max_concurrency)]))
        models = (plan.plan.judge, plan.plan.assistant)
        return list(asked), any(getattr(model, "is_refused", False) for model in models)

    def stop(self) -> None:
        """End the run after the calls already sent are completed. Nothing that was paid for is lost."""
        with self._lock:
            if self.state != "running":
                return
            self._stop.set()
            self.state = "stopping"
        self.tell()

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

    def judge(self, plans: Sequence[RunPlan], max_cost_usd: float | None = None) -> None:
        """Carry out the plans in the background, one after the other, with one cap (US dollars) for all of them."""
        self.begin("running", lambda: self._judge(plans, max_cost_usd))

    def begin(self, state: State, work: Callable[[], State]) -> None:
        """Do `work` in the background. It returns the state in which it leaves the session. Nothing begins if a task
        is running."""
        with self._lock:
            if self.is_busy:
                return  # it was a second click
            self.state, self.problem, self.changed_late = state, "", False
            self._stop.clear()

        def in_background() -> None:
            try:
                ended = work()
            except BudgetReached as error:
                self.problem, ended = str(error), "stopped"
            except RunStopped:
                ended = "stopped"
            except SocJudgeError as error:
                self.problem, ended = str(error), "failed"
            except Exception as surprise:  # shown in the panel as a cell would show it
                self.problem, ended = surprise_text(surprise), "failed"
            with self._lock:
                self.state, self._watched = ended, None
            self.tell()

        self._thread = threading.Thread(target=in_background, name="socjudge-run", daemon=True)
        self.tell()
        self._thread.start()
        threading.Thread(target=self._tell_news, args=(self._thread,), name="socjudge-news", daemon=True).start()

    def count_from(self, done: int, total: int) -> None:
        """Begin to count: `done` of the `total` answers were judged before."""
        self.progress = Progress(done, total, before=done)
        self._scored, self._began = (0, 0.0), time.monotonic()
        self.tell()

    def count(self, result: EvaluationResult, *, answered: bool = True) -> None:
        """Count a result. `answered`: its answer was made, and paid for, in this run."""
        evaluation, answer, before = result.evaluation, result.answer, self.progress
        if evaluation.status == "ok":
            self._scored = (self._scored[0] + 1, self._scored[1] + evaluation.average_score)
        count, points = self._scored
        is_new = answered and not result.judge_repeat  # an answer that was made before was paid for then
        costs = [before.cost_usd, evaluation.usage.cost_usd, answer.usage.cost_usd if is_new else 0.0]
        done = min(before.done + 1, before.total)  # an unparsable judgement may be made again
        pace_s = (time.monotonic() - self._began) / max(done - before.before, 1)
        self.progress = replace(
            before,
            done=done,
            mean=points / count if count else None,
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            unread=before.unread + (evaluation.status != "ok"),
            left_s=pace_s * (before.total - done),
        )

    def tell(self) -> None:
        """Tell the listeners that the session has changed."""
        for listener in list(self.listeners):
            try:
                listener()
            except Exception as problem:  # an error in a display must not end a run that is paid for
                warnings.warn(
                    say("the panel could not be drawn: {problem}", problem=redact(str(problem))), stacklevel=2
                )

    def _tell_news(self, work: threading.Thread) -> None:
        told = self.progress, self.under_way
        while work.is_alive():
            work.join(TELL_S)
            if self.is_busy and told != (told := (self.progress, self.under_way)):
                self.tell()

    def _judge(self, plans: Sequence[RunPlan], max_cost_usd: float | None) -> State:
        self.run = None
        self.count_from(sum(plan.already for plan in plans), sum(plan.total for plan in plans))
        interrupted = [plan.plan for plan in plans if not plan.options.fresh]
        budget = shared_budget(max_cost_usd, self.done, plans[0].logs_dir, interrupted)
        for plan in plans:
            self.run = plan.run(max_cost_usd=budget, on_result=self._watch(plan), stop=self._stop, progress=False)
            self.done.append(self.run)
        self.done.clear()
        return "finished"

    def _watch(self, plan: RunPlan) -> Callable[[EvaluationResult], None]:
        """Return what counts the results of a plan, without the cost of answers that were paid for before."""
        journal = find_journal(plan.logs_dir, plan.plan.identity) if plan.already else None
        judged = [] if journal is None else load_unfinished(journal).results
        paid = {_answer(result) for result in judged}
        waiting = [sample.question.id for sample in plan.plan.samples for _ in range(plan.plan.judge_repeats)]

        def take(result: EvaluationResult) -> None:
            with contextlib.suppress(ValueError):  # an unparsable judgement that was made again
                waiting.remove(result.question.id)

        def count(result: EvaluationResult) -> None:
            take(result)
            self.count(result, answered=plan.plan.asks and _answer(result) not in paid)

        for result in judged:
            take(result)
        self._watched = plan, waiting
        return count


def tell_idle() -> None:
    """Have the panels of all sessions list their choices again, because a prompt was saved."""
    for session in list(_sessions.values()):
        if not session.is_busy:
            session.tell()


def _answer(result: EvaluationResult) -> tuple[Any, int]:
    return result.question.id, result.answer_repeat
