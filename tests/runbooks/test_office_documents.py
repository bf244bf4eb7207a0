"""Sixteen documents as a city, a hospital, a bank and a factory write them (tests/data/office, SOURCE.txt): every sentence
that a person sees is read or named, none is read that nobody sees, and an ordinary document is not complained of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA

from socjudge.base.messages import speaking
from socjudge.base.texts import normalise_text
from socjudge.runbooks.reading import decode_runbook, split_runbook

DOCUMENTS = sorted(path for path in (DATA / "office").iterdir() if path.suffix != ".json" and path.name != "SOURCE.txt")
# How what may be only named is named; what is not here is seen in the text or is a way of showing it.
NAMED = {
    "画像": "pictures|pages without text",
    "コメント": "comments",
    "非表示": "hidden",
    "隠し文字": "hidden",
    "取り消し線": "struck out",
    "文の上に引かれた線": "struck out",
    "変更履歴": "deleted with tracked changes",
}


def squeezed(text: str) -> str:
    return re.sub(r"\s|\*\*|\\|\[\^\w+\]", "", text).replace("|", "").replace("｜", "")


def rows_of(text: str) -> Iterator[list[list[str]]]:
    """Each table, as rows of cells without spaces."""
    for block in re.findall(r"(?:^[ \t]*[|｜].*\n)+", text + "\n", re.MULTILINE):
        lines = [re.split("[|｜]", line.strip().strip("|｜")) for line in block.splitlines()]
        yield [[re.sub(r"\s", "", cell) for cell in line] for line in lines]


def stands_in_table(text: str, row: str, column: str, content: str) -> bool:
    parts = [re.sub(r"\s", "", part) for part in row.split("／")]
    column, content = re.sub(r"\s", "", column), re.sub(r"\s", "", content)
    for table in rows_of(text):
        for head in table:
            places = [n for n, cell in enumerate(head) if column and column in cell]
            for line in table if places or not column else []:
                fits = [line[n] for n in places if n < len(line)] if column else line
                others = "".join(cell for cell in line if content not in cell)
                if all(part in others for part in parts) and any(content in cell for cell in fits):
                    return True
    return False


def find_faults(path: Path) -> list[str]:
    wanted: dict[str, Any] = json.loads(path.with_name("seen.json").read_text("utf-8"))[path.name]
    with speaking("en"):
        text, notes = decode_runbook(path.read_bytes(), path)
    headings = {
        squeezed(part)
        for chunk in split_runbook(text, path.name)
        for part in [chunk.title, *chunk.heading.split(" > ")]
    }
    flat, named = squeezed(text), squeezed("".join(f"{note.what}{''.join(note.places)}" for note in notes))
    faults = []

    def is_told(sentence: str) -> bool:
        return squeezed(sentence) in flat or squeezed(sentence)[:25] in named

    for each in wanted["seen"]:
        seen = each if isinstance(each, dict) else {"text": each}
        sentence = seen["text"]
        if not is_told(sentence):
            faults.append(f"neither read nor named: {sentence}")
        elif "row" in seen and path.suffix not in (".txt", ".pdf"):
            if not stands_in_table(text, seen["row"], seen.get("column", ""), sentence):
                faults.append(f"not in its row and column: {seen}")
        elif (number := seen.get("auto_number") or seen.get("number")) and normalise_text(
            squeezed(number + sentence)
        ) not in normalise_text(flat):
            faults.append(f"without its number: {number} {sentence}")
        elif "heading" in seen and seen["heading"] != (squeezed(re.sub("^[#＃]+", "", sentence)) in headings):
            faults.append(f"heading={seen['heading']}: {sentence}")
    for sentence in wanted["not_valid"]:
        if squeezed(sentence) in flat and squeezed(sentence)[:25] not in named:
            faults.append(f"read although nobody sees it: {sentence}")
    for sentence in wanted.get("once", []):
        if flat.count(squeezed(sentence)) != 1:
            faults.append(f"read {flat.count(squeezed(sentence))} times: {sentence}")
    for each in wanted["may_be_only_named"]:
        pattern = next((pattern for what, pattern in NAMED.items() if what in each["what"]), "")
        said = "\n".join(note.what for note in notes)
        if (
            not ("text" in each and all(map(is_told, each["text"].split("／"))))
            and (pattern or "text" in each)
            and not (pattern and re.search(pattern, said))
        ):
            faults.append(f"neither read nor named: {each}")
    if wanted.get("control") and notes:
        faults.append(f"named in an ordinary document: {notes}")
    return faults


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_sentence_is_read_or_named(path: Path) -> None:
    faults = find_faults(path)
    assert not faults, "\n".join(faults)
