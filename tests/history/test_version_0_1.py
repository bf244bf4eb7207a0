"""Files that version 0.1 wrote load as they did: v0_1 of tests/data/earlier_versions.zip, with the frames that it read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import DATA

from socjudge import ConfigError, load_prompt, load_results, load_run, load_runs, load_scores, unfinished_runs
from socjudge.history import load_labels

PACKED = DATA / "earlier_versions.zip"
OLD = zipfile.Path(PACKED, "v0_1/")
JOURNAL = "judge_eval_20261122_185134.partial.jsonl"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in io.StringIO(text)]


def as_stored(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as frames/*.jsonl has them."""
    options: dict[str, Any] = {"force_ascii": False, "date_format": "iso", "double_precision": 15}
    return lines(frame.to_json(orient="records", lines=True, **options))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKED) as packed:
        packed.extractall(tmp_path)
    return tmp_path / "v0_1"


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("runs", lambda old: load_runs(old / "logs")),
        ("results", lambda old: load_results(old / "logs", text=True)),
        ("scores", lambda old: load_scores(old / "logs", text=True)),
        ("labels", lambda old: load_labels(old / "labels")),
    ],
)
def test_frames_of_old_files_are_the_old_frames(name: str, load: Callable[[Path], pd.DataFrame], old: Path) -> None:
    stored = lines((OLD / "frames" / f"{name}.jsonl").read_text("utf-8"))
    found = as_stored(load(old))
    assert [{column: row.get(column, "(no such column)") for column in stored[0]} for row in found] == stored


def test_old_logs_hold_what_can_go_wrong() -> None:
    statuses = {row["status"] for row in lines((OLD / "frames" / "results.jsonl").read_text("utf-8"))}
    assert statuses == {"ok", "unparsable", "failed"}


def test_an_old_journal_is_named_with_what_to_do(old: Path) -> None:
    for read in (unfinished_runs, lambda logs: load_run(logs / JOURNAL)):
        with pytest.raises(
            ConfigError, match=rf"{JOURNAL}: an earlier version wrote this .* or move the file elsewhere"
        ):
            read(old / "logs")


def test_an_old_saved_prompt_is_the_text_that_was_saved(old: Path) -> None:
    prompt = load_prompt(old / "prompts" / "kibishii.txt")
    assert prompt.id == "kibishii"
    assert prompt.text == load_prompt("guide-1").text + "\n厳しく採点してください。"
