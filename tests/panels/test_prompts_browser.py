"""The prompt panel in a real JupyterLab, in a real browser, as a person uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium, lab, open_notebook, run_all, sideways, write_notebook
from support.own_prices import IN_KERNEL, MINI, write_prices
from support.service import CRITERIA, KEY, Service, judgement, serving

from socjudge import EvalQuestion, load_prompt, run_evaluation_suite
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" + "長" * 300
STRICT = "厳しく採点してください。"


@pytest.fixture
def strict_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """80 points; under the strict prompt 安全性 50, and 60 for all where the question is vague. Hostile reasons."""

    def marks(request: dict[str, Any]) -> str:
        content = request["messages"][0]["content"]
        if STRICT not in content:
            return judgement(80, reason="元の理由" + HOSTILE, comment=HOSTILE)
        strict = 60 if "質問: なんか変" in content else {**dict.fromkeys(CRITERIA, 80), "安全性": 50}
        return judgement(strict, reason="新しい理由" + HOSTILE, comment=HOSTILE)

    with serving(marks) as running:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


def test_a_prompt_is_edited_tried_and_saved_by_a_person(
    index: RunbookIndex, questions: list[EvalQuestion], strict_service: Service, tmp_path: Path
) -> None:
    logs, prompts = tmp_path / "logs", tmp_path / "prompts"
    run_evaluation_suite(
        questions, index=index, assistant_model="offline", judge_model="gpt-4o-mini", logs_dir=logs, progress=False
    )
    strict_service.requests.clear()
    write_prices(tmp_path / "own", MINI)
    write_notebook(
        tmp_path / "lab.ipynb",
        f"{IN_KERNEL}import socjudge as sj\nconstants.PROMPTS_DIR = Path({str(prompts)!r})\n"
        f"sj.PromptLab(logs_dir={str(logs)!r}, index_dir={str(index.index_dir)!r})",
    )
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": strict_service.base_url}
    from playwright.sync_api import expect

    with chromium() as browser, lab(tmp_path, keys) as url:
        page = browser.new_page(viewport={"width": 1400, "height": 1800})
        open_notebook(page, url, "lab.ipynb")
        run_all(page)
        panel = page.locator(".socjudge-prompt-lab")
        panel.wait_for(timeout=60_000)
        editor = panel.get_by_label("プロンプト（ここを書き換えます）")
        try_button = panel.get_by_role("button", name="採点してみる")
        guide = load_prompt("guide-1").text
        expect(editor).to_have_value(guide, timeout=20_000)

        # A broken text is named, and cannot be tried.
        editor.fill(guide.replace("{answer}", "{foo}"))
        panel.get_by_text("不足: {answer}; 使えないもの: {foo}").wait_for(timeout=10_000)
        expect(try_button).to_be_disabled()

        # A working one, and its diff, calls and price.
        editor.fill(guide)
        editor.press("Control+End")
        editor.press_sequentially("\n" + STRICT)
        panel.get_by_text(f"+ {STRICT}").wait_for(timeout=10_000)
        panel.get_by_text("見積もり: 呼び出し 10 回").wait_for(timeout=10_000)
        expect(try_button).to_be_disabled()
        box, diff = editor.bounding_box(), panel.locator(".diff").bounding_box()
        assert box["x"] + box["width"] <= diff["x"]  # side by side
        panel.get_by_label("メモ").fill("安全性を厳しく")
        expect(try_button).to_be_disabled()
        panel.get_by_label("費用がかかることを確認しました").check()
        assert strict_service.requests == []
        try_button.click()

        # The effect: nine answers lose 30 points in 安全性, one 20 in all.
        panel.get_by_text("✅ 採点しました（10/10").wait_for(timeout=60_000)
        row = panel.locator("tr", has_text="総合")
        expect(row).to_contain_text("80.0")
        expect(row).to_contain_text("-6.5")
        expect(panel.locator("tr", has_text="安全性")).to_contain_text("-29.0")
        expect(panel.get_by_text("10（80.0→60.0点）")).to_be_visible()
        sides = panel.locator("details[open] .sides > section")
        expect(sides.nth(0)).to_contain_text("元の理由")
        expect(sides.nth(1)).to_contain_text("新しい理由")
        assert "<script>window.hacked" in panel.inner_text()
        assert page.evaluate("window.hacked") is None
        assert strict_service.judge_calls == len(strict_service.requests) == 10  # as estimated; no assistant
        expect(panel.get_by_label("これまでの試し")).to_contain_text("総合 -6.5点 安全性を厳しく")
        pictures(page, "wide")

        # Saved under a name, not over the built-in one.
        panel.get_by_label("保存する名前").fill("guide-1")
        panel.get_by_role("button", name="名前を付けて保存").click()
        panel.get_by_text("別の名前").wait_for(timeout=10_000)
        panel.get_by_label("保存する名前").fill("strict-2")
        panel.get_by_role("button", name="名前を付けて保存").click()
        panel.get_by_text("strict-2.txt を保存しました").wait_for(timeout=10_000)
        text = guide + "\n" + STRICT
        head, saved = (prompts / "strict-2.txt").read_text("utf-8").removeprefix("---\n").split("\n---\n", 1)
        assert saved == text
        assert head.split("\n")[:3] == ["kind: judge", "parent: guide-1", "note: 安全性を厳しく"]

        # Without the edit, and back again.
        editor.fill(guide)
        panel.get_by_text("元のプロンプトと同じです").wait_for(timeout=10_000)
        panel.get_by_role("button", name="この試しに戻る").click()
        expect(editor).to_have_value(text, timeout=10_000)

        # A narrow window: one below the other, nothing to be scrolled sideways.
        page.keyboard.press("Control+b")  # without JupyterLab's side bar
        page.set_viewport_size({"width": 480, "height": 1800})
        page.wait_for_function("document.querySelector('.socjudge-prompt-lab').clientWidth < 480")
        box, diff = editor.bounding_box(), panel.locator(".diff").bounding_box()
        assert diff["y"] >= box["y"] + box["height"]
        assert panel.evaluate("each => each.scrollWidth <= each.clientWidth")
        assert sideways(page) == 0
        pictures(page, "narrow")


def pictures(page: Any, name: str) -> None:
    if folder := os.environ.get("SOCJUDGE_PICTURES"):
        page.screenshot(path=f"{folder}/prompts_{name}.png")
