"""The report of answers that several judges marked: side by side, agreement named, no single mark hidden."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from report_logs import words
from run_options import with_options
from score_frames import framed, judged
from service import Reply, Service, error, judgement

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    EvaluationRun,
    rejudge,
    run_evaluation_suite,
    write_report,
)
from socjudge.base.messages import say

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in (1, 2, 3)]
STORED = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in QUESTIONS]
MARKS = {"gpt-4o-mini": (90, 80, 71), "gpt-4o": (60, 75, 50), "gpt-4.1": (80, 80, 80)}


@pytest.fixture
def judge(service: Service, tmp_path: Path) -> Callable[..., EvaluationRun]:
    """Have the three answers marked by judges as MARKS has it, or as it is told."""

    def run(*names: str, special: Mapping[str, tuple[str | Reply, ...]] = MappingProxyType({})) -> EvaluationRun:
        def reply(request: dict[str, Any]) -> str | Reply:
            place = int(re.search(r"回答(\d)", request["messages"][0]["content"]).group(1)) - 1  # type: ignore[union-attr]
            told = special.get(request["model"])
            return told[place] if told else judgement(MARKS[request["model"]][place])

        service.default = reply
        how: dict[str, Any] = {"logs_dir": tmp_path / "logs", "progress": False}
        return run_evaluation_suite(QUESTIONS, answers=STORED, judge_model=list(names), **with_options(**how))

    return run


def rows(page: str) -> list[list[str]]:
    """The table of judges as text, its head first."""
    table = page[page.index('<table id="judges">') :].partition("</table>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr")[1:]]
    return [[words(cell) for cell in row] for row in cells]


def test_all_judges_stand_side_by_side(judge: Callable[..., EvaluationRun], tmp_path: Path) -> None:
    page = judge(*MARKS).write_report(tmp_path / "page.html").read_text("utf-8")
    head, *body = rows(page)
    assert head == ["観点", *MARKS, "最大の差", "合否の一致"]
    # (90 + 80 + 71) / 3 = 80.3, (60 + 75 + 50) / 3 = 61.7, 80: 18.7 apart; of three answers only the second passes with all.
    assert body[0] == ["根拠性", "80.3", "61.7", "80.0", "18.7", "33%"]
    assert body[6] == ["総合", "80.3", "61.7", "80.0", "18.7", "33%"]
    assert [row[:4] for row in body[7:]] == [
        ["合格問題数", "3 / 3", "1 / 3", "3 / 3"], ["未採点", "0", "0", "0"], ["判定", "合格", "不合格", "合格"],
    ]  # fmt: skip


@pytest.mark.slow
def test_judges_that_differ_are_no_verdict_and_the_questions_are_named(
    judge: Callable[..., EvaluationRun], tmp_path: Path
) -> None:
    run = judge(*MARKS)
    page = run.write_report(tmp_path / "page.html").read_text("utf-8")
    text = words(page)
    assert "⚠️ 判定保留（Judgeによって判定が違います）" in text and "✅ MVP合格" not in text
    assert "<title>⚠️" in page and 'id="verdict" class="card warn"' in page
    assert (
        "⚠️ 判定保留（Judgeによって判定が違います） 合格問題数などの数値、下の図、質問ごとの表は gpt-4o-mini の採点によるもので"
        in text
    )
    assert "合否が割れた質問: 1、3。" in text
    english = words(run.write_report(tmp_path / "page.html", lang="en").read_text("utf-8"))
    assert (
        "⚠️ undecided (the judges give different verdicts)" in english
        and "Questions on which they differ: 1, 3." in english
    )


@pytest.mark.slow
def test_judges_that_agree_say_so(judge: Callable[..., EvaluationRun], tmp_path: Path) -> None:
    page = judge("gpt-4o-mini", "gpt-4.1").write_report(tmp_path / "page.html").read_text("utf-8")
    text = words(page)
    assert "どのJudgeの判定も「合格」です。" in text and "回答3件すべてで、合否は一致しています" in text
    assert "<title>✅" in page and "判定保留" not in text
    for name in ("gpt-4o-mini", "gpt-4.1"):
        assert f"{name}: {say('certify.line_none', lang='ja')}" in text


@pytest.mark.slow
def test_no_single_mark_is_hidden(judge: Callable[..., EvaluationRun], tmp_path: Path) -> None:
    text = words(judge(*MARKS).write_report(tmp_path / "page.html").read_text("utf-8"))
    # Below each answer the other judges' marks, as its own stand in the table.
    assert text.count("gpt-4o ❌ 不合格 60.0 ▼60 ▼60 ▼60 ▼60 ▼60 ▼60") == 1
    assert text.count("gpt-4o ✅ 合格 75.0 75 75 75 75 75 75") == 1
    assert text.count("gpt-4o ❌ 不合格 50.0 ▼50 ▼50 ▼50 ▼50 ▼50 ▼50") == 1
    assert text.count("gpt-4.1 ✅ 合格 80.0 80 80 80 80 80 80") == 3


def test_a_judge_that_did_not_judge_is_missed_by_the_report_of_the_logs(
    judge: Callable[..., EvaluationRun], tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="no access"):
        run = judge("gpt-4o-mini", "gpt-4o", special={"gpt-4o": (error(401, "no access"),) * 3})
    assert (run.others, run.judges_asked, run.summary.mvp_passed) == ((), 2, True)
    for page in (run.write_report(tmp_path / "a.html"), write_report(tmp_path / "b.html", tmp_path / "logs")):
        text = page.read_text("utf-8")
        assert "<h2>⚠️ 判定保留（採点したJudgeは2人中1人）" in text
        assert "gpt-4o-mini の採点だけを見れば ✅ 合格 ですが、これは全体の判定ではありません" in words(text)


def test_an_unread_reply_is_no_mark_of_a_judge(judge: Callable[..., EvaluationRun], tmp_path: Path) -> None:
    replies = (judgement(80), "採点できません", judgement(80))
    page = judge("gpt-4o-mini", "gpt-4.1", special={"gpt-4.1": replies}).write_report(tmp_path / "page.html")
    body = rows(page.read_text("utf-8"))[1:]
    assert body[0] == ["根拠性", "80.3", "80.0", "0.3", "100%"]
    # Two of three would be 67 %, three would pass: the reply decides, so that there is no firm verdict.
    assert body[8][:3] == ["未採点", "0", "1"] and body[9][:3] == ["判定", "合格", "判定保留"]
    text = words(page.read_text("utf-8"))
    assert "gpt-4.1 ⚠️ 未採点 – – – – – – –" in text
    assert "⚠️ 判定保留（Judgeによって判定が違います）" in text
    concluded = text[text.index("結論と次にすること") : text.index("総問題数")]
    assert "判定保留です。Judgeによって判定が違います。" in concluded and "人が読み" in concluded
    assert "合格です" not in concluded


@pytest.mark.slow
def test_the_report_of_a_log_has_the_other_judges_logs_beside_it(
    judge: Callable[..., EvaluationRun], tmp_path: Path
) -> None:
    run = judge(*MARKS)
    for each in (run, *run.others):
        assert each.log_path is not None
        page = write_report(tmp_path / "page.html", tmp_path / "logs", run_id=each.log_path.name).read_text("utf-8")
        assert rows(page)[0][1:4] == list(MARKS)
        assert f"{each.judge_model} の採点" in words(page)


@pytest.mark.slow
def test_every_judge_of_the_answers_counts_however_long_ago_and_over_whose_log(
    judge: Callable[..., EvaluationRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socjudge.report.page.TREND_RUNS", 1)  # none is there for being recent
    how: dict[str, Any] = {"logs_dir": tmp_path / "logs", "progress": False}
    first = judge("gpt-4o")  # which alone says 不合格
    second = rejudge(first, judge_model="gpt-4o-mini", **with_options(**how))
    third = rejudge(second, judge_model="gpt-4.1", **with_options(**how))
    for each in (first, second, third):
        assert each.log_path is not None
        page = write_report(tmp_path / "page.html", tmp_path / "logs", run_id=each.log_path.name).read_text("utf-8")
        assert rows(page)[0][1:4] == ["gpt-4o", "gpt-4o-mini", "gpt-4.1"] and "<title>⚠️" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "end"),
    [
        (90, "どの採点が正しいかを確かめてください。"),  # the embedded judge fails them
        (10, "もう一度実行し、socjudge compare で比べてください。"),
    ],
)
def test_no_llm_is_asked_for_where_one_has_marked_the_answers(
    judge: Callable[..., EvaluationRun], tmp_path: Path, mark: int, end: str
) -> None:
    run = judge("offline", "gpt-4o", special={"gpt-4o": (judgement(mark),) * 3})
    text = words(run.write_report(tmp_path / "page.html").read_text("utf-8"))
    concluded = text[text.index("結論と次にすること") : text.index("総問題数")].strip()
    assert concluded.count("次にすること:") == 1 and concluded.endswith(end)


@pytest.mark.slow
def test_of_a_judge_that_marked_the_answers_again_the_latest_counts(tmp_path: Path) -> None:
    days = [f"2026-01-0{day}T00:00:00+09:00" for day in (1, 2, 3, 4, 5)]
    marks: list[tuple[str, float, dict[str, str]]] = [
        ("A", 40, {}), ("A", 90, {}), ("B", 80, {}), ("B", 10, {"prompt_id": "strict-1"}), ("C", 10, {"answer": "b"}),
    ]  # fmt: skip
    parts = [
        judged(name, q, mark, run_id=f"r{n}", started_at=days[n], **how)  # type: ignore[arg-type]
        for n, (name, mark, how) in enumerate(marks)
        for q in range(1, 11)
    ]
    page = write_report(tmp_path / "page.html", framed(*parts), run_id="r2").read_text("utf-8")
    table = rows(page)
    assert table[0][1:3] == ["A", "B"] and table[1][1:3] == ["90.0", "80.0"]  # not the strict prompt, not other answers
    alone = write_report(tmp_path / "page.html", framed(*parts), run_id="r4").read_text("utf-8")
    assert '<table id="judges">' not in alone
