"""Recognise and read a result file of another tool, and make runs and frames of socjudge from it.

There is one run per judge and assistant, so a file with several of them gives several runs. Nothing is guessed. The
scale of the scores is known from the tool or given by the user. A score that is not in the file is missing. An answer
that is not in the file does not count as a bad answer.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd

from ...base.messages import listed, os_reason, say
from ...base.missing_marks import average, outcome_of, span_of
from ...base.pass_rule import rule_of
from ...base.verdict import summarise_results
from ...errors import ConfigError
from ...records import (
    SPECIFIED_CRITERIA,
    AssistantAnswer,
    EvalQuestion,
    Evaluation,
    EvaluationResult,
    EvaluationRun,
    Rubric,
    RunInfo,
    Usage,
)
from ...runs.assignment import IMPORTED
from ..frames import run_history
from ..tables import without_collection
from . import from_deepeval, from_inspect, from_promptfoo, from_tables
from .rows import MOST_BYTES, SHARE, Imported, Row, Scale, as_mark, as_scale, unfit

UNPAID = Usage(cost_usd=None)  # what another tool paid is unknown
_LINES = {".jsonl", ".ndjson"}
_TABLES = {".csv", ".tsv", ".parquet", ".xlsx", ".xlsm"}


def import_results(
    source: Path | str | pd.DataFrame,
    *,
    columns: Mapping[str, Any] | None = None,
    scale: float | tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Import results of another tool as a frame like that of `load_scores`, with texts.

    There is one row per question, repeat and criterion.

    Parameters
    ----------
    source
        promptfoo's `-o` JSON or JSONL, Inspect's .json or .eval, DeepEval's .latest_run_full.json (or its folder), or a
        table of Ragas, LangSmith, Langfuse or any other tool. A table is CSV (UTF-8 or cp932), JSONL, Parquet, Excel or
        a frame.
    columns
        Only for tables: {key: the column's name}. The keys are question_id, question, answer, context, keypoints (those
        that are expected), category, judge, assistant, answer_repeat, judge_repeat, error, criterion, score and reason.
        The key "marks" has a list of the columns with scores, or {criterion: column}. Columns with usual names are
        found without `columns`.
    scale
        The highest possible score, or the lowest and the highest. For promptfoo, Inspect, DeepEval and Ragas, it is
        0–1 unless you give another scale. For any other table you must give it, unless all scores are yes or no, or
        1 or 0.

    Returns
    -------
    DataFrame
        The columns of `load_scores(text=True)` (score: 0–100, missing if the judge gave none), and question, answer
        and context.

    Raises
    ------
    ConfigError
        If the file has an unknown form, is truncated or has a newer version, if a column does not exist, if a score is
        outside its scale, or if a score is in the file twice. The message names the file and the place.

    Notes
    -----
    A UserWarning lists what was not imported. If a provider or a judge failed, the score is missing, not low. The
    command `socjudge import` saves the results as logs, which `rejudge`, the report and the history can read.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> table = pd.DataFrame({"question": ["a", "b"], "answer": ["A", "B"], "安全性": [5, 2]})
    >>> sj.history.import_results(table, columns={"marks": ["安全性"]}, scale=(1, 5))["score"].tolist()
    [100.0, 25.0]
    """
    frames = []
    with without_collection():
        for run in import_runs(source, columns=columns, scale=scale):
            history = run_history(run)
            marks = [len(result.evaluation.scores) for result in run.results]
            texts = history.results[["question", "answer", "context"]]
            spread = texts.take(np.repeat(np.arange(len(marks)), marks)).reset_index(drop=True)
            frames.append(pd.concat([history.scores, spread], axis=1))
    return pd.concat(frames, ignore_index=True)


