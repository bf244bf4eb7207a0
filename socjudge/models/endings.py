"""Warn before a judge's model is shut down.

model_ends.toml has the dates with their sources. The project's own file of that name takes precedence.
"""

from __future__ import annotations

import os
import tomllib
from datetime import date
from importlib.resources import files
from typing import Any

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..settings import default_model
from .cascade import THEN

FILE = "model_ends.toml"


def ending_text(model: str, today: date | None = None) -> str:
    """Return a warning that a judge's model will be or was shut down, and what to do.

    Return "" if no date of a shutdown is known for this model. If the name combines two judges ("first > second"), both
    are checked.
    Raises ConfigError if the project's table cannot be read.
    """
    today = today or date.today()
    table, told = _table(), []
    for name in model.split(THEN):
        row = table.get(name) or table.get(name.partition(":")[2])
        if row is not None:
            key = "models.ends" if row["ends"] >= today else "models.has_ended"
            told.append(say(key, model=name, ends=row["ends"], days=(row["ends"] - today).days, source=row["source"]))
    return "\n".join(told)


def judge_ending(model: str = "auto") -> str:
    """Return the warning of `ending_text` for the judge that the user chose. "auto" means the project's judge.

    Return "" if "auto" leads to the embedded judge.
    """
    if model != "auto":
        return ending_text(model)
    model, is_named = default_model("judge")
    hosted = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    return ending_text(model) if is_named or hosted else ""


def _table() -> dict[str, Any]:
    own = constants.PROJECT_DIR / FILE
    found = tomllib.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    try:
        found |= tomllib.loads(own.read_text(encoding="utf-8-sig")) if own.is_file() else {}
    except (OSError, ValueError) as error:
        raise ConfigError(say("models.ends_unreadable", path=own, reason=error)) from None
    for model, row in found.items():
        if not (isinstance(row, dict) and type(row.get("ends")) is date and isinstance(row.get("source"), str)):
            raise ConfigError(say("models.ends_unreadable", path=own, reason=say("models.ends_row", model=model)))
    return found
