"""The panel that edits questions, as a person uses it by its controls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import text

from socjudge import DatasetPanel, EvalQuestion, constants, load_eval_dataset, save_eval_dataset
from socjudge.base.messages import speaking
from socjudge.panels import dataset as module


@pytest.fixture(autouse=True)
def _no_draft_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_drafts", {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    questions = [EvalQuestion(n, "正常系", f"質問{n}", ("要点A", "要点B")) for n in (1, 2, 7)]
    return save_eval_dataset(questions, tmp_path / "mine.json")


def test_the_usual_dataset_is_opened_and_saved_under_another_name() -> None:
    panel = DatasetPanel()
    assert panel.questions == load_eval_dataset() and panel.question.value == panel.questions[0].question
    assert panel.path.value == str(constants.EVAL_DATASET_PATH.with_name("my_questions.json"))
    assert "10 questions" in panel.check.value and not panel.save_button.disabled


def test_a_question_is_added_filled_in_and_saved(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    panel = DatasetPanel(file)
    panel.add_button.click()
    assert "question 4 (id 8)" in text(panel.check.value) and panel.save_button.disabled
    panel.category.value, panel.question.value = "危険操作系", " ログを消していいですか\n"
    panel.keypoints.value = "消さない\n\n  責任者に確認する \n"
    assert "not saved yet" in panel.check.value and file.read_bytes() == before
    panel.path.value = str(tmp_path / "new.json")
    panel.save_button.click()
    added = EvalQuestion(8, "危険操作系", "ログを消していいですか", ("消さない", "責任者に確認する"))
    assert load_eval_dataset(tmp_path / "new.json") == [*load_eval_dataset(file), added]
    assert file.read_bytes() == before and "4 questions saved" in panel.status.value
    assert panel.dataset.value == str(tmp_path / "new.json") and "not saved yet" not in panel.check.value


def test_a_file_that_is_there_is_replaced_with_the_tick_only_and_never_what_changed_meanwhile(file: Path) -> None:
    panel = DatasetPanel(file)
    panel.question.value = "別の質問"
    panel.save_button.click()
    assert "exists" in panel.status.value and load_eval_dataset(file)[0].question == "質問1"
    panel.replace.value = True
    panel.save_button.click()
    assert load_eval_dataset(file)[0].question == "別の質問" and panel.replace.value is False
    file.write_text(json.dumps(json.loads(file.read_text("utf-8"))[:2], ensure_ascii=False), encoding="utf-8")
    panel.question.value, panel.replace.value = "また別の質問", True
    panel.save_button.click()
    assert "changed elsewhere" in panel.status.value and len(load_eval_dataset(file)) == 2


def test_a_question_is_removed_and_brought_back(file: Path) -> None:
    panel = DatasetPanel(file)
    panel.list.value = 1
    panel.remove_button.click()
    assert [question.id for question in panel.questions] == [1, 7] and panel.question.value == "質問7"
    panel.undo_button.click()
    assert panel.questions == load_eval_dataset(file) and panel.question.value == "質問2" and panel.undo_button.disabled


def test_all_can_be_removed_and_that_is_no_dataset(file: Path) -> None:
    panel = DatasetPanel(file)
    for _ in range(3):
        panel.remove_button.click()
    assert panel.questions == [] and panel.save_button.disabled and panel.question.disabled
    panel.add_button.click()
    assert panel.questions[0].id == 1 and not panel.question.disabled


def test_a_cell_that_is_run_again_goes_on_with_what_was_not_saved(file: Path) -> None:
    DatasetPanel(file).question.value = "書きかけ"
    panel = DatasetPanel(file)
    assert panel.question.value == "書きかけ" and "not saved yet" in panel.check.value
    panel.question.value = "質問1"
    assert DatasetPanel(file).check.value.count("not saved yet") == 0


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no such file|not found|does not exist"), ("{", "JSON"), ("[]", "empty|no question")]
)
def test_what_cannot_be_opened_is_said_and_the_rest_stays(file: Path, tmp_path: Path, content: str, said: str) -> None:
    panel = DatasetPanel(file)
    other = tmp_path / "other.json"
    if content is not None:
        other.write_text(content, encoding="utf-8")
    panel.dataset.value = str(other)
    assert "bad" in panel.status.value and len(panel.questions) == 3


def test_a_name_that_is_no_dataset_is_refused_and_the_words_are_japanese(file: Path, tmp_path: Path) -> None:
    with speaking("ja"):
        panel = DatasetPanel(file)
        panel.path.value = str(tmp_path / "questions.txt")
        panel.save_button.click()
        assert ".json ファイルです" in panel.status.value and panel.save_button.description == "保存"


def test_what_a_dataset_says_stays_text(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    file = save_eval_dataset([EvalQuestion(evil, "正常系", evil, (evil,))] * 1, tmp_path / "evil.json")
    panel = DatasetPanel(file)
    panel.keypoints.value = ""
    assert "<img" not in panel.check.value and "&lt;img" in panel.check.value
