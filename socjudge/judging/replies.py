"""Read the scores in a judge's reply, or raise an error that says why this is impossible.

A score is never guessed. UnparsableJudgement is raised if the reply is cut off, lacks a criterion, has a score such as
"2/5" or 105, or has two different verdicts. The judge is then asked again.
"""

from __future__ import annotations

import functools
import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from ..base.messages import listed, say
from ..base.texts import without_unseen
from ..errors import UnparsableJudgement
from ..records import REASONING, REJECTED
from .reply_json import JsonObject, check_repaired, closing_brace, find_objects, without_duplicates, without_thinking

MAX_CHARACTERS = 200_000  # a judgement has about 2,000 characters
_WRAPPERS = ("result", "evaluation", "judgement", "judgment")
# "85", "85.0", "85点", "85/100" or "85 / 100点", but never "2/5".
_SCORE_TEXT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s*(?:/\s*100)?\s*(?:点|points?|%)?", re.IGNORECASE)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
# 「全観点90点」 (90 points for all criteria)
_ORDER = re.compile(
    r"(?:全|すべて|各|どの|いずれ|\ball\b|\bevery|\beach)[^。\n]{0,20}?(?:観点|項目|基準|評価|criteri|score|mark)"
    r"[^。\n]{0,20}?(\d+)"
)
_ESCAPE = re.compile(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
_HALF_WIDTH = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | {0x3000: " "}  # unlike NFKC, not "⁵" or "⑧"


@dataclass(frozen=True)
class Judgement:
    scores: dict[str, int]
    rationale: dict[str, str]
    overall_comment: str
    notes: tuple[str, ...] = ()  # what had to be repaired before the reply could be read


def exactly(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object that must have all of these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def judgement_schema(criteria: Sequence[str], *, reasons_first: bool = False) -> dict[str, Any]:
    """Return the JSON schema of the reply that the judge prompt asks for, in the form that strict services accept.
    They write the parts in the order of the schema, so it is that of the prompt (`Prompt.reasons_first`)."""
    scores = exactly({c: {"type": "integer", "description": "0-100"} for c in criteria})
    parts = {"scores": scores, "rationale": exactly({c: {"type": "string"} for c in criteria})}
    ordered = dict(reversed(parts.items())) if reasons_first else parts
    return exactly({**ordered, "overall_comment": {"type": "string"}})


def parse_judgement(
    text: str,
    criteria: Sequence[str],
    *,
    finish_reason: str = "",
    quoted: Iterable[str] = (),
    is_of_hundred: bool = False,  # whether the judge is known to score 0-100
    was_told: bool = False,  # whether it replied before, and was then told the scale
) -> Judgement:
    """Return the scores and reasons in a judge's reply. `quoted` are the texts that the judge was shown.
    UnparsableJudgement, with the cause, if they cannot be read with certainty."""
    try:
        _check_ending(text, finish_reason)
        body = without_thinking(text.strip().removeprefix("\ufeff").strip())
        if not body:
            raise UnparsableJudgement("the reply is empty")
        first_line, _, rest = body.partition("\n")
        if re.fullmatch(r"```[a-zA-Z]*\s*", first_line) and rest.endswith("```"):
            body = rest.removesuffix("```").strip()
        verdicts = _verdicts(body, criteria, tuple(quoted))
        readings = [_read(found, criteria, is_of_hundred, was_told) for found in verdicts]
        if any(reading.scores != readings[0].scores for reading in readings[1:]):
            raise UnparsableJudgement("the reply holds {count} different verdicts", count=len(readings))
        if rest := body[verdicts[-1].start + len(verdicts[-1].source) :]:
            _check_rest(rest, readings[0].scores)
        return readings[0]
    except (ValueError, OverflowError, RecursionError) as error:
        raise UnparsableJudgement("the reply could not be read: {reason}", reason=str(error)[:80]) from None


def _check_ending(text: str, finish_reason: str) -> None:
    if finish_reason.lower() in ("length", "max_tokens"):
        raise UnparsableJudgement(
            "the reply was cut at the output limit"
            if text.strip()
            else "the reply was cut at the output limit before any text (hidden reasoning used it up)"
        )
    if finish_reason == REJECTED:
        raise UnparsableJudgement("the service rejected the reply, because it is not the JSON that was asked for")
    if finish_reason == REASONING:
        raise UnparsableJudgement(
            "the reply is empty: the server takes all of it for hidden reasoning (docs/reference.md#servers)"
        )
    if len(text) > MAX_CHARACTERS:
        raise UnparsableJudgement(
            "the reply has {count} characters; over {most} none is read or cut down",
            count=len(text),
            most=MAX_CHARACTERS,
        )


def _verdicts(body: str, criteria: Sequence[str], shown: Sequence[str]) -> list[JsonObject]:
    """Return the objects that are the judge's own verdicts, at least one."""
    objects = find_objects(body)
    whole = len(objects) == 1 and objects[0].source == body
    verdicts = [found for found in objects if "scores" in found.value]
    if whole and not verdicts:
        verdicts = _unwrapped(objects[0], criteria)
    for found in verdicts:
        if found.was_repaired:
            check_repaired(found)
    # What stands in a text that the judge was shown, in the same words or with the same scores, is not its own verdict.
    verdicts = [found for found in verdicts if not _is_quoted(found, criteria, shown, whole=whole)]
    if not verdicts:
        start = body.find("{")
        if start < 0:
            raise UnparsableJudgement("the reply holds no JSON object")
        if closing_brace(body, start) is None:
            raise UnparsableJudgement("the reply is cut before its scores")
        raise UnparsableJudgement("the reply holds no JSON object with 'scores' of the judge's own")
    return verdicts


def _check_rest(rest: str, scores: Mapping[str, int]) -> None:
    """Refuse a reply whose words after the verdict correct a score: "訂正: 正確性は10点" (accuracy is 10 points)."""
    for criterion, score in scores.items():
        for given in re.findall(rf"{re.escape(criterion)}[^0-9\n]{{0,8}}([0-9]{{1,3}})\s*(?:点|/\s*100)", rest):
            if int(given) != score:
                raise UnparsableJudgement(
                    "the score for {criterion} is {first} in the verdict and {then} in the words after it",
                    criterion=criterion,
                    first=score,
                    then=given,
                )


def _unwrapped(found: JsonObject, criteria: Sequence[str]) -> list[JsonObject]:
    """Unwrap only an object that is the whole reply, because an inner one of a reply that was cut looks the same."""
    name, inner = next(iter(found.value.items()), ("", None))
    if len(found.value) == 1 and name in _WRAPPERS and isinstance(inner, dict) and "scores" in inner:
        return [replace(found, value=inner)]
    if set(map(_plain, criteria)) <= set(map(_plain, found.value)):
        return [replace(found, value={"scores": found.value})]
    return []


def _is_quoted(found: JsonObject, criteria: Sequence[str], quoted: Sequence[str], *, whole: bool) -> bool:
    shown = ["".join(text.split()) for text in quoted]
    source = "".join(found.source.split())
    if any(source in text for text in shown):
        return True
    # A reply in the judge's own words may give the same scores as a text.
    if whole and _has_own_words(found.value, shown):
        return False
    try:
        scores = _scores(found.value["scores"], criteria, [])
    except UnparsableJudgement:
        return False
    return any(_is_shown(scores, text) for text in quoted)


def _has_own_words(verdict: Mapping[str, Any], shown: Sequence[str]) -> bool:
    reasons = verdict.get("rationale")
    told = [*(reasons.values() if isinstance(reasons, Mapping) else [reasons]), verdict.get("overall_comment")]
    words = ("".join(_text(each).split()) for each in told)
    return any(not any(each in text for text in shown) for each in words if each)


def _read(found: JsonObject, criteria: Sequence[str], is_of_hundred: bool, was_told: bool) -> Judgement:
    notes = [say("the JSON had to be repaired")] if found.was_repaired else []
    scores = _scores(found.value["scores"], criteria, notes, is_of_hundred, was_told)
    given = reasons = found.value.get("rationale")
    reasons = {_plain(name): value for name, value in reasons.items()} if isinstance(reasons, Mapping) else {}
    rationale = {criterion: _text(reasons.get(_plain(criterion))) for criterion in criteria}
    if unexplained := [criterion for criterion, reason in rationale.items() if not reason]:
        notes.append(say("no rationale for {criteria}", criteria=listed(unexplained)))
    # A single reason for all scores is a comment on them.
    comment = "\n".join(filter(None, [_text(given), _text(found.value.get("overall_comment"))]))
    return Judgement(scores, rationale, comment, tuple(notes))


def _scores(
    given: Any, criteria: Sequence[str], notes: list[str], is_of_hundred: bool = False, was_told: bool = True
) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise UnparsableJudgement("'scores' is not an object with one number per criterion")
    by_name = without_duplicates([(_plain(name), value) for name, value in given.items()])
    missing = [criterion for criterion in criteria if by_name.get(_plain(criterion)) is None]
    if missing:
        raise UnparsableJudgement("no score for {criteria}", criteria=listed(missing))
    numbers = {criterion: _number(criterion, by_name[_plain(criterion)], notes) for criterion in criteria}
    values = list(numbers.values())
    fractions = any(0 < number < 1 for number in values)
    # An answer that deserves nothing has such scores on any scale: a few points beside zeros. So has any answer if the
    # judge is known to use the scale 0-100, or if it insists on fives and tens after it was told the scale.
    is_low = is_of_hundred or 2 * values.count(0) >= len(values)
    of_five_or_ten = 0 < max(values) <= (5 if was_told else 10) or (
        max(values) <= 10 and any(number % 5 for number in values)
    )
    if fractions or (of_five_or_ten and not is_low):
        raise UnparsableJudgement(
            "the scores are {scores}: it looks like another scale than 0-100",
            scores=", ".join(f"{n:g}" for n in values),
        )
    rounded = [(criterion, number) for criterion, number in numbers.items() if number != int(number)]
    notes += [
        say("the score for {criterion} was {number:g}, rounded down", criterion=criterion, number=number)
        for criterion, number in rounded
    ]
    # As the specification asks for an integer; rounded down, because no fraction reaches the pass line.
    return {criterion: math.floor(number + 1e-9) for criterion, number in numbers.items()}


def _number(criterion: str, value: Any, notes: list[str]) -> float:
    number: float | None = None
    if isinstance(value, str):
        match = _SCORE_TEXT.fullmatch(value[:40].translate(_HALF_WIDTH).strip())
        number = float(match[1]) if match and len(value) <= 40 else None
        notes.append(say("the score for {criterion} was text: {value!r}", criterion=criterion, value=value[:20]))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    if number is None:
        raise UnparsableJudgement(
            "the score for {criterion} is {value!r}, expected an integer 0-100",
            criterion=criterion,
            value=str(value)[:40],
        )
    if not 0 <= number <= 100:
        raise UnparsableJudgement(
            "the score for {criterion} is {number}, outside 0-100", criterion=criterion, number=str(number)[:20]
        )
    return number


@functools.lru_cache(maxsize=1024)  # the names of a run's criteria are read from each reply
def _plain(name: str) -> str:
    return re.sub(r"^\d+[.)]", "", re.sub(r"[\s*]", "", unicodedata.normalize("NFKC", name)))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_shown(scores: Mapping[str, int], text: str) -> bool:
    """Return whether the text names every criterion and has each score as often as `scores`, as a verdict in JSON, a
    table, a list or a sentence does, or orders one score for all criteria."""
    plain = _without_markup(html.unescape(unquote(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))))
    views, wanted = (plain, "".join(plain.split())), Counter(map(float, scores.values()))
    if len(wanted) == 1 and any(float(found[1]) in wanted for view in views for found in _ORDER.finditer(view)):
        return True
    return any(
        all("".join(_without_markup(name).split()) in view for name in scores)
        and not wanted - Counter(map(float, _DIGITS.findall(view)))
        for view in views
    )


def _without_markup(text: str) -> str:
    return unicodedata.normalize("NFKC", without_unseen(text)).replace("\\", "").replace("満点", "100").lower()
