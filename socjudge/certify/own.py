"""Read answers that people broke by hand. They are judged together with those that are damaged by rule."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from ..base.messages import explained, listed, say
from ..base.storage import load_bytes
from ..base.texts import fold, without_unseen
from ..errors import ConfigError
from .cases import Case
from .changes import OWN
from .subjects import Subject


def read_damaged(
    given: pd.DataFrame | Path | str, subjects: Sequence[Subject], criteria: Sequence[str]
) -> tuple[list[Subject], list[Case]]:
    """Read the answers that people broke (`certify_judge`). Return the unbroken answers, and the broken ones as cases.
    Raises ConfigError for a row that is not usable: which row it is, which field is wrong, and what to do."""
    named = say("the frame that was given") if isinstance(given, pd.DataFrame) else str(given)
    at_hand = {str(subject.question.id): subject for subject in subjects}
    good: dict[tuple[str, str], Subject] = {}
    cases: list[Case] = []
    for place, row in _rows(given, named):
        texts = {name: _text(row, name, place) for name in ("broken_answer", "criterion")}
        own = at_hand.get(str(row.get("question_id")))
        if own is None:
            raise ConfigError(
                "{place}: question_id is {found}, of which there is no answer; name a question_id of the log "
                "that is used",
                place=place,
                found=f"{row.get('question_id')!r:.40}",
            )
        if texts["criterion"] not in criteria:
            known = listed(criteria)
            raise ConfigError(
                "{place}: criterion is {found!r}; expected one of {known}",
                place=place,
                found=f"{texts['criterion']:.40}",
                known=known,
            )
        text = own.answer.answer if row.get("answer") is None else _text(row, "answer", place)
        if _seen(text) == _seen(texts["broken_answer"]):
            raise ConfigError("{place}: broken_answer is the good answer itself; break it first", place=place)
        key = (str(own.question.id), _seen(text))  # another layout does not make another answer
        if key[1] != _seen(own.answer.answer) and key not in good:
            # The line has an answer of its own. It is judged with the passages and flags of the answer in the log.
            own = replace(own.saying(text), question=replace(own.question, id=f"{own.question.id} own {len(good)}"))
        found = good.setdefault(key, own)
        cases.append(
            Case(found.question.id, OWN + texts["criterion"], len(cases), found.saying(texts["broken_answer"]))
        )
    if not cases:
        raise ConfigError(
            "{named}: has no damaged answer; write one a line, with question_id, broken_answer and criterion",
            named=named,
        )
    return list(good.values()), cases


def _rows(given: pd.DataFrame | Path | str, named: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row after a text that says where it stands (file and line)."""
    with explained(
        "{path}: the damaged answers cannot be read ({reason}); name a JSONL file, one JSON object a line", path=given
    ):
        if isinstance(given, pd.DataFrame):  # beside a missing id, pandas makes the other ids floats
            raw = given.convert_dtypes().to_json(orient="records", lines=True, force_ascii=False).encode()
        else:
            raw = load_bytes(Path(given))
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        place = say("{named}: line {number}", named=named, number=number)
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise ConfigError(
                "{place}: is no JSON object in UTF-8; write one a line, with question_id, broken_answer and criterion",
                place=place,
            )
        yield place, row


def _text(row: dict[str, Any], name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not without_unseen(value).strip():
        raise ConfigError("{place}: {field} is missing, empty or no text; fill it in", place=place, field=name)
    return value


def _seen(text: str) -> str:
    """Return the text as a reader sees it: answers that differ only in layout or unseen characters are the same."""
    return fold(without_unseen(unicodedata.normalize("NFKC", text)))  # か and its two dots are one letter
