"""Answers that people broke, beside those damaged by rule: read, judged, counted, or refused with the place and the remedy."""

from __future__ import annotations

import json
import math
import os
import unicodedata
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.certify_judge import Scores, ScriptedJudge, good_pairs
from support.runs import with_options
from support.service import CRITERIA, Service, judgement

from socjudge import ConfigError
from socjudge.certify import certify_judge, plan_certificate, write_certificate_page
from socjudge.certify.from_people import read_damaged
from socjudge.certify.subjects import find_subjects
from socjudge.records import Completion, ModelRequest, Usage

PAIRS = good_pairs()
SUBJECTS = find_subjects(PAIRS)
BROKEN = "1. 隔離した端末は、その場で電源を切って持ち帰ります。報告は不要です。"
LINES: list[dict[str, Any]] = [
    {"question_id": question.id, "broken_answer": f"{BROKEN}（{question.id}）", "criterion": "安全性"}
    for question, _ in PAIRS[:8]
]


def jsonl(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8-sig")
    return path


def sees(scores: Scores, prompt: str) -> Scores:
    return {**scores, "安全性": 20} if BROKEN in prompt else scores


def certified(service: Service, folder: Path, *weaknesses: Any, **settings: Any) -> Any:
    service.default = ScriptedJudge(PAIRS, *weaknesses)
    return certify_judge(
        PAIRS,
        judge_model="gpt-4o-mini",
        size=1,
        budget_usd=math.inf,
        logs_dir=folder / "certify",
        progress=False,
        **with_options(**settings),
    )


def evidence(certificate: Any, criterion: str = "安全性") -> tuple[str, str, list[dict[str, Any]]]:
    """What it says of damage and why, and the rows of own damages."""
    (verdict,) = [each for each in certificate.verdicts if each.criterion == criterion]
    rows = [row for row in certificate.tables["probes"] if row["case"].startswith("own_damage")]
    return verdict.findings[1].words, verdict.why, rows


@pytest.mark.slow
def test_what_people_broke_counts_beside_what_rules_damage(service: Service, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "own.jsonl", *LINES)
    seeing = certified(service, tmp_path / "sees", sees, damaged=file)
    words, why, (row,) = evidence(seeing)
    assert (row["title"], row["criterion"], row["n"], row["detected"]) == (
        "an answer of your own that you broke",
        "安全性",
        8,
        1.0,
    )
    assert words.startswith("Of the damage that must lower it, 100% did") and "that you broke" not in why
    blind = certified(service, tmp_path / "blind", damaged=file)
    words, why, (row,) = evidence(blind)
    assert row["detected"] == 0.0 and "Damage that it does not see: an answer of your own that you broke" in why
    assert words.startswith("Of the damage that must lower it, 60% did")  # eight of ten answers saw one of two
    assert evidence(blind, "簡潔性")[:2] == evidence(seeing, "簡潔性")[:2]
    page = write_certificate_page(tmp_path / "c.html", blind).read_text("utf-8")
    assert page.count("an answer of your own that you broke") >= 2


@pytest.mark.slow
def test_the_estimate_has_what_people_broke(service: Service, tmp_path: Path) -> None:
    what: dict[str, Any] = {"judge_model": "gpt-4o-mini", "budget_usd": math.inf, "size": 1}
    plain = plan_certificate(PAIRS, **what).estimate.calls
    assert plan_certificate(PAIRS, **what, damaged=pd.DataFrame(LINES)).estimate.calls == plain + 8
    seven = PAIRS[:7]
    least = plan_certificate(seven, **what, damaged=pd.DataFrame(LINES[:7])).estimate.calls
    assert least == plan_certificate(seven, **what).estimate.calls + 7
    cases = read_damaged(pd.DataFrame([*LINES, {**LINES[0], "criterion": "正確性"}]), SUBJECTS, CRITERIA)
    assert cases[-1].question_id == PAIRS[0][0].id and cases[-1].subject.answer.context == PAIRS[0][1].context
    assert len({case.id for case in cases}) == len(cases) == 9


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({**LINES[0], "question_id": 99}, r"row 2: question_id is '?99'?, of which there is no answer"),
        ({**LINES[0], "question_id": None}, "row 2: question_id is None"),
        ({**LINES[0], "criterion": "安全"}, "row 2: criterion is '安全'; expected one of 根拠性, "),
        ({**LINES[0], "criterion": ["安全性"]}, "row 2: criterion is missing, empty or no text"),
        ({"question_id": 1, "criterion": "安全性"}, "row 2: broken_answer is missing"),
        ({**LINES[0], "broken_answer": " "}, "row 2: broken_answer is missing, empty"),
        ({**LINES[0], "broken_answer": " \u200b\u3164"}, "row 2: broken_answer is missing, empty"),
        ({**LINES[0], "answer": "良い。"}, "row 2: the good answer is that of the log"),
        ({**LINES[0], "broken_answer": PAIRS[0][1].answer + "\n"}, "row 2: broken_answer is the good answer itself"),
        (
            {**LINES[0], "broken_answer": "\u200b" + PAIRS[0][1].answer},
            "row 2: broken_answer is the good answer itself",
        ),
        (
            {**LINES[0], "broken_answer": unicodedata.normalize("NFD", PAIRS[0][1].answer)},
            "row 2: broken_answer is the good answer itself",
        ),
    ],
)
def test_an_unfit_line_is_named_with_its_field_and_the_remedy(line: Any, told: str, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "own.jsonl", LINES[0], line)
    with pytest.raises(ConfigError, match=rf"own\.jsonl, {told}"):
        plan_certificate(PAIRS, judge_model="offline", damaged=file)
    with pytest.raises(ConfigError, match=f"the DataFrame, {told}"):
        plan_certificate(PAIRS, judge_model="offline", damaged=pd.DataFrame([LINES[0], line]))


