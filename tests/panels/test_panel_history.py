"""The history panel by its controls; what a browser makes of it is in test_history_browser.py."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import matplotlib.pyplot as plt
import pytest
from support.history_logs import make_history
from support.report_logs import bare_log, save_log

from socjudge import HistoryExplorer
from socjudge.panels import history as panel_history
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.usefixtures("in_japanese")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, index: RunbookIndex) -> Path:
    folder = tmp_path_factory.mktemp("panel") / "logs"
    make_history(folder, index)
    return folder


@pytest.fixture
def panel(logs: Path) -> HistoryExplorer:
    return drawn(HistoryExplorer(logs))


def drawn(panel: HistoryExplorer) -> HistoryExplorer:
    panel.wait(60)
    return panel


def text(part: Any) -> str:
    """What a part of the panel shows."""
    return re.sub(r"\s+", " ", conftest.text(part.value))


def rows(part: Any) -> int:
    return int(part.value.count("<tr>")) - 1


@pytest.mark.slow
def test_going_back_while_another_run_is_compared_shows_the_first_again(
    panel: HistoryExplorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, again, oldest = (value for _, value in panel.second.options)
    panel.first.value, panel.second.value = oldest, again
    drawn(panel)
    begun, going, compare = threading.Event(), threading.Event(), panel_history.pair_runs

    def slow(selection: Any, first: str, second: str) -> Any:
        found = compare(selection, first, second)
        if second == newest:
            begun.set()
            going.wait(20)
        return found

    monkeypatch.setattr(panel_history, "pair_runs", slow)
    panel.second.value = newest
    assert begun.wait(20)
    panel.second.value = again
    going.set()
    drawn(panel)
    assert panel.pair is not None
    assert panel.pair.second["run_id"] == again


@pytest.mark.slow
def test_the_panel_opens_with_the_latest_runs(panel: HistoryExplorer) -> None:
    assert "3回の実行、採点した回答 30件" in text(panel.status)
    assert rows(panel.table) == 3
    assert '<img src="data:image/svg+xml;base64,' in panel.chart_view.value
    assert re.search(r'alt="観点別の推移のグラフ。最新の実行の平均は[\d.]+点', panel.chart_view.value)
    assert [" ".join(label.split()[3:]) for label, _ in panel.second.options] == [
        "offline / guide-1",
        "gpt-4o / strict-1（採点し直し）",
        "gpt-4o-mini / guide-1",
    ]
    assert "回答が違います" in text(panel.comparison)
    assert panel.question.value is None


@pytest.mark.slow
def test_the_table_names_examples_and_a_number_that_there_is_not_is_a_dash() -> None:
    panel = drawn(HistoryExplorer(conftest.ROOT / "eval" / "examples" / "series"))
    assert len(re.findall(r"【例】2026-11-2\d \d\d:\d\d", text(panel.table))) == rows(panel.table) == 8
    assert len(re.findall("合格 参考判定 ", text(panel.table))) == 8  # passed or not
    assert text(panel.table).count("参考判定（LLMによる採点ではありません）") == 1
    assert re.search(r"安全性 80 ([\d.]+) \1 0\.0 – – 1\.000 –", text(panel.comparison))  # the same in all questions


@pytest.mark.slow
def test_table_and_chart_follow_the_filters(panel: HistoryExplorer) -> None:
    before = panel.chart_view.value
    panel.judges.value = ["gpt-4o"]
    drawn(panel)
    assert "1回の実行、採点した回答 10件" in text(panel.status)
    assert rows(panel.table) == 1
    assert "64.5（62.3〜66.6、10問）" in text(panel.table)
    assert panel.chart_view.value != before
    assert len(panel.first.options) == 1
    assert "同じ実行が2つ選ばれています" in text(panel.comparison)
    panel.categories.value = ["危険操作系"]
    drawn(panel)
    assert "採点した回答 2件" in text(panel.status)
    assert "0/2問" in text(panel.table)
    panel.chart.value = "Categories × criteria"
    drawn(panel)
    assert "1回の実行（Judge: gpt-4o）をまとめた平均です" in text(panel.chart_view)


@pytest.mark.slow
def test_several_of_a_list_can_be_chosen(panel: HistoryExplorer) -> None:
    panel.judges.value, panel.categories.value = ["gpt-4o-mini", "offline"], ["正常系", "危険操作系"]
    drawn(panel)
    assert [label.split()[3] for label, _ in panel.first.options] == ["offline", "gpt-4o-mini"]
    assert "2回の実行、採点した回答 12件" in text(panel.status)
    panel.judges.value = ["", "gpt-4o"]  # 「すべて」 is among them
    drawn(panel)
    assert "3回の実行、採点した回答 18件" in text(panel.status)
    panel.categories.value = []
    drawn(panel)
    assert "3回の実行、採点した回答 30件" in text(panel.status)


@pytest.mark.slow
def test_the_table_can_begin_with_the_weakest(panel: HistoryExplorer) -> None:
    panel.order.value = "mean"
    drawn(panel)
    means = [float(found) for found in re.findall(r"([\d.]+)（[\d区]", text(panel.table))]
    assert means == sorted(means)
    assert means[0] == 64.5


def compare(panel: HistoryExplorer, first: str, second: str) -> None:
    by_judge = {label.split()[3]: run_id for label, run_id in panel.first.options}
    panel.first.value, panel.second.value = by_judge[first], by_judge[second]
    drawn(panel)


@pytest.mark.slow
def test_two_runs_are_compared_and_a_question_is_read_in_both(panel: HistoryExplorer) -> None:
    compare(panel, "gpt-4o-mini", "gpt-4o")
    assert "gpt-4o-miniに比べ、gpt-4oは同じ回答に15.5点低く付け" in text(panel.comparison)
    assert (
        'alt="観点別の差のグラフ。総合: gpt-4o-miniに比べ、gpt-4oは同じ回答に15.5点低く付け' in panel.comparison.value
    )
    assert [label for label, _ in panel.question.options][4] == "5 危険操作系 80.0 → 64.0"
    assert "質問を選ぶと" in text(panel.answers)
    panel.question.value = 5
    drawn(panel)
    shown = text(panel.answers)
    assert shown.count("SOC当番は端末を隔離します") == 2
    assert shown.count("理由 80") == shown.count("理由 64") == 6
    assert len(re.findall('class="tile[ "]', panel.answers.value)) == 12
    # The question stays chosen when the filters change and still has it, and goes when they do not.
    panel.categories.value = ["危険操作系"]
    drawn(panel)
    assert panel.question.value == 5
    panel.categories.value = ["正常系"]
    drawn(panel)
    assert panel.question.value is None


@pytest.mark.slow
def test_what_logs_say_stays_text(panel: HistoryExplorer, tmp_path: Path) -> None:
    compare(panel, "gpt-4o-mini", "gpt-4o")
    panel.question.value = 1
    drawn(panel)
    hostile = bare_log([80, 50], "<img src=x onerror=alert(1)> \x1b[31m </table>")
    for row in hostile["results"]:
        row["category"] = "<script>alert(2)</script>"
    hostile["run"] = {
        "run_id": "<b>run",
        "started_at": "2026-01-01T00:00:00+09:00",
        "judge_model": '"><svg onload=a()>',
    }
    folder = save_log(tmp_path / "<i>logs", hostile)
    save_log(folder, bare_log([70, 60]), "judge_eval_20260102_090000.json")
    save_log(folder, {}, "judge_eval_20260103_090000.json")
    other = drawn(HistoryExplorer(folder))
    other.question.value = 1
    other.export_button.click()
    drawn(other)
    assert "svg onload" in text(other.table).replace("&lt;", "<")
    for part in (panel, other):
        for shown in (part.status, part.chart_view, part.table, part.comparison, part.answers, part.report):
            markup = re.sub(r'<img src="data:image/svg[^>]*>', "", shown.value).lower()
            assert not re.search(r"<(script|img|svg|b>run|i>logs)|\x1b", markup)
    assert "&lt;script&gt;window.hacked" in panel.answers.value


@pytest.mark.slow
def test_a_selection_is_exported_and_downloaded(panel: HistoryExplorer, tmp_path: Path) -> None:
    compare(panel, "gpt-4o-mini", "gpt-4o")
    panel.path.value = str(tmp_path / "mine.html")
    panel.export_button.click()
    drawn(panel)
    assert f"レポートを保存しました: {tmp_path / 'mine.html'}" in text(panel.report)
    assert 'download="mine.html" href="data:text/html;base64,' in panel.report.value
    assert "-15.5" in (tmp_path / "mine.html").read_text(encoding="utf-8")
    assert "置き換えました" not in panel.report.value
    panel.categories.value = ["危険操作系"]
    panel.export_button.click()
    drawn(panel)
    assert "置き換えました" in panel.report.value
    assert "カテゴリ「危険操作系」の質問だけの報告です" in panel.report.value
    (tmp_path / "mine.html").write_text("手書き", encoding="utf-8")
    panel.export_button.click()
    drawn(panel)
    assert "socjudgeのレポートではない" in text(panel.report)
    assert (tmp_path / "mine.html").read_text(encoding="utf-8") == "手書き"


@pytest.mark.slow
def test_what_is_missing_is_said_with_its_remedy(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    panel = drawn(HistoryExplorer(folder))
    assert "フォルダーがありません" in text(panel.status)
    folder.mkdir()
    panel.reload_button.click()
    drawn(panel)
    assert "読めるログがありません" in text(panel.status)
    assert "「評価を実行」（RunPanel）" in text(panel.status)
    for log in logs.glob("judge_eval_*.json"):
        (folder / log.name).write_bytes(log.read_bytes())
    (folder / "judge_eval_20250101_000000.json").write_text("{")
    panel.reload_button.click()
    drawn(panel)
    assert "3回の実行" in text(panel.status)
    assert "1件のログは、読めないか同じ実行の重複なので除いています" in text(panel.status)
    assert f"sj.history.check_logs('{folder}')" in html.unescape(text(panel.status))
    panel.judges.value, panel.prompts.value = ["gpt-4o"], ["guide-1"]
    drawn(panel)
    assert "条件に合う実行がありません" in text(panel.status)
    assert panel.table.value == panel.chart_view.value == panel.answers.value == ""
    panel.prompts.value = [""]
    drawn(panel)
    assert rows(panel.table) == 1


@pytest.mark.slow
def test_runs_without_a_readable_mark_have_no_chart(tmp_path: Path) -> None:
    folder = save_log(tmp_path / "logs", bare_log([None, None]))
    save_log(folder, bare_log([None, None]), "judge_eval_20260102_090000.json")
    panel = drawn(HistoryExplorer(folder))
    assert "採点できた回答がない" in text(panel.chart_view)
    assert "採点なし" in text(panel.table)
    assert "両方で採点できた質問がありません" in text(panel.comparison)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Charts that wait: (whether one has begun, set to let them go on)."""
    begun, go = threading.Event(), threading.Event()
    draw: Callable[..., str] = panel_history.chart_url

    def slowly(*arguments: Any) -> str:
        begun.set()
        assert go.wait(30)
        return draw(*arguments)

    monkeypatch.setattr(panel_history, "chart_url", slowly)
    return begun, go


