"""Read Word, Excel, PDF and HTML files as Markdown, and name what a person sees in them that is not read.

Word and Excel are read from their XML. Of the libraries that were tried, none leaves out what is struck out, hidden or
furigana, reads text boxes and merged cells, and says what it did not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..base.messages import say
from ..base.public import missing_extra
from ..errors import ConfigError
from .document import Document
from .excel import read_excel
from .word import read_word

if TYPE_CHECKING:
    from bs4 import Tag
    from pypdfium2 import PdfPage


def convert_to_markdown(data: bytes, suffix: str, name: str) -> tuple[str, dict[str, dict[str, None]]]:
    """Return the contents of a file as Markdown, and {what was not read: places}. HTML must already be UTF-8.
    Raises ConfigError without the extra, or if the file is damaged, encrypted or not of the type of its suffix."""
    document = Document()
    try:
        CONVERTERS[suffix](data, document)
    except ImportError as error:
        raise missing_extra(error, wanted=name) from error
    except Exception as error:  # each library raises its own errors (zip, XML, PDFium) on damaged files
        raise ConfigError(
            "{name}: cannot be read as {suffix} ({reason}); open it in its own program, save it again without "
            "a password, or move it out of the runbooks folder",
            name=name,
            suffix=suffix,
            reason=f"{type(error).__name__}: {error}",
        ) from error
    return "".join(document.blocks).strip("\n"), document.left


_UNSEEN = ["script", "style", "head", "noscript", "template", "rt", "rp"]  # rt and rp are furigana
_STRUCK = re.compile(r"text-decoration[^;]*line-through")
_MEDIA = re.compile(r"@[^{;]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")  # rules for printers or small screens
_HIDDEN = re.compile(r"display\s*:\s*none")


def _html(data: bytes, document: Document) -> None:
    from bs4 import BeautifulSoup
    from bs4.element import PreformattedString
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):  # type: ignore[misc]
        def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            return "\n\n" + _table(el) + "\n\n"

    text = data.decode("utf-8")
    end = text.rfind(">") + 1  # a tag that is never closed is text; the parser would search for its end again and again
    soup = BeautifulSoup(text[:end] + text[end:].replace("<", "&lt;"), "html.parser")
    struck = [*soup(["del", "s", "strike"]), *soup(style=_STRUCK)]
    hidden = [*soup(hidden=True), *soup(style=_HIDDEN)]
    rules = _MEDIA.sub("", " ".join(style.get_text() for style in soup("style")))
    for names, look in re.findall(r"([^{}]+)\{([^{}]*)\}", rules):
        for name in re.findall(r"\.([\w-]+)\s*(?:,|$)", names.strip()):  # the rules of classes
            struck += soup(class_=name) if _STRUCK.search(look) else []
            hidden += soup(class_=name) if _HIDDEN.search(look) else []
    for note in soup(string=lambda text: isinstance(text, PreformattedString)):
        note.extract()  # comments, and what only Office reads
    gone = {"": soup(_UNSEEN), say("struck out, and left out"): struck, say("hidden, and left out"): hidden}
    for why, tags in gone.items():
        for tag in tags:
            if not tag.decomposed:
                if why and tag.get_text().strip():
                    document.leave(why, tag.get_text())
                tag.decompose()
    for link in soup("a", href=re.compile("^#")):
        link.unwrap()
    for table in soup("table"):
        if table.find(["table", "h1", "h2", "h3", "h4"]):  # for the layout of the page
            for part in [table, *(each for each in table(["tbody", "tr", "td"]) if each.find_parent("table") is table)]:
                part.name = "div"
    for picture in soup(["img", "svg", "canvas", "object", "iframe"]):
        document.leave(
            say("text in pictures is not read"), after=str(picture.find_previous(string=re.compile(r"\S")) or "")
        )
    # no autolinks and no escaping, because the text is searched and quoted, never rendered
    converter = Converter(
        heading_style="ATX",
        strip=["img", "b", "strong", "em", "i"],
        autolinks=False,
        bullets="-",
        escape_underscores=False,
        escape_asterisks=False,
    )
    document.add(str(converter.convert_soup(soup)), is_markdown=True)


def _table(table: Tag) -> str:
    rows, merged = list[dict[int, str]](), dict[int, dict[int, str]]()
    for number, line in enumerate(line for line in table("tr") if line.find_parent("table") is table):
        row, column = dict[int, str](), 0
        cells = line(["td", "th"], recursive=False)
        for cell in cells:
            while column in merged.get(number, {}):
                column += 1
            wide, high = (min(int(str(cell.get(name) or 1)), 1_000) for name in ("colspan", "rowspan"))
            places = range(column, column + (wide if len(cells) > 1 else 1))
            row |= dict.fromkeys(places, cell.get_text(" "))
            for below in range(number + 1, number + high):
                merged.setdefault(below, {}).update(dict.fromkeys(places, cell.get_text(" ")))
            column += wide
        rows.append(row)
    inner = Document()
    inner.add_table(rows, merged, " --- |")
    return "\n\n".join(caption.get_text() for caption in table("caption")) + "".join(inner.blocks)


def _pdf(data: bytes, document: Document) -> None:
    import pypdfium2
    from pypdfium2 import raw

    pdf = pypdfium2.PdfDocument(data)
    try:
        for number, page in enumerate(pdf, start=1):
            place = say("page {page}", page=number)
            text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
            for struck in _struck(page):
                document.leave(say("struck out, and left out"), struck, place=place)
                text = text.replace(struck, "", 1)
            document.add(text)
            if not text.strip():
                document.leave(say("pages without text are not read"), place=place)
            elif next(page.get_objects([raw.FPDF_PAGEOBJ_IMAGE]), None):
                document.leave(say("text in pictures is not read"), place=place)
            notes = (raw.FPDFPage_GetAnnot(page, n) for n in range(raw.FPDFPage_GetAnnotCount(page)))
            if {raw.FPDFAnnot_GetSubtype(note) for note in notes} - {raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP}:
                document.leave(say("comments, stamps and fields of a form are not read"), place=place)
    finally:
        pdf.close()


def _struck(page: PdfPage) -> Iterator[str]:
    """Yield each text of a page through whose middle a line is drawn."""
    from pypdfium2 import raw

    bounds = [each.get_bounds() for each in page.get_objects([raw.FPDF_PAGEOBJ_PATH])]
    lines = [(left, (low + high) / 2, right) for left, low, right, high in bounds if high - low < 3 < 10 < right - left]
    text = page.get_textpage()
    boxes = [text.get_charbox(n, loose=True) for n in range(text.count_chars())] if lines else []
    for start, middle, end in lines:
        through = [
            n
            for n, (left, low, right, high) in enumerate(boxes)
            if start - 2 < left < right < end + 2 and low + (high - low) / 4 < middle < high - (high - low) / 4
        ]
        if through and (found := text.get_text_range(through[0], len(through)).strip()):
            yield found


_MARKDOWN = re.compile(
    r"(?P<code>^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[^\n]*$|\Z)|`[^`\n]+`)"
    r"|~~(?P<struck>[^~\n]+)~~|<(?P<tag>del|s|strike)>(?P<tagged>.*?)</(?P=tag)>|<!--(?P<hidden>.*?)-->"
    r"|<(?P<furigana>r[tp])>.*?</(?P=furigana)>|</?(?:ruby|rb)>|(?P<picture>!\[[^\]\n]*\]\([^)\n]*\))",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)


def clean_markdown(text: str) -> tuple[str, dict[str, dict[str, None]]]:
    """Return the text of a Markdown file without what a viewer strikes out or hides, and {what was left out: places}."""
    document = Document()

    def seen(found: re.Match[str]) -> str:
        if struck := found["struck"] or found["tagged"]:
            document.leave(say("struck out, and left out"), struck)
        if found["hidden"]:
            document.leave(say("hidden, and left out"), found["hidden"])
        if found["picture"]:
            document.leave(say("text in pictures is not read"), place=found["picture"])
        return found["code"] or found["picture"] or ""

    return _MARKDOWN.sub(seen, text), document.left


CONVERTERS: dict[str, Callable[[bytes, Document], None]] = {
    ".html": _html,
    ".htm": _html,
    ".docx": read_word,
    ".xlsx": read_excel,
    ".pdf": _pdf,
}
