"""Explore a folder of logs: filter the runs, compare two runs, read the answers to one question, write a report.

The texts of questions and answers are read only from the logs whose answers are displayed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.conditions import conditions_of, differences
from ...base.messages import explained, say
from ...base.missing_scores import frame_spans
from ...base.pass_rule import reaches, row_lines
from ...base.storage import as_path
from ...errors import ConfigError
from ...history.frames import History, load_history
from ...records import EvaluationResult, EvaluationRun
from ...report.effect import RunComparison, compare_runs
from ...runs.load import load_run
from ...stats.basics import in_order, question_means, summarise_scores
from ...stats.comparison import same_answers


@dataclass(frozen=True)
class Filters:
    """Hold the conditions by which runs and their results are selected. None and an empty tuple set no limit."""

    since: date | None = None  # the first day on which a run may have started, in this machine's time zone
    until: date | None = None  # the last day
    judges: tuple[str, ...] = ()  # their names, as requested
    prompts: tuple[str, ...] = ()  # ids of judge prompts
    categories: tuple[str, ...] = ()  # of questions


@dataclass(frozen=True)
class RunPair:
    """Hold the comparison of two runs."""

    first: dict[Any, Any]  # the run's row of the frame from `load_runs`
    second: dict[Any, Any]
    conditions: list[tuple[str, str, str]]  # those that differ: (name, value in the first run, in the second run)
    comparison: RunComparison | None  # None if the runs cannot be compared
    reason: str  # why they cannot be compared, or that they judged other answers; otherwise empty
    means: pd.DataFrame  # one row per run and criterion, from `summarise_scores`
    # One row for each question that at least one of the runs asked: `question_id`; `category`; `first` and `second`,
    # the mean score in each run (0–100, over repeats, NaN if there is none); `same_answer`, whether both runs judged
    # the same stored answer.
    questions: pd.DataFrame

    @property
    def paired(self) -> pd.DataFrame | None:
        """Return the differences from `compare_runs`: one row per criterion, then one about the mean over all of them.
        Return None if the runs did not judge the same stored answers, or cannot be compared."""
        return None if self.comparison is None or self.reason else self.comparison.differences


class Explorer:
    """Read the logs in a folder, so that their runs can be filtered, compared and reported.
    Raises ConfigError if there is no such folder."""

    def __init__(self, logs_dir: Path | str) -> None:
        self.logs_dir = logs_dir
        self._texts: dict[str, EvaluationRun] = {}
        self.reload()

    def reload(self) -> None:
        """Read the logs again. The data of unchanged logs come from the cache in `logs_dir/.history`."""
        self.history = load_history(self.logs_dir)  # without the texts of questions and answers
        self._texts = {}

    @property
    def judges(self) -> list[str]:
        """Return the names of the judges, as requested, in the order in which they first appear in the history."""
        return list(dict.fromkeys(self.history.runs["judge_model"]))

    @property
    def prompts(self) -> list[str]:
        """Return the ids of the judge prompts, in the order in which they first appear in the history."""
        return list(dict.fromkeys(self.history.runs["prompt_id"]))

    @property
    def categories(self) -> list[str]:
        """Return the categories of the judged questions. The four categories of the specification come first."""
        return in_order(self.history.results["category"])

    def select(self, filters: Filters) -> History:
        """Return the history with only what fits the filters. A run without a start time fits no period.
        Raises ConfigError if the period ends before it begins."""
        if filters.since and filters.until and filters.since > filters.until:
            raise ConfigError(
                "the period begins on {since}, after its end on {until}; correct one of them",
                since=filters.since,
                until=filters.until,
            )
        return self.history.select(
            since=filters.since, until=filters.until, judge_model=filters.judges or None,
            prompt_id=filters.prompts or None, category=filters.categories or None,
        )  # fmt: skip

    def answers(self, run_id: str, other: str, question_id: Any) -> tuple[list[EvaluationResult], ...]:
        """Return the results of two runs on one question, with all texts. A run that did not ask it has an empty list.
        Raises ConfigError if a log can no longer be read."""
        logs = [self._log_of(run_id), self._log_of(other)]
        # The texts stay in memory until those of other logs are requested.
        self._texts = {log: self._texts.get(log) or load_run(as_path(self.logs_dir) / log) for log in logs}
        return tuple(
            [result for result in self._texts[log].results if result.question.id == question_id] for log in logs
        )

    def report_path(self, run_id: str, typed: str = "") -> Path:
        """Return the path of a run's report: `typed`, or a file in `reports/` inside the folder of logs if it is empty.
        Raises ConfigError if it does not end in .html or .htm, or if a file that socjudge did not write is there."""
        name = f"{self._log_of(run_id).split('.json')[0]}.html"
        path = Path(typed).expanduser() if typed else self._reports / name
        if path.suffix.lower() not in (".html", ".htm"):
            raise ConfigError("{path}: a report is an HTML file; give it a name that ends in .html", path=path)
        from ...report.page import check_replaceable  # imports charts; matplotlib takes a second to import

        check_replaceable(path)
        return path.absolute()

    def export(self, chosen: History, run_id: str, *, baseline: str | None = None, path: Path) -> Path:
        """Write the report of a run in the selection `chosen`, and return its path.
        Raises the errors of `write_report`, which chooses a baseline run if none is given."""
        from ...report.page import TREND_RUNS, history_report

        order = chosen.runs["run_id"].tolist()
        place = order.index(run_id)
        # For the trend, which shows this run and earlier ones of the selection.
        wanted = order[max(0, place + 1 - TREND_RUNS) : place + 1]
        logs = chosen.runs.loc[chosen.runs["run_id"].isin(wanted), "log"]
        texts = load_history(self.logs_dir, logs=set(logs), text=True)
        texts = texts.select(category=set(chosen.results["category"]))
        scores = chosen.scores.astype({"run_id": object})
        before = scores[scores["run_id"] == baseline] if baseline else None
        if path.parent == self._reports.absolute():
            with explained(
                "{folder}: the folder cannot be made ({reason}); name a file in another one", folder=path.parent
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
        return history_report(path, texts, run_id, before=before)

    def _log_of(self, run_id: str) -> str:
        runs = self.history.runs
        return str(runs.loc[runs["run_id"] == run_id, "log"].iloc[0])

    @property
    def _reports(self) -> Path:
        return as_path(self.logs_dir) / "reports"


def run_table(chosen: History) -> pd.DataFrame:
    """Return one row per run of a selection, the newest first, with the columns of `load_runs` about the whole run.
    The columns that are added, and `n_unscored`, are about the selected questions only."""
    runs = chosen.runs.iloc[::-1].astype({"run_id": object}).drop(columns="n_unscored")
    means = summarise_scores(chosen.scores.astype({"run_id": object}), by="run_id")
    results = chosen.results.astype({"run_id": object})
    # As in the specification, an unparsable reply counts as a score of 0 when questions that passed are counted.
    points = results.assign(points=frame_spans(results)["low"], unread=results["status"] != "ok")
    asked = points.groupby(["run_id", "question_id"], sort=False).agg({"points": "mean", "unread": "sum"}).reset_index()
    lines = dict(zip(runs["run_id"], row_lines(runs), strict=True))
    passed = reaches(asked["points"] - asked["run_id"].map(lines).astype(float), 0)
    counts = asked.assign(passed=passed).groupby("run_id", sort=False)
    # `questions` and `passed` count questions, `n_unscored` counts judged answers.
    totals = counts.agg(questions=("points", "size"), passed=("passed", "sum"), n_unscored=("unread", "sum"))
    # `n` counts questions with a score. Their mean and its interval are from 0 to 100.
    table = runs.merge(means[["run_id", "n", "mean", "ci_low", "ci_high"]], on="run_id", how="left")
    table = table.merge(totals, left_on="run_id", right_index=True, how="left")
    whole = ["n", "questions", "passed", "n_unscored"]
    return table.fillna(dict.fromkeys(whole, 0)).astype(dict.fromkeys(whole, int))  # the log has no result


def pair_runs(chosen: History, first: str, second: str) -> RunPair:
    """Return the comparison of two runs of a selection, which are given by their ids.
    Raises ConfigError if a run is not in the selection, or if both are the same run."""
    rows = {row["run_id"]: row for row in chosen.runs.to_dict("records")}
    if first == second:
        raise ConfigError("the same run is chosen twice; choose another one, or widen the filters")
    if first not in rows or second not in rows:
        raise ConfigError("a chosen run is not among those that the filters leave; widen them, or choose another run")
    told = conditions_of(chosen.runs[chosen.runs["run_id"].isin([first, second])])
    scores = chosen.scores[chosen.scores["run_id"].isin([first, second])].astype({"run_id": object})
    same = same_answers(scores, first, second)
    comparison, reason = None, _why_not_paired(same)
    try:
        comparison = compare_runs(*(scores[scores["run_id"] == run_id] for run_id in (first, second)))
    except ConfigError as error:  # another judge and other answers, other criteria, or no common question
        reason = reason or str(error)
    return RunPair(
        rows[first], rows[second], [each.words() for each in differences(told[first], told[second])], comparison, reason,
        summarise_scores(scores, by=["run_id", "criterion"]), _questions(scores, first, second, same),
    )  # fmt: skip


def _questions(scores: pd.DataFrame, first: str, second: str, same: pd.Series) -> pd.DataFrame:
    means = question_means(scores, ["run_id"]).pivot(index="question_id", columns="run_id", values="score")
    rows = scores.drop_duplicates("question_id").set_index("question_id")[["category"]]
    sides = means.reindex(columns=[first, second]).set_axis(["first", "second"], axis=1)
    return rows.join(sides).assign(same_answer=same.reindex(rows.index, fill_value=False)).reset_index()


def _why_not_paired(same: pd.Series) -> str:
    if same.empty:
        return say("The two runs share no question, so they cannot be compared.")
    different = int((~same).sum())
    return (
        say(
            "For {different} of the {common} common questions the judged answers differ. To compare judges, choose "
            "the baseline run as the answers to judge of RunPanel, and judge the same answers again.",
            common=len(same),
            different=different,
        )
        if different
        else ""
    )
