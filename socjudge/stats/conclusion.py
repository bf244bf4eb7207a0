"""Say in words how far two judges, prompts or runs are apart: what happened, which criterion moved most, how sure it is.

The comparison of judges, the comparison of runs, the panels, the report and the command line take their sentences from
here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.messages import say, sentences
from .basics import FEWEST, holm_adjust

LEVEL = 0.95  # level of the intervals; 1 - LEVEL is the level of the tests
_SCATTER = 5.0  # points; a scatter of the single questions from here on is said


def conclusion(rows: Sequence[Mapping[str, Any]], first: str, second: str, *, same_answers: bool) -> str:
    """Say what a comparison of two groups found, from its rows in `compare_judges`, of which the last is 総合.
    The mean over all criteria is the planned question, so its p-value is not adjusted."""
    *criteria, row = rows
    if not row["n"]:
        none = "No question has scores of both in every criterion, so the means over all criteria cannot be compared."
        return sentences(say(none), *_most_moved(criteria))
    was, now = row["_passed"]
    passes = say(
        "{was} questions pass, as before" if was == now else "{was} passed questions become {now}", was=was, now=now
    )
    if not row["n_missing"] and all(each["lowest"] == each["highest"] == 0 for each in rows):
        return say("All {n} questions have the same scores in every criterion; {passes}.", n=row["n"], passes=passes)
    moved = row["mean_difference"]
    if not same_answers:
        happened = "The mean goes from {before:.1f} to {after:.1f} points ({difference:+.1f}); {passes}."
    elif round(abs(moved), 1) == 0:
        happened = "Compared with {first}, {second} gives the same answers the same points on average; {passes}."
    elif moved > 0:
        happened = "Compared with {first}, {second} scores the same answers {points:.1f} points higher; {passes}."
    else:
        happened = "Compared with {first}, {second} scores the same answers {points:.1f} points lower; {passes}."
    told = [
        say(
            happened,
            first=first,
            second=second,
            before=row["baseline_mean"],
            after=row["mean"],
            difference=moved,
            points=abs(moved),
            passes=passes,
        ),
        *_most_moved(criteria),
        *how_sure(row, row["p_value"], row["_visible"]),
    ]
    scatters = [each["_sd"] for each in criteria if each["n"] > 2]
    scatter = math.hypot(*scatters) / math.sqrt(len(scatters)) if scatters else 0.0
    if same_answers and scatter >= _SCATTER:
        told.append(
            say(
                "The scores of single questions scatter by ±{points:.0f} points; socjudge certify shows how far a "
                "judge's own scores move.",
                points=scatter,
            )
        )
    return sentences(*told)


def _most_moved(criteria: Sequence[Mapping[str, Any]]) -> list[str]:
    adjusted = holm_adjust([row["p_value"] for row in criteria])
    known = [(row, p) for row, p in zip(criteria, adjusted, strict=True) if row["n"]]
    moves = {round(abs(row["mean_difference"]), 1) for row, _ in known}
    if len(moves) < 2:  # a single criterion, or all moved alike
        return []
    row, p = max(known, key=lambda each: abs(each[0]["mean_difference"]))
    return [
        say(
            "{criterion} moved most ({difference:+.1f} points, p={p:.3f} adjusted for the number of criteria).",
            criterion=row["criterion"],
            difference=row["mean_difference"],
            p=p,
        )
    ]


def is_shown(row: Mapping[Any, Any], p: float) -> bool:
    """Return whether both the test and the interval show a difference. In close cases the two can disagree."""
    return bool(p < 1 - LEVEL and (_leaves_zero_out(row) or not math.isfinite(row["ci_low"])))


def how_sure(row: Mapping[Any, Any], p: float, visible: float) -> list[str]:
    """Say whether a difference is more than chance explains, and if not, what these questions could have shown."""
    n = row["n"]
    values = {"n": n, "p": p, "lowest": row["lowest"], "highest": row["highest"]}
    if math.isfinite(row["ci_low"]):
        measured = say(
            "95 % interval {low:+.1f} to {high:+.1f}, p={p:.3f}, {n} questions",
            low=row["ci_low"],
            high=row["ci_high"],
            **values,
        )
    elif n < FEWEST:
        measured = say(
            "p={p:.3f}, {n} questions with differences of {lowest:+.1f} to {highest:+.1f}, too few for an interval",
            **values,
        )
    else:
        measured = say("p={p:.3f}, the same on all {n} questions, so that there is no interval", **values)
    if is_shown(row, p):
        return [say("This is more than chance explains ({measured}).", measured=measured)]
    told = [say("This may be chance ({measured}).", measured=measured)]
    if math.isfinite(visible):
        told.append(say("{n} questions cannot show a difference below ±{points:.1f} points.", n=n, points=visible))
    elif row["lowest"] != row["highest"] or n == 1:
        told.append(say("{n} questions are too few to tell a difference from chance.", n=n))
    if p < 1 - LEVEL or _leaves_zero_out(row):
        told.append(
            say(
                "The test, adjusted where several criteria are compared, and the 95 % interval disagree, so it is not "
                "called a difference."
            )
        )
    return told


def _leaves_zero_out(row: Mapping[Any, Any]) -> bool:
    return bool(row["ci_low"] > 0 or row["ci_high"] < 0)


def criterion_conclusion(row: Mapping[Any, Any]) -> str:
    """Say what a comparison found in one criterion; its p-value is adjusted."""
    if not row["n"]:
        return say("No question has scores of both.")
    told = say("{difference:+.1f} points.", difference=row["mean_difference"])
    return sentences(told, *how_sure(row, row["p_holm"], row["detectable_difference"]))
