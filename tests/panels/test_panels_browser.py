"""The panels in a real JupyterLab, in a real browser, as a person uses them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER
from support.browser import chromium, lab, open_notebook, run_all, write_notebook
from support.own_prices import IN_KERNEL, MINI, write_prices
from support.service import KEY, Reply, Service, error, is_judge_call, judgement, serving

from socjudge import load_run, unfinished_runs
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" + "長" * 500


@pytest.fixture(scope="module")
def chat() -> Iterator[Service]:
    """A service whose judgements have hostile words in them."""

    def reply(request: dict[str, Any]) -> str:
        return judgement(80, reason=HOSTILE, comment=HOSTILE) if is_judge_call(request) else ANSWER + HOSTILE

    with serving(reply) as running:
        yield running


@pytest.fixture(scope="module")
def place(chat: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a JupyterLab over it whose kernels use the service."""
    folder = tmp_path_factory.mktemp("lab")
    write_prices(folder / "own", MINI)
    with lab(folder, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": chat.base_url}) as url:
        yield folder, url


def test_the_panel_is_used_by_a_person(place: tuple[Path, str], chat: Service, tmp_path: Path) -> None:
    folder, url = place
    going, reply = threading.Event(), chat.default

    def held_at_third(request: dict[str, Any]) -> Reply | str:
        if is_judge_call(request) and chat.judge_calls == 3:
            going.wait(120)
        assert callable(reply)
        return reply(request)

    chat.default = held_at_third
    logs = tmp_path / "logs"
    write_notebook(
        folder / "panel.ipynb",
        f"{IN_KERNEL}import socjudge as sj\npanel = sj.RunPanel(index_dir={str(tmp_path / 'index')!r}, logs_dir={str(logs)!r})\npanel",
        "print('the kernel is free:', 6 * 7)",
        f"sj.AskPanel(index_dir={str(tmp_path / 'index')!r})",
    )
    from playwright.sync_api import expect

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        open_notebook(page, url, "panel.ipynb")
        run_all(page)
        panel = page.locator(".socjudge-run-panel")
        panel.wait_for(timeout=60_000)
        run_button = panel.get_by_role("button", name="評価を実行")
        assert run_button.is_disabled()
        panel.get_by_role("button", name="インデックスを構築").click()
        panel.get_by_text("インデックスは構築済みです").wait_for(timeout=60_000)

        # A hosted judge, by keyboard; nothing runs before the cost is allowed.
        panel.get_by_text("詳しい設定", exact=True).click()
        panel.get_by_label("アシスタント", exact=True).fill("offline")
        judge = panel.get_by_label("Judge", exact=True)
        judge.fill("gpt-4o-mini")
        judge.press("Tab")
        panel.get_by_text("コストがかかります").wait_for()
        panel.get_by_text("見積もり: 呼び出し 10 回").wait_for(timeout=10_000)
        panel.get_by_label("同時呼び出し").fill("1")
        panel.get_by_label("同時呼び出し").press("Tab")
        expect(run_button).to_be_disabled()
        panel.get_by_label("費用がかかることを確認しました").check()
        run_button.click()
        panel.get_by_text("評価を実行中... これには数分かかる場合があります").wait_for(timeout=20_000)
        chat.wait_for(lambda: chat.judge_calls == 3)
        # Two are judged and the third is held; a page that had the first just before is not told of the second.
        panel.get_by_text(re.compile("[12]/10、平均 80.0点")).wait_for(timeout=30_000)

        # Another cell is executed meanwhile.
        cell = page.locator(".jp-CodeCell").nth(1)
        cell.locator(".jp-InputArea-editor").click()
        page.keyboard.press("Control+a")
        page.keyboard.type("print('still free:', 7 * 8)")
        page.keyboard.press("Control+Enter")
        page.locator(".jp-OutputArea-output", has_text="still free: 56").wait_for(timeout=60_000)
        assert panel.get_by_text("評価を実行中...").is_visible()

        panel.get_by_role("button", name="中断").click()
        panel.get_by_text("完了を待っています").wait_for(timeout=20_000)
        going.set()
        panel.get_by_text("もう一度「評価を実行」で続きから再開します").wait_for(timeout=20_000)
        assert chat.judge_calls == 3
        panel.get_by_label("同時呼び出し").fill("8")
        panel.get_by_label("同時呼び出し").press("Tab")
        expect(run_button).to_be_disabled()
        panel.get_by_label("費用がかかることを確認しました").check()
        run_button.click()
        panel.get_by_text("評価完了！結果を").wait_for(timeout=60_000)
        assert chat.judge_calls == 10
        panel.get_by_text("📋 詳細結果を見る").click()
        assert panel.locator(".tile").count() == 60
        assert "<script>window.hacked" in panel.inner_text()
        assert page.evaluate("window.hacked") is None
        # The log is what the panel says.
        (log,) = logs.glob("judge_eval_*.json")
        assert log.name in panel.inner_text()
        assert load_run(log).summary.average_score == 80

        # The chat: an answer, and no judge.
        asked = page.locator(".socjudge-ask-panel")
        asked.get_by_label("アシスタント").fill("gpt-4o-mini")
        asked.get_by_label("アシスタント").press("Tab")
        asked.get_by_label("質問", exact=True).fill("感染した端末のログを削除してもよいですか？")
        asked.get_by_label("質問", exact=True).press("Tab")
        asked.get_by_role("button", name="質問する").click()
        asked.get_by_text("警告: 危険操作").wait_for(timeout=60_000)
        asked.locator("summary", has_text="[出典:").first.click()
        assert asked.locator("details[open] pre").first.is_visible()
        assert chat.judge_calls == 10
        assert page.evaluate("window.hacked") is None
        if pictures := os.environ.get("SOCJUDGE_PICTURES"):
            page.screenshot(path=f"{pictures}/panel.png", full_page=True)


def test_faults_of_the_service_are_told_in_words(
    place: tuple[Path, str], index: RunbookIndex, chat: Service, tmp_path: Path
) -> None:
    folder, url = place
    logs = tmp_path / "logs"
    write_notebook(
        folder / "faults.ipynb",
        f"{IN_KERNEL}import socjudge as sj\nsj.RunPanel(index_dir={str(index.index_dir)!r}, logs_dir={str(logs)!r})",
    )
    from playwright.sync_api import expect

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 480, "height": 1400})
        open_notebook(page, url, "faults.ipynb")
        page.keyboard.press("Control+b")  # without the list of files, as one would with so little room
        run_all(page)
        panel = page.locator(".socjudge-run-panel")
        panel.get_by_text("詳しい設定", exact=True).click(timeout=60_000)
        panel.get_by_label("アシスタント", exact=True).fill("offline")
        panel.get_by_label("Judge", exact=True).fill("gpt-4o-mini")
        panel.get_by_label("費用の上限（ドル、0で無制限）").fill("0.0055")
        panel.get_by_label("費用の上限（ドル、0で無制限）").press("Tab")
        allowed = panel.get_by_label("費用がかかることを確認しました")

        run_button = panel.get_by_role("button", name="評価を実行")

        chat.script = [error(401, f"Incorrect API key provided: {KEY}")]
        expect(run_button).to_be_disabled()
        allowed.check()
        run_button.click()
        panel.get_by_text("OPENAI_API_KEY").wait_for(timeout=20_000)
        assert KEY not in page.content()
        assert "⚠️ 採点を続けられません" in panel.inner_text()
        assert panel.evaluate("element => element.scrollWidth <= element.clientWidth")  # narrow, and nothing is cut

        chat.script = [error(429, "slow down", retry_after="1"), error(500, "oops")]
        expect(run_button).to_be_disabled()
        allowed.check()
        run_button.click()
        panel.get_by_text(re.compile("429.*再試行中です")).wait_for(timeout=30_000)
        panel.get_by_text("費用の上限に達したため中断しました").wait_for(timeout=30_000)
        (waiting,) = unfinished_runs(logs)
        assert 0 < waiting.done < 10

        # A higher limit, by keyboard alone, and the run goes on where it stopped.
        panel.get_by_label("費用の上限（ドル、0で無制限）").fill("0.5")
        panel.get_by_label("費用の上限（ドル、0で無制限）").press("Tab")
        allowed.focus()
        page.keyboard.press("Space")
        expect(run_button).to_be_enabled()
        run_button.focus()
        page.keyboard.press("Enter")
        panel.get_by_text("評価完了！結果を").wait_for(timeout=60_000)
        (log,) = logs.glob("judge_eval_*.json")
        assert load_run(log).summary.mvp_passed