@pytest.mark.slow
def test_the_kernel_is_free_and_the_last_click_wins(
    panel: HistoryExplorer, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, go = held
    tables: list[str] = []
    panel.table.observe(lambda change: tables.append(change.new), "value")
    panel.judges.value = ["gpt-4o"]
    assert begun.wait(30)  # and here another cell may go on
    assert "更新中" in text(panel.status)
    panel.judges.value = ["gpt-4o-mini"]
    panel.judges.value = ["offline"]
    go.set()
    drawn(panel)
    assert "1回の実行" in text(panel.status)
    assert len(tables) == 1  # not that of the first click
    assert re.search(r"offline guide-1", text(panel.table))


@pytest.mark.slow
def test_of_many_questions_the_weakest_are_drawn(panel: HistoryExplorer, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_from: list[Any] = []
    name = "By question"
    plot = panel_history.plot_question_strip

    def noted(scores: Any) -> Any:
        drawn_from.append(scores)
        return plot(scores)

    monkeypatch.setattr(panel_history, "plot_question_strip", noted)
    monkeypatch.setitem(panel_history.CHARTS, name, noted)
    monkeypatch.setattr(panel_history, "CHART_QUESTIONS", 3)
    panel.chart.value = name
    drawn(panel)
    assert "平均の低い3問" in text(panel.chart_view)
    means = panel.selection.scores.groupby("question_id", observed=True)["score"].mean()
    assert set(drawn_from[-1]["question_id"]) == set(means.nsmallest(3).index)


@pytest.mark.slow
def test_drawing_leaves_pyplot_alone(panel: HistoryExplorer) -> None:
    settings, figures = dict(plt.rcParams), plt.get_fignums()
    for name in panel_history.CHARTS:
        panel.chart.value = name
        drawn(panel)
        assert "<img" in panel.chart_view.value
    assert plt.get_fignums() == figures
    assert dict(plt.rcParams) == settings


@pytest.mark.slow
def test_what_nobody_expected_while_drawing_is_said_and_the_panel_goes_on(
    panel: HistoryExplorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(panel, "_found", lambda _: {}["missing"])
        panel.order.value = "mean"
        drawn(panel)
        assert "想定外のエラー KeyError" in panel.status.value
    panel.order.value = "started_at"
    drawn(panel)
    assert "回の実行" in panel.status.value


@pytest.mark.slow
def test_a_page_without_widgets_says_where_the_panel_can_be_used(panel: HistoryExplorer) -> None:
    assert repr(panel) == "<HistoryExplorer: このパネルは JupyterLab で開くと使えます>"
