"""`socjudge certify --only` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.certify_judge import ScriptedJudge, good_pairs
from support.command_line import socjudge_here
from support.service import KEY, Service

from socjudge import run_evaluation_suite

pytestmark = pytest.mark.slow


def test_an_experiment_asks_first_tells_each_criterion_and_goes_on_after_a_used_up_budget(
    service: Service, tmp_path: Path
) -> None:
    questions, answers = zip(*good_pairs()[:2], strict=True)
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="offline", logs_dir=tmp_path / "logs", progress=False
    )
    service.default = ScriptedJudge(list(zip(questions, answers, strict=True)))
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    where = ["--logs-dir", str(tmp_path / "certify")]
    command = ["certify", "--log", str(run.log_path), "--only", "probes", "--judge-model", "gpt-4o-mini", *where, "-q"]
    refused = socjudge_here(*command, **keys)
    assert refused.returncode == 5 and "--yes" in refused.stderr and service.requests == []

    cut = socjudge_here(*command, "-y", "--max-cost-usd", "0.01", **keys)
    assert cut.returncode == 3, cut.stderr
    assert "the budget was used up" in cut.stderr and "正確性: " in cut.stdout
    paid = service.judge_calls

    chart = tmp_path / "matrix.svg"
    others = [word for name in ("anchoring", "injections") for word in ("--only", name)]
    more = [*others, "--size", "1", "--page", str(chart)]
    done = socjudge_here(*command, "-y", *more, **keys)
    assert done.returncode == 0, done.stderr
    assert service.judge_calls > paid
    seen = "- seen: all citations dropped (100% of 1"
    for told in (seen, "Injection gains", "flags inverted: "):
        assert told in done.stdout
    assert chart.read_text("utf-8").startswith("<?xml")
