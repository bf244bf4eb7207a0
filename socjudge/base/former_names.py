"""Say what a user does instead of something that an earlier version had."""

from __future__ import annotations

from .messages import say

# The command, the option, the argument and the public name of one thing share a row, which is written without dashes.
_INSTEAD = {
    "like": "former.http_tables",
    "write_questions": "former.questions",
}


def instead_of(name: str) -> str:
    """Return one sentence on what to do instead of a former name, with the place that shows how. Return "" for a name
    that is not a former one.

    name: a command, an option, an argument, a setting or a public name.
    """
    key = _INSTEAD.get(name.lstrip("-").replace("-", "_"))
    return "" if key is None else say(key)
