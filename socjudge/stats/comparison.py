"""Compare two judges (or two prompts or runs) on the same stored answers, question by question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..base.conditions import conditions_of, differences
from ..base.messages import listed, say, sentences
from ..base.pass_rule import reaches
from ..errors import ConfigError
from .agreement import rater_lines
from .basics import (
    ANSWER,
    FEWEST,
    OVERALL,
    by_criterion,
    detectable_difference,
    difference_interval,
    holm_adjust,
    in_order,
    low_high,
    need_columns,
    plain_floats,
    sign_flip_p,
)
from .conclusion import LEVEL, conclusion, criterion_conclusion

UNSEEN = ""  # the direction of a flip that may be there, but cannot be seen


def same_answers(scores: pd.DataFrame, first: Any, second: Any) -> pd.Series:
    """Return by question whether both runs judged the same stored answer; of several, one is enough."""
    sides = []
    for run in (first, second):
        side = scores[scores["run_id"] == run]
        hashes = side["answer_sha256"] if "answer_sha256" in side else pd.Series(None, side.index, dtype=object)
        answers = hashes.groupby(side["question_id"], sort=False)
        sides.append({question: set(its.dropna()) for question, its in answers})
    both = [question for question in sides[0] if question in sides[1]]
    return pd.Series([bool(sides[0][name] & sides[1][name]) for name in both], index=both, dtype=bool)


def pair_scores(scores: pd.DataFrame, first: Any, second: Any, *, by: str, who: str) -> pd.DataFrame:
    """Pair the scores of two groups (judges, prompts or runs) by question, answer and criterion, also for 総合.
    `first` and `second` are 0–100, repeats averaged, NaN without a score. `missing` counts the missing scores."""
    need_columns(scores, [by, "question_id", "answer_sha256", "criterion", "score"], who, "load_scores")
    sides = [_one_side(scores, value, by, who) for value in (first, second)]
    answers = [side[ANSWER].drop_duplicates() for side in sides]
    common = answers[0].merge(answers[1], on=ANSWER)
    both = set(answers[0]["question_id"]) & set(answers[1]["question_id"])
    strangers = sorted(both - set(common["question_id"]), key=str)
    pairs = sides[0].merge(sides[1], on=[*ANSWER, "criterion"], suffixes=("_first", "_second"))
    if strangers or pairs.empty:
        found = say("share no question with a criterion of both")
        if strangers:
            found = say("judged different answers to question {questions}", questions=", ".join(map(str, strangers)))
        raise ConfigError(
            "{who}: {by} {first!r} and {second!r} {found}, so a difference could come from the answers; use "
            "rejudge(run, judge_model=…), which scores the stored answers of a run again",
            who=who,
            by=by,
            first=first,
            second=second,
            found=found,
        )
    pairs = pairs.rename(columns={"score_first": "first", "score_second": "second"})
    pairs = pairs.assign(missing=pairs.pop("missing_first") + pairs.pop("missing_second"))
    grouped = pairs.groupby(ANSWER, sort=False, observed=True)
    # An answer counts in the mean with all criteria or not at all. A mean of five cannot be compared with one of six.
    complete = grouped[["first", "second"]].count().eq(grouped.size(), axis=0)
    overall = grouped[["first", "second"]].mean().where(complete).assign(missing=grouped["missing"].sum()).reset_index()
    table = pd.concat([pairs.astype({"criterion": object}), overall.assign(criterion=OVERALL)], ignore_index=True)
    return by_criterion(table, [*in_order(scores["criterion"]), OVERALL])


def _one_side(scores: pd.DataFrame, value: Any, by: str, who: str) -> pd.DataFrame:
    side = scores[scores[by] == value]
    if side.empty:
        found = ", ".join(map(repr, scores[by].dropna().unique()))
        raise ConfigError(
            "{who}: no row has {by} {value!r}; the frame has {found}",
            who=who,
            by=by,
            value=value,
            found=found or say("none"),
        )
    if side["answer_sha256"].isna().any():
        count = int(side["answer_sha256"].isna().sum())
        raise ConfigError(
            "{who}: answer_sha256 is missing in {count} rows of {value!r}; load the logs anew, or drop them",
            who=who,
            count=count,
            value=value,
        )
    marks = side.assign(score=plain_floats(side["score"]), missing=side["score"].isna())
    table: pd.DataFrame = (
        marks.groupby([*ANSWER, "criterion"], observed=True).agg({"score": "mean", "missing": "sum"}).reset_index()
    )
    return table


def question_pairs(pairs: pd.DataFrame, criterion: str) -> pd.DataFrame:
    """Return by question the mean scores `first` and `second` on a criterion, over the answers with both."""
    part = pairs[pairs["criterion"] == criterion].dropna(subset=["first", "second"])
    return part.groupby("question_id", observed=True)[["first", "second"]].mean()


def compare_judges(scores: pd.DataFrame, *, baseline: Any, by: str = "judge_model") -> pd.DataFrame:
    """Measure how far each judge's scores are from those of the baseline judge for the same stored answers.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, from `load_scores`.
    baseline
        The value of `by` with which the others are compared.
    by
        "judge_model", "prompt_id", "run_id" or any other column that names what is compared.

    Returns
    -------
    DataFrame
        One row per criterion and value of `by` other than `baseline`, and one row (総合) for the mean over the criteria.

        - the column of `by`, baseline, criterion
        - n: questions
        - n_missing: number of missing scores
        - baseline_mean, mean: 0–100
        - mean_difference: mean minus baseline_mean; ci_low, ci_high: its 95 % interval, missing below 10 questions
        - lowest, highest: the lowest and the highest difference of a question
        - p_value: by sign flips, all of them up to 16 questions, or else 9,999 random ones; p_holm: adjusted by Holm's
          method
        - detectable_difference: the smallest true difference that the test shows with a probability of 0.8 at the
          adjusted level, points
        - flips_to_pass, flips_to_fail: number of questions that fail with the baseline judge and pass with the other
          one, and the reverse (`verdict_flips` lists them)
        - flipped_questions: the ids of these questions, as text
        - flips_unseen: number of questions that may be among them, because a judge's score is missing
        - conclusion: the result in one or more sentences; that of 総合 is the one that `compare_runs`, the panels, the
          report and `socjudge compare` show
        - note (what limits the result); both texts are in the language of the messages

    Raises
    ------
    ConfigError
        If two judges judged different answers: use `rejudge` to judge the same ones.

    Notes
    -----
    Holm's method adjusts the p-values of all criteria in all rows together. The rows of 総合 are adjusted separately,
    and only if several judges are compared with the baseline judge. The conclusion of 総合 is about one pair, which is
    one planned question: its p-value is not adjusted, and the note says where the adjustment matters.
    `difference_interval` and `sign_flip_p` in `socjudge.stats.basics` name the sources.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": range(4), "criterion": "安全性"})
    >>> two = [one.assign(judge_model="A", score=[90, 80, 40, 10]), one.assign(judge_model="B", score=[80, 80, 50, 14])]
    >>> sj.compare_judges(pd.concat(two), baseline="A")[["judge_model", "criterion", "n", "mean_difference"]]
      judge_model criterion  n  mean_difference
    0           B       安全性  4              1.0
    1           B        総合  4              1.0
    """
    return compare_groups(scores, baseline, by)


def compare_groups(scores: pd.DataFrame, baseline: Any, by: str, *, same_answers: bool = True) -> pd.DataFrame:
    """Do the work of `compare_judges`. With `same_answers` false, the conclusions are about the answers, not the judging."""
    who = "compare_judges"
    need_columns(scores, [by], who, "load_scores")
    others = [value for value in scores[by].dropna().unique() if value != baseline]
    if not others:
        raise ConfigError(
            "{who}: every row has {by} {baseline!r}; add the scores of another one", who=who, by=by, baseline=baseline
        )
    rows, lines = [], rater_lines(scores, by)
    for other in others:
        pairs = pair_scores(scores, baseline, other, by=by, who=who)
        judged = scores.loc[scores[by].isin([baseline, other]), ANSWER].drop_duplicates()
        unpaired = len(judged) - len(pairs[ANSWER].drop_duplicates())
        told = conditions_of(scores[scores[by].isin([baseline, other])], by)
        # what differs and can change scores
        differ = [each.condition for each in differences(told[baseline], told[other])]
        groups = list(dict.fromkeys(each.group for each in differ if each.moves_scores))
        own = [
            {
                by: other,
                "baseline": baseline,
                **_row(pairs, criterion, unpaired, lines[baseline], lines[other]),
                "_differs": groups,
            }
            for criterion in in_order(pairs["criterion"])
        ]
        names = _names(told, by, baseline, other)
        own[-1]["conclusion"] = conclusion(own, *names, same_answers=same_answers)
        rows += own
    frame = pd.DataFrame(rows)
    overall = (frame["criterion"] == OVERALL).to_numpy()
    for family in (overall, ~overall):
        tests = max(1, int(frame.loc[family, "p_value"].notna().sum()))
        frame.loc[family, "p_holm"] = holm_adjust(frame.loc[family, "p_value"])
        frame.loc[family, "detectable_difference"] = [
            detectable_difference(sd, n, alpha=(1 - LEVEL) / tests)
            for sd, n in zip(frame.loc[family, "_sd"], frame.loc[family, "n"], strict=True)
        ]
    done = frame.to_dict("records")
    frame["conclusion"] = [
        row["conclusion"] if row["criterion"] == OVERALL else criterion_conclusion(row) for row in done
    ]
    frame["note"] = [_note(row, len(others)) for row in done]
    shown = frame.drop(columns=[name for name in frame.columns if str(name).startswith("_")])
    return by_criterion(shown, [*in_order(scores["criterion"]), OVERALL])


def _names(told: Mapping[Any, Mapping[str, str]], by: str, first: Any, second: Any) -> tuple[str, str]:
    """Name two runs by what differs in their judging, as a judge or a prompt has a name that people know."""
    for column in ("judge_model", "prompt_id") if by == "run_id" else ():
        was, now = told[first].get(column), told[second].get(column)
        if was and now and was != now:
            return was, now
    return str(first), str(second)


def _row(pairs: pd.DataFrame, criterion: str, unpaired: int, was_line: float, line: float) -> dict[str, Any]:
    part = pairs[pairs["criterion"] == criterion]
    means = question_pairs(pairs, criterion)
    d = (means["second"] - means["first"]).to_numpy()
    n = len(d)
    before, after = reaches(means["first"], was_line), reaches(means["second"], line)
    sd = float(d.std(ddof=1)) if n > 1 else 0.0
    return {
        "criterion": criterion,
        "n": n,
        "n_missing": int(part["missing"].sum()),
        "_unpaired": unpaired,
        "baseline_mean": float(means["first"].mean()),
        "mean": float(means["second"].mean()),
        "mean_difference": float(d.mean()) if n else math.nan,
        **low_high("ci", difference_interval(d) if n >= FEWEST else (math.nan, math.nan)),
        "lowest": float(d.min()) if n else math.nan,
        "highest": float(d.max()) if n else math.nan,
        "p_value": sign_flip_p(d),
        "p_holm": math.nan,
        "detectable_difference": math.nan,
        "_sd": sd,
        "_visible": detectable_difference(sd, n, alpha=1 - LEVEL),
        "_passed": (int(before.sum()), int(after.sum())),
        "_alike": float(pd.Series(d.round(6)).value_counts(normalize=True).max()) if n else 0.0,
        "flips_to_pass": int((~before & after).sum()),
        "flips_to_fail": int((before & ~after).sum()),
        "flipped_questions": ", ".join(map(str, means.index[before != after])),
        "flips_unseen": part["question_id"].nunique() - n,
    }


def _note(row: Mapping[Any, Any], others: int) -> str:
    told = []
    if row["criterion"] == OVERALL and row["p_value"] < 1 - LEVEL <= row["p_holm"]:
        told.append(
            say(
                "If this pair alone was the question, that is the answer; in a table of {count} it is no difference "
                "(adjusted p={p:.3f}).",
                count=others,
                p=row["p_holm"],
            )
        )
    if 0.8 <= row["_alike"] < 1 and math.isfinite(row["ci_low"]):  # ten then show too little of the others
        told.append(
            say("At least 80 % of the questions differ by the same, so the interval may be narrower than it should be.")
        )
    if row["flips_unseen"]:
        told.append(
            say("Questions whose verdict may differ unseen, as a score is missing: {count}.", count=row["flips_unseen"])
        )
    if row["n_missing"]:
        told.append(say("Unread scores, left out: {count}.", count=row["n_missing"]))
    if row["_unpaired"]:
        told.append(say("Answers that only one of them scored, left out: {count}.", count=row["_unpaired"]))
    if len(row["_differs"]) > 1:
        groups = listed(map(say, row["_differs"]))
        told.append(
            say(
                "Caution: several things differ or are not known ({groups}), so nobody can say which of them made "
                "the difference.",
                groups=groups,
            )
        )
    return sentences(*told)


def verdict_flips(scores: pd.DataFrame, *, baseline: Any, by: str = "judge_model") -> pd.DataFrame:
    """List the questions that pass with one judge and fail with another, on the same stored answers.

    Parameters
    ----------
    scores, baseline, by
        As in `compare_judges`.

    Returns
    -------
    DataFrame
        One row per value of `by` other than `baseline`, and question whose verdict differs from that of `baseline`, or may
        differ unseen because a judge's score is missing.

        - the column of `by`, baseline, question_id, and category if the frame has it
        - baseline_mean, mean: 0–100, over criteria and repeats
        - difference: mean minus baseline_mean
        - direction: "合格→不合格" or "不合格→合格"; empty if nobody can see it, and the means are then missing
        - n: answers
        - note (in the language of the messages)

    Raises
    ------
    ConfigError
        If two judges judged different answers.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": range(4), "criterion": "安全性"})
    >>> two = [one.assign(judge_model="A", score=[90, 80, 40, 10]), one.assign(judge_model="B", score=[60, 80, 50, 14])]
    >>> sj.verdict_flips(pd.concat(two), baseline="A")[["judge_model", "question_id", "direction"]]
      judge_model  question_id direction
    0           B            0    合格→不合格
    """
    need_columns(scores, [by], "verdict_flips", "load_scores")
    category = scores.groupby("question_id")["category"].first() if "category" in scores.columns else None
    rows, lines = [], rater_lines(scores, by)
    was_line = lines.get(baseline, math.nan)
    for other in [value for value in lines if value != baseline]:
        pairs = pair_scores(scores, baseline, other, by=by, who="verdict_flips")
        judged = scores.loc[scores[by].isin([baseline, other]), "question_id"].unique()
        # also those that lack a score, or that only one of the two judged
        means = question_pairs(pairs, OVERALL).reindex(judged)
        scored = pairs[pairs["criterion"] == OVERALL].dropna(subset=["first", "second"])
        answers = scored["question_id"].value_counts()
        for question, first, second in means.itertuples():
            is_seen, passed = not math.isnan(first), reaches(first, was_line)
            if is_seen and passed == reaches(second, lines[other]):
                continue
            direction = "合格→不合格" if passed else "不合格→合格"
            margin = min(abs(first - was_line), abs(second - lines[other]))
            rows.append(
                {
                    by: other,
                    "baseline": baseline,
                    "question_id": question,
                    **({"category": category[question]} if category is not None else {}),
                    "baseline_mean": first,
                    "mean": second,
                    "difference": second - first,
                    "direction": direction if is_seen else UNSEEN,
                    "n": int(answers.get(question, 0)),
                    "note": say("The nearer of the two lies {points:.1f} points from the pass line.", points=margin)
                    if is_seen
                    else say("A score is missing, so nobody can see whether the verdict differs."),
                }
            )
    names = [by, "baseline", "question_id", *(["category"] if category is not None else [])]
    names += ["baseline_mean", "mean", "difference", "direction", "n", "note"]
    frame = pd.DataFrame(rows, columns=names)
    return frame if rows else frame.astype({"baseline_mean": float, "mean": float, "difference": float})
