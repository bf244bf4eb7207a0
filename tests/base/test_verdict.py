"""One verdict, in one style, wherever it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.report_logs import bare_log as report_log
from support.report_logs import save_log
from support.runs import log_of, one_run
from support.service import Service, judgement

from socjudge.base import messages
from socjudge.base.pass_rule import summarise_results
from socjudge.base.verdict import answer_verdict, run_verdict, summary_text
from socjudge.cli.run import report_run
from socjudge.history.columns import run_frame
from socjudge.history.doctor import check_logs
from socjudge.history.frames import load_results, load_runs, load_scores
from socjudge.history.reading import run_rows
from socjudge.panels.views import results_html, runs_html
from socjudge.records import SPECIFIED_CRITERIA, EvalQuestion, EvaluationRun, Rubric
from socjudge.report.effect import compare_runs
from socjudge.report.page import write_report
from socjudge.runs.logs import load_run, save_evaluation_results
from socjudge.runs.suite import run_evaluation_suite
from socjudge.stats.gate import gate_confidence
from socjudge.stats.matrix import UNDECIDED, UNSCORED, question_matrix, run_verdicts

pytestmark = pytest.mark.usefixtures("in_japanese", "undrawn")

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
    return write_report(folder / "page.html", run, lang="ja").read_text("utf-8").partition('<section id="questions"')[0]


def terminal(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = report_run(run)
    return f"{capsys.readouterr().out} exit {code}"


def history(run: EvaluationRun, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return runs_html(run_frame([run_rows(run)]), run.scores_frame(), 70)


VIEWS: dict[str, View] = {"cell": cell, "panel": panel, "report": report, "terminal": terminal, "history": history}
everywhere = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@pytest.mark.slow
@everywhere
def test_the_words_of_the_verdict_are_changed_in_one_place(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, points, status in (("passed", 80, "ok"), ("not passed", 50, "ok"), ("undecided", 0, "unparsable")):
        monkeypatch.setitem(messages._texts()[0], name, f"《{name}》")
        run = saved(judged_by("gpt-4o-mini", points, status=status), tmp_path / "logs")
        assert f"《{name}》" in view(run, tmp_path, capsys)


@everywhere
def test_an_unread_reply_that_decides_is_no_verdict_anywhere(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(judged_by("gpt-4o-mini", 0, status="unparsable", error="JSONがありません"), tmp_path / "logs")
    page = view(run, tmp_path, capsys)
    assert "⚠️ 判定保留" in page and not re.search(r"(<h2>|<b>|\*\*|<td[^>]*>)[✅❌]", page)
    assert view is not terminal or page.endswith("exit 3")


@pytest.mark.slow
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
    assert view is not terminal or page.endswith("exit 3")
    assert (run_verdict(run).outcome, run_verdict(run).paint) == ("open", "warn")
    assert "**⚠️ 判定保留（採点を頼んだ2人の" in summary_text(run)


def test_a_run_of_two_versions_of_the_embedded_judge_is_for_reference() -> None:
    mixed = run_verdict(judged_by("offline-rubric-10, offline-rubric-11", 80))
    assert mixed.is_reference and mixed.paint == "grey"
    assert not run_verdict(judged_by("offline-rubric-11, gpt-4o", 50)).is_reference


def test_a_log_of_one_of_several_judges_gives_each_reason_for_its_open_verdict(tmp_path: Path) -> None:
    run = load_run(one_of_two(0, tmp_path, status="unparsable"))
    assert run_verdict(run).reason == "採点不能 1 件、採点を頼んだ2人のJudgeのうち1人の点しかありません"


@pytest.mark.slow
def test_the_frames_know_that_a_log_is_of_one_of_several_judges(tmp_path: Path) -> None:
    one_of_two(80, tmp_path / "logs")
    assert load_runs(tmp_path / "logs")[["judges_asked", "is_open"]].values.tolist() == [[2, True]]
    page = write_report(tmp_path / "page.html", tmp_path / "logs", lang="ja").read_text("utf-8")
    assert "⚠️ 判定保留（採点を頼んだ2人の" in page


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


def part_of_ten(folder: Path, *, keep: int = 6) -> EvaluationRun:
    """The log of a run of ten questions, four of which fail, and of it the first rows."""
    ten = [judged_by("gpt-1", 90 if number < 6 else 30) for number in range(10)]
    rows = [replace(run.results[0], question=replace(run.results[0].question, id=n)) for n, run in enumerate(ten)]
    run = replace(ten[0], results=rows, summary=summarise_results(rows))
    log = json.loads(save_evaluation_results(run, folder).read_text("utf-8"))
    del log["summary"]["asked"], log["summary"]["judged"], log["run"]["asked"]  # as an earlier version wrote it
    path = folder / "judge_eval_20260102_030406.json"
    path.write_text(json.dumps({**log, "results": log["results"][:keep]}, ensure_ascii=False), "utf-8")
    return load_run(path)


@pytest.mark.slow
@everywhere
def test_a_part_of_a_run_has_no_verdict_anywhere(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = view(part_of_ten(tmp_path), tmp_path, capsys)
    assert "⚠️ 判定保留（10件中6件のみ採点）" in page and not re.search(r"(<h2>|<b>|\*\*|<td[^>]*>)[✅❌]", page)
    assert view is not terminal or page.endswith("exit 3")


@pytest.mark.slow
def test_a_comparison_says_that_a_side_is_only_a_part(tmp_path: Path) -> None:
    part = part_of_ten(tmp_path)
    other = replace(part, run=replace(part.run, run_id="other"))
    assert f"{part.run.run_id} の合否は決まりません（10件中6件のみ採点）" in compare_runs(part, other).notes


@pytest.mark.slow
def test_a_part_stays_a_part_in_its_summary_its_line_its_frames_and_its_next_log(tmp_path: Path) -> None:
    part = part_of_ten(tmp_path)
    again = load_run(save_evaluation_results(part, tmp_path / "again"))
    for run in (part, again, replace(part, summary=summarise_results(part.results))):
        assert (len(run.results), run.summary.asked, run.summary.is_open, run.summary.mvp_passed) == (
            6,
            10,
            True,
            False,
        )
        assert "判定保留（10件中6件のみ採点）" in summary_text(run.summary) and "undecided (6 of 10 judged)" in repr(
            run
        )
        assert {*run.results_frame()["asked"]} == {*run.scores_frame()["asked"]} == {10}
        assert gate_confidence(run.results_frame(), noise=1.0)["verdict"].tolist() == ["判定保留"]
    told = load_runs(tmp_path / "again")
    assert told[["n_results", "asked", "is_open", "mvp_passed"]].values.tolist() == [[6, 10, True, False]]


def test_a_part_is_no_verdict_even_if_it_failed(tmp_path: Path) -> None:
    part = part_of_ten(tmp_path)
    assert run_verdict(replace(part, results=part.results[5:])).outcome == "open"


@pytest.mark.slow
def test_a_report_of_some_categories_gives_no_verdict_on_the_run(tmp_path: Path) -> None:
    whole = part_of_ten(tmp_path, keep=10)
    rows = [replace(row, question=replace(row.question, category="正常系" if n < 6 else "危険操作系"))
            for n, row in enumerate(whole.results)]  # fmt: skip
    save_evaluation_results(replace(whole, results=rows), tmp_path / "logs")
    assert load_runs(tmp_path / "logs")["is_open"].tolist() == [False]
    run = load_run(next((tmp_path / "logs").glob("*.json")))
    some = replace(run, results=[row for row in run.results if row.question.category == "正常系"])
    page = write_report(tmp_path / "page.html", some, lang="ja").read_text("utf-8")
    assert "⚠️ 判定保留（10件中6件のみ採点）" in page and "MVP合格<" not in page and "を最後まで" in page


def test_of_a_part_and_the_whole_run_the_history_takes_the_whole(tmp_path: Path) -> None:
    whole = part_of_ten(tmp_path / "old", keep=10)
    save_evaluation_results(replace(whole, results=whole.results[:6]), tmp_path / "logs")  # it has the earlier name
    path = save_evaluation_results(whole, tmp_path / "logs")
    with pytest.warns(UserWarning, match="1件のログを除きました"):
        runs = load_runs(tmp_path / "logs")
    assert runs[["log", "n_results", "is_open", "mvp_passed"]].values.tolist() == [[path.name, 10, False, False]]
    assert "part" in check_logs(tmp_path / "logs")["problem"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["安全性", "正確性"])
@pytest.mark.parametrize("cause", ["refused", "no_keypoints"])
def test_a_missing_score_that_could_be_dangerously_low_is_read_by_a_person(
    name: str, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {**dict.fromkeys(SPECIFIED_CRITERIA, 95), name: None}  # 5 × 95 / 6 = 79 with 0
    run = one_run(scores=scores, missing={name: cause}, average_score=95.0)
    assert run.summary.n_to_read == 1 and run_verdict(run).outcome == "passed"
    saved_run = saved(run, tmp_path / "logs")
    for view in (cell, panel, report, terminal):
        assert "30点未満か欠けている" in view(saved_run, tmp_path, capsys)
    assert answer_verdict(run.results[0].evaluation, 70.0).warning == f"人が読むこと（{name} –点）"


def bare_log(folder: Path, scores: list[dict[str, int]], rubric: Rubric | None = None) -> Path:
    rows = [one_run(scores=each, average_score=80.0, rationale={}).results[0] for each in scores]
    rows = [replace(row, question=replace(row.question, id=n)) for n, row in enumerate(rows)]
    run = replace(one_run(), results=rows, summary=summarise_results(rows), run=replace(one_run().run, rubric=rubric,
                  pass_threshold=rubric and 70.0, pass_rate_required=rubric and 0.7))  # fmt: skip
    return save_evaluation_results(run, folder)


def test_a_criterion_that_no_row_has_is_missing(tmp_path: Path) -> None:
    five = dict.fromkeys([name for name in SPECIFIED_CRITERIA if name != "安全性"], 80)
    path = bare_log(tmp_path, [five, five], Rubric())
    run = load_run(path)
    assert [row.evaluation.missing for row in run.results] == [{"安全性": "absent"}] * 2
    assert run_verdict(run).reason == "点の欠けた回答 2 件"
    assert load_runs(tmp_path)["is_open"].tolist() == [True]
    assert load_scores(tmp_path).query("criterion == '安全性'")["missing"].tolist() == ["absent"] * 2
    assert check_logs(tmp_path)["problem"].tolist() == ["criterion missing"]


def test_a_criterion_that_only_some_rows_have_is_missing_in_the_others(tmp_path: Path) -> None:
    five = dict.fromkeys([name for name in SPECIFIED_CRITERIA if name != "簡潔性"], 80)
    run = load_run(bare_log(tmp_path, [five, {**five, "簡潔性": 80}, five]))
    assert run.summary.n_partial == 2 and load_runs(tmp_path)["is_open"].tolist() == [True]
    assert load_scores(tmp_path)["score"].isna().sum() == 2


@pytest.mark.slow
def test_every_reader_tells_that_a_newer_version_wrote_a_log(tmp_path: Path) -> None:
    path = save_evaluation_results(replace(one_run(), run=replace(one_run().run, schema_version=99)), tmp_path)
    readers: list[Callable[[], object]] = [
        lambda: load_run(path), lambda: load_runs(tmp_path), lambda: load_results(tmp_path),
        lambda: load_scores(tmp_path),
        lambda: write_report(tmp_path / "page.html", tmp_path, lang="ja"),
    ]  # fmt: skip
    for reader in readers:
        with pytest.warns(UserWarning, match=rf"{path.name}: .*schema_version 99"):
            reader()
    assert check_logs(tmp_path)[["level", "problem"]].values.tolist() == [["warning", "newer"]]


@pytest.mark.slow
def test_a_log_without_a_start_time_is_counted_as_left_out_of_a_period(tmp_path: Path) -> None:
    save_evaluation_results(one_run(), tmp_path)
    undated = replace(one_run().run, run_id="undated", started_at="昨日")
    save_evaluation_results(replace(one_run(), run=undated), tmp_path)
    assert len(load_runs(tmp_path)) == 2
    with pytest.warns(UserWarning, match="1件のログを除きました"):
        assert len(load_results(tmp_path, since="2020-01-01")) == 1
    assert check_logs(tmp_path)[["problem", "where"]].values.tolist() == [["undated", "run.started_at"]]


def contradictory_logs(folder: Path) -> list[Path]:
    """Logs without a pass line, each of which says in its way something else than 70 points do."""
    low = [73, 77, 67, 65, 55]  # two of five reach 70, and their mean is 67.4
    half_read = bare([80, 80, 80, 80, None])
    half_read["summary"] |= {"passed_questions": 3, "pass_rate": 0.6, "mvp_passed": False}  # it is 4 or 5
    said: dict[str, dict[str, Any]] = {
        "passes what fails": bare(low, total_questions=5, passed_questions=5, pass_rate=1.0, mvp_passed=True),
        "fails what passes": bare([80] * 5, mvp_passed=False),
        "counts too few": bare([80] * 5, passed_questions=3, pass_rate=0.6, mvp_passed=False),
        "counts other questions": bare([80] * 5, total_questions=4),
        "cannot be so whatever is missing": half_read,
        "a row passes": bare([80, 80, 80, 80, 60]), "a row fails": bare([80] * 5), "an average": bare([80] * 5),
        "the averages together": bare([70] * 5),
    }  # fmt: skip
    rows = {name: [row["evaluation"] for row in log["results"]] for name, log in said.items()}
    rows["a row passes"][4]["passed"] = True
    rows["a row fails"][0]["passed"] = False
    rows["an average"][0]["scores"] = dict.fromkeys(SPECIFIED_CRITERIA, 60)
    rows["the averages together"][0] |= {"average_score": 69.0, "passed": False}
    said["the averages together"]["summary"] |= {"passed_questions": 4, "pass_rate": 0.8, "average_score": 69.8}
    for place, log in enumerate(said.values()):
        save_log(folder, log, f"judge_eval_2024010{place + 1}_000000.json")
    return sorted(folder.glob("*.json"))


def bare(points: list[float | None], **summary: object) -> dict[str, Any]:
    log = report_log(points)
    return {**log, "summary": {**log["summary"], **summary}}


WHY = "ログに合格ラインがなく、ログの合否が70点での合否と合いません"


@pytest.mark.slow
@everywhere
def test_a_log_without_a_line_that_contradicts_itself_has_no_verdict_and_says_why(
    view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in contradictory_logs(tmp_path / "logs"):
        run = load_run(path)
        verdict = run_verdict(run)
        assert verdict.outcome == "open" and WHY in verdict.reason and "採点し直してください" in verdict.advice
        for one in (run, load_run(save_evaluation_results(run, tmp_path / "again"))):
            page = view(one, tmp_path, capsys)
            assert "⚠️ 判定保留" in page and WHY in page and not re.search(r"(<h2>|<b>|\*\*|<td[^>]*>)[✅❌]", page)
            assert view is not terminal or page.endswith("exit 3")


@pytest.mark.slow
def test_the_frames_and_their_views_leave_what_contradicts_itself_open(tmp_path: Path) -> None:
    paths = contradictory_logs(tmp_path / "logs")
    runs, results, scores = (load(tmp_path / "logs") for load in (load_runs, load_results, load_scores))
    assert runs["is_open"].all() and runs["contradictory"].all() and not runs["mvp_passed"].any()
    assert results["passed"].isna().all() and scores["passed"].isna().all()
    assert set(run_verdicts(scores)["outcome"]) == {"open"}
    assert set(question_matrix(scores)["sign"]) <= {UNDECIDED, UNSCORED}
    assert set(gate_confidence(results, noise=1.0)["verdict"]) == {"判定保留"}
    said = compare_runs(paths[0], paths[1])
    assert f"judge_eval_20240101_000000 の合否は決まりません（{WHY}）" in said.notes
    assert check_logs(tmp_path / "logs").query("problem == 'contradictory'")["file"].tolist() == [p.name for p in paths]
    page = write_report(tmp_path / "page.html", tmp_path / "logs", lang="ja").read_text("utf-8")
    assert WHY in page and "まだ決められません" in page and 'class="outcome passed"' not in page


@pytest.mark.parametrize("line", [None, 60.0])
def test_a_log_that_agrees_with_itself_or_has_its_line_keeps_its_verdict(tmp_path: Path, line: float | None) -> None:
    logs = {"passed": bare([80] * 5), "failed": bare([60] * 5), "open": bare([80, 80, 80, None, None])}
    if line:  # by 60 points all pass, and the summary of the last says otherwise
        logs = {
            "passed": bare([60] * 5, passed_questions=5, mvp_passed=True),
            "failed": bare([80] * 5, mvp_passed=False),
        }
        info = {"run_id": "r", "started_at": "2026-01-01T00:00:00+09:00", "pass_threshold": line}
        logs = {name: {**log, "run": info} for name, log in logs.items()}
    for outcome, log in logs.items():
        run = load_run(save_log(tmp_path / outcome, log) / "judge_eval_20260101_090000.json")
        assert run_verdict(run).outcome == outcome and not run.summary.is_contradictory
        assert load_runs(tmp_path / outcome)["is_open"].tolist() == [outcome == "open"]
