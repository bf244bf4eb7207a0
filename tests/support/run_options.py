"""How a run is made, as tests say it: by keyword, whichever of them belong into `RunOptions`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from socjudge import RunOptions

_NAMES = {field.name for field in fields(RunOptions)}


def with_options(**keywords: Any) -> dict[str, Any]:
    """The keywords as a run takes them: those of RunOptions as its `options`."""
    how = {name: value for name, value in keywords.items() if name in _NAMES}
    return {name: value for name, value in keywords.items() if name not in how} | {"options": RunOptions(**how)}
