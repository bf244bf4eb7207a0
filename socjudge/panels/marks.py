"""Define an input for marks, which ipywidgets does not have: sliders with a keyboard key for each quarter of the scale,
a comment and 「保存」.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ..base.messages import say

_TEMPLATES = Path(__file__).parent


class MarksInput(anywidget.AnyWidget):
    """Show one slider per criterion, 0–100. A slider has no mark until it is moved or a key is pressed. The keys 0–4
    set 0, 25, 50, 75, 100 and move on to the next slider.

    scores: the marks in the order of `criteria`; None if a criterion has no mark. shown: the number of answers shown so
    far. The page sends {"shown", "scores", "comment", "save"} at each change and when 「保存」 is pressed; the listener
    (`on_msg`) gives it to `take`. All values are in one message, because JupyterLab may change the order of messages
    from different widgets: a click could arrive before the marks that it should save.
    """

    _esm = _TEMPLATES / "marks.js"
    _css = _TEMPLATES / "marks.css"
    words = traitlets.Dict().tag(sync=True)
    criteria = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # No echo: an older value that comes back would move a slider that is being moved.
    scores = traitlets.List(traitlets.Int(min=0, max=100, allow_none=True)).tag(sync=True, echo_update=False)
    comment = traitlets.Unicode().tag(sync=True, echo_update=False)
    shown = traitlets.Int().tag(sync=True)
    disabled = traitlets.Bool(True).tag(sync=True)

    def __init__(self, criteria: list[str]) -> None:
        words = {
            "group": say("panels.marks_group"), "keys": say("panels.marks_keys"), "comment": say("panels.marks_comment"),
            "save": say("panels.dataset_save"), "unset": say("panels.marks_unset"), "points": say("panels.marks_points", score="{score}"),
        }  # fmt: skip
        super().__init__(words=words, criteria=criteria, scores=[None] * len(criteria))

    def show(self, scores: list[int | None], comment: str) -> None:
        """Show the input for another answer, with these marks; the first slider gets the focus."""
        with self.hold_sync():
            self.scores, self.comment, self.disabled = scores, comment, False
            self.shown += 1
        self._send_marks()

    def close_input(self) -> None:
        """Accept no more changes; the page shows the values that were accepted."""
        self.disabled = True
        self._send_marks()

    def take(self, message: Mapping[str, Any]) -> bool:
        """Store the marks in a message. Return False if they are for another answer or come too late."""
        if self.disabled or message.get("shown") != self.shown:
            return False
        self.set_state({name: message.get(name) for name in ("scores", "comment")})
        return True

    def _send_marks(self) -> None:
        self.send_state(["scores", "comment"])  # even if they are as before: the page may be ahead
