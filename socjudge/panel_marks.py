"""Six sliders with a key for each fifth of the scale, and a comment: the one input that ipywidgets does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

_TEMPLATES = Path(__file__).parent / "templates"


class MarksInput(anywidget.AnyWidget):
    """A slider per criterion, 0–100, without a mark until it is touched; keys 0–4 give 0, 25, 50, 75, 100 and go on to
    the next one.

    scores: in the order of `criteria`, None where there is no mark yet. shown: counts the answers that were shown."""

    _esm = _TEMPLATES / "marks.js"
    _css = _TEMPLATES / "marks.css"
    criteria = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # No echo: an older value that comes back would move a slider that is being moved.
    scores = traitlets.List(traitlets.Int(min=0, max=100, allow_none=True)).tag(sync=True, echo_update=False)
    comment = traitlets.Unicode().tag(sync=True, echo_update=False)
    shown = traitlets.Int().tag(sync=True)
    disabled = traitlets.Bool().tag(sync=True)

    def __init__(self, criteria: list[str]) -> None:
        super().__init__(criteria=criteria, scores=[None] * len(criteria))
        self.on_msg(self._receive)

    def show(self, scores: list[int | None], comment: str) -> None:
        """Start on another answer, with these marks; the first slider has the focus."""
        with self.hold_sync():
            self.scores, self.comment, self.disabled = scores, comment, False
            self.shown += 1
        self.send_state(["scores", "comment"])  # even if they are the same: the page may have moved on meanwhile

    def close_input(self) -> None:
        """Take no more changes; the page shows what stands here."""
        self.disabled = True
        self.send_state(["scores", "comment"])

    def _receive(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What the page says. Messages keep their order with a button's click, which changes of state do not; one that
        was meant for the answer before comes too late."""
        if content.get("shown") == self.shown and not self.disabled:
            self.set_state({name: content.get(name) for name in ("scores", "comment")})
