"""Summarise what the probes show about a judge: rates with intervals, a matrix of the damages, and lines of words."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..base.messages import listed, say
from ..stats.basics import difference_interval, low_high, need_columns, share_interval
from .cases import criteria_of
from .damages import DAMAGES, Probe
from .neutral import PROBES
from .noise import LEAST, changes_of, repeat_changes

AGAIN = "same_again"  # a repeated judgement of an unchanged answer, listed with the neutral changes
OWN = "own_damage "  # followed by the criterion that must fall, for an answer that somebody broke by hand
_TITLES = {**{name: probe.title for name, probe in PROBES.items()}, AGAIN: "the same call again"}
_COLUMNS = [
    "question_id", "probe", "variant", "criterion", "expected", "before", "n_before", "after", "change", "limit", "moved",
    "status", "note",
]  # fmt: skip
_FORBIDDEN = {
    "falls": {"rose"},
    "may_fall": {"rose"},
    "may_rise": {"fell"},
    "stays": {"fell", "rose"},
    "may_move": set(),
}
_NEEDED = ["question_id", "probe", "variant", "criterion", "expected", "before", "change", "limit", "moved", "status"]
_NO_ANSWERS = pd.DataFrame({"change": [], "fell": [], "rose": []}, dtype=float)
SEEN, BLIND = 0.8, 0.5  # shares; a damage counts as seen from the first on, and as not seen up to the second


def probe_title(name: str) -> str:
    """Return the title of a probe in the language of the messages."""
    return say("an answer of your own that you broke" if name.startswith(OWN) else _TITLES[name])


def expected_of(name: str, criterion: str) -> str:
    """Return what the score of a criterion must do in a case with this name, in the words of `Probe.expected`."""
    if name.startswith(OWN):
        # People named the criterion that must fall. Nothing is expected of the others.
        return "falls" if name == OWN + criterion else "may_move"
    probe: Probe | None = PROBES.get(name)
    return probe.expected(criterion) if probe else "stays"


_UNKNOWN = {
    "unparsable": "the judge's reply could not be read",
    "failed": "the judge gave no reply",
    "not_judged": "not judged, because the budget was used up",
}


def probe_changes(scores: pd.DataFrame, left_out: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Build the findings of `Probes` from the scores, as in `Judged`, and from `Plan.left_out`."""
    criteria = criteria_of(scores)
    rest = pd.DataFrame([{**row, "variant": 0, "criterion": c} for row in left_out for c in criteria])
    again = repeat_changes(scores)
    again = again.assign(case=AGAIN, variant=again["variant"] - 1)
    frame = pd.concat([changes_of(scores), again, rest], ignore_index=True).rename(columns={"case": "probe"})
    told = {status: say(key) for status, key in _UNKNOWN.items()}
    return frame.assign(
        expected=[expected_of(*pair) for pair in zip(frame["probe"], frame["criterion"], strict=True)],
        note=frame.get("note", pd.Series(None, frame.index, dtype=object)).fillna(frame["status"].map(told)).fillna(""),
    )[_COLUMNS]


