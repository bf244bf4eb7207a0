"""Show the controls with which another judge scores the stored answers of several runs, with one cap for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.messages import say
from ..runs.estimate import Estimate, unpriced
from ..runs.forecast import RunPlan, foresee
from ..runs.load import load_stored
from ..runs.plan import plan_rejudging
from .controls import model_box, usual_model
from .state.session import Session
from .views.common import cost_html
from .work import Offer, WorkPanel


class JudgeAgain(WorkPanel):
    """Offer another judge for the answers of some runs. Nothing is sent before a click."""

    def __init__(self, logs_dir: Path, on_end: Callable[[], Any]) -> None:
        super().__init__(Session.over(logs_dir=logs_dir), say("Have it score"))
        self.logs_dir, self._on_end = logs_dir, on_end
        self._logs: list[Path] = []
        self._plans: list[RunPlan] = []
        self.judge_model = model_box(say("The other judge"), usual_model("judge"))
        self.children = [self.judge_model, self.max_cost_usd, self.payment, self.buttons, self.status]
        self._locked.append(self.judge_model)
        self.judge_model.observe(lambda _: self._settle(), "value")
        self._follow_session()

    def offer(self, logs: list[Path]) -> None:
        """Show what it costs to score the answers of these logs again."""
        self._logs = logs
        self._settle()

    def _plan(self) -> Offer | None:
        judge = self.judge_model.value.strip()
        plans = [
            plan_rejudging(load_stored(log), judge_model=judge, judge_prompt=None, judge_repeats=1)
            for log in self._logs
        ]
        # A series that was stopped is resumed, and its finished runs are not judged twice.
        self._finished = [run for run in self.session.done if any(plan.is_done_in(run) for plan in plans)]
        left = [plan for plan in plans if not any(plan.is_done_in(run) for run in self._finished)]
        self._plans = [foresee(plan, None, self.logs_dir) for plan in left]
        if not left:
            return None
        due = sum((plan.left for plan in self._plans), Estimate(0, 0, 0, 0.0))
        total, already = (sum(getattr(plan, name) for plan in self._plans) for name in ("total", "already"))
        return due, cost_html(due, total, already), [key for plan in left for key in unpriced(plan)]

    def _begin(self, limit: float | None) -> None:
        self.session.done = self._finished  # another judge's runs do not count against this one's cap
        self.session.judge(self._plans, limit)

    def _follow(self) -> None:
        super()._follow()
        if self.session.state == "finished":
            self._on_end()
