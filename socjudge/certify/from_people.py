"""Read what people bring to a certificate: their scores of the answers, and answers that they broke by hand."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from ..answering.rows import read_rows
from ..base.messages import listed, say
from ..base.sheets import cell_text
from ..base.texts import fold, without_unseen
from ..errors import ConfigError
from ..history.labels import load_labels
from ..stats.basics import MIN_QUESTIONS, need_columns, same_raters
from .cases import Case
from .changes import OWN
from .subjects import Subject

# Answers that two persons both scored. With fewer, no test of `judge_trust` is made either, and the agreement of two
# people on five answers is chance.
LEAST_SHARED = MIN_QUESTIONS
_COLUMNS = ["rater", "question_id", "answer_sha256", "criterion", "score"]

# -- scores


def read_labels(given: pd.DataFrame | Path | str) -> pd.DataFrame:
    """Read people's scores from a frame or as `load_labels` does, with one name for each person.
    Raises ConfigError if a column or every score is missing, or if a score (0–100) or a name is not usable."""
    if isinstance(given, pd.DataFrame):
        labels, named = given, say("the DataFrame")
    else:
        labels, named = load_labels(given), str(given)
    need_columns(labels, _COLUMNS, named, "load_labels")
    labels = same_raters(labels.dropna(subset=["score"]))
    scores = pd.to_numeric(labels["score"], errors="coerce")
    wrong = labels[~scores.between(0, 100) | labels["rater"].isna()]
    if len(wrong):
        raise ConfigError(
            "{named}: {count} labels have no rater, or a score that is no number from 0 to 100 (the first: {found}); "
            "correct them first",
            named=named,
            count=len(wrong),
            found=f"{wrong['rater'].iloc[0]} {wrong['score'].iloc[0]!r:.20}",
        )
    labels = labels.assign(score=scores)
    if labels.empty:
        raise ConfigError("{named}: has no label", named=named)
    return labels


def labels_of(subjects: Sequence[Subject], labels: pd.DataFrame) -> tuple[pd.DataFrame, list[Subject]]:
    """Select the labels of these answers, and list the answers that have one. ConfigError if there are none."""
    hashes = {subject.answer_sha256: subject for subject in subjects}
    mine = labels[labels["answer_sha256"].astype(str).isin(hashes)]
    if mine.empty:
        raise ConfigError(
            "the labels (of {count} answers) are of none of these {answers} answers; pass the log whose "
            "answers were scored",
            count=labels["answer_sha256"].nunique(),
            answers=len(hashes),
        )
    scored = set(mine["answer_sha256"].astype(str))
    ids = mine["answer_sha256"].astype(str).map({sha: s.question.id for sha, s in hashes.items()})
    # A spreadsheet may have changed the type of the ids.
    return mine.assign(question_id=ids), [subject for sha, subject in hashes.items() if sha in scored]


def scored_by_two(labels: pd.DataFrame) -> bool:
    """Return whether two persons share LEAST_SHARED answers: the scores of one person do not count as the truth."""
    answers = [set(mine) for _, mine in labels.groupby("rater", observed=True)["answer_sha256"]]
    return any(len(one & other) >= LEAST_SHARED for one, other in combinations(answers, 2))


def hash_labels(labels: pd.DataFrame) -> str:
    """Return a hash of the labels, whatever order they are in."""
    # scores as floats: a CSV file has whole numbers, the folder of labels has not
    rows = labels[["rater", "answer_sha256", "criterion", "score"]].astype({"score": "Float64"}).astype(str)
    return hashlib.sha256("\n".join(sorted(rows.agg("\x1f".join, axis=1))).encode()).hexdigest()


# -- broken answers


def read_damaged(given: pd.DataFrame | Path | str, subjects: Sequence[Subject], criteria: Sequence[str]) -> list[Case]:
    """Read the answers that people broke, as cases. The ConfigError names the row and the field that are wrong."""
    where, _, rows = read_rows(given)
    at_hand = {str(subject.question.id): subject for subject in subjects}
    cases: list[Case] = []
    for row_place, row in rows.items():
        place = f"{where}, {row_place}"
        broken, criterion = (_text(row, name, place) for name in ("broken_answer", "criterion"))
        own = at_hand.get(cell_text(row.get("question_id")))
        if own is None:
            raise ConfigError(
                "{place}: question_id is {found}, of which there is no answer; name a question_id of the log "
                "that is used",
                place=place,
                found=f"{row.get('question_id')!r:.40}",
            )
        if criterion not in criteria:
            known = listed(criteria)
            raise ConfigError(
                "{place}: criterion is {found!r}; expected one of {known}",
                place=place,
                found=f"{criterion:.40}",
                known=known,
            )
        if row.get("answer") is not None:
            raise ConfigError(
                "{place}: the good answer is that of the log; leave out the field answer, or name a log that has it",
                place=place,
            )
        if _seen(own.answer.answer) == _seen(broken):
            raise ConfigError("{place}: broken_answer is the good answer itself; break it first", place=place)
        cases.append(Case(own.question.id, OWN + criterion, len(cases), own.saying(broken)))
    return cases


def _text(row: dict[str, Any], name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not without_unseen(value).strip():
        raise ConfigError("{place}: {field} is missing, empty or no text; fill it in", place=place, field=name)
    return value


def _seen(text: str) -> str:
    """Return the text as a reader sees it: answers that differ only in layout or unseen characters are the same."""
    return fold(without_unseen(unicodedata.normalize("NFKC", text)))  # か and its two dots are one letter
