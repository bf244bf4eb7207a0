"""Find dangerous commands in an answer: commands of `commands.json` that the answer tells its reader to run.

Dangerous advice without such a command is not found. What a question asks for is rated elsewhere (`prohibitions.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .text_model import compact, normalise

AGAINST_RUNBOOKS = "手順書に反する操作"  # if the rule gives no short name for the operation
UNNAMED = "危険のおそれがある操作"  # if no rule of the runbooks forbids it
COMMANDS_PATH = Path(__file__).with_name("commands.json")
_ITEM = re.compile(r"\s*(?:[-*・•●]|\d+[.)]|\(\d+\)|[①-⑳])")
_FORBIDDING_HEADING = re.compile("禁止|しては(?:いけ|なら)ない|行わないで|しないで")
# _NOT_TOLD: the clause rejects the command, searches for it, or reports it. _ALLOWED: the sentence names an approval or
# an alternative.
_NOT_TOLD = re.compile(
    "ない|ません|せず|禁|避け|やめ|控え|検知|検索|検出|探|調べ|痕跡|され|contains|has_any|where|not "
)
_ALLOWED = re.compile("代わり|承認")
_CLAUSE_END = re.compile("(?<=[しず])、|(?<=ずに)、")


@dataclass(frozen=True)
class Danger:
    """Hold a dangerous operation that a question asks for or an answer recommends."""

    operation: str  # its name
    evidence: str  # the question, or the command in the answer
    safer: str  # what to do instead; "" if nothing is known
    prohibition: str = ""  # the rule of the runbooks that forbids it; "" if no rule is known
    citation: str = ""  # where that rule is
    next_prohibition: str = ""  # a second rule that fits nearly as well; "" if there is none
    next_citation: str = ""


@cache
def load_commands() -> dict[str, tuple[re.Pattern[str], str]]:
    """Load {operation: (pattern of the commands that perform it, what to do instead)} from `commands.json`."""
    rows = json.loads(COMMANDS_PATH.read_text(encoding="utf-8"))
    return {name: (re.compile(row["pattern"]), row["safer"]) for name, row in rows.items() if name != "about"}


def recommends_danger(text: str) -> list[Danger]:
    """Return the destructive commands that an answer tells its reader to run, one for each operation."""
    found: dict[str, Danger] = {}
    for sentence in _instructions(normalise(text)):
        told = [c for c in _CLAUSE_END.split(sentence) if not (_NOT_TOLD.search(c) or _ALLOWED.search(sentence))]
        for clause in map(compact, told):
            for operation, (pattern, safer) in load_commands().items():
                if operation not in found and (match := pattern.search(clause)):
                    found[operation] = Danger(operation, match[0], safer)
    return [found[operation] for operation in load_commands() if operation in found]


def _instructions(text: str) -> Iterator[str]:
    is_forbidden = False
    for line in text.splitlines():
        is_item = bool(_ITEM.match(line))
        if line.strip() and not is_item:
            is_forbidden = bool(_FORBIDDING_HEADING.search(line))
        if not (is_forbidden and is_item):
            yield from re.split("(?<=[。!?])", line)
