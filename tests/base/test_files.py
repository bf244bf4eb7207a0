"""What is said of a JSON file that is none: the line, what stands there, the remedy."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socjudge.base import sheets
from socjudge.base.files import read_json
from socjudge.base.messages import speaking
from socjudge.errors import ConfigError
from socjudge.runbooks.reading import decode_runbook

GOOD = '[\n  {"id": 1, "question": "隔離は?"}\n]'


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (GOOD.replace("1,", "1").encode(), "2行目の12文字目「{\"id\": 1 \"question\": \"隔離は?\"}」: JSONとして読めません"),
        (GOOD.replace("}\n", "},\n").encode(), "3行目の1文字目「]」"),
        (GOOD.replace('"隔離は?"', "“隔離は?”").encode(), "2行目の25文字目「1, \"question\": “隔離は?”}」"),
        (GOOD.replace("?", "?\n").encode(), "2行目の"),
        ((GOOD + "]").encode(), "余分でないか確かめてください"),
        (b" \n", "「」: JSONとして読めません"),
        (GOOD.encode("cp932"), "2行目がUTF-8ではありません（Shift_JIS・UTF-16・ISO-2022-JPかもしれません）。UTF-8で保存し直してください"),
        (GOOD.encode("utf-16"), "1行目がUTF-8ではありません"),
        (b"[\n\x1b$B\n", "2行目がUTF-8ではありません"),
        (b"[\n\x81\n", "2行目がUTF-8ではありません"),
        (b"[" * 100_000, "カッコの入れ子が深すぎます"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place_and_remedy(raw: bytes, told: str) -> None:
    with speaking("ja"), pytest.raises(ValueError, match=re.escape(told)) as error:
        read_json(raw)
    assert "delimiter" not in str(error.value) and "codec" not in str(error.value)


def test_a_good_file_is_read_with_or_without_a_mark() -> None:
    assert read_json(GOOD.encode()) == read_json(GOOD.encode("utf-8-sig")) == json.loads(GOOD)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_told_in_words(raw: bytes) -> None:
    try:
        read_json(raw)
    except ValueError as error:
        assert any(word in str(error) for word in ("line", "deep", "deeply", "empty", "twice"))


# --- Files of Office that somebody else wrote: nothing in them unpacks or grows without end

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
        refused(pack({part: raw}), suffix, "declares a document type or an encoding that Office never writes")


def test_entities_are_not_hidden_in_four_bytes_a_letter() -> None:
    for encoding in ("utf-32", "utf-32-le", "utf-32-be"):
        refused(pack({PARTS[".docx"]: f"{BOMB}<a/>".encode(encoding)}), ".docx", "declares a document type")


@pytest.mark.parametrize(
    "head", ["<?xml version='1.0' encoding = 'UTF-8'?>", '<?xml encoding="utf8"?>', '<?xml encoding="ASCII"?>', ""]
)
def test_a_part_in_an_encoding_of_another_spelling_is_read(head: str) -> None:
    text = f'{head}<x encoding="base64"/>'.encode()
    assert sheets.unpack_office(pack({"customXml/item1.xml": text})) == {"customXml/item1.xml": text}


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_part_that_is_packed_in_another_way_is_refused(how: int) -> None:
    refused(pack({"word/document.xml": b"<a/>"}, how), ".docx", "packed in a way that Office does not use")
