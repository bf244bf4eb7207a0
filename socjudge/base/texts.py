"""Split Japanese answers and runbook passages into units and statements, and compare texts.

A unit is a sentence, a heading, a table row or a command line. A statement can be quoted alone: a list item, a paragraph,
a code block, or a table row that was turned into a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import add
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

# With a bound, because many brackets that are never closed would take quadratic time.
CITATION = re.compile(
    r"(?:[\[［]\s*(?:出典|参照|source)\s*[:：]\s*(?P<square>[^\]］]{1,500})[\]］]"
    r"|【\s*(?:出典|参照|source)\s*[:：]\s*(?P<lens>[^】]{1,500})】"
    r"|[(（]\s*(?:出典|参照|source)\s*[:：]\s*(?P<round>[^)）]{1,500})[)）])",
    re.IGNORECASE,
)
_MARKER = re.compile(r"^\s*(?:[-*●]\s+(?:\[[ x]\]\s*)?|・\s*|\(?\d+[.)）、．]\s*|[①-⑳]\s*)")
_FENCE = re.compile(r"^\s*```")
_SENTENCE_END = re.compile(r"(?<=[。！？!?])\s*")
_TABLE_RULE = re.compile(r"^[\s|:-]+$")
_IGNORED = re.compile(r"[\s、。,.，．・:：;；!！?？\-*`「」『』（）()\[\]【】|#>~〜…\"']+")

_FILLERS = "\u115f\u1160\u3164\uffa0\u2800\U0001d159"  # Unicode calls them letters and symbols, but they are invisible
# Control, format, private, unassigned and combining characters; variation selectors are among the last.
_UNSEEN_KINDS = ("Cc", "Cf", "Co", "Cn", "Mn", "Me")
# Control characters (ANSI codes), characters that change the direction of writing or are invisible, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
# PDFs often give a radical in place of the letter that looks the same. NFKC keeps those of the first block, and for
# four of the second (戸青黄黒) it takes letters that are not used in Japan.
_RADICALS = "⺁⺄⺊⺎⺒⺓⺜⺝⺟⺠⺧⺩⺬⺮⺶⺼⺽⻁⻄⻆⻑⻗⻘⻝⻞⻣⻤⻨⻩⻫⻭⻯⻱⻲⼾⾭⿈⿊"
_LETTERS = "厂乙卜兀巳幺日月母民牛王示竹羊月臼虎西角長雨青食食骨鬼麦黄斉歯竜龜亀戸青黄黒"
_WHOLE = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x2F00, 0x2FD6)}
_WHOLE |= dict(zip(map(ord, _RADICALS), _LETTERS, strict=True))
# What one letter of Shift_JIS becomes depends on who reads it: Windows, or JIS. NFKC tells these apart.
_SAME: dict[int, str] = _WHOLE | dict.fromkeys(map(ord, "‐‑‒–—―−"), "-") | {ord("∥"): "‖"}
# Windows takes a file of such a name for a device, whatever its extension is.
DEVICE_NAME = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
LONGEST_TITLE = 12  # characters of a column's title
# The severity S3, but not Amazon's storage: S3バケット, AWS S3, S3 bucket.
_SEVERITY = re.compile(
    r"(?<![A-Za-z0-9])(?<!amazon )(?<!aws )S[1-4](?![A-Za-z0-9])(?!\s*(?:の)?(?:バケット|ストレージ|オブジェクト|bucket|storage|object))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Unit:
    text: str
    group: int  # a number that all units of the same list item or paragraph have in common
    is_code: bool = False
    is_heading: bool = False
    is_warning: bool = False
    cited: tuple[str, ...] = ()  # the sources that the text cites for this unit


def split_units(text: str) -> list[Unit]:
    """Return the units of a Markdown text in order, each with the sources that are cited for it."""
    units: list[Unit] = []
    group, block, in_code = 0, 0, False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
            if not CITATION.search(line):
                continue
            line = line.replace("```", "")
        sources = tuple((found[found.lastgroup or 0]).strip() for found in CITATION.finditer(line))
        body = CITATION.sub("", line).strip()
        if not in_code and (not line.strip() or _MARKER.match(line) or line.lstrip().startswith(("#", "⚠"))):
            group += 1
        if not in_code and not line.strip():
            block = group
        units += _line_units(body, group, in_code)
        # A citation belongs to those units before it, in its list item or paragraph, that have no citation yet. On a
        # line of its own, it belongs to all such units back to the previous blank line. If that blank line stands
        # directly above the citation, it belongs to the last list item or paragraph before the blank line.
        if sources and units:
            first = units[-1].group if body else min(block, units[-1].group)
            place = len(units)
            while place and units[place - 1].group >= first:
                place -= 1
                if not units[place].cited:
                    units[place] = replace(units[place], cited=sources)
    return units


def _line_units(body: str, group: int, in_code: bool) -> Iterator[Unit]:
    if not body or _TABLE_RULE.match(body):
        return
    if in_code:
        yield Unit(body, group, is_code=True)
        return
    if body.startswith("#"):
        yield Unit(body.lstrip("# "), group, is_heading=True)
        return
    if body.startswith("|"):
        yield Unit(" ".join(cell.strip() for cell in body.strip("|").split("|")), group)
        return
    warning = body.startswith("⚠")
    plain = _MARKER.sub("", body)
    if plain.endswith((":", "：")) or re.fullmatch(r"\*\*.+\*\*[:：]?", plain):
        yield Unit(plain.strip("*:："), group, is_heading=True)
        return
    for sentence in _SENTENCE_END.split(plain):
        if sentence.strip():
            yield Unit(sentence.strip(), group, is_warning=warning)


def change_citations(text: str, change: Callable[[str], str]) -> str:
    """Replace each citation in a text, with its brackets, by `change(the source that it names)`."""
    return CITATION.sub(lambda found: change(found[found.lastgroup or 0].strip()), text)


def cited_sources(text: str) -> list[str]:
    return list(dict.fromkeys(found[found.lastgroup or 0].strip() for found in CITATION.finditer(text)))


def encodable(text: str) -> str:
    """Return the text with "?" in place of each lone surrogate, because files and tokenisers do not accept these."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return str.__str__(text)  # a plain str, even for a subclass


