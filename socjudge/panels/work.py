"""Define the life of a panel's work: planned and priced, allowed, started, followed, and stopped."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from ..base.messages import listed, say
from ..base.showing import block, escape
from ..records import Usage, total_usage
from ..runs.forecast import RunPlan, unpriced
from ..settings import keep_free, open_project
from .controls import AUTO, NARROW, Panel, Words, button, field, html, tick_box, told_in
from .state.session import Session, State
from .views import cost_html, status_html


class WorkPanel(Panel):
    """Serve as the base class of panels whose work a session does: it goes on if the panel is closed. The panel follows
    the session until it is closed, or until its cell is run again. Where nothing is paid, nothing is asked."""

    def __init__(self, session: Session, start: str) -> None:
        super().__init__()
        self.session = session
        self.plans: Sequence[RunPlan] = ()  # what a start would do; empty if nothing can be started
        cap = open_project().cost_cap()
        self.max_cost_usd = field(
            widgets.BoundedFloatText,
            say("Most that it may cost ($; 0: no limit)"),
            value=0.5 if cap is None else cap,
            min=0,
            max=1e6,
            step=0.1,
            layout=NARROW,
        )
        self.cost = html()
        self.allow_cost = tick_box(say("I know that this costs money"))
        self.free_button = button(say("It costs nothing there"), "check")
        self.payment = widgets.VBox([self.cost, widgets.HBox([self.free_button]), self.allow_cost])
        self.start_button = button(start, "play", button_style="primary")
        self.stop_button = button(say("Stop"), "stop")
        self.buttons = widgets.HBox([self.start_button, self.stop_button])
        self.bar, self.status = widgets.IntProgress(tooltip="", layout=AUTO), html()
        self._due: Usage | None = None  # what a start would have to pay for
        self._agreed: Usage | None = None  # what was due when the box was ticked
        self._unpriced: list[str] = []  # the models whose price nobody knows (see `prices.price_key`)
        self._locked: list[Any] = [self.allow_cost, self.max_cost_usd]  # while the session works
        self._lock = threading.Lock()
        self._listener: Callable[[], Any] | None = None
        self.start_button.on_click(lambda _: self._start())
        self.stop_button.on_click(lambda _: session.stop())
        self.free_button.on_click(lambda _: self._keep_free())
        self.allow_cost.observe(lambda change: self._agree(change["new"]), "value")
        self.max_cost_usd.observe(lambda _: self._change(), "value")

    def close(self) -> None:
        """Close the panel, and stop updating it when the session changes."""
        if self._listener in self.session.listeners:
            self.session.listeners.remove(self._listener)
        super().close()

    # -- what each panel does in its own way

    def _plan(self) -> tuple[Sequence[RunPlan], str]:
        """Return what a start would do, and what else to say of it (HTML). No plan or an error: nothing can be started."""
        raise NotImplementedError

    def _begin(self, limit: float | None) -> None:
        """Start what was planned, with this cap in US dollars."""
        raise NotImplementedError

    def _draw(self) -> None:
        """Update what only this panel has."""

    def _state(self) -> State:
        """Return what the status is about."""
        return self.session.state

    # -- the life of the work

    def _follow_session(self) -> None:
        # When a cell is run again, it makes a new panel. Nothing else would close the panel that it made before.
        for older in [getattr(listener, "__self__", None) for listener in self.session.listeners]:
            if type(older) is type(self):
                older.close()
        self._listener = self._follow
        self.session.listeners.append(self._listener)
        self._settle()

    def _follow(self) -> None:
        """Update the panel after a change of the session, which calls this method in its own threads."""
        if not self.session.is_busy:
            self._price()  # after a run has ended, another number of calls may be due
        self._redraw()

    def _change(self) -> None:
        self.session.stop_changed()  # a run that is under way has other settings than the person saw
        self._redraw()

    def _settle(self) -> None:
        """Plan again, and show what is due."""
        self._price()
        self._redraw()

    def _price(self) -> None:
        self.plans, told, self._due, self._unpriced = (), Words(), None, []
        with told_in(told):
            plans, more = self._plan()
            if plans:
                self._due = total_usage(plan.left for plan in plans)
                keys = [key for plan in plans if plan.left.calls for key in unpriced(plan.plan)]
                self._unpriced = list(dict.fromkeys(keys))
            self.plans, told.value = plans, (cost_html(plans) if plans else "") + more
        if self._unpriced:
            free = say(
                "If {models} costs nothing, as on a server of your own, say so with the button",
                models=listed(self._unpriced),
            )
            told.value += block("warn", escape(free))
        self.cost.value = told.value
        self.free_button.layout.display = "" if self._unpriced else "none"
        self.allow_cost.layout.display = "" if self._is_paid else "none"

    @property
    def _is_paid(self) -> bool:
        """Return whether a start costs money. A cost that is unknown counts as money."""
        return self._due is not None and self._due.calls > 0 and self._due.cost_usd != 0

    def _start(self) -> None:
        agreed, is_ticked = self._agreed, self.allow_cost.value
        self._price()  # a click may come before the page has followed a change
        if self._is_paid and is_ticked and self._due != agreed:
            self._untick()
            told = say(
                "The estimate has changed since you ticked the box, so nothing was run. Check the estimate above and tick "
                "the box again"
            )
            self._redraw()
            self.status.value = block("warn", escape(told))
        elif self._can_start():
            self._untick()
            self._begin((self.max_cost_usd.value or math.inf) if self._is_paid else None)
        else:
            self._redraw()

    def _can_start(self) -> bool:
        if self.session.is_busy or self._due is None or any(plan.problem for plan in self.plans):
            return False
        is_held = self._due.cost_usd is not None or not self.max_cost_usd.value  # a cap needs a price
        return not self._is_paid or (self.allow_cost.value and is_held)

    def _untick(self) -> None:
        """Use up the tick, as each paid run needs a new decision."""
        self._agreed = None
        self.allow_cost.value = False

    def _agree(self, is_ticked: bool) -> None:
        if is_ticked or self._agreed is not None:  # otherwise the panel itself has taken the tick away
            self._agreed = self._due if is_ticked else None
            self._change()

    def _keep_free(self) -> None:
        with told_in(self.cost):
            for name in self._unpriced:
                keep_free(name)
            self._settle()

    def _redraw(self) -> None:
        session, progress, state = self.session, self.session.progress, self._state()
        with self._lock:  # the session's threads call this method too
            self.start_button.disabled = not self._can_start()
            self.stop_button.disabled = session.state != "running"
            for control in self._locked:
                control.disabled = session.is_busy
            self.bar.max, self.bar.value = max(progress.total, 1), progress.done
            self.bar.layout.visibility = "visible" if progress.total else "hidden"
            if state == "idle":
                self.status.value = self._idle_html()
            else:
                self.status.value = status_html(session, state, self.start_button.description)
            self._draw()

    def _idle_html(self) -> str:
        if problem := next((plan.problem for plan in self.plans if plan.problem), ""):
            return block("bad", escape(problem))
        done, total = sum(plan.already for plan in self.plans), sum(plan.total for plan in self.plans)
        resumed = "An earlier run was stopped ({done}/{total}); running takes it up from there"
        return block("warn", say(resumed, done=done, total=total)) if done else ""
