"""From the text that a judge sent to scores, or to a clear statement that it holds none.

The rule throughout: a reply that leaves any doubt about a score is not guessed at. A cut reply, a missing
criterion, "2/5", 105 or two different verdicts raise UnparsableJudgement, and the judge is asked again.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from .errors import UnparsableJudgement

_THINKING = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCED = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
# "85", "85.0", "85点", "85/100", "85 / 100点"; never "2/5".
_SCORE_TEXT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(?:/\s*100)?\s*(?:点|points?|%)?", re.IGNORECASE)


@dataclass(frozen=True)
class Judgement:
    """What a judge said. notes: what had to be mended to read it, in words; empty for a clean reply."""

    scores: dict[str, int]
    rationale: dict[str, str]
    overall_comment: str
    notes: tuple[str, ...] = ()


def judgement_schema(criteria: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of the reply that the judge prompt asks for, in the form that strict services take."""

    def exactly(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    return exactly(
        {
            "scores": exactly({c: {"type": "integer", "description": "0-100"} for c in criteria}),
            "rationale": exactly({c: {"type": "string"} for c in criteria}),
            "overall_comment": {"type": "string"},
        }
    )


def parse_judgement(
    text: str, criteria: Sequence[str], *, finish_reason: str = "", quoted: Iterable[str] = ()
) -> Judgement:
    """The judgement in a reply.

    criteria: the names that must be scored. finish_reason: the service's; "length" means cut. quoted:
    texts that the judge was shown; a verdict that stands in one of them is not the judge's own, unless
    the whole reply is that one object. Raises UnparsableJudgement, with the reply, saying what is wrong."""
    try:
        return _parse(text, criteria, finish_reason, quoted)
    except UnparsableJudgement as error:
        raise UnparsableJudgement(str(error), text) from None
    except RecursionError:
        raise UnparsableJudgement("the reply is nested too deeply to be a judgement", text) from None


def _parse(text: str, criteria: Sequence[str], finish_reason: str, quoted: Iterable[str]) -> Judgement:
    if finish_reason in ("length", "max_tokens"):
        spent = "" if text.strip() else " before any text (hidden reasoning used it up)"
        raise UnparsableJudgement(f"the reply was cut at the output limit{spent}")
    body = _THINKING.sub("", text, count=1).strip().removeprefix("\ufeff")
    if not body:
        raise UnparsableJudgement("the reply is empty")
    if re.match(r"<(think|thinking|reasoning)>", body):
        raise UnparsableJudgement("the reply ends within the model's reasoning")
    if fenced := _FENCED.match(body):
        body = fenced[1].strip()

    objects = list(_objects(body))
    whole = len(objects) == 1 and objects[0].source == body
    verdicts = [found for found in objects if "scores" in found.value]
    if whole and not verdicts and set(map(_plain, criteria)) <= set(map(_plain, objects[0].value)):
        # Some models leave the wrapper out. Only taken when it is the whole reply: inside a cut one,
        # the inner object looks just the same.
        value = {"scores": objects[0].value}
        verdicts = [_Found(value, body, ("the scores stood without their 'scores' wrapper",))]
    if not whole:
        shown = [_squeeze(source) for source in quoted]
        verdicts = [found for found in verdicts if not any(_squeeze(found.source) in source for source in shown)]
    if not verdicts:
        raise UnparsableJudgement(_why_nothing(body))
    readings = [_read(found, criteria) for found in verdicts]
    if any(reading.scores != readings[0].scores for reading in readings[1:]):
        raise UnparsableJudgement(f"the reply holds {len(readings)} different verdicts")
    return readings[0]


@dataclass(frozen=True)
class _Found:
    value: dict[str, Any]
    source: str
    notes: tuple[str, ...]


def _objects(body: str) -> Iterator[_Found]:
    """The outermost JSON objects in a text, in order."""
    position = body.find("{")
    while position >= 0:
        end = _closing_brace(body, position)
        if end is None:
            if '"scores"' in body[position:]:
                # What stands inside belongs to the cut object and is no reply of its own.
                raise UnparsableJudgement("the reply is cut: its JSON object never closes")
            position = body.find("{", position + 1)
            continue
        source = body[position : end + 1]
        found = _load(source)
        if found is not None:
            yield found
        position = body.find("{", end + 1)


def _closing_brace(body: str, start: int) -> int | None:
    """Where the object that opens at `start` closes, reading past strings; None if it never does."""
    depth, in_string, escaped = 0, False, False
    for position in range(start, len(body)):
        character = body[position]
        if escaped:
            escaped = False
        elif in_string:
            escaped = character == "\\"
            in_string = character != '"'
        elif character == '"':
            in_string = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth == 0:
                return position
    return None


def _load(source: str) -> _Found | None:
    try:
        value = json.loads(source, strict=False, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
        notes: tuple[str, ...] = ()
    except UnparsableJudgement:
        raise
    except ValueError:
        # The braces are balanced, so nothing was cut: what remains is punctuation (a trailing comma,
        # single quotes, a comment), which json_repair mends. It would also complete a cut reply with
        # made-up values, hence the check before it.
        value = json_repair.loads(source)
        notes = ("the JSON had to be repaired",)
    return _Found(value, source, notes) if isinstance(value, dict) else None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UnparsableJudgement(f"the reply gives {'、'.join(sorted(twice))} twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise UnparsableJudgement(f"the reply holds {name}, which is no score")


def _read(found: _Found, criteria: Sequence[str]) -> Judgement:
    notes = list(found.notes)
    given = found.value["scores"]
    if not isinstance(given, Mapping):
        raise UnparsableJudgement("'scores' is not an object with one number per criterion")
    by_name = {_plain(name): value for name, value in given.items()}
    missing = [criterion for criterion in criteria if by_name.get(_plain(criterion)) is None]
    if missing:
        raise UnparsableJudgement(f"no score for {'、'.join(missing)}")
    scores = {criterion: _score(criterion, by_name[_plain(criterion)], notes) for criterion in criteria}

    reasons = found.value.get("rationale")
    reasons = {_plain(name): value for name, value in reasons.items()} if isinstance(reasons, Mapping) else {}
    rationale = {criterion: _text(reasons.get(_plain(criterion))) for criterion in criteria}
    if unexplained := [criterion for criterion, reason in rationale.items() if not reason]:
        notes.append(f"no rationale for {'、'.join(unexplained)}")
    return Judgement(scores, rationale, _text(found.value.get("overall_comment")), tuple(notes))


def _score(criterion: str, value: Any, notes: list[str]) -> int:
    number: float | None = None
    if isinstance(value, str):
        match = _SCORE_TEXT.fullmatch(unicodedata.normalize("NFKC", value).strip())
        number = float(match[1]) if match else None
        notes.append(f"the score for {criterion} was text: {value[:20]!r}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    if number is None:
        raise UnparsableJudgement(f"the score for {criterion} is {str(value)[:40]!r}, expected an integer 0-100")
    if not 0 <= number <= 100:
        raise UnparsableJudgement(f"the score for {criterion} is {number:g}, outside 0-100")
    if number != int(number):
        notes.append(f"the score for {criterion} was {number:g}, rounded")
    return round(number)


def _plain(name: object) -> str:
    """A criterion's name as models vary it: other width, spaces, "1. ", asterisks."""
    return re.sub(r"[\s*]|^\d+[.)]", "", unicodedata.normalize("NFKC", str(name)))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _why_nothing(body: str) -> str:
    start = body.find("{")
    if start < 0:
        return "the reply holds no JSON object"
    if _closing_brace(body, start) is None:
        return "the reply is cut before its scores"
    return "the reply holds no JSON object with 'scores' of the judge's own"
