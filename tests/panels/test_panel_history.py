"""HistoryExplorer driven by its controls, as a click does: the matrix, and what its buttons do."""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import conftest
import matplotlib.pyplot as plt
import pytest
from support.report_logs import bare_log, make_history, save_log
from support.service import KEY, Service, judgement, serving

from socjudge import HistoryExplorer, load_runs
from socjudge.panels.state import session as state_session
from socjudge.runbooks.index import RunbookIndex

pytestmark = [pytest.mark.usefixtures("in_japanese"), pytest.mark.slow]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, index: RunbookIndex) -> Path:
    folder = tmp_path_factory.mktemp("panel") / "logs"
    make_history(folder, index)
    return folder


@pytest.fixture
def panel(logs: Path) -> HistoryExplorer:
    return HistoryExplorer(logs)


def text(part: Any) -> str:
    """What a part of the panel shows."""
    return re.sub(r"\s+", " ", conftest.text(part.value))


def test_the_matrix_is_named_signed_and_scored(panel: HistoryExplorer) -> None:
    assert "3回の実行、10問" in text(panel.status)
    assert [head.split("\n")[0] for head in panel.matrix.runs] == [
        "gpt-4o-mini / guide-1 / ←\u00a0gpt-4o-mini", "gpt-4o / strict-1 / ←\u00a0gpt-4o-mini", "offline / guide-1 / ←\u00a0offline",
    ]  # fmt: skip
    assert len(panel.matrix.questions) == 10
    assert panel.matrix.questions[4].startswith("5 危険操作系 ")
    assert [row[:2] for row in panel.matrix.cells] == [[[80, "○"], [60 + place, "×"]] for place in range(10)]


def test_a_click_opens_answers_scores_and_reasons_side_by_side(panel: HistoryExplorer) -> None:
    panel.matrix.picked = [0, 1]
    panel.matrix.chosen = (4, -1)
    shown = text(panel.detail)
    assert shown.count("SOC当番は端末を隔離します") == 2
    assert shown.count("理由 80") == shown.count("理由 64") == 6
    assert len(re.findall('class="tile[ "]', panel.detail.value)) == 12
    assert not re.search(r"<(script|img)", panel.detail.value)
    panel.matrix.picked = [0]
    panel.matrix.chosen = (4, 2)  # and the run whose cell was clicked
    assert panel.detail.value.count("<section>") == 2


def test_a_click_takes_a_short_way(panel: HistoryExplorer) -> None:
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and f"{os.sep}socjudge{os.sep}panels{os.sep}" in frame.f_code.co_filename:
            called.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        panel.matrix.chosen = (4, 1)
    finally:
        sys.setprofile(None)
    assert "HistoryExplorer._open" in called and len(called) <= 30


def test_rows_are_filtered_and_sorted_by_the_ticked_runs(panel: HistoryExplorer) -> None:
    panel.matrix.picked = [0, 1]
    panel.only.value = "split"
    assert panel.matrix.shown == list(range(10))  # 80 passes, 60 to 69 do not
    panel.only.value = "moved"
    panel.order.value = "low"
    assert panel.matrix.shown == list(range(10))
    panel.order.value = "difference"
    assert panel.matrix.shown[0] == 0  # 80 and 60
    panel.matrix.picked = [0]
    assert panel.matrix.shown == []
    panel.only.value = "failed"
    assert panel.matrix.shown == []
    panel.matrix.picked = [1]
    assert len(panel.matrix.shown) == 10


def test_two_runs_are_compared_and_the_newer_is_reported(panel: HistoryExplorer, logs: Path) -> None:
    panel.matrix.picked = [0, 1]
    panel.compare_button.click()
    assert "gpt-4o-miniに比べ、gpt-4oは同じ回答に15.5点低く付け" in text(panel.told)
    panel.report_button.click()
    (page,) = (logs / "reports").glob("*.html")
    assert f"レポートを保存しました: {page}" in text(panel.told)
    assert f'download="{page.name}" href="data:text/html;base64,' in panel.told.value
    assert "-15.5" in page.read_text("utf-8")
    panel.matrix.picked = []
    for button in (panel.compare_button, panel.report_button, panel.again_button):
        button.click()
        assert "見出しで" in text(panel.told) and "（いま選ばれている実行: 0）" in text(panel.told)


def test_another_line_is_tried_without_a_call_and_changes_no_file(panel: HistoryExplorer, logs: Path) -> None:
    before = {path: path.read_bytes() for path in logs.glob("*.json")}
    panel.more.selected_index = 0
    assert re.search("10/10問 [^/]+ 10/10問 ✅ 合格", text(panel.table))
    panel.line.value = 81
    assert " 80.0 " in text(panel.table) and re.search("10/10問 [^/]+ 0/10問 ❌ 不合格", text(panel.table))
    panel.line.value = 65
    assert re.search("0/10問 [^/]+ 5/10問 ❌ 不合格", text(panel.table))  # gpt-4o: 65 to 69, and seven are needed
    assert "見るだけの計算" in text(panel.table)
    assert before == {path: path.read_bytes() for path in logs.glob("*.json")}


