"""Collect the text of a document that is being read, and what a person sees in it that is not read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ..base.messages import say
from ..base.sheets import unpack_office

Links = Mapping[str, tuple[str, str]]  # {id: (kind, part or address)}

# Lines of plain text that Markdown would take for a heading, code, HTML or a rule.
_MARKUP = re.compile(r"^(?=\s{0,3}(?:[#＃<]|```|~~~|=+\s*$|-+\s*$))", re.MULTILINE)
_NAMED = 30  # letters of a text that is named


class Document:
    """Hold what was read of a document, in order, and `left`: {what was not read, and why: its places}."""

    def __init__(self) -> None:
        self.left: dict[str, dict[str, None]] = {}
        self.blocks: list[str] = []  # each with the line ends before it
        self.is_tight = False  # whether the last block may be joined

    def add(self, text: str, *, is_tight: bool = False, is_markdown: bool = False) -> None:
        """Add a paragraph. No empty line is between two that are tight, such as items of a list."""
        if text := text.strip("\n"):
            text = text if is_markdown else _MARKUP.sub("    ", text)
            self.blocks.append(("\n" if is_tight and self.is_tight else "\n\n") + text)
            self.is_tight = is_tight

    def add_table(self, rows: Sequence[Mapping[int, str]], merged: Mapping[int, Mapping[int, str]], rule: str) -> None:
        """Add a table of rows {column: text}. `merged` has the texts of cells that began above a row, which it gets if
        it has a text of its own. Columns without text are left out. `rule` is below each column's head."""
        filled = [dict(merged.get(n, {})) | dict(row) for n, row in enumerate(rows) if any(row.values())]
        columns = sorted({column for row in filled for column, text in row.items() if text})
        lines = ["| " + " | ".join(" ".join(row.get(n, "").split()) for n in columns) + " |" for row in filled]
        rules = ["|" + rule * len(columns)] if rule and len(lines) > 1 else []
        if len(columns) == 1:
            lines, rules = ["\n".join(row.get(columns[0], "") for row in filled)], []
        self.add("\n".join([*lines[:1], *rules, *lines[1:]]))

    def text_of(self, read: Callable[[], object]) -> str:
        """Return on one line, for a cell, what `read` adds."""
        outer, self.blocks, self.is_tight = self.blocks, [], False
        read()
        inner, self.blocks, self.is_tight = self.blocks, outer, False
        plain = (
            re.sub(r"\|( --- \|)*", " ", text) if text.lstrip()[:1] == "|" else text.lstrip("\n# ") for text in inner
        )
        return " ".join(" ".join(plain).split())

    def leave(self, what: str, text: str = "", *, place: str = "", after: str = "") -> None:
        """Note what is not read: its text if it has one, and its place, which is otherwise what was read before it."""
        if not (text or place or after) and self.blocks:
            after = self.blocks[-1].splitlines()[-1].strip("# ")
        named = " ".join((text or after).split())
        named = f"「{named[:_NAMED]}…」" if len(named) > _NAMED else f"「{named}」" if named else ""
        found = say("after {text}", text=named) if after else f"{place} {named}".strip() or say("at the beginning")
        self.left.setdefault(what, {})[found] = None


class Package:
    """Hold the XML parts of an Office file."""

    def __init__(self, raw: bytes) -> None:
        self._parts = unpack_office(raw)
        self.main = self.related("", "officeDocument")[0]

    def xml(self, part: str) -> Element:
        """Return the root of a part, empty if there is none. Names are without namespaces, of which there are two."""
        root = ElementTree.fromstring(self._parts.get(part, b"<none/>"))
        for element in list(root.iter()):
            element.tag = element.tag.rpartition("}")[2]
            element.attrib = {name.rpartition("}")[2]: value for name, value in element.items()}
            if element.tag == "AlternateContent":
                del element[1:]  # the same once more, for old programs
        return root

    def links(self, part: str) -> Links:
        folder, name = posixpath.split(part)
        found = {}
        for each in self.xml(posixpath.join(folder, "_rels", f"{name}.rels")):
            target = each.get("Target", "")
            if each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[each.get("Id", "")] = (each.get("Type", "").rpartition("/")[2], target)
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """Return the parts of a kind, such as "styles", that a part refers to."""
        return [target for found, target in self.links(part).values() if found == kind]


def find_boxes(drawing: Element, package: Package, links: Links) -> Iterator[Element | str]:
    """Yield the text boxes of a drawing, and in place of anything else a sentence that it is not read."""
    for child in drawing:
        match child.tag:
            case "txbxContent" | "txBody":
                yield child
            case "relIds":  # SmartArt
                yield package.xml(links.get(child.get("dm", ""), ("", ""))[1])
            case "blip" | "imagedata" | "textpath":
                yield say("text in pictures is not read")
            case "chart":
                yield say("charts are not read")
            case "OLEObject":
                yield say("embedded files are not read")
            case _:
                yield from find_boxes(child, package, links)


def is_on(properties: Element | None, *names: str) -> bool | None:
    """Return whether one of these properties is switched on, or None if none is said."""
    found = [each for name in names if properties is not None and (each := properties.find(name)) is not None]
    return any(each.get("val", "true") not in ("0", "false", "off") for each in found) if found else None
