"""Define the life of a panel's work: planned and priced, allowed, started, followed, and stopped."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from ..base.messages import listed, say
from ..base.showing import block, escape
from ..runs.estimate import Estimate
from ..settings import keep_free, open_project
from .controls import AUTO, NARROW, Panel, Words, button, field, html, tick_box, told_in
from .state.session import Session, State
from .views.common import failed_html, progress_text, stopped_html

# What a click would do: what is left to pay for, how it is shown (HTML), and the models whose price nobody knows.
Offer = tuple[Estimate, str, Iterable[str]]


class Payment(widgets.VBox):  # type: ignore[misc]
    """Show what a click would cost, and ask before money is spent. Where nothing is paid, nothing is asked."""

    def __init__(self, on_free: Callable[[], Any], on_change: Callable[[], Any]) -> None:
        self.cost, self._on_free = html(), on_free
        cap = open_project().cost_cap()
        self.max_cost_usd = field(  # not one of the children: each panel has its own place for it
            widgets.BoundedFloatText, say("Most that it may cost ($; 0: no limit)"), value=0.5 if cap is None else cap,
            min=0, max=1e6, step=0.1, layout=NARROW,
        )  # fmt: skip
        self.allow_cost = tick_box(say("I know that this costs money"))
        self.free_button = button(say("It costs nothing there"), "check")
        self.due: Estimate | None = None  # what a start would have to pay for; None if nothing can be started
        self._agreed: Estimate | None = None  # what was due when the box was ticked
        self._unpriced: list[str] = []
        super().__init__([self.cost, widgets.HBox([self.free_button]), self.allow_cost])
        self.free_button.on_click(lambda _: self._keep_free())
        self.allow_cost.observe(lambda change: self._agree(change["new"]), "value")
        for control in (self.allow_cost, self.max_cost_usd):
            control.observe(lambda _: on_change(), "value")
        self.offer(None)

    def offer(self, due: Estimate | None, shown: str = "", unpriced: Iterable[str] = ()) -> None:
        """Show (HTML) what is due. unpriced: the models whose price nobody knows (see `prices.price_key`)."""
        self.due, self._unpriced = due, list(dict.fromkeys(unpriced)) if due else []
        if self._unpriced:
            free = say(
                "If {models} costs nothing, as on a server of your own, say so with the button",
                models=listed(self._unpriced),
            )
            shown += block("warn", escape(free))
        self.cost.value = shown
        self.free_button.layout.display = "" if self._unpriced else "none"
        self.allow_cost.layout.display = "" if self.is_paid else "none"

    @property
    def is_paid(self) -> bool:
        """Return whether a start costs money. A cost that is unknown counts as money."""
        return self.due is not None and self.due.calls > 0 and self.due.cost_usd != 0

    @property
    def is_ready(self) -> bool:
        """Return whether a start may be offered."""
        capped = bool(self.max_cost_usd.value)
        is_known = self.due is not None and (self.due.cost_usd is not None or not (self.is_paid and capped))
        return is_known and (self.allow_cost.value or not self.is_paid)

    @property
    def limit(self) -> float | None:
        """Return the cap in US dollars, infinity if there is none, and None if nothing is paid."""
        return (self.max_cost_usd.value or math.inf) if self.is_paid else None

    def take(self) -> str:
        """Use up the tick, as each paid run needs a new decision. Return why nothing may be started, or ""."""
        is_agreed = not self.is_paid or self.due == self._agreed
        self.allow_cost.value = False
        if is_agreed:
            return ""
        told = say(
            "The estimate has changed since you ticked the box, so nothing was run. Check the estimate above and tick "
            "the box again"
        )
        return block("warn", escape(told))

    def _agree(self, is_ticked: bool) -> None:
        self._agreed = self.due if is_ticked else None

    def _keep_free(self) -> None:
        with told_in(self.cost):
            for name in self._unpriced:
                keep_free(name)
            self._on_free()


class WorkPanel(Panel):
    """Serve as the base class of panels whose work a session does: it goes on if the panel is closed. The panel follows
    the session until it is closed, or until its cell is run again."""

    def __init__(self, session: Session, start: str) -> None:
        super().__init__()
        self.session = session
        self.payment = Payment(self._settle, self._change)
        self.cost, self.max_cost_usd, self.allow_cost = (
            self.payment.cost, self.payment.max_cost_usd, self.payment.allow_cost,
        )  # fmt: skip
        self.start_button = button(start, "play", button_style="primary")
        self.stop_button = button(say("Stop"), "stop")
        self.buttons = widgets.HBox([self.start_button, self.stop_button])
        self.bar, self.status = widgets.IntProgress(layout=AUTO), html()
        self._can_start = False  # whether the settings can be used
        self._locked: list[Any] = [self.allow_cost, self.max_cost_usd]  # while the session works
        self._lock = threading.Lock()
        self._listener: Callable[[], Any] | None = None
        self.start_button.on_click(lambda _: self._start())
        self.stop_button.on_click(lambda _: session.stop())

    @property
    def is_busy(self) -> bool:
        """Return whether the session is running a task."""
        return self.session.is_busy

    def close(self) -> None:
        """Close the panel, and stop updating it when the session changes."""
        if self._listener in self.session.listeners:
            self.session.listeners.remove(self._listener)
        super().close()

    # -- what each panel does in its own way

    def _plan(self) -> Offer | None:
        """Return what a start would do. None or an error: nothing can be started."""
        raise NotImplementedError

    def _begin(self, limit: float | None) -> None:
        """Start what was planned, with this cap in US dollars."""
        raise NotImplementedError

    def _draw(self) -> None:
        """Update what only this panel has."""

    def _state(self) -> State:
        """Return what the status is about."""
        return self.session.state

    def _idle_html(self) -> str:
        return ""

    def _running_html(self) -> str:
        return block("", say("⏳ Judging... other cells can be run meanwhile"), progress_text(self.session.progress))

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
        if self.session.is_busy:
            self._redraw()
        else:
            self._settle()  # after a run has ended, another number of calls may be due

    def _change(self) -> None:
        self.session.stop_changed()  # a run that is under way has other settings than the person saw
        self._redraw()

    def _settle(self) -> None:
        """Plan again, and show what is due."""
        offer, problem = None, Words()
        with told_in(problem):
            offer = self._plan()
        self._can_start = offer is not None
        self.payment.offer(*(offer or (None, problem.value)))
        self._redraw()

    def _start(self) -> None:
        self._settle()  # a click may come before the page has followed a change
        if not self.start_button.disabled:
            limit = self.payment.limit
            if refused := self.payment.take():
                self.status.value = refused
            else:
                self._begin(limit)

    def _redraw(self) -> None:
        session, progress = self.session, self.session.progress
        with self._lock:  # the session's threads call this method too
            self.start_button.disabled = session.is_busy or not self._can_start or not self.payment.is_ready
            self.stop_button.disabled = session.state != "running"
            for control in self._locked:
                control.disabled = session.is_busy
            self.bar.max, self.bar.value = max(progress.total, 1), progress.done
            self.bar.layout.visibility = "visible" if progress.total else "hidden"
            self.status.value = self._status_html()
            self._draw()

    def _status_html(self) -> str:
        match self._state():
            case "running":
                return self._running_html()
            case "stopping" | "stopped":
                return stopped_html(self.session, self.start_button.description)
            case "failed":
                return failed_html(self.session)
            case "finished":
                return block("good", say("✅ Judged ({numbers})", numbers=progress_text(self.session.progress)))
        return self._idle_html()
