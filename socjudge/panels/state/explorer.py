"""Explore a folder of logs: filter the runs, compare two runs, read the answers to one question, write a report.

The tables of runs, results and scores are read once, without the texts of questions and answers. These texts are read
only from the logs whose answers are displayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.conditions import conditions_of, differences
from ...base.messages import explained, say
from ...base.missing_marks import frame_spans
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
    """Hold the conditions by which runs and their results are selected.

    - since, until: the first and the last day on which a run may have started, in this machine's time zone; None for no
      limit.
    - judges, prompts, categories: the names of judges (as requested), the ids of judge prompts, and the categories of
      questions to select; empty for all.
    """

    since: date | None = None
    until: date | None = None
    judges: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPair:
    """Hold the comparison of two runs.

    - first, second: for each run, its row of the frame from `load_runs`.
    - conditions: each condition, such as the judge or the prompt, that differs between the runs, as (name, value in the
      first run, value in the second run).
    - comparison: the result of `compare_runs`; None if the runs cannot be compared.
    - reason: empty if the runs judged the same stored answers and can be compared; otherwise why this is not so.
    - means: one row per run and criterion, from `summarise_scores`.
    - questions: one row for each question that at least one of the runs asked. Columns: `question_id`; `category`;
      `first` and `second`, the mean score in each run (0–100, over repeats, NaN if there is none); `same_answer`,
      whether both runs judged the same stored answer.
    """

    first: dict[Any, Any]
    second: dict[Any, Any]
    conditions: list[tuple[str, str, str]]
    comparison: RunComparison | None
    reason: str
    means: pd.DataFrame
    questions: pd.DataFrame

    @property
    def paired(self) -> pd.DataFrame | None:
        """Return the mean difference between the scores of the two runs, in one row per criterion.

        The scores are paired by question. The last row is about the mean over all criteria. The columns are those of
        `compare_runs`. Return None if the runs did not judge the same stored answers, or cannot be compared.
        """
        return None if self.comparison is None or self.reason else self.comparison.differences


class Explorer:
    """Read the logs in a folder, so that their runs can be filtered, compared and reported.

    history: the runs, results and scores of the logs, without the texts of questions and answers.

    Raises ConfigError if there is no such folder.
    """

    def __init__(self, logs_dir: Path | str) -> None:
        self.logs_dir = logs_dir
        self._texts: dict[str, EvaluationRun] = {}
        self.reload()

    def reload(self) -> None:
        """Read the logs again. The data of unchanged logs come from the cache in `logs_dir/.history`."""
        self.history = load_history(self.logs_dir)
        self._texts = {}

    @property
    def judges(self) -> list[str]:
        """Return the names of the judges, as they were requested.

        They are in the order in which they first appear in the history.
        """
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
        """Return the history with only the runs, results and scores that fit the filters.

        If `since` or `until` is set, a run without a start time is left out. Raises ConfigError if the period ends
        before it begins.
        """
        if filters.since and filters.until and filters.since > filters.until:
            raise ConfigError(
                say(
                    "the period begins on {since}, after its end on {until}; mend one of them",
                    since=filters.since,
                    until=filters.until,
                )
            )
        return self.history.select(
            since=filters.since, until=filters.until, judge_model=filters.judges or None,
            prompt_id=filters.prompts or None, category=filters.categories or None,
        )  # fmt: skip

    def answers(self, run_id: str, other: str, question_id: Any) -> tuple[list[EvaluationResult], ...]:
        """Return the results of two runs on one question, with all texts, as one list per run.

        A list is empty if its run did not ask the question. The texts of these two logs stay in memory until the texts
        of other logs are requested.

        run_id, other: the ids of the two runs.

        Raises ConfigError if a log can no longer be read.
        """
        logs = [self._log_of(run_id), self._log_of(other)]
        self._texts = {log: self._texts.get(log) or load_run(as_path(self.logs_dir) / log) for log in logs}
        return tuple(
            [result for result in self._texts[log].results if result.question.id == question_id] for log in logs
        )

    def report_path(self, run_id: str, typed: str = "") -> Path:
        """Return the path to which the report of a run will be written.

        This is `typed`, if it is not empty. Otherwise it is a file that is named after the run's log, in `reports/`
        inside the folder of logs.

        Raises ConfigError if the path does not end in .html or .htm, or if a file that socjudge did not write is there.
        """
        name = f"{self._log_of(run_id).split('.json')[0]}.html"
        path = Path(typed).expanduser() if typed else self._reports / name
        if path.suffix.lower() not in (".html", ".htm"):
            raise ConfigError(say("{path}: a report is an HTML file; give it a name that ends in .html", path=path))
        from ...report.page import check_replaceable  # imports charts; matplotlib takes a second to import

        check_replaceable(path)
        return path.absolute()

    def export(self, chosen: History, run_id: str, *, baseline: str | None = None, path: Path) -> Path:
        """Write the report of a run, and return its path. The report compares the run with a baseline run.

        The report also shows a trend: the mean scores of this run and of earlier runs. If the path is in the default
        folder of reports, that folder is created.

        - chosen: the selection that `select` returned. The report has only the categories of questions in `chosen`, and
          the trend has only runs in `chosen`.
        - run_id, baseline: the ids of the run and of the baseline run. If `baseline` is None, `write_report` chooses one.
        - path: the path that `report_path` returned.

        Raises the errors of `write_report`.
        """
        from ...report.page import TREND_RUNS, write_report

        order = chosen.runs["run_id"].tolist()
        place = order.index(run_id)
        wanted = {*order[max(0, place + 1 - TREND_RUNS) : place + 1], *([baseline] if baseline else [])}
        logs = chosen.runs.loc[chosen.runs["run_id"].isin(wanted), "log"]
        texts = load_history(self.logs_dir, logs=set(logs), text=True)
        texts = texts.select(category=set(chosen.results["category"]))
        if path.parent == self._reports.absolute():
            with explained(
                "{folder}: the folder cannot be made ({reason}); name a file in another one", folder=path.parent
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
        return write_report(path, texts, run_id=run_id, baseline=baseline)

    def _log_of(self, run_id: str) -> str:
        runs = self.history.runs
        return str(runs.loc[runs["run_id"] == run_id, "log"].iloc[0])

    @property
    def _reports(self) -> Path:
        return as_path(self.logs_dir) / "reports"


def run_table(chosen: History) -> pd.DataFrame:
    """Return one row per run of the selection `chosen` (from `Explorer.select`), the newest first.

    The frame has the columns of `load_runs`, except `n_unscored`, about the whole run. The other columns are about the
    selected questions only:

    - n: number of questions with a score.
    - mean, ci_low, ci_high: the mean score and its interval (0–100, from `summarise_scores`).
    - questions: number of questions that the run asked.
    - passed: number of questions that passed. A reply that could not be parsed counts as a score of 0, as in the
      specification.
    - n_unscored: number of judged answers without usable scores, such as those whose reply could not be parsed.
    """
    runs = chosen.runs.iloc[::-1].astype({"run_id": object}).drop(columns="n_unscored")
    means = summarise_scores(chosen.scores.astype({"run_id": object}), by="run_id")
    results = chosen.results.astype({"run_id": object})
    points = results.assign(points=frame_spans(results)["low"], unread=results["status"] != "ok")
    asked = points.groupby(["run_id", "question_id"], sort=False).agg({"points": "mean", "unread": "sum"}).reset_index()
    lines = dict(zip(runs["run_id"], row_lines(runs), strict=True))
    passed = reaches(asked["points"] - asked["run_id"].map(lines).astype(float), 0)
    counts = asked.assign(passed=passed).groupby("run_id", sort=False)
    totals = counts.agg(questions=("points", "size"), passed=("passed", "sum"), n_unscored=("unread", "sum"))
    table = runs.merge(means[["run_id", "n", "mean", "ci_low", "ci_high"]], on="run_id", how="left")
    table = table.merge(totals, left_on="run_id", right_index=True, how="left")
    whole = ["n", "questions", "passed", "n_unscored"]
    return table.fillna(dict.fromkeys(whole, 0)).astype(dict.fromkeys(whole, int))  # the log has no result


def pair_runs(chosen: History, first: str, second: str) -> RunPair:
    """Return the comparison of two runs of a selection.

    - chosen: the selection, from `Explorer.select`.
    - first, second: the ids of the two runs.

    Raises ConfigError if a run is not in the selection, or if both are the same run.
    """
    rows = {row["run_id"]: row for row in chosen.runs.to_dict("records")}
    if first == second:
        raise ConfigError(say("the same run is chosen twice; choose another one, or widen the filters"))
    if first not in rows or second not in rows:
        raise ConfigError(
            say("a chosen run is not among those that the filters leave; widen them, or choose another run")
        )
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