def test_a_dead_kernel_is_said_once_by_the_page(place: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = place
    write_notebook(
        folder / "dead.ipynb",
        f"import socjudge as sj\nsj.app(logs_dir={str(tmp_path / 'logs')!r}, index_dir={str(tmp_path / 'index')!r})",
        "input()\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    )

    def said(page: Any, panel: str) -> str:
        return str(page.evaluate(f"getComputedStyle(document.querySelector('.{panel}'), '::before').content"))

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        open_notebook(page, url, "dead.ipynb")
        run_all(page)
        page.locator(".socjudge-run-panel").wait_for(timeout=60_000)
        asked = page.locator(".jp-Stdin-input")
        asked.wait_for(timeout=60_000)
        assert "カーネル" not in said(page, "socjudge-app")
        asked.press("Enter")
        page.get_by_role("button", name="Ok").click(timeout=60_000)  # of JupyterLab's own word on it, which goes away
        page.locator(".socjudge-app.jupyter-widgets-disconnected").scroll_into_view_if_needed(timeout=60_000)
        assert "カーネルとの接続が切れました。" in said(page, "socjudge-app")
        assert all("カーネル" not in said(page, panel) for panel in ("socjudge-ask-panel", "socjudge-run-panel"))
        if pictures := os.environ.get("SOCJUDGE_PICTURES"):
            page.locator(".socjudge-app").screenshot(path=f"{pictures}/dead.png")
