"""Read a Word document as a person sees it: without furigana, and without what is struck out, hidden or deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ..base.messages import say
from .document import Document, Links, Package, find_boxes, is_on

# Elements that hold properties or old versions of them, and furigana (rt).
_SKIPPED = ("pPr", "rPr", "tblPr", "tblGrid", "tcPr", "trPr", "sectPr", "sdtPr", "sdtEndPr", "bodyPr", "ffData", "rt")
_LETTERS = {"noBreakHyphen": "-", "tab": "\t", "br": "\n", "cr": "\n"}
_WINGDINGS = {"F0FE": "■", "F0FD": "■", "F0FC": "■", "F0E0": "→", "F0E8": "→", "F06C": "●"}  # ■: ticked; others are □
_HEADING = re.compile(r"(?:heading|見出し) ?[1-6]", re.IGNORECASE)  # a style of programs that write no level
_ADDRESS = "address"  # of a link
_EQ_RUBY = re.compile(r"EQ\b.*\\o.*?\(.*?\\s\\up[^(]*\(.*?\)\s*[,;]\s*(.+)\)\s*$", re.DOTALL)  # furigana as a field
_SERIES = {  # numbers before paragraphs that are not in digits
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalFullWidth": "１２３４５６７８９",
    "aiueoFullWidth": "アイウエオカキクケコサシスセソタチツテト",
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
}


def read_word(raw: bytes, document: Document) -> None:
    """Add the contents of a .docx file to a document."""
    _Word(Package(raw), document).read()


class _Word:
    def __init__(self, package: Package, document: Document) -> None:
        self._package, self._out = package, document
        self._links: Links = {}
        self._code = ""  # of a field
        self._counts = defaultdict[tuple[str, int], int](int)
        self._styles = {each.get("styleId", ""): each for each in self._part("styles")}
        numbering = self._part("numbering")
        self._lists = {each.get("numId", ""): _value(each, "abstractNumId") for each in numbering.iter("num")}
        self._levels = {
            (each.get("abstractNumId"), int(level.get("ilvl", 0))): level
            for each in numbering.iter("abstractNum")
            for level in each.iter("lvl")
        }
        kinds = ("footnote", "endnote", "comment")
        self._notes = {(kind, note.get("id")): note for kind in kinds for note in self._part(f"{kind}s")}

    def _part(self, kind: str) -> Element:
        return self._package.xml("".join(self._package.related(self._package.main, kind)[:1]))

    def read(self) -> None:
        main = self._package.main
        edges = [part for kind in ("header", "footer") for part in self._package.related(main, kind)]
        texts = [self._out.text_of(lambda part=part: self._read_part(part)) for part in sorted(edges)]  # type: ignore[misc]
        for text in dict.fromkeys(texts):
            if any(letter.isalpha() for letter in text):  # more than a page's number
                self._out.add(text, is_tight=True)
        self._read_part(main)

    def _read_part(self, part: str) -> None:
        root, self._links = self._package.xml(part), self._package.links(part)
        self._is_titled = any(self._is_title(each.get("val", "")) for each in root.iter("pStyle"))
        self._blocks(root)

    def _blocks(self, parent: Element) -> None:
        for child in parent:
            if child.tag == "p":
                self._paragraph(child)
            elif child.tag == "tbl":
                self._table(child)
            elif child.tag == "altChunk":
                self._out.leave(say("embedded files are not read"))
            elif child.tag in ("del", "moveFrom"):
                self._out.leave(say("deleted with tracked changes, and left out"), _text(child))
            elif child.tag not in _SKIPPED:
                self._blocks(child)

    def _paragraph(self, paragraph: Element) -> None:
        own, style = paragraph.find("pPr"), _value(paragraph, "pPr/pStyle")
        said, boxes = defaultdict[str, str](str), list[Element]()  # {why it is left out, "" for what is seen: text}
        for why, piece in self._pieces(paragraph, style):
            if isinstance(piece, str):
                said[why] += piece
            else:
                boxes.append(piece)
        text, addresses = said.pop("", "").strip(), said.pop(_ADDRESS, "")
        if text:
            depth, marker = self._depth(own, style), self._marker(own, style)
            if depth:
                self._out.add(f"{'#' * depth} {marker}{' '.join(text.split())}", is_markdown=True)
            else:
                self._out.add(marker + text + addresses, is_tight=bool(marker), is_markdown=bool(marker))
        for why, gone in said.items():
            if gone.strip():
                self._out.leave(why, gone)
        for box in boxes:
            self._blocks(box)

    def _pieces(self, parent: Element, style: str) -> Iterator[tuple[str, str | Element]]:
        """Yield the texts of a line, each with why it is left out, its addresses, and its boxes and footnotes."""
        for child in parent:
            match child.tag:
                case "t":
                    yield "", child.text or ""
                case "sym":
                    yield "", _WINGDINGS.get(child.get("char", "").upper(), "□")
                case "r":
                    gone = self._why_left(child, style)
                    yield from ((why or gone, piece) for why, piece in self._pieces(child, style))
                case "del" | "moveFrom":
                    yield say("deleted with tracked changes, and left out"), _text(child)
                case "instrText":
                    self._code += child.text or ""
                case "fldChar":
                    ruby = _EQ_RUBY.search(self._code) if child.get("fldCharType") == "end" else None
                    self._code = ""
                    yield "", ruby[1] if ruby else ""
                case "footnoteReference" | "endnoteReference":
                    yield "", self._notes.get((child.tag[:-9], child.get("id")), Element("none"))
                case "commentReference":
                    self._out.leave(
                        say("comments are not read"), _text(self._notes.get(("comment", child.get("id")), child))
                    )
                case "drawing" | "pict" | "object":
                    for found in find_boxes(child, self._package, self._links):
                        if isinstance(found, str):
                            self._out.leave(found)
                        else:
                            yield "", found
                case tag if tag not in _SKIPPED:
                    yield "", _LETTERS.get(tag, "")
                    yield from self._pieces(child, style)
                    kind, target = self._links.get(child.get("id", ""), ("", ""))
                    if tag == kind == "hyperlink" and target not in _text(child):
                        yield _ADDRESS, f"（{target}）"

    def _why_left(self, run: Element, style: str) -> str:
        own, styles = run.find("rPr"), [*self._chain(_value(run, "rPr/rStyle")), *self._chain(style)]
        looks = [own, *(each.find("rPr") for each in styles)]

        def has(*names: str) -> bool:
            return next((found for look in looks if (found := is_on(look, *names)) is not None), False)

        if has("vanish"):
            return say("hidden, and left out")
        is_struck = has("strike", "dstrike") or (own is not None and own.get("strike", "noStrike") != "noStrike")
        return say("struck out, and left out") if is_struck else ""

    def _table(self, table: Element) -> None:
        rows, merged = list[dict[int, str]](), dict[int, dict[int, str]]()
        lines = [(line, [*_within(line, "tc")]) for line in _within(table, "tr")]
        if len(lines) == 1 and len(lines[0][1]) == 1:  # a frame around text
            return self._blocks(lines[0][1][0])
        above: dict[int, str] = {}
        for line, cells in lines:
            if line.find("trPr/del") is not None:
                self._out.leave(say("deleted with tracked changes, and left out"), _text(line))
                continue
            column, row, reaching = int(_value(line, "trPr/gridBefore") or 0), dict[int, str](), dict[int, str]()
            for cell in cells:
                if cell.find("tcPr/vMerge") is not None and _value(cell, "tcPr/vMerge") != "restart":
                    reaching[column] = above.get(column, "")
                else:
                    row[column] = self._out.text_of(lambda cell=cell: self._blocks(cell))  # type: ignore[misc]
                wide = int(_value(cell, "tcPr/gridSpan") or 1)
                if len(cells) > 1:  # else it stands above or below the columns
                    to = reaching if column in reaching else row
                    to |= dict.fromkeys(range(column + 1, column + min(wide, 1_000)), to[column])
                column += wide
            merged[len(rows)], above = reaching, row | reaching
            rows.append(row)
        self._out.add_table(rows, merged, " --- |")

    def _chain(self, style: str) -> Iterator[Element]:
        seen = set[str]()
        while style in self._styles and style not in seen:
            seen.add(style)
            yield self._styles[style]
            style = _value(self._styles[style], "basedOn")

    def _property(self, own: Element | None, style: str, path: str) -> str:
        """Return a property of a paragraph, of its own or of its style."""
        places = [own, *(each.find("pPr") for each in self._chain(style))]
        return next((found for each in places if each is not None and (found := _value(each, path))), "")

    def _depth(self, own: Element | None, style: str) -> int:
        """Return the depth of a heading; 0 for another paragraph."""
        if self._is_title(style):
            return 1
        names = (style, *(_value(each, "name") for each in self._chain(style)))
        named = next((str(int(name[-1]) - 1) for name in names if _HEADING.fullmatch(name)), "")
        level = self._property(own, style, "outlineLvl") or named
        return min(int(level) + 1 + self._is_titled, 6) if level in tuple("012345") else 0

    def _is_title(self, style: str) -> bool:
        return style in self._styles and _value(self._styles[style], "name").lower() == "title"

    def _marker(self, own: Element | None, style: str) -> str:
        """Return what stands before a paragraph of a list or a numbered heading: "1. ", "第2章 ", "- ", or ""."""
        group = self._lists.get(self._property(own, style, "numPr/numId"), "")
        at = int(self._property(own, style, "numPr/ilvl") or 0)
        level = self._levels.get((group, at))
        if level is None:
            return ""
        if _value(level, "numFmt") == "bullet":
            return "  " * at + "- "
        before = self._counts[group, at] or int(_value(level, "start") or 1) - 1
        self._counts |= {(group, at): before + 1} | {(group, deeper): 0 for deeper in range(at + 1, 9)}

        def shown(found: re.Match[str]) -> str:
            place = group, int(found[1]) - 1
            count = self._counts[place] or 1
            series = _SERIES.get(_value(self._levels[place], "numFmt"), "")
            return series[count - 1] if count <= len(series) else str(count)

        label = re.sub(r"%(\d)", shown, _value(level, "lvlText"))
        return "  " * at + label + " " if label else ""


def _value(element: Element, path: str) -> str:
    found = element.find(path)
    return "" if found is None else found.get("val", "")


def _text(element: Element) -> str:
    return "".join(each.text or "" for each in element.iter() if each.tag in ("t", "delText"))


def _within(parent: Element, tag: str) -> Iterator[Element]:
    for child in parent:
        if child.tag == tag:
            yield child
        elif child.tag not in _SKIPPED:  # a wrapper, such as a content control
            yield from _within(child, tag)
