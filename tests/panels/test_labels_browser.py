"""The LabelPanel in a real JupyterLab: a person marks three answers by keyboard."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium, lab, open_notebook, run_all, sideways, write_notebook
from support.report_logs import bare_log, save_log
from support.service import CRITERIA

from socjudge.history import load_labels

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" + "長" * 500
JUDGE = {1: 81, 2: 61, 3: 41}  # the judge's marks by question


def question(page: Any, after: int | None = None) -> int:
    """The number of the question that is shown; of the next one where the page still shows the one before."""
    from playwright.sync_api import expect

    shown = page.locator(".socjudge-label-panel .question b").first
    expect(shown).to_have_text(re.compile(r"Q\. 質問\d"))
    if after is not None:
        expect(shown).not_to_contain_text(f"質問{after}")
    return int(shown.inner_text().removeprefix("Q. 質問")[0])


def no_judge(page: Any) -> None:
    """The judge's marks and words are nowhere in the page."""
    markup = page.content()
    assert "総評" not in markup
    assert "理由" not in markup.replace("評価理由", "")
    texts = page.locator(".socjudge-label-panel").inner_text().split()
    assert not {str(mark) for mark in JUDGE.values()} & set(texts)


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Any, field: Any) -> None:
    """Press Tab until the field has the focus."""
    for _ in range(12):
        page.keyboard.press("Tab")
        if field.evaluate("field => field === document.activeElement"):
            return
    raise AssertionError("Tab does not reach the field")


def score(page: Any, first: Any, *scores: str, comment: str = "") -> None:
    """Type scores from the first field on, and save: from field to field by Tab, to the button that then has the focus."""
    from playwright.sync_api import expect

    tab_to(page, first)
    for each in (*scores, comment):
        page.keyboard.type(each)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="次へ")).to_be_focused()
    expect(page.get_by_text("保存しました")).to_be_visible()


def test_three_answers_are_marked_by_keyboard_alone(tmp_path: Path) -> None:
    save_log(tmp_path / "logs", bare_log(list(JUDGE.values()), HOSTILE))
    labels = tmp_path / "labels"
    write_notebook(
        tmp_path / "labels.ipynb",
        f"import socjudge as sj\nsj.LabelPanel(logs_dir={str(tmp_path / 'logs')!r}, labels_dir={str(labels)!r})",
    )
    from playwright.sync_api import expect

    with chromium() as browser, lab(tmp_path, {}) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 1100})
        open_notebook(page, url, "labels.ipynb")
        run_all(page)
        panel = page.locator(".socjudge-label-panel")
        panel.get_by_label("採点した人").focus(timeout=60_000)
        page.keyboard.type("佐藤")
        press(page, "Tab", "Enter")
        panel.get_by_text("0/3問").wait_for(timeout=20_000)
        first_field = panel.get_by_label("根拠性", exact=True)
        no_judge(page)
        # What the log holds is text.
        assert "<script>window.hacked" in panel.inner_text()
        assert panel.locator("script, img").count() == 0

        # One is skipped. In the next, a score is missing at first.
        skipped = question(page)
        tab_to(page, panel.get_by_role("button", name="スキップ"))
        press(page, "Enter")
        first = question(page, after=skipped)
        tab_to(page, first_field)
        for each in ("100", "75", "50", "25", "0", "", "1234 良い"):
            page.keyboard.type(each)
            press(page, "Tab")
        press(page, "Enter")
        panel.get_by_text("まだ付けていない観点があります: 簡潔性").wait_for()
        assert not labels.exists()
        no_judge(page)
        press(page, "Shift+Tab", "Shift+Tab")
        expect(panel.get_by_label("簡潔性", exact=True)).to_be_focused()
        page.keyboard.type("80")
        press(page, "Tab", "Tab", "Enter")
        panel.get_by_text("保存しました").wait_for()
        assert f"理由 {HOSTILE}" in panel.inner_text()
        assert panel.locator("script, img").count() == 0
        assert panel.locator(".tile b").all_inner_texts() == [str(JUDGE[first])] * 6
        expect(panel.get_by_label("簡潔性", exact=True)).to_have_value("80")  # beside them
        (line,) = [json.loads(text) for text in (labels / "佐藤.jsonl").read_text("utf-8").splitlines()]
        assert line["scores"] == dict(zip(CRITERIA, [100, 75, 50, 25, 0, 80], strict=True))
        assert (line["question_id"], line["comment"], line["blind"]) == (first, "1234 良い", True)
        if pictures := os.environ.get("SOCJUDGE_PICTURES"):
            page.screenshot(path=f"{pictures}/labels.png")

        # On by the button that has the focus; the judge's marks are gone from the page again.
        expect(panel.get_by_role("button", name="次へ")).to_be_focused()
        press(page, "Enter")
        second = question(page, after=first)
        no_judge(page)
        expect(panel.get_by_label("コメント")).to_have_value("")
        score(page, first_field, *["0"] * 6)
        press(page, "Enter")

        # The one that was skipped comes again; from there back, to correct.
        expect(panel.locator(".question b").first).to_contain_text(f"質問{skipped}")
        press(page, "Shift+Tab", "Shift+Tab", "Enter")  # back
        expect(panel.locator(".question b").first).to_contain_text(f"質問{second}")
        expect(first_field).to_have_value("0")
        score(page, first_field, "50", *[""] * 5)  # what is there is selected by Tab, and so replaced
        press(page, "Enter")
        expect(panel.locator(".question b").first).to_contain_text(f"質問{skipped}")
        no_judge(page)
        score(page, first_field, *["25"] * 6)
        press(page, "Enter")
        panel.get_by_text("すべて採点しました").wait_for()
        expect(panel.get_by_role("button", name="戻る")).to_be_focused()

        # Nothing that was pressed has reached the notebook: 1 would have made a heading, Enter have begun to edit.
        assert page.locator(".jp-CodeCell").count() == 1
        assert "jp-mod-commandMode" in (page.locator(".jp-Notebook").get_attribute("class") or "")
        assert page.evaluate("window.hacked") is None
        page.set_viewport_size({"width": 480, "height": 1100})
        page.keyboard.press("Control+b")  # the file browser, which leaves no room
        assert sideways(page) == 0
        assert panel.evaluate("panel => panel.scrollWidth - panel.clientWidth") == 0

    frame = load_labels(labels)
    marks = {number: list(part["score"]) for number, part in frame.groupby("question_id")}
    assert marks == {first: [100, 75, 50, 25, 0, 80], second: [50, 0, 0, 0, 0, 0], skipped: [25] * 6}
    assert dict(frame.groupby("question_id")["blind"].all()) == {first: True, second: False, skipped: True}