def local_time(moment: datetime) -> str:
    """A point in time as all views show it, in this machine's time zone: 2026-01-01 09:00:00 +09:00."""
    text = moment.astimezone().isoformat(sep=" ", timespec="seconds")
    return f"{text[:19]} {text[19:]}"


def visible(text: str) -> str:
    """Return the text with invisible characters made visible, such as ESC as ⟦U+001B⟧."""
    return _UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text.replace("\r\n", "\n"))


def whole_letters(text: str) -> str:
    """Return the text with whole letters in place of radicals that look the same, such as 長 for ⻑."""
    return text.translate(_WHOLE)


def normalise_text(text: str) -> str:
    """Return a text in NFKC and lower case, for comparing texts. NFKC turns ＥＤＲ into EDR and ｴﾗｰ into エラー.
    Letters that look the same become the same: radicals of PDFs, and dashes and bars of different encodings."""
    return unicodedata.normalize("NFKC", text.translate(_SAME)).lower()


@lru_cache(4_000)
def fold(text: str) -> str:
    """Return the text in a form for comparisons: `normalise_text` without spaces and punctuation."""
    return _IGNORED.sub("", normalise_text(text))


@lru_cache(maxsize=2_000)
def bigrams(text: str) -> frozenset[str]:
    """The pairs of neighbouring characters of a folded text; of one character, that character."""
    return frozenset(map(add, text, text[1:])) or frozenset([text] if text else [])


def containment(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def split_blocks(text: str) -> list[str]:
    """Return the pieces of a text without tables that can be quoted: list items without markers, paragraphs, and code
    blocks with their fences and the paragraph before them."""
    blocks: list[str] = []
    lines = iter(text.splitlines())
    continues = paragraph = False
    for line in lines:
        if _FENCE.match(line):
            code = [line]
            for inner in lines:
                code.append(inner)
                if _FENCE.match(inner):
                    break
            introduction = blocks.pop() + "\n" if blocks and paragraph else ""
            blocks.append(introduction + "\n".join(code) + "\n")
            continues = paragraph = False
        elif not line.strip() or line.startswith("#") or _TABLE_RULE.match(line):
            continues = False
        elif continues and not _MARKER.match(line):
            blocks[-1] += line.strip()
        else:
            blocks.append(_MARKER.sub("", line).strip())
            continues, paragraph = True, not _MARKER.match(line)
    return [block for block in blocks if len(fold(block)) >= 8]  # without spaces and punctuation


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
    """The rows of a Markdown table as sentences with its heads: "S3（中）: SOCリーダーへ60分以内、CSIRT責任者へ当日中"."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if not _TABLE_RULE.match(line)]
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


def plain_name(name: str) -> str:
    """Return a person's name in one uniform spelling: NFKC, with single spaces, and without invisible characters."""
    return " ".join(without_unseen(unicodedata.normalize("NFKC", name)).split())


def without_unseen(text: str) -> str:
    return "".join(
        letter
        for letter in text
        if letter.isspace() or (unicodedata.category(letter) not in _UNSEEN_KINDS and letter not in _FILLERS)
    )


def fold_name(name: str) -> str:
    """A name in a form for comparisons: NFKC in lower case, letters and digits alone, without さん, 様 or 氏."""
    letters = unicodedata.normalize("NFKC", name).casefold()
    folded = "".join(letter for letter in letters if unicodedata.category(letter)[0] not in "CPSZ")
    return re.sub("(?:さん|様|氏)$", "", folded) or folded
