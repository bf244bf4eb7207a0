"""Measure how steady a person's scores are, from the answers that this person scored twice."""

from __future__ import annotations

import math

import pandas as pd

from ..base.messages import listed, say, sentences
from ..errors import ConfigError
from .agreement import judge_agreement, loa_reach, pairwise_agreement
from .basics import in_order, need_columns, same_raters

_ANSWER = ["question_id", "answer_sha256"]
FEW = 5  # answers scored twice; with fewer, the note says that they are few


def rater_consistency(labels: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Measure how far each rater agrees with themselves on answers that they scored twice.

    There is one row per rater and criterion.

    Parameters
    ----------
    labels
        People's scores, from `load_labels`; `LabelPanel(repeats=5)` asks for a second score of five answers.
    level
        Confidence level of the intervals, 0–1.

    Returns
    -------
    DataFrame
        - rater, criterion (ordered categorical, with 総合, the mean of all criteria)
        - n: answers scored twice; n_questions: the questions of these answers
        - shift, shift_low, shift_high: second score minus first score, points; t interval over questions
        - within_sd: sd of a rater's scores of the same answer, points; missing if there is only one answer
        - alpha, alpha_low, alpha_high: Krippendorff's alpha for interval data; jackknife interval over questions
        - icc_a1, icc_low, icc_high: ICC(A,1) and its interval
        - verdict_agreement, agreement_low, agreement_high: share of answers with the same verdict by the pass line both
          times; Wilson interval
        - method, note (in the language of the messages)

        A rater who scored no answer twice has no row.

    Raises
    ------
    ConfigError
        If no answer was scored twice.

    Notes
    -----
    No judge can be expected to agree with a rater better than the rater agrees with themselves. within_sd is the sd of
    the differences (second score minus first) divided by the square root of 2: Bland and Altman (1986), Lancet 327,
    307-310.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": list("abcd"), "criterion": "安全性", "rater": "佐藤"})
    >>> first = one.assign(score=[80, 80, 50, 10], again=False)
    >>> found = sj.stats.rater_consistency(pd.concat([first, one.assign(score=[85, 80, 45, 10], again=True)]))
    >>> found[["rater", "criterion", "n", "within_sd", "verdict_agreement"]].round(1)
      rater criterion  n  within_sd  verdict_agreement
    0    佐藤       安全性  4        2.9                1.0
    1    佐藤        総合  4        2.9                1.0
    """
    who = "rater_consistency"
    need_columns(labels, ["rater", *_ANSWER, "criterion", "score", "again"], who, "load_labels")
    labels = same_raters(labels)
    rows = [_rater(labels[labels["rater"] == rater], rater, level) for rater in in_order(labels["rater"])]
    if not (found := [row for row in rows if row is not None]):
        raise ConfigError(
            "{who}: no answer was scored twice by the same person; have five scored again with LabelPanel(repeats=5)",
            who=who,
        )
    return pd.concat(found, ignore_index=True)


def _rater(labels: pd.DataFrame, rater: str, level: float) -> pd.DataFrame | None:
    again = labels["again"].astype(bool)
    item = pd.MultiIndex.from_frame(labels[[*_ANSWER, "criterion"]].astype(object))
    twice = item.isin(item[again]) & item.isin(item[~again])
    if not twice.any():
        return None
    times = labels[twice].assign(time=again[twice].map({False: "first", True: "second"}))
    times = times.sort_values("time", kind="stable")  # stable, so that the first score stays the first of its pair
    steady = judge_agreement(times, by="time", level=level).set_index("criterion")
    pair = pairwise_agreement(times, by="time", level=level).set_index("criterion")
    few = steady["n"].map(
        lambda n: say("Few answers were scored twice ({count}), so the intervals are wide.", count=n) if n < FEW else ""
    )
    return pd.DataFrame(
        {
            "rater": rater, "criterion": steady.index, "n": steady["n"], "n_questions": steady["n_questions"],
            "shift": pair["bias"], "shift_low": pair["bias_low"], "shift_high": pair["bias_high"],
            "within_sd": (pair["loa_high"] - pair["loa_low"]) / (2 * math.sqrt(2) * pair["n"].map(loa_reach)),
            **{name: steady[name] for name in ("alpha", "alpha_low", "alpha_high", "icc_a1", "icc_low", "icc_high")},
            **{name: pair[name] for name in ("verdict_agreement", "agreement_low", "agreement_high")},
            "method": steady["method"] + "; Bland-Altman; Wilson", "note": few.combine(pair["note"], sentences, fill_value=""),
        }
    )  # fmt: skip


def steadiness(labels: pd.DataFrame) -> dict[str, str]:
    """Return {criterion: a sentence on how steady people's scores are}, from answers that they scored twice.
    It is {} if no answer was scored twice."""
    try:
        found = rater_consistency(labels)
    except ConfigError:  # also labels from a CSV file without the column
        return {}
    rows = found[found["within_sd"].notna()]
    said = [
        say("{rater} ±{sd:.1f} points ({n} answers)", rater=row.rater, sd=row.within_sd, n=row.n)
        for row in rows.itertuples()
    ]
    by_criterion = pd.Series(said, dtype=object).groupby(rows["criterion"].astype(str).to_numpy(), sort=False)
    return {
        str(name): say(
            "Scatter of people's own scores (SD when the same answer is scored again): {raters}.", raters=listed(texts)
        )
        for name, texts in by_criterion
    }
