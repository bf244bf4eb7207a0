"""A history as partitioned Parquet: the same rows as the frames, readable by others."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from typer.testing import CliRunner

from socjudge import ConfigError, load_results, load_runs, load_scores
from socjudge.cli.app import app
from socjudge.history import export as history_export
from socjudge.history import export_history

pytestmark = pytest.mark.slow


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs of the specification's format that can be read."""
    logs = ROOT / "tests" / "data" / "logs"
    left_out = shutil.ignore_patterns(".*", "*20240420*", "*20240601*")
    return Path(shutil.copytree(logs, tmp_path / "logs", ignore=left_out))


@pytest.mark.parametrize("batch_bytes", [1, pytest.param(2**18, marks=pytest.mark.slow), 2**30])
def test_the_export_holds_what_the_frames_hold(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    monkeypatch.setattr(history_export, "BATCH_BYTES", batch_bytes)
    folder = export_history(tmp_path / "export", logs)
    for name, frame in (
        ("runs", load_runs(logs)),
        ("results", load_results(logs, text=True)),
        ("scores", load_scores(logs, text=True)),
    ):
        parts = sorted((folder / name).rglob("*.parquet"), key=lambda path: (path.parent.name, path.name))
        assert {path.parent.name for path in parts} >= {"month=2024-01", "month=2024-07"}
        kept = [row for path in parts for row in pq.read_table(path, partitioning=None).to_pylist()]
        words = frame.astype({"question_id": str} if "question_id" in frame else {}).astype(object)
        assert list(kept[0]) == list(frame.columns)
        assert kept == words.where(frame.notna(), None).to_dict("records")


def test_duckdb_and_pandas_agree_on_the_export(logs: Path, tmp_path: Path) -> None:
    folder = export_history(tmp_path / "export", logs)
    found = duckdb.sql(
        f"SELECT criterion, count(score) AS n, avg(score) AS mean FROM '{folder}/scores/*/*.parquet' GROUP BY ALL"
    ).df()
    expected = load_scores(logs).astype({"score": float}).groupby("criterion", observed=True)["score"]
    for row in found.to_dict("records"):
        assert row["n"] == expected.count()[row["criterion"]]
        assert row["mean"] == pytest.approx(expected.mean()[row["criterion"]])
    assert len(found) == 6


def test_nothing_is_overwritten_and_nothing_half_written_is_left(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(history_export, "_write", full)
        with pytest.raises(ConfigError, match="cannot be written .No space left"):
            export_history(folder, logs)
    assert not folder.exists()
    export_history(folder, logs)
    with pytest.raises(ConfigError, match="exists already"):
        export_history(folder, logs)
    assert [path.name for path in tmp_path.iterdir() if "export" in path.name] == ["export"]


def test_logs_that_are_left_out_are_counted(logs: Path, tmp_path: Path) -> None:
    (logs / "judge_eval_20250101_000000.json").write_text("{")
    shutil.copy(logs / "judge_eval_20240105_093000.json", logs / "judge_eval_20240105_093000.json.gz")
    with pytest.warns(UserWarning, match="2 of 11 logs are left out"):
        result = CliRunner().invoke(
            app, ["history", "export", str(tmp_path / "export"), "--logs-dir", str(logs)], catch_exceptions=False
        )
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'export'} written\n")


def test_other_folders_beside_the_export_are_left_alone(logs: Path, tmp_path: Path) -> None:
    mine = tmp_path / "export.partial" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    export_history(tmp_path / "export", logs)
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "export.partial", "logs"]
