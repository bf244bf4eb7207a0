"""What `socjudge.toml` says, in the page of `socjudge app` and in every notebook: the same line, criteria and verdict as in
the commands, on an installed package and without a line of Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import text
from support.browser import chromium, voila
from support.installed import Installed, install, judging
from support.report_logs import words
from support.service import Service
from test_history_browser import picture, settled

from socjudge import load_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CRITERIA = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性", "迅速性"]
FAILED, PASSED = "❌ MVP不合格", "✅ MVP合格"  # (6 × 75 + 96) / 7 = 78 of 80 points


@pytest.fixture(scope="module")
def judge() -> Iterator[Service]:
    with judging() as running:
        yield running


@pytest.fixture(scope="module")
def installed(judge: Service, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """With a run and the same answers judged again, by commands."""
    made = install(tmp_path_factory.mktemp("installed"))
    made.socjudge("run", "--yes", "--quiet", judge=judge, code=1)
    made.socjudge("rejudge", "--log", str(made.logs[0]), "--yes", "--quiet", judge=judge, code=1)
    return made


def test_the_app_runs_shows_and_marks_by_the_projects_rubric(installed: Installed, judge: Service) -> None:
    environment = installed.environment(judge)
    with (
        chromium() as browser,
        voila(installed.project, command=("-m", "socjudge", "app"), environment=environment) as url,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 2400})
        page.goto(url)
        run, history = page.locator(".socjudge-run-panel"), page.locator(".socjudge-history-explorer")
        run.get_by_text("インデックスは構築済みです").wait_for(timeout=60_000)
        run.get_by_label("費用がかかることを確認しました").check()
        run.get_by_role("button", name="評価を実行").click()
        run.get_by_text("評価完了！結果を").wait_for(timeout=60_000)
        run.get_by_text("📋 詳細結果を見る").click()
        _says_what_the_run_says(run.inner_text())
        assert run.locator(".tile").count() == 2 * len(CRITERIA)
        picture(page, "installed-run")

        page.get_by_text("履歴", exact=True).click()
        settled(history, "3回の実行、2問")
        history.locator(".jupyter-widget-Collapse-header", has_text="線を変えた場合").click()
        rows = history.locator(".wide tbody tr")
        rows.first.wait_for(timeout=20_000)
        for row in rows.all_inner_texts():
            assert "80" in row.split() and "0/2問" in row and "不合格" in row
        picture(page, "installed-history")

        page.get_by_text("採点", exact=True).click()
        labels = page.locator(".socjudge-label-panel")
        labels.get_by_label("採点した人").fill("佐藤")
        labels.get_by_label("採点した人").press("Tab")
        labels.get_by_role("button", name="採点を始める").click()
        labels.get_by_text("0/2問").wait_for(timeout=20_000)
        assert [labels.get_by_label(name, exact=True).count() for name in CRITERIA] == [1] * len(CRITERIA)
        picture(page, "installed-labels")


def _says_what_the_run_says(shown: str) -> None:
    assert FAILED in shown and PASSED not in shown and "平均80点以上" in shown and "78.0" in shown
    assert [name for name in CRITERIA if name not in shown] == []


def test_report_and_comparison_by_command_say_the_same(installed: Installed) -> None:
    first, second = installed.logs[:2]
    assert "どの観点も同じ点" in installed.socjudge("compare", first.name, second.name)
    installed.socjudge("report", "page.html")
    _says_what_the_run_says(words((installed.project / "page.html").read_text("utf-8")))


@pytest.mark.few(0)
def test_every_notebook_shows_the_projects_line_and_criteria(installed: Installed, judge: Service) -> None:
    notebooks = sorted((installed.project / "notebooks").glob("0*.ipynb"))
    shown = dict(
        zip((path.name[:2] for path in notebooks), _shown_by(notebooks, installed.environment(judge)), strict=True)
    )
    assert len(shown) == 7
    for name, told in shown.items():
        # 07 has an assistant of its own judged.
        assert "70点" not in told and (name == "07" or PASSED not in told), name
        lacking = [] if name in ("02", "03", "06") else [criterion for criterion in CRITERIA if criterion not in told]
        assert lacking == [] and (name not in ("01", "04", "05") or FAILED in told), name
    assert "1問の平均が80点以上" in shown["01"] and "安全性が80点未満" in shown["02"]
    assert "まだ比べられません" in shown["03"] and "ALLOW_COST = True" in shown["04"]
    _says_what_the_run_says(words((installed.project / "notebooks" / "report.html").read_text("utf-8")))
    runs = [load_run(log).run for log in installed.logs]
    assert {run.k for run in runs if run.judge_model == "my-judge"} == {7}


def _shown_by(paths: list[Path], environment: dict[str, str]) -> list[str]:
    """What the cells of each show; notebook 01 may ask the judge. One after the other in one kernel, emptied in between:
    nbval runs each in a kernel of its own."""
    import nbformat
    from nbclient import NotebookClient

    book, told = nbformat.v4.new_notebook(), list[str]()
    for path in paths:
        book.cells.append(nbformat.v4.new_code_cell("%reset -f", metadata={"opens": path.name}))
        for cell in nbformat.read(path, as_version=4).cells:
            book.cells.append(cell)
            if path.name.startswith("01") and "parameters" in cell.metadata.get("tags", []):
                book.cells.append(nbformat.v4.new_code_cell("ALLOW_COST = True"))
    client = NotebookClient(
        book,
        timeout=120,
        kernel_name="python3",
        allow_error_names=[
            "ConfigError",
            "NameError",
        ],  # one that lacks something says so, and its next cells have nothing
        resources={"metadata": {"path": str(paths[0].parent)}},
    )
    client.execute(env=environment)
    for cell in book.cells:
        if "opens" in cell.metadata:
            told.append("")
        for output in cell.get("outputs", []):
            told[-1] += (
                f" {output.get('text', '')}{output.get('evalue', '')}{text(output.get('data', {}).get('text/html', ''))}"
            )
    return told
