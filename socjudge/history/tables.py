"""Hold what logs say as columns: NumPy arrays, or codes of values that occur again and again. No pandas is needed here.

A number that is missing is NaN, MISSING or NaT. Truth is 1, 0, or -1 if it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
MISSING = np.iinfo(np.int64).min


class Coded(NamedTuple):
    """A column of texts, or of other values that NumPy has no type for."""

    codes: NDArray[Any]  # the place of each value in `names`
    names: list[Any]  # each value once


Column = Any  # an array or Coded
Table = dict[str, Column]


class Tables(NamedTuple):
    """What several logs say."""

    runs: Table  # one row per log, also for a log that could not be read (its column `problem` says why)
    results: Table  # one row per judged answer; `run` is the row of its run, `criteria` has the names of its scores
    scores: Table  # one row per score, in the order of `results`

    @property
    def lengths(self) -> Positions:
        """Return how many scores each judged answer has."""
        criteria = self.results["criteria"]
        found: Positions = np.array([len(names) for names in criteria.names], np.int64)[criteria.codes]
        return found


def make_table(kinds: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> Table:
    """Return rows as a table. `kinds` are the type annotations of its columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return {name: _column(kind, values) for (name, kind), values in zip(kinds.items(), columns, strict=True)}


def _column(kind: Any, values: Sequence[Any]) -> Column:
    plain = {*(get_args(kind) or [kind])} - {NoneType}
    if float in plain:
        return np.array(values, np.float64)  # None becomes NaN
    if plain == {int}:
        return np.array([MISSING if value is None else value for value in values], np.int64)
    if plain == {bool}:
        return np.array([-1 if value is None else value for value in values], np.int8)
    if plain == {datetime}:
        return np.array(values, "datetime64[us]")
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return Coded(np.fromiter(map(places.__getitem__, values), np.int32, len(values)), list(places))


def take(table: Table, rows: NDArray[Any]) -> Table:
    """Return some rows of a table, in the given order."""
    return {
        name: Coded(column.codes[rows], column.names) if isinstance(column, Coded) else column[rows]
        for name, column in table.items()
    }


def take_runs(tables: Tables, order: Positions) -> Tables:
    """Return some runs in the given order, with their answers in the same order."""
    if np.array_equal(order, np.arange(len(_codes(tables.runs["log"])))):
        return tables
    place = np.full(len(_codes(tables.runs["log"])), -1)
    place[order] = np.arange(len(order))
    run = place[_codes(tables.results["run"])]
    rows = np.argsort(run, kind="stable")
    moved = Tables(take(tables.runs, order), tables.results | {"run": run}, tables.scores)
    return take_results(moved, rows[run[rows] >= 0])


def take_results(tables: Tables, rows: Positions) -> Tables:
    """Return some judged answers in the given order, with all runs."""
    lengths = tables.lengths
    if np.array_equal(rows, np.arange(len(lengths))):
        return tables
    starts, part = np.cumsum(lengths) - lengths, lengths[rows]
    scores = np.repeat(starts[rows] - (np.cumsum(part) - part), part) + np.arange(part.sum())
    return Tables(tables.runs, take(tables.results, rows), take(tables.scores, scores))


def join(parts: Sequence[Tables]) -> Tables:
    """Return the tables of different logs as one."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(_codes(part.runs["log"])) for part in parts)])
    results = [part.results | {"run": _codes(part.results["run"]) + n} for part, n in zip(parts, before, strict=False)]
    return Tables(_joined([part.runs for part in parts]), _joined(results), _joined([part.scores for part in parts]))


def _joined(tables: Sequence[Table]) -> Table:
    return {name: _one([table[name] for table in tables]) for name in tables[0]}


def _one(columns: Sequence[Column]) -> Column:
    if not isinstance(columns[0], Coded):
        return np.concatenate(columns)
    places: dict[Any, int] = {}
    moved = []
    for codes, names in columns:
        move = np.zeros(len(names), np.int32)
        for code in np.unique(codes).tolist():  # a name that no row has any more is not kept
            move[code] = places.setdefault(names[code], len(places))
        moved.append(move[codes])
    return Coded(np.concatenate(moved), list(places))


def _codes(column: Column) -> NDArray[Any]:
    return column.codes if isinstance(column, Coded) else column
