"""Read the rows of a file in which a user keeps questions or answers, and find the columns in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.files import decoded, load_bytes, read_json
from ..base.messages import listed, os_reason, say
from ..base.sheets import TABLES, read_table
from ..errors import ConfigError

SUFFIXES = (*TABLES, ".jsonl", ".json")


def read_rows(source: Path | str | Any) -> tuple[str, list[str], dict[str, Any]]:
    """Return what a file or DataFrame is called, the names of its columns, and its rows, each under the words that name
    its place. ConfigError if the file cannot be read, or has no row."""
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        return _rows_of_frame(source)
    path = Path(source)
    suffix = path.suffix.lower()
    try:
        if suffix in TABLES:
            head, numbered = read_table(path)
        elif suffix in SUFFIXES:
            text = decoded(load_bytes(path), is_table=True)
            numbered = list(enumerate(read_json(text), start=1)) if suffix == ".json" else _lines(text)
            if not all(isinstance(row, dict) for _, row in numbered):
                raise TypeError
            head = list(dict.fromkeys(name for _, row in numbered for name in row))
        else:
            raise ValueError(say("only {known} are read", known=", ".join(SUFFIXES)))
    except FileNotFoundError:
        raise ConfigError("{path}: there is no such file; check the path", path=path) from None
    except TypeError:
        raise ConfigError("{path}: expected a list of objects", path=path) from None
    except (OSError, ValueError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else error
        raise ConfigError("{path}: it cannot be read ({reason})", path=path, reason=reason) from None
    if not numbered:
        raise ConfigError("{where}: there is no row; add at least one", where=path)
    place = "number {number}" if suffix == ".json" else "row {number}"
    return str(path), head, {say(place, number=number): row for number, row in numbered}


def _rows_of_frame(frame: Any) -> tuple[str, list[str], dict[str, Any]]:
    where, head = say("the DataFrame"), [str(name) for name in frame.columns]
    if not len(frame):
        raise ConfigError("{where}: there is no row; add at least one", where=where)
    cells, absent = frame.astype(object).to_numpy(), frame.isna().to_numpy()  # a frame has several forms of None
    rows = {
        say("row {number}", number=number): {
            name: None if is_absent else cell for name, cell, is_absent in zip(head, *row, strict=True)
        }
        for number, row in enumerate(zip(cells.tolist(), absent.tolist(), strict=True), start=1)
    }
    return where, head, rows


def _lines(text: str) -> list[tuple[int, Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):  # a text may have other line ends in it
        try:
            rows += [(number, read_json(line))] if line.strip() else []
        except ValueError as error:
            raise ValueError(say("line {number} ({reason})", number=number, reason=error)) from None
    return rows


def find_columns(
    where: str, head: Sequence[str], names: Mapping[str, Sequence[str]], needed: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Return {field: its column}, where `names` are those that the column may have, the best first, in any case.
    ConfigError if several columns have that name, or if no field of one of the groups `needed` has a column."""
    found: dict[str, str] = {}
    for field, known in names.items():
        there = next(filter(None, ([each for each in head if each.casefold() == name] for name in known)), [""])
        if len(there) > 1:
            raise ConfigError("{where}: several columns are called {names}; keep one", where=where, names=there[0])
        found |= {field: there[0]} if there[0] else {}
    for group in needed:
        if not found.keys() & set(group):
            raise ConfigError(
                "{where}: there is no column {names}, only {there}; rename the columns",
                where=where,
                names=" / ".join(name for field in group for name in names[field]),
                there=listed(dict.fromkeys(filter(None, head))),
            )
    return found
