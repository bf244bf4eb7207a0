"""Collect the contents of a report from its run: the answers, the means, the earlier runs and the run beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from ..base.messages import say
from ..base.pass_rule import Outcome, reaches, run_rule, tally
from ..base.showing import FLAGS
from ..base.texts import local_time
from ..base.verdict import Verdict, answer_verdict
from ..charts.runs import plot_criterion_trend, plot_question_strip
from ..charts.scores import plot_category_breakdown, plot_score_distribution
from ..charts.style import chart_url
from ..errors import ConfigError
from ..records import EvaluationResult, EvaluationRun, RunSummary
from ..stats.basics import FEWEST, OVERALL, summarise_scores
from .effect import compare_runs

MOST_ROWS = 100  # rows of a chart with one row per question
OUTCOMES: tuple[Outcome, ...] = ("failed", "unscored", "open", "passed")  # the outcomes in the order of the page
_ALIKE = ["judge_model", "prompt_id", "prompt_sha256", "assistant_model", "dataset_sha256"]


class Row(NamedTuple):
    result: EvaluationResult
    verdict: Verdict
    scores: Mapping[str, float | None]  # of every criterion of the run; None if it is missing
    mean: float | None  # of the scores that are there; None if there is none
    weakest: str  # the criterion with the lowest score, if the answer failed and the score is below the pass line
    flags: list[str]


def counted(run: EvaluationRun) -> tuple[EvaluationRun, RunSummary]:
    """Return the run with the summary that follows from its answers, because that of a log may have been edited, and
    the summary that it would have if every missing score were 100."""
    rows = ((result.question.id, result.evaluation) for result in run.results)
    summary, best = tally(rows, run_rule(run.run))
    best = best.counted(len(run.results), run.summary.asked)
    return replace(run, summary=replace(summary, is_contradictory=run.summary.is_contradictory)), best


def rows_of(run: EvaluationRun) -> list[Row]:
    """Return the rows of the report's table of questions, one per judged answer, in the order of OUTCOMES."""
    line = run_rule(run.run).line
    criteria = list(dict.fromkeys(name for result in run.results for name in result.evaluation.scores))
    rows = []
    for result in run.results:
        evaluation, verdict = result.evaluation, answer_verdict(result.evaluation, line)
        is_read = evaluation.status == "ok"
        scores = {name: evaluation.scores.get(name) if is_read else None for name in criteria}
        known = {name: score for name, score in scores.items() if score is not None}
        low = {name: score for name, score in known.items() if not reaches(score, line)}
        weakest = min(low, key=low.__getitem__) if low and verdict.outcome == "failed" else ""
        if run.summary.is_contradictory:
            verdict = verdict._replace(outcome="open")
        flags = [say(words) for name, words in FLAGS.items() if getattr(result.answer.flags, name)]
        rows.append(Row(result, verdict, scores, evaluation.average_score if known else None, weakest, flags))
    return sorted(rows, key=lambda row: OUTCOMES.index(row.verdict.outcome))


def means_of(scores: pd.DataFrame, by_criterion: pd.DataFrame) -> pd.DataFrame:
    """Return the table of means as texts, with each mean's interval: lowest and highest if there are too few questions."""
    found = pd.concat([by_criterion, summarise_scores(scores, by=()).assign(criterion=OVERALL)])
    is_enough = found["n"] >= FEWEST
    low, high = (
        found[interval].where(is_enough, found[extreme]).map(points)
        for interval, extreme in (("ci_low", "lowest"), ("ci_high", "highest"))
    )
    ranges = (low + " – " + high).where(low != "–", "–")
    columns = {
        say("Criterion"): found["criterion"],
        say("Mean"): found["mean"].map(points),
        say("95 % interval") if is_enough.all() else say("Lowest to highest"): ranges,
        say("Questions"): found["n"],
        say("Scores missing"): found["n_missing"],
    }
    return pd.DataFrame({head: list(map(str, values)) for head, values in columns.items()})


def points(value: Any, shape: str = ".1f") -> str:
    return "–" if pd.isna(value) else f"{value:{shape}}"


def shown_time(moment: Any) -> str:
    """Return a time (a Timestamp, or the text of a log) as all views show it."""
    started = pd.to_datetime(moment, errors="coerce")
    return say("unknown") if pd.isna(started) else local_time(started.to_pydatetime())


# -- other runs


def previous_log(scores: pd.DataFrame, run_id: str) -> str:
    """Return the log of the latest earlier run with the same judge, prompt, assistant and dataset, and a question in
    common. Return "" if there is none. The rows are in the order of the runs, and none is later than this run."""
    runs = scores.drop_duplicates("run_id").astype(dict.fromkeys(_ALIKE, object)).set_index("run_id")
    questions = scores.groupby("run_id")["question_id"].agg(set)
    alike = runs[(runs[_ALIKE] == runs.loc[run_id, _ALIKE]).all(axis=1)].drop(index=run_id)
    return next((str(alike.at[name, "log"]) for name in alike.index[::-1] if questions[name] & questions[run_id]), "")


def compared(before: EvaluationRun, run: EvaluationRun) -> dict[str, Any]:
    """Compare a run with an earlier one. If `compare_runs` cannot compare the two, only the reason is shown."""
    try:
        effect = compare_runs(before, run)
    except ConfigError as error:  # another judging and other answers, or no common question
        return {"before": before, "lines": [str(error)], "table": None, "is_tested": False}
    return {"before": before, "lines": effect.lines, "table": effect.table, "is_tested": True}


def trend_of(scores: pd.DataFrame, most: int) -> dict[str, str]:
    """Return {caption: chart} of the latest runs of a history; nothing for a single run, or if nothing was scored."""
    dated = scores.dropna(subset=["started_at"])
    latest = dated["run_id"].drop_duplicates().tail(most)
    dated = dated[dated["run_id"].isin(latest)]
    if len(latest) < 2 or dated["score"].isna().all():
        return {}
    charts = {say("{count} runs over time, by criterion", count=len(latest)): chart_url(plot_criterion_trend, dated)}
    if dated["question_id"].nunique() <= MOST_ROWS:
        charts[say("{count} runs over time, by question", count=len(latest))] = chart_url(plot_question_strip, dated)
    return charts


def run_charts(scores: pd.DataFrame) -> dict[str, str]:
    """Return {caption: chart} of a run; nothing if nothing was scored."""
    if scores["score"].isna().all():
        return {}
    words = "Scores per criterion (a score per answer, boxes for the quartiles, a dashed pass line)"
    return {
        say(words): chart_url(plot_score_distribution, scores),
        say("Means per category and criterion (n answers)"): chart_url(plot_category_breakdown, scores),
    }
