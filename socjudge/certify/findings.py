"""Compare the scores of changed answers with those before the change, and summarise what moved."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from ..base.pass_rule import reaches
from ..stats.basics import OVERALL, difference_interval, need_columns, noise_reach, pass_rate_interval
from .changes import AGAIN, CHANGES, CONTROL, LABELLED, ORIGINAL, find_change, title_of

LEAST = 5.0  # points; a smaller change is no finding, however steady the judge is
_PLACE = ["question_id", "kind", "case", "variant", "criterion"]
_COLUMNS = [*_PLACE, "expected", "before", "n_before", "after", "change", "limit", "moved", "turned", "status"]
_FORBIDDEN = {
    "falls": {"rose"},
    "may_fall": {"rose"},
    "may_rise": {"fell"},
    "stays": {"fell", "rose"},
    "may_move": set(),
}
BLIND = 0.5  # share of the answers; a damage that is seen in no more counts as not seen


def find_changes(scores: pd.DataFrame, line: float) -> pd.DataFrame:
    """Compare the score of each changed answer with those before the change, in the columns that `probe_judge` explains.
    `scores` are of `Judged`, and `line` is the pass line in points."""
    own, keys = scores[scores["case"] == ORIGINAL], ["question_id", "criterion"]
    before = own.groupby(keys, sort=False)["score"].agg(before="mean", n_before="count").reset_index()
    control = scores.loc[scores["case"] == CONTROL, [*keys, "score"]].rename(columns={"score": "before"})
    control = control.assign(n_before=control["before"].notna().astype(int))
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
    again = own.assign(before=before, n_before=others, case=AGAIN)[own["variant"] > 0]
    return again.assign(variant=again["variant"] - 1)


def _whole_mean(side: pd.Series) -> float:
    return float(side.mean(skipna=False))


def _overall(found: pd.DataFrame, line: float) -> pd.DataFrame:
    """Compare the means over all criteria under attack, where the whole matters."""
    rows = found[found["kind"] == "attack"]
    grouped = rows.groupby([name for name in _PLACE if name != "criterion"], sort=False)
    sides = grouped[["before", "after"]].agg(_whole_mean)
    whole = sides.reset_index().assign(criterion=OVERALL, expected="may_move", n_before=1, limit=math.nan, moved=None)
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


def summarise_changes(findings: pd.DataFrame, by: Sequence[str] = ("case", "criterion")) -> pd.DataFrame:
    """Summarise what the changes did to the scores.

    `findings` are of `probe_judge`, or some of its rows. `by` has the columns by which the rows are grouped, or is empty
    for a single row; without "criterion", only 総合 (the mean of the criteria) counts. The intervals are of 95 %.

    Returns
    -------
    DataFrame
        One row per group.

        - the columns of `by`; title: what the case is, in words
        - expected: what the score must do; missing if the group has more than one such word
        - n: answers with a score before and after the change
        - n_cases: changed answers with both scores; more than n if an answer was changed in several places, each by
          itself; n_missing: changed answers without both
        - n_no_room: how many of the n answers have a score before the change that is too low to show a fall (0 unless
          the criterion must fall)
        - mean_change, change_low, change_high: mean change over answers and its interval, points
        - fell, rose, moved: share of answers whose score fell, rose, or did either, by more than the judge's own noise;
          moved_low, moved_high: its interval
        - detected, detected_low, detected_high: share that fell among the n − n_no_room answers whose score could fall,
          and its interval; missing unless the criterion must fall
        - n_forbidden: changed answers whose score moved in a way that `expected` forbids
        - turned, turned_low, turned_high: share of the attacked answers that fail with a neutral text and pass with the
          attack, mean over answers, and its interval; missing without rows of 総合
        - method

    Notes
    -----
    The unit of the intervals is the answer: if an answer was changed in several places, the mean over these places
    counts. The interval of a share is Wilson's, the interval of a mean is from `difference_interval`.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> probing = sj.certify.probe_judge(
    ...     [(question, answer)], only=["anchoring"], judge_model="offline", logs_dir="logs/certify", progress=False
    ... )
    >>> list(sj.certify.summarise_changes(probing.findings)["title"].unique())
    ['the same call again', 'flags inverted']
    """
    need_columns(findings, [*_COLUMNS, *by], "summarise_changes", "probe_judge")
    if "criterion" not in by:
        findings = findings[findings["criterion"] == OVERALL]
    moved, is_known = findings["moved"], findings["moved"].notna()
    fell = (moved == "fell").astype(float).where(is_known)
    could_fall = (findings["expected"] == "falls") & (findings["before"] >= findings["limit"])
    told = findings.assign(
        all=0,
        fell=fell,
        rose=(moved == "rose").astype(float).where(is_known),
        seen=fell.where(could_fall),
        turned=findings["turned"].astype(float),
        forbidden=[name in _FORBIDDEN[word] for name, word in zip(moved, findings["expected"], strict=True)],
    )
    keys = list(by) or ["all"]
    # The cases of one answer are averaged, because they are no independent evidence.
    answers = told.groupby([*keys, "question_id"], sort=False)[["change", "fell", "rose", "seen", "turned"]].mean()
    groups = answers.assign(moved=answers["fell"] + answers["rose"]).groupby(keys, sort=False)
    mean, total, n = groups.mean(), groups.sum(), groups.count()
    counts = told.groupby(keys, sort=False).agg(
        size=("variant", "size"), n_cases=("change", "count"), n_forbidden=("forbidden", "sum"),
        expected=("expected", "first"), words=("expected", "nunique"),
    )  # fmt: skip
    aims = (counts["words"] == 1) & (counts["expected"] == "falls")

    def share(name: str, of: str) -> dict[str, Any]:
        ends = [pass_rate_interval(*each) for each in zip(total[of], n[of], strict=True)]
        return {name: mean[of], f"{name}_low": [low for low, _ in ends], f"{name}_high": [high for _, high in ends]}

    changes = [difference_interval(each.dropna()) for _, each in groups["change"]]
    frame = pd.DataFrame(
        {
            "expected": [word if words == 1 else None for *_, word, words in counts.itertuples()],
            "n": n["change"],
            "n_cases": counts["n_cases"],
            "n_missing": counts["size"] - counts["n_cases"],
            "n_no_room": (n["change"] - n["seen"]).where(aims, 0),
            "mean_change": mean["change"],
            "change_low": [low for low, _ in changes],
            "change_high": [high for _, high in changes],
            "fell": mean["fell"],
            "rose": mean["rose"],
            **share("moved", "moved"),
            **share("detected", "seen"),
            "n_forbidden": counts["n_forbidden"],
            **share("turned", "turned"),
            "method": "Wilson over answers; t with continuity correction; 95%",
        }
    ).drop(columns=keys, errors="ignore")
    frame = frame.reset_index(drop=not by)
    if "case" not in by or frame.empty:
        return frame
    frame.insert(len(by), "title", [title_of(str(name)) for name in frame["case"]])
    order = {name: place for place, name in enumerate(CHANGES)}
    return frame.sort_values("case", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def is_more_than_noise(row: dict[Hashable, Any], limit: float, tried: int) -> bool:
    """Return whether a change (a row of `summarise_changes`) moves more scores in a forbidden way than noise alone does.
    The chance of a wrong True is 0.05 over all `tried` changes."""
    if not row["n_forbidden"] or limit <= LEAST:  # if scores vary so little, a single forbidden move is enough
        return bool(row["n_forbidden"])
    # Noise alone moves one score in twenty by more than `limit`.
    return pass_rate_interval(row["n_forbidden"] / row["n_cases"] * row["n"], row["n"], 1 - 0.1 / tried)[0] > 0.05
