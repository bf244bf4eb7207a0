"""Find the JSON objects in a judge's reply. Reasoning and prose are skipped. Objects are repaired, but never completed.

json_repair repairs the punctuation of JSON. But it also completes objects that were cut off, with made-up values, and
it guesses when it reads unusual numbers. Therefore it is only given objects whose braces are balanced, and the scores
are taken from the original spelling.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import json_repair

from ..base.messages import listed
from ..errors import UnparsableJudgement

_MAX_REPAIRED = 20_000  # characters; json_repair is slow on long odd texts
_TAG = r"(?:think|thinking|thought|reasoning)"
_THINKING_OPENS = re.compile(rf"\s*<{_TAG}(?:\s[^<>]*)?>", re.IGNORECASE)
_THINKING_CLOSES = re.compile(rf"</{_TAG}\s*>", re.IGNORECASE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_SCORES_KEY = re.compile(r"""["']?\bscores\b["']?\s*:\s*""")
_WORD = re.compile(r"[^\s\"',:{}\\]+")


def without_thinking(body: str) -> str:
    """Return a reply without the model's reasoning at its beginning, whose first tag may be missing. A tag within quotes
    stays, as a quotation. UnparsableJudgement if the reasoning never ends."""
    start = 0
    while opens := _THINKING_OPENS.match(body, start):
        closes = _THINKING_CLOSES.search(body, opens.end())
        if closes is None:
            raise UnparsableJudgement("the reply ends within the model's reasoning")
        start = closes.end()
    seen, quotes = start, 0
    for closes in _THINKING_CLOSES.finditer(body, start):
        quotes += body[seen : closes.start()].replace('\\"', "").count('"')
        seen = closes.end()
        start = start if quotes % 2 else seen
    return body[start:].strip()


@dataclass(frozen=True)
class JsonObject:
    value: dict[str, Any]
    source: str  # its text in the reply
    start: int  # where this text begins
    was_repaired: bool = False


def find_objects(body: str) -> list[JsonObject]:
    """Return the outermost JSON objects. UnparsableJudgement if a brace before the last "scores" never closes: what is
    inside it may belong to an object that was cut off, and is no reply of its own."""
    found: list[JsonObject] = []
    last_scores = body.rfind("scores")
    position = body.find("{")
    while position >= 0:
        was_repaired = False
        try:
            value, end = _DECODER.raw_decode(body, position)
        except (json.JSONDecodeError, RecursionError):
            brace = closing_brace(body, position)
            if brace is None and position < last_scores:
                raise UnparsableJudgement("the reply is cut: its JSON object never closes") from None
            if brace is None:
                break
            value, end = None, brace + 1
            source = body[position:end]
            if "scores" in source or source == body:
                if len(source) > _MAX_REPAIRED:
                    raise UnparsableJudgement("the reply's JSON is damaged and too long to be repaired") from None
                # The braces are balanced, so nothing was cut off. What remains is punctuation (a trailing comma, single
                # quotes, a comment), which json_repair corrects. It also guesses, hence check_repaired after it.
                value, was_repaired = json_repair.loads(source), True
        if isinstance(value, dict):
            found.append(JsonObject(value, body[position:end], position, was_repaired))
        position = body.find("{", end)
    return found


def closing_brace(body: str, start: int) -> int | None:
    """The position of the brace that closes the object at `start`, or None. Braces in strings are skipped."""
    stack: list[str] = []
    for token in _TOKEN.finditer(body, start):
        character = token[0]
        if character in ("{", "["):
            stack.append("}" if character == "{" else "]")
        elif character in ("}", "]"):
            if stack.pop() != character:
                break
            if not stack:
                return token.start()
        elif character == '"':
            break  # a string that never ends
    return None


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return (name, value) pairs as a dict. Raises UnparsableJudgement if a name occurs twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise UnparsableJudgement("the reply gives {names} twice", names=listed(sorted(twice))[:80])
    return value


def _no_constant(name: str) -> Any:
    raise UnparsableJudgement("the reply holds {name}, which is no score", name=name)


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=without_duplicates, parse_constant=_no_constant)


def check_repaired(found: JsonObject) -> None:
    """Raise UnparsableJudgement if a repaired object's scores are not, word for word, those in its source."""
    keys = list(_SCORES_KEY.finditer(found.source))
    part = re.compile(r"\{([^{}]*)\}").match(found.source, keys[0].end() if keys else 0)
    scores = json.dumps(found.value["scores"], ensure_ascii=False)
    if len(keys) > 1 or part is None or _WORD.findall(part[1]) != _WORD.findall(scores):
        raise UnparsableJudgement("the JSON had to be repaired, and its scores are not clear")
