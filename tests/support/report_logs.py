"""Logs that reports, panels and labels are tested with."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER

from socjudge import load_eval_dataset, rejudge, run_evaluation_suite
from socjudge.runbooks.index import RunbookIndex
from support.runs import with_options
from support.score_frames import CRITERIA
from support.service import KEY, is_judge_call, judgement, serving

HOSTILE = (
    '<script>alert(1)</script></textarea><img src=x onerror=alert(2)><a href="javascript:alert(3)">x</a>'
    " {{ 7*7 }} {% raw %} \x1b[31mred \u202egnirts \ufeff \"'><svg onload=alert(4)> <!-- ]]> http://evil.example/x.js"
)


def bare_log(marks: list[float | None], text: str = "文章") -> dict:
    """A log as the specification has it; six times the same mark per question, None for an unread reply."""
    results = []
    for number, mark in enumerate(marks, start=1):
        scores = dict.fromkeys(CRITERIA, 0 if mark is None else mark)
        evaluation = {
            "scores": scores, "average_score": float(mark or 0), "passed": (mark or 0) >= 70, "processing_time": 1.5,
            "rationale": dict.fromkeys(CRITERIA, "" if mark is None else f"理由 {text}"),
            "overall_comment": "" if mark is None else f"総評 {text}",
        }  # fmt: skip
        results.append(
            {
                "question_id": number, "category": "正常系", "question": f"質問{number} {text}",
                "answer": f"回答{number}\n二行目 {text}", "context": f"手順書{number} {text}", "expected_keypoints": [],
                "flags": {"insufficient_evidence": number == 1, "dangerous_operation": False, "ambiguous_query": False},
                "evaluation": evaluation,
            }
        )  # fmt: skip
    averages = [float(mark or 0) for mark in marks]
    passed = sum(average >= 70 for average in averages)
    mean = sum(averages) / len(averages)
    mvp = passed >= 0.7 * len(marks) and mean >= 70
    summary = {
        "total_questions": len(marks), "passed_questions": passed, "pass_rate": passed / len(marks),
        "average_score": mean, "mvp_passed": mvp,
    }  # fmt: skip
    return {"results": results, "summary": summary}


def save_log(folder: Path, log: dict, name: str = "judge_eval_20260101_090000.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(log, ensure_ascii=False), encoding="utf-8")
    return folder


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.get_starttag_text() not in ("<script>", "<style>"):
            self.words.append(data)


def words(page: str) -> str:
    """The page's visible text, on one line."""
    return " ".join(" ".join(Page(page).words).split())


# --- Three real runs to explore: a hosted judge, another one on the same answers, and the embedded default on its own

INJECTED = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" + "長" * 500


def make_history(logs_dir: Path, index: RunbookIndex) -> list[str]:
    """Log the three runs, and return their ids, the oldest first.

    gpt-4o-mini (guide-1) gives 80 points to every answer; gpt-4o (strict-1) gives the same answers 60 to 69 points, in
    the order of the questions; the third run has other answers. Answers and reasons of the first two are hostile."""
    questions = load_eval_dataset()

    def reply(request: dict[str, Any]) -> str:
        if not is_judge_call(request):
            return ANSWER + INJECTED
        asked = next(place for place, q in enumerate(questions) if q.question in request["messages"][0]["content"])
        points = 80 if request["model"] == "gpt-4o-mini" else 60 + asked
        return judgement(points, reason=f"理由 {points} {INJECTED}", comment=INJECTED)

    with serving(reply) as service, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", KEY)
        environment.setenv("OPENAI_BASE_URL", service.base_url)
        options: dict[str, Any] = {"logs_dir": logs_dir, "progress": False}
        first = run_evaluation_suite(
            questions, index=index, assistant_model="gpt-4o-mini", judge_model="gpt-4o-mini", **with_options(**options)
        )
        again = rejudge(first, judge_model="gpt-4o", judge_prompt="strict-1", **with_options(**options))
        own = run_evaluation_suite(
            questions, index=index, assistant_model="offline", judge_model="offline", **with_options(**options)
        )
    return [run.run.run_id for run in (first, again, own)]
