"""Load logs as tidy frames: one row per run, per judged answer, or per score. docs/frames.md has all columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Literal

import pandas as pd

from .. import constants
from ..base.messages import say
from ..errors import ConfigError
from ..records import EvaluationRun
from ..runs.logs import log_files, newer_text
from .columns import result_frame, run_frame, score_frame
from .reading import LoggedRun, list_logs, moment_of, read_logs, run_rows


def load_runs(logs_dir: Path | str | None = None, *, since: str | date | None = None) -> pd.DataFrame:
    """Return one row per run, the oldest first.

    docs/frames.md has the columns: run_id, log, started_at, the models, prompts and hashes, pass rule, verdict,
    mean score, calls, tokens, cost, duration and more.

    `logs_dir` is a folder of logs that socjudge wrote or that have the specification's form, also packed
    (.json.gz); the project's logs if left out. What was read stays in memory, so that the next time only changed
    logs are read. `since` keeps the runs that started at that time or later: "2026-10-01", a date or a datetime; a
    time without a zone is in this machine's. For everything else, use `frame.query`. ConfigError if there is no
    such folder, or `since` is not a time.

    Logs that cannot be read are left out, and with `since` those without a start time. Of several logs of the same
    run, only the most complete one is used. A UserWarning gives the number of logs left out, and `check_logs` says
    what is wrong with them. Another UserWarning names each log that a newer version wrote.

    Examples
    --------
    >>> import socjudge as sj
    >>> runs = sj.load_runs("logs", since="2026-01-01")
    >>> runs.query("judge_model == 'offline'")["mode"].unique().tolist()
    ['live']
    """
    return run_frame(_load(logs_dir, since))


def load_results(
    logs_dir: Path | str | None = None, *, since: str | date | None = None, text: bool = False
) -> pd.DataFrame:
    """Return one row per judged answer, in the order of the runs.

    docs/frames.md has the columns: those about the run; question_id, category, answer_repeat, judge_repeat,
    average_score (0–100, missing if the judge's reply could not be parsed), passed, status, the three warnings,
    processing_time (seconds), cost_usd and answer_sha256.

    `logs_dir`, `since`, warnings and errors are as in `load_runs`. `text` adds question, answer, context,
    overall_comment and error. They are the largest part of a log, and do not stay in memory.

    Examples
    --------
    >>> import socjudge as sj
    >>> results = sj.load_results("logs")
    >>> results.query("category == '正常系'")["status"].unique().tolist()
    ['ok']
    """
    return result_frame(_load(logs_dir, since, text=text), text=text)


def load_scores(
    logs_dir: Path | str | None = None, *, since: str | date | None = None, text: bool = False
) -> pd.DataFrame:
    """Return one row per judged answer and criterion, in the order of the runs.

    docs/frames.md has the columns: those about the run and the answer, as in `load_results`; criterion; score
    (0–100, missing if the judge gave none or its reply could not be parsed).

    `logs_dir`, `since`, warnings and errors are as in `load_runs`. `text` adds the judge's reason for each score
    (rationale).

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.load_scores("logs")["criterion"].unique().tolist()
    ['根拠性', '正確性', '網羅性', '安全性', '引用明示', '簡潔性']
    """
    return score_frame(_load(logs_dir, since, text=text), text=text)


def find_logs(logs_dir: Path | str | None = None, *, example: Literal["series", "judges"] = "series") -> Path | str:
    """Return the folder of logs to read: `logs_dir` as you gave it, or the project's logs.

    If it has no log, print a message and return the folder of an example. `example` chooses it: "series" has runs
    of one assistant whose settings change, and "judges" has several LLM judges on the same answers.

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
    words = (
        "⚠️ These are examples: {own} holds no log yet, so those that come with the project are shown "
        "({folder}). Once you have run an evaluation, yours are."
    )
    print(say(words, own=own, folder=folder))
    return folder


def run_results(run: EvaluationRun) -> pd.DataFrame:
    return result_frame([run_rows(run)], text=True)


def run_scores(run: EvaluationRun) -> pd.DataFrame:
    return score_frame([run_rows(run)], text=True)


def run_wide(run: EvaluationRun) -> pd.DataFrame:
    results = run_results(run)
    rows = results.assign(n_unscored=results["status"] != "ok").groupby("question_id", sort=False)
    wide = rows.agg(
        category=("category", "first"),
        question=("question", "first"),
        n=("status", "size"),
        n_unscored=("n_unscored", "sum"),
        average_score=("average_score", "mean"),
    )
    means = run_scores(run).groupby(["question_id", "criterion"], observed=True)["score"].mean().unstack()
    return wide.join(means.rename(columns=str))


def _load(logs_dir: Path | str | None, since: str | date | None, *, text: bool = False) -> list[LoggedRun]:
    """Return the runs of a folder, each once, the oldest first, and warn of the logs that are in no frame."""
    first, place = None if since is None else _moment(since), logs_dir or constants.LOGS_DIR
    files = list_logs(place)
    used = _in_order(read_logs(files, text=text))
    if first is not None:
        used = [run for run in used if moment_of(run.started_at) is not None]
    if len(used) < len(files):
        words = (
            "{place}: {count} of {total} logs are left out, because they cannot be read, repeat another one, or "
            "have no start time to compare with since; check_logs({name!r}) says what is wrong with each"
        )
        count = len(files) - len(used)
        warnings.warn(say(words, place=place, count=count, total=len(files), name=str(place)), stacklevel=3)
    used = [run for run in used if first is None or (moment_of(run.started_at) or first) >= first]
    for run in used:
        if told := newer_text(run.schema_version):
            warnings.warn(f"{run.log}: {told}", stacklevel=3)
    return used


def _in_order(found: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the logs that are used, the oldest first. If two started at once or a log has no time, by name."""
    found = sorted(found, key=lambda run: (moment_of(run.started_at) or datetime.max, run.log))
    # Of several logs of one run, the first of those with the most rows is used, because the others are parts of it.
    used: dict[str, LoggedRun] = {}
    for run in sorted(found, key=lambda run: -len(run.answers)):
        used.setdefault(run.run_id, run)
    return [run for run in found if used[run.run_id] is run]


def _moment(told: str | date) -> datetime:
    """Return in UTC, without zone, the time `since`. A time without a zone is in this machine's."""
    if moment := moment_of(str(told)):
        return moment
    raise ConfigError('since is {told!r}, expected a time such as "2026-10-01" or "2026-10-01 09:00"', told=told)
