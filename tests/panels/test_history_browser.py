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
from support.browser import chromium, lab, open_notebook, opened, run_all, sideways, voila, write_notebook
from support.report_logs import make_history

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
    """Wait until the panel says these words."""
    panel.locator(".socjudge", has_text=words).first.wait_for(timeout=60_000)


def picture(page: Any, name: str) -> None:
    if pictures := os.environ.get("SOCJUDGE_PICTURES"):
        page.screenshot(path=f"{pictures}/{name}.png")


def test_a_person_reads_the_matrix(browser: Any, logs: Path, tmp_path: Path) -> None:
    write_notebook(tmp_path / "history.ipynb", f"import socjudge as sj\nsj.HistoryExplorer({str(logs)!r})")
    with lab(tmp_path, {}) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 3000}, accept_downloads=True)
        open_notebook(page, url, "history.ipynb")
        run_all(page)
        panel = page.locator(".socjudge-history-explorer")
        settled(panel, "3回の実行、10問")
        cells, heads = panel.locator(".sj-matrix tbody td"), panel.locator(".sj-matrix thead th")
        assert cells.count() == 30
        assert "gpt-4o / strict-1" in heads.nth(2).inner_text()

        # Sorted by a run, from the keyboard too; found by a text; ticked by the heading.
        heads.nth(2).get_by_role("button").click()
        heads.nth(2).get_by_role("button").click()
        assert panel.locator(".sj-matrix tbody tr").first.locator("td").nth(1).inner_text() == "× 69"
        panel.locator(".sj-matrix input[type=search]").fill("ﾏﾙｳｪｱ")
        assert 0 < panel.locator(".sj-matrix tbody tr").count() < 10
        panel.locator(".sj-matrix input[type=search]").fill("")
        heads.nth(1).get_by_role("checkbox").check()
        heads.nth(2).get_by_role("checkbox").check()
        heads.nth(3).get_by_role("checkbox").uncheck()
        cells.first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        sides = panel.locator(".sides section")
        sides.nth(1).get_by_text("理由 68").first.wait_for(timeout=20_000)
        for side, points in zip(sides.all(), ("80", "68"), strict=True):
            assert side.locator(".tile b").all_inner_texts() == [points] * 6
            assert "<script>window.hacked = 1</script>" in side.inner_text()
        assert page.evaluate("window.hacked") is None
        boxes = [side.bounding_box() for side in sides.all()]
        assert boxes[0]["y"] == boxes[1]["y"]  # side by side
        picture(page, "history")

        panel.get_by_role("button", name="2つを比べる").click()
        settled(panel, "15.5点低く付け")
        panel.get_by_text("線を変えた場合").click()
        settled(panel, "70点での判定")

        # The report: on the disk, and as a download.
        panel.get_by_role("button", name="レポート").click()
        settled(panel, "レポートを保存しました")
        (file,) = (logs / "reports").glob("*.html")
        with page.expect_download() as download:
            panel.get_by_text("ダウンロード（").click()
        assert Path(download.value.path()).read_bytes() == file.read_bytes()
        with opened(browser, file) as watched:
            assert "-15.5" in watched.page.locator("#comparison").inner_text()
            assert watched.troubles == []

        # A narrow window: one below the other, and nothing to scroll sideways but tables in themselves.
        page.set_viewport_size({"width": 480, "height": 3000})
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
    from playwright.sync_api import expect

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
        settled(history, "3回の実行、10問")
        assert page.locator("body.theme-dark").count() == 1
        assert "import socjudge" not in page.inner_text("body")

        page.get_by_text("質問と評価", exact=True).click()
        run.get_by_role("button", name="評価を実行").click()
        run.get_by_text("評価完了！結果を").wait_for(timeout=60_000)
        page.get_by_text("履歴", exact=True).click()
        settled(history, "4回の実行、10問")
        newest = max(own.glob("judge_eval_*.json"))
        heads = history.locator(".sj-matrix thead th")
        assert heads.count() == 5
        expect(heads.nth(4).get_by_role("checkbox")).to_be_in_viewport()  # the newest runs, which are ticked
        assert load_run(newest).summary.total_questions == 10

        assert sideways(page) == 0
        assert all(panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth") for panel in (run, history))
        picture(page, "app-480-dark")
        outside = [link for link in sent if not link.startswith((origin, "data:", "blob:"))]
        assert outside == []
