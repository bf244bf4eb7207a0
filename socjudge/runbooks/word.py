"""Read a Word document as a person sees it: without furigana, and without what is struck out, hidden or deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ..base.messages import say
from .document import Document, Links, Package, find_boxes, is_on

# Elements that hold properties or old versions of them, and furigana (rt).
_SKIPPED = set(
    ["pPr", "rPr", "tblPr", "tblGrid", "tcPr", "trPr", "sectPr", "sdtPr", "sdtEndPr", "bodyPr", "ffData", "rt"]
)
_WRAPPERS = set(["sdt", "sdtContent", "customXml", "ins", "moveTo", "AlternateContent", "Choice"])
_LETTERS = {"noBreakHyphen": "-", "tab": "\t", "br": "\n", "cr": "\n"}
_WINGDINGS = {"F0FE": "■", "F0FD": "■", "F0FC": "■", "F0E0": "→", "F0E8": "→", "F06C": "●"}  # ■: ticked; others are □
_HEADING = re.compile(r"(?:heading|見出し) ?[1-6]", re.IGNORECASE)  # a style of programs that write no level
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
        body, links = self._package.xml(self._package.main), self._package.links(self._package.main)
        used = {each.get("id", "") for each in body.iter() if each.tag in ("headerReference", "footerReference")}
        edges = dict[str, None]()
        for part in sorted(links[edge][1] for edge in used & links.keys()):
            self._links, root = self._package.links(part), self._package.xml(part)
            edges[self._out.text_of(lambda root=root: self._blocks(root))] = None  # type: ignore[misc]
        for text in edges:
            if any(letter.isalpha() for letter in text):  # more than a page's number
                self._out.add(text, is_tight=True)
        self._links = links
        self._is_titled = any(self._is_title(each.get("val", "")) for each in body.iter("pStyle"))
        self._blocks(body)

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
        left, below = defaultdict[str, str](str), list[Element | str]()
        text = self._inline(paragraph, style, left, below).strip()
        names = (style, *(_value(each, "name") for each in self._chain(style)))
        links = "".join(f"（{link}）" for link in below if isinstance(link, str) and link not in text)
        level = self._property(own, style, "outlineLvl") or next(
            (str(int(n[-1]) - 1) for n in names if _HEADING.fullmatch(n)), ""
        )
        if text:
            marker = self._marker(own, style)
            if self._is_title(style):
                self._out.add(f"# {' '.join(text.split())}", is_markdown=True)
            elif level in tuple("012345"):
                depth = min(int(level) + 1 + self._is_titled, 6)
                self._out.add(f"{'#' * depth} {marker}{' '.join(text.split())}", is_markdown=True)
            else:
                self._out.add(marker + text + links, is_tight=bool(marker), is_markdown=bool(marker))
        for why, gone in left.items():
            if gone.strip():
                self._out.leave(why, gone)
        for box in below:
            if not isinstance(box, str):
                self._blocks(box)

    def _inline(self, parent: Element, style: str, left: dict[str, str], below: list[Element | str]) -> str:
        """Return the text of a line; collect in `left` what is left out, in `below` boxes, footnotes and addresses."""
        text = ""
        for child in parent:
            match child.tag:
                case "t":
                    text += child.text or ""
                case "sym":
                    text += _WINGDINGS.get(child.get("char", "").upper(), "□")
                case "r":
                    run = self._inline(child, style, left, below)
                    why = self._why_left(child, style)
                    if why:
                        left[why] += run
                    else:
                        text += run
                case "del" | "moveFrom":
                    left[say("deleted with tracked changes, and left out")] += _text(child)
                case "instrText":
                    self._code += child.text or ""
                case "fldChar":
                    ruby = _EQ_RUBY.search(self._code) if child.get("fldCharType") == "end" else None
                    text, self._code = text + (ruby[1] if ruby else ""), ""
                case "footnoteReference" | "endnoteReference":
                    below += [*filter(None, [self._notes.get((child.tag[:-9], child.get("id")))])]
                case "commentReference":
                    comment = self._notes.get(("comment", child.get("id")))
                    self._out.leave(say("comments are not read"), "" if comment is None else _text(comment))
                case "drawing" | "pict" | "object":
                    for found in find_boxes(child, self._package, self._links):
                        if isinstance(found, str):
                            self._out.leave(found)
                        else:
                            below.append(found)
                case tag if tag not in _SKIPPED:
                    text += _LETTERS.get(tag, "") + self._inline(child, style, left, below)
                    kind, target = self._links.get(child.get("id", ""), ("", ""))
                    below += [target] if tag == kind == "hyperlink" else []
        return text

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

    def _is_title(self, style: str) -> bool:
        return style in self._styles and _value(self._styles[style], "name").lower() == "title"

    def _marker(self, own: Element | None, style: str) -> str:
        """Return what stands before a paragraph of a list or a numbered heading: "1. ", "第2章 ", "- ", or ""."""
        group = self._lists.get(self._property(own, style, "numPr/numId"), "")
        at = int(self._property(own, style, "numPr/ilvl") or 0)
        if (group, at) not in self._levels:
            return ""
        if _value(self._levels[group, at], "numFmt") == "bullet":
            return "  " * at + "- "
        self._counts[group, at] = (
            self._counts[group, at] or int(_value(self._levels[group, at], "start") or 1) - 1
        ) + 1
        for deeper in range(at + 1, 9):
            self._counts[group, deeper] = 0

        def shown(found: re.Match[str]) -> str:
            level = int(found[1]) - 1
            count = self._counts[group, level] or 1
            series = _SERIES.get(_value(self._levels[group, level], "numFmt"), "")
            return series[count - 1] if count <= len(series) else str(count)

        label = re.sub(r"%(\d)", shown, _value(self._levels[group, at], "lvlText"))
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
        elif child.tag in _WRAPPERS:
            yield from _within(child, tag)
