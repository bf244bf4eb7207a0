"""Attacks by somebody who knew the promises alone: on parts taken for wholes, on finished runs, and on the cap."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from support.command_line import ended, processes
from support.own_bot import Said, running
from support.runs import with_options
from support.service import AfterCalls, Reply, Service, judgement, sell_on_loopback

import socjudge as sj
from socjudge.base.verdict import run_verdict
from socjudge.errors import BudgetReached
from socjudge.models import prices
from socjudge.runs.logs import save_evaluation_results

QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(60)]
ANSWER = {"answer": "端末を隔離します[1]。", "contexts": ["端末を隔離する。"], "cost_usd": 0.1}


def judged(logs: Path, count: int = 6, judge: str = "gpt-4o-mini", **keywords: Any) -> sj.EvaluationRun:
    how = with_options(**{"answers": [ANSWER] * count, "max_concurrency": 1, **keywords})
    return sj.run_evaluation_suite(QUESTIONS[:count], judge_model=judge, logs_dir=logs, progress=False, **how)


def interrupted(service: Service, logs: Path, **keywords: Any) -> tuple[Path, int]:
    """The journal of a run of six that was stopped, and how many of its answers are judged."""
    with pytest.raises(sj.RunStopped):
        judged(logs, stop=AfterCalls(service.requests, len(service.requests) + 4), **keywords)
    (journal,) = logs.glob("*.partial.jsonl")
    kept = len(sj.load_run(journal).results)
    assert 0 < kept < 6
    return journal, kept


def packed(run: sj.EvaluationRun) -> Path:
    log = run.log_path or Path()
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    return log.with_name(f"{log.name}.gz")


def open_everywhere(run: sj.EvaluationRun) -> bool:
    folder = (run.log_path or Path()).parent
    gate = sj.stats.gate_confidence(sj.load_results(folder), noise=3.0)
    told = [run_verdict(run).outcome, *sj.load_runs(folder)[["is_open", "mvp_passed"]].values[0], gate.verdict[0]]
    return told == ["open", True, False, "判定保留"] and "undecided" in repr(run)


@pytest.mark.slow
def test_a_part_judged_again_twice_stays_a_part(service: Service, tmp_path: Path, undrawn: None) -> None:
    journal, kept = interrupted(service, tmp_path / "1")
    once = sj.rejudge(sj.load_run(journal), judge_model="gpt-4o", logs_dir=tmp_path / "2", progress=False)
    loaded = sj.load_run(packed(once))
    twice = sj.rejudge(loaded, judge_model="gpt-4o-mini", logs_dir=tmp_path / "3", progress=False)
    assert open_everywhere(loaded) and open_everywhere(twice) and open_everywhere(sj.load_run(twice.log_path or ""))
    page = sj.write_report(tmp_path / "page.html", twice.log_path, lang="ja").read_text("utf-8")
    assert f"6件中{kept}件のみ採点" in page and "undecided" in sj.summary_text(twice)


def test_one_judgement_of_three_is_not_the_run(service: Service, tmp_path: Path) -> None:
    log = judged(tmp_path, judge_repeats=3).log_path or Path()
    data = json.loads(log.read_text("utf-8"))
    rows = [row for row in data["results"] if row["judge_repeat"] == 0]
    log.write_text(json.dumps(data | {"results": rows}), "utf-8")
    assert open_everywhere(sj.load_run(log))


@pytest.mark.slow
def test_a_part_beside_a_whole_has_no_verdict(service: Service, tmp_path: Path) -> None:
    journal, kept = interrupted(service, tmp_path / "part")
    compared = sj.compare_runs(sj.load_run(journal), judged(tmp_path / "whole"))
    assert compared.questions.before.notna().sum() == kept and f"only the {kept} questions" in " ".join(compared.notes)
    all_rows = sj.load_results(tmp_path / "whole")
    for frame, verdict in ((all_rows, "合格"), (all_rows.query("question_id > 0"), "判定保留")):
        assert sj.stats.gate_confidence(frame, noise=3.0).verdict[0] == verdict


def test_a_packed_log_beside_its_journal_is_the_finished_run(service: Service, tmp_path: Path) -> None:
    left = dict[Path, bytes]()
    packed(judged(tmp_path, on_result=lambda _: left.update((p, p.read_bytes()) for p in tmp_path.glob("*.partial*"))))
    for journal, text in left.items():
        journal.write_bytes(text)  # as if killed before it was removed
    assert len(judged(tmp_path).results) == 6 == len(service.requests) and len(sj.load_runs(tmp_path)) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_finished_run_of_this_identity_is_another(service: Service, tmp_path: Path, is_first: bool) -> None:
    if is_first:
        judged(tmp_path)
    journal, _ = interrupted(service, tmp_path, fresh=is_first)
    if not is_first:
        judged(tmp_path, fresh=True)
    assert journal.exists() and len(judged(tmp_path).results) == 6
    assert len(service.requests) == 12 and len(sj.load_runs(tmp_path)) == 2


def test_as_many_rows_are_not_a_whole_if_some_come_twice(service: Service, tmp_path: Path) -> None:
    journal, _ = interrupted(service, tmp_path)
    log = save_evaluation_results(sj.load_run(journal), tmp_path)
    data = json.loads(log.read_text("utf-8"))
    log.write_text(json.dumps(data | {"results": (data["results"] * 6)[:6]}), "utf-8")
    assert sorted(result.question.id for result in judged(tmp_path).results) == list(range(6))
    assert len(service.requests) == 6


@pytest.mark.parametrize("is_router", [True, False])
def test_a_gateway_bills_no_more_than_the_cap(service: Service, tmp_path: Path, is_router: bool) -> None:
    billed = list[float]()  # by a router that turns dearer late; or with replies that come too late or are unparsable

    def reply(request: dict[str, Any]) -> Reply:
        turn = len(service.requests)
        is_dear = is_router and turn > 40 and turn % 3 == 0
        model, tokens = ("gpt-4o", 3800) if is_dear else ("gpt-4o-mini", 400 if is_router else 4000)
        billed.append(prices.price_usd(model, 2500, tokens) or 0.0)
        text = "採点できません" if not is_router and turn % 4 == 3 else judgement(80)
        choices = [{"message": {"content": text}, "finish_reason": "stop"}]
        body = {"choices": choices, "model": model, "usage": {"prompt_tokens": 2500, "completion_tokens": tokens}}
        return Reply(body=json.dumps(body), delay_s=0.02 if is_router or turn % 4 != 1 else 0.5)

    service.default, cap = reply, 0.25 if is_router else 0.05
    with pytest.raises(BudgetReached):
        judged(tmp_path, 60, max_cost_usd=cap, max_concurrency=4, timeout_s=10.0 if is_router else 0.25)
    assert 0.03 < sum(billed) <= cap


def judge_bot(url: str, base_url: str, logs: Path) -> None:
    prices.door_of = sell_on_loopback  # type: ignore[assignment]
    os.environ.update(OPENAI_API_KEY="sk-test-0123456789abcdefghij", OPENAI_BASE_URL=base_url)
    table = {"url": url, "body": {"q": "{question}"}, "version": "1"} | {name: name for name in ANSWER}
    judged(logs, 60, answers=sj.Assistant(table, name="bot", concurrency=4), max_cost_usd=1.0)


@pytest.mark.slow
def test_a_crash_loop_keeps_to_the_cap(service: Service, tmp_path: Path) -> None:
    with running(lambda _: Said(ANSWER)) as bot:
        for most in (4, 99):  # killed with calls in flight, then to the cap
            process = processes.Process(target=judge_bot, args=(f"{bot.url}/ask", service.base_url, tmp_path))
            process.start()
            while process.is_alive() and len(bot.asked) < most:
                time.sleep(0.005)
            process.kill()
            ended(process)
        assert 5 < len(bot.asked) <= 10 + 1
