"""Define a control for entering scores, which ipywidgets does not have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ..base.messages import say

_TEMPLATES = Path(__file__).parent


class ScoresInput(anywidget.AnyWidget):
    """Show one slider per criterion. A slider has no score until it is moved or a key is pressed.
    The keys 0–4 set the scores 0, 25, 50, 75 and 100, and move the focus to the next slider."""

    _esm = _TEMPLATES / "scores_input.js"
    _css = _TEMPLATES / "scores_input.css"
    words = traitlets.Dict().tag(sync=True)
    criteria = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # In the order of `criteria`, with None for a missing score.
    # No echo, because an older value that comes back would move a slider that the user is moving.
    scores = traitlets.List(traitlets.Int(min=0, max=100, allow_none=True)).tag(sync=True, echo_update=False)
    comment = traitlets.Unicode().tag(sync=True, echo_update=False)
    # How many answers were shown so far. In a message, this number says to which answer the scores belong.
    shown = traitlets.Int().tag(sync=True)
    disabled = traitlets.Bool(True).tag(sync=True)

    def __init__(self, criteria: list[str]) -> None:
        words = {
            "group": say("Scores"),
            "keys": say("Keys 0 to 4 give 0, 25, 50, 75 and 100 points, arrows move by 5"),
            "comment": say("Comment (optional)"),
            "save": say("Save"),
            "unset": say("not set"),
            "points": say("{score} points", score="{score}"),
        }
        super().__init__(words=words, criteria=criteria, scores=[None] * len(criteria))

    def show(self, scores: list[int | None], comment: str) -> None:
        """Open the control for another answer, with what was saved for it before. The first slider gets the focus."""
        with self.hold_sync():
            self.scores, self.comment, self.disabled = scores, comment, False
            self.shown += 1
        self._send_scores()

    def close_input(self) -> None:
        """Accept no more changes. The page shows the values that were accepted."""
        self.disabled = True
        self._send_scores()

    def take(self, message: Mapping[str, Any]) -> bool:
        """Store the scores and the comment of a message from the page, and return whether they were stored.
        They are not if the message is for another answer than the one shown, or after `close_input`."""
        # The page sends this message, with all values and "save", at each change and when 「保存」 (save) is pressed.
        # JupyterLab may reorder the messages of different widgets: with a widget for each value, a click on 「保存」
        # could arrive before the scores that it saves.
        if self.disabled or message.get("shown") != self.shown:
            return False
        self.set_state({name: message.get(name) for name in ("scores", "comment")})
        return True

    def _send_scores(self) -> None:
        self.send_state(["scores", "comment"])  # even if they are unchanged, because the page may be ahead
