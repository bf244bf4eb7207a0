"""Convert the tables of logs (tables.py) to the frames that `load_runs`, `load_results` and `load_scores` return.

docs/frames.md has the columns and types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..base.conditions import CONDITIONS
from .schema import RUN_COLUMNS, TEXTS, Tables

Positions = NDArray[np.int64]
Spread = Callable[[NDArray[Any]], NDArray[Any]]  # turns one value per run or answer into one per row of a frame
# The first columns of all three frames identify a run. The last ones hold what else is known about it.
RUN_NAMES = (
    "run_id", "log", "started_at", "judge_model", "judge_model_resolved", "assistant_model", "prompt_id",
    "prompt_sha256", "dataset_sha256", "index_fingerprint",
)  # fmt: skip
_SHARED = (*RUN_NAMES, "pass_threshold", "pass_rate_required")
_SHARED_LAST = (*(each.column for each in CONDITIONS if each.column not in _SHARED), "judges_asked", "asked")
_FLAGS = ("insufficient_evidence", "dangerous_operation", "ambiguous_query")


def run_frame(runs: pa.Table) -> pd.DataFrame:
    """Return one row per run, with the columns of `load_runs`."""
    return pd.DataFrame({name: _column(runs[name]) for name in RUN_COLUMNS}, copy=False)


def result_frame(tables: Tables) -> pd.DataFrame:
    """Return one row per judged answer of the runs in `tables.runs`, with the columns of `load_results`."""
    run, results = _placed(tables)
    by_run = _by_run(run, len(results), _as_is)
    columns = _shared(tables.runs, _SHARED, by_run) | _question(results, _as_is)
    for name in (
        "average_score",
        "average_low",
        "average_high",
        "passed",
        "status",
        *_FLAGS,
        "processing_time",
        "cost_usd",
    ):
        columns[name] = _column(results[name])
    columns["answer_sha256"] = results["answer_sha256"].to_pandas()
    columns |= {name: results[name].to_pandas() for name in TEXTS.names if name in results.column_names}
    columns.pop("rationale", None)
    columns["judge_model_resolved"] = _column(results["judge_model_resolved"])
    columns["truncated"] = _column(results["truncated"])
    columns |= _shared(tables.runs, _SHARED_LAST, by_run)
    return pd.DataFrame(columns, copy=False)


def score_frame(tables: Tables) -> pd.DataFrame:
    """Return one row per answer and criterion of the runs in `tables.runs`, with the columns of `load_scores`."""
    run, results = _placed(tables)
    lengths = pc.list_value_length(results["score"]).to_numpy()
    # Nearly always all answers have the same number of scores. `repeat` with one number is ten times as fast.
    times = lengths[0] if len(lengths) and (lengths == lengths[0]).all() else lengths

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, times)

    by_run = _by_run(run, int(lengths.sum()), spread)
    columns = _shared(tables.runs, _SHARED, by_run) | _question(results, spread)
    columns["criterion"] = _criteria(results)
    columns["score"] = _column(pc.list_flatten(results["score"]))
    columns["missing"] = _column(pc.list_flatten(results["missing"]))
    for name in ("status", "passed", "processing_time", "cost_usd", "judge_model_resolved"):
        columns[name] = _column(results[name], spread)
    # Nearly every hash is different. As categories they would take ten times as long.
    columns["answer_sha256"] = results["answer_sha256"].take(pa.array(spread(np.arange(len(results))))).to_pandas()
    if "rationale" in results.column_names:
        columns["rationale"] = pc.list_flatten(results["rationale"]).to_pandas()
    columns |= _shared(tables.runs, _SHARED_LAST, by_run)
    return pd.DataFrame(columns, copy=False)


def _placed(tables: Tables) -> tuple[Positions, pa.Table]:
    """Return for each judged answer the row number of its run, and the answers, both in the order of the runs."""
    logs = pc.index_in(tables.results["log"], value_set=tables.runs["log"].combine_chunks())
    run = logs.fill_null(-1).to_numpy()
    order = np.argsort(run, kind="stable")
    order = order[run[order] >= 0]  # without answers of runs that are not in `tables.runs`
    return run[order], taken(tables.results, order)


def taken(table: pa.Table, order: Positions) -> pa.Table:
    """Return the rows of a table in the given order. If they are in this order already, return the table itself."""
    return table if np.array_equal(order, np.arange(len(table))) else table.take(pa.array(order))


def _shared(runs: pa.Table, names: Sequence[str], spread: Spread) -> dict[str, Any]:
    return {name: _column(runs[name], spread) for name in names}


def _by_run(run: Positions, rows: int, spread: Spread) -> Spread:
    """Return a function for one value per run; `run` has for each judged answer the row number of its run."""

    def by_run(values: NDArray[Any]) -> NDArray[Any]:
        # Most conditions are the same in all runs, and this way is ten times as fast.
        if len(values) and (values == values[0]).all():
            return np.full(rows, values[0])
        return spread(values[run])

    return by_run


def _as_is(values: NDArray[Any]) -> NDArray[Any]:
    return values


def _question(results: pa.Table, spread: Spread) -> dict[str, Any]:
    ids = results["question_id"].combine_chunks().dictionary_encode()
    known = json.loads(f"[{','.join(ids.dictionary.to_pylist())}]")
    whole = all(isinstance(name, int) for name in known)
    category = _column(results["category"], spread)
    return {
        "question_id": spread(np.array(known, dtype="int64" if whole else object)[ids.indices.to_numpy()]),
        "category": category.as_ordered(),  # in the order of the questions in the dataset
        "answer_repeat": spread(results["answer_repeat"].to_numpy()),
        "judge_repeat": spread(results["judge_repeat"].to_numpy()),
    }


def _criteria(results: pa.Table) -> pd.Categorical:
    lists = results["criterion"].combine_chunks().dictionary_encode()
    named: list[list[str]] = [json.loads(text) for text in lists.dictionary.to_pylist()]
    last = np.full(len(named), -1)
    np.maximum.at(last, lists.indices.to_numpy(), np.arange(len(results)))
    # The criteria of the latest run come first, in its order. Criteria that only earlier runs have come last.
    names = list(dict.fromkeys(name for kind in np.argsort(-last, kind="stable") for name in named[kind]))
    codes = [np.array([names.index(name) for name in each], dtype=np.int16) for each in named]
    if len(codes) == 1:
        flat = np.tile(codes[0], len(results))
    else:
        flat = np.concatenate([codes[kind] for kind in lists.indices.to_numpy()]) if codes else np.array([], np.int16)
    return pd.Categorical.from_codes(flat, pd.Index(names, dtype=object), ordered=True)


def _column(array: pa.ChunkedArray, spread: Spread = _as_is) -> Any:
    """Convert an Arrow column to the pandas type that docs/frames.md states for it."""
    if pa.types.is_string(array.type):
        encoded = array.fill_null("").combine_chunks().dictionary_encode()
        kind = pd.CategoricalDtype(pd.Index(encoded.dictionary.to_pylist(), dtype=object))
        codes = encoded.indices.to_numpy().astype(np.min_scalar_type(-len(encoded.dictionary)))
        return pd.Categorical.from_codes(spread(codes), dtype=kind, validate=False)
    if pa.types.is_timestamp(array.type):
        return pd.DatetimeIndex(spread(array.to_numpy())).tz_localize("UTC")
    plain = spread(array.fill_null(False if pa.types.is_boolean(array.type) else 0).to_numpy())
    missing = spread(array.is_null().to_numpy()) if array.null_count else np.zeros(len(plain), bool)
    kinds: dict[str, Any] = {
        "bool": pd.arrays.BooleanArray,
        "int64": pd.arrays.IntegerArray,
        "float64": pd.arrays.FloatingArray,
    }
    return kinds[str(plain.dtype)](plain, missing)
