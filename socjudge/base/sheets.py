"""Read tables in the formats that users save: a CSV file, or the first sheet of an Excel workbook."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from .extras import missing_extra
from .json_files import decoded


def table_text(raw: bytes) -> str:
    """Return the text of a table file.

    raw: the bytes of the file.

    The file may be UTF-8, with or without a byte order mark, or cp932, the encoding of Excel's CSV files in Japan.
    Raises ValueError if it is neither.
    """
    try:
        return decoded(raw)
    except ValueError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16, of which cp932 would make other letters
            raise
        try:
            return raw.decode("cp932")
        except UnicodeDecodeError:
            raise error from None


def first_sheet(path: Path) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """Return the first sheet of a workbook, as (names of the columns, rows).

    Each row is (row number as in Excel, {column: cell}). Empty rows are left out. Raises OSError or ValueError if the
    file cannot be read, and ConfigError if openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise missing_extra(error, wanted=str(path)) from error
    content = io.BytesIO(path.read_bytes())
    try:
        rows = list(load_workbook(content, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True))
    except Exception as error:  # for a damaged file, its reader may raise any error
        raise ValueError(f"{type(error).__name__}: {error}") from None
    head = [str(cell).strip() if cell is not None else "" for cell in rows[0]] if rows else []
    filled = ((number, row) for number, row in enumerate(rows[1:], start=2) if any(cell is not None for cell in row))
    return head, [
        (number, {name: cell for name, cell in zip(head, row, strict=False) if name}) for number, row in filled
    ]
