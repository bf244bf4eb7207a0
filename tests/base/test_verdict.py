"""One verdict, in one style, wherever it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from one_run import log_of, one_run
from service import Service, judgement

from socjudge.base import messages
from socjudge.base.verdict import run_verdict, summary_text
from socjudge.cli.shared import report_run
from socjudge.history.frames import load_history, load_runs, run_history
from socjudge.panels.state.explorer import run_table
from socjudge.panels.views.common import results_html
from socjudge.panels.views.history import runs_html
from socjudge.records import EvalQuestion, EvaluationRun
from socjudge.report.effect import compare_runs
from socjudge.report.page import write_report
from socjudge.runs.load import load_run
from socjudge.runs.logs import save_evaluation_results
from socjudge.runs.suite import run_evaluation_suite

pytestmark = pytest.mark.usefixtures("in_japanese")

View = Callable[[EvaluationRun, Path, pytest.CaptureFixture[str]], str]


def saved(run: EvaluationRun, folder: Path) -> EvaluationRun:
    return replace(run, log_path=save_evaluation_results(run, folder))


def judged_by(judge: str, points: int, **marks: object) -> EvaluationRun:
    """One question with these points, marked by a judge."""
    run = one_run(scores=dict.fromkeys(one_run().results[0].evaluation.scores, points), average_score=float(points),
                  passed=points >= 70, model=judge, **marks)  # fmt: skip
    return replace(run, run=replace(run.run, run_id=judge, judge_model=judge, judge_model_resolved=judge))


def cell(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return run._repr_html_()


def panel(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return results_html(run)


def report(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return run.write_report(folder / "page.html").read_text("utf-8").partition('<section id="scores"')[0]


def terminal(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(typer.Exit) as ended:
        report_run(run)
    return f"{capsys.readouterr().out} exit {ended.value.exit_code}"


def history(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return runs_html(run_table(run_history(run)), 1)


VIEWS: dict[str, View] = {"cell": cell, "panel": panel, "report": report, "terminal": terminal, "history": history}
everywhere = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@everywhere
def test_the_words_of_the_verdict_are_changed_in_one_place(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, points, status in (("passed", 80, "ok"), ("not passed", 50, "ok"), ("undecided", 0, "unparsable")):
        monkeypatch.setitem(messages._japanese(), name, f"《{name}》")
        run = saved(judged_by("gpt-4o-mini", points, status=status), tmp_path / "logs")
        assert f"《{name}》" in view(run, tmp_path, capsys)


@everywhere
def test_an_unread_reply_that_decides_is_no_verdict_anywhere(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(judged_by("gpt-4o-mini", 0, status="unparsable", error="JSONがありません"), tmp_path / "logs")
    page = view(run, tmp_path, capsys)
    assert "⚠️ 判定保留" in page and not re.search(r"(<h2>|<b>|\*\*|<td[^>]*>)[✅❌]", page)
    assert view is not terminal or page.endswith("exit 2")


@everywhere
def test_answers_without_contexts_are_told_what_would_decide_and_no_rate(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str], service: Service, questions: list[EvalQuestion]
) -> None:
    service.default = judgement(95)
    answers = tmp_path / "answers.csv"
    answers.write_text("question_id,answer\n" + "".join(f"{q.id},隔離します。\n" for q in questions), "utf-8")
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="judge-1", logs_dir=tmp_path / "logs", progress=False
    )
    # Four of six criteria have 95 points: at least 380 / 6 = 63.3, and at most 96.7.
    page = view(run, tmp_path, capsys)
    assert "判定保留" in page and not re.search(r"0\.0%|0%〜", page)
    if view is not history:  # a row of a table has room for the verdict alone
        assert "根拠性、引用明示: 回答に、元になった文章と出典の名前が付いていません" in page
        assert "Judgeで採点し直す" not in page and "読めなかった点" not in page


def one_of_two(points: int, folder: Path, **marks: object) -> Path:
    """The log of one of two judges that version 0.3 asked together."""
    run = judged_by("gpt-1", points, **marks)
    return save_evaluation_results(replace(run, run=replace(run.run, judges_asked=2)), folder)


@everywhere
@pytest.mark.parametrize("points", [80, 50])
def test_the_log_of_one_of_several_judges_is_no_verdict_anywhere(
    view: View, points: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load_run(one_of_two(points, tmp_path / "logs"))
    page = view(run, tmp_path, capsys)
    assert "⚠️ 判定保留" in page and not re.search(r"(<h2>|<b>|\*\*|<td[^>]*>)[✅❌]", page)
    assert view is history or "2人のJudgeのうち1人の点しかありません" in page
    assert view is not terminal or page.endswith("exit 2")
    assert (run_verdict(run).outcome, run_verdict(run).paint) == ("open", "warn")
    assert "**⚠️ 判定保留（採点を頼んだ2人の" in summary_text(run)


def test_a_run_of_two_versions_of_the_embedded_judge_is_for_reference() -> None:
    mixed = run_verdict(judged_by("offline-rubric-10, offline-rubric-11", 80))
    assert mixed.is_reference and mixed.paint == "grey"
    assert not run_verdict(judged_by("offline-rubric-11, gpt-4o", 50)).is_reference


def test_a_log_of_one_of_several_judges_gives_each_reason_for_its_open_verdict(tmp_path: Path) -> None:
    run = load_run(one_of_two(0, tmp_path, status="unparsable"))
    assert run_verdict(run).reason == "採点不能 1 件、採点を頼んだ2人のJudgeのうち1人の点しかありません"


def test_the_frames_know_that_a_log_is_of_one_of_several_judges(tmp_path: Path) -> None:
    one_of_two(80, tmp_path / "logs")
    history = load_history(tmp_path / "logs", text=True)
    assert history.runs[["judges_asked", "is_open"]].values.tolist() == [[2, True]]
    for given in (history, history.scores, tmp_path / "logs"):
        assert "⚠️ 判定保留（採点を頼んだ2人の" in write_report(tmp_path / "page.html", given).read_text("utf-8")


def test_a_comparison_leaves_the_log_of_one_of_several_judges_open_whatever_its_line(tmp_path: Path) -> None:
    run = load_run(one_of_two(80, tmp_path))
    lower = replace(run, run=replace(run.run, run_id="lower", judges_asked=1, pass_threshold=60.0))
    assert "✅合格→⚠️判定保留" in "".join(compare_runs(lower, run).lines).replace(" ", "")


@everywhere
def test_the_embedded_judges_verdict_has_the_same_mark_and_words_with_a_note(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = view(saved(judged_by("offline-rubric-9", 80), tmp_path / "logs"), tmp_path, capsys)
    assert ("✅ 合格 参考判定" if view is history else "✅ MVP合格") in page
    assert "参考判定（LLMによる採点ではありません）" in page and 'class="card good"' not in page


def test_a_log_that_does_not_say_whether_its_verdict_is_open_is_read_by_its_rows(tmp_path: Path) -> None:
    log = log_of(judged_by("gpt-1", 0, status="unparsable"))
    del log["summary"]["is_open"], log["summary"]["n_unscored"]
    path = tmp_path / "judge_eval_20260102_030405.json"
    path.write_text(json.dumps(log), "utf-8")
    summary = load_run(path).summary
    assert (summary.n_unscored, summary.is_open, load_runs(tmp_path)["is_open"].tolist()) == (1, True, [True])
