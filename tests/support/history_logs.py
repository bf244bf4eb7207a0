"""Three real runs to explore: a hosted judge, another one on the same answers, and the embedded default on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import ANSWER

from socjudge import load_eval_dataset, rejudge, run_evaluation_suite
from socjudge.runbooks.index import RunbookIndex
from support.runs import with_options
from support.service import KEY, is_judge_call, judgement, serving

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>" + "長" * 500


def make_history(logs_dir: Path, index: RunbookIndex) -> list[str]:
    """Log the three runs, and return their ids, the oldest first.

    gpt-4o-mini (guide-1) gives 80 points to every answer; gpt-4o (strict-1) gives the same answers 60 to 69 points, in
    the order of the questions; the third run has other answers. Answers and reasons of the first two are hostile."""
    questions = load_eval_dataset()

    def reply(request: dict[str, Any]) -> str:
        if not is_judge_call(request):
            return ANSWER + HOSTILE
        asked = next(place for place, q in enumerate(questions) if q.question in request["messages"][0]["content"])
        points = 80 if request["model"] == "gpt-4o-mini" else 60 + asked
        return judgement(points, reason=f"理由 {points} {HOSTILE}", comment=HOSTILE)

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