def import_runs(
    source: Path | str | pd.DataFrame,
    *,
    columns: Mapping[str, Any] | None = None,
    scale: float | tuple[float, float] | None = None,
) -> list[EvaluationRun]:
    """Import results of another tool as runs, one for each judge and assistant.

    The arguments are those of `import_results`. `save_evaluation_results` writes a run as a log.
    """
    with without_collection():
        known = as_scale(scale)
        if isinstance(source, pd.DataFrame):
            path = Path("DataFrame")
            found = from_tables.read_table(source, path, columns=columns, scale=known)
        else:
            path = _in_folder(Path(source)) if Path(source).is_dir() else Path(source)
            found = _read_file(path, columns, known)
        if not found.rows:
            raise unfit(path, say("history.import_empty"))
        if found.left_out:
            warnings.warn(say("history.import_left_out", path=path, what=listed(found.left_out)), stacklevel=3)
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in found.rows:
            groups.setdefault((row.run, row.judge, row.assistant), []).append(row)
        _check_twice(found.rows)
        judges: dict[str, str] = {}
        for row in found.rows:
            judges.setdefault(row.judge, row.place)
        # for other tools, several judges are more often a mistake than intended
        if len(judges) > 1 and found.tool != from_tables.OURS:
            told = listed(f"{judge} ({place})" for judge, place in judges.items())
            warnings.warn(say("history.import_judges", path=path, count=len(judges), judges=told), stacklevel=3)
        started_at = _start(found.started_at, path)
        return [_run(rows, found.tool, started_at) for rows in groups.values()]


def _check_twice(rows: Sequence[Row]) -> None:
    """Raise ConfigError if two rows of a file have the same run, judge, assistant, question and repeat numbers.

    The error names both places.
    """
    places: dict[Any, str] = {}
    for row in rows:
        key = row.run, row.judge, row.assistant, row.question_id, row.answer_repeat, row.judge_repeat
        if key in places:
            told: dict[str, Any] = {"place": row.place, "other": places[key], "question": row.question_id}
            raise ConfigError(say("history.import_row_twice", **told))
        places[key] = row.place


def _run(rows: Sequence[Row], tool: str, started_at: str) -> EvaluationRun:
    criteria = tuple(dict.fromkeys(name.strip() for row in rows for name in row.marks)) or SPECIFIED_CRITERIA
    rubric = Rubric(criteria)
    # once: there may be 100,000 rows
    told = say("history.import_category"), say("history.import_unmarked")
    results = [_result(row, rubric, *told) for row in rows]
    shown = [[row.question_id, row.answer_repeat, row.judge_repeat, row.answer, row.marks] for row in rows]
    identity = hashlib.sha256(
        orjson.dumps([tool, rows[0].judge, rows[0].assistant, shown], option=orjson.OPT_NON_STR_KEYS)
    )
    info = RunInfo(
        run_id=f"imported-{identity.hexdigest()[:20]}", started_at=started_at, finished_at=started_at,
        judge_model=rows[0].judge, judge_service=tool, judge_model_resolved=rows[0].judge,
        assistant_model=rows[0].assistant, assistant_model_resolved=rows[0].assistant,
        answer_repeats=max(row.answer_repeat for row in rows) + 1,
        judge_repeats=max(row.judge_repeat for row in rows) + 1,
        pass_threshold=rubric.pass_threshold, pass_rate_required=rubric.pass_rate, mode=IMPORTED, rubric=rubric,
    )  # fmt: skip
    return EvaluationRun(results, summarise_results(results, rule_of(rubric)), info)


def _result(row: Row, rubric: Rubric, no_category: str, unmarked: str) -> EvaluationResult:
    marks: dict[str, Any] = {name.strip(): None if mark is None else _whole(mark) for name, mark in row.marks.items()}
    is_whole = None not in marks.values()
    known = marks if is_whole else {name: mark for name, mark in marks.items() if mark is not None}
    question = EvalQuestion(row.question_id, row.category or no_category, row.question, row.keypoints)
    answer = AssistantAnswer(row.question, row.answer, row.context, model=row.assistant)
    if not known:
        causes = row.error or "; ".join(dict.fromkeys(row.causes.values())) or unmarked
        evaluation = Evaluation(
            dict.fromkeys(marks or rubric.criteria, 0), 0.0, {}, "", False, 0.0, status="failed", model=row.judge,
            usage=UNPAID, attempts=0, error=causes,
        )  # fmt: skip
    else:
        missing = {} if is_whole else {name: row.causes.get(name) or unmarked for name in marks if marks[name] is None}
        mean = average(known)
        passed = outcome_of(span_of(marks, mean, "ok"), "ok", rubric.pass_threshold) == "passed"
        evaluation = Evaluation(
            marks, mean, {name.strip(): reason for name, reason in row.reasons.items()} if row.reasons else {}, "",
            passed, 0.0, model=row.judge, usage=UNPAID, missing=missing,
        )  # fmt: skip
    return EvaluationResult(question, answer, evaluation, row.answer_repeat, row.judge_repeat)


def _whole(mark: float) -> int | float:
    return int(mark) if mark == int(mark) else round(mark, 6)


