"""Find runbook files, decode or convert them, and split them at headings into passages."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..base.messages import listed, say
from ..base.texts import whole_letters
from ..errors import ConfigError
from .companions import COMPANION_NAMES, MOST_NAMED, hash_companions, read_bytes
from .convert import CONVERTERS, clean_markdown, convert_to_markdown

if TYPE_CHECKING:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

TEXT_SUFFIXES = (".md", ".markdown", ".txt")

# The most characters per passage. Most sections stay whole, with their commands. benchmarks/assistant.md compares sizes.
CHUNK_SIZE = 800

# Encodings of Japanese runbooks that are not UTF-8. euc_jis_2004 reads all of EUC-JP and its ①②.
_ENCODINGS = ["cp932", "euc_jis_2004", "utf_16", "utf_16_le", "utf_16_be"]
_ENCODINGS_7_BIT = ["iso2022_jp", "iso2022_jp_2004", "iso2022_jp_ext"]


# Not a heading: #!/bin/sh, #123 or #command, which have one mark and no space.
_LOOSE_HEADING = re.compile(
    r"^( {0,3})([#＃]{1,6})(?:[^\S\n]+(?=\S)|(?<=[#＃]{2})(?![#＃!\s])|(?=[^\W\d_])(?![a-zA-Z]))", re.M
)
_ITEM = r"[　 ]{0,3}[０-９]{1,2}[．.、　][^\n。]{1,30}\n"
_LONE_NUMBER = re.compile(rf"(\A|\n[^\S\n]*\n)(?!{_ITEM}\s*{_ITEM})({_ITEM})(?=[^\S\n]*\n)")
_NUMBERED = re.compile(r"\s*()()【[\d一二三四五六七八九十]{1,3}】\s*[^。]+")  # 【１】　目的
_FRONT_MATTER = re.compile(r"---[ \t]*\n((?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|$)")
_FRONT_MATTER_LINE = re.compile(r"[^\s:#-][^:]*:(?:\s|$)|\s|#|-\s|$")  # a field; or its list, comment or next line
_TITLE = re.compile(r"""^title:[ \t]+(["']?)(.*?)\1[ \t]*(?:[ \t]#.*)?$""", re.M)
_NUMBER = re.compile(r"^第?[0-9０-９]+(?:[.．－-][0-9０-９]+)*\s*[章節項.．、)）:：]?\s*")


@dataclass(frozen=True)
class Chunk:
    """Hold a passage as it is indexed: a section of a runbook, or a piece of one."""

    text: str  # as written
    source: str  # the path inside the runbooks folder, with "/" on every system
    heading: str  # the path of headings, such as "初動対応 > Windows端末"; "" above the first heading
    title: str  # of the runbook
    questions: tuple[str, ...] = ()  # that this passage answers, from `questions.json`

    @property
    def search_text(self) -> str:
        """Return the text of the passage that is embedded. Title and heading raise the recall of the search."""
        return "\n".join(part for part in (self.title, self.heading, self.text) if part)

    @property
    def words_text(self) -> str:
        """Return the text that BM25 indexes: `search_text` and the questions that the passage answers."""
        return "\n".join([self.search_text, *self.questions])

    @property
    def sentences(self) -> list[str]:
        """Return the passage's title, heading, sentences and list items. Each gets a vector of its own.
        Blocks of commands and texts shorter than 8 characters are left out."""
        return split_sentences(self.search_text)


@dataclass(frozen=True)
class Runbook:
    """Hold one runbook file: its path inside the runbooks folder, the SHA-256 of its bytes, and its passages."""

    source: str
    sha256: str
    chunks: tuple[Chunk, ...]


def load_runbooks(folder: Path | str) -> list[Runbook]:
    """Load every readable runbook under `folder`, sorted by path.
    A UserWarning names each file that was skipped, and each file whose encoding had to be guessed.
    Raises ConfigError if there is no folder or no text in it, or if a file cannot be read, decoded or converted."""
    folder = Path(folder)
    runbooks = []
    for path, source in find_runbooks(folder):
        data = read_bytes(path)
        text, notes = decode_runbook(data, path)
        chunks = split_runbook(text, source)
        for note in notes:
            warnings.warn(f"{path}: {note.what}{note.shown_places}", stacklevel=2)
        if not chunks:
            warnings.warn(say("{path}: no text below its headings; skipped", path=path), stacklevel=2)
        if chunks:
            runbooks.append(Runbook(source, hashlib.sha256(data).hexdigest(), tuple(chunks)))
    if not runbooks:
        known = " ".join([*TEXT_SUFFIXES, *CONVERTERS])
        raise ConfigError("{folder}: no runbook found; put files there ({known})", folder=folder, known=known)
    return runbooks


def find_runbooks(folder: Path | str) -> list[tuple[Path, str]]:
    """Return (path, source) of each runbook file under `folder`, sorted by source, which is the path inside `folder`.
    Files of unknown type, links to folders, and links out of the folder are left out with a UserWarning.
    Raises ConfigError if the folder does not exist."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError("{folder}: no such runbooks folder; create it and put your runbooks there", folder=folder)
    root = folder.resolve()
    found = []
    for path in _walk(folder):
        if path.parent == folder and path.name in COMPANION_NAMES:
            continue
        if not path.resolve().is_relative_to(root):
            warnings.warn(say("{path}: leads out of the runbooks folder; skipped", path=path), stacklevel=2)
        elif path.is_dir():
            warnings.warn(say("{path}: linked folders are not followed; skipped", path=path), stacklevel=2)
        elif path.suffix.lower() not in (*TEXT_SUFFIXES, *CONVERTERS):
            suffix = path.suffix or say("no suffix")
            warnings.warn(say("{path}: not a runbook type ({suffix}); skipped", path=path, suffix=suffix), stacklevel=2)
        else:
            # NFC, because macOS decomposes file names and the fingerprint must not depend on the machine.
            found.append((path, unicodedata.normalize("NFC", path.relative_to(folder).as_posix())))
    return sorted(found, key=lambda item: item[1])


def hash_runbooks(folder: Path | str) -> dict[str, str]:
    """Return {file: SHA-256} of the bytes of the runbooks, and of the content of the JSON files beside them."""
    if not Path(folder).is_dir():
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skipped files were reported when the index was built
        files = find_runbooks(folder)
    hashes = {source: hashlib.sha256(read_bytes(path)).hexdigest() for path, source in files}
    return hashes | hash_companions(folder)


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the title in the front matter of a text, "" if there is none, and the text below the front matter.
    Front matter is lines of YAML between --- lines at the top. Of it, no more than `title: …` is understood."""
    match = _FRONT_MATTER.match(text)
    if not match or not all(map(_FRONT_MATTER_LINE.match, match[1].splitlines())):  # or prose between horizontal rules
        return "", text
    title = _TITLE.search(match[1])
    return title[2] if title else "", text[match.end() :]


def split_runbook(text: str, source: str, *, chunk_size: int = CHUNK_SIZE) -> list[Chunk]:
    """Split the text of one runbook into passages of at most `chunk_size` characters, in order. No body text is lost.
    Sections follow the headings of CommonMark, or in a .txt or .pdf file, headings such as ■初動対応.
    Of the front matter, only the title is used."""
    stated, body = split_front_matter(text)
    lines = body.split("\n")
    headings = _plain_headings(lines) if source.lower().endswith((".txt", ".pdf")) else _markdown_headings(body)
    # The only H1 of a text is its title, and no part of the heading paths.
    top = [title for _, _, level, title in headings if level == 1]
    title = stated or (top[0] if len(top) == 1 else Path(source).stem)
    splitter = _make_splitter(chunk_size)
    chunks = []
    for heading, section in _sections(lines, headings, skip_h1=len(top) == 1):
        for piece in splitter.split_text(section):
            if piece.strip():
                chunks.append(Chunk(piece.rstrip().lstrip("\n"), source, heading, title))
    return chunks


def unnumbered(heading: str) -> str:
    """Return a heading without the number before it. 1. 目的, 第2章 目的 and ３－１ 目的 all become 目的."""
    return _NUMBER.sub("", heading)


def split_sentences(text: str) -> list[str]:
    """Return the sentences, list items and table rows of a text, if longer than 7 characters, without code."""
    text = re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(?:#+|\d+\.|[-*+](?: \[[ xX]\])?)\s|[|`*\\]|-{3,}", " ", text, flags=re.MULTILINE)
    pieces = re.split(r"(?<=[。．？！?!])|(?<=\.)\s|\n", text)
    return [piece for piece in (" ".join(p.split()) for p in pieces) if len(piece) >= 8]


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        linked = [name for name in folders if Path(parent, name).is_symlink()]
        # ~$ begins the name of a lock file of Office.
        yield from (Path(parent, name) for name in [*linked, *files] if not name.startswith((".", "~$")))


class Note(NamedTuple):
    """Hold what a reader of a runbook must know: of its encoding, or what a person sees in it that was not read."""

    problem: str  # a short name, for tables
    what: str
    places: tuple[str, ...] = ()

    @property
    def shown_places(self) -> str:
        """Return the first places, in brackets."""
        more = (
            [say("{count} more places", count=len(self.places) - MOST_NAMED)] if len(self.places) > MOST_NAMED else []
        )
        return f" ({listed([*self.places[:MOST_NAMED], *more])})" if self.places else ""


def decode_runbook(data: bytes, path: Path) -> tuple[str, list[Note]]:
    """Return a runbook's text as Markdown with its front matter, and what its reader must know.
    Raises ConfigError if the file cannot be decoded or converted."""
    suffix = path.suffix.lower()
    notes = []
    if suffix not in CONVERTERS or suffix.startswith(".htm"):
        text, encoding = _decode(data, path)
        if encoding != "utf-8":
            notes.append(Note("encoding", say("read as {encoding}; save it as UTF-8 to be sure", encoding=encoding)))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        data = text.encode("utf-8")
    left: dict[str, dict[str, None]] = {}
    if suffix in CONVERTERS:
        text, left = convert_to_markdown(data, suffix, str(path))
    elif suffix != ".txt":
        text, left = clean_markdown(text)
    notes += [Note("not read", what, tuple(places)) for what, places in left.items()]
    return whole_letters(text), notes


def _decode(data: bytes, path: Path) -> tuple[str, str]:
    is_7_bit_japanese = b"\x1b$" in data or b"\x1b(" in data
    if b"\0" not in data and not is_7_bit_japanese:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("utf-8-sig"), "utf-8"
    # Every detector takes ISO-2022-JP for ASCII, so its escape sequences decide.
    for encoding in _ENCODINGS_7_BIT if is_7_bit_japanese else ():
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode(encoding), encoding
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=_ENCODINGS).best()
    if best is None or "\0" in str(best):
        raise ConfigError(
            "{path}: is neither UTF-8 nor Shift_JIS, EUC-JP, ISO-2022-JP or UTF-16; open it in an editor, and save it "
            "as UTF-8",
            path=path,
        )
    return str(best).removeprefix("\ufeff"), best.encoding


_Heading = tuple[int, int, int, str]  # first line, line after it, level 1-6, title


def _markdown_headings(body: str) -> list[_Heading]:
    """LangChain's MarkdownHeaderTextSplitter strips lines, and takes an indented `# comment` for a heading."""
    from markdown_it import MarkdownIt

    # Text is written by people: ##題, ##　題 (with U+3000 or U+00A0) and ＃＃ 題 are headings to whoever sees them, and
    # so is １．目的 alone between empty lines. It may be below any other heading.
    body = _LOOSE_HEADING.sub(lambda found: f"{found[1]}{'#' * len(found[2])} ", body)
    tokens = MarkdownIt("commonmark").parse(_LONE_NUMBER.sub(_lone_heading, body))
    headings = []
    for token, inline in pairwise(tokens):
        if token.type != "heading_open" or token.level or not token.map:
            continue
        first, after = token.map
        if "\n" not in inline.content:  # several lines above a --- line are prose with a rule below
            headings.append((first, after, int(token.tag[1]), _plain(inline.content)))
    return headings


def _lone_heading(found: re.Match[str]) -> str:
    before = found.string[max(found.start() - 50, 0) : found.start()].strip().rpartition("\n")[2]
    is_last_item = re.match(_ITEM, f"{before}\n")
    return found[0] if is_last_item else f"{found[1]}###### {found[2]}"


def _plain(title: str) -> str:
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"\*\*|__|`", "", title).strip()


