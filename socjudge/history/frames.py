"""Load logs as tidy frames: one row per run, per judged answer, or per score. docs/frames.md has all columns."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..records import SCHEMA_VERSION, EvaluationRun
from ..runs.logs import newer_text, time_in_name
from .cache import list_logs, load_tables
from .columns import Positions, result_frame, run_frame, score_frame, taken
from .schema import LogFile, Tables
from .tables import read_logs, run_tables, without_collection


@dataclass(frozen=True, eq=False)
class History:
    """Hold the runs, judged answers and scores of the same logs as three frames. Each frame is made on first use."""

    # `tables.runs`: each run once, oldest first. `tables.results`: the answers of these runs, and perhaps of others.
    tables: Tables = field(repr=False)
    # logs in none of the frames: they cannot be read, another log of the same run is used, or they have no start time
    n_left_out: int = 0
    n_logs: int = 0  # logs that were looked at

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Return one row per run, as `load_runs` would."""
        return run_frame(self.tables.runs)

    @cached_property
    def results(self) -> pd.DataFrame:
        """Return one row per judged answer, as `load_results` would."""
        with without_collection():
            return result_frame(self.tables)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Return one row per answer and criterion, as `load_scores` would."""
        with without_collection():
            return score_frame(self.tables)

    def select(
        self,
        *,
        since: str | date | None = None,
        until: str | date | None = None,
        judge_model: str | Collection[str] | None = None,
        prompt_id: str | Collection[str] | None = None,
        category: str | Collection[str] | None = None,
    ) -> History:
        """Return the part of this history that passes the filters, which have the same meaning as in `load_history`."""
        runs, results, n_left_out = self.tables.runs, self.tables.results, self.n_left_out
        if since is not None or until is not None:
            n_left_out += runs["started_at"].null_count  # nobody knows when they started
        if since is not None:
            runs = runs.filter(pc.greater_equal(runs["started_at"], _moment(since, "since")))
        if until is not None:
            runs = runs.filter(pc.less_equal(runs["started_at"], _moment(until, "until", time.max)))
        for name, wanted in (("judge_model", judge_model), ("prompt_id", prompt_id)):
            if wanted is not None:
                runs = _among(runs, name, wanted)
        if category is not None:
            results = _among(results, "category", category)
            runs = _among(runs, "log", results["log"].unique().to_pylist())
        is_all = runs is self.tables.runs and results is self.tables.results
        return self if is_all else replace(self, tables=Tables(runs, results), n_left_out=n_left_out)


def load_history(
    logs_dir: Path | str | None = None,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    judge_model: str | Collection[str] | None = None,
    prompt_id: str | Collection[str] | None = None,
    category: str | Collection[str] | None = None,
    logs: Collection[str] | None = None,
    text: bool = False,
    cache: bool = True,
) -> History:
    """Load the logs of a folder as three frames: runs, judged answers and scores. The logs are read once for all three.

    Parameters
    ----------
    logs_dir, since, until, judge_model, prompt_id, cache
        As in `load_runs`.
    category
        Keep answers to questions of this category or these categories, and the runs that have such answers.
    logs
        File names of logs in the folder; all logs if left out.
    text
        Whether to load the texts too, such as question and answer. They are the largest part of a log, and are not
        cached.

    Returns
    -------
    History
        - runs, results, scores: the three frames, each made on first use
        - n_left_out: number of logs that are left out, because they cannot be read, because another log of the same
          run is used, or because `since` or `until` is given and they have no start time; `check_logs` says what is
          wrong with them
        - select(…): the part of the history that passes further filters; the logs are not read again

    Raises
    ------
    ConfigError
        If there is no such folder, or `since` or `until` is not a time.

    Examples
    --------
    >>> import socjudge as sj
    >>> history = sj.history.load_history("logs")
    >>> history.runs["run_id"].nunique() == len(history.runs)
    True
    """
    place = logs_dir or constants.LOGS_DIR
    first = None if since is None else _moment(since, "since")
    last = None if until is None else _moment(until, "until", time.max)
    files = [
        file for file in list_logs(place) if (logs is None or file.name in logs) and _may_be_between(file, first, last)
    ]
    with without_collection():
        tables = load_tables(place, files, cache=cache)
        order = _in_order(tables.runs)
        left_out = len(tables.runs) - len(order)
        tables = Tables(taken(tables.runs, order), tables.results)
        names: dict[str, Any] = {"judge_model": judge_model, "prompt_id": prompt_id, "category": category}
        found = History(tables, left_out, len(files)).select(since=since, until=until, **names)
        newer = found.tables.runs.filter(pc.greater(found.tables.runs["schema_version"], SCHEMA_VERSION))
        for log, version in zip(newer["log"].to_pylist(), newer["schema_version"].to_pylist(), strict=True):
            warnings.warn(f"{log}: {newer_text(version)}", stacklevel=2)
        if not text:
            return found
        runs = found.tables.runs
        wanted = set(runs["log"].to_pylist())
        tables = read_logs([file for file in files if file.name in wanted], text=True)
        # Errors in a text appear only now.
        broken = tables.runs.filter(pc.is_valid(tables.runs["problem"]))["log"].combine_chunks()
        runs = runs.filter(pc.invert(pc.is_in(runs["log"], value_set=broken))) if len(broken) else runs
        return replace(found, tables=Tables(runs, tables.results), n_left_out=found.n_left_out + len(broken)).select(
            category=category
        )


def load_runs(
    logs_dir: Path | str | None = None,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    judge_model: str | Collection[str] | None = None,
    prompt_id: str | Collection[str] | None = None,
    cache: bool = True,
) -> pd.DataFrame:
    """Return one row per run, the oldest first. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir
        A folder with logs that socjudge wrote or that have the specification's form, also packed (.json.gz).
        The project's logs if left out.
    since
        Keep runs that started at that time or later: "2026-10-01", a date or a datetime. A time without a zone is in
        this machine's zone.
    until
        Keep runs that started at that time or earlier. A date includes the whole day.
    judge_model, prompt_id
        Keep runs with this judge, or with this id of the judge's prompt. Several names or ids can be given.
    cache
        Whether to keep what was read in `logs_dir/.history`. The next time, only changed logs are then read.

    Returns
    -------
    DataFrame
        run_id, log, started_at, the models, prompts and hashes, pass rule, verdict, mean score, calls, tokens, cost
        and duration.

    Raises
    ------
    ConfigError
        If there is no such folder, or `since` or `until` is not a time.

    Notes
    -----
    Logs that cannot be read are left out, and with `since` or `until` those without a start time. Of several logs of the
    same run, only the most complete one is used. A UserWarning gives the number of logs left out, and `check_logs` says
    what is wrong with them. Another UserWarning names each log that a newer version wrote.

    Examples
    --------
    >>> import socjudge as sj
    >>> runs = sj.load_runs("logs", since="2026-01-01")
    >>> runs["judge_model"].unique().tolist()
    ['offline']
    """
    names: dict[str, Any] = {"judge_model": judge_model, "prompt_id": prompt_id}
    return _warned(load_history(logs_dir, since=since, until=until, cache=cache, **names), logs_dir).runs


def load_results(
    logs_dir: Path | str | None = None,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    judge_model: str | Collection[str] | None = None,
    prompt_id: str | Collection[str] | None = None,
    category: str | Collection[str] | None = None,
    text: bool = False,
    cache: bool = True,
) -> pd.DataFrame:
    """Return one row per judged answer, in the order of the runs. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir, since, until, judge_model, prompt_id, cache
        As in `load_runs`.
    category
        Keep answers to questions of this category or these categories.
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
    >>> results = sj.load_results("logs", category="正常系")
    >>> results["status"].unique().tolist()
    ['ok']
    """
    names: dict[str, Any] = {"judge_model": judge_model, "prompt_id": prompt_id, "category": category}
    found = load_history(logs_dir, since=since, until=until, text=text, cache=cache, **names)
    return _warned(found, logs_dir).results


def load_scores(
    logs_dir: Path | str | None = None,
    *,
    since: str | date | None = None,
    until: str | date | None = None,
    judge_model: str | Collection[str] | None = None,
    prompt_id: str | Collection[str] | None = None,
    category: str | Collection[str] | None = None,
    text: bool = False,
    cache: bool = True,
) -> pd.DataFrame:
    """Return one row per judged answer and criterion, in the order of the runs. docs/frames.md has the columns.

    Parameters
    ----------
    logs_dir, since, until, judge_model, prompt_id, cache
        As in `load_runs`.
    category
        As in `load_results`.
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
    names: dict[str, Any] = {"judge_model": judge_model, "prompt_id": prompt_id, "category": category}
    found = load_history(logs_dir, since=since, until=until, text=text, cache=cache, **names)
    return _warned(found, logs_dir).scores