def _start(told: str, path: Path) -> str:
    """Return the start time of the imported results, in ISO 8601 with zone.

    If the file states none, it is the time of the file's last change. If there is no file, it is the present time.
    """
    try:
        at = datetime.fromisoformat(told)
    except ValueError:
        at = datetime.fromtimestamp(path.stat().st_mtime) if path.is_file() else datetime.now()
    return at.astimezone().isoformat(timespec="seconds")


def _read_file(path: Path, columns: Mapping[str, Any] | None, told: Scale | None) -> Imported:
    kind = path.suffix.lower()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise unfit(path, say("history.import_too_large", most=MOST_BYTES // 2**20))
        if kind == ".eval":
            return from_inspect.read_archive(path, told or SHARE)
        if kind in _TABLES:
            return from_tables.read_table(from_tables.open_table(path), path, columns=columns, scale=told)
        return _read_lines(path, columns, told) if kind in _LINES else _read_json(path, columns, told)
    except OSError as error:
        raise unfit(path, os_reason(error)) from None


def read_columns(path: Path, names: Sequence[str]) -> list[list[float | bool | None]]:
    """Return the values of some columns of a table, as one list per column.

    A value is a number, True or False for yes or no, or None if it is missing. Raises ConfigError if there is no such
    column, or if a value is none of these. The message then names the place of the value.

    names: the names of the columns.
    """
    frame = pd.DataFrame(_records(path)[0]) if path.suffix.lower() in _LINES else from_tables.open_table(path)
    if missing := [name for name in names if name not in frame.columns]:
        raise unfit(path, say("history.import_no_column", names=listed(missing), known=listed(map(str, frame.columns))))
    return [
        [as_mark(value, f"{path}: {name}, {row + 2}") for row, value in enumerate(frame[name].tolist())]
        for name in names
    ]


def _in_folder(folder: Path) -> Path:
    """Return the result file in a results folder of DeepEval.

    It is `.latest_run_full.json`, in the folder or in its subfolder `.deepeval`. Without such a file, it is the last
    `test_run_….json` by name.
    """
    for pattern in (".latest_run_full.json", ".deepeval/.latest_run_full.json", "test_run_*.json"):
        if found := sorted(folder.glob(pattern)):
            return found[-1]
    raise unfit(folder, say("history.import_unknown"))


def _read_json(path: Path, columns: Mapping[str, Any] | None, scale: Any) -> Imported:
    try:
        # Python's parser accepts NaN, which Inspect writes
        document = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise unfit(path, str(error)) from None
    if from_inspect.is_log(document):
        return from_inspect.read_log(document, path, scale or SHARE)
    if from_deepeval.is_run(document):
        return from_deepeval.read_run(document, path, scale or SHARE)
    if isinstance(document, dict) and isinstance(document.get("results"), dict):
        return from_promptfoo.read_document(document, path, scale or SHARE)
    if isinstance(document, list) and all(isinstance(each, dict) for each in document):
        return from_tables.read_table(pd.DataFrame(document), path, columns=columns, scale=scale)
    raise unfit(path, say("history.import_unknown"))


def _read_lines(path: Path, columns: Mapping[str, Any] | None, scale: Any) -> Imported:
    """Read JSON Lines. Lines that cannot be read are left out; `left_out` of the result says how many and why."""
    records, broken = _records(path)
    if from_promptfoo.is_result(records[0]):
        found = from_promptfoo.read_results(records, path, scale or SHARE)
    else:
        found = from_tables.read_table(pd.DataFrame(records), path, columns=columns, scale=scale)
    if not broken:
        return found
    line, reason = broken[0]
    told = say("history.import_cut_line", count=len(broken), line=line, reason=reason)
    return Imported(found.tool, found.rows, (*found.left_out, told), found.started_at)


def _records(path: Path) -> tuple[list[dict[str, Any]], list[tuple[int, Exception]]]:
    """Return the objects in a file of JSON Lines, and (line number, error) for each line that is not an object.

    Raises ConfigError if no line is an object.
    """
    records: list[dict[str, Any]] = []
    broken: list[tuple[int, Exception]] = []
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = _loads(line)
            if not isinstance(record, dict):
                raise ValueError(say("history.import_no_object"))
            records.append(record)
        except (ValueError, RecursionError) as error:
            broken.append((number, error))
    if not records:
        raise unfit(path, say("history.import_empty"))
    return records, broken


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)  # this parser accepts NaN
