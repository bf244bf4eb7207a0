"""Write any frame as CSV or Excel for people, and load it again. No cell becomes a formula, and every value is
restored.

A cell is a number, TRUE, FALSE or a time only if the value in the frame was one. A text that looks like such a value,
or that begins with a character that starts a formula, gets an apostrophe in front, as in Excel itself.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv

from ..base.atomic_files import replacing
from ..base.extras import missing_extra
from ..base.messages import explained, os_reason, say
from ..base.sheets import table_text
from ..errors import ConfigError
from ..runs.log_json import writable

_KINDS = (".csv", ".xlsx")
_GUARD = "'"
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")
_BOOL = {"True": True, "TRUE": True, "False": False, "FALSE": False}
_MOST_ROWS, _MOST_LETTERS = 1_048_575, 32_767  # rows of a sheet below its head; characters of a cell, in UTF-16

# A character that no Excel cell can hold is written by its number, as Excel does. So is an x that would look like one.
_UNHELD = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|x(?=[0-9A-Fa-f]{4})")
_TOLD = re.compile("_x([0-9A-Fa-f]{4})_")


def write_table(path: Path | str, frame: pd.DataFrame) -> Path:
    """Write a frame as CSV (UTF-8 with a byte order mark, for Excel) or Excel, and return the path.

    `load_table` restores the frame.

    Parameters
    ----------
    path
        The file, .csv or .xlsx. An existing file is replaced.
    frame
        Any frame. An index with a name becomes columns. Lists, tuples and dicts become JSON. Times keep the UTC offset
        of their zone.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        If the file has another extension or cannot be written, or if a text is too long or there are too many rows for
        a sheet.

    Notes
    -----
    A spreadsheet would run a cell that begins with = + - @ or a tab as a formula, and answers are untrusted text. So
    such a text gets an apostrophe in front in CSV, and is stored as text in Excel.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> frame = pd.DataFrame({"question_id": [1, 2], "answer": ["=1+1", "端末を隔離する"]})
    >>> sj.history.load_table(sj.history.write_table("answers.csv", frame)).equals(frame)
    True
    """
    path = _known(path)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = [name if isinstance(name, str) else str(name) for name in frame.columns]
    columns = [frame.iloc[:, at].astype(object).tolist() for at in range(len(names))]
    write = _csv if path.suffix.lower() == ".csv" else _sheet
    content = write(names, [[_plain(value) for value in column] for column in columns], path)
    with explained("history.table_not_written", path=path), replacing(path) as file:
        file.write(content)
    return path


def load_table(path: Path | str) -> pd.DataFrame:
    """Load a frame from a file that `write_table` wrote. The file may have been edited in a spreadsheet.

    Parameters
    ----------
    path
        A .csv file, in UTF-8 or in cp932, which Excel on Japanese Windows uses. Or an .xlsx file, whose first sheet is
        read.

    Raises
    ------
    ConfigError
        If the file cannot be read.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> frame = pd.DataFrame({"answer": ["", None, "007"]})
    >>> sj.history.load_table(sj.history.write_table("answers.csv", frame))["answer"].isna().tolist()
    [False, True, False]
    """
    path = _known(path)
    try:
        content = path.read_bytes()
        rows = _csv_rows(content) if path.suffix.lower() == ".csv" else _sheet_rows(content, path)
    except OSError as error:
        raise ConfigError(say("history.table_unreadable", path=path, reason=os_reason(error))) from None
    except ConfigError:
        raise
    except Exception as error:  # for a damaged file, its reader may raise any error
        raise ConfigError(
            say("history.table_unreadable", path=path, reason=f"{type(error).__name__}: {error}")
        ) from None
    names, columns = rows
    frame = pd.concat([_series(column) for column in columns], axis=1) if columns else pd.DataFrame()
    return frame.set_axis(names, axis=1)


def _known(path: Path | str) -> Path:
    path = Path(path)
    if path.suffix.lower() not in _KINDS:
        raise ConfigError(say("history.table_kind", path=path))
    return path


# -- values


def _plain(value: Any) -> Any:
    """Return a value of a frame as bool, int, float, time or text. Return None if the value is missing."""
    if isinstance(value, str):
        return writable(value)
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a scalar of NumPy
        value = value.item()
    if isinstance(value, (bool, int, float, datetime)):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    is_nested = isinstance(value, (list, tuple, dict))
    return writable(json.dumps(value, ensure_ascii=False, default=str) if is_nested else str(value))


def _text(value: Any) -> str | None:
    """Return the text that a cell has for a value. Return None for a missing value.

    A text that looks like another kind of value, such as a number or a formula, gets an apostrophe in front.
    """
    if isinstance(value, str):
        is_other = value.startswith((_GUARD, *_FORMULA)) or not isinstance(_value(value), str)
        return _GUARD + value if is_other and value else value
    return None if value is None else value.isoformat() if isinstance(value, datetime) else repr(value)


def _value(text: str | None) -> Any:
    """Return the value that the text of a cell stands for: a bool, number, time or text.

    None and "" are returned unchanged.
    """
    if text is None or not text:
        return text
    if text.startswith(_GUARD):
        return text[1:]
    if text in _BOOL:
        return _BOOL[text]
    if len(text) < 400:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
        if _TIME.fullmatch(text):
            with contextlib.suppress(ValueError):
                return pd.Timestamp(text)
    return text


def _series(values: list[Any]) -> pd.Series[Any]:
    """Return values as a column, with the narrowest type that holds all of them."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and None in values and max(abs(value) for value in values if value is not None) < 2**63:
        return pd.Series(values, dtype="Int64")
    if kinds == {bool} and None in values:
        return pd.Series(values, dtype="boolean")
    if float in kinds and kinds <= {int, float} and all(abs(value) < 2**53 for value in values if type(value) is int):
        return pd.Series(values, dtype="float64")
    if kinds == {pd.Timestamp} and len({value.tzinfo is None for value in values if value is not None}) == 1:
        is_zoned = any(value is not None and value.tzinfo is not None for value in values)
        return pd.Series(pd.to_datetime(values, utc=is_zoned, format="ISO8601"))
    is_plain = kinds == {str} or (kinds in ({int}, {bool}) and None not in values)
    return pd.Series(values, dtype=None if is_plain else object)


