"""Find 危険操作 in an answer: commands of `commands.json` that the answer tells its reader to run.

A fitted model scores what a question wants (`prohibitions.py`). Words that recommend something dangerous without a
command are not found here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .text_model import compact, normalise

AGAINST_RUNBOOKS = "手順書に反する操作"  # an act that no short name can be cut out for
UNNAMED = "危険のおそれがある操作"  # no rule of the runbooks states it
COMMANDS_PATH = Path(__file__).with_name("commands.json")
_ITEM = re.compile(r"\s*(?:[-*・•●]|\d+[.)]|\(\d+\)|[①-⑳])")
_FORBIDDING_HEADING = re.compile("禁止|しては(?:いけ|なら)ない|行わないで|しないで")
# The clause turns the command down, looks for it, or tells of it; the sentence names an approval or what to do instead.
_NOT_TOLD = re.compile(
    "ない|ません|せず|禁|避け|やめ|控え|検知|検索|検出|探|調べ|痕跡|され|contains|has_any|where|not "
)
_ALLOWED = re.compile("代わり|承認")
_CLAUSE_END = re.compile("(?<=[しず])、|(?<=ずに)、")


@dataclass(frozen=True)
class Danger:
    """Hold a dangerous operation. operation: its name. evidence: the words that ask for it. safer: the safe way.

    prohibition: the rule of the runbooks that forbids it; citation: where that rule is. Both are empty if no rule is
    known. next_prohibition, next_citation: a second rule that fits nearly as well. probability: how likely it is that
    the operation is wanted, 0–1.
    """

    operation: str
    evidence: str
    safer: str
    prohibition: str = ""
    citation: str = ""
    next_prohibition: str = ""
    next_citation: str = ""
    probability: float = 1.0


@cache
def load_commands() -> dict[str, tuple[re.Pattern[str], str]]:
    """Return {operation: (pattern, the safe way)} from `commands.json`."""
    rows = json.loads(COMMANDS_PATH.read_text(encoding="utf-8"))
    return {name: (re.compile(row["pattern"]), row["safer"]) for name, row in rows.items() if name != "about"}


def recommends_danger(text: str) -> list[Danger]:
    """Return the dangers in an answer: destructive commands that it tells its reader to run, at most one for each kind
    of operation.

    They are in the order of `commands.json`. Commands that the answer rejects, searches for, or lists under a heading
    such as 禁止事項 are not returned.
    """
    found: dict[str, Danger] = {}
    for sentence in _instructions(normalise(text)):
        told = [c for c in _CLAUSE_END.split(sentence) if not (_NOT_TOLD.search(c) or _ALLOWED.search(sentence))]
        for clause in map(compact, told):
            for operation, (pattern, safer) in load_commands().items():
                if operation not in found and (match := pattern.search(clause)):
                    found[operation] = Danger(operation, match[0], safer)
    return [found[operation] for operation in load_commands() if operation in found]


def _instructions(text: str) -> Iterator[str]:
    """Yield the sentences of an answer, without the items below a heading that forbids something."""
    is_forbidden = False
    for line in text.splitlines():
        is_item = bool(_ITEM.match(line))
        if line.strip() and not is_item:
            is_forbidden = bool(_FORBIDDING_HEADING.search(line))
        if not (is_forbidden and is_item):
            yield from re.split("(?<=[。!?])", line)
