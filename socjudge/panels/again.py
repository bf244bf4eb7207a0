"""Show the controls with which another judge scores the stored answers of several runs, with one cap for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..base.messages import say
from ..base.showing import block, escape
from ..history.frames import load_runs
from ..records import EvaluationRun
from ..runs.forecast import RunPlan, foresee
from ..runs.logs import load_stored
from ..runs.plan import plan_rejudging
from .controls import model_box
from .state.session import Session
from .work import WorkPanel


class JudgeAgain(WorkPanel):
    """Offer another judge for the answers of some runs. Nothing is sent before a click."""

    def __init__(self, logs_dir: Path, on_end: Callable[[], Any]) -> None:
        super().__init__(Session.over(logs_dir=logs_dir), say("Have it score"))
        self.logs_dir, self._on_end = logs_dir, on_end
        self._logs: list[Path] = []
        self._done: list[EvaluationRun] = []  # what this judge has made of them already; it counts against the cap
        self.judge_model = model_box(say("The other judge"), "judge")
        self.children = [self.judge_model, self.max_cost_usd, self.payment, self.buttons, self.status]
        self._locked.append(self.judge_model)
        self.judge_model.observe(lambda _: self._settle(), "value")
        self._follow_session()

    def offer(self, logs: list[Path]) -> None:
        """Show what it costs to score the answers of these logs again."""
        self._logs = logs
        self._settle()

    def _plan(self) -> tuple[Sequence[RunPlan], str]:
        """A log whose answers this judge has scored already, as in a series that was stopped, is not judged again."""
        self._done = []
        if not self._logs:
            return [], ""
        judge, left, seen = self.judge_model.value.strip(), [], set[str]()
        runs = load_runs(self.logs_dir)[["rejudged_from", "log"]].to_dict("records")
        for log in self._logs:
            stored = load_stored(log)
            plan = plan_rejudging(stored, judge_model=judge, judge_prompt=None, judge_repeats=1)
            if plan.identity.sha256 in seen:
                continue
            seen.add(plan.identity.sha256)
            later = (
                load_stored(self.logs_dir / run["log"]) for run in runs if run["rejudged_from"] == stored.run.run_id
            )
            done = [run for run in later if plan.is_done_in(run)]
            self._done += done[-1:]
            left += [] if done else [foresee(plan, None, self.logs_dir)]
        told = [] if left else [say("{judge} has scored these answers already; choose another judge", judge=judge)]
        if same := len(self._logs) - len(seen):
            told.append(say("Of runs with the same answers, only one is scored (left out: {count})", count=same))
        return left, block("", *map(escape, told)) if told else ""

    def _begin(self, limit: float | None) -> None:
        self.session.judge(self.plans, limit, paid=self._done)

    def _follow(self) -> None:
        super()._follow()
        if self.session.state == "finished":
            self._on_end()
