"""Files of Office that somebody else wrote: nothing in them unpacks or grows without end."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pytest

from socjudge.base import sheets
from socjudge.errors import ConfigError
from socjudge.runbooks.reading import decode_runbook

BOMB = '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]>'
PARTS = {".docx": "word/document.xml", ".xlsx": "xl/workbook.xml"}


def pack(parts: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def refused(raw: bytes, suffix: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"a\{suffix}: .*{reason}"):
        decode_runbook(raw, Path(f"a{suffix}"))


@pytest.mark.parametrize("suffix", [".docx", ".xlsx"])
@pytest.mark.parametrize("part", ["the text", "a picture", "a part of no known name"])
def test_an_office_file_that_unpacks_without_end_is_refused(
    suffix: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheets, "MAX_UNPACKED", 8 * 2**20)
    monkeypatch.setattr(sheets, "MAX_XML", 4 * 2**20)
    text = b"<a>" + b" " * 5 * 2**20 + b"</a>"
    name = {"the text": PARTS[suffix], "a picture": "media/image1.png"}.get(part, "x")
    refused(pack({name: text}), suffix, "unpacks to more than 4 MB")
    refused(pack({name: bytes(9 * 2**20)}), suffix, "unpacks to more than 8 MB")


@pytest.mark.slow
def test_the_size_that_an_archive_states_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MAX_UNPACKED", 4 * 2**20)
    content = bytes(64 * 2**20)
    raw = pack({"word/document.xml": content})
    little = zlib.crc32(content[:100]).to_bytes(4, "little")
    raw = raw.replace(len(content).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    raw = raw.replace(zlib.crc32(content).to_bytes(4, "little"), little)
    refused(raw, ".docx", "")


@pytest.mark.parametrize("suffix", [".docx", ".xlsx"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp037"])
def test_a_part_that_declares_entities_is_refused(suffix: str, encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    text = f"{BOMB}<a>&c;</a>"
    raw = (head + text).encode(encoding) if encoding != "cp037" else head.encode() + text.encode("cp037")
    for part in (PARTS[suffix], "customXml/item1.xml"):
        refused(pack({part: raw}), suffix, "declares a document type" if encoding != "cp037" else "")


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_part_that_is_packed_in_another_way_is_refused(how: int) -> None:
    refused(pack({"word/document.xml": b"<a/>"}, how), ".docx", "packed in a way that Office does not use")
