"""Compare a judge with people: how close its scores are to people's scores, and whether it could replace a person."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.messages import say, sentences
from ..base.pass_rule import frame_rule, reaches
from ..errors import ConfigError
from .agreement import krippendorff_alpha, pair_row, rater_lines
from .basics import (
    OVERALL,
    Floats,
    by_criterion,
    in_order,
    low_high,
    need_columns,
    pass_rate_interval,
    plain_floats,
    same_raters,
)
from .raters import steadiness

ALWAYS_PASS = "常に合格"  # name of the trivial judge in the frames
_ANSWER = ["question_id", "answer_sha256"]
_OF_POINTS = ["bias", "bias_low", "bias_high", "mae", "loa_low", "loa_high", "rank_agreement", "alpha", "icc_a1"]


class Beside(NamedTuple):
    """Hold a judge's scores and people's mean scores of the same answers, side by side."""

    # Points, NaN for a missing score: one row per answer that the judge judged (question_id, answer_sha256), one column
    # per criterion that both judge and people scored, and one for 総合.
    judge: pd.DataFrame
    people: pd.DataFrame
    strangers: int  # labelled answers that the judge did not judge


def beside_people(scores: pd.DataFrame, labels: pd.DataFrame, judge: Any, *, by: str, who: str) -> Beside:
    """Return the scores of one judge, and the mean of people's scores, for the same answers.
    総合 is the mean over the criteria. It is missing if the score of one criterion is missing."""
    need_columns(scores, [by, *_ANSWER, "criterion", "score"], who, "load_scores")
    need_columns(labels, ["rater", *_ANSWER, "criterion", "score"], f"{who}, labels", "load_labels")
    labels = same_raters(labels)
    if not labels["score"].notna().any():
        raise ConfigError("{who}: labels has no score; score some answers in LabelPanel, then load_labels()", who=who)
    ours, theirs = _wide(scores[scores[by] == judge]), _wide(labels)
    criteria = [name for name in in_order(scores["criterion"]) if name in ours and name in theirs]
    if not criteria:
        mine, other = (", ".join(map(str, side)) for side in (ours, theirs))
        raise ConfigError(
            "{who}: {judge!r} scores {ours}, the labels {theirs}; take labels of the same criteria",
            who=who,
            judge=judge,
            ours=mine,
            theirs=other,
        )
    strangers = len(theirs.index.difference(ours.index))
    if strangers == len(theirs):
        raise ConfigError(
            "{who}: none of the {count} labelled answers was scored by {by} {judge!r}; load the runs whose "
            "answers were labelled, or rejudge(run, judge_model=…) them",
            who=who,
            count=strangers,
            by=by,
            judge=judge,
        )
    ours, theirs = (
        side[criteria].assign(**{OVERALL: side[criteria].mean(axis=1, skipna=False)}) for side in (ours, theirs)
    )
    return Beside(ours, theirs.reindex(ours.index), strangers)


def judges_of(scores: pd.DataFrame, by: str, who: str) -> list[Any]:
    """Return the judges that the column `by` of a frame names. Raise ConfigError if the column is missing or empty."""
    need_columns(scores, [by], who, "load_scores")
    if not (judges := in_order(scores[by])):
        raise ConfigError("{who}: the frame has no row with a {by}; load a run with results", who=who, by=by)
    return judges


def _wide(marks: pd.DataFrame) -> pd.DataFrame:
    marks = marks.dropna(subset=[*_ANSWER, "criterion"])
    rater = [name for name in ("rater",) if name in marks.columns]
    names = dict.fromkeys(["answer_sha256", "criterion"], object)  # two frames have different categories
    marks = marks.astype(names).assign(score=plain_floats(marks["score"]))
    # the repeats of each rater first, then the raters
    each = marks.groupby([*rater, *_ANSWER, "criterion"], sort=False)["score"].mean()
    return each.groupby([*_ANSWER, "criterion"], sort=False).mean().unstack("criterion")


def judge_vs_people(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    by: str = "judge_model",
    level: float = 0.95,
) -> pd.DataFrame:
    """Measure how close each judge's scores and verdicts are to those of people. There is one row per judge and
    criterion.

    A trivial judge that passes every answer is added for comparison. People's score of an answer is the mean over raters. First look at how
    far people agree with each other: `judge_agreement(labels, by="rater")`. To compare the embedded judge too, put its
    scores into `scores`.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`. Repeats are averaged.
    labels
        People's scores, from `load_labels`.
    by
        The column that names a judge.
    level
        Confidence level of the intervals, 0–1.

    Returns
    -------
    DataFrame
        - the column of `by`
        - trivial: whether the judge is "常に合格" (passes every answer)
        - criterion
        - n: answers that judge and people both scored; n_questions: their questions; n_missing: labelled answers that
          the judge judged without giving a score
        - n_raters: number of people
        - bias: the judge's points minus people's; bias_low, bias_high: its t interval over questions
        - mae: mean distance of the judge's points from people's
        - loa_low, loa_high: limits of agreement, as in `pairwise_agreement`
        - rank_agreement: Spearman's rank correlation; alpha: Krippendorff's alpha; icc_a1: ICC(A,1)
        - true_pass, false_pass, false_fail, true_fail: number of answers that the judge passes rightly, passes wrongly,
          fails wrongly and fails rightly; people's verdict by the pass line counts as right
        - tpr, tpr_low, tpr_high: of the answers that people pass, the share that the judge passes; Wilson interval
        - tnr, tnr_low, tnr_high: of the answers that people fail, the share that the judge fails; Wilson interval
        - base_rate: share of the answers that people pass; judge_rate: share that the judge passes
        - verdict_agreement, agreement_low, agreement_high: share of answers with the same verdict of both, and its
          Wilson interval; kappa: Cohen's kappa of the verdicts
        - method, note (in the language of the messages); if people scored answers twice, the note also says how steady
          they are

    Raises
    ------
    ConfigError
        If there are no labels, or if all labels are of answers or criteria that the judge did not judge.

    Notes
    -----
    Sources: Bland and Altman (1986), Lancet 327, 307-310; Wilson (1927), J. Am. Stat. Assoc. 22, 209-212; and those of
    `judge_agreement`. Wilson's intervals treat answers as independent, so they are too narrow if a question has several
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
      judge_model  n   bias  tpr  tnr  base_rate
    0           A  4   8.75  1.0  0.5        0.5
    2        常に合格  4  45.00  1.0  0.0        0.5
    """
    who = "judge_vs_people"
    line = frame_rule(scores).line
    rows: list[dict[str, Any]] = []
    sides = {judge: beside_people(scores, labels, judge, by=by, who=who) for judge in judges_of(scores, by, who)}
    lines = rater_lines(scores, by)
    for judge, side in sides.items():
        rows += _judge_rows(judge, side, lines[judge], level)
    if not rows:
        raise ConfigError(
            "{who}: no labelled answer has a score of a judge; look at the column 'status' of the scores", who=who
        )
    any_side = max(sides.values(), key=lambda side: int(side.people[OVERALL].notna().sum()))
    rows += _judge_rows(ALWAYS_PASS, any_side._replace(judge=any_side.people * 0 + 100.0), line, level)
    frame = pd.DataFrame([{by: row.pop("judge"), **row} for row in rows])
    people = same_raters(labels)
    raters = people.groupby("criterion", observed=True)["rater"].nunique().to_dict()
    raters |= {OVERALL: people["rater"].nunique()}
    steady = steadiness(labels)
    about = zip(frame["trivial"], frame["criterion"], strict=True)
    steadily = ["" if trivial else steady.get(criterion, "") for trivial, criterion in about]
    frame["note"] = list(map(sentences, frame["note"], steadily))
    frame.insert(list(frame).index("bias"), "n_raters", frame["criterion"].map(raters).astype(int))
    names = [*in_order(scores["criterion"]), OVERALL]
    return by_criterion(frame, [name for name in names if name in set(frame["criterion"])])


def _judge_rows(judge: Any, side: Beside, line: float, level: float) -> list[dict[str, Any]]:
    rows = []
    for criterion in side.people.columns:
        labelled = side.people[criterion].notna()
        both = labelled & side.judge[criterion].notna()
        if not both.any():
            continue
        table = np.column_stack([side.people.loc[both, criterion], side.judge.loc[both, criterion]])
        question = pd.factorize(both.index[both].get_level_values(0))[0]
        row = _vs_row(table, question, int((labelled & ~both).sum()), line, level)
        trivial = judge == ALWAYS_PASS
        if trivial:
            row |= dict.fromkeys([name for name in _OF_POINTS if not name.startswith("bias")], math.nan)
        if side.strangers and not trivial:
            row["note"] = sentences(
                row["note"],
                say("Labelled answers that this judge did not score, left out: {count}.", count=side.strangers),
            )
        rows.append({"judge": judge, "trivial": trivial, "criterion": criterion, **row})
    return rows


def _vs_row(table: Floats, question: NDArray[np.int64], missing: int, line: float, level: float) -> dict[str, Any]:
    found = pair_row(table, question, missing, (line, line), level)
    # people's scores are in column 0, the judge's in column 1
    people, judge = reaches(table[:, 0], line), reaches(table[:, 1], line)
    cells = {
        "true_pass": int((people & judge).sum()),
        "false_pass": int((~people & judge).sum()),
        "false_fail": int((people & ~judge).sum()),
        "true_fail": int((~people & ~judge).sum()),
    }
    rates: dict[str, float] = {}
    for name, hit, total in (
        ("tpr", cells["true_pass"], int(people.sum())),
        ("tnr", cells["true_fail"], int((~people).sum())),
    ):
        interval = pass_rate_interval(hit, total, level) if total else (math.nan, math.nan)
        rates |= {name: hit / total if total else math.nan, **low_high(name, interval)}
    note = found["note"]
    if people.all():
        note = sentences(
            note, say("People passed everything, so nobody can say how often the judge passes what they fail.")
        )
    elif not people.any():
        note = sentences(
            note, say("People failed everything, so nobody can say how often the judge fails what they pass.")
        )
    return {
        **{name: found[name] for name in ("n", "n_questions", "n_missing", "bias", "bias_low", "bias_high")},
        "mae": float(np.abs(table[:, 1] - table[:, 0]).mean()),
        **{name: found[name] for name in ("loa_low", "loa_high", "rank_agreement")},
        "alpha": krippendorff_alpha(table),
        "icc_a1": found["icc_a1"],
        **cells,
        **rates,
        "base_rate": found["base_rate_first"],
        "judge_rate": found["base_rate_second"],
        **{name: found[name] for name in ("verdict_agreement", "agreement_low", "agreement_high", "kappa")},
        "method": f"{found['method']}; Krippendorff alpha (interval); Wilson",
        "note": note,
    }
