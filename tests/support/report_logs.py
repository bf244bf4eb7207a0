"""Logs that reports, panels and labels are tested with."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from support.score_frames import CRITERIA

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
