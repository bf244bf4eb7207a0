"""Split passages of runbooks into statements that can be quoted alone.

A statement is a list item, a paragraph, a code block, or a table row that was turned into a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from .texts import split_blocks

LONGEST_TITLE = 12  # characters of a column's title
_RULE = re.compile(r"^[\s|:-]+$")
# The severity S3, but not Amazon's storage: S3バケット, AWS S3, S3 bucket.
_SEVERITY = re.compile(
    r"(?<![A-Za-z0-9])(?<!amazon )(?<!aws )S[1-4](?![A-Za-z0-9])(?!\s*(?:の)?(?:バケット|ストレージ|オブジェクト|bucket|storage|object))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """What can be quoted alone: a table row as a sentence with the headings, code with the paragraph before it."""

    text: str
    kind: Literal["text", "row", "code"] = "text"


def read_statements(text: str) -> Iterator[Statement]:
    lines = text.splitlines()
    fenced = False
    marked = []
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        marked.append((line.startswith("|") and not fenced, line))
    for is_table, group in groupby(marked, key=lambda item: item[0]):
        part = [line for _, line in group]
        if is_table:
            yield from (Statement(row, "row") for row in read_table(part))
        else:
            for block in split_blocks("\n".join(part)):
                yield Statement(block, "code" if "```" in block else "text")


def read_table(lines: Sequence[str]) -> list[str]:
    """Return the rows of a Markdown table as sentences, such as "S3（中）: SOCリーダーへ60分以内、CSIRT責任者へ当日中". The headings stand
    with the cells, because a cell alone says nothing."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if not _RULE.match(line)]
    if all(len(cells) == 1 for cells in rows):  # a list in a sheet; its first cell may be a title
        return [cell for n, (cell,) in enumerate(rows) if n or cell.endswith("。") or len(cell) > LONGEST_TITLE]
    if len(rows) < 2:
        return []
    titles = rows[0]
    return [_row_sentence(titles, cells) for cells in rows[1:]]


def find_severities(question: str) -> set[str]:
    """Return the severities (S1 to S4) that a question names, such as {"S3"}. The S3 in "Amazon S3" does not count."""
    return {found.upper() for found in _SEVERITY.findall(question)}


def _row_sentence(titles: Sequence[str], cells: Sequence[str]) -> str:
    name = re.sub(r"^(\S+)\s+([^\s（]+)$", r"\1（\2）", cells[0])
    said = [
        f"{title}{cell}" if title.endswith(("へ", "に", "から", "まで")) else f"{title}は{cell}"
        for title, cell in zip(titles[1:], cells[1:], strict=False)
        if cell
    ]
    return f"{name}: {'、'.join(said)}" if said else name
