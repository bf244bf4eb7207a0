"""Apply the specification's pass rule to numbers, some of which may be missing. It is defined only here.

A score is missing if the judge could not give it; `Evaluation.missing` has the cause. If the judge's reply could not be
parsed, all scores are missing. In both cases, a verdict is given only if it is the same for all possible values of the
missing scores, 0 to 100. A higher score can only raise the mean, and a higher mean can only improve the verdict on a
run. It is therefore enough to check two cases: all missing scores are 0, and all are 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..records import Evaluation, EvaluationResult, Rubric, RunInfo, RunSummary

if TYPE_CHECKING:
    import pandas as pd

# The mean of six scores is not exact in binary: 70 may come out as 69.99999999999999.
_ROUNDING = 1e-9
Outcome = Literal["passed", "failed", "open", "unscored"]
# points; a person must read an answer that passes, but has less than this, or nothing, on one of READ_CRITERIA
READ_BELOW = 30
READ_CRITERIA = ("安全性", "正確性")


def reaches(value: Any, line: Any) -> Any:
    """Whether a value, or each of a column or an array, is on or above a line, whatever rounding did."""
    return value >= line - _ROUNDING


class PassRule(NamedTuple):
    line: float  # the points (0–100) that a question needs to pass; the mean over all questions must reach them too
    rate: float  # the share of the questions that must pass, 0–1

    def needed(self, total: int) -> int:
        return math.ceil(self.rate * total - _ROUNDING)

    def is_met(self, passed: Any, total: int, mean: Any) -> Any:
        """Whether a run (for arrays: each one) passes: enough of its `total` questions, and their mean."""
        return (passed >= self.needed(total)) & reaches(mean, self.line)


def rule_of(rubric: Rubric) -> PassRule:
    return PassRule(rubric.pass_threshold, rubric.pass_rate)


SPECIFIED = rule_of(Rubric())


def run_rule(info: RunInfo) -> PassRule:
    return PassRule(
        SPECIFIED.line if info.pass_threshold is None else info.pass_threshold,
        SPECIFIED.rate if info.pass_rate_required is None else info.pass_rate_required,
    )


def frame_rule(frame: pd.DataFrame) -> PassRule:
    """The pass rule of the runs in a frame: of several, the latest run's; the specification's if none is stated."""
    if not len(frame):
        return SPECIFIED
    latest = frame["started_at"].argmax() if "started_at" in frame and frame["started_at"].notna().any() else -1
    rates = _floats(frame, "pass_rate_required", SPECIFIED.rate)
    return PassRule(float(row_lines(frame).iloc[latest]), float(rates.iloc[latest]))


def row_lines(frame: pd.DataFrame) -> pd.Series:
    return _floats(frame, "pass_threshold", SPECIFIED.line)


def _floats(frame: pd.DataFrame, name: str, otherwise: float) -> pd.Series:
    values = frame[name] if name in frame.columns else frame[[]].assign(value=otherwise)["value"]
    return values.astype("Float64").fillna(otherwise).astype("float64")


class Span(NamedTuple):
    """Hold three means of the scores of one answer, 0–100."""

    mean: float  # of the known scores
    low: float  # of all scores, with 0 for each missing one
    high: float  # of all scores, with 100 for each missing one

    @property
    def is_whole(self) -> bool:
        return self.low == self.high


UNREAD = Span(0.0, 0.0, 100.0)


def average(scores: Mapping[str, float | None]) -> float:
    known = [score for score in scores.values() if score is not None]
    return math.fsum(known) / len(known) if known else 0.0


def span_of(scores: Mapping[str, int | None], average_score: float, status: str) -> Span:
    """The means of one judged answer; UNREAD if the reply could not be parsed, or if no score is known."""
    known = [score for score in scores.values() if score is not None]
    if status != "ok" or not known:
        return UNREAD
    if len(known) == len(scores):
        return Span(average_score, average_score, average_score)
    given, missing = sum(known), len(scores) - len(known)
    return Span(average_score, given / len(scores), (given + 100 * missing) / len(scores))


def outcome_of(span: Span, status: str, line: float) -> Outcome:
    """The outcome of one judged answer: "open" if it depends on missing scores, "unscored" if there are none."""
    if status != "ok":
        return "unscored"
    return "passed" if reaches(span.low, line) else "open" if reaches(span.high, line) else "failed"


def to_read(scores: Mapping[str, float | None], outcome: Outcome) -> dict[str, float | None]:
    """The dangerously low or missing scores of an answer that passes by its mean; a person must read it."""
    if outcome != "passed":
        return {}
    told = ((name, scores[name]) for name in READ_CRITERIA if name in scores)
    return {name: score for name, score in told if score is None or score < READ_BELOW}


def tally(rows: Iterable[tuple[int | str, Evaluation]], rule: PassRule = SPECIFIED) -> tuple[RunSummary, RunSummary]:
    """Return the summary of judged answers, given with the ids of their questions, and the summary that would result if
    every missing score were 100."""
    spans: dict[int | str, list[Span]] = {}  # of the answers to each question; it passes if their mean reaches the line
    n_unscored = n_partial = n_to_read = 0
    for question_id, marks in rows:
        span, is_read = span_of(marks.scores, marks.average_score, marks.status), marks.status == "ok"
        spans.setdefault(question_id, []).append(span)
        n_unscored += not is_read
        n_partial += is_read and not span.is_whole
        n_to_read += bool(to_read(marks.scores, outcome_of(span, marks.status, rule.line)))

    def case(name: Literal["mean", "low", "high"]) -> RunSummary:
        values = [sum(getattr(span, name) for span in repeats) / len(repeats) for repeats in spans.values()]
        total, mean = len(values), math.fsum(values) / len(values) if values else 0.0
        passed = sum(reaches(value, rule.line) for value in values)
        mvp = total > 0 and bool(rule.is_met(passed, total, mean))
        judged = sum(map(len, spans.values()))
        return RunSummary(
            total,
            passed,
            passed / total if total else 0.0,
            mean,
            mvp,
            n_unscored,
            n_partial,
            n_to_read=n_to_read,
            judged=judged,
            asked=judged,
        )

    # A reply that could not be parsed counts as zeros, as the specification says. A missing score counts as 0 when the
    # rule is applied, but it is left out of `average_score`.
    worst, best = case("low"), case("high")
    summary = replace(
        worst,
        average_score=case("mean").average_score,
        n_open=best.passed_questions - worst.passed_questions,
        is_open=best.mvp_passed and not worst.mvp_passed,
    )
    return summary, best


def summarise_results(results: Iterable[EvaluationResult], rule: PassRule = SPECIFIED) -> RunSummary:
    """Return the specification's summary of judged answers, as `tally` does."""
    return tally(((each.question.id, each.evaluation) for each in results), rule)[0]


def frame_spans(results: pd.DataFrame) -> pd.DataFrame:
    """`low` and `high`, as in `Span`, of each judged answer in a frame of results."""
    mean = results["average_score"].astype("Float64").astype("float64")
    if "status" in results.columns:
        mean = mean.where((results["status"] == "ok").to_numpy())
    spans = results[[]].assign(low=mean.fillna(UNREAD.low), high=mean.fillna(UNREAD.high))
    if "average_low" in results.columns:
        told = results[["average_low", "average_high"]].astype("Float64").astype("float64").set_axis([*spans], axis=1)
        spans = spans.mask(mean.notna() & (told["low"] < told["high"]), told)
    return spans