# -- CSV


def _csv(names: list[str], columns: list[list[Any]], path: Path) -> bytes:
    """Return columns as the bytes of a CSV file. All texts are in quotes, so an empty text differs from a missing
    value.
    """
    rows = [
        pa.array([_text(name), *map(_text, column)], pa.string()) for name, column in zip(names, columns, strict=True)
    ]
    told = io.BytesIO()
    if rows:
        table = pa.table(rows, names=[str(at) for at in range(len(rows))])
        pacsv.write_csv(table, told, pacsv.WriteOptions(include_header=False))
    return b"\xef\xbb\xbf" + told.getvalue()


def _csv_rows(content: bytes) -> tuple[list[str], list[list[Any]]]:
    text = table_text(content)
    head = next(csv.reader(io.StringIO(text, newline="")), [])
    if not head:
        return [], []
    raw = text.encode()
    table = pacsv.read_csv(
        io.BytesIO(raw),
        pacsv.ReadOptions(autogenerate_column_names=True, block_size=len(raw) + 1),
        pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(head) > 1),
        pacsv.ConvertOptions(
            column_types={f"f{at}": pa.string() for at in range(len(head))},
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    columns = [[_value(cell) for cell in column.to_pylist()[1:]] for column in table.columns]
    return [str(_named(column[0].as_py())) for column in table.columns], columns


def _named(text: str | None) -> str:
    """Return the name of a column, from its cell in the first row. An apostrophe in front is left out."""
    return (text or "").removeprefix(_GUARD)


# -- Excel


def _sheet(names: list[str], columns: list[list[Any]], path: Path) -> bytes:
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise missing_extra(error, wanted=str(path)) from error
    if any(len(column) > _MOST_ROWS for column in columns):
        raise ConfigError(say("history.table_long", path=path, count=len(columns[0]), most=_MOST_ROWS))
    book = Workbook(write_only=True)
    sheet = book.create_sheet("socjudge")
    with contextlib.closing(sheet):
        for number, row in enumerate([names, *zip(*columns, strict=True)], start=1):
            named = zip(names, row, strict=True)
            sheet.append([_excel(sheet, value, path, f"{name}, {number}") for name, value in named])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _excel(sheet: Any, value: Any, path: Path, place: str) -> Any:
    """Return a value as an Excel cell. Return None if the value is missing.

    An empty text becomes an empty cell that is marked as text.
    """
    from openpyxl.cell import WriteOnlyCell

    if value is None:
        return None
    cell = WriteOnlyCell(sheet)
    if isinstance(value, bool):
        cell.value, cell.data_type = int(value), "b"
        return cell
    if isinstance(value, (int, float)) and math.isfinite(value):
        cell.value, cell.data_type = repr(value), "n"  # with all digits, because openpyxl would write 16
        return cell
    text = value if isinstance(value, str) else _text(value) or ""
    if isinstance(value, str) and value and (value.startswith(_GUARD) or not isinstance(_value(value), str)):
        text = _GUARD + value
    text = _UNHELD.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
    if len(text.encode("utf-16-le")) // 2 > _MOST_LETTERS:
        raise ConfigError(say("history.table_wide", path=path, place=place, most=_MOST_LETTERS))
    cell.value, cell.data_type, cell.quotePrefix = text, "s", True
    return cell


def _sheet_rows(content: bytes, path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise missing_extra(error, wanted=str(path)) from error
    sheet = load_workbook(io.BytesIO(content), read_only=True, data_only=True).worksheets[0]
    rows = iter(sheet.iter_rows())
    head = [_named(_held(cell)) for cell in next(rows, ())]
    columns: list[list[Any]] = [[] for _ in head]
    for row in rows:
        for at, column in enumerate(columns):
            told = _held(row[at]) if at < len(row) else None
            column.append(_value(told) if isinstance(told, str) else told)
    return head, columns


def _held(cell: Any) -> Any:
    """Return the value of an Excel cell. A text still has the apostrophe that `_text` puts in front."""
    value = cell.value
    if isinstance(value, str):
        return _TOLD.sub(lambda found: chr(int(found[1], 16)), value)
    if value is None and getattr(cell, "style_array", None) is not None and cell.style_array.quotePrefix:
        return ""
    return value
