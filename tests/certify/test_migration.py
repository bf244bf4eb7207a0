"""From one judge to another: which stored answers both mark, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import socjudge_here
from service import CRITERIA, KEY, Service, judgement

import socjudge as sj
from socjudge import constants
from socjudge.certify.migration import migrate_judge, pick_answers, plan_migration
from socjudge.models.endings import ending_text
from socjudge.report.migration import migration_lines, write_migration_page

OLD, NEW = "gpt-4o-mini", "gpt-4.1-mini"
CATEGORIES = ("正常系", "曖昧系", "危険操作系", "根拠不足系")
QUESTIONS = [sj.EvalQuestion(n, CATEGORIES[n % 4], f"質問{n:02}です", ("端末の隔離",)) for n in range(40)]
ANSWERS = [
    sj.AssistantAnswer(q.question, f"回答{q.id}です。[出典: a.md > b]", "[出典: a.md > b]\n文脈") for q in QUESTIONS
]


def old_mark(n: int) -> int:
    return 40 + (n * 37) % 60  # 40 to 99, in no order


def new_mark(n: int) -> int:
    return round(0.8 * old_mark(n) + 8 + (n % 3 - 1))  # 70 of the old corresponds to 64


def judging(request: dict[str, Any]) -> str:
    n = int(re.search(r"質問(\d+)です", request["messages"][0]["content"])[1])  # type: ignore[index]
    return judgement(old_mark(n) if request["model"] == OLD else new_mark(n))


@pytest.fixture
def logs(service: Service, tmp_path: Path) -> Path:
    """The history of a project whose judge is the old one."""
    service.default = judging
    how: dict[str, Any] = {"judge_model": OLD, "logs_dir": tmp_path / "logs", "progress": False}
    sj.run_evaluation_suite(QUESTIONS, answers=ANSWERS, **how)
    service.requests.clear()
    return tmp_path / "logs"


def test_both_judges_mark_the_same_answers_and_the_line_is_found(service: Service, logs: Path, tmp_path: Path) -> None:
    plan = plan_migration(logs, old=OLD, new=NEW, size=20)
    assert plan.estimate.calls == 40 and plan.estimate.cost_usd and not service.requests
    assert plan.stored == 40 and len(plan.cases) == 20 and not plan.categories_left
    found = migrate_judge(plan, logs_dir=tmp_path / "migration", progress=False)
    assert [sum(each["model"] == name for each in service.requests) for name in (OLD, NEW)] == [20, 20]
    assert found.overall["pass_line"] == pytest.approx(64, abs=1)  # 0.8 × 70 + 8
    assert set(found.bridge["criterion"]) == {*CRITERIA, "総合"} and found.is_enough and found.more == 0
    turned = {c.question_id for c in plan.cases if (old_mark(c.question_id) >= 70) != (new_mark(c.question_id) >= 70)}
    assert set(found.turned["question_id"]) == turned and turned
    assert found.share_low < len(turned) / 20 < found.share_high
    assert found.usage.calls == 40


@pytest.mark.slow
def test_what_is_said_has_the_line_what_turns_and_whether_it_is_enough(
    service: Service, logs: Path, tmp_path: Path
) -> None:
    plan = plan_migration(logs, old=OLD, new=NEW, size=20)
    found = migrate_judge(plan, logs_dir=tmp_path / "migration", progress=False)
    said = "\n".join(migration_lines(found))
    assert "The pass line of 70 points with gpt-4o-mini corresponds to about 64 with gpt-4.1-mini" in said
    assert f"{len(found.turned)} of 20 answers change their verdict" in said and "That is enough" in said
    page = write_migration_page(tmp_path / "page.html", found).read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "gpt-4.1-mini" in page and "正確性" in page


@pytest.mark.slow
def test_too_few_answers_say_how_many_more(service: Service, logs: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(1)
    rough = {n: int(np.clip(old_mark(n) + noise.normal(0, 12), 0, 100)) for n in range(40)}

    def reply(request: dict[str, Any]) -> str:
        n = int(re.search(r"質問(\d+)です", request["messages"][0]["content"])[1])  # type: ignore[index]
        return judgement(old_mark(n) if request["model"] == OLD else rough[n])

    service.default = reply
    found = migrate_judge(plan_migration(logs, old=OLD, new=NEW, size=10), logs_dir=tmp_path / "m", progress=False)
    assert not found.is_enough and found.more
    assert f"about {found.more} more questions" in "\n".join(migration_lines(found))


@pytest.mark.slow
def test_judges_that_do_not_go_together_get_no_line(service: Service, logs: Path, tmp_path: Path) -> None:
    service.default = lambda request: judging(request) if request["model"] == OLD else judgement(80)
    found = migrate_judge(plan_migration(logs, old=OLD, new=NEW, size=20), logs_dir=tmp_path / "m", progress=False)
    assert found.more is None and not found.is_enough
    assert "no line corresponds" in "\n".join(migration_lines(found))


@pytest.mark.slow
def test_a_call_that_was_broken_off_goes_on_and_a_cap_is_for_both(service: Service, logs: Path, tmp_path: Path) -> None:
    plan = plan_migration(logs, old=OLD, new=NEW, size=20)
    how: dict[str, Any] = {"logs_dir": tmp_path / "m", "progress": False, "options": sj.RunOptions(max_concurrency=1)}
    with pytest.raises(sj.errors.BudgetReached):
        migrate_judge(plan, max_cost_usd=0.02, **how)
    before = len(service.requests)
    assert 0 < before < 40
    migrate_judge(plan, **how)
    assert len(service.requests) == 40


def test_answers_are_taken_from_every_category_and_both_sides_of_the_line() -> None:
    marks = np.random.default_rng(0).integers(0, 100, 400)
    rows = [
        {"question_id": n, "answer_sha256": f"{n:03}", "category": CATEGORIES[n % 4], "average_score": float(mark)}
        for n, mark in enumerate(marks)
    ]
    stored = pd.DataFrame(rows + rows[:50])  # some were judged twice
    picked = pick_answers(stored, 40)
    assert len(picked) == 40 == picked["answer_sha256"].nunique()
    assert picked["category"].value_counts().tolist() == [10] * 4
    # Evenly by mark: of ten in a category, two below 20, two below 40 …, give or take one.
    counts = picked.groupby(["category", (picked["average_score"] // 20).astype(int)], observed=True).size()
    assert counts.between(1, 3).all() and len(counts) == 20
    assert len(pick_answers(stored, 500)) == 400


def test_what_there_is_too_little_of_is_said_before_anything_is_asked(service: Service, logs: Path) -> None:
    with pytest.raises(sj.ConfigError, match="no log has answers that gpt-5 has marked"):
        plan_migration(logs, old="gpt-5", new=NEW)
    with pytest.raises(sj.ConfigError, match="at least 8"):
        plan_migration(logs, old=OLD, new=NEW, size=7)
    assert not service.requests


@pytest.mark.slow
def test_the_command_shows_calls_and_cost_first(service: Service, logs: Path, tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    command = ["migrate-judge", "--from", OLD, "--to", NEW, "--logs-dir", str(logs), "--size", "10", "-q"]
    page = tmp_path / "page.html"
    refused = socjudge_here(*command, **keys)
    assert refused.returncode == 2 and "10 of 40 stored answers" in refused.stderr and "20 calls" in refused.stderr
    assert not service.requests
    done = socjudge_here(*command, "--yes", "--page", str(page), **keys)
    assert done.returncode == 0, done.stderr
    assert "corresponds to about 64" in done.stdout and page.exists() and len(service.requests) == 20


ENDS: dict[str, tuple[date, str]] = {
    "before": (date(2026, 12, 31), "ends on 2027-01-14, in 14 days"), "after": (date(2027, 2, 1), "ended on 2027-01-14"),
}  # fmt: skip


@pytest.mark.parametrize("when", ENDS)
def test_a_judge_that_ends_is_reminded_of(when: str) -> None:
    today, told = ENDS[when]
    for name in (OLD, f"decisions:{OLD}", f"gpt-6 > {OLD}"):
        assert told in ending_text(name, today)
    assert ending_text("gpt-6", today) == ending_text("offline", today) == ""


def test_the_projects_own_table_goes_before_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "PROJECT_DIR", tmp_path)
    own = tmp_path / "model_ends.toml"
    own.write_text('["gpt-5"]\nends = 2027-03-01\nsource = "社内の通知"\n', encoding="utf-8")
    assert "社内の通知" in ending_text("gpt-5", date(2027, 1, 1)) and ending_text(OLD, date(2027, 1, 1))
    write: Callable[[str], int] = own.write_text
    for unfit in ("gpt-5 = 3", '["gpt-5"]\nends = "soon"\nsource = "x"\n', "["):
        write(unfit)
        with pytest.raises(sj.ConfigError, match="model_ends.toml"):
            ending_text("gpt-5")


@pytest.mark.slow
def test_doctor_reminds_of_the_projects_judge(logs: Path, service: Service) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    done = socjudge_here("doctor", "--logs-dir", str(logs), **keys)
    assert done.returncode == 0 and "socjudge migrate-judge --from gpt-4o-mini" in done.stderr
    assert "migrate-judge" not in socjudge_here("doctor", "--logs-dir", str(logs)).stderr
