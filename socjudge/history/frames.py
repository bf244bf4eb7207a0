"""Load logs as tidy frames: one row per run, per judged answer, or per score. docs/frames.md has all columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Literal

import pandas as pd

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..records import SCHEMA_VERSION, EvaluationRun
from ..runs.logs import log_files, newer_text
from .columns import result_frame, run_frame, score_frame
from .reading import LoggedRun, list_logs, moment_of, read_logs, run_rows, without_collection


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Hold the runs, judged answers and scores of the same logs as three frames. Each frame is made on first use."""

    logged: Sequence[LoggedRun]  # each run once, the oldest first
    text: bool = False  # whether the frames have texts
    # logs in none of the frames: they cannot be read, another log of the same run is used, or they have no start time
    n_left_out: int = 0
    n_logs: int = 0  # logs that were looked at

    @cached_property
    def runs(self) -> pd.DataFrame:
        return run_frame(self.logged)

    @cached_property
    def results(self) -> pd.DataFrame:
        with without_collection():
            return result_frame(self.logged, text=self.text)

    @cached_property
    def scores(self) -> pd.DataFrame:
        with without_collection():
            return score_frame(self.logged, text=self.text)


def load_history(logs_dir: Path | str | None = None, *, since: str | date | None = None, text: bool = False) -> History:
    """Load the logs of a folder as three frames. The arguments are those of `load_results`."""
    first = None if since is None else _moment(since)
    files = list_logs(logs_dir or constants.LOGS_DIR)
    found = read_logs(files, text=text)
    used = _in_order(found)
    n_left_out = len(files) - len(used)
    if first is not None:
        started = [(moment_of(run.started_at), run) for run in used]
        n_left_out += sum(moment is None for moment, _ in started)
        used = [run for moment, run in started if moment is not None and moment >= first]
    for run in used:
        if run.schema_version > SCHEMA_VERSION:
            warnings.warn(f"{run.log}: {newer_text(run.schema_version)}", stacklevel=2)
    return History(used, text, n_left_out, len(files))


def load_runs(logs_dir: Path | str | None = None, *, since: str | date | None = None) -> pd.DataFrame:
    """Return one row per run, the oldest first. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir
        A folder with logs that socjudge wrote or that have the specification's form, also packed (.json.gz).
        The project's logs if left out. What was read is kept in memory, so that the next time only changed logs are
        read.
    since
        Keep runs that started at that time or later: "2026-10-01", a date or a datetime. A time without a zone is in
        this machine's zone. For everything else, use `frame.query`.

    Returns
    -------
    DataFrame
        run_id, log, started_at, the models, prompts and hashes, pass rule, verdict, mean score, calls, tokens, cost
        and duration.

    Raises
    ------
    ConfigError
        If there is no such folder, or `since` is not a time.

    Notes
    -----
    Logs that cannot be read are left out, and with `since` those without a start time. Of several logs of the same run,
    only the most complete one is used. A UserWarning gives the number of logs left out, and `check_logs` says what is
    wrong with them. Another UserWarning names each log that a newer version wrote.

    Examples
    --------
    >>> import socjudge as sj
    >>> runs = sj.load_runs("logs", since="2026-01-01")
    >>> runs.query("judge_model == 'offline'")["mode"].unique().tolist()
    ['live']
    """
    return _warned(load_history(logs_dir, since=since), logs_dir).runs


def load_results(
    logs_dir: Path | str | None = None, *, since: str | date | None = None, text: bool = False
) -> pd.DataFrame:
    """Return one row per judged answer, in the order of the runs. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir, since
        As in `load_runs`.
    text
        Whether to load question, answer, context, comment and error too. They are the largest part of a log, and are
        not cached.

    Returns
    -------
    DataFrame
        Columns about the run; question_id, category, answer_repeat, judge_repeat, average_score (missing if the
        judge's reply could not be parsed), passed, status, the three warnings, processing_time (seconds), cost_usd,
        answer_sha256.

    Raises
    ------
    ConfigError
        As in `load_runs`.

    Examples
    --------
    >>> import socjudge as sj
    >>> results = sj.load_results("logs")
    >>> results.query("category == '正常系'")["status"].unique().tolist()
    ['ok']
    """
    return _warned(load_history(logs_dir, since=since, text=text), logs_dir).results


