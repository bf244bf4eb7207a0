"""Have another judge score the stored answers of several runs, one run after the other, in the background."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from ...records import EvaluationRun
from ...runs.forecast import RunPlan, foresee
from ...runs.load import load_run
from ...runs.plan import plan_rejudging
from ...runs.running import shared_budget
from .run import Progress, Session, State


class AgainSession(Session):
    """Judge the answers of several runs again, with one cap for all of them."""

    def __init__(self, *, logs_dir: Path) -> None:
        super().__init__()
        self.logs_dir = logs_dir
        self._done: list[EvaluationRun] = []  # of a series that was stopped; they are not judged twice

    def preview(self, logs: Sequence[Path], judge_model: str) -> list[RunPlan]:
        """Return what judging the answers of these logs again would do and cost. No model is called."""
        plans = [
            plan_rejudging(load_run(log), judge_model=judge_model, judge_prompt=None, judge_repeats=1) for log in logs
        ]
        left = [plan for plan in plans if not any(plan.is_done_in(run) for run in self._done)]
        return [foresee(plan, None, self.logs_dir) for plan in left]

    def start(self, plans: Sequence[RunPlan], max_cost_usd: float | None) -> None:
        """Judge in the background. `max_cost_usd` is for all plans together; None: nothing is paid."""
        self._begin("running", lambda: self._judge(plans, max_cost_usd))

    def _judge(self, plans: Sequence[RunPlan], max_cost_usd: float | None) -> State:
        self.run, self._scored = None, (0, 0.0)
        before = sum(plan.already for plan in plans)
        self.progress, self._began = (
            Progress(before, sum(plan.total for plan in plans), before=before),
            time.monotonic(),
        )
        self._notify()
        budget = shared_budget(max_cost_usd, self._done, self.logs_dir, [plan.plan for plan in plans])
        for plan in plans:
            self.run = plan.run(
                max_cost_usd=budget, on_result=lambda result: self._count(result, answered=False), stop=self._stop,
                progress=False,
            )  # fmt: skip
            self._done.append(self.run)
        self._done.clear()
        return "finished"