def _plain_headings(lines: list[str]) -> list[_Heading]:
    headings = []
    for number, line in enumerate(lines):
        match = re.fullmatch(r"\s*(?:[■◆●]\s*(\S.*?)|【([^】]+)】)\s*", line) or _NUMBERED.fullmatch(line)
        if match:
            headings.append((number, number + 1, 2, match[1] or match[2] or match[0].strip()))
    return headings


def _sections(lines: list[str], headings: list[_Heading], *, skip_h1: bool) -> Iterator[tuple[str, str]]:
    path: dict[int, str] = {}
    start = 0
    for first, after, level, title in [*headings, (len(lines), len(lines), 0, "")]:
        shown = [name for depth, name in sorted(path.items()) if name and not (skip_h1 and depth == 1)]
        yield " > ".join(shown), "\n".join(lines[start:first])
        path = {depth: name for depth, name in path.items() if depth < level} | {level: title}
        start = after


@lru_cache(maxsize=4)
def _make_splitter(chunk_size: int) -> RecursiveCharacterTextSplitter:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    # Whitespace is kept: stripping would lose the indentation of a command that starts a passage.
    return RecursiveCharacterTextSplitter(
        chunk_size=chunk_size,
        chunk_overlap=0,
        separators=["\n\n", "\n", "。", "．", "、", " ", ""],
        keep_separator="end",
        strip_whitespace=False,
    )
