"""Make the judge prompt for a rubric with your own criteria.

It is the built-in prompt guide-1, with the names and descriptions of these criteria in place of the built-in six.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from ..base.messages import listed, say
from ..errors import ConfigError
from ..records import SPECIFIED_CRITERIA, Rubric

SPECIFIED = "guide-1"  # the specification's prompt, which fits exactly its six criteria
OF_RUBRIC = "rubric-1"
_CRITERION = re.compile(r"^\d\. \*\*(?P<name>.+?)\*\*: (?P<text>.+?)\n\n", re.MULTILINE | re.DOTALL)
_ANCHOR = re.compile(r"\s*[-・]?\s*(\d{1,3})点\s*[:：]\s*(.+)")
_SCALE = "   - 100点: 十分に満たしている\n   - 50点: 一部だけ満たしている\n   - 0点: 満たしていない"


def is_specified(rubric: Rubric) -> bool:
    """Return whether the rubric has exactly the specification's six criteria, in the same order, and describes none of
    them anew.
    """
    return rubric.criteria == SPECIFIED_CRITERIA and not rubric.descriptions


def rubric_prompt_text(rubric: Rubric) -> str:
    """Return the specification's judge prompt with this rubric's criteria in place of the specification's six.

    If the rubric does not describe one of the six, the specification's words for it are used. Raises ConfigError if any
    other criterion has no description, or if a name or description has a placeholder such as `{answer}`.
    """
    guide, known = _guide(), _known()
    own = {name: _described(text) for name, text in rubric.descriptions.items()}
    told = _told(rubric)
    if braces := [name for name in rubric.criteria if re.search(r"\{[a-z_]+\}", name + own.get(name, ""))]:
        raise ConfigError(
            say(
                "the name or description of {criteria} holds what looks like a placeholder of a prompt, such as "
                "{{answer}}; write it in another way",
                criteria=listed(braces),
            )
        )
    count = len(rubric.criteria)
    text = guide.replace("6つの観点", f"{count}つの観点" if count < 10 else f"{count}個の観点")
    for value in ("<0-100の整数>", '"<評価理由を1-2文で>"'):
        text = text.replace(_json_lines(SPECIFIED_CRITERIA, value), _json_lines(rubric.criteria, value))
    return text.replace(_list_of(SPECIFIED_CRITERIA, known), _list_of(rubric.criteria, told))


def anchors_of(rubric: Rubric, levels: int) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return {criterion: (what it asks, labels of its levels)}. A label is a text such as "50点: 一部のみ".

    levels: 3 (0, 50 and 100 points) or 5 (0, 25, 50, 75 and 100 points).

    A label has only the points if the criterion's description does not say what they mean. The words come from the
    rubric, or from the specification for its own six criteria. Raises ConfigError if another criterion has no
    description.
    """
    found = {}
    for name in rubric.criteria:
        asked, *lines = _told(rubric)[name].splitlines()
        anchors = dict((match[1], match[2]) for line in lines if (match := _ANCHOR.match(line)))
        points = range(0, 101, 100 // (levels - 1))
        found[name] = (
            asked,
            tuple(f"{each}点: {anchors[str(each)]}" if str(each) in anchors else f"{each}点" for each in points),
        )
    return found


def _guide() -> str:
    return (files("socjudge.prompts") / f"{SPECIFIED}.txt").read_text(encoding="utf-8")


@functools.cache
def _known() -> dict[str, str]:
    """Return {criterion: its text in the specification's prompt} for the specification's six criteria."""
    return {match["name"]: match["text"] for match in _CRITERION.finditer(_guide())}


def _told(rubric: Rubric) -> dict[str, str]:
    """Return {criterion: its text for the prompt}. The text is the description, with lines that say what 0, 50 and 100
    points mean.

    The specification's six criteria need no description in the rubric: their text is then the specification's. Raises
    ConfigError if another criterion has none.
    """
    told = _known() | {name: _described(text) for name, text in rubric.descriptions.items()}
    if lacking := [name for name in rubric.criteria if name not in told]:
        raise ConfigError(
            say(
                "nothing says what {criteria} looks at. Write these two lines into socjudge.toml (in Python: "
                "descriptions of a Rubric):\n"
                "[rubric.descriptions]\n"
                '"{name}" = "what it looks at"',
                criteria=listed(lacking),
                name=lacking[0],
            )
        )
    return told


def _list_of(criteria: Sequence[str], told: Mapping[str, str]) -> str:
    return "\n\n".join(f"{number}. **{name}**: {told[name]}" for number, name in enumerate(criteria, 1))


def _json_lines(criteria: Sequence[str], value: str) -> str:
    return ",\n".join(f"    {json.dumps(name, ensure_ascii=False)}: {value}" for name in criteria)


def _described(text: str) -> str:
    """Return the text of a criterion for the prompt: the first line of its description, then what the points mean.

    text: the description. Its further lines say what the points mean. If there are none, `_SCALE` is used for them.
    """
    first, *more = text.strip().splitlines()
    return first + "\n" + ("\n".join(f"   {line.strip()}" for line in more) or _SCALE)