def test_what_is_undecided_stays_undecided_at_another_line(tmp_path: Path) -> None:
    panel = HistoryExplorer(save_log(tmp_path / "logs", bare_log([80, None])))
    panel.more.selected_index = 0
    panel.line.value = 50
    assert "判定保留 1問" in text(panel.table) and "⚠️ 判定保留" in text(panel.table)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    with serving(judgement(75)) as running:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


def test_another_judge_scores_several_runs_with_one_cap_for_all(judge: Service, tmp_path: Path) -> None:
    folder = save_log(tmp_path / "logs", bare_log([80, 60]))
    save_log(folder, bare_log([70, 50], "別の"), "judge_eval_20260102_090000.json")
    save_log(folder, bare_log([90, 90], "別の"), "judge_eval_20260103_090000.json")  # the same answers once more
    panel = HistoryExplorer(folder)
    panel.matrix.picked = [0, 1, 2]
    panel.again_button.click()
    again = panel.again
    again.judge_model.value = "gpt-4o-mini"
    assert "見積もり: 呼び出し 4 回" in text(again.cost)
    assert "回答が同じ実行は、1つだけを採点します（省いた実行: 1）" in text(again.cost)
    assert again.start_button.disabled and judge.requests == []
    again.max_cost_usd.value = 0.0032  # enough for one of the two
    again.allow_cost.value = True
    again.start_button.click()
    again.session.wait(60)
    assert "費用の上限に達した" in text(again.status)
    assert 0 < len(judge.requests) < 4
    again.max_cost_usd.value = 0.5
    again.allow_cost.value = True
    again.start_button.click()
    again.session.wait(60)
    assert "採点しました" in text(again.status)
    assert len(judge.requests) == 4  # what was paid for is not asked again
    assert len(load_runs(folder)) == 5
    assert "5回の実行" in text(panel.status)
    state_session._sessions.clear()  # as when the kernel is started anew
    panel = HistoryExplorer(folder)
    panel.matrix.picked = [0, 1]
    panel.again_button.click()
    panel.again.judge_model.value = "gpt-4o-mini"
    assert "採点済み" in text(panel.again.cost) and panel.again.start_button.disabled


def test_what_is_missing_is_said_with_its_remedy(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    panel = HistoryExplorer(folder)
    assert "フォルダーがありません" in text(panel.status)
    folder.mkdir()
    panel.reload_button.click()
    assert "読めるログがありません" in text(panel.status)
    for log in logs.glob("judge_eval_*.json"):
        (folder / log.name).write_bytes(log.read_bytes())
    (folder / "judge_eval_20250101_000000.json").write_text("{")
    panel.reload_button.click()
    assert "3回の実行" in text(panel.status)
    assert "check_logs" in html.unescape(text(panel.status))


def test_runs_without_a_readable_score_are_shown_as_such(tmp_path: Path) -> None:
    panel = HistoryExplorer(save_log(tmp_path / "logs", bare_log([None, None])))
    panel.more.selected_index = 0
    assert "採点なし" in text(panel.table)
    assert panel.matrix.cells == [[[None, "–"]]] * 2


def test_a_verdict_is_for_reference_if_the_embedded_judge_answered(tmp_path: Path) -> None:
    log = bare_log([80, 80])
    log["run"] = {"run_id": "r", "started_at": "2026-01-01T00:00:00+09:00", "judge_model": "auto",
                  "judge_model_resolved": "offline-rubric-1"}  # fmt: skip
    panel = HistoryExplorer(save_log(tmp_path / "logs", log))
    panel.more.selected_index = 0
    assert "参考判定" in text(panel.table)


def test_an_exported_page_has_the_matrix_as_a_table_of_text(tmp_path: Path) -> None:
    hostile = bare_log([80, 50])
    for row in hostile["results"]:
        row["question"] = row["category"] = "<script>alert(2)</script>\u202e"
    hostile["run"] = {
        "run_id": "<b>run",
        "started_at": "2026-01-01T00:00:00+09:00",
        "judge_model": '"><svg onload=a()>',
    }
    panel = HistoryExplorer(save_log(tmp_path / "<i>logs", hostile))
    panel.more.selected_index = 0
    page = panel._repr_mimebundle_()["text/html"]
    assert "○ 80" in page and "svg onload" in page and "\u202e" not in page
    panel.matrix.chosen = (0, 0)
    for markup in (page, panel.detail.value, panel.table.value, panel.status.value):
        assert not re.search(r"<(script|svg|b>run|i>logs)", markup)
    assert repr(panel) == "<HistoryExplorer: このパネルは JupyterLab で開くと使えます>"


def test_charts_are_drawn_where_they_are_unfolded_and_leave_pyplot_alone(panel: HistoryExplorer) -> None:
    settings, figures = dict(plt.rcParams), plt.get_fignums()
    assert panel.picture.value == ""
    panel.more.selected_index = 1
    for _, name in panel.chart.options:
        panel.chart.value = name
        assert '<img src="data:image/svg+xml;base64,' in panel.picture.value
    assert plt.get_fignums() == figures and dict(plt.rcParams) == settings


def test_runs_without_a_start_have_categories_and_no_trend(tmp_path: Path) -> None:
    panel = HistoryExplorer(save_log(tmp_path / "logs", bare_log([80.0, 60.0]), "judge_eval_undated.json"))
    panel.more.selected_index = 1
    assert "採点できた回答がない" in text(panel.picture)
    panel.chart.value = "categories"
    assert "<img" in panel.picture.value
