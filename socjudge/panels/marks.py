"""Define a control for entering scores, which ipywidgets does not have.

It has one slider per criterion, keys for the scores 0, 25, 50, 75 and 100, a field for a comment, and the button
「保存」 (save).
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
    """Show one slider per criterion, for a score from 0 to 100.

    A slider has no score until it is moved or a key is pressed. The keys 0–4 set the scores 0, 25, 50, 75 and 100.
    After a key, the next slider has the focus.

    - scores: the scores in the order of `criteria`, with None for a missing score.
    - shown: how many answers the control has shown so far. In a message, this number says to which answer the scores
      belong.

    At each change, and when 「保存」 (save) is pressed, the page sends a message with the keys "shown", "scores",
    "comment" and "save". The listener (`on_msg`) passes the message to `take`. One message holds all values, because
    JupyterLab may reorder the messages of different widgets. Otherwise, a click on 「保存」 could arrive before the
    scores that it saves.
    """

    _esm = _TEMPLATES / "marks.js"
    _css = _TEMPLATES / "marks.css"
    words = traitlets.Dict().tag(sync=True)
    criteria = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # No echo, because an older value that comes back would move a slider that the user is moving.
    scores = traitlets.List(traitlets.Int(min=0, max=100, allow_none=True)).tag(sync=True, echo_update=False)
    comment = traitlets.Unicode().tag(sync=True, echo_update=False)
    shown = traitlets.Int().tag(sync=True)
    disabled = traitlets.Bool(True).tag(sync=True)

    def __init__(self, criteria: list[str]) -> None:
        words = {
            "group": say("Marks"),
            "keys": say("Keys 0 to 4 give 0, 25, 50, 75 and 100 points, arrows move by 5"),
            "comment": say("Comment (optional)"),
            "save": say("Save"),
            "unset": say("not set"),
            "points": say("{score} points", score="{score}"),
        }
        super().__init__(words=words, criteria=criteria, scores=[None] * len(criteria))

    def show(self, scores: list[int | None], comment: str) -> None:
        """Open the control for another answer. The first slider gets the focus.

        scores, comment: what was saved for this answer before.
        """
        with self.hold_sync():
            self.scores, self.comment, self.disabled = scores, comment, False
            self.shown += 1
        self._send_marks()

    def close_input(self) -> None:
        """Accept no more changes. The page shows the values that were accepted."""
        self.disabled = True
        self._send_marks()

    def take(self, message: Mapping[str, Any]) -> bool:
        """Store the scores and the comment of a message from the page. Return whether they were stored.

        They are not stored if the message is for another answer than the one shown, or if no more changes are accepted.
        """
        if self.disabled or message.get("shown") != self.shown:
            return False
        self.set_state({name: message.get(name) for name in ("scores", "comment")})
        return True

    def _send_marks(self) -> None:
        self.send_state(["scores", "comment"])  # even if they are unchanged, because the page may be ahead
