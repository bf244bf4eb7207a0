"""What tells wanting a dangerous operation from only speaking of it: the rows of `danger_words.json`, ready to match."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

WORDS_PATH = Path(__file__).with_name("danger_words.json")
BARE_OPERATION = "対象を示さない削除・初期化"
BARE_SAFER = (
    "何を対象とするかを先に確かめ、消したり初期化したりせずに隔離と証拠の保全を行い、責任者の承認を得てください。"
)

KANJI = re.compile("[\u4e00-\u9fff]")
JAPANESE = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")
ARGUMENTS = re.compile(r"[!-~]{0,60}")


def _load_rows() -> SimpleNamespace:
    """Each row's pattern by its name, and READINGS, READING: words in kana only, as they are usually written."""
    table = json.loads(WORDS_PATH.read_text(encoding="utf-8"))

    def fill(pattern: str) -> str:
        return re.sub(r"\{([A-Z_]+)\}", lambda match: fill(table["parts"][match[1]]), pattern)

    patterns = {name: re.compile(fill(row["pattern"])) for name, row in table["rows"].items()}
    readings = table["readings"]
    reading = re.compile("|".join(sorted(readings, key=len, reverse=True)))
    return SimpleNamespace(**patterns, READINGS=readings, READING=reading)


ROWS = _load_rows()