@pytest.mark.parametrize("what", ["none", "empty", "pipe", "folder", "no utf-8", "nested", "cut", "no object"])
def test_an_unfit_file_is_named(what: str, tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    contents = {
        "empty": b"\n\n",
        "no utf-8": b'{"question_id": "\xff"}',
        "nested": b"[" * 90_000,
        "cut": b'{"question_id',
        "no object": b"[1]",
    }
    if what in contents:
        file.write_bytes(contents[what])
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    with pytest.raises(
        ConfigError, match=r"own\.jsonl.*(cannot be read|no row|no such file|list of objects|broken_answer is missing)"
    ):
        plan_certificate(PAIRS, judge_model="offline", damaged=file)


class Lexical:
    """A judge of somebody's own that says that it measures by rules."""

    name, is_lexical = "mine", True

    def complete(self, request: ModelRequest) -> Completion:
        return Completion(judgement(80), self.name, Usage(1, 1, 1, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["offline", Lexical()], ids=["embedded", "own"])
def test_a_judge_that_measures_by_rules_is_told_to_be_flattered(judge: Any, tmp_path: Path) -> None:
    what: dict[str, Any] = {
        "judge_model": judge, "size": 1, "budget_usd": math.inf, "logs_dir": tmp_path / "certify", "progress": False,
    }  # fmt: skip
    alone = certify_judge(PAIRS[:1], **with_options(**what))
    assert any("flatter it" in told and "--damaged FILE" in told for told in alone.not_tried)
    assert all("made by rules like those" in verdict.why for verdict in alone.verdicts)
    page = write_certificate_page(tmp_path / "c.html", alone).read_text("utf-8")
    assert page.count("--damaged FILE") == (2 if judge == "offline" else 1)
    both = certify_judge(PAIRS[:1], damaged=pd.DataFrame(LINES[:1]), **with_options(**what))
    assert any("flatter it" in told for told in both.not_tried)
    assert all("made by rules like those" in verdict.why for verdict in both.verdicts)  # one shows nothing


@pytest.mark.slow
def test_a_judge_that_measures_by_rules_is_trusted_where_it_sees_what_people_broke(tmp_path: Path) -> None:
    scripted, broken = ScriptedJudge(PAIRS), "手順は省きます。"

    class Seeing(Lexical):
        settings = "x"

        def complete(self, request: ModelRequest) -> Completion:
            prompt = str(request.messages[0]["content"])
            told = judgement(25) if broken in prompt else scripted({"messages": request.messages})
            return Completion(told, self.name, Usage(1, 1, 1, 0.0))

    rows = [{"question_id": q.id, "criterion": "安全性", "broken_answer": broken} for q, _ in PAIRS]
    what: dict[str, Any] = {"judge_model": Seeing(), "size": 1, "budget_usd": math.inf, "progress": False}
    for count, flattered in ((len(PAIRS), set(CRITERIA) - {"安全性"}), (3, set(CRITERIA))):
        made = certify_judge(
            PAIRS, logs_dir=tmp_path / str(count), damaged=pd.DataFrame(rows[:count]), **with_options(**what)
        )
        assert {v.criterion for v in made.verdicts if "made by rules like those" in v.why} == flattered
