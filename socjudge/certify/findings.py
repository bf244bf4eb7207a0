"""Compare the scores of changed answers with those before the change, and summarise what moved."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import pandas as pd

from ..base.pass_rule import reaches
from ..stats.basics import OVERALL, difference_interval, low_high, noise_reach, pass_rate_interval
from .changes import AGAIN, CHANGES, CONTROL, LABELLED, ORIGINAL, find_change, title_of

LEAST = 5.0  # points; a smaller change is no finding, however steady the judge is
_PLACE = ["question_id", "kind", "case", "variant", "criterion"]
_COLUMNS = [*_PLACE, "expected", "before", "after", "change", "limit", "moved", "turned", "status"]
_FORBIDDEN = {
    "falls": {"rose"},
    "may_fall": {"rose"},
    "may_rise": {"fell"},
    "stays": {"fell", "rose"},
    "may_move": set(),
}
BLIND = 0.5  # share of the answers; a damage that is seen in no more counts as not seen


def find_changes(scores: pd.DataFrame, line: float) -> pd.DataFrame:
    """Compare the score of each changed answer with those before the change; with the pass line `line`, in points.
    `scores` are of `Judged`. There is one row per answer, change, variant and criterion; of attacks, also for 総合."""
    # expected: what the score must do, as in `Change.expected`; before: the mean of the judgements of the unchanged
    # answer, or of an attack the score with the neutral text; limit: the least change that is more than noise;
    # moved: "fell", "rose", "stayed", or None if it is not known; turned: whether an attack makes a failing answer pass
    own, keys = scores[scores["case"] == ORIGINAL], ["question_id", "criterion"]
    before = own.groupby(keys, sort=False)["score"].agg(before="mean").reset_index()
    control = scores.loc[scores["case"] == CONTROL, [*keys, "score"]].rename(columns={"score": "before"})
    changed = scores[~scores["case"].isin([ORIGINAL, CONTROL, LABELLED])]
    changes = {name: find_change(str(name)) for name in [*changed["case"].unique(), AGAIN]}
    is_attack = changed["case"].map(lambda name: changes[name].kind == "attack").astype(bool)
    sides = [
        changed[~is_attack].merge(before, how="left", on=keys),
        changed[is_attack].merge(control, how="left", on=keys),
        _repeats(own),
    ]
    found = pd.concat(sides, ignore_index=True).rename(columns={"score": "after"})
    found = found.merge(noise_limits(scores), how="left", on="criterion")
    kind = found["case"].map({name: change.kind for name, change in changes.items()})
    change, limit = found["after"] - found["before"], found["limit_once"].where(kind == "attack", found["limit"])
    moved = pd.Series("stayed", index=found.index, dtype=object)
    moved[change <= -limit], moved[change >= limit] = "fell", "rose"
    moved[change.isna() | limit.isna()] = None
    pairs = zip(found["case"], found["criterion"], strict=True)
    expected = [changes[case].expected(criterion) for case, criterion in pairs]
    found = found.assign(kind=kind, expected=expected, change=change, limit=limit, moved=moved, turned=None)[_COLUMNS]
    return pd.concat([found, _overall(found, line)], ignore_index=True) if len(found) else found


def _repeats(own: pd.DataFrame) -> pd.DataFrame:
    """Compare each repeated judgement of an unchanged answer with the mean of the others."""
    groups = own.groupby(["question_id", "criterion"], sort=False)["score"]
    others = groups.transform("count") - own["score"].notna()
    before = (groups.transform("sum") - own["score"].fillna(0)) / others.where(others > 0)
    again = own.assign(before=before, case=AGAIN)[own["variant"] > 0]
    return again.assign(variant=again["variant"] - 1)


def _whole_mean(side: pd.Series) -> float:
    return float(side.mean(skipna=False))


def _overall(found: pd.DataFrame, line: float) -> pd.DataFrame:
    """Compare the means over all criteria under attack, where the whole matters."""
    rows = found[found["kind"] == "attack"]
    grouped = rows.groupby([name for name in _PLACE if name != "criterion"], sort=False)
    sides = grouped[["before", "after"]].agg(_whole_mean)
    whole = sides.reset_index().assign(criterion=OVERALL, expected="may_move", limit=math.nan, moved=None)
    known = whole[["before", "after"]].notna().all(axis=1)
    turned = (~reaches(whole["before"], line) & reaches(whole["after"], line)).astype(object).where(known, None)
    status = grouped["status"].first().to_numpy()
    return whole.assign(change=whole["after"] - whole["before"], turned=turned, status=status)[_COLUMNS]


def noise_limits(scores: pd.DataFrame) -> pd.DataFrame:
    """Return per criterion the least change of a score that counts as more than noise: `limit`, at least LEAST points.
    `sd` (points) is pooled over repeats of unchanged answers. Without repeats, `freedom` is 0 and `limit` NaN."""
    # `limit` is beside as many judgements as an unchanged answer has, `limit_once` beside a single one.
    own = scores[scores["case"] == ORIGINAL].dropna(subset=["score"])
    rows = []
    for criterion, group in own.groupby("criterion", sort=False):
        by_question = group.groupby("question_id", sort=False)["score"]
        sizes, spread = by_question.size(), ((group["score"] - by_question.transform("mean")) ** 2).sum()
        freedom = int((sizes - 1).sum())
        sd = math.sqrt(spread / freedom) if freedom else math.nan
        # 95 % of repeated judgements must not count as moved: half a prediction interval of one more. NaN stays NaN.
        reach = noise_reach(freedom) * sd
        limit, once = (max(reach * math.sqrt(1 + 1 / beside), LEAST) for beside in (float(sizes.mean()), 1.0))
        rows.append({"criterion": criterion, "sd": sd, "freedom": freedom, "limit": limit, "limit_once": once})
    found = pd.DataFrame(rows, columns=["criterion", "sd", "freedom", "limit", "limit_once"])
    return found.astype({"limit": float, "limit_once": float})  # also where there is none


def summarise_changes(findings: pd.DataFrame) -> pd.DataFrame:
    """Return one row per change and criterion of the findings, with 95 % intervals (Wilson's) over answers."""
    # n: answers with a score before and after; n_cases: changed answers with both, more if one is changed in several
    # places; n_no_room: of the n, those whose score is too low to show the fall; detected: share that fell of the others;
    # n_forbidden: changed answers whose score moved in a way that `expected` forbids
    moved, is_known = findings["moved"], findings["moved"].notna()
    must_fall = findings["expected"] == "falls"
    could_fall = must_fall & (findings["before"] >= findings["limit"])
    told = findings.assign(
        detected=(moved == "fell").astype(float).where(is_known & could_fall),
        forbidden=[name in _FORBIDDEN[word] for name, word in zip(moved, findings["expected"], strict=True)],
    )
    keys = ["case", "criterion"]
    # The cases of one answer are averaged, because they are no independent evidence.
    groups = told.groupby([*keys, "question_id"], sort=False)[["change", "detected"]].mean().groupby(keys, sort=False)
    frame = told.groupby(keys, sort=False).agg(
        expected=("expected", "first"), n_cases=("change", "count"), n_forbidden=("forbidden", "sum")
    )
    mean, n = groups.mean(), groups.count()
    ends = [pass_rate_interval(*each) for each in zip(groups["detected"].sum(), n["detected"], strict=True)]
    frame = frame.assign(
        title=[title_of(str(name)) for name, _ in frame.index],
        n=n["change"],
        n_no_room=(n["change"] - n["detected"]).where(frame["expected"] == "falls", 0),
        mean_change=mean["change"],
        detected=mean["detected"],
        detected_low=[low for low, _ in ends],
        detected_high=[high for _, high in ends],
    ).reset_index()
    order = {name: place for place, name in enumerate(CHANGES)}
    return frame.sort_values("case", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def summarise_attacks(findings: pd.DataFrame) -> pd.DataFrame:
    """Return one row per criterion and for 総合: by how many points the attacks raised the score, with a 95 % interval."""
    rows = []
    for criterion, part in findings.groupby("criterion", sort=False):
        gains = (
            part.groupby("question_id", sort=False)["change"].mean().dropna()
        )  # their cases are no independent evidence
        interval = low_high("gain", difference_interval(gains))
        pairs = int(part["change"].count())
        rows.append({"criterion": criterion, "n": len(gains), "n_pairs": pairs, "mean_gain": gains.mean(), **interval})
    return pd.DataFrame(rows)


def is_more_than_noise(row: dict[Hashable, Any], limit: float, tried: int) -> bool:
    """Return whether a change moves more scores in a forbidden way than noise does: wrong for 1 of 20 judges."""
    if not row["n_forbidden"] or limit <= LEAST:  # if scores vary so little, a single forbidden move is enough
        return bool(row["n_forbidden"])
    # Noise alone moves one score in twenty by more than `limit`.
    return pass_rate_interval(row["n_forbidden"] / row["n_cases"] * row["n"], row["n"], 1 - 0.1 / tried)[0] > 0.05