def summarise_probes(changes: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Summarise what each probe did to each criterion.

    `changes` are the findings of `Probes`, `level` is the confidence level of the intervals.

    Returns
    -------
    DataFrame
        One row per probe and criterion.

        - probe, title, criterion, expected
        - n: answers with a score before and after the change
        - n_cases: changed answers with both scores; more than n if an answer was changed in several places, each by
          itself
        - n_no_room: how many of the n answers have a score before the change that is too low to show a fall (0 unless
          the criterion must fall)
        - n_missing: changed answers without a score (unparsable, failed or not judged)
        - n_not_applicable: answers to which the probe cannot be applied; n_not_chosen: answers for which it was not
          chosen
        - mean_change, change_low, change_high: mean change over answers and its interval, points
        - fell, rose: share of answers whose score fell, and share whose score rose, by more than the judge's own noise
        - detected, detected_low, detected_high: share that fell among the n − n_no_room answers whose score could fall,
          and its interval; missing unless the criterion must fall
        - n_forbidden: changed answers whose score moved in a way that `expected` forbids
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
    >>> probing = sj.certify.Probes().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sj.certify.summarise_probes(probing.findings)["criterion"].nunique()
    6
    """
    need_columns(changes, _NEEDED, "summarise_probes", "Probes")
    keys = ["probe", "criterion"]
    known = changes[changes["moved"].notna()]
    answers = _per_answer(known, keys)
    roomy = _per_answer(known[known["before"] >= known["limit"]], keys)
    rows = []
    for (probe, criterion), group in changes.groupby(keys, sort=False):
        expected, moved, status = group["expected"].iloc[0], group["moved"], group["status"]
        mine, with_room = answers.get((probe, criterion), _NO_ANSWERS), roomy.get((probe, criterion), _NO_ANSWERS)
        mean, fell, rose = mine.mean()
        detected = (with_room["fell"].mean(), len(with_room)) if expected == "falls" else (math.nan, 0)
        rows.append(
            {
                "probe": probe,
                "title": probe_title(str(probe)),
                "criterion": criterion,
                "expected": expected,
                "n": len(mine),
                "n_cases": int(moved.notna().sum()),
                "n_no_room": len(mine) - len(with_room) if expected == "falls" else 0,
                "n_missing": int(status.isin(["unparsable", "failed", "not_judged"]).sum()),
                "n_not_applicable": int((status == "not_applicable").sum()),
                "n_not_chosen": int((status == "not_chosen").sum()),
                "mean_change": mean,
                **low_high("change", difference_interval(mine["change"], level=level)),
                "fell": fell,
                "rose": rose,
                "detected": detected[0],
                **low_high("detected", share_interval(*detected, level=level)),
                "n_forbidden": int(moved.isin(_FORBIDDEN[expected]).sum()),
                "method": f"Wilson over answers; t with continuity correction; {level:.0%}",
            }
        )
    order = {name: place for place, name in enumerate([*PROBES, AGAIN])}
    frame = pd.DataFrame(rows)
    return frame.sort_values("probe", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def probe_matrix(changes: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compare two falls per kind of damage: of the criterion whose score must fall, and of those that must stay.

    `changes` are the findings of `Probes`, `level` is the confidence level of the intervals. There is one row per
    damage.

    Returns
    -------
    DataFrame
        - probe, title, criterion (the one that must fall), n (answers)
        - target_drop, target_low, target_high: mean fall of this criterion and its interval, points (positive if it
          fell)
        - off_target_drop, off_target_low, off_target_high: mean fall over the criteria that must stay, and its
          interval, points
        - detected, detected_low, detected_high: as in `summarise_probes`
        - n_forbidden: as in `summarise_probes`, the sum over all criteria

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> probing = sj.certify.Probes().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> list(sj.certify.probe_matrix(probing.findings)["probe"][:2])
    ['citations_dropped', 'citations_nowhere']
    """
    summary = summarise_probes(changes, level=level)
    elsewhere = _per_answer(changes[changes["moved"].notna() & (changes["expected"] == "stays")], ["probe"])
    rows = []
    for probe in DAMAGES:
        told = summary[summary["probe"] == probe.name]
        for criterion in probe.falls:
            target = told[told["criterion"] == criterion]
            if target.empty:
                continue
            off = 0 - elsewhere.get((probe.name,), _NO_ANSWERS)["change"]
            (row,) = target.to_dict("records")
            rows.append(
                {
                    "probe": probe.name,
                    "title": row["title"],
                    "criterion": criterion,
                    "n": row["n"],
                    "target_drop": 0 - row["mean_change"],
                    **low_high("target", (-row["change_high"], -row["change_low"])),
                    "off_target_drop": off.mean(),
                    **low_high("off_target", difference_interval(off, level=level)),
                    **{name: row[name] for name in ("detected", "detected_low", "detected_high")},
                    "n_forbidden": int(told["n_forbidden"].sum()),
                }
            )
    return pd.DataFrame(rows)


def explain_probes(changes: pd.DataFrame) -> dict[str, str]:
    """Return in words what the findings of `Probes` show about each criterion, as {criterion: some lines}.

    The lines are in the language of the messages. If nothing is known about a criterion, they say so.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> probing = sj.certify.Probes().run([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> list(sj.certify.explain_probes(probing.findings))
    ['根拠性', '正確性', '網羅性', '安全性', '引用明示', '簡潔性']
    """
    summary = summarise_probes(changes)
    limits = changes.groupby("criterion")["limit"].first()
    return {
        name: "\n".join(_sentences(summary[summary["criterion"] == name], name, float(limits.get(name, math.nan))))
        for name in criteria_of(changes)
    }


def _sentences(mine: pd.DataFrame, criterion: str, limit: float) -> list[str]:
    aimed = mine[mine["expected"] == "falls"]
    tried = aimed[aimed["detected"].notna()]
    if tried.empty or math.isnan(limit):
        return [say("{criterion}: unknown (nothing could be tried).", criterion=criterion)]
    lines = [
        say(
            "{criterion}: beyond the noise of the same call, a move of {limit:.0f} points or more counts.",
            criterion=criterion,
            limit=limit,
        )
    ]
    for key, rows in (
        ("- seen: {probes}", tried[tried["detected"] >= SEEN]),
        ("- sometimes seen: {probes}", tried[(tried["detected"] > BLIND) & (tried["detected"] < SEEN)]),
        ("- not seen: {probes}", tried[tried["detected"] <= BLIND]),
    ):
        if len(rows):
            lines.append(say(key, probes=listed(map(_with_rate, rows.to_dict("records")))))
    untried = aimed[aimed["detected"].isna()]["title"]
    if len(untried):
        lines.append(say("- not tried: {probes}", probes=listed(untried)))
    missing = int(mine["n_missing"].sum())
    if missing:
        lines.append(say("- {count} judgements are missing and count for nothing.", count=missing))
    wrong = mine[[is_more_than_noise(row, limit, len(mine)) for row in mine.to_dict("records")]]
    if len(wrong):
        named = listed(f"{row['title']} {row['n_forbidden']}/{row['n_cases']}" for row in wrong.to_dict("records"))
        lines.append(say("- {criterion} moved where it must not: {probes}", criterion=criterion, probes=named))
    else:
        lines.append(say("- {criterion} never moved where it must not.", criterion=criterion))
    return lines


def is_more_than_noise(row: dict[Hashable, Any], limit: float, tried: int) -> bool:
    """Return whether a probe (a row of `summarise_probes`) moves more scores in a forbidden way than noise alone does.
    The chance of a wrong True is 0.05 over all `tried` probes."""
    if not row["n_forbidden"] or limit <= LEAST:  # if scores vary so little, a single forbidden move is enough
        return bool(row["n_forbidden"])
    # Noise alone moves one score in twenty by more than `limit`.
    return share_interval(row["n_forbidden"] / row["n_cases"], row["n"], level=1 - 0.1 / tried)[0] > 0.05


def _with_rate(row: dict[Hashable, Any]) -> str:
    rate, low, high = (row[name] for name in ("detected", "detected_low", "detected_high"))
    return say(
        "{title} ({rate:.0%} of {n}, 95% interval {low:.0%} to {high:.0%})",
        title=row["title"],
        rate=rate,
        low=low,
        high=high,
        n=row["n"] - row["n_no_room"],
    )


def _per_answer(known: pd.DataFrame, keys: list[str]) -> dict[Hashable, pd.DataFrame]:
    """Average the cases of one answer, because they are no independent evidence."""
    moves = known.assign(fell=known["moved"] == "fell", rose=known["moved"] == "rose")
    means = moves.groupby([*keys, "question_id"], sort=False)[list(_NO_ANSWERS)].mean()
    return dict(iter(means.groupby(level=keys, sort=False)))