def run_history(run: EvaluationRun) -> History:
    """Return a history of one run that is in memory: what `load_history(text=True)` would load from the run's log."""
    return History(run_tables(run))


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
    marks = scores.groupby(["question_id", "criterion"], observed=True)["score"].mean().unstack()
    return wide.join(marks.rename(columns=str))


def _in_order(runs: pa.Table) -> Positions:
    # The oldest first. If two started at once or a log has no time, by name.
    order = pc.sort_indices(runs, [("started_at", "ascending"), ("log", "ascending")])
    order = order.filter(pc.is_null(runs["problem"].take(order)))
    known = runs["run_id"].take(order).combine_chunks().dictionary_encode().indices.to_numpy()
    # Of several logs of one run, the first of those with the most rows is used, because the others are parts of it. The
    # runs are numbered in the order of their occurrence.
    by_rows = np.argsort(-runs["n_results"].take(order).to_numpy(), kind="stable")
    _, first = np.unique(known[by_rows], return_index=True)
    found: Positions = order.to_numpy()[np.sort(by_rows[first])]
    return found


def _warned(found: History, logs_dir: Path | str | None) -> History:
    if found.n_left_out:
        place = logs_dir or constants.LOGS_DIR
        warnings.warn(
            say(
                "{place}: {count} of {total} logs are left out, because they cannot be read, repeat another one, or "
                "have no start time to compare with since and until; check_logs({name!r}) says what is wrong with each",
                place=place,
                count=found.n_left_out,
                total=found.n_logs,
                name=str(place),
            ),
            stacklevel=3,
        )
    return found


