"""The panel that edits socjudge.toml: nothing that is wrong is saved, and nothing of anybody else's is replaced."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import text

from socjudge import constants, settings
from socjudge.panels.settings import SettingsPanel


@pytest.fixture
def file(tmp_path: Path, in_japanese: None) -> Iterator[Path]:
    before = constants.PROJECT_DIR
    settings.use_project(tmp_path)
    yield tmp_path / "socjudge.toml"
    settings.use_project(before)


def test_a_project_without_settings_begins_with_all_of_them_as_comments(file: Path) -> None:
    panel = SettingsPanel()
    assert tomllib.loads(panel.text.value).keys() == {"rubric", "dataset", "defaults", "report"}
    assert "このまま使えます" in panel.check.value and not file.exists()
    panel.save_button.click()
    assert file.read_text("utf-8") == panel.text.value


def test_what_is_wrong_is_said_by_line_as_one_types_and_cannot_be_saved(file: Path) -> None:
    file.write_text("[rubric]\npass_threshold = 80\n", "utf-8")
    panel = SettingsPanel()
    panel.text.value = "[rubric]\npass_treshold = 60\n"
    assert "2行目" in text(panel.check.value) and "pass_threshold" in text(panel.check.value)
    assert panel.save_button.disabled
    panel.text.value = "[rubric]\npass_threshold = "
    assert "2行目" in text(panel.check.value) and panel.save_button.disabled
    panel.text.value = "[rubric]\npass_threshold = 60\n"
    panel.save_button.click()
    assert "を保存しました" in panel.status.value and settings.project_rubric().pass_threshold == 60


def test_a_file_that_was_changed_elsewhere_is_not_replaced(file: Path) -> None:
    file.write_text("[rubric]\npass_threshold = 80\n", "utf-8")
    panel = SettingsPanel()
    file.write_text("[rubric]\npass_threshold = 90\n", "utf-8")
    panel.text.value = "[rubric]\npass_threshold = 60\n"
    panel.save_button.click()
    assert "別の場所で書き換えられています" in panel.status.value and "90" in file.read_text("utf-8")
