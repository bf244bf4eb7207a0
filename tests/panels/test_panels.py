"""The panels as a person uses them, by their controls; what a browser makes of them is in test_panels_browser.py."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER, text
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import Button
from support.service import KEY, Reply, Service, error, is_judge_call, judgement
from traitlets.config import Config

from socjudge import AskPanel, RunPanel, app, constants, load_run, load_runs, open_index
from socjudge.panels import run as run_panel
from socjudge.panels.state import session
from socjudge.runbooks.index import RunbookIndex
from socjudge.runs.unfinished import unfinished_runs

pytestmark = pytest.mark.usefixtures("in_japanese")


@pytest.fixture(autouse=True)
def _no_session_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_sessions", {})


@pytest.fixture
def panel(index: RunbookIndex, tmp_path: Path) -> Iterator[RunPanel]:
    """A panel whose index is built."""
    panel = RunPanel(index_dir=index.index_dir, logs_dir=tmp_path / "logs")
    yield panel
    panel.session.stop()
    panel.session.wait(30)


@pytest.fixture
def hosted(panel: RunPanel, service: Service) -> RunPanel:
    """The panel set to a hosted judge; one call at a time."""
    panel.judge_model.value = "gpt-4o-mini"
    panel.assistant_model.value = "offline"
    panel.max_concurrency.value = 1
    return panel


def run(panel: RunPanel) -> None:
    panel.allow_cost.value = True
    panel.run_button.click()
    panel.session.wait(60)


@pytest.mark.slow
def test_nothing_can_be_run_before_the_index_is_built(tmp_path: Path, index: RunbookIndex) -> None:
    panel = RunPanel(index_dir=tmp_path / "index", logs_dir=tmp_path / "logs")
    assert panel.run_button.description == "評価を実行"
    assert panel.run_button.disabled
    assert "インデックスが構築されていません" in panel.index_text.value
    panel.build_button.click()
    panel.session.wait(60)
    assert "構築済み" in panel.index_text.value
    assert panel.build_button.disabled
    assert not panel.run_button.disabled


def test_an_index_that_a_later_cell_builds_is_found(tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir()
    (runbooks / "vpn.md").write_text("# VPN\n\n## 手順\n1. 当番は、接続を確認する。\n", encoding="utf-8")
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        panel = RunPanel(runbooks=runbooks, index_dir=tmp_path / "index", logs_dir=tmp_path / "logs")
        assert panel.run_button.disabled and not panel.build_button.disabled
        cell = f"import socjudge\nsocjudge.open_index({str(runbooks)!r}, index_dir={str(tmp_path / 'index')!r});"
        shell.run_cell(cell).raise_error()
        assert "構築済み" in panel.index_text.value and not panel.run_button.disabled
        panel.close()
        assert panel._look_again not in shell.events.callbacks["post_run_cell"]
    finally:
        InteractiveShell.clear_instance()


def test_runbooks_that_changed_since_the_index_was_built_are_named(tmp_path: Path, index: RunbookIndex) -> None:
    books = tmp_path / "runbooks"
    books.mkdir()
    (books / "vpn.md").write_text("# VPN\n\n## 手順\n1. 当番は、接続を確認する。\n", encoding="utf-8")
    panel = RunPanel(runbooks=books, index_dir=tmp_path / "index", logs_dir=tmp_path / "logs")
    panel.build_button.click()
    panel.session.wait(60)
    (books / "vpn.md").write_text("# VPN\n\n## 手順\n1. 当番は、接続を切る。\n", encoding="utf-8")
    panel = RunPanel(runbooks=books, index_dir=tmp_path / "index", logs_dir=tmp_path / "logs")
    assert "手順書がインデックスの作成後に変わりました（vpn.md）。" in panel.index_text.value
    assert not panel.build_button.disabled


@pytest.mark.slow
def test_building_the_index_shows_how_far_it_is(tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir()
    for n in range(40):
        (runbooks / f"{n}.md").write_text(f"# 手順{n}\n端末{n}を隔離する。\n", encoding="utf-8")
    panel = RunPanel(runbooks=runbooks, index_dir=tmp_path / "index", logs_dir=tmp_path / "logs")
    seen = []
    panel.session.listeners.append(lambda: seen.append((panel.index_text.value, panel.bar.value, panel.bar.max)))
    panel.build_button.click()
    panel.session.wait(60)
    assert any("インデックスを構築中... 32/80" in words and (done, total) == (32, 80) for words, done, total in seen)
    assert "構築済み" in panel.index_text.value
    assert panel.bar.layout.visibility == "hidden"


@pytest.mark.slow
def test_a_run_ends_with_the_words_of_the_specification(panel: RunPanel, tmp_path: Path) -> None:
    run(panel)
    shown = text(panel.results.value)
    assert panel.run is not None
    assert f"logs/{panel.run.log_path.name} に保存しました" in shown
    for words in (
        "評価結果サマリー",
        "✅ MVP合格",
        "総問題数: 10問",
        "📋 詳細結果を見る",
        "平均スコア:",
        "総合コメント:",
    ):
        assert words in shown
    assert len(re.findall('class="tile[ "]', panel.results.value)) == 60
    assert "LLMではありません" in shown
    assert "参考判定（LLMによる採点ではありません）" in shown
    saved, verdict = panel.results.value.split('<div class="socjudge ')[1:3]
    assert saved.startswith('good">評価完了！結果を') and "MVP合格" not in saved
    assert verdict.startswith('grey">')  # no green for what no LLM marked
    assert [Path(option).name for option in panel.dataset.options] == [
        "eval_dataset.json",
        "eval_dataset_extended.json",
    ]
    assert load_run(panel.run.log_path) == panel.run
    assert (panel.bar.value, panel.bar.max) == (10, 10)


@pytest.mark.slow
def test_a_paid_run_needs_a_tick_each_time(hosted: RunPanel, service: Service) -> None:
    assert "コストがかかります" in hosted.cost.value
    assert "呼び出し 10 回" in hosted.cost.value
    assert "円）" in hosted.cost.value
    assert hosted.run_button.disabled
    hosted.run_button.click()
    hosted.session.wait(30)
    assert service.requests == []
    run(hosted)
    assert service.judge_calls == 10
    assert not hosted.allow_cost.value
    assert hosted.run_button.disabled


def test_what_cannot_be_run_is_said_before_it_is(panel: RunPanel, tmp_path: Path) -> None:
    panel.dataset.value = str(tmp_path / "nowhere.json")
    assert "nowhere.json" in panel.cost.value
    assert panel.run_button.disabled


@pytest.mark.slow
def test_a_run_that_is_stopped_is_taken_up_again(hosted: RunPanel, service: Service) -> None:
    third, stopped = threading.Event(), threading.Event()

    def slow_at_third(request: dict[str, object]) -> str:
        if len(service.requests) == 3:
            third.set()
            stopped.wait(20)
        return judgement(80)

    service.default = slow_at_third
    hosted.allow_cost.value = True
    hosted.run_button.click()
    assert third.wait(20)
    assert not hosted.stop_button.disabled
    hosted.stop_button.click()
    assert "完了を待っています" in hosted.status.value
    stopped.set()
    hosted.session.wait(30)
    assert "中断しました（3/10" in text(hosted.status.value)
    assert hosted.run is None
    run(hosted)
    assert service.judge_calls == 10
    assert hosted.run is not None
    assert hosted.bar.value == 10


@pytest.mark.slow
def test_a_cell_that_is_run_again_finds_its_run(hosted: RunPanel, service: Service, index: RunbookIndex) -> None:
    held = service.hold()
    hosted.allow_cost.value = True
    hosted.run_button.click()
    again = RunPanel(index_dir=index.index_dir, logs_dir=hosted.logs_dir)
    assert again.session is hosted.session
    assert again.run_button.disabled
    assert "評価を実行中... これには数分かかる場合があります" in again.status.value
    again.run_button.click()
    held.going.set()
    again.session.wait(60)
    assert service.judge_calls == 10
    assert again.run is hosted.run is not None
    assert "評価完了" in again.results.value


@pytest.mark.slow
def test_only_the_newest_panel_of_a_cell_follows_its_session(panel: RunPanel, index: RunbookIndex) -> None:
    panels = [RunPanel(index_dir=index.index_dir, logs_dir=panel.logs_dir) for _ in range(3)]
    newest = panels[-1]
    assert len(panel.session.listeners) == 1
    run(newest)
    assert "評価完了" in newest.results.value
    assert all(older.results.value == "" and older.comm is None for older in (panel, *panels[:-1]))
    newest.close()
    assert panel.session.listeners == []
    assert newest.run is not None


@pytest.mark.slow
def test_a_run_is_planned_once_at_its_start_and_priced_once_after_its_end(
    panel: RunPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()

    def counted(name: str) -> None:
        real = getattr(run_panel, name)
        monkeypatch.setattr(run_panel, name, lambda *args, **how: counts.update([name]) or real(*args, **how))

    for name in ("load_eval_dataset", "plan_answers"):
        counted(name)
    panel.max_concurrency.value = 2
    assert counts == {}  # it is the same run
    at_start: list[Counter[str]] = []
    panel.session.listeners.append(lambda: at_start.append(counts.copy()) if panel.session.is_busy else None)
    run(panel)
    assert panel.run is not None
    assert at_start[-1] == {"load_eval_dataset": 1, "plan_answers": 1}
    assert counts == {"load_eval_dataset": 2, "plan_answers": 2}


@pytest.mark.slow
def test_a_click_is_drawn_at_its_start_with_its_results_and_at_its_end(
    panel: RunPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, draw = [], panel._draw
    monkeypatch.setattr(panel, "_draw", lambda: drawn.append(panel.session.progress.done) or draw())
    run(panel)
    assert panel.run is not None
    results = {done for done in drawn if done > 0}
    assert len(drawn) <= len(results) + 3 and "評価完了" in panel.results.value


def test_panels_share_an_index_that_is_loaded_once(panel: RunPanel, tmp_path: Path) -> None:
    other = RunPanel(index_dir=panel.index_dir, logs_dir=tmp_path / "others")
    panel.k.value = 6
    first, second = (shown.plans[0].plan for shown in (panel, other))
    assert first.index is second.index is open_index(index_dir=panel.index_dir)


@pytest.mark.slow
def test_of_many_answers_the_unread_and_the_weakest_are_shown(
    hosted: RunPanel, service: Service, tmp_path: Path
) -> None:
    def marks(request: dict[str, Any]) -> str:
        number = int(re.search(r"端末(\d+)番", request["messages"][0]["content"])[1])  # type: ignore[index]
        return "読めない返事" if number == 55 else judgement(20 if number == 33 else 80)

    service.default = marks
    row = {"category": "正常系", "expected_keypoints": ["隔離"]}
    rows = [{"id": n, "question": f"端末{n}番を隔離する手順は？", **row} for n in range(1, 61)]
    (tmp_path / "many.json").write_text(json.dumps(rows), encoding="utf-8")
    hosted.max_concurrency.value = 8
    hosted.dataset.value = str(tmp_path / "many.json")
    run(hosted)
    shown = re.findall(r"<b>(\d+)\. 端末", hosted.results.value)
    assert shown[:4] == ["55", "33", "1", "2"]
    assert len(shown) == 50
    assert hosted.run is not None
    assert f"ほかの10件は {hosted.run.log_path}" in text(hosted.results.value)


@pytest.mark.slow
def test_a_run_of_before_the_kernel_was_restarted_is_offered(
    hosted: RunPanel, service: Service, index: RunbookIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.script = [judgement(80)] * 4 + [error(401, f"Incorrect API key provided: {KEY}")]
    run(hosted)
    monkeypatch.setattr(session, "_sessions", {})
    fresh = RunPanel(index_dir=index.index_dir, logs_dir=hosted.logs_dir)
    fresh.judge_model.value, fresh.assistant_model.value = "gpt-4o-mini", "offline"
    assert "前回の中断があります（4/10）" in fresh.status.value
    fresh.fresh.value = True
    assert "前回の中断" not in fresh.status.value
    fresh.fresh.value = False
    run(fresh)
    assert service.judge_calls == 4 + 1 + 6
    assert (fresh.session.progress.done, fresh.bar.value) == (10, 10)


@pytest.mark.slow
def test_a_refused_key_is_said_in_the_panel_without_the_key(hosted: RunPanel, service: Service) -> None:
    service.default = error(401, f"Incorrect API key provided: {KEY}")
    run(hosted)
    assert hosted.session.state == "failed"
    assert "OPENAI_API_KEY" in hosted.status.value
    assert KEY not in hosted.status.value
    assert hosted.run is None


@pytest.mark.slow
def test_a_budget_that_is_used_up_is_said_in_the_panel(hosted: RunPanel, service: Service) -> None:
    hosted.max_cost_usd.value = 0.0055
    run(hosted)
    assert hosted.session.state == "stopped"
    assert "費用の上限に達したため中断しました" in hosted.status.value
    assert "費用の上限 $0.0055 では次の呼び出しができません" in hosted.status.value
    assert 0 < service.judge_calls < 10


@pytest.mark.slow
def test_unread_replies_are_counted(hosted: RunPanel, service: Service) -> None:
    service.script = [error(429, "slow down"), error(500, "oops"), judgement(80), *["読めない返事"] * 3]
    run(hosted)
    progress = hosted.session.progress
    assert (progress.unread, progress.done, progress.mean) == (1, 10, 80.0)
    assert "⚠️ <b>" in hosted.results.value and "未採点: " in hosted.results.value


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \x1b[31m </pre></textarea>"


@pytest.mark.slow
def test_what_a_model_says_stays_text(hosted: RunPanel, service: Service, index: RunbookIndex) -> None:
    service.default = lambda request: (
        judgement(80, reason=HOSTILE, comment=HOSTILE) if is_judge_call(request) else HOSTILE
    )
    hosted.assistant_model.value = "gpt-4o-mini"
    run(hosted)
    asked = AskPanel(model="gpt-4o-mini", index_dir=index.index_dir)
    asked.question.value = HOSTILE
    asked.ask_button.click()
    asked.wait(30)
    for markup in (hosted.results.value, asked.chat.children[0].value):
        assert "<script" not in markup.lower()
        assert "<img" not in markup.lower()
        assert "href" not in markup.lower()
        assert "\x1b" not in markup
        assert "&lt;script&gt;" in markup


def test_a_page_without_widgets_says_where_the_panel_can_be_used(panel: RunPanel) -> None:
    assert repr(panel) == "<RunPanel: このパネルは JupyterLab で開くと使えます>"


def test_a_question_is_answered_with_citations_and_no_judge(service: Service, index: RunbookIndex) -> None:
    panel = AskPanel(model="gpt-4o-mini", index_dir=index.index_dir)
    panel.ask_button.click()
    assert service.requests == []
    assert "質問を入力してから" in text(panel.status.value)
    panel.question.value = "感染した端末のログを削除してもよいですか？"
    panel.ask_button.click()
    panel.wait(30)
    assert [is_judge_call(request) for request in service.requests] == [False]
    shown = panel.chat.children[0].value
    assert "SOC当番は端末を隔離します。" in text(shown)
    assert "警告: 危険操作" in text(shown)
    assert "<details><summary>[出典:" in shown
    assert panel.question.value == ""
    assert not panel.ask_button.disabled


def test_the_question_is_the_first_field_of_the_chat(index: RunbookIndex) -> None:
    panel = AskPanel(index_dir=index.index_dir)
    fields = [part for part in panel.children if part in (panel.question, panel.ask_button, panel.model)]
    assert fields == [panel.question, panel.ask_button, panel.model]


def ask_in(panel: AskPanel, question: str) -> str:
    """What the panel shows as the answer."""
    panel.question.value = question
    panel.ask()
    panel.wait(30)
    return text(panel.chat.children[0].value)


@pytest.mark.slow
def test_a_follow_up_is_read_with_the_question_before_until_one_starts_anew(index: RunbookIndex) -> None:
    panel = AskPanel(index_dir=index.index_dir)
    assert "聞き返" not in ask_in(panel, "フィッシングのサイトにパスワードを入れてしまいました。何をすればいいですか。")
    assert "前の質問の続きとして検索します: 「フィッシングのサイトに" in text(panel.before.value)
    assert "phishing_response.md" in ask_in(panel, "それは誰に連絡しますか")
    assert panel.answers[-1].question == "それは誰に連絡しますか"
    assert not panel.answers[-1].flags.ambiguous_query
    panel.new_button.click()
    assert panel._follow_on.layout.display == "none"
    assert "次の情報を教えてください" in ask_in(panel, "それは誰に連絡しますか")


def test_a_report_of_something_else_is_not_read_with_the_question_before(index: RunbookIndex) -> None:
    panel = AskPanel(index_dir=index.index_dir)
    ask_in(panel, "フィッシングのサイトにパスワードを入れてしまいました。何をすればいいですか。")
    answer = ask_in(panel, "電車で会社のノートPCをなくしました。どうすればいいですか。")
    assert "lost_device.md" in answer
    assert "フィッシング" not in text(panel.before.value)


def test_a_question_does_not_write_the_index_anew(index: RunbookIndex) -> None:
    panel = AskPanel(index_dir=index.index_dir)
    written = {path: path.stat().st_mtime_ns for path in index.index_dir.iterdir()}
    panel.question.value = "端末を隔離する手順は？"
    panel.ask()
    panel.wait(30)
    assert len(panel.answers) == 1
    assert {path: path.stat().st_mtime_ns for path in index.index_dir.iterdir()} == written


def test_the_first_question_builds_an_index_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "runbooks" / "isolation.md").write_text("# 隔離\n端末のLANケーブルを抜く。\n", encoding="utf-8")
    panel = AskPanel(runbooks=tmp_path / "runbooks", index_dir=tmp_path / "index")
    panel.question.value = "端末を隔離する手順は？"
    panel.ask()
    panel.wait(30)
    assert [answer.passages[0].source for answer in panel.answers] == ["isolation.md"]


def test_a_service_that_is_down_is_said_and_the_question_is_kept(service: Service, index: RunbookIndex) -> None:
    service.default = Reply(status=400, error={"message": "model is gone"})
    panel = AskPanel(model="gpt-4o-mini", index_dir=index.index_dir)
    panel.question.value = "端末を隔離する手順は？"
    panel.ask_button.click()
    panel.wait(30)
    assert "model is gone" in panel.status.value
    assert panel.question.value == "端末を隔離する手順は？"
    assert not panel.ask_button.disabled


def test_a_model_without_a_key_is_said_in_the_panel(panel: RunPanel) -> None:
    panel.judge_model.value = "gpt-4o-mini"
    assert "OPENAI_API_KEY" in panel.cost.value and panel.run_button.disabled


def test_a_damaged_journal_is_said_in_the_panel(index: RunbookIndex, tmp_path: Path) -> None:
    (tmp_path / "judge_eval_20260101_000000.partial.jsonl").write_text('{"journal": 3}\ngarbage\n')
    panel = RunPanel(index_dir=index.index_dir, logs_dir=tmp_path)
    assert "1行目が壊れています" in panel.status.value


@pytest.mark.slow
def test_a_second_start_does_not_take_a_stop_back(hosted: RunPanel, service: Service) -> None:
    held = service.hold()
    hosted.allow_cost.value = True
    plan = hosted.plans[0]
    hosted.run_button.click()
    assert held.asked.wait(20)
    hosted.session.stop()
    hosted.session.judge([plan])
    held.going.set()
    hosted.session.wait(30)
    assert hosted.session.state == "stopped"
    assert service.judge_calls == 1


@pytest.mark.slow
def test_a_fresh_run_that_is_stopped_is_taken_up_too(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(80)] * 4 + [error(401, "no")]
    hosted.fresh.value = True
    run(hosted)
    assert not hosted.fresh.value
    run(hosted)
    assert hosted.run is not None
    assert service.judge_calls == 4 + 1 + 6


@pytest.mark.slow
def test_what_is_taken_up_says_what_its_numbers_are_of(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(60)] * 4 + [error(401, "no")]
    run(hosted)
    service.script = [judgement(90)] * 2 + [error(401, "no")]
    run(hosted)
    assert "（6/10（4件は前回まで）、平均 90.0点" in text(hosted.status.value)


@pytest.mark.slow
def test_a_new_panel_over_a_stopped_run_has_its_settings(
    hosted: RunPanel, service: Service, index: RunbookIndex
) -> None:
    hosted.max_cost_usd.value = 0.0055
    run(hosted)
    again = RunPanel(index_dir=index.index_dir, logs_dir=hosted.logs_dir)
    assert again.judge_model.value == "gpt-4o-mini"
    assert "続きから再開します" in text(again.status.value)
    # With other settings it would be another run, and the panel says so.
    again.k.value = 4
    assert "続きから再開します" not in text(again.status.value)
    assert "続きからは始めません" in text(again.cost.value)


@pytest.mark.slow
def test_a_run_that_is_taken_up_can_be_stopped_at_once(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(80)] * 4 + [error(401, "no")]
    run(hosted)
    held = service.hold()
    hosted.allow_cost.value = True
    hosted.run_button.click()
    assert held.asked.wait(20)
    assert not hosted.stop_button.disabled
    assert hosted.max_cost_usd.disabled
    assert "評価を実行中" in hosted.status.value
    hosted.session.stop()
    held.going.set()


@pytest.mark.slow
def test_a_change_that_a_click_has_overtaken_stops_the_run(hosted: RunPanel, service: Service) -> None:
    held = service.hold()
    hosted.allow_cost.value = True
    hosted.run_button.click()
    assert held.asked.wait(20)
    hosted.max_cost_usd.value = 0.01  # the page lets nobody change it any more: this was sent before the click
    held.going.set()
    hosted.session.wait(30)
    assert hosted.session.state == "stopped"
    assert service.judge_calls == 1
    assert "設定の変更が「評価を実行」のクリックより遅れて届いたため中断しました" in text(hosted.status.value)
    run(hosted)
    assert hosted.run is not None
    assert service.judge_calls == 10


def test_what_is_typed_while_an_answer_is_made_is_kept(service: Service, index: RunbookIndex) -> None:
    panel = AskPanel(model="gpt-4o-mini", index_dir=index.index_dir)
    panel.question.value = "端末を隔離する手順は？"
    panel.ask()
    panel.question.value = "次の質問を入力中"
    panel.wait(30)
    assert panel.question.value == "次の質問を入力中"
    assert len(panel.answers) == 1


@pytest.mark.slow
def test_a_model_of_unknown_price_can_be_run_without_a_cap(hosted: RunPanel, service: Service) -> None:
    hosted.judge_model.value = "my-own-model"
    hosted.allow_cost.value = True
    assert hosted.run_button.disabled and "my-own-model" in hosted.cost.value
    hosted.max_cost_usd.value = 0
    run(hosted)
    assert hosted.run is not None
    assert service.judge_calls == 10


@pytest.mark.slow
def test_what_cannot_be_drawn_does_not_end_the_run(hosted: RunPanel, service: Service) -> None:
    def failing() -> None:
        raise RuntimeError("the page is gone")

    hosted.session.listeners.append(failing)
    with pytest.warns(UserWarning, match="パネルを描けませんでした.*: the page is gone"):
        run(hosted)
    assert hosted.run is not None
    assert service.judge_calls == 10


@pytest.mark.slow
def test_how_calls_are_made_can_be_set_and_comes_from_the_environment(
    hosted: RunPanel, service: Service, index: RunbookIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (hosted.output_tokens.value, hosted.timeout_s.value) == (4000, 120.0)
    hosted.output_tokens.value, hosted.timeout_s.value, hosted.patience_s.value = 777, 90.0, 5.0
    run(hosted)
    assert {request["max_tokens"] for request in service.requests} == {777}
    hosted.output_tokens.value = 0
    assert hosted.output_tokens.value == 1
    monkeypatch.setenv("SOCJUDGE_TIMEOUT_S", "600")
    assert RunPanel(index_dir=index.index_dir, logs_dir=tmp_path / "others").timeout_s.value == 600


@pytest.mark.slow
def test_what_is_left_of_a_stopped_run_is_what_the_panel_prices(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(80)] * 4 + [error(401, f"Incorrect API key provided: {KEY}")]
    run(hosted)
    assert "見積もり（残りの分）: 呼び出し 6 回" in hosted.cost.value
    hosted.fresh.value = True
    assert "見積もり: 呼び出し 10 回" in hosted.cost.value


@pytest.mark.slow
def test_after_a_resumed_run_the_tick_is_for_all_calls_of_the_next_one(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(80)] * 8 + [error(401, f"Incorrect API key provided: {KEY}")]
    run(hosted)
    service.requests.clear()
    assert "見積もり（残りの分）: 呼び出し 2 回" in hosted.cost.value
    run(hosted)
    assert hosted.run is not None and service.judge_calls == 2
    assert "見積もり: 呼び出し 10 回" in hosted.cost.value and "評価完了" in hosted.results.value
    run(hosted)
    assert service.judge_calls == 2 + 10


@pytest.mark.slow
def test_a_start_that_would_cost_something_else_than_was_ticked_is_refused(hosted: RunPanel, service: Service) -> None:
    service.script = [judgement(80)] * 8 + [error(401, f"Incorrect API key provided: {KEY}")]
    run(hosted)
    service.requests.clear()
    hosted.allow_cost.value = True  # for the 2 calls that are left
    (waiting,) = unfinished_runs(hosted.logs_dir)
    waiting.path.unlink()  # as by another process
    hosted.run_button.click()
    hosted.session.wait(60)
    assert service.requests == [] and not hosted.allow_cost.value and hosted.run_button.disabled
    assert "チェックしたときと見積もりが変わったため、実行していません" in text(hosted.status.value)
    assert "見積もり: 呼び出し 10 回" in hosted.cost.value
    run(hosted)
    assert hosted.run is not None and service.judge_calls == 10


def every_widget(widget: Any) -> Iterator[Any]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from every_widget(child)


@pytest.mark.slow
def test_a_key_that_is_typed_in_is_used_and_kept_nowhere(
    panel: RunPanel, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    panel.judge_model.value, panel.assistant_model.value = "gpt-4o-mini", "offline"
    assert "OPENAI_API_KEY" in panel.cost.value + panel.status.value and panel.run_button.disabled
    panel.key.base_url.value, panel.key.key.value = service.base_url, f" {KEY}\n"
    assert (panel.key.key.value, panel.key.base_url.value) == ("", "") and "設定済み" in panel.key.status.value
    run(panel)
    assert panel.run is not None and service.judge_calls == 10 and set(service.keys) == {f"Bearer {KEY}"}
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    shown = json.dumps([widget.get_state() for widget in every_widget(panel)], default=str)
    assert KEY not in shown and not any(KEY.encode() in content for content in written)
    panel.key.forget_button.click()
    assert "キーは設定されていません" in panel.key.status.value and panel.run_button.disabled


@pytest.mark.slow
def test_stored_answers_are_judged_again_into_the_history(hosted: RunPanel, service: Service, tmp_path: Path) -> None:
    hosted.judge_model.value = "offline"
    run(hosted)
    first = hosted.run
    assert first is not None
    hosted.list_choices()  # as when the settings are opened
    (_, (label, path)) = hosted.answers.options
    assert "offline" in label and path == str(first.log_path)
    hosted.answers.value, hosted.judge_model.value = path, "gpt-4o-mini"
    assert hosted.assistant_model.disabled and hosted.dataset.disabled and not hosted.judge_model.disabled
    assert "呼び出し 10 回" in hosted.cost.value
    run(hosted)
    again = hosted.run
    assert again is not None and again.run.rejudged_from == first.run.run_id
    assert len(service.requests) == service.judge_calls == 10
    assert [r.answer.answer for r in again.results] == [r.answer.answer for r in first.results]
    assert len(load_runs(tmp_path / "logs")) == 2
    assert RunPanel(index_dir=hosted.index_dir, logs_dir=tmp_path / "logs").answers.value == path


@pytest.mark.slow
def test_what_an_answer_cost_before_a_run_was_stopped_is_not_spent_again(
    hosted: RunPanel, service: Service, index: RunbookIndex, tmp_path: Path
) -> None:
    marked = iter(range(5))

    def reply(request: dict[str, Any]) -> str:
        if is_judge_call(request) and next(marked, None) is None:
            hosted.stop_button.click()
        return judgement(80) if is_judge_call(request) else ANSWER

    hosted.assistant_model.value = "gpt-4o-mini"
    service.default = reply
    run(hosted)
    session._sessions.clear()  # as when the kernel is started anew
    again = RunPanel(index_dir=index.index_dir, logs_dir=tmp_path / "logs")
    again.judge_model.value, again.assistant_model.value = "gpt-4o-mini", "gpt-4o-mini"
    run(again)
    assert again.run is not None and hosted.session.state == "stopped"
    assert again.session.progress.cost_usd == pytest.approx(again.run.cost_usd)


@pytest.mark.slow
def test_another_judge_over_stored_answers(hosted: RunPanel, service: Service) -> None:
    hosted.judge_model.value = "offline"
    run(hosted)
    first = hosted.run
    hosted.list_choices()
    hosted.answers.value = hosted.answers.options[1][1]
    hosted.judge_model.value = "gpt-4o-mini"
    assert "呼び出し 10 回" in hosted.cost.value
    run(hosted)
    assert first is not None and hosted.run is not None
    assert (hosted.run.info.judge_model, hosted.run.run.rejudged_from) == ("gpt-4o-mini", first.run.run_id)
    assert service.judge_calls == 10


def test_stored_answers_need_no_index(panel: RunPanel, tmp_path: Path, samples: Path) -> None:
    bare = RunPanel(index_dir=tmp_path / "no index", logs_dir=samples)
    assert bare.run_button.disabled
    bare.list_choices()
    bare.answers.value = bare.answers.options[1][1]
    assert not bare.run_button.disabled


@pytest.mark.slow
def test_the_page_has_everything_and_its_tabs_show_the_last_run(
    index: RunbookIndex, tmp_path: Path, samples: Path
) -> None:
    page = app(logs_dir=samples, index_dir=index.index_dir, labels_dir=tmp_path / "labels")
    panel = page.children[0].children[1]
    before = [type(child).__name__ for child in page.children]
    assert before == ["VBox", *["HTML"] * 3], "a tab is made when it is opened"
    assert "読み込み中" in page.children[1].value
    for place in (1, 2, 3, 1):
        page.selected_index = place
    assert [type(child).__name__ for child in page.children[1:]] == ["HistoryExplorer", "PromptLab", "LabelPanel"]
    history, prompts, labels = page.children[1:]
    prompts.note.value, labels.rater.value = "書きかけ", "佐藤"
    history.only.value = "failed"
    run(panel)
    assert panel.run is not None and panel.run.log_path is not None
    assert page.children[1] is history and history.only.value == "failed"
    assert history.runs["run_id"].iloc[-1] == panel.run.run.run_id, "the open tab follows by itself"
    page.selected_index = 2
    page.selected_index = 3
    assert page.children[2:] == (prompts, labels), "what was typed is kept"
    assert (prompts.note.value, labels.rater.value) == ("書きかけ", "佐藤")
    assert Path(labels.log_file.value).name == panel.run.log_path.name


@pytest.mark.slow
def test_what_could_not_be_read_and_is_asked_again_is_never_counted_beyond_the_total(
    hosted: RunPanel, service: Service
) -> None:
    """The panel said 15/10: it went on counting from what the resume threw away, and announced too few calls."""
    service.default = "採点できません"
    run(hosted)
    assert hosted.session.state == "failed"
    assert hosted.plans[0].already == 0
    service.requests.clear()
    service.default = judgement(80)
    preview = hosted.plans[0]
    counts: list[tuple[int, int]] = []
    hosted.session.listeners.append(
        lambda: counts.append((hosted.session.progress.done, hosted.session.progress.total))
    )
    run(hosted)
    assert hosted.session.state == "finished"
    assert preview.left.calls == len(service.requests) == 10
    assert all(done <= total for done, total in counts)
    assert (hosted.session.progress.done, hosted.session.progress.total) == (10, 10)


def test_the_panel_opens_with_four_fields_and_the_rule_of_the_next_run(panel: RunPanel, tmp_path: Path) -> None:
    shown = [part for part in panel.children if getattr(part, "description", "")]
    assert [part.description for part in shown][:1] == ["採点する回答"]
    assert panel.more.selected_index is None and panel.allow_cost.layout.display == "none"
    assert "コストがかかります" not in panel.cost.value and "呼び出しも費用もありません" in panel.cost.value
    assert "合格ライン 70点、質問の70%以上と全体平均（仕様のまま" in text(panel.rule.value)


def test_criteria_and_line_are_shown_with_the_place_where_they_are_set(
    index: RunbookIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "PROJECT_DIR", tmp_path)
    (tmp_path / "socjudge.toml").write_text("[rubric]\n# the line\npass_threshold = 80\n", encoding="utf-8")
    panel = RunPanel(index_dir=index.index_dir, logs_dir=tmp_path / "logs")
    assert "合格ライン 80点、質問の70%以上と全体平均（socjudge.toml の3行目）" in text(panel.rule.value)  # no long path


def test_the_servers_models_are_offered_at_a_press_and_asked_once(hosted: RunPanel, service: Service) -> None:
    assert service.requests == []
    hosted.list_button.click()
    assert "一覧を取れません" in text(hosted.models.value) or "このサーバーのモデル" in text(hosted.models.value)
    assert service.judge_calls == 0


@pytest.mark.slow
def test_after_the_end_there_is_a_paragraph_the_matrix_and_three_steps(hosted: RunPanel, service: Service) -> None:
    def marks(request: dict[str, Any]) -> str:
        return judgement(40 if "なんか変" in request["messages"][0]["content"] else 80)

    service.default = marks
    run(hosted)
    end = hosted.finished
    assert (
        "Judge: gpt-4o-mini-2024-07-18、回答: offline）。合格です。10問中9問が合格し（必要なのは7問）" in end.text.text
    )
    assert end.matrix.cells[0] == [[40.0, "×"]] and "なんか変" in end.matrix.questions[0]  # what failed comes first
    end.matrix.chosen = (0, 0)
    assert "なんか変" in text(end.detail.value)
    end.compare_button.click()
    assert "前の実行がありません" in text(end.told.value)
    hosted.judge_model.value = "offline"  # a run between, with another judge
    run(hosted)
    hosted.judge_model.value = "gpt-4o-mini"
    run(hosted)
    end.compare_button.click()
    assert "どの観点も同じ点" in text(end.told.value)
    end.report_button.click()
    assert "レポートを保存しました" in text(end.told.value)
    end.again_button.click()
    assert hosted.run is not None and hosted.answers.value == str(hosted.run.log_path)


def test_a_price_that_nobody_knows_is_asked_for_before_the_tick(
    hosted: RunPanel, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "PROJECT_DIR", tmp_path)
    hosted.judge_model.value = "my-own-model"
    assert f"my-own-model@{service.base_url} が無料" in text(hosted.cost.value)
    hosted.allow_cost.value = True
    assert hosted.run_button.disabled  # the cap could not be kept
    hosted.free_button.click()
    assert f'[prices."my-own-model@{service.base_url}"]' in (tmp_path / "socjudge.toml").read_text("utf-8")
    assert hosted.allow_cost.layout.display == "none" and not hosted.run_button.disabled  # nothing is paid


def test_an_upload_never_replaces_a_file_and_its_name_is_checked(panel: RunPanel, tmp_path: Path) -> None:
    box = panel.answer_file
    assert (box.upload.description, box.upload.tooltip) == (
        "",
        "回答のファイルを追加",
    )  # else the page would show "(0)"
    box.folder = tmp_path / "answers"
    files = [
        ("a.csv", b"question,answer\n"),
        ("a.csv", b"other"),
        ("../b.csv", b""),
        ("c.exe", b""),
        ("d.csv", b"x" * 9 * 10**6),
    ]
    told = []
    for name, content in files:
        box._take(({"name": name, "content": memoryview(content)},))
        told.append(text(box.status.value))
    assert "a.csv を保存しました" in told[0] and "すでにあります" in told[1]
    assert all("使えません" in words for words in told[2:4]) and "大きすぎます" in told[4]
    assert [path.name for path in tmp_path.rglob("*.csv")] == ["a.csv"]
    assert (tmp_path / "answers" / "a.csv").read_bytes() == b"question,answer\n"
    assert panel.answers.value.endswith("a.csv")  # chosen at once


@pytest.mark.slow
def test_a_wait_for_the_service_is_told(hosted: RunPanel, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "TELL_S", 0.02)
    told: list[str] = []
    hosted.session.listeners.append(lambda: told.append(text(hosted.status.value)))
    service.script = [judgement(80), error(429, "slow down", retry_after="1")]
    run(hosted)
    assert any("429" in words and "再試行中です" in words for words in told)
    assert any("採点し終えた質問: 1" in words for words in told) and any("残り約" in words for words in told)


@pytest.mark.slow
def test_a_service_that_is_down_is_told_while_calls_wait_for_it(
    hosted: RunPanel, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TELL_S", 0.02)
    service.script, service.default = [judgement(80)], error(503, "loading the model")
    panel = hosted.session

    def stop_when_told() -> None:
        if re.search(r"503 .*loading the model.*再試行中です", text(hosted.status.value)):
            panel.stop()

    panel.listeners.append(stop_when_told)
    hosted.patience_s.value = 8
    run(hosted)
    assert panel.state == "stopped" and "中断しました" in text(hosted.status.value)


def test_no_control_shows_a_tooltip_that_says_null(hosted: RunPanel) -> None:
    controls = [each for each in every_widget(hosted) if each.has_trait("description")]
    assert [each for each in controls if each.tooltip is None and not isinstance(each, Button)] == []


@pytest.mark.slow
def test_the_estimate_of_the_panel_follows_k(hosted: RunPanel) -> None:
    hosted.k.value = 5
    few = hosted.plans[0].left
    hosted.k.value = 30
    many = hosted.plans[0].left
    assert many.input_tokens > 1.8 * few.input_tokens
