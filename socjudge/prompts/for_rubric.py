"""The judge prompt for criteria of one's own: guide-1 with other criteria in it, in the words of their descriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from ..base.messages import listed, say
from ..errors import ConfigError
from ..records import SPECIFIED_CRITERIA, Rubric

SPECIFIED = "guide-1"  # the specification's prompt, which serves exactly its six criteria
OF_RUBRIC = "rubric-1"
_CRITERION = re.compile(r"^\d\. \*\*(?P<name>.+?)\*\*: (?P<text>.+?)\n\n", re.MULTILINE | re.DOTALL)
_SCALE = "   - 100点: 十分に満たしている\n   - 50点: 一部だけ満たしている\n   - 0点: 満たしていない"


def is_specified(rubric: Rubric) -> bool:
    """Whether the specification's prompt asks for these criteria, in this order, in its own words."""
    return rubric.criteria == SPECIFIED_CRITERIA and not rubric.descriptions


def rubric_prompt_text(rubric: Rubric) -> str:
    """The specification's prompt with these criteria instead of its six; its own words for those of the six that have no
    description. ConfigError for a criterion that nobody describes."""
    guide = (files("socjudge.prompts") / f"{SPECIFIED}.txt").read_text(encoding="utf-8")
    known = {match["name"]: match["text"] for match in _CRITERION.finditer(guide)}
    own = {name: _described(text) for name, text in rubric.descriptions.items()}
    told = known | own
    if lacking := [name for name in rubric.criteria if name not in told]:
        raise ConfigError(say("prompts.undescribed", criteria=listed(lacking), name=lacking[0]))
    if braces := [name for name in rubric.criteria if re.search(r"\{[a-z_]+\}", name + own.get(name, ""))]:
        raise ConfigError(say("prompts.braces", criteria=listed(braces)))
    count = len(rubric.criteria)
    text = guide.replace("6つの観点", f"{count}つの観点" if count < 10 else f"{count}個の観点")
    for value in ("<0-100の整数>", '"<評価理由を1-2文で>"'):
        text = text.replace(_json_lines(SPECIFIED_CRITERIA, value), _json_lines(rubric.criteria, value))
    return text.replace(_list_of(SPECIFIED_CRITERIA, known), _list_of(rubric.criteria, told))


def _list_of(criteria: Sequence[str], told: Mapping[str, str]) -> str:
    return "\n\n".join(f"{number}. **{name}**: {told[name]}" for number, name in enumerate(criteria, 1))


def _json_lines(criteria: Sequence[str], value: str) -> str:
    return ",\n".join(f"    {json.dumps(name, ensure_ascii=False)}: {value}" for name in criteria)


def _described(text: str) -> str:
    """A description as the guide has them: with what the points mean, unless it says so itself in lines of its own."""
    first, *more = text.strip().splitlines()
    return first + "\n" + ("\n".join(f"   {line.strip()}" for line in more) or _SCALE)
