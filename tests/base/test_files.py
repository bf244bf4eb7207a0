"""What is said of a JSON file that is none: the line, what stands there, the remedy."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socjudge.base.files import read_json
from socjudge.base.messages import speaking

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
