"""The history panel in a real JupyterLab and, beside the run panel, as a page of its own through Voilà."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from support.browser import chromium, opened, sideways
from support.history_logs import make_history
from support.lab import lab, open_notebook, run_all, voila, write_notebook

from socjudge import load_run
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, index: RunbookIndex) -> Path:
    folder = tmp_path_factory.mktemp("history") / "logs"
    make_history(folder, index)
    return folder


def settled(panel: Any, words: str) -> None:
    """Wait until the panel has drawn what was asked for, and says these words of it."""
    panel.locator(".socjudge", has_text=words).first.wait_for(timeout=60_000)
    panel.get_by_text("更新中...").wait_for(state="detached", timeout=60_000)


def picture(page: Any, name: str) -> None:
    if pictures := os.environ.get("SOCJUDGE_PICTURES"):
        page.screenshot(path=f"{pictures}/{name}.png")


def compare(panel: Any, first: str, second: str) -> None:
    for label, run in (("基準の実行", first), ("比べる実行", second)):
        box = panel.get_by_label(label, exact=True)
        wanted = box.locator("option", has_text=run).first.inner_text()
        box.select_option(label=wanted)


def test_a_person_explores_the_history(browser: Any, logs: Path, tmp_path: Path) -> None:
    write_notebook(tmp_path / "history.ipynb", f"import socjudge as sj\nsj.HistoryExplorer({str(logs)!r})")
    with lab(tmp_path, {}) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 4200}, accept_downloads=True)
        open_notebook(page, url, "history.ipynb")
        run_all(page)
        panel = page.locator(".socjudge-history-explorer")
        settled(panel, "3回の実行、採点した回答 30件")
        rows, chart = panel.locator("table").first.locator("tbody tr"), panel.locator("img").first
        assert rows.count() == 3
        assert chart.evaluate("image => image.complete && image.naturalWidth > 0")

        # Filters: chart and table follow.
        before = chart.get_attribute("src")
        panel.get_by_label("Judge", exact=True).select_option(label="gpt-4o")
        panel.get_by_label("カテゴリ", exact=True).select_option(label="危険操作系")
        settled(panel, "1回の実行、採点した回答 2件")
        assert rows.count() == 1
        assert "0/2問" in rows.first.inner_text()
        assert chart.get_attribute("src") != before
        panel.get_by_label("グラフ", exact=True).select_option(label="カテゴリ×観点")
        settled(panel, "1回の実行（Judge: gpt-4o）をまとめた平均です")
        panel.get_by_label("Judge", exact=True).select_option(label=["gpt-4o", "gpt-4o-mini"])
        settled(panel, "2回の実行（Judge: gpt-4o-mini、gpt-4o）をまとめた平均です")
        panel.get_by_label("Judge", exact=True).select_option(label="すべて")
        panel.get_by_label("カテゴリ", exact=True).select_option(label="すべて")
        settled(panel, "3回の実行、採点した回答 30件")

        # Two runs, and a question in both.
        compare(panel, "gpt-4o-mini / guide-1", "gpt-4o / strict-1")
        settled(panel, "15.5点低く付け")
        panel.get_by_label("質問", exact=True).locator("option", has_text="5 危険操作系 80.0 → 64.0").click()
        settled(panel, "理由 64")
        sides = panel.locator(".sides section")
        for side, points in zip(sides.all(), ("80", "64"), strict=True):
            assert side.locator(".tile b").all_inner_texts() == [points] * 6
            assert "SOC当番は端末を隔離します" in side.inner_text()
            assert "<script>window.hacked = 1</script>" in side.inner_text()
        assert page.evaluate("window.hacked") is None
        boxes = [side.bounding_box() for side in sides.all()]
        assert boxes[0]["y"] == boxes[1]["y"]  # side by side
        picture(page, "history")

        # The report: on the disk, and as a download.
        panel.get_by_role("button", name="レポートを書き出す").click()
        settled(panel, "レポートを保存しました")
        (file,) = (logs / "reports").glob("*.html")
        assert str(file) in panel.inner_text()
        with page.expect_download() as download:
            panel.get_by_text("ダウンロード（").click()
        assert Path(download.value.path()).read_bytes() == file.read_bytes()
        with opened(browser, file) as watched:
            assert "-15.5" in watched.page.locator("#comparison").inner_text()
            assert watched.troubles == []

        # A narrow window: one below the other, and nothing to scroll sideways but tables and charts in themselves.
        page.set_viewport_size({"width": 480, "height": 4200})
        page.get_by_role("tab", name="File Browser").first.click()  # closes the side bar
        page.wait_for_function("document.querySelector('.sides').getBoundingClientRect().width < 480")
        boxes = [side.bounding_box() for side in sides.all()]
        assert boxes[0]["x"] == boxes[1]["x"]
        assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
        picture(page, "history-480")


def test_the_app_has_the_panels_as_tabs_and_fetches_nothing(
    browser: Any, logs: Path, index: RunbookIndex, tmp_path: Path
) -> None:
    notebook = json.loads((ROOT / "notebooks" / "app.ipynb").read_text("utf-8"))
    parameters = next(cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", []))
    own = shutil.copytree(logs, tmp_path / "logs", ignore=shutil.ignore_patterns("reports", ".history"))
    parameters["source"] = (
        f"from pathlib import Path\nLOGS_DIR, INDEX_DIR = Path({str(own)!r}), Path({str(index.index_dir)!r})"
    )
    (tmp_path / "app.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copy(ROOT / "notebooks" / "voila.json", tmp_path)
    with voila(tmp_path, "app.ipynb", "--theme=dark") as url:
        origin = url.split("?")[0]
        assert origin.startswith("http://127.0.0.1:")
        page = browser.new_page(viewport={"width": 480, "height": 2400})
        page.goto(origin)
        assert page.url.startswith(f"{origin}login")  # not for everybody on this machine
        sent: list[str] = []
        page.on("requestfinished", lambda request: sent.append(request.url))
        # Refused by the page's policy it never left the browser; failed for any other reason it did.
        page.on("requestfailed", lambda request: sent.append(request.url) if request.failure != "csp" else None)
        page.goto(url)
        run, history = page.locator(".socjudge-run-panel"), page.locator(".socjudge-history-explorer")
        run.get_by_text("インデックスは構築済みです").wait_for(timeout=60_000)
        assert page.locator(".socjudge-ask-panel").is_visible()
        picture(page, "app-480-dark-first")
        page.get_by_text("履歴", exact=True).click()
        settled(history, "3回の実行、採点した回答 30件")
        assert page.locator("body.theme-dark").count() == 1
        assert "import socjudge" not in page.inner_text("body")

        page.get_by_text("質問と評価", exact=True).click()
        run.get_by_role("button", name="評価を実行").click()
        run.get_by_text("評価完了！結果を").wait_for(timeout=60_000)
        page.get_by_text("履歴", exact=True).click()
        settled(history, "4回の実行、採点した回答 40件")
        newest = max(own.glob("judge_eval_*.json"))
        assert newest.name in history.locator("table").first.locator("tbody tr").first.inner_text()
        assert load_run(newest).summary.total_questions == 10

        assert sideways(page) == 0
        assert all(panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth") for panel in (run, history))
        picture(page, "app-480-dark")
        outside = [link for link in sent if not link.startswith((origin, "data:", "blob:"))]
        assert outside == []
