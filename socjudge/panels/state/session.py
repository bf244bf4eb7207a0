"""Do a panel's work in the background of a notebook's kernel. The state consists of plain values, so a test can read it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from ...base.messages import say
from ...base.redact import redact, surprise_text
from ...errors import BudgetReached, RunStopped, SocJudgeError
from ...models.gate import Budget
from ...records import EvaluationResult, EvaluationRun
from ...runs.forecast import RunPlan, shared_budget

TELL_S = 0.2  # seconds; a run may give hundreds of results a second, and a page need not show each
# "building" is about the search index. "stopping" means that calls already sent are completed. A stopped run can be
# resumed.
State = Literal["idle", "building", "running", "stopping", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Progress:
    """Hold how much of the work is done."""

    done: int = 0  # judged answers; texts while the index is being built
    total: int = 0
    before: int = 0  # how many were judged before this start; mean, unread and left_s do not count them
    mean: float | None = None  # of the scored answers (0–100); None if there are none
    unread: int = 0  # unscored answers
    left_s: float | None = None  # seconds that the rest will take at the present pace; None if nobody knows
    latest: str = ""  # the id of the question that was judged last
    cost_usd: float | None = 0.0  # of everything that counts against the cap; None if a price is unknown


_sessions: dict[tuple[Any, ...], Session] = {}


class Session:
    """Do one task at a time, such as an evaluation, in a thread of its own, so that the kernel stays free."""

    def __init__(self, **folders: Path) -> None:
        self.state: State = "idle"
        self.progress = Progress()
        self.problem = ""  # why the task failed and what to do, or that the budget ended the run; otherwise empty
        self.changed_late = False  # whether `stop_changed` stopped the run
        self.run: EvaluationRun | None = None
        self.settings: dict[str, Any] = {}  # what the panel's controls had at the last start
        self.listeners: list[Callable[[], Any]] = []  # called in threads of the session, when it has changed
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._scored = (0, 0.0)  # how many answers of the present run, and the sum of their means
        self._began_s = 0.0
        self._models: tuple[Any, ...] = ()  # of the present run

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
    def waits_for(self) -> str:
        """Return why calls wait to be tried again, or "" if none waits."""
        return next(filter(None, (getattr(model, "waits_for", "") for model in self._models)), "")

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

    def judge(
        self,
        plans: Sequence[RunPlan],
        max_cost_usd: float | None = None,
        paid: Iterable[EvaluationRun] = (),
        on_end: Callable[[list[EvaluationRun]], Any] = lambda runs: None,
    ) -> None:
        """Carry out the plans in the background, one after the other, with one cap (US dollars) for all of them, against
        which the runs in `paid` count. If none was stopped, `on_end` takes their runs."""

        def work() -> State:
            self.run = None
            budget = shared_budget(max_cost_usd, paid, plans)
            runs = [self._carry_out(plan, budget) for plan in plans]
            on_end(runs)
            self.run = runs[-1]
            return "finished"

        before, total = sum(plan.already for plan in plans), sum(plan.total for plan in plans)
        self.begin("running", work, Progress(before, total, before))

    def begin(self, state: State, work: Callable[[], State], progress: Progress) -> None:
        """Do `work` in the background. It returns the state in which it leaves the session. Nothing begins if a task
        is running."""
        with self._lock:
            if self.is_busy:
                return  # it was a second click
            self.state, self.problem, self.changed_late, self.progress = state, "", False, progress
            self._began_s = time.monotonic()
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
                self.state = ended
            self.tell()

        self._thread = threading.Thread(target=in_background, name="socjudge-run", daemon=True)
        self.tell()
        self._thread.start()
        threading.Thread(target=self._tell_news, args=(self._thread,), name="socjudge-news", daemon=True).start()

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
        told = self.progress, self.waits_for
        while work.is_alive():
            work.join(TELL_S)
            if self.is_busy and told != (told := (self.progress, self.waits_for)):
                self.tell()

    def _carry_out(self, plan: RunPlan, budget: Budget) -> EvaluationRun:
        self._scored = 0, 0.0  # a mean is about one judge and one prompt
        self._models = plan.plan.judge, plan.plan.assistant
        is_priced = plan.left.cost_usd is not None

        def count(result: EvaluationResult) -> None:
            before, evaluation = self.progress, result.evaluation
            is_read = evaluation.status == "ok"
            if is_read:
                self._scored = (self._scored[0] + 1, self._scored[1] + evaluation.average_score)
            number, points = self._scored
            done = min(before.done + 1, before.total)  # an unparsable judgement may be made again
            pace_s = (time.monotonic() - self._began_s) / max(done - before.before, 1)
            self.progress = replace(
                before,
                done=done,
                mean=points / number if number else None,
                unread=before.unread + (not is_read),
                left_s=pace_s * (before.total - done),
                latest=str(result.question.id),
                cost_usd=sum(budget.spent.values()) if is_priced else None,
            )

        return plan.run(max_cost_usd=budget, on_result=count, stop=self._stop, progress=False)


def tell_idle() -> None:
    """Have the panels of all sessions list their choices again, because a prompt was saved."""
    for session in list(_sessions.values()):
        if not session.is_busy:
            session.tell()