def load_scores(
    logs_dir: Path | str | None = None, *, since: str | date | None = None, text: bool = False
) -> pd.DataFrame:
    """Return one row per judged answer and criterion, in the order of the runs. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir, since
        As in `load_runs`.
    text
        Whether to load the judge's reason for each score (rationale) too.

    Returns
    -------
    DataFrame
        Columns about the run and the answer, as in `load_results`; criterion; score (0–100, missing if the judge gave
        none or its reply could not be parsed).

    Raises
    ------
    ConfigError
        As in `load_runs`.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.load_scores("logs")["criterion"].unique().tolist()
    ['根拠性', '正確性', '網羅性', '安全性', '引用明示', '簡潔性']
    """
    return _warned(load_history(logs_dir, since=since, text=text), logs_dir).scores


def find_logs(logs_dir: Path | str | None = None, *, example: Literal["series", "judges"] = "series") -> Path | str:
    """Return the folder of logs to read. If it has no log, print a message and return the folder of an example.

    Parameters
    ----------
    logs_dir
        A folder; the project's logs if left out.
    example
        "series": runs of one assistant whose settings change. "judges": several LLM judges on the same answers.

    Returns
    -------
    Path or str
        `logs_dir` as you gave it, or the Path of the project's logs or of the example.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.history.find_logs("logs")
    'logs'
    """
    own = logs_dir or constants.LOGS_DIR
    if log_files(own):
        return own
    folder = constants.EXAMPLES_DIR / example
    print(
        say(
            "⚠️ These are examples: {own} holds no log yet, so those that come with the project are shown "
            "({folder}). Once you have run an evaluation, yours are.",
            own=own,
            folder=folder,
        )
    )
    return folder


def run_history(run: EvaluationRun) -> History:
    """Return a history of one run that is in memory: what `load_history(text=True)` would load from the run's log."""
    return History([run_rows(run)], text=True)


def run_wide(run: EvaluationRun) -> pd.DataFrame:
    """Return one row per question of a run, with one column per criterion. `run.wide_frame()` does the same.

    The index is question_id, in the order of the run. The columns are category and question as in the dataset, n
    (judged answers), n_unscored (those without scores: the judgement failed or is unparsable), average_score, and a
    column per criterion. Scores are means over the judged answers with scores, 0–100, and missing if there are none.
    """
    found = run_history(run)
    results, scores = found.results, found.scores
    rows = results.assign(n_unscored=results["status"] != "ok").groupby("question_id", sort=False)
    wide = rows.agg(
        category=("category", "first"), question=("question", "first"), n=("status", "size"),
        n_unscored=("n_unscored", "sum"), average_score=("average_score", "mean"),
    )  # fmt: skip
    means = scores.groupby(["question_id", "criterion"], observed=True)["score"].mean().unstack()
    return wide.join(means.rename(columns=str))


def _in_order(found: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the logs that are used, the oldest first. If two started at once or a log has no time, by name."""
    found = sorted(found, key=lambda run: (moment_of(run.started_at) or datetime.max, run.log))
    # Of several logs of one run, the first of those with the most rows is used, because the others are parts of it.
    used: dict[str, LoggedRun] = {}
    for run in sorted(found, key=lambda run: -len(run.answers)):
        used.setdefault(run.run_id, run)
    return [run for run in found if used[run.run_id] is run]


def _warned(found: History, logs_dir: Path | str | None) -> History:
    if found.n_left_out:
        place = logs_dir or constants.LOGS_DIR
        warnings.warn(
            say(
                "{place}: {count} of {total} logs are left out, because they cannot be read, repeat another one, or "
                "have no start time to compare with since; check_logs({name!r}) says what is wrong with each",
                place=place,
                count=found.n_left_out,
                total=found.n_logs,
                name=str(place),
            ),
            stacklevel=3,
        )
    return found


def _moment(told: str | date) -> datetime:
    """Return in UTC, without zone, the time `since`. A time without a zone is in this machine's."""
    try:
        if isinstance(told, str):
            told = date.fromisoformat(told) if len(told) <= len("2026-10-01") else datetime.fromisoformat(told)
    except ValueError:
        raise ConfigError(
            'since is {told!r}, expected a time such as "2026-10-01" or "2026-10-01 09:00"', told=told
        ) from None
    moment = told if isinstance(told, datetime) else datetime.combine(told, time.min)
    return moment.astimezone(UTC).replace(tzinfo=None)
