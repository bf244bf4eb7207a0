"""Say when the maker of a model has announced its end: `ending_line`."""

from __future__ import annotations

import os
from datetime import date

from ..base.messages import say
from ..settings import open_project

MAKER = "api.openai.com"
# {name: (day, source)}. The day was read on 2026-11-24 in two copies of OpenAI's table. The page itself, or
# `shutdown_date` in GET /v1/models, has the last word.
MODEL_ENDS = dict.fromkeys(
    ("gpt-4o-mini", "gpt-4o", "gpt-4.1", "gpt-4.1-mini"),
    (date(2027, 1, 14), "https://developers.openai.com/api/docs/deprecations"),
)


def ending_line(model: str, service: str | None = None) -> str:
    """Return when this model ends, and what to do. "" if no end is known, or if another service is asked."""
    if service is None:
        service = os.environ.get("OPENAI_BASE_URL", "").strip().rstrip("/") or MAKER
    if model not in MODEL_ENDS or service not in (MAKER, f"https://{MAKER}/v1"):
        return ""
    day, source = MODEL_ENDS[model]
    words = (
        "⚠️ the last day of {model} is {day} ({source}). The scores of another model do not compare with its scores as "
        'they are, so see what it changes while both can be called: docs/reference.md, "Recipes", "Another judge"'
    )
    return say(words, model=model, day=day, source=source)


def ended_line(model: str, service: str) -> str:
    has_come = model in MODEL_ENDS and date.today() >= MODEL_ENDS[model][0]
    return ending_line(model, service) if has_come else ""


def project_ending() -> str:
    """Return `ending_line` for the judge and the assistant of the project, one line for each model that ends."""
    hosted = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    project = open_project()
    asked = [project.default_model("judge"), *([] if project.answers else [project.default_model("answer")])]
    names = dict.fromkeys(name for name, is_named in asked if is_named or hosted)
    return "\n".join(filter(None, map(ending_line, names)))
