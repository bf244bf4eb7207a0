"""`socjudge certify` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.certify_judge import ScriptedJudge, good_pairs
from support.command_line import socjudge_here
from support.service import KEY, Service

from socjudge import run_evaluation_suite

pytestmark = pytest.mark.slow


def test_certify_asks_first_keeps_the_certificate_and_check_reads_it(service: Service, tmp_path: Path) -> None:
    questions, answers = zip(*good_pairs(), strict=True)
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="offline", logs_dir=tmp_path / "logs", progress=False
    )
    service.default = ScriptedJudge(list(zip(questions, answers, strict=True)))
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    where = ["--judge-model", "gpt-4o-mini", "--certificates", str(tmp_path / "certificates")]
    command = [
        "certify",
        "--log",
        str(run.log_path),
        *where,
        "--logs-dir",
        str(tmp_path / "certify"),
        "--size",
        "1",
        "-q",
    ]
    refused = socjudge_here(*command, **keys)
    assert refused.returncode == 5 and "calls" in refused.stderr and "--yes" in refused.stderr
    none = socjudge_here("certify", "--check", *where, **keys)
    assert none.returncode == 4 and "there is no certificate of the judge gpt-4o-mini" in none.stderr
    (tmp_path / "own.jsonl").write_text('{"question_id": 1, "broken_answer": "x", "criterion": "安全"}\n', "utf-8")
    unfit = socjudge_here(*command, "--damaged", str(tmp_path / "own.jsonl"), **keys)
    assert unfit.returncode == 2 and "own.jsonl, row 1: criterion is '安全'; expected one of" in unfit.stderr
    assert service.requests == []

    made = socjudge_here(*command, "--yes", **keys)
    assert made.returncode == 0, made.stderr
    assert "安全性: with conditions  Not shown yet: agreement with people" in made.stdout
    (path,) = (tmp_path / "certificates").glob("*.json")
    assert path.with_suffix(".html").read_text("utf-8").startswith("<!DOCTYPE html>")
    asked = service.judge_calls
    checked = socjudge_here("certify", "--check", *where, **keys)
    assert checked.returncode == 0 and checked.stdout == made.stdout, checked.stderr
    other = socjudge_here("certify", "--check", *where, "--judge-prompt", "guide-1-hardened", **keys)
    assert other.returncode == 4 and "this has changed: the judge prompt" in other.stderr
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "stopped": "x"}), "utf-8")
    edited = socjudge_here("certify", "--check", *where, **keys)
    assert edited.returncode == 4 and "changed after it was written" in edited.stderr
    assert service.judge_calls == asked


def test_a_budget_that_ends_midway_ends_with_unknown_and_exit_code_1(service: Service, tmp_path: Path) -> None:
    questions, answers = zip(*good_pairs(), strict=True)
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="offline", logs_dir=tmp_path / "logs", progress=False
    )
    service.default = ScriptedJudge(list(zip(questions, answers, strict=True)))
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    folder = tmp_path / "certificates"
    where = ["--judge-model", "gpt-4o-mini", "--certificates", str(folder), "--logs-dir", str(tmp_path / "certify")]
    cut = socjudge_here("certify", "--log", str(run.log_path), *where, "--budget", "0.005", "-y", "-q", **keys)
    assert cut.returncode == 1 and "the budget was used up" in cut.stderr and "unknown" in cut.stdout
    (path,) = folder.glob("*.json")
    assert 0 < json.loads(path.read_text("utf-8"))["basis"]["calls"] == service.judge_calls
    assert socjudge_here("certify", "--check", *where[:4], **keys).returncode == 1


def test_where_there_is_no_log_it_says_how_to_make_one(tmp_path: Path) -> None:
    told = socjudge_here("--project", str(tmp_path), "certify")
    assert told.returncode == 2 and "there are no logs yet; make one with socjudge run" in told.stderr
