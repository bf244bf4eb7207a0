"""Convert Word, Excel, PDF and HTML files to Markdown, with the optional libraries of the extra `convert`.

There is one small library for each format: mammoth, openpyxl, pypdfium2 and markdownify (12 MB together). markitdown,
which converts all formats, was tried and not chosen. It needs 125 MB with an ONNX runtime, writes "NaN" for empty Excel
cells, garbles HTML without a declared charset, and returns the bytes of a damaged file as text.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from ..base.archives import unpack_office
from ..errors import ConfigError


def convert_to_markdown(data: bytes, suffix: str, name: str) -> str:
    """Return the contents of a file as Markdown. HTML must already be UTF-8 (`reading.py` decodes it).
    Raises ConfigError without the extra, or if the file is damaged, encrypted or not of the type of its suffix."""
    try:
        return CONVERTERS[suffix](data)
    except ImportError as error:
        raise ConfigError(
            "{name}: reading {suffix} files needs {package}; run: pip install 'socjudge[convert]'",
            name=name,
            suffix=suffix,
            package=error.name,
        ) from error
    except Exception as error:  # each library raises its own errors (zip, XML, PDFium) on damaged files
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "{name}: cannot be read as {suffix} ({reason}); open it in its own program, save it again without "
            "a password, or move it out of the runbooks folder",
            name=name,
            suffix=suffix,
            reason=reason,
        ) from error


def _html(data: bytes) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    text = data.decode("utf-8")
    end = text.rfind(">") + 1  # a tag that is never closed is text; the parser would search for its end again and again
    soup = BeautifulSoup(text[:end] + text[end:].replace("<", "&lt;"), "html.parser")
    for tag in soup(["script", "style", "head", "noscript"]):
        if not tag.decomposed:
            tag.decompose()
    # no autolinks and no escaping, because the text is searched and quoted, never rendered
    converter = MarkdownConverter(
        heading_style="ATX",
        strip=["img"],
        autolinks=False,
        bullets="-",
        escape_underscores=False,
        escape_asterisks=False,
    )
    return str(converter.convert_soup(soup))


def _docx(data: bytes) -> str:
    import mammoth

    unpack_office(data)
    html = mammoth.convert_to_html(io.BytesIO(data)).value
    return _html(html.encode("utf-8"))


def _xlsx(data: bytes) -> str:
    from openpyxl import load_workbook

    unpack_office(data)
    workbook = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    lines: list[str] = []
    for sheet in workbook.worksheets:
        lines.append(f"## {sheet.title}\n")
        for row in sheet.iter_rows(values_only=True):
            cells = ["" if cell is None else str(cell).replace("\n", " ") for cell in row]
            if any(cells):
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    workbook.close()
    return "\n".join(lines)


def _pdf(data: bytes) -> str:
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    try:
        pages = [page.get_textpage().get_text_bounded() for page in document]
    finally:
        document.close()
    return "\n\n".join(page.replace("\r\n", "\n") for page in pages)


CONVERTERS: dict[str, Callable[[bytes], str]] = {
    ".html": _html,
    ".htm": _html,
    ".docx": _docx,
    ".xlsx": _xlsx,
    ".pdf": _pdf,
}
