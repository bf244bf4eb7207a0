"""Define the section of HistoryExplorer that compares a new judge with the old one.

It first shows what the comparison costs, and then what would change if the new judge replaced the old one.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import say
from ..base.showing import block, escape, money
from ..certify.migration import SIZE, Migration, MigrationPlan, migrate_judge, plan_migration
from ..records import RunOptions, is_embedded
from ..report.migration import migration_html, migration_title, plan_line
from .controls import PaidPanel, as_choice, button, choice_box, dollar_box, model_box, number_box, told_in


class MigrationBox(PaidPanel):
    """Compare an old and a new judge on stored answers.

    No log is read before a click on 「費用を見る」 (show the cost), and no judge is called before the cost box is
    ticked.

    found: the result of the last comparison; None if there is none.
    """

    def __init__(self, logs_dir: Path | str) -> None:
        super().__init__()
        self.logs_dir = logs_dir
        self.plan: MigrationPlan | None = None
        self.found: Migration | None = None
        self.old = choice_box(say("panels.migrate_old"))
        self.new = model_box(say("panels.migrate_new"), "", placeholder=say("panels.migrate_new_hint"))
        self.size = number_box(say("panels.migrate_size"), SIZE)
        self.max_cost_usd = dollar_box(1.0)
        self.plan_button = button(say("panels.migrate_plan"), "calculator")
        self.judge_button = button(say("panels.migrate_judge"), "exchange", button_style="primary", disabled=True)
        buttons = widgets.HBox([self.judge_button, self.stop_button])
        self.children = [
            widgets.HTML(block("", escape(say("panels.migrate_hint")))), self.old, self.new, self.size, self.max_cost_usd,
            widgets.HBox([self.plan_button]), self.cost, self.allow_cost, buttons, self.status, self.result,
        ]  # fmt: skip
        self.plan_button.on_click(lambda _: self._foresee())
        self.judge_button.on_click(lambda _: self._start())
        for control in self._controls:
            control.observe(lambda _: self._forget(), "value")

    def offer(self, judges: list[str]) -> None:
        """List these judges, so that the user can choose the old judge from them. Embedded judges are left out.

        judges: the names of the judges in the history.
        """
        before, hosted = self.old.value, [name for name in judges if not is_embedded(name)]
        self.old.options = [(as_choice(name), name) for name in hosted]
        self.old.value = before if before in hosted else next(iter(hosted), None)

    @property
    def _controls(self) -> list[Any]:
        return [self.old, self.new, self.size]

    def _forget(self) -> None:
        """Remove the estimated cost from the panel after a choice has changed. Disable the button that calls judges."""
        self.plan, self.cost.value, self.judge_button.disabled = None, "", True

    def _foresee(self) -> None:
        self._forget()
        if not (self.old.value and self.new.value.strip()):
            self.cost.value = block("warn", escape(say("panels.migrate_choose")))
            return
        with told_in(self.cost):
            self.plan = plan_migration(
                self.logs_dir, old=self.old.value, new=self.new.value.strip(), size=self.size.value
            )
        if self.plan is None:
            return
        estimate = self.plan.estimate
        costs = say("certify.panel_costs", calls=estimate.calls, cost=money(estimate.cost_usd))
        self.cost.value = block("warn", escape(plan_line(self.plan)), escape(costs))
        self.judge_button.disabled = False

    def _start(self) -> None:
        if self.plan is not None:
            plan, cap = self.plan, self.max_cost_usd.value or float("inf")
            self._ask(lambda: self._judge(plan, cap), costs=True, stopped="panels.migrate_stopped")

    def _lock(self, is_busy: bool) -> None:
        super()._lock(is_busy)
        for control in [*self._controls, self.max_cost_usd, self.allow_cost, self.plan_button]:
            control.disabled = is_busy
        self.judge_button.disabled = is_busy or self.plan is None

    def _judge(self, plan: MigrationPlan, max_cost_usd: float) -> None:
        self.found, done = None, itertools.count(1)
        options = RunOptions(stop=self._stop, on_result=lambda _: self._under_way(next(done), 2 * len(plan.cases)))
        self.found = migrate_judge(plan, max_cost_usd=max_cost_usd, progress=False, options=options)
        title = escape(migration_title(self.found))
        self.result.value = block("", f"<h3>{title}</h3>{migration_html(self.found)}")
        self.status.value = ""
