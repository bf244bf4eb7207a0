"""Find the JSON objects in a judge's reply. Reasoning and prose are skipped. Objects are repaired, but never completed.

json_repair repairs the punctuation of JSON. But it also completes objects that were cut off, with made-up values, and
it guesses when it reads unusual numbers. Therefore it is only given objects whose braces are balanced, and the scores
are taken from the original spelling.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import json_repair

from ..base.messages import listed, say
from ..errors import UnparsableJudgement

_MAX_REPAIRED = 20_000  # characters; json_repair is slow on long odd texts
_MAX_DEPTH = 50
_MAX_STRAYS = 8  # opening braces that never close; each costs another pass over the rest of the text
_TAG = r"(?:think|thinking|thought|reasoning)"
_THINKING_OPENS = re.compile(rf"<{_TAG}(?:\s[^<>]*)?>", re.IGNORECASE)
_THINKING_CLOSES = re.compile(rf"</{_TAG}\s*>", re.IGNORECASE)
_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
# A brace that begins JSON (or nearly: a bare key, a comment, a second brace), not a stray one in prose.
_JSON_BEGINS = re.compile(r"""\{\s*(?:["'“{\[#]|\w+\s*:|/[/*]|\Z)""")
_SCORES_KEY = re.compile(r"""["']?\bscores\b["']?\s*:\s*""")
_ENTRY = re.compile(r"""(["']?)([^"':]+)\1\s*:\s*(.*)""", re.DOTALL)
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


def without_thinking(body: str) -> str:
    """Return a reply without the model's reasoning at its beginning. A tag inside a JSON object stays, as a quotation.
    UnparsableJudgement if the reply has only reasoning, or too many braces that never close."""
    start = seen = strays = 0
    while not body.startswith(("{", "```"), start):
        closes = _THINKING_CLOSES.search(body, start)
        if _THINKING_OPENS.match(body, start):
            if closes is None:
                raise UnparsableJudgement("the reply ends within the model's reasoning")
        elif closes is None:
            break
        else:
            seen = max(seen, start)
            while (brace := body.find("{", seen, closes.start())) >= 0:
                end, _ = closing_brace(body, brace)
                strays += end is None
                if strays > _MAX_STRAYS:
                    raise UnparsableJudgement("the reply is cut: its JSON object never closes")
                if end is not None and end > closes.start():
                    return body[start:]
                seen = brace + 1 if end is None else end + 1
        start = _SPACE.match(body, closes.end()).end()  # type: ignore[union-attr]
    return body[start:]


@dataclass(frozen=True)
class JsonObject:
    """Hold one JSON object of a reply."""

    value: dict[str, Any]
    source: str  # its text in the reply
    start: int  # where this text begins
    notes: tuple[str, ...] = ()  # what had to be repaired


def find_objects(body: str) -> tuple[list[JsonObject], int | None]:
    """Return the outermost JSON objects, and the position of the first brace before a "scores" that never closes.
    UnparsableJudgement if such a brace begins JSON, because the reply was then cut off inside an object."""
    found: list[JsonObject] = []
    first_stray, strays = None, 0
    last_scores = body.rfind("scores")
    position = body.find("{")
    while position >= 0:
        end, depth = closing_brace(body, position)
        if end is None:
            strays += 1
            if position < last_scores:
                if strays > _MAX_STRAYS or _JSON_BEGINS.match(body, position):
                    # What is inside belongs to the object that was cut off, and is no reply of its own.
                    raise UnparsableJudgement("the reply is cut: its JSON object never closes")
                first_stray = position if first_stray is None else first_stray
            if strays > _MAX_STRAYS:
                break
            position = body.find("{", position + 1)
            continue
        source = body[position : end + 1]
        if depth > _MAX_DEPTH:
            raise UnparsableJudgement("the reply is nested too deeply to be a judgement")
        value, notes = _load(source, repair="scores" in source or source == body)
        if isinstance(value, dict):
            found.append(JsonObject(value, source, position, notes))
        position = body.find("{", end + 1)
    return found, first_stray


def closing_brace(body: str, start: int) -> tuple[int | None, int]:
    """Return the position of the brace that closes the object that opens at `start`, or None, and the depth of nesting.
    Braces inside strings are skipped."""
    stack: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(body, start):
        character = token[0]
        if character in ("{", "["):
            stack.append("}" if character == "{" else "]")
            depth = max(depth, len(stack))
        elif character in ("}", "]"):
            if stack.pop() != character:
                break
            if not stack:
                return token.start(), depth
        elif character == '"':
            break  # a string that never ends
    return None, depth


def _load(source: str, *, repair: bool) -> tuple[Any, tuple[str, ...]]:
    try:
        value = json.loads(source, strict=False, object_pairs_hook=without_duplicates, parse_constant=_no_constant)
        return value, ()
    except json.JSONDecodeError:
        if not repair:
            return None, ()
        if len(source) > _MAX_REPAIRED:
            raise UnparsableJudgement("the reply's JSON is damaged and too long to be repaired") from None
        # The braces are balanced, so nothing was cut off. What remains is punctuation (a trailing comma, single quotes,
        # a comment), which json_repair corrects. It would also complete a cut object with made-up values, hence
        # the check before it. It also guesses, hence as_written after it.
        return json_repair.loads(source), (say("the JSON had to be repaired"),)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return (name, value) pairs as a dict. Raises UnparsableJudgement if a name occurs twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise UnparsableJudgement("the reply gives {names} twice", names=listed(sorted(twice))[:80])
    return value


def _no_constant(name: str) -> Any:
    raise UnparsableJudgement("the reply holds {name}, which is no score", name=name)


def as_written(found: JsonObject) -> JsonObject:
    """Return a JSON object whose scores are exactly those in its source, so that no repair makes up a score.
    UnparsableJudgement if the scores in the source are not clear."""
    if not found.notes or say("the JSON had to be repaired") not in found.notes:
        return found
    keys = list(_SCORES_KEY.finditer(found.source))
    start = keys[0].end() if keys else 0
    part, closed, _ = found.source[start + 1 :].partition("}")
    if len(keys) > 1 or found.source[start] != "{" or not closed or "{" in part:
        raise UnparsableJudgement("the JSON had to be repaired, and where its scores stand is not clear")
    pairs: list[tuple[str, Any]] = []
    for line in re.split(r"[,\n]", re.sub(r"(?m)^[ \t]*(?://|#).*$", "", part)):
        line = line.strip()
        if not line or line in ("...", "…"):
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise UnparsableJudgement("the JSON had to be repaired, and {line!r} is no plain score", line=line[:40])
        literal = entry[3]
        is_quoted = len(literal) > 1 and literal[0] == literal[-1] and literal[0] in "\"'"
        value: Any = literal[1:-1] if is_quoted else f"unquoted {literal}"
        pairs.append((entry[2], float(literal) if _PLAIN_NUMBER.fullmatch(literal) else value))
    return replace(found, value={**found.value, "scores": without_duplicates(pairs)})
