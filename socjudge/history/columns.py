"""Make the frames that `load_runs`, `load_results` and `load_scores` return of the tables of logs (tables.py).

docs/frames.md has the columns and types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.conditions import CONDITIONS
from .reading import RUN_COLUMNS, Texts
from .tables import MISSING, Coded, Column, Table, Tables

# The first columns of all three frames identify a run. The last ones hold what else is known about it.
RUN_NAMES = (
    "run_id", "log", "started_at", "judge_model", "judge_model_resolved", "assistant_model", "prompt_id",
    "prompt_sha256", "dataset_sha256", "index_fingerprint",
)  # fmt: skip
_SHARED = (*RUN_NAMES, "pass_threshold", "pass_rate_required")
_SHARED_LAST = (*(each.column for each in CONDITIONS if each.column not in _SHARED), "judges_asked", "asked")
_OF_ANSWER = (
    "average_score", "average_low", "average_high", "passed", "status", "insufficient_evidence", "dangerous_operation",
    "ambiguous_query", "processing_time", "cost_usd",
)  # fmt: skip


def run_frame(tables: Tables) -> pd.DataFrame:
    """Return one row per run, with the columns of `load_runs`."""
    return _frame(_shown(tables.runs, RUN_COLUMNS))


def result_frame(tables: Tables) -> pd.DataFrame:
    """Return one row per judged answer, with the columns of `load_results`."""
    runs, results, run = tables.runs, tables.results, tables.results["run"]
    columns = _shown(runs, _SHARED, run) | _question(results) | _shown(results, _OF_ANSWER)
    columns["answer_sha256"] = _texts(results["answer_sha256"])
    columns |= {name: _texts(results[name]) for name in Texts._fields if name in results}
    columns |= _shown(results, ("judge_model_resolved", "truncated")) | _shown(runs, _SHARED_LAST, run)
    return _frame(columns)


def score_frame(tables: Tables) -> pd.DataFrame:
    """Return one row per answer and criterion, with the columns of `load_scores`."""
    runs, results, scores = tables
    row = np.repeat(np.arange(len(tables.lengths)), tables.lengths)
    run = results["run"][row]
    columns = _shown(runs, _SHARED, run) | _question(results, row)
    columns["criterion"] = _criteria(results["criteria"])
    columns |= _shown(scores, ("score", "missing"))
    columns |= _shown(results, ("status", "passed", "processing_time", "cost_usd", "judge_model_resolved"), row)
    # Nearly every hash is different. As categories they would take ten times as long.
    columns["answer_sha256"] = _texts(results["answer_sha256"], row)
    if "rationale" in scores:
        columns["rationale"] = _texts(scores["rationale"])
    return _frame(columns | _shown(runs, _SHARED_LAST, run))


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(columns, copy=False)


def _shown(table: Table, names: Any, rows: Any = slice(None)) -> dict[str, Any]:
    """Return columns as pandas' arrays of the types in docs/frames.md; `rows`: the row of the table for each row."""
    return {name: _column(table[name], rows) for name in names}


def _column(column: Column, rows: Any) -> Any:
    if isinstance(column, Coded):
        return _categories(column, rows)
    if column.dtype.kind == "M":
        return pd.DatetimeIndex(column[rows]).tz_localize("UTC")
    kinds: dict[str, Any] = {
        "i1": (pd.arrays.BooleanArray, column == 1, column < 0),
        "i8": (pd.arrays.IntegerArray, np.where(column == MISSING, 0, column), column == MISSING),
        "f8": (pd.arrays.FloatingArray, np.where(np.isnan(column), 0, column), np.isnan(column)),
    }
    kind, values, missing = kinds[column.dtype.str[1:]]
    return kind(values[rows].copy(), missing[rows].copy())


def _categories(column: Coded, rows: Any, *, ordered: bool = False) -> pd.Categorical:
    """Return texts as categories, in the order in which they first occur."""
    codes, names = column
    first = np.full(len(names), len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last that is set is the first place
    used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    moved = np.zeros(len(names), np.min_scalar_type(-max(len(used), 1)))
    moved[used] = np.arange(len(used))
    kind = pd.CategoricalDtype(pd.Index([names[place] for place in used], dtype=object), ordered=ordered)
    return pd.Categorical.from_codes(moved[codes][rows], dtype=kind, validate=False)


def _texts(column: Column, rows: Any = slice(None)) -> Any:
    assert isinstance(column, Coded)
    return pd.array(column.names, dtype="str").take(column.codes[rows])


def _question(results: Table, rows: Any = slice(None)) -> dict[str, Any]:
    ids, category = results["question_id"], results["category"]
    assert isinstance(ids, Coded) and isinstance(category, Coded)
    whole = all(isinstance(ids.names[place], int) for place in np.unique(ids.codes))
    names = np.array([*ids.names, None], object)
    return {
        "question_id": names[ids.codes][rows].astype("int64" if whole else object),
        "category": _categories(category, rows, ordered=True),  # in the order of the questions in the dataset
        "answer_repeat": results["answer_repeat"][rows],
        "judge_repeat": results["judge_repeat"][rows],
    }


def _criteria(lists: Coded) -> pd.Categorical:
    last = np.full(len(lists.names), -1)
    last[lists.codes] = np.arange(len(lists.codes))
    # The criteria of the latest run come first, in its order. Criteria that only earlier runs have come last.
    used = [kind for kind in np.argsort(-last, kind="stable") if last[kind] >= 0]
    names = list(dict.fromkeys(name for kind in used for name in lists.names[kind]))
    codes = [
        np.array([names.index(name) if kind in used else -1 for name in each], np.int16)
        for kind, each in enumerate(lists.names)
    ]
    flat: list[NDArray[Any]] = [codes[kind] for kind in lists.codes]
    return pd.Categorical.from_codes(
        np.concatenate([np.array([], np.int16), *flat]), pd.Index(names, dtype=object), ordered=True
    )
