"""socjudge.toml: what a project has set, where each value comes from, and how a fault in the file is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ANSWER, ROOT
from support.service import Service, error, is_judge_call, judgement_of

import socjudge as sj
from socjudge import constants, settings
from socjudge.base.messages import language
from socjudge.errors import ConfigError
from socjudge.models.opening import open_model
from socjudge.models.prices import price_usd
from socjudge.prompts.saved import find_prompt
from socjudge.report.trial import plan_trial
from socjudge.runbooks.index import RunbookIndex

SEVEN = """[rubric]
criteria = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性", "迅速性"]
pass_threshold = 80
[rubric.descriptions]
"迅速性" = "着手までの時間が示されているか"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty project; the project and the constants of before are there again after the test."""
    before = constants.PROJECT_DIR
    yield tmp_path
    constants.use_project(before)


def opened(folder: Path, text: str) -> settings.Project:
    (folder / "socjudge.toml").write_text(text, encoding="utf-8")
    return sj.open_project(folder)


def test_a_project_has_what_its_file_says_and_the_specifications_values_for_the_rest(folder: Path) -> None:
    project = opened(folder, SEVEN + '[defaults]\nk = 3\nmax_cost_usd = 0.5\n[report]\nteam = "SOC1"\n')
    assert project.rubric == settings.open_project().rubric
    assert (project.rubric.criteria[-1], project.rubric.pass_threshold, project.rubric.pass_rate) == ("迅速性", 80, 0.7)
    assert project.rubric.descriptions == {"迅速性": "着手までの時間が示されているか"}
    assert (project.k, project.cost_cap(), project.report_team) == (3, 0.5, "SOC1")
    assert (project.cost_cap(2.0), project.cost_cap(float("inf"))) == (2.0, None)  # an argument goes first
    assert {name for name, source in project.sources.items() if source == "file"} == {
        "rubric.criteria", "rubric.pass_threshold", "rubric.descriptions", "defaults.k", "defaults.max_cost_usd", "report.team",
    }  # fmt: skip


def test_a_constant_that_was_assigned_holds_unless_the_file_has_the_setting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "QUESTION_CATEGORIES", [*constants.QUESTION_CATEGORIES])
    opened(folder, '[rubric]\npass_threshold = 80\n[defaults]\njudge_model = "gpt-4o"\n')
    monkeypatch.setattr(constants, "JUDGE_PASS_THRESHOLD", 60.0)
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", ["正確性"])
    constants.QUESTION_CATEGORIES.append("連絡系")
    project = settings.open_project()
    assert project.rubric == sj.Rubric(("正確性",), pass_threshold=80)
    assert (project.categories[-1], project.sources["dataset.categories"]) == ("連絡系", "built-in")
    assert project.default_model("judge") == ("gpt-4o", True)


def test_opening_a_project_leaves_nothing_of_the_one_before(folder: Path) -> None:
    (folder / "other").mkdir()
    opened(folder, SEVEN)
    project = sj.open_project(folder / "other")
    assert project.rubric == sj.Rubric()
    assert set(project.sources.values()) == {"built-in"}
    assert folder / "other" / "logs" == constants.LOGS_DIR
    with pytest.raises(sj.ConfigError, match="no such folder"):
        sj.open_project(folder / "nowhere")


def test_a_changed_file_counts_from_the_next_call(folder: Path) -> None:
    opened(folder, "[rubric]\npass_threshold = 80\n")
    assert settings.open_project().rubric.pass_threshold == 80
    (folder / "socjudge.toml").write_text("[rubric]\npass_threshold = 75.5\n", encoding="utf-8")
    assert settings.open_project().rubric.pass_threshold == 75.5
    (folder / "socjudge.toml").unlink()
    assert settings.open_project().rubric == sj.Rubric()


def test_the_language_of_a_changed_file_holds_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOCJUDGE_LANG")
    for lang in ("en", "ja"):
        (folder / "socjudge.toml").write_text(f"[defaults]\nlanguage = '{lang}'\nk = 0", "utf-8")  # a faulty one too
        constants.use_project(folder)
        assert language() == lang


def test_a_file_of_answers_is_told_by_its_path_and_settings_are_the_same_in_another_folder(folder: Path) -> None:
    text = '[defaults]\nanswers = "sub/given.csv"\n'
    project = opened(folder, text)
    assert project.answers == str(folder / "sub" / "given.csv")
    assert project.values["defaults.answers"] == "sub/given.csv"
    (folder / "other").mkdir()
    assert opened(folder / "other", text).values == project.values
    assert opened(folder, '[defaults]\nanswers = "v1.2"\n[assistants."v1.2"]\n').answers == "v1.2"


def test_what_stands_where_a_table_of_an_assistant_should_is_not_shown(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[assistants\] url is no table; write a line \[assistants.NAME\]") as told:
        opened(folder, '[assistants]\nurl = "https://bot.example/ask?key=topsecret123"\n')
    assert "topsecret" not in str(told.value)


def test_a_project_shows_where_each_value_comes_from(folder: Path) -> None:
    project = opened(folder, SEVEN)
    assert "rubric.pass_threshold</th><td>80　[socjudge.toml]</td>" in project._repr_html_()
    shown = opened(folder, SEVEN.replace("着手", "<b>着手"))._repr_html_()
    assert "<b>着手" not in shown and "&lt;b&gt;着手" in shown


# What is written, and what the refusal names: the key, what is wrong and mostly the name that was meant.
FAULTS = {
    "[rubrik]\npass_rate = 0.7": ["[rubrik]", "mean [rubric]?"],
    "[rubric]\npass_treshold = 80": ["pass_treshold", "[rubric] pass_threshold?"],
    "[rubric]\n\npass_rte = 0.8": ["pass_rte", "[rubric] pass_rate?"],
    "[defaults]\njudge_modell = 'x'": ["judge_modell", "[defaults] judge_model?"],
    "[defaults]\nassistant = 'x'": ["did you mean"],
    "[defaults]\nmax_cost = 1": ["[defaults] max_cost_usd?"],
    "[dataset]\ncategory = ['x']": ["category", "[dataset] categories?"],
    "[report]\nteem = 'x'": ["[report] team?"],
    "[report]\nk = 5": ["[defaults] k?"],
    "pass_threshold = 80": ["[rubric] pass_threshold?"],
    "[rubric]\nzzz = 80": ["[rubric] zzz", "`socjudge settings` lists all"],
    "rubric = 80": ["[rubric]"],
    "[rubric]\npass_threshold = '80'": ["pass_threshold", "'80'", "0 to 100"],
    "[rubric]\npass_threshold = 101": ["101", "0 to 100"],
    "[rubric]\npass_rate = 70": ["pass_rate", "70", "0 to 1"],
    "[rubric]\npass_rate = nan": ["pass_rate", "nan"],
    "[rubric]\ncriteria = '正確性'": ["criteria", "`array`"],
    "[rubric]\ncriteria = []": ["criteria", "`array`"],
    "[rubric]\npass_rate = 0.7\ncriteria = [\n '正確性',\n '安全性',\n '正確性',\n]": ["each once"],
    "[rubric]\ncriteria = ['総合']": ["総合"],
    "[rubric]\npass_rate = 0.7\npass_rate = 0.8": ["each name once"],
    "[rubric]\n[dataset]\n[rubric]": ["line 3", "each name once"],
    "[rubric.descriptions]\n迅速性 = '早いか'": ["line 2", "double quotes"],
    "[rubric.descriptions]\n'正確さ' = '正しいか'": ["正確さ", "正確性"],
    "[rubric.descriptions]\n'正確性' = ''": ["description of 正確性"],
    "[defaults]\nk = 0": ["k = 0", "1 to 1000"],
    "[defaults]\nk = true": ["k = True"],
    "[defaults]\nmax_cost_usd = -1": ["-1", ">= 0"],
    "[defaults]\nlanguage = 'fr'": ["'fr'", '"ja"'],
    "[defaults]\njpy_per_usd = 0": ["jpy_per_usd", ">= 0.01"],
    "[defaults]\njudge_model = gpt-4o": ["line 2", "double quotes"],
    "[prices.'my-7b']\ninput = 1": ["my-7b", "output"],
    "[prices.'my-7b']\ninput = 1\noutput = 2\ninptu = 3": ["my-7b", "inptu"],
    "[rubric": ["cannot be read"],
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_told_with_file_and_name(folder: Path, text: str) -> None:
    with pytest.raises(sj.ConfigError) as refused:
        opened(folder, text)
    assert [part for part in [str(folder / "socjudge.toml"), *FAULTS[text]] if part not in str(refused.value)] == []


def test_all_faults_are_told_at_once_and_in_the_language_that_the_file_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOCJUDGE_LANG")
    with pytest.raises(sj.ConfigError) as refused:
        opened(folder, "[rubric]\npass_rate = 7\n[defaults]\nlanguage = 'en'\nk = 0\n")
    lines = str(refused.value).splitlines()
    assert len(lines) == 2 and "pass_rate" in lines[0] and "k = 0" in lines[1]
    with pytest.raises(sj.ConfigError, match="使えません"):
        opened(folder, "[defaults]\nk = 0\nlanguage = 'ja'\n")


@pytest.mark.parametrize("content", ["[rubric]\n".encode("utf-16"), "# 設定\n".encode("cp932")])
def test_a_file_that_is_not_utf_8_is_named(folder: Path, content: bytes) -> None:
    (folder / "socjudge.toml").write_bytes(content)
    with pytest.raises(sj.ConfigError, match=r"socjudge.toml: .* UTF-8"):
        sj.open_project(folder)


def test_prices_stand_in_the_settings(folder: Path) -> None:
    opened(folder, "[prices.'my-7b']\ninput = 1.0\noutput = 2\n")
    assert price_usd("my-7b", 1_000_000, 1_000_000) == 3.0


@pytest.mark.parametrize("cost", ["inf", "true", "1e308", '"x"', "-1.0", "nan"])
def test_bad_prices_are_named(folder: Path, cost: str) -> None:
    with pytest.raises(sj.ConfigError, match=r"\[prices\] m = .*US dollars per million tokens"):
        opened(folder, f"[prices.m]\ninput = 1\noutput = {cost}\n")


def test_what_was_paid_for_while_somebody_broke_the_file_is_priced_as_before(folder: Path) -> None:
    opened(folder, "[prices.'my-7b']\ninput = 1.0\noutput = 2\n[defaults]\njpy_per_usd = 200\n")
    assert (price_usd("my-7b", 1_000_000, 0), settings.last_good_project().jpy_per_usd) == (1.0, 200)
    (folder / "socjudge.toml").write_text("[prices", "utf-8")
    assert (price_usd("my-7b", 1_000_000, 0), settings.last_good_project().jpy_per_usd) == (1.0, 200)


def test_who_edits_constants_py_gets_what_they_wrote(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "socjudge", tmp_path / "socjudge", ignore=shutil.ignore_patterns("__pycache__"))
    edited = tmp_path / "socjudge" / "constants.py"
    text = edited.read_text("utf-8").replace("JUDGE_PASS_THRESHOLD = 70.0", "JUDGE_PASS_THRESHOLD = 80.0")
    text = text.replace(', "簡潔性"]', "]").replace('"guide-1"', '"mine-1"')
    edited.write_text(text, "utf-8")
    (tmp_path / "socjudge.toml").write_text("# no values\n[rubric]\n", "utf-8")
    code = (
        "from socjudge import settings as s; p = s.open_project();"
        "print(p.rubric.pass_threshold, len(p.rubric.criteria), p.judge_prompt, *set(p.sources.values()))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.split() == ["80.0", "5", "mine-1", "built-in"]


def test_a_description_may_have_several_lines(folder: Path) -> None:
    text = '[rubric]\ncriteria = ["迅速性"]\n[rubric.descriptions]\n"迅速性" = """\n早いか\n- 100点: 5分以内\n"""\n'
    opened(folder, text)
    assert "1. **迅速性**: 早いか\n   - 100点: 5分以内\n\n【評価対象】" in sj.load_prompt(None).text


def test_the_panels_begin_with_what_the_project_has_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(folder, SEVEN + '[defaults]\njudge_model = "gpt-4o"\nassistant_model = "offline"\nk = 3\n')
    panel = sj.RunPanel()
    assert (panel.judge_model.value, panel.judge_prompt.value, panel.k.value) == ("gpt-4o", "rubric-1", 3)
    assert panel.assistant_model.value == sj.AskPanel().model.value == "offline"
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_PROMPT", "mine-1")
    monkeypatch.setattr(constants, "DEFAULT_ASSISTANT_PROMPT", "mine-2")
    panel = sj.RunPanel()  # also where there is no such prompt, which is said when it is to be used
    assert (panel.judge_prompt.value, panel.assistant_prompt.value) == ("mine-1", "mine-2")


@pytest.mark.slow
def test_the_run_panel_judges_by_the_projects_rubric(folder: Path, service: Service, index: RunbookIndex) -> None:
    question = [{"id": 1, "category": "連絡系", "question": "初動は？", "expected_keypoints": ["隔離する"]}]
    (folder / "eval").mkdir()
    (folder / "eval" / "eval_dataset.json").write_text(json.dumps(question), "utf-8")
    opened(folder, SEVEN + '[dataset]\ncategories = ["連絡系"]\n[defaults]\nassistant_model = "offline"\n')
    service.default = lambda request: judgement_of(request, {"迅速性": 96, "": 75})
    panel = sj.RunPanel(runbooks=ROOT / "eval" / "runbooks", index_dir=index.index_dir)
    panel.allow_cost.value = True
    panel.run_button.click()
    panel.session.wait(60)
    assert panel.run.rubric == settings.open_project().rubric and panel.run.run.judge_prompt_id == "rubric-1"
    assert panel.run.results[0].evaluation.scores["迅速性"] == 96
    # (6 × 75 + 96) / 7 = 78: not passed at 80 points.
    assert "❌ MVP不合格" in panel.results.value and "平均80点以上" in panel.results.value


@pytest.mark.slow
def test_the_projects_k_holds_wherever_no_other_is_given(
    folder: Path, service: Service, index: RunbookIndex, questions: list[sj.EvalQuestion]
) -> None:
    opened(folder, "[defaults]\nk = 7\n")
    service.default = error(400, "no", code="content_filter")
    made = sj.run_evaluation_suite(questions[:1], index=index, judge_model="my-judge", progress=False)
    service.default = lambda request: judgement_of(request) if is_judge_call(request) else ANSWER
    unsaid = replace(made, run=replace(made.run, k=None))  # as a log has it that does not say
    assert made.run.k == 7
    text = sj.load_prompt("assistant-3", kind="assistant").text
    models = {"judge_model": "my-judge", "assistant_model": "my-assistant"}
    plan = plan_trial(unsaid, text, kind="assistant", base="assistant-2", get_index=lambda: index, **models)
    assert {side.plan.info.k for side in plan.sides} == {7}


def test_a_model_that_the_file_names_is_never_replaced_by_the_embedded_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(folder, '[defaults]\njudge_model = "gpt-4o"\nassistant_model = "auto"\n')
    with pytest.raises(sj.ConfigError, match="OPENAI_API_KEY"):
        open_model("auto")
    assert open_model("auto", task="answer").name == "offline"  # "auto" may be
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert open_model("auto").name == "gpt-4o"
    assert open_model("offline").name == "offline"  # an argument goes first
    assert open_model("auto", task="answer").name == "gpt-4o-mini"


def test_the_prompt_of_an_older_run_is_found_under_other_criteria(folder: Path) -> None:
    before = sj.load_prompt("guide-1")
    opened(folder, SEVEN)
    assert find_prompt(before.sha256) == before
    assert find_prompt(sj.load_prompt(None).sha256) == sj.load_prompt("rubric-1")


def test_the_projects_cap_holds_where_no_other_is_given_and_infinity_is_none(
    folder: Path, service: Service, questions: list[sj.EvalQuestion]
) -> None:
    opened(folder, "[defaults]\nmax_cost_usd = 0.000001\n")
    stored = [sj.AssistantAnswer(question.question, "端末を隔離します。") for question in questions]
    run = {"answers": stored, "judge_model": "gpt-4o-mini", "progress": False}
    with pytest.raises(sj.errors.BudgetReached):
        sj.run_evaluation_suite(questions, **run)
    assert service.requests == []
    done = sj.run_evaluation_suite(questions[:1], max_cost_usd=1.0, **run | {"answers": stored[:1]})
    with pytest.raises(sj.errors.BudgetReached):
        sj.rejudge(done, judge_model="gpt-4o", progress=False)
    assert sj.certify.certify_judge(done, judge_model="gpt-4o-mini", progress=False).stopped
    assert len(service.requests) == 1
    sj.rejudge(done, judge_model="my-own", max_cost_usd=float("inf"), progress=False)  # also where no price is known
    assert sj.RunPanel().max_cost_usd.value == 0.000001


@pytest.mark.slow
def test_a_report_has_the_title_and_team_of_the_project_as_text(folder: Path, samples: Path) -> None:
    opened(folder, "[report]\ntitle = '<b>わが社のボット</b>'\nteam = 'SOC 1課'\n")
    page = sj.write_report(folder / "page.html", samples, lang="ja").read_text("utf-8")
    assert "&lt;b&gt;わが社のボット&lt;/b&gt;" in page and "SOC 1課" in page
    assert "<b>わが社" not in page and "運用手順書アシスタント · " not in page
