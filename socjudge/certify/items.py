"""Split an answer into items, so that one item can be changed while the others stay. Join the items again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..base.texts import change_citations, fold

_NUMBERED = re.compile(r"^\s*\d+[.)．]\s*")
_MARKED = re.compile(r"^\s*(?:\d+[.)．]|[-*・●]|[①-⑳])\s*")
_WARNING = re.compile(r"^\s*(?:⚠|【?(?:警告|注意)】?[:：])")
_HEADING = re.compile(r"^\s*#|[:：]\s*$")
_FENCE = re.compile(r"^\s*```")
_ENDED = re.compile(r"(?:[。．.!！?？:：]|[\])）】］])\s*$")


@dataclass(frozen=True)
class Item:
    """Hold one step, warning or paragraph of an answer, with the code or the line of citations after it."""

    text: str  # exactly as in the answer, with the line breaks after it: all items joined are the answer

    @property
    def is_warning(self) -> bool:
        return bool(_WARNING.match(self.text))

    @property
    def is_numbered(self) -> bool:
        return bool(_NUMBERED.match(self.text))

    @property
    def is_statement(self) -> bool:
        """Return whether this makes a statement. A warning, heading, list of citations or very short text does not."""
        said = without_citations(self.text)
        return not self.is_warning and not _HEADING.search(said.split("\n")[0]) and len(fold(said)) >= 8

    @property
    def marker(self) -> str:
        """Return the item's number or bullet with the space after it. Return "" if it has neither."""
        found = _MARKED.match(self.text)
        return found[0] if found else ""

    @property
    def body(self) -> str:
        """Return the item's text after the marker."""
        return self.text[len(self.marker) :]


def split_items(text: str) -> list[Item]:
    """Split an answer into its items. The items joined are the answer again."""
    pieces: list[str] = []
    in_code = False
    before = ""
    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        only_cites = not change_citations(line, lambda _: "").strip()
        starts = bool(_MARKED.match(line) or _WARNING.match(line) or not before.strip() or _ENDED.search(before))
        if pieces and (in_code or fence or only_cites or not starts):
            pieces[-1] += line
        else:
            pieces.append(line)
        in_code ^= fence
        before = line
    return [Item(piece) for piece in pieces]


def join_items(items: Iterable[Item]) -> str:
    """Join the items into a text. A line break is added to each item that has none at its end, except the last item."""
    listed = [item.text for item in items]
    return "".join([*(t if t.endswith("\n") else t + "\n" for t in listed[:-1]), *listed[-1:]])


def without_citations(text: str) -> str:
    """Return a text without its citations and the spaces before them."""
    return re.sub(r"[ \t]+(?=\n|$)", "", change_citations(text, lambda _: ""))
