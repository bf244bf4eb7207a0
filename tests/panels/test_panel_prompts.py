"""The prompt panel as a person uses it, by its controls; what a browser makes of it is in test_prompts_browser.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER, text
from ipywidgets.widgets.widget import _instances
from support.runs import copy_log, log_run
from support.service import KEY, Service, error, is_judge_call, judgement

from socjudge import PromptLab, RunPanel, constants, load_prompt, save_prompt
from socjudge.panels.prompts import diff_html
from socjudge.panels.state import session
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.usefixtures("in_japanese")

STRICT = "\n厳しく採点してください。"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) \x1b[31m </pre></textarea>"


@pytest.fixture(autouse=True)
def _folders_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "_sessions", {})
    monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")


def marks(request: dict[str, Any]) -> str:
    """80 points; under the strict prompt 60, and for one question 50."""
    content = request["messages"][0]["content"]
    mark = 80 if STRICT.strip() not in content else 50 if "質問: なんか変" in content else 60
    return judgement(mark, reason=HOSTILE, comment=HOSTILE) if is_judge_call(request) else ANSWER


@pytest.fixture(scope="module")
def made(index: RunbookIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = {"assistant_model": "offline", "judge_model": "gpt-4o-mini"}
    return log_run(tmp_path_factory.mktemp("made"), index, marks, **models)


@pytest.fixture
def logs(made: Path, service: Service, tmp_path: Path) -> Path:
    """A folder with the log of a run by a hosted judge."""
    service.default = marks
    return copy_log(made, tmp_path / "logs", service)


@pytest.fixture
def panel(logs: Path, index: RunbookIndex) -> Iterator[PromptLab]:
    panel = PromptLab(logs_dir=logs, index_dir=index.index_dir)
    yield panel
    panel.session.stop()
    panel.session.wait(30)


def try_it(panel: PromptLab) -> None:
    panel.allow_cost.value = True
    panel.try_button.click()
    panel.session.wait(60)


@pytest.mark.slow
def test_a_text_that_a_click_has_overtaken_stops_the_trial(panel: PromptLab, service: Service) -> None:
    held = service.hold()
    panel.editor.value += STRICT[:3]
    panel.allow_cost.value = True
    panel.try_button.click()
    assert held.asked.wait(20)
    panel.editor.value += STRICT[3:]  # typed before the click
    held.going.set()
    panel.session.wait(30)
    assert panel.session.state == "stopped"
    assert service.judge_calls <= 8  # those that were in flight
    assert "「採点してみる」のクリックより遅れて届いたため中断しました" in text(panel.status.value)
    assert panel.session.choice.text == panel.editor.value
    try_it(panel)
    assert panel.effect is not None
    assert "+ 厳しく採点してください。" in text(panel.diff.value)


def test_another_text_is_not_offered_to_go_on(panel: PromptLab, service: Service) -> None:
    panel.editor.value += STRICT
    service.script = [judgement(80)] * 3 + [error(401, "no")]
    try_it(panel)
    assert "採点を続けられません" in text(panel.status.value)
    panel.editor.value += "。"
    assert text(panel.status.value).strip() == ""
    panel.editor.value = panel.editor.value[:-1]
    assert "採点を続けられません" in text(panel.status.value)


@pytest.mark.slow
def test_a_prompt_is_edited_tried_and_read(panel: PromptLab, service: Service) -> None:
    assert panel.editor.value == load_prompt("guide-1").text
    assert "元のプロンプトと同じです" in panel.diff.value
    assert panel.judge_model.value == "gpt-4o-mini"  # the run's judge
    panel.editor.value += STRICT
    assert "+ 厳しく採点してください。" in text(panel.diff.value)
    assert "✅ プレースホルダー: {ambiguous_query}、{answer}" in text(panel.check.value)
    assert "呼び出し 10 回" in panel.cost.value
    assert "元のプロンプトの分" not in panel.cost.value
    panel.note.value = "厳しく"
    try_it(panel)
    assert service.judge_calls == len(service.requests) == 10
    shown = text(panel.results.value)
    assert re.search(r"総合 10 80.0 59.0 -21.0 -23.8 -18.2 0.0\d+ 3.2", re.sub(r"\s+", " ", shown))
    assert "不合格に変わった質問（10問）: 1（80.0→60.0点）" in shown
    assert "保存済みの同じ回答を採点しました" in shown
    assert "✅ 採点しました（10/10、平均 59.0点" in text(panel.status.value)
    assert panel.effect.difference == -21
    ((label, _),) = panel.trials.options
    assert label.startswith("1. ")
    assert label.endswith("guide-1 総合 -21.0点 厳しく")


def test_a_broken_text_is_named_as_it_is_typed_and_cannot_be_tried(panel: PromptLab, service: Service) -> None:
    panel.allow_cost.value = True
    panel.editor.value = panel.editor.value.replace("{answer}", "{foo}")
    assert "不足: {answer}; 使えないもの: {foo}" in panel.check.value
    assert panel.try_button.disabled
    assert panel.cost.value == ""
    panel.editor.value = panel.editor.value.replace("{foo}", "{answer}").replace("簡潔性", "短さ")
    assert "観点「簡潔性」を尋ねていません" in panel.check.value
    panel.try_button.click()
    panel.session.wait(30)
    assert service.requests == []
    panel.editor.value = panel.editor.value.replace("短さ", "簡潔性")
    assert not panel.try_button.disabled


@pytest.mark.slow
def test_a_paid_trial_needs_a_tick_each_time(panel: PromptLab, service: Service) -> None:
    assert panel.try_button.disabled
    panel.try_button.click()
    panel.session.wait(30)
    assert service.requests == []
    try_it(panel)
    assert service.judge_calls == 10
    assert not panel.allow_cost.value
    assert panel.try_button.disabled


@pytest.mark.slow
def test_another_judge_is_said_to_need_the_base_prompt_too(panel: PromptLab, service: Service) -> None:
    panel.judge_model.value = "gpt-4o"
    assert "呼び出し 20 回" in panel.cost.value
    assert "うち 10 回は元のプロンプトの分です" in panel.cost.value
    try_it(panel)
    assert service.judge_calls == 20
    assert "呼び出し 10 回" in panel.cost.value  # the base prompt's marks are there now
    service.requests.clear()
    panel.judge_model.value = "offline"
    assert "内蔵の簡易Judgeはプロンプトを読みません" in panel.cost.value
    assert panel.allow_cost.layout.display == "none"
    assert not panel.try_button.disabled
    try_it(panel)
    assert service.requests == []
    assert panel.session.state == "finished", panel.session.problem
    assert "10問すべて、どの観点も同じ点で" in panel.results.value


@pytest.mark.slow
def test_an_assistants_prompt_is_tried_the_same_way(panel: PromptLab, service: Service) -> None:
    assert panel.answering.layout.display == "none"
    panel.kind.value = "assistant"
    assert panel.answering.layout.display == ""
    assert panel.editor.value == load_prompt("assistant-3").text
    assert panel.base.options == ("assistant-3", "assistant-1", "assistant-2")
    assert "内蔵の簡易アシスタントはプロンプトを読みません" in panel.cost.value
    panel.assistant_model.value = "gpt-4o-mini"
    assert "アシスタントが回答し直す" in panel.cost.value
    assert "呼び出し 40 回" in panel.cost.value
    panel.editor.value += "\n短く。"
    try_it(panel)
    assert service.judge_calls == 20
    assert "回答そのものが違います" in panel.results.value
    panel.kind.value = "judge"
    assert panel.editor.value == load_prompt("guide-1").text


@pytest.mark.slow
def test_earlier_trials_bring_texts_back(panel: PromptLab, service: Service) -> None:
    base = panel.editor.value
    panel.editor.value = base + STRICT
    panel.note.value = "一"
    try_it(panel)
    panel.editor.value = base + "二"
    panel.note.value = "二"
    try_it(panel)
    assert panel.effect.difference == 0
    panel.editor.value = base + "三"
    panel.reopen_button.click()
    assert panel.editor.value == base + "三" and "先に試してください" in panel.status.value
    panel.editor.value = base
    panel.reopen_button.click()  # the newest
    assert panel.editor.value == base + "二"
    assert [label[:2] for label, _ in panel.trials.options] == ["2.", "1."]
    panel.trials.value = panel.session.trials[0].id
    panel.reopen_button.click()
    assert panel.editor.value == base + STRICT
    assert panel.note.value == "一"
    assert "総合 -21.0点 一" in panel.results.value
    assert service.judge_calls == 20


@pytest.mark.slow
def test_a_cell_that_is_run_again_finds_its_text_and_its_trial(
    panel: PromptLab, service: Service, logs: Path, index: RunbookIndex
) -> None:
    held = service.hold()
    panel.editor.value += STRICT
    panel.allow_cost.value = True
    panel.try_button.click()
    again = PromptLab(logs_dir=logs, index_dir=index.index_dir)
    assert again.session is panel.session
    assert again.editor.value.endswith(STRICT)
    assert again.try_button.disabled
    assert again.editor.disabled
    assert "評価を実行中" in again.status.value
    held.going.set()
    again.session.wait(60)
    assert service.judge_calls == 10
    assert "総合" in again.results.value
    assert panel.results.value == ""  # nobody sees it any more
    assert not again.editor.disabled


@pytest.mark.slow
def test_a_text_is_saved_and_offered_for_the_next_run(
    panel: PromptLab, service: Service, logs: Path, index: RunbookIndex, tmp_path: Path
) -> None:
    run_panel = RunPanel(index_dir=index.index_dir, logs_dir=logs)
    panel.editor.value += STRICT
    panel.name.value, panel.note.value = "guide-1", "厳しく"
    panel.save_button.click()
    assert "別の名前" in panel.saved.value
    panel.name.value = "strict-2"
    panel.save_button.click()
    assert "strict-2.txt を保存しました" in panel.saved.value
    saved = (tmp_path / "prompts" / "strict-2.txt").read_text("utf-8")
    assert saved.startswith("---\nkind: judge\nparent: guide-1\nnote: 厳しく\n")
    assert panel.base.options == ("guide-1", "guide-1-hardened", "strict-2")
    assert run_panel.judge_prompt.options == ("guide-1", "guide-1-hardened", "strict-2")
    run_panel.judge_prompt.value = "strict-2"
    run_panel.judge_model.value = "gpt-4o-mini"
    run_panel.allow_cost.value = True
    run_panel.run_button.click()
    run_panel.session.wait(60)
    assert run_panel.run.run.judge_prompt_id == "strict-2"
    assert run_panel.run.summary.average_score == 59


@pytest.mark.slow
def test_an_assistants_prompt_is_used_in_the_next_run(service: Service, index: RunbookIndex, tmp_path: Path) -> None:
    base = load_prompt("assistant-3").text
    save_prompt(base + "\n短く。", name="short", parent="assistant-3", kind="assistant")
    panel = RunPanel(index_dir=index.index_dir, logs_dir=tmp_path / "logs")
    assert (panel.judge_prompt.options, panel.judge_prompt.value) == (("guide-1", "guide-1-hardened"), "guide-1")
    assert panel.assistant_prompt.value == "assistant-3"
    panel.assistant_prompt.value = "short"
    panel.judge_model.value, panel.assistant_model.value = "offline", "gpt-4o-mini"
    panel.allow_cost.value = True
    panel.run_button.click()
    panel.session.wait(60)
    assert panel.run.run.assistant_prompt_id == "short"
    assert all("短く。" in request["messages"][0]["content"] for request in service.requests)


def test_what_went_wrong_is_said_with_its_remedy(panel: PromptLab, service: Service) -> None:
    service.default = error(401, f"Incorrect API key provided: {KEY}")
    panel.editor.value += STRICT
    try_it(panel)
    assert "採点を続けられません" in panel.status.value
    assert "OPENAI_API_KEY" in panel.status.value
    assert KEY not in panel.status.value
    panel.max_cost_usd.value = 0.0001
    try_it(panel)
    assert "費用の上限に達したため中断しました" in panel.status.value


@pytest.mark.slow
def test_what_models_and_files_say_stays_text(panel: PromptLab, logs: Path, index: RunbookIndex) -> None:
    panel.editor.value += STRICT + HOSTILE
    panel.note.value = HOSTILE
    try_it(panel)
    panel.name.value = HOSTILE
    panel.save_button.click()
    for part in (panel.results, panel.diff, panel.saved):
        assert "<script" not in part.value.lower()
        assert "<img" not in part.value.lower()
        assert "href" not in part.value.lower()
        assert "\x1b" not in part.value
        assert "&lt;script&gt;" in part.value


def test_a_folder_without_logs_says_what_to_do(tmp_path: Path) -> None:
    panel = PromptLab(logs_dir=tmp_path / "nowhere")
    assert "先に評価を実行するか" in panel.cost.value
    assert panel.try_button.disabled


def test_a_page_without_widgets_says_where_the_panel_can_be_used(panel: PromptLab) -> None:
    assert repr(panel) == "<PromptLab: このパネルは JupyterLab で開くと使えます>"


def test_a_diff_shows_what_changed_and_where() -> None:
    before = "\n".join(f"行{number}" for number in range(1, 21))
    shown = text(diff_html(before, before.replace("行10", "十")))
    assert re.sub(r"\s+", " ", shown).strip() == ("変更箇所 （- 元、+ 新） … 8行目から 行8 行9 - 行10 + 十 行11 行12")


@pytest.mark.slow
def test_no_keystroke_leaves_a_widget_behind(panel: PromptLab) -> None:
    before = len(_instances)
    for _ in range(50):
        panel.editor.value += "あ"
    assert len(_instances) == before


def test_an_unsaved_edit_survives_a_look_at_the_other_prompt(panel: PromptLab) -> None:
    panel.editor.value += STRICT
    edited = panel.editor.value
    panel.kind.value = "assistant"
    assert STRICT not in panel.editor.value
    panel.editor.value += "簡潔に。"
    panel.kind.value = "judge"
    assert panel.editor.value == edited
    panel.kind.value = "assistant"
    assert panel.editor.value.endswith("簡潔に。")
