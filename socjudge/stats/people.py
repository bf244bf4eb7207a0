"""Compare a judge with people: how close its scores are to people's scores, and whether it could replace a person."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import ArrayLike

from ..base.messages import say, sentences
from ..base.pass_rule import reaches
from ..errors import ConfigError
from .agreement import rater_lines, verdict_note
from .basics import (
    ANSWER,
    MIN_QUESTIONS,
    OVERALL,
    by_criterion,
    correlation,
    difference_interval,
    in_order,
    low_high,
    need_columns,
    pass_rate_interval,
    plain_floats,
    same_raters,
)


class Beside(NamedTuple):
    """Hold a judge's scores and people's mean scores of the same answers, side by side."""

    # Points, NaN for a missing score: one row per answer that the judge judged (question_id, answer_sha256), one column
    # per criterion that both judge and people scored, and one for 総合.
    judge: pd.DataFrame
    people: pd.DataFrame
    unused: str  # how many labelled answers the judge did not judge, in words; "" if none


def beside_people(scores: pd.DataFrame, labels: pd.DataFrame, who: str) -> dict[Any, Beside]:
    """Return {judge: its scores, and the mean of people's scores, for the same answers}, for a function called `who`.
    総合 is the mean over the criteria. It is missing if the score of one criterion is missing."""
    need_columns(scores, ["judge_model", *ANSWER, "criterion", "score"], who, "load_scores")
    need_columns(labels, ["rater", *ANSWER, "criterion", "score"], f"{who}, labels", "load_labels")
    if not (judges := in_order(scores["judge_model"])):
        raise ConfigError("{who}: the frame has no row with a judge_model; load a run with results", who=who)
    if not labels["score"].notna().any():
        raise ConfigError("{who}: labels has no score; score some answers in LabelPanel, then load_labels()", who=who)
    people = _wide(same_raters(labels))
    return {judge: _beside(scores[scores["judge_model"] == judge], people, judge, who) for judge in judges}


def _beside(scores: pd.DataFrame, theirs: pd.DataFrame, judge: Any, who: str) -> Beside:
    ours = _wide(scores)
    criteria = [name for name in in_order(scores["criterion"]) if name in ours and name in theirs]
    strangers = len(theirs.index.difference(ours.index))
    if not criteria or strangers == len(theirs):
        mine, other = (", ".join(map(str, side)) for side in (ours, theirs))
        raise ConfigError(
            "{who}: none of the {count} labelled answers was scored by the judge {judge!r} on the same criteria ({ours}; in "
            "the labels {theirs}); load the runs whose answers were labelled, or rejudge(run, judge_model=…) them",
            who=who,
            count=len(theirs),
            judge=judge,
            ours=mine,
            theirs=other,
        )
    ours, theirs = (
        side[criteria].assign(**{OVERALL: side[criteria].mean(axis=1, skipna=False)}) for side in (ours, theirs)
    )
    unused = say("Labelled answers that this judge did not score, left out: {count}.", count=strangers)
    return Beside(ours, theirs.reindex(ours.index), unused if strangers else "")


def check_count(most: int, who: str) -> None:
    """Raise ConfigError if people and judge have too few scores in common for any criterion."""
    if most < MIN_QUESTIONS:
        raise ConfigError(
            "{who}: people and judge both scored {most} of the same, which is too few; label at least {least}, better 40 "
            "(LabelPanel)",
            who=who,
            most=most,
            least=MIN_QUESTIONS,
        )


def _wide(marks: pd.DataFrame) -> pd.DataFrame:
    marks = marks.dropna(subset=[*ANSWER, "criterion"])
    rater = ["rater"] if "rater" in marks.columns else []
    names = dict.fromkeys(["answer_sha256", "criterion"], object)  # two frames have different categories
    marks = marks.astype(names).assign(score=plain_floats(marks["score"]))
    # the repeats of each rater first, then the raters
    each = marks.groupby([*rater, *ANSWER, "criterion"], sort=False)["score"].mean()
    return each.groupby([*ANSWER, "criterion"], sort=False).mean().unstack("criterion")


def judge_vs_people(scores: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Measure how close each judge's scores and verdicts are to those of people. There is one row per judge and
    criterion. The intervals are of 95 %.

    People's score of an answer is the mean over raters. First look at how far people agree with each other:
    `judge_agreement(labels, by="rater")`.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`. Repeats are averaged.
    labels
        People's scores, from `load_labels`.

    Returns
    -------
    DataFrame
        - judge_model, criterion
        - n: answers that judge and people both scored; n_missing: labelled answers that the judge judged without
          giving a score
        - bias: the judge's points minus people's; bias_low, bias_high: its t interval over questions
        - loa_low, loa_high: limits of agreement, bias ± t × sd × √(1 + 1/n); 95 % of further single differences lie
          between them, also if there are few answers
        - rank_agreement: Spearman's rank correlation over answers
        - tpr, tpr_low, tpr_high: of the answers that people pass by the judge's pass line, the share that the judge
          passes; Wilson interval
        - tnr, tnr_low, tnr_high: of the answers that people fail, the share that the judge fails; Wilson interval
        - base_rate: share of the answers that people pass, which is also how often a judge would be right that passes
          everything; judge_rate: share that the judge passes
        - verdict_agreement: share of answers with the same verdict of both; kappa: Cohen's kappa of the verdicts
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If there are no labels, or if all labels are of answers or criteria that the judge did not judge.

    Notes
    -----
    Sources: Bland and Altman (1986), Lancet 327, 307-310; Wilson (1927), J. Am. Stat. Assoc. 22, 209-212; Cohen (1960),
    Educ. Psychol. Meas. 20, 37-46. Wilson's intervals treat answers as independent, so they are too narrow if a question has several
    answers.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": list("abcd"), "criterion": "安全性"})
    >>> scores = one.assign(judge_model="A", score=[90, 80, 75, 10])
    >>> labels = one.assign(rater="佐藤", score=[80, 80, 50, 10])
    >>> found = sj.stats.judge_vs_people(scores, labels).query("criterion == '安全性'")
    >>> found[["judge_model", "n", "bias", "tpr", "tnr", "base_rate"]]
      judge_model  n  bias  tpr  tnr  base_rate
    0           A  4  8.75  1.0  0.5        0.5
    """
    who = "judge_vs_people"
    sides = beside_people(scores, labels, who)
    lines = rater_lines(scores, "judge_model")
    rows: list[dict[str, Any]] = []
    for judge, side in sides.items():
        for criterion in side.people.columns:
            labelled = side.people[criterion].notna()
            both = labelled & side.judge[criterion].notna()
            if not both.any():
                continue
            missing = int((labelled & ~both).sum())
            row = _vs_row(side.people.loc[both, criterion], side.judge.loc[both, criterion], missing, lines[judge])
            rows.append(
                {"judge_model": judge, "criterion": criterion, **row, "note": sentences(row["note"], side.unused)}
            )
    if not rows:
        raise ConfigError(
            "{who}: no labelled answer has a score of a judge; look at the column 'status' of the scores", who=who
        )
    frame = pd.DataFrame(rows)
    names = [*in_order(scores["criterion"]), OVERALL]
    return by_criterion(frame, [name for name in names if name in set(frame["criterion"])])


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> float:
    """Compute Cohen's kappa of two raters' labels; NaN if both give every answer the same label."""
    a, b = np.asarray(first), np.asarray(second)
    kinds = np.union1d(a, b)
    if len(kinds) < 2:
        return math.nan
    chance = sum(float((a == kind).mean() * (b == kind).mean()) for kind in kinds)
    return (float((a == b).mean()) - chance) / (1 - chance)


def loa_reach(n: int) -> float:
    """Return how many sds of n differences 95 % of further ones lie from their mean, however few n are."""
    return float(scipy.stats.t.ppf(0.975, n - 1)) * math.sqrt(1 + 1 / n) if n > 1 else math.nan


def _vs_row(people: pd.Series, judge: pd.Series, missing: int, line: float) -> dict[str, Any]:
    n, apart = len(people), judge - people
    by_question = apart.groupby(level=0, sort=False).mean().to_numpy()
    bias, spread = float(by_question.mean()), loa_reach(n) * float(apart.std(ddof=1))
    right, said = (reaches(side, line).to_numpy() for side in (people, judge))
    rates: dict[str, float] = {}
    for name, of, hits in (("tpr", right, right & said), ("tnr", ~right, ~right & ~said)):
        rates[name] = float(hits.sum() / of.sum()) if of.any() else math.nan
        rates |= low_high(name, pass_rate_interval(int(hits.sum()), int(of.sum())))
    kappa, base_rate, judge_rate = cohen_kappa(right, said), right.mean(), said.mean()
    note = verdict_note(len(by_question), kappa, float((base_rate + judge_rate) / 2), missing)
    return {
        "n": n,
        "n_missing": missing,
        "bias": bias,
        **low_high("bias", difference_interval(by_question)),
        **low_high("loa", (bias - spread, bias + spread)),
        "rank_agreement": correlation(scipy.stats.rankdata(people), scipy.stats.rankdata(judge)),
        **rates,
        "base_rate": float(base_rate),
        "judge_rate": float(judge_rate),
        "verdict_agreement": float((right == said).mean()),
        "kappa": kappa,
        "note": note,
    }
