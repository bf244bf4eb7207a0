"""Read people's scores for a certificate, and select the scores of given answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pandas as pd

from ..base.messages import say
from ..errors import ConfigError
from ..history.labels import load_labels
from ..stats.basics import MIN_QUESTIONS, same_raters
from .subjects import Subject

# Answers that two persons both scored. With fewer, no test of `judge_trust` is made either, and the agreement of two
# people on five answers is chance.
LEAST_SHARED = MIN_QUESTIONS
COLUMNS = ["rater", "question_id", "answer_sha256", "criterion", "score"]


def read_labels(given: pd.DataFrame | Path | str) -> pd.DataFrame:
    """Read people's scores from a frame or as `load_labels` does, with one name for each person.
    Raises ConfigError if a column or every score is missing, or if a score (0–100) or a name is not usable."""
    if isinstance(given, pd.DataFrame):
        labels, named = given, say("the frame that was given")
    else:
        labels, named = load_labels(given), str(given)
    missing = [name for name in COLUMNS if name not in labels.columns]
    if missing:
        raise ConfigError("{named}: labels lack the columns {missing}", named=named, missing=", ".join(missing))
    scores = pd.to_numeric(labels["score"], errors="coerce")
    wrong = labels[(scores.isna() & labels["score"].notna()) | (scores < 0) | (scores > 100)]
    if len(wrong):
        found = f"{wrong['score'].iloc[0]!r:.20}"
        raise ConfigError(
            "{named}: {count} labels have a score that is no number from 0 to 100 (the first is {found}); "
            "correct them first",
            named=named,
            count=len(wrong),
            found=found,
        )
    labels = same_raters(labels.assign(score=scores).dropna(subset=["score"]))
    if nameless := int(labels["rater"].isna().sum()):
        raise ConfigError(
            "{named}: {count} labels name no rater; fill that column in first", named=named, count=nameless
        )
    if labels.empty:
        raise ConfigError("{named}: has no label", named=named)
    return labels


def labels_of(subjects: Sequence[Subject], labels: pd.DataFrame) -> tuple[pd.DataFrame, list[Subject]]:
    """Select the labels of these answers, and list the answers that have one.
    Raises ConfigError if all labels are of other answers than these."""
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
