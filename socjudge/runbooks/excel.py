"""Read an Excel workbook as a person sees it: without what is hidden or struck out, and with its text boxes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import reduce
from xml.etree.ElementTree import Element

from ..base.messages import say
from .document import Document, Package, find_boxes, is_on

_MOST = 1_000  # rows or columns that one entry may fill
_NARROW = 5  # letters; the columns of a sheet that is used as squared paper are narrower
# The formats that Excel knows by number alone, as Japanese Excel shows them.
_FORMS = {1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm"}
_FORMS |= {21: "h:mm:ss", 22: "yyyy/m/d h:mm", 32: "h時mm分", 33: "h時mm分ss秒", 37: "#,##0", 38: "#,##0"}
_FORMS |= {14: "yyyy/m/d", 30: "m/d/yy", 31: "yyyy年m月d日"}
_FORMS |= dict.fromkeys((27, 36, 50, 57), "ge.m.d") | dict.fromkeys((28, 29, 51, 54, 58), "ggge年m月d日")
_FORMS |= dict.fromkeys((34, 52, 55), "yyyy年m月") | dict.fromkeys((35, 53, 56), "m月d日")
_DATE_PART = re.compile(r"h+(?P<gap>[^a-z]+)m+|y+|m+|d+|h+|s+|g+|e+|a{3,4}", re.IGNORECASE)
_NUMBER_PART = re.compile(r"[#,]*0[0,]*(?:\.(0+))?")
_FOOTER_CODE = re.compile(r'&(?:"[^"]*"|\d+|K[0-9A-F]{6}|.)')


def read_excel(raw: bytes, document: Document) -> None:
    """Add the contents of an .xlsx file to a document, a section for each sheet."""
    package = Package(raw)
    workbook, links = package.xml(package.main), package.links(package.main)
    book = _Book(package, workbook)
    for sheet in workbook.iter("sheet"):
        name = say("sheet {name}", name=sheet.get("name", ""))
        kind, part = links.get(sheet.get("id", ""), ("", ""))
        if sheet.get("state", "visible") != "visible":
            document.leave(say("hidden, and left out"), place=name)
        elif kind != "worksheet":
            document.leave(say("charts are not read"), place=name)
        else:
            document.add(f"## {sheet.get('name')}", is_markdown=True)
            _Sheet(book, part, name, document).read()


class _Book:
    def __init__(self, package: Package, workbook: Element) -> None:
        self.package = package
        self.strings = [item for part in package.related(package.main, "sharedStrings") for item in package.xml(part)]
        is_mac = any(each.get("date1904") in ("1", "true") for each in workbook.iter("workbookPr"))
        self.first_day = datetime(1904, 1, 1) if is_mac else datetime(1899, 12, 30)
        look = package.xml("".join(package.related(package.main, "styles")[:1]))
        own = {int(each.get("numFmtId", 0)): each.get("formatCode", "") for each in look.findall("numFmts/numFmt")}
        forms = _FORMS | own
        struck = [bool(is_on(font, "strike")) for font in look.findall("fonts/font")]
        self.styles = [  # whether a cell is struck out, and how it shows a number
            (struck[int(each.get("fontId", 0))], forms.get(int(each.get("numFmtId", 0)), "General"))
            for each in look.findall("cellXfs/xf")
        ] or [(False, "General")]


class _Sheet:
    def __init__(self, book: _Book, part: str, name: str, document: Document) -> None:
        self._book, self._part, self._name, self._out = book, part, name, document
        self._root = book.package.xml(part)
        form = self._root.find("sheetFormatPr")
        self._usual_width = float(form.get("defaultColWidth", 9)) if form is not None else 9.0
        self._widths: dict[int, float] = {}
        for each in self._root.findall("cols/col"):
            first, last = int(each.get("min", 1)), int(each.get("max", 1))
            width = 0.0 if each.get("hidden") in ("1", "true") else float(each.get("width", 9))
            self._widths |= dict.fromkeys(range(first, min(last, first + _MOST) + 1), width)

    def read(self) -> None:
        numbered, number = dict[int, Element](), 0
        for row in self._root.findall("sheetData/row"):
            numbered[number := int(row.get("r", number + 1))] = row
        hidden = {n for n, row in numbered.items() if row.get("hidden") in ("1", "true") or row.get("ht") == "0"}
        areas = [each.get("ref", "").partition(":") for each in self._root.findall("mergeCells/mergeCell")]
        ends = {_place(first): _place(last or first) for first, _, last in areas}
        rows, merged = dict[int, dict[int, str]](), dict[int, dict[int, str]]()
        for number, row in numbered.items():
            column = 0
            for cell in row.findall("c"):
                column = _place(cell.get("r", ""))[1] or column + 1
                place = f"{self._name} {cell.get('r', number)}"
                last_row, last_column = ends.get((number, column), (number, column))
                # A merged cell is seen as long as one of its rows and one of its columns is.
                seen = next((n for n in range(number, last_row + 1) if n not in hidden), 0)
                is_wide = any(self._widths.get(n, self._usual_width) for n in range(column, last_column + 1))
                text = self._text(cell, place)
                if text and not (seen and is_wide):
                    self._out.leave(say("hidden, and left out"), text, place=place)
                elif text:
                    rows.setdefault(seen, {})[column] = text
                    for n in range(seen + 1, min(last_row, seen + _MOST) + 1):
                        merged.setdefault(n, {})[column] = text
        self._write(rows, merged, hidden)
        self._read_beside()

    def _text(self, cell: Element, place: str) -> str:
        kind, value = cell.get("t", "n"), cell.findtext("v") or ""
        is_struck, form = self._book.styles[int(cell.get("s", 0))]
        item = self._book.strings[int(value)] if kind == "s" and value else cell.find("is")
        if item is not None:  # pieces (r) may have a look of their own; rPh is furigana
            pieces = [each for each in item if each.tag in ("t", "r")]
            looks = [is_struck if each.find("rPr") is None else is_on(each.find("rPr"), "strike") for each in pieces]
            texts = [each.findtext("t") or each.text or "" for each in pieces]
        else:
            if not value and kind != "str" and cell.find("f") is not None:
                self._out.leave(say("formulas without a saved result are not read"), place=place)
            if kind == "n" and value:
                value = _shown(float(value), form, self._book.first_day)
            texts, looks = [("FALSE", "TRUE")[value == "1"] if kind == "b" else value], [is_struck]
        struck = "".join(text for text, is_gone in zip(texts, looks, strict=True) if is_gone)
        if struck.strip():
            self._out.leave(say("struck out, and left out"), struck, place=place)
        return "".join(text for text, is_gone in zip(texts, looks, strict=True) if not is_gone).strip()

    def _write(self, rows: dict[int, dict[int, str]], merged: dict[int, dict[int, str]], hidden: set[int]) -> None:
        """Rows with one text are lines, unless they go on with a table."""
        table, below, first, before = list[dict[int, str]](), dict[int, dict[int, str]](), 0, 0
        for number in [*sorted(rows), max(rows, default=0) + 2]:
            row = self._joined(rows.get(number, {}))
            is_line = len(row) == 1 and number not in merged and (not table or min(row) <= first)
            is_next = all(n in hidden for n in range(before + 1, number))
            self._out.is_tight &= is_next
            if table and (is_line or not is_next):
                self._out.add_table(table, below, "")
                table, below = [], {}
            if is_line:
                self._out.add("".join(row.values()), is_tight=True)
            elif row:
                first = min(first, *row) if table else min(row)
                below[len(table)] = merged.get(number, {})
                table.append(row)
            before = number

    def _joined(self, row: dict[int, str]) -> dict[int, str]:
        """Join the letters of a text of which each stands in a narrow cell of its own."""
        joined, start = dict[int, str](), 0
        for column in sorted(row):
            pair = row.get(column - 1, "") + row[column]
            is_narrow = self._widths.get(column, self._usual_width) < _NARROW
            start = start if is_narrow and len(pair) == 2 and pair.isalnum() and column - 1 in row else column
            joined[start] = joined.get(start, "") + row[column]
        return joined

    def _read_beside(self) -> None:
        package = self._book.package
        for part in package.related(self._part, "drawing"):
            for found in find_boxes(package.xml(part), package, package.links(part)):
                if isinstance(found, str):
                    self._out.leave(found, place=self._name)
                else:
                    self._out.add("\n".join("".join(t.text or "" for t in p.iter("t")) for p in found.iter("p")))
        for part in package.related(self._part, "comments"):
            for each in package.xml(part).iter("comment"):
                text = "".join(t.text or "" for t in each.iter("t"))
                self._out.leave(say("comments are not read"), text, place=f"{self._name} {each.get('ref')}")
        for each in self._root.findall("headerFooter/*"):
            self._out.add(_FOOTER_CODE.sub(" ", each.text or "").strip())


def _place(cell: str) -> tuple[int, int]:
    """Return (row, column) of a cell such as B5, from 1; (0, 0) without a name."""
    letters, digits = cell.rstrip("0123456789"), cell.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return int(digits or 0), reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters, 0)


def _shown(number: float, form: str, first_day: datetime) -> str:
    """Return a number as its format shows it, without colours, conditions and forms for negative numbers."""
    form = re.sub(r"\[[^\]]*\]|[_*].|\\", "", form.partition(";")[0])
    is_date = re.search("[ymdhs]", re.sub('"[^"]*"', "", form), re.IGNORECASE)
    form = form.replace('"', "")
    if is_date:
        moment = first_day + timedelta(seconds=round(number * 86_400))
        day = "月火水木金土日"[moment.weekday()]
        era, before = ("令和", 2018) if moment >= datetime(2019, 5, 1) else ("平成", 1988)
        values = {"y": moment.year, "m": moment.month, "d": moment.day, "h": moment.hour, "s": moment.second}
        words = {"a": day, "g": era, "e": str(moment.year - before)}

        def part(found: re.Match[str]) -> str:
            if found["gap"]:
                return f"{moment.hour}{found['gap']}{moment.minute:02}"
            letter = found[0][0].lower()
            return words.get(letter) or str(values[letter]).zfill(len(found[0]))

        return _DATE_PART.sub(part, form)
    found = _NUMBER_PART.search(form)
    if not found:
        return f"{number:.11g}" if abs(number) < 1e11 else f"{number:.15g}"
    places, comma = len(found[1] or ""), "," if "," in found[0] else ""
    digits = f"{number * (100 if '%' in form else 1):{comma}.{places}f}".zfill(found[0].count("0") + (places > 0))
    return (form[: found.start()] + digits + form[found.end() :]).strip()