def _among(table: pa.Table, name: str, wanted: str | Collection[str]) -> pa.Table:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    return table.filter(pc.is_in(table[name], value_set=pa.array(names, pa.string())))


def _moment(told: str | date, name: str, clock: time = time.min) -> datetime:
    """Return in UTC a time that the user gave. A time without a zone is in this machine's zone; a date gets `clock`."""
    try:
        if isinstance(told, str):
            told = date.fromisoformat(told) if len(told) <= len("2026-10-01") else datetime.fromisoformat(told)
    except ValueError:
        raise ConfigError(
            '{name} is {told!r}, expected a time such as "2026-10-01" or "2026-10-01 09:00"', name=name, told=told
        ) from None
    moment = told if isinstance(told, datetime) else datetime.combine(told, clock)
    return moment.astimezone(UTC)


def _may_be_between(file: LogFile, since: datetime | None, until: datetime | None) -> bool:
    """Return whether a log must be read, by the start of the run in its name. If the name has no time, it must be."""
    text = time_in_name(file.name) if since or until else ""
    if not text:
        return True
    day = timedelta(days=1)  # allowed on both sides, because the name does not say in which time zone it is
    named = datetime.fromisoformat(text).replace(tzinfo=UTC)
    # A file that was renamed may have a later start than its name says, but none after its last change.
    latest = max(named, datetime.fromtimestamp(file.modified_ns / 1e9, UTC))
    return (since is None or latest >= since - day) and (until is None or named <= until + day)
