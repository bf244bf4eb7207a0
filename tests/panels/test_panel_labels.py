"""The LabelPanel as a person uses it, by its controls; what a browser makes of it is in test_labels_browser.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import text
from support.report_logs import HOSTILE, bare_log, save_log
from support.service import CRITERIA

from socjudge import LabelPanel, judge_agreement
from socjudge.history import load_labels
from socjudge.history.labels import read_rater

pytestmark = pytest.mark.usefixtures("in_japanese")


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[LabelPanel]:
    """A panel over two logs, in whose newer one the judge gave 81, 61 and 41 to questions 1, 2 and 3."""
    save_log(tmp_path / "logs", bare_log([99]), "judge_eval_20260101_090000.json")
    save_log(tmp_path / "logs", bare_log([81, 61, 41]), "judge_eval_20260102_090000.json")
    yield opened(tmp_path)


def opened(folder: Path) -> LabelPanel:
    return LabelPanel(logs_dir=folder / "logs", labels_dir=folder / "labels")


def start(panel: LabelPanel, rater: str = "佐藤") -> LabelPanel:
    panel.rater.value = rater
    panel.start_button.click()
    return panel


def save(panel: LabelPanel, *scores: int | None, comment: str = "") -> None:
    """Type scores and press 「保存」, as a person does."""
    for box, score in zip(panel.scores.values(), scores, strict=False):
        box.value = "" if score is None else str(score)
    panel.comment.value = comment
    panel.save_button.click()


def typed(panel: LabelPanel) -> list[str]:
    return [box.value for box in panel.scores.values()]


def shown(*parts: Any) -> str:
    """What the parts show."""
    return text(" ".join(part.value for part in parts))


def question(panel: LabelPanel) -> str:
    found = re.search(r"質問(\d)", shown(panel.item))
    return found[1] if found else ""


def saved(folder: Path, rater: str = "佐藤") -> dict[int | str, list[int]]:
    marks = read_rater(folder / "labels" / f"{rater}.jsonl").scores.values()
    return {mark.question_id: list(mark.scores.values()) for mark in marks}


def test_the_newest_log_is_offered_first(panel: LabelPanel) -> None:
    assert panel.log_file.value.name == "judge_eval_20260102_090000.json"
    labels, logs = zip(*panel.log_file.options, strict=True)
    assert logs[1].name == "judge_eval_20260101_090000.json"
    assert "2026-01-02" in labels[0] and "平均" not in labels[0], "the judge's scores are not shown beforehand"


def test_nothing_can_be_marked_before_a_rater_has_started(panel: LabelPanel) -> None:
    assert panel._work.layout.display == "none"
    save(panel, *[50] * 6)
    panel.next_button.click()
    panel.skip_button.click()
    panel.back_button.click()
    start(panel, "../x")
    assert "&#x27;../x&#x27; は採点した人の名前に使えません" in panel.start_status.value
    assert panel.session is None
    start(panel)
    assert panel.start_status.value == ""
    assert panel._work.layout.display == ""
    assert "0/3問" in shown(panel.progress)


def test_a_mark_is_on_disk_when_it_is_saved_and_the_judges_marks_appear_then(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    number = int(question(panel))
    points = str([81, 61, 41][number - 1])
    assert points not in shown(panel.item, panel.progress, panel.status, panel.judged)
    save(panel, 0, 25, 50, 75, 100, 5, comment="根拠が無い")
    assert saved(tmp_path) == {number: [0, 25, 50, 75, 100, 5]}
    tiles = re.findall(r'<div class="tile">(.*?)<b>(.*?)</b></div>', panel.judged.value)
    assert tiles == [(name, points) for name in CRITERIA]
    assert typed(panel) == ["0", "25", "50", "75", "100", "5"]  # beside them
    assert "理由 文章" in shown(panel.judged)
    assert "1/3問" in shown(panel.progress)
    assert all(box.disabled for box in panel.form.children)
    panel.save_button.click()  # a double click
    assert len((tmp_path / "labels" / "佐藤.jsonl").read_text("utf-8").splitlines()) == 1
    panel.next_button.click()
    assert question(panel) != str(number)
    assert typed(panel) == [""] * 6
    assert (panel.comment.value, panel.save_button.disabled, panel.judged.value) == ("", False, "")


def test_missing_marks_are_named_and_nothing_is_saved(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    save(panel, 0, None, 50, 75, None, 5)
    assert "まだ付けていない観点があります: 正確性、引用明示" in shown(panel.status)
    assert not (tmp_path / "labels").exists()
    assert panel.judged.value == ""
    save(panel, 0, 100, 50, 75, 0, 5)
    assert panel.status.value == ""
    assert len(saved(tmp_path)) == 1


def test_one_can_skip_and_go_back_and_correct(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    first = question(panel)
    panel.skip_button.click()
    second = question(panel)
    save(panel, *[50] * 6, comment="初め")
    panel.next_button.click()
    panel.back_button.click()
    assert question(panel) == second
    assert (typed(panel), panel.comment.value, panel.save_button.disabled) == (["50"] * 6, "初め", False)
    assert panel.skip_button.disabled
    save(panel, 50, 50, 50, 75, 50, 50)
    panel.next_button.click()
    save(panel, *[25] * 6)
    panel.next_button.click()
    assert question(panel) == first  # again, at the end
    save(panel, *[0] * 6)
    panel.next_button.click()
    assert "3/3問" in shown(panel.progress)
    assert "すべて採点しました" in shown(panel.progress)
    assert panel.skip_button.disabled
    assert panel.form.layout.display == "none"
    assert saved(tmp_path)[int(second)] == [50, 50, 50, 75, 50, 50]
    assert list(load_labels(tmp_path / "labels").groupby("question_id")["blind"].all()) == [
        number != int(second) for number in (1, 2, 3)
    ]
    panel.back_button.click()
    assert question(panel) == first


def test_next_is_not_a_way_around_a_mark(panel: LabelPanel) -> None:
    start(panel)
    first = question(panel)
    panel.next_button.click()
    assert question(panel) == first
    assert "先に保存するか" in shown(panel.status)


def test_what_was_typed_for_the_answer_before_comes_too_late(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    before = list(panel.scores.values())
    panel.skip_button.click()  # the kernel was busy, and the page did not follow yet
    for box in before:
        box.value = "100"
    panel.save_button.click()
    assert typed(panel) == [""] * 6
    assert not (tmp_path / "labels").exists()


def test_a_score_that_the_click_on_save_has_overtaken_asks_for_another_click(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    number = int(question(panel))
    save(panel, *[80] * 5, 8)
    panel.scores["簡潔性"].value = "80"  # the rest of the number, typed before the click
    assert "「保存」のクリックより遅れて届きました" in shown(panel.status)
    assert not panel.save_button.disabled
    panel.save_button.click()
    assert saved(tmp_path) == {number: [80] * 6}


@pytest.mark.parametrize("wrong", ["101", "-1", "8.5", "八十", "８０", "80点"])
def test_only_a_whole_number_from_0_to_100_is_a_score(panel: LabelPanel, tmp_path: Path, wrong: str) -> None:
    start(panel)
    save(panel, *[50] * 5)
    panel.scores["簡潔性"].value = wrong
    panel.save_button.click()
    assert f"0〜100の整数で入力してください: 簡潔性 {wrong}" in shown(panel.status)
    assert not (tmp_path / "labels").exists()


def test_a_panel_over_the_same_folders_goes_on_for_the_same_name(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    save(panel, *[50] * 6)
    again = start(opened(tmp_path))
    assert "1/3問" in shown(again.progress)
    assert question(again) != question(panel)


def test_another_name_starts_an_order_of_its_own(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    save(panel, *[50] * 6)
    start(panel, "tanaka")
    assert "0/3問" in shown(panel.progress)
    assert "tanaka さん" in shown(panel.progress)
    assert panel.judged.value == ""
    save(panel, *[75] * 6)
    assert set(load_labels(tmp_path / "labels")["rater"]) == {"佐藤", "tanaka"}


def test_what_a_log_holds_stays_text(tmp_path: Path) -> None:
    log = bare_log([81], HOSTILE)
    log["results"][0] |= {"category": HOSTILE, "expected_keypoints": [HOSTILE]}
    log["results"][0]["evaluation"]["scores"][HOSTILE] = 1
    save_log(tmp_path / "logs", log)
    panel = start(opened(tmp_path))
    save(panel, *[50] * 7)
    for markup in (panel.item.value, panel.judged.value):
        assert "<script" not in markup.lower()
        assert "<img" not in markup.lower()
        assert "&lt;script&gt;" in markup


def test_a_judge_that_could_not_be_read_is_said_after_saving(tmp_path: Path) -> None:
    save_log(tmp_path / "logs", bare_log([None]))
    panel = start(opened(tmp_path))
    save(panel, *[50] * 6)
    assert "未採点" in shown(panel.judged) and 'class="tile"' not in panel.judged.value


def test_a_log_that_cannot_be_read_is_said(panel: LabelPanel, tmp_path: Path) -> None:
    (tmp_path / "logs" / "judge_eval_20260102_090000.json").write_text("{")
    start(panel)
    assert "JSONとして読めません" in panel.start_status.value


def test_a_folder_without_logs_is_said(tmp_path: Path) -> None:
    panel = opened(tmp_path)
    assert "にログがありません。先に評価を実行してください" in shown(panel.start_status)
    assert panel.start_button.disabled


def test_marks_that_cannot_be_written_are_said_and_kept_on_the_page(panel: LabelPanel, tmp_path: Path) -> None:
    start(panel)
    (tmp_path / "labels").write_text("in the way")
    save(panel, *[50] * 6, comment="残る")
    assert "佐藤.jsonl: 採点を保存できません" in panel.status.value
    assert (typed(panel), panel.comment.value, panel.save_button.disabled) == (["50"] * 6, "残る", False)
    assert panel.judged.value == ""


def test_a_page_without_widgets_says_where_the_panel_can_be_used(panel: LabelPanel) -> None:
    assert repr(panel) == "<LabelPanel: このパネルは JupyterLab で開くと使えます>"


def test_a_name_that_comes_after_the_click_is_the_one_that_counts(panel: LabelPanel) -> None:
    panel.start_button.click()  # as JupyterLab may deliver it
    assert "採点した人の名前に使えません" in panel.start_status.value
    panel.rater.value = "佐藤"
    assert "佐藤 さん" in shown(panel.progress)
    panel.rater.value = "tanaka"
    assert panel.session is not None
    assert panel.session.rater == "tanaka"
    panel.rater.value = "/"
    assert panel.session is None
    assert panel._work.layout.display == "none"


def test_another_log_is_shown_as_soon_as_it_is_chosen(panel: LabelPanel) -> None:
    start(panel)
    panel.log_file.index = 1
    assert "0/1問" in shown(panel.progress)


def test_repeats_come_again_at_the_end_without_what_was_given_before(panel: LabelPanel, tmp_path: Path) -> None:
    panel = start(LabelPanel(logs_dir=tmp_path / "logs", labels_dir=tmp_path / "labels", repeats=1))
    assert "0/4問" in shown(panel.progress)
    first = question(panel)
    save(panel, *[70] * 6)
    assert "tile" not in panel.judged.value  # kept back: it is to be marked once more
    panel.next_button.click()
    for _ in range(2):
        save(panel, *[50] * 6)
        assert "tile" in panel.judged.value
        panel.next_button.click()
    assert question(panel) == first
    assert "もう一度同じ回答です" in shown(panel.progress)
    assert typed(panel) == [""] * 6
    assert shown(panel.judged) == ""
    save(panel, *[90] * 6)
    assert "tile" in panel.judged.value
    assert "4/4問" in shown(panel.progress)

    labels = load_labels(tmp_path / "labels")
    again = labels[labels["again"]]
    assert again["score"].unique().tolist() == [90]
    assert labels["blind"].all()
    assert judge_agreement(labels, by="again").set_index("criterion").loc["安全性", "n"] == 1


def test_what_is_to_be_repeated_goes_on_after_a_restart(panel: LabelPanel, tmp_path: Path) -> None:
    for expected in (["0/4問", "1/4問"], ["1/4問", "2/4問"], ["2/4問", "3/4問"], ["3/4問", "4/4問"]):
        opened = start(LabelPanel(logs_dir=tmp_path / "logs", labels_dir=tmp_path / "labels", repeats=1))
        assert expected[0] in shown(opened.progress)
        save(opened, *[70] * 6)
        assert expected[1] in shown(opened.progress)
    assert load_labels(tmp_path / "labels")["again"].sum() == 6


def test_a_skipped_answer_comes_before_it_comes_again(tmp_path: Path, panel: LabelPanel) -> None:
    panel = start(LabelPanel(logs_dir=tmp_path / "logs", labels_dir=tmp_path / "labels", repeats=1))
    first = question(panel)
    panel.skip_button.click()
    order = []
    for _ in range(4):
        order.append((question(panel), "もう一度同じ回答" in shown(panel.progress)))
        save(panel, *[70] * 6)
        panel.next_button.click()
    assert order[-2:] == [(first, False), (first, True)]


def test_the_criteria_that_are_asked_are_those_of_the_log(tmp_path: Path) -> None:
    log = bare_log([81])
    log["results"][0]["evaluation"]["scores"] = {"迅速性": 80, "安全性": 60}
    save_log(tmp_path / "logs", log)
    panel = start(opened(tmp_path))
    assert list(panel.scores) == ["迅速性", "安全性"]
    save(panel, 50, 70)
    assert re.search("安全性<b>60", panel.judged.value)


def test_what_was_typed_for_another_log_marks_nothing(tmp_path: Path) -> None:
    save_log(tmp_path / "logs", bare_log([81, 61, 41]), "judge_eval_20260102_090000.json")
    log = bare_log([81, 61])
    for row in log["results"]:
        scores = row["evaluation"]["scores"]
        row["evaluation"]["scores"] = {**{name: scores[name] for name in list(scores)[:5]}, "迅速性": 70}
    save_log(tmp_path / "logs", log, "judge_eval_20260103_090000.json")
    panel = start(opened(tmp_path))
    before = list(panel.scores.values())
    panel.log_file.value = tmp_path / "logs" / "judge_eval_20260102_090000.json"
    for box in before:
        box.value = "10"
    panel.save_button.click()
    assert not list((tmp_path / "labels").glob("*.jsonl"))
    save(panel, *[70] * 6)
    assert list(saved(tmp_path).values()) == [[70] * 6]
