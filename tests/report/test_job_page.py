"""What a CI job shows: the page's first three lines, what it tells of each kind of answer, and JUnit as a parser reads it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_logs import HOSTILE
from service import CRITERIA

from socjudge import AssistantAnswer, ConfigError, EvalQuestion, Evaluation, EvaluationRun, compare_runs
from socjudge.base.verdict import summarise_results
from socjudge.records import EvaluationResult, RunInfo
from socjudge.report.job_page import job_junit, job_page, stopped_junit, stopped_page, write_job_file

# As JUnit's readers expect it: {element: (attributes it must have, elements it may hold)}.
SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}


def answer(number: int, *marks: float | None, text: str = "理由", error: str = "") -> EvaluationResult:
    """An answer with these marks, the last one for all other criteria; without any, one that was not scored."""
    given = [*marks, *[marks[-1]] * (len(CRITERIA) - len(marks))] if marks else [0] * len(CRITERIA)
    scores: dict[str, Any] = dict(zip(CRITERIA, given, strict=True))
    known = [mark for mark in given if mark is not None]
    mean = sum(known) / len(known)
    missing = {name: "refused" for name, mark in scores.items() if mark is None}
    evaluation = Evaluation(
        scores, mean, dict.fromkeys(CRITERIA, text), "", mean >= 70 and not missing, 1.5, missing=missing,
        status="ok" if marks else "failed", error=error, model="my-judge",
    )  # fmt: skip
    question = EvalQuestion(number, "正常系", f"質問{number} {text}", ())
    return EvaluationResult(question, AssistantAnswer(question.question, f"回答{number}", "文脈"), evaluation)


def run_of(*results: EvaluationResult, run_id: str = "r", day: int = 2) -> EvaluationRun:
    info = RunInfo(run_id, f"2026-01-{day:02}T03:04:05+09:00", judge_model="my-judge", judge_model_resolved="my-judge")
    return EvaluationRun(results, summarise_results(results), info)


MIXED = run_of(
    *(answer(number, 90) for number in range(1, 7)),
    answer(7, 40, 65),
    answer(8, None, 68),
    answer(9, error="HTTP 503 busy"),
)


def cases(run: EvaluationRun, **how: Any) -> list[tuple[str, list[str]]]:
    """(name, kinds) of each case, after the whole was checked against the schema and its counts."""
    return read(job_junit(run, **how))


def read(xml: bytes) -> list[tuple[str, list[str]]]:
    root = ET.fromstring(xml)
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, children = SCHEMA[element.tag]
        assert needed <= element.attrib.keys() and {child.tag for child in element} <= children
    for suite in (root, *root):
        found = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(found)
        for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(case.find(kind) is not None for case in found)
    return [(case.attrib["name"], [child.tag for child in case]) for case in root.iter("testcase")]


@pytest.mark.usefixtures("in_japanese")
@pytest.mark.parametrize(
    ("run", "first", "why", "next_step"),
    [
        (run_of(*(answer(n, 90) for n in range(10))), "✅ MVP合格", "10問中10問が合格し", "証明書の行"),
        (run_of(*(answer(n, 60) for n in range(10))), "❌ MVP不合格", "10問中0問が合格し", "下の理由を読み"),
        (MIXED, "⚠️ 判定保留", "採点できなかった回答が1件", "採点し直してから"),
    ],
)
def test_the_first_three_lines_are_verdict_reason_and_next_step(
    run: EvaluationRun, first: str, why: str, next_step: str
) -> None:
    lines = job_page(run).split("\n")
    assert lines[0].startswith(f"## {first}") and why in lines[1] and lines[2].startswith("次にすること: ")
    assert next_step in lines[2]


@pytest.mark.usefixtures("in_japanese")
def test_each_answer_that_did_not_pass_stands_there_with_its_reason() -> None:
    page = job_page(MIXED)
    failed, unscored, open_answer = [line for line in page.split("\n") if re.match(r"\| [789] ", line)]
    assert "❌ 不合格 | 60.8 | 根拠性 40点: 理由" in failed  # (40 + 5 × 65) / 6
    assert "⚠️ 未採点 | – | HTTP 503 busy" in unscored
    assert "⚠️ 判定保留 | 68.0 | 根拠性: " in open_answer
    assert "判定保留の回答 1件、採点できなかった回答 1件" in page and "証明書: なし" in page and "費用" in page


def test_failed_unscored_and_undecided_are_three_kinds_in_junit() -> None:
    kinds = [kind for _, kind in cases(MIXED)]
    assert kinds == [["skipped"], *[[]] * 6, ["failure"], ["skipped"], ["error"]]


@pytest.mark.slow
def test_the_page_of_many_failures_keeps_to_sixty_lines() -> None:
    before = run_of(*(answer(n, 90) for n in range(200)), run_id="before", day=1)
    after = run_of(*(answer(n, 90 if n % 3 else 20) for n in range(200)))
    page = job_page(after, against=compare_runs(before, after))
    assert len(page.split("\n")) <= 60 and "47 more answers did not pass" in page
    assert "What changed since the run before" in page and "→" in page


def test_what_anybody_wrote_is_text_in_markdown_and_in_xml() -> None:
    run = run_of(answer(1, 10, text=HOSTILE + "\n\n# 合格 | ✅ ![x](http://evil.example/y.png) **bold** \ufffe\x00"))
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(job_page(run))
    kinds = {token.type for block in tokens for token in (block, *(block.children or ()))}
    assert not kinds & {"link_open", "image", "html_inline", "strong_open", "code_inline", "em_open"}
    assert [token.content for token in tokens if token.type == "html_block"] == [job_page(run).split("\n")[-2] + "\n"]
    assert sum(token.tag in ("h1", "h2") for token in tokens if token.nesting == 1) == 1  # the verdict's
    assert "http://" not in job_page(run)  # which GitHub would make a link
    (_, _), (name, kind) = cases(run)
    assert kind == ["failure"] and "<script>alert(1)</script>" in name and "⟦U+001B⟧" in name and "⟦U+FFFE⟧" in name


@given(st.text())
def test_junit_holds_any_text(text: str) -> None:
    assert read(stopped_junit(text)) == [("the run as a whole", ["error"])]


def test_without_the_certificate_that_is_required_there_is_no_verdict() -> None:
    passed = run_of(*(answer(n, 90) for n in range(10)))
    page = job_page(passed, uncertified="no such certificate").split("\n")
    assert page[0].startswith("## ⚠️ undecided") and page[1].strip() == "no such certificate"
    assert "socjudge certify" in page[2] and "MVP" not in page[0]
    assert cases(passed, uncertified="no such certificate")[0][1] == ["failure"]


def test_a_run_that_did_not_end_is_an_error_and_no_verdict() -> None:
    assert stopped_page("the service <b>refused</b>").startswith("## ⚠️ undecided (the run did not end")
    assert read(stopped_junit("HTTP 500")) == [("the run as a whole", ["error"])]


def test_only_what_socjudge_wrote_is_replaced(tmp_path: Path) -> None:
    page, xml, other = tmp_path / "s.md", tmp_path / "j.xml", tmp_path / "README.md"
    page.touch()  # as GitHub hands it over
    for _ in range(2):
        write_job_file(page, job_page(MIXED).encode())
        write_job_file(xml, job_junit(MIXED))
    other.write_text("# mine", "utf-8")
    with pytest.raises(ConfigError, match="was not written by socjudge"):
        write_job_file(other, b"x")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_job_file(tmp_path / "none" / "s.md", b"x")
    assert other.read_text("utf-8") == "# mine"


# -- what counts as a regression


@pytest.mark.parametrize(
    ("before", "after", "words", "doubt"),
    [
        ([90] * 10, [90] * 10, [], ""),
        ([75] * 10, [60] * 10, ["verdict of the whole run turned", "総合 changed by -15"], ""),
        ([90, 80, 95] * 3, [84, 75, 88] * 3, ["総合 changed by -6"], ""),  # all pass, and all are lower
        ([90, 80, 95] * 3, [91, 80, 93] * 3, [], ""),
        ([72] * 7 + [60] * 3, [70] * 7 + [99] * 3, [], ""),
        ([90] * 10, [90] * 5 + [None] * 5, [], "undecided now"),
        ([90, 90], [80, 80], [], "only 2 questions"),
    ],
)
def test_a_regression_is_a_turned_verdict_or_an_interval_below_zero(
    before: list[float], after: list[float | None], words: list[str], doubt: str
) -> None:
    one, other = (
        run_of(*(answer(n) if mark is None else answer(n, mark) for n, mark in enumerate(marks)), run_id=name, day=day)
        for day, (name, marks) in enumerate((("a", before), ("b", after)), start=1)
    )
    found = compare_runs(one, other)
    told = " / ".join(found.regressions)
    assert all(word in told for word in words) and bool(told) == bool(words)
    assert doubt in found.doubt and bool(found.doubt) == bool(doubt)


def test_one_criterion_that_fell_is_a_regression_though_the_mean_stays() -> None:
    one = run_of(*(answer(n, 90, 80 + n % 3) for n in range(12)), run_id="a", day=1)
    other = run_of(*(answer(n, 60 + n % 2, 86 + n % 3) for n in range(12)), run_id="b")
    assert [line for line in compare_runs(one, other).regressions if "根拠性" in line]
