"""Show the controls with which another judge scores the stored answers of several runs, with one cap for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import in_panel, say
from ..base.showing import block, escape
from ..runs.estimate import Estimate, unpriced
from ..runs.forecast import RunPlan
from .controls import Payment, SessionPanel, Words, button, html, model_box, told_in, usual_model
from .state.again import AgainSession
from .views.common import cost_html, progress_text, stopped_html


class JudgeAgain(SessionPanel):
    """Offer another judge for the answers of some runs. Nothing is sent before a click."""

    session: AgainSession

    def __init__(self, logs_dir: Path, on_end: Callable[[], Any]) -> None:
        self.session, self._on_end = AgainSession.over(logs_dir=logs_dir), on_end
        self._logs: list[Path] = []
        self._plans: list[RunPlan] = []
        self.judge_model = model_box(say("The other judge"), usual_model("judge"))
        self.payment = Payment(self._settle)
        self.start_button = button(say("Have it score"), "play", button_style="primary")
        self.stop_button = button(say("Stop"), "stop")
        self.status = html()
        super().__init__(
            [
                self.judge_model, self.payment.max_cost_usd, self.payment,
                widgets.HBox([self.start_button, self.stop_button]), self.status,
            ]
        )  # fmt: skip
        self.payment.on_change = lambda _: self._redraw()
        self.judge_model.observe(lambda _: self._settle(), "value")
        self.start_button.on_click(lambda _: self._start())
        self.stop_button.on_click(lambda _: self.session.stop())
        self._follow_session(self._follow)

    def offer(self, logs: list[Path]) -> None:
        """Show what it costs to score the answers of these logs again."""
        self._logs = logs
        self._settle()

    def _settle(self) -> None:
        self._plans, due, names, shown = [], None, [], Words()
        with told_in(shown):
            self._plans = self.session.preview(self._logs, self.judge_model.value.strip())
            due = sum((plan.left for plan in self._plans), Estimate(0, 0, 0, 0.0))
            questions, already = (
                sum(values) for values in zip(*((p.total, p.already) for p in self._plans), strict=True)
            )
            names = [model.name for plan in self._plans for model in unpriced(plan.plan)]
            shown.value = cost_html(due, questions, already)
        self.payment.offer(due, shown.value, names)
        self._redraw()

    def _start(self) -> None:
        self._settle()
        if not self.start_button.disabled:
            limit = self.payment.limit
            if refused := self.payment.take():
                self.status.value = refused
            else:
                self.session.start(self._plans, limit)

    def _follow(self) -> None:
        if self.session.is_busy:
            self._redraw()
        else:
            self._settle()  # other calls may be due now
        if self.session.state == "finished":
            self._on_end()

    def _redraw(self) -> None:
        session = self.session
        with in_panel():
            numbers = progress_text(session.progress)
            self.start_button.disabled = session.is_busy or not self.payment.is_ready
            self.stop_button.disabled = session.state != "running"
            self.judge_model.disabled = self.payment.max_cost_usd.disabled = session.is_busy
            match session.state:
                case "running":
                    self.status.value = block("", say("⏳ Judging... other cells can be run meanwhile"), numbers)
                case "stopping" | "stopped":
                    self.status.value = stopped_html(session, self.start_button.description)
                case "failed":
                    failed = say("⚠️ Judging cannot go on ({numbers})", numbers=numbers)
                    self.status.value = block("bad", failed, escape(session.problem))
                case "finished":
                    self.status.value = block("good", say("✅ Judged ({numbers})", numbers=numbers))
