"""Make the judge prompt for a rubric with your own criteria: guide-1 with these criteria in place of its six."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from ..base.messages import listed
from ..errors import ConfigError
from ..records import SPECIFIED_CRITERIA, Rubric
from ..settings import SPECIFIED_PROMPT

OF_RUBRIC = "rubric-1"
_CRITERION = re.compile(r"^\d\. \*\*(?P<name>.+?)\*\*: (?P<text>.+?)\n\n", re.MULTILINE | re.DOTALL)
_ANCHOR = re.compile(r"\s*[-・]?\s*(\d{1,3})点\s*[:：]\s*(.+)")
_SCALE = "   - 100点: 十分に満たしている\n   - 50点: 一部だけ満たしている\n   - 0点: 満たしていない"


def is_specified(rubric: Rubric) -> bool:
    return rubric.criteria == SPECIFIED_CRITERIA and not rubric.descriptions


def rubric_prompt_text(rubric: Rubric) -> str:
    """ConfigError if nothing describes a criterion, or if a text has a placeholder such as `{answer}`."""
    guide, known = _guide(), _known()
    own = {name: _described(text) for name, text in rubric.descriptions.items()}
    told = _told(rubric)
    if braces := [name for name in rubric.criteria if re.search(r"\{[a-z_]+\}", name + own.get(name, ""))]:
        raise ConfigError(
            "the name or description of {criteria} holds what looks like a placeholder of a prompt, such as "
            "{{answer}}; write it in another way",
            criteria=listed(braces),
        )
    count = len(rubric.criteria)
    text = guide.replace("6つの観点", f"{count}つの観点" if count < 10 else f"{count}個の観点")
    for value in ("<0-100の整数>", '"<評価理由を1-2文で>"'):
        text = text.replace(_json_lines(SPECIFIED_CRITERIA, value), _json_lines(rubric.criteria, value))
    return text.replace(_list_of(SPECIFIED_CRITERIA, known), _list_of(rubric.criteria, told))


def anchors_of(rubric: Rubric, levels: int) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return {criterion: (what it asks, labels of its 3 or 5 levels)}. A label is a text such as "50点: 一部のみ",
    or only the points if nothing says what they mean. ConfigError if nothing describes a criterion."""
    found = {}
    for name in rubric.criteria:
        asked, *lines = _told(rubric)[name].splitlines()
        anchors = {int(match[1]): f": {match[2]}" for line in lines if (match := _ANCHOR.match(line))}
        points = range(0, 101, 100 // (levels - 1))
        found[name] = asked, tuple(f"{each}点{anchors.get(each, '')}" for each in points)
    return found


def _guide() -> str:
    return (files("socjudge.prompts") / f"{SPECIFIED_PROMPT}.txt").read_text(encoding="utf-8")


@functools.cache
def _known() -> dict[str, str]:
    return {match["name"]: match["text"] for match in _CRITERION.finditer(_guide())}


def _told(rubric: Rubric) -> dict[str, str]:
    # The specification's six need no description: its own words then say what 0, 50 and 100 points mean.
    told = _known() | {name: _described(text) for name, text in rubric.descriptions.items()}
    if lacking := [name for name in rubric.criteria if name not in told]:
        raise ConfigError(
            "nothing says what {criteria} looks at. Write these two lines into socjudge.toml (in Python: "
            "descriptions of a Rubric):\n"
            "[rubric.descriptions]\n"
            '"{name}" = "what it looks at"',
            criteria=listed(lacking),
            name=lacking[0],
        )
    return told


def _list_of(criteria: Sequence[str], told: Mapping[str, str]) -> str:
    return "\n\n".join(f"{number}. **{name}**: {told[name]}" for number, name in enumerate(criteria, 1))


def _json_lines(criteria: Sequence[str], value: str) -> str:
    return ",\n".join(f"    {json.dumps(name, ensure_ascii=False)}: {value}" for name in criteria)


def _described(text: str) -> str:
    first, *more = text.strip().splitlines()  # the further lines say what the points mean
    return first + "\n" + ("\n".join(f"   {line.strip()}" for line in more) or _SCALE)
