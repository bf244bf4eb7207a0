"""Read tables in the formats that users save: CSV, TSV, or the first sheet of an Excel workbook. Unpack the archives of
Office (.docx, .xlsx) that somebody else wrote, within limits."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path
from typing import Any

from .files import decoded, load_bytes
from .messages import say
from .public import missing_extra

TABLES = (".csv", ".tsv", ".xlsx")
MOST_CELLS = 10_000_000  # of a sheet, empty ones included
MAX_UNPACKED = 512 * 2**20  # bytes of all parts together, as for a packed log
MAX_XML = 100 * 2**20  # bytes of the parts that are XML, which take many times their size when they are read
_PIECE = 2**20
_XML = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*+<")
# A document type, in which entities are declared. In an attribute or a text, "<" would be "&lt;".
_DOCTYPES = ["<!DOCTYPE".encode(encoding) for encoding in ("ascii", "utf-16-le", "utf-16-be")]
# An encoding in which one could not be seen. Office writes UTF-8 or UTF-16.
_STRANGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+<\?xml[^>]{0,200}?\sencoding\s*+=\s*+['\"]"
    rb"(?!(?i:utf-?8|utf-?16|(?:us-)?ascii|iso-8859-|shift_jis|euc-jp|windows-))"
    rb"|(?:\xff\xfe\0\0)?<\0\0\0|(?:\0\0\xfe\xff)?\0\0\0<"  # UTF-32
)


def read_table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """Return the names of a table's columns, and its rows that are not empty with their numbers in a spreadsheet.
    Raises OSError or ValueError for an unreadable file, and ConfigError for a workbook without openpyxl."""
    raw = load_bytes(path)
    rows = _sheet_rows(raw, path) if path.suffix.lower() == ".xlsx" else text_rows(raw)
    filled = [(number, row) for number, row in enumerate(rows, start=1) if any(cell not in (None, "") for cell in row)]
    head = [str(cell).strip() if cell is not None else "" for cell in filled[0][1]] if filled else []
    return head, [
        (number, {name: cell for name, cell in zip(head, row, strict=False) if name}) for number, row in filled[1:]
    ]


def cell_text(cell: Any) -> str:
    """Return a cell as text. A workbook may have the number 3 as 3.0."""
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def text_rows(raw: bytes) -> list[list[Any]]:
    """Return the rows of a CSV or TSV file, the head included. Raises ValueError if a row cannot be right."""
    csv.field_size_limit(max(csv.field_size_limit(), len(raw)))  # the file is in memory already
    text = decoded(raw, is_table=True)
    head = text.lstrip().partition("\n")[0]
    # Excel writes tabs as "Unicode text", and semicolons where the decimal mark is a comma.
    separator = max(",\t;", key=head.count)
    # Strict, because otherwise a quote that is never closed swallows all rows below it.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[list[Any]] = []
    try:
        rows.extend(reader)
    except csv.Error as error:
        raise ValueError(
            say('up to line {line}: {reason}; check that every quote (") is closed', line=reader.line_num, reason=error)
        ) from None
    columns = len(next(filter(any, rows), []))
    for number, row in enumerate(rows, start=1):
        if any(row[columns:]):  # of an unquoted comma; the cells behind it would be lost
            raise ValueError(
                say(
                    "row {number} has {cells} cells, the first row {columns}; put cells that contain a comma in "
                    'quotes (")',
                    number=number,
                    cells=len(row),
                    columns=columns,
                )
            )
    return rows


def _sheet_rows(raw: bytes, path: Path) -> list[tuple[Any, ...]]:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise missing_extra(error, wanted=str(path)) from error
    try:
        unpack_office(raw)
        sheet = load_workbook(io.BytesIO(raw), read_only=True, data_only=True).worksheets[0]
        sheet.reset_dimensions()  # other programs than Excel may state a smaller area than they fill
        rows: list[tuple[Any, ...]] = []
        cells = 0
        for row in sheet.iter_rows(values_only=True):
            rows.append(row)
            cells += len(row)  # a row with one cell far to the right has many empty ones before it
            if cells > MOST_CELLS:
                raise ValueError(
                    say("the sheet has more than {most:,} cells; remove what is not needed", most=MOST_CELLS)
                )
        return rows
    except ValueError:
        raise
    except Exception as error:  # for a damaged file, its reader may raise any error
        raise ValueError(f"{type(error).__name__}: {error}") from None


def unpack_office(raw: bytes) -> dict[str, bytes]:
    """Return {name: content} of the XML parts of a .docx or .xlsx file; what passes, other readers may unpack too.
    Raises BadZipFile, or ValueError if it unpacks to more than such a file has, or if a part declares entities."""
    parts: dict[str, bytes] = {}
    n_total = n_xml = 0
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for member in archive.infolist():
            name = member.filename
            # Other ways have no bound for what one piece unpacks to.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(say("the part {part} is packed in a way that Office does not use", part=name))
            content = bytearray()
            with archive.open(member) as packed:
                while piece := packed.read(_PIECE):  # the size that a part states may be wrong
                    content += piece
                    _check_size(n_total + len(content), MAX_UNPACKED)
            n_total += len(content)
            if not _XML.match(content):
                continue
            n_xml += len(content)
            _check_size(n_xml, MAX_XML)
            if _STRANGE.match(content) or any(each in content for each in _DOCTYPES):
                raise ValueError(
                    say("the part {part} declares a document type or an encoding that Office never writes", part=name)
                )
            parts[name] = bytes(content)
    return parts


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ValueError(
            say(
                "it unpacks to more than {most} MB; split it into several files, or take out what is not needed",
                most=most // 2**20,
            )
        )
