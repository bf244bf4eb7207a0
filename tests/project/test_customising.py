"""The specification's customising chapter, each change in a project folder of its own, from the command line to the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.report_logs import words
from support.service import Service, is_judge_call, serving
from typer.testing import CliRunner, Result

import socjudge as sj
from socjudge import constants
from socjudge.cli.app import app

RUNBOOK = "# マルウェア対応\n\n## 初動対応\n\n端末をネットワークから隔離し、SOCリーダーに報告する。\n"
ADDED = "実行可能性"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """An empty project with one runbook and two questions, chosen as a user would."""
    before = constants.PROJECT_DIR
    folder = tmp_path / "mine"
    assert CliRunner().invoke(app, ["init", str(folder), "--empty"]).exit_code == 0
    constants.use_project(folder)
    (folder / "eval/runbooks/malware.md").write_text(RUNBOOK, encoding="utf-8")
    write_questions(2)
    yield folder
    constants.use_project(before)


def write_questions(count: int, category: str = "正常系") -> None:
    items = [
        {
            "id": number, "category": category, "question": f"マルウェアを検知しました。初動を教えてください（{number}）",
            "expected_keypoints": ["端末を隔離する", "SOCリーダーに報告する"],
        }
        for number in range(1, count + 1)
    ]  # fmt: skip
    constants.EVAL_DATASET_PATH.write_text(json.dumps(items, ensure_ascii=False), encoding="utf-8")


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["run", "--quiet", "--yes", *options])


def logs() -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(constants.LOGS_DIR.glob("judge_eval_*.json"))]


def report() -> str:
    """The text of the report of the newest run."""
    page = constants.PROJECT_DIR / "page.html"
    done = CliRunner().invoke(app, ["report", str(page), "--lang", "ja"])
    assert done.exit_code == 0, done.output
    return words(page.read_text("utf-8"))


def prompt_asking_for(criteria: list[str]) -> None:
    """A judge prompt of one's own in the project, made the default."""
    text = sj.load_prompt("guide-1").text + "".join(f"\n{name}: {name}を採点してください。" for name in criteria)
    (constants.PROMPTS_DIR / "mine-1.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service whose judge gives 80 points on whatever criteria are today's."""

    def reply(request: dict[str, Any]) -> str:
        criteria = constants.JUDGE_EVALUATION_CRITERIA
        told = {"scores": dict.fromkeys(criteria, 80), "rationale": dict.fromkeys(criteria, "理由です。")}
        return json.dumps(told | {"overall_comment": "総評です。"}, ensure_ascii=False)

    with serving(lambda request: reply(request) if is_judge_call(request) else "端末を隔離します。") as running:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


@pytest.mark.slow
def test_another_pass_line_and_rate_hold_from_then_on_and_the_old_log_keeps_its_own(
    project: Path, kind: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run()
    assert first.exit_code == 0 and "2問中2問以上が平均70点以上" in first.output
    monkeypatch.setattr(constants, "JUDGE_PASS_THRESHOLD", 85.0)
    monkeypatch.setattr(constants, "JUDGE_PASS_RATE", 0.5)
    second = run()
    assert second.exit_code == 1 and "2問中1問以上が平均85点以上" in second.output
    old, new = (sj.summary_text(sj.load_run(log)) for log in sorted(sj.constants.LOGS_DIR.glob("*.json")))
    assert "平均70点以上" in old and "平均85点以上" in new and "平均85点以上" not in old
    scores = sj.load_scores()
    assert scores.groupby("run_id", observed=True)["pass_threshold"].first().tolist() == [70, 85]
    assert sj.load_runs().sort_values("started_at")["mvp_passed"].tolist() == [True, False]
    told = sj.plot_criterion_trend(scores).figure.get_supxlabel()
    assert told.endswith("① pass line: 70→85, pass rate required: 0.7→0.5")
    told = report()
    assert "2問中1問以上が平均85点以上、かつ全体平均が85点以上" in told and "▼は85点未満" in told
    panel = sj.HistoryExplorer()
    assert panel is not None and len(sj.load_runs()) == 2


@pytest.mark.parametrize(("name", "value"), [("JUDGE_PASS_RATE", 70), ("JUDGE_PASS_THRESHOLD", 700)])
def test_a_rule_that_no_run_can_meet_is_refused_before_anything_is_asked(
    project: Path, kind: Service, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(constants, name, value)
    refused = run()
    field = name.removeprefix("JUDGE_").lower()
    assert refused.exit_code == 2 and f"{field} is {value}; set it to a number from 0 to" in refused.output
    assert kind.requests == []


@pytest.mark.slow
def test_an_added_criterion_is_refused_until_a_prompt_asks_for_it_and_then_counts_everywhere(
    project: Path, kind: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    criteria = [*constants.JUDGE_EVALUATION_CRITERIA, ADDED]
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", criteria)
    refused = run()
    assert refused.exit_code == 2 and f"nothing says what {ADDED} looks at" in refused.output
    assert kind.requests == []  # before anything is paid
    prompt_asking_for([ADDED])
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_PROMPT", "mine-1")
    done = run()
    assert done.exit_code == 0, done.output
    assert list(logs()[0]["results"][0]["evaluation"]["scores"]) == criteria
    scores = sj.load_scores()
    assert list(scores["criterion"].cat.categories) == criteria and scores["prompt_id"].eq("mine-1").all()
    drawn = sj.plot_score_distribution(scores).get_xticklabels()
    assert drawn[-1].get_text().startswith(ADDED)
    assert "平均は7観点の平均" in report()


@pytest.mark.slow
def test_the_embedded_judge_marks_what_it_can_and_says_that_an_added_criterion_has_no_measure(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", [*constants.JUDGE_EVALUATION_CRITERIA, ADDED])
    prompt_asking_for([ADDED])
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_PROMPT", "mine-1")
    done = run("--judge-model", "offline", "--assistant-model", "offline")
    (log,) = logs()
    marks = log["results"][0]["evaluation"]
    assert (marks["status"], marks["scores"][ADDED], marks["missing"]) == ("ok", None, {ADDED: "no_measure"})
    assert marks["average_score"] == pytest.approx(sum(score or 0 for score in marks["scores"].values()) / 6)
    assert log["summary"]["n_partial"] == 2 and "6" in done.output
    told = report()
    assert "（6/7観点の平均）" in told and "このJudgeには測る方法がありません" in told
    # Charts, statistics and what is wrong with logs take it as it is.
    assert sj.history.check_logs(constants.LOGS_DIR).query("level != 'note'").empty
    assert sj.summarise_scores(sj.load_scores()).set_index("criterion")["n"][ADDED] == 0
    sj.plot_score_distribution(sj.load_scores())
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", [ADDED])
    refused = run("--judge-model", "offline", "--assistant-model", "offline")
    assert refused.exit_code == 2 and ADDED in refused.output and "--judge-model" in refused.output


@pytest.mark.slow
def test_a_criterion_taken_out_is_gone_from_all_that_comes_after(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    criteria = [name for name in constants.JUDGE_EVALUATION_CRITERIA if name != "簡潔性"]
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", criteria)
    assert run("--judge-model", "offline", "--assistant-model", "offline").exit_code in (0, 1)
    (log,) = logs()
    assert list(log["results"][0]["evaluation"]["scores"]) == criteria
    evaluation = log["results"][0]["evaluation"]
    assert evaluation["average_score"] == pytest.approx(sum(evaluation["scores"].values()) / 5)
    assert list(sj.load_scores()["criterion"].unique()) == criteria
    told = report()
    assert "平均は5観点の平均" in told and "簡潔性" not in told


@pytest.mark.slow
def test_a_renamed_criterion_follows_its_new_name(
    project: Path, kind: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run().exit_code == 0
    renamed = ["読みやすさ" if name == "簡潔性" else name for name in constants.JUDGE_EVALUATION_CRITERIA]
    monkeypatch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", renamed)
    prompt_asking_for(["読みやすさ"])
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_PROMPT", "mine-1")
    assert run().exit_code == 0
    assert list(logs()[1]["results"][0]["evaluation"]["scores"]) == renamed
    assert {"簡潔性", "読みやすさ"} <= set(sj.load_scores()["criterion"])  # the old log keeps its own
    told = report()
    assert "読みやすさ" in told and "平均は6観点の平均" in told
    compared = sj.compare_runs(*sorted(path.name for path in constants.LOGS_DIR.glob("judge_eval_*.json")))
    assert "簡潔性" in str(compared.conditions["phrase"].tolist())  # the same answers: no change of the assistant


@pytest.mark.slow
def test_a_category_of_ones_own_is_asked_for_by_name_and_then_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_questions(2, category="夜間対応系")
    refused = CliRunner().invoke(app, ["doctor"])
    assert refused.exit_code == 1 and "QUESTION_CATEGORIES" in refused.output
    monkeypatch.setattr(constants, "QUESTION_CATEGORIES", [*constants.QUESTION_CATEGORIES, "夜間対応系"])
    assert "0 errors" in CliRunner().invoke(app, ["doctor"]).output
    assert run("--judge-model", "offline", "--assistant-model", "offline").exit_code in (0, 1)
    drawn = sj.plot_category_breakdown(sj.load_scores()).get_yticklabels()
    assert [each.get_text() for each in drawn] == ["夜間対応系"]
    assert "夜間対応系" in report()


@pytest.mark.slow
def test_another_default_judge_moves_the_judge_and_not_the_assistant(
    project: Path, kind: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DEFAULT_JUDGE_MODEL", "gpt-4o")
    done = run()
    assert done.exit_code == 0, done.output
    asked = {(is_judge_call(request), request["model"]) for request in kind.requests}
    assert asked == {(True, "gpt-4o"), (False, constants.DEFAULT_ASSISTANT_MODEL)}
    told = report()
    assert "gpt-4o" in told and constants.DEFAULT_ASSISTANT_MODEL in told


@pytest.mark.slow
def test_more_questions_are_all_run_and_the_rule_counts_them(project: Path) -> None:
    write_questions(13)
    assert "0 errors, 0 warnings, 0 notes" in CliRunner().invoke(app, ["doctor"]).output
    done = run("--judge-model", "offline", "--assistant-model", "offline")
    assert "13問中10問以上が平均70点以上" in done.output  # 0.7 × 13 = 9.1
    assert len(logs()[0]["results"]) == 13 and "総問題数 13問" in report()
