"""Notice a reply that belongs to another request."""

from __future__ import annotations

from collections import OrderedDict

from ..records import ModelRequest

MOST = 10_000  # replies that are remembered


class SeenReplies:
    """Remember which request each reply of a service answered, by the reply's id."""

    def __init__(self) -> None:
        self._replies: OrderedDict[str, tuple[str, int, int]] = OrderedDict()
        self._has_doubted = False

    def is_of_another(self, reply_id: object, model: str, request: ModelRequest, text: str) -> bool:
        """Return whether a reply has answered another request before, and so is not the reply to this one."""
        if not isinstance(reply_id, str) or not reply_id:
            return False
        asked = hash(tuple(message["content"] for message in request.messages))
        found = self._replies.setdefault(reply_id, (model, asked, hash(text)))
        if len(self._replies) > MOST:
            self._replies.popitem(last=False)
        # A cache may answer the same request again. Some servers give every reply the same id, or draw it at random from
        # a few, so the text must be the same as well.
        if found[:2] == (model, asked) or found[2] != hash(text):
            return False
        if any(each[0] == model for name, each in self._replies.items() if name != reply_id):
            return True
        # No other id is known: perhaps the model always replies with this id and this text. So it is asked once more.
        is_first, self._has_doubted = not self._has_doubted, True
        return is_first
