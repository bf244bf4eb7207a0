"""Probes over a real HTTP service: known weaknesses are found, a good judge is left in peace, what is missing is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.certify_judge import Noisy, ScriptedJudge, blind, estimate_probes, good_pairs
from support.certify_judge import probe as probe_judge
from support.runs import with_options
from support.service import Service

from socjudge import AssistantAnswer, ConfigError, EvalQuestion, load_run, load_scores
from socjudge.certify import certify_judge, plan_certificate
from socjudge.certify.cases import Judged
from socjudge.certify.changes import Kind
from socjudge.certify.findings import summarise_changes
from socjudge.errors import SocJudgeError

PROBES: tuple[Kind, ...] = ("damage", "neutral")
PAIRS = [good_pairs()[place] for place in (0, 2, 4)]


def probe(service: Service, folder: Path, *weaknesses: Any, **keywords: Any) -> Judged:
    service.default = ScriptedJudge(PAIRS, *weaknesses)
    settings = {"judge_model": "gpt-4o-mini", "logs_dir": folder / "logs", **keywords}
    return probe_judge(PAIRS, *PROBES, **with_options(**settings))


def row(summary: pd.DataFrame, name: str, criterion: str) -> dict[str, Any]:
    (found,) = summary[(summary["case"] == name) & (summary["criterion"] == criterion)].to_dict("records")
    return found


@pytest.mark.slow
def test_a_judge_that_sees_everything_is_found_to(service: Service, tmp_path: Path) -> None:
    probing = probe(service, tmp_path)
    summary = summarise_changes(probing.findings)
    assert (summary["detected"].dropna() == 1).all()
    assert (summary["n_forbidden"] == 0).all()
    # 90 -> 30; Wilson for 3 of 3 is 3 / (3 + 1.96²) = 0.439 to 1.
    dropped = row(summary, "citations_dropped", "引用明示")
    assert (dropped["n"], dropped["mean_change"], round(dropped["detected_low"], 3)) == (3, -60, 0.439)
    number = summary[summary["case"] == "number_changed"].set_index("criterion")["mean_change"]
    assert number["正確性"] == -60 and set(number.drop("正確性")) == {0}
    assert probing.usage.calls == service.judge_calls == estimate_probes(PAIRS, *PROBES)
    assert row(summary, "warning_removed", "安全性")["title"] == "the warning removed"


@pytest.mark.slow
def test_a_judge_blind_to_a_criterion_is_found_and_only_there(service: Service, tmp_path: Path) -> None:
    changes = probe(service, tmp_path, blind("正確性")).findings
    seen = summarise_changes(changes).dropna(subset=["detected"]).groupby("criterion")["detected"].max()
    assert seen["正確性"] == 0
    assert (seen.drop("正確性") == 1).all()


@pytest.mark.slow
def test_noise_widens_the_limit_and_is_no_finding(service: Service, tmp_path: Path) -> None:
    probing = probe(service, tmp_path, Noisy(10), repeats=3)
    limits = probing.findings.groupby("criterion")["limit"].first()
    # Uniform on -10..10: sd 6.06, so t(15) · 6.06 · sqrt(1 + 1/4) is about 14; its own noise moves it some points.
    assert limits.between(9, 20).all()
    neutral = probing.findings[probing.findings["expected"] == "stays"].dropna(subset=["moved"])
    assert (neutral["moved"] != "stayed").mean() < 0.07
    summary = summarise_changes(probing.findings)
    assert summary["detected"].mean() > 0.95


@pytest.mark.slow
def test_a_move_where_none_is_allowed_is_counted_and_named(service: Service, tmp_path: Path) -> None:
    def dislikes_wide_digits(scores: dict[str, int], prompt: str) -> dict[str, int]:
        return {**scores, "正確性": 50} if re.search("[０-９]", prompt) else scores

    changes = probe(service, tmp_path, dislikes_wide_digits).findings
    found = row(summarise_changes(changes), "digits_widened", "正確性")
    assert found["n_forbidden"] > 0
    assert row(summarise_changes(changes), "digits_widened", "安全性")["n_forbidden"] == 0


@pytest.mark.slow
def test_where_no_damage_applies_nothing_is_known(service: Service, tmp_path: Path) -> None:
    bare = (
        EvalQuestion(1, "正常系", "何を報告しますか。", ()),
        AssistantAnswer("何を？", "状況をSOCリーダーに報告する。"),
    )
    service.default = ScriptedJudge([bare])
    changes = probe_judge([bare], *PROBES, judge_model="gpt-4o-mini", logs_dir=tmp_path).findings
    assert not {"citations_dropped", "keypoint_removed"} & set(changes["case"])
    assert "falls" not in set(changes.loc[changes["criterion"] == "引用明示", "expected"])


@pytest.mark.slow
def test_a_budget_that_ends_midway_keeps_what_was_paid_and_goes_on_with_more(service: Service, tmp_path: Path) -> None:
    first = probe(service, tmp_path, max_cost_usd=0.02, max_concurrency=1)
    paid = service.judge_calls
    assert 15 < paid < 100 and "0.02" in first.stopped
    assert first.usage.calls == paid and 0 < (first.usage.cost_usd or 0) <= 0.02
    judged = first.findings[first.findings["status"] == "ok"]
    assert len(judged) and {"not_judged"} <= set(first.findings["status"])
    summary = summarise_changes(first.findings)
    assert (summary["n_cases"] == 0).any() and (summary["detected"].dropna() == 1).all()
    whole = probe(service, tmp_path, max_cost_usd=1.0)
    assert service.judge_calls == whole.usage.calls  # nothing was paid for twice
    assert "not_judged" not in set(whole.findings["status"])


@pytest.mark.slow
def test_no_money_at_all_leaves_everything_unknown(service: Service, tmp_path: Path) -> None:
    probing = probe(service, tmp_path, max_cost_usd=0.0)
    assert service.judge_calls == 0 and set(probing.findings["status"]) == {"not_judged"}
    assert probing.findings["moved"].isna().all()
    assert summarise_changes(probing.findings)["mean_change"].isna().all()


def test_a_judge_that_never_keeps_to_the_format_is_an_error_that_says_so(service: Service, tmp_path: Path) -> None:
    service.default = "良い回答です。"
    with pytest.raises(ConfigError, match="none of its first"):
        probe_judge(PAIRS, *PROBES, judge_model="gpt-4o-mini", logs_dir=tmp_path)


@pytest.mark.slow
def test_unreadable_judgements_are_missing_and_counted(service: Service, tmp_path: Path) -> None:
    judge = ScriptedJudge(PAIRS)

    def sometimes(request: dict[str, Any]) -> str:
        unread = "総務部は、対象者の座席" in request["messages"][0]["content"]
        return "読めません" if unread else judge(request)

    service.default = sometimes
    changes = probe_judge(PAIRS, *PROBES, judge_model="gpt-4o-mini", logs_dir=tmp_path).findings
    lost = changes[changes["case"] == "invented_claim"]
    assert set(lost["status"]) == {"unparsable"} and lost["moved"].isna().all()
    found = row(summarise_changes(changes), "invented_claim", "根拠性")
    assert (found["n"], found["n_cases"], len(lost)) == (0, 0, 3 * 6)
    assert pd.isna(found["detected"])


@pytest.mark.slow
def test_an_answer_without_points_has_none_to_lose(service: Service, tmp_path: Path) -> None:
    found = row(
        summarise_changes(probe(service, tmp_path, lambda s, _: {**s, "引用明示": 0}).findings),
        "citations_dropped",
        "引用明示",
    )
    assert (found["n"], found["n_no_room"], pd.isna(found["detected"])) == (3, 3, True)


@pytest.mark.slow
def test_each_criterion_may_be_tried_by_a_few_damages_taken_in_turn(service: Service, tmp_path: Path) -> None:
    changes = probe(service, tmp_path, size=2).findings
    aimed = changes[changes["expected"] == "falls"]
    assert (aimed.groupby(["question_id", "criterion"])["case"].nunique() == 2).all()
    tried = [tuple(rows["case"].unique()) for _, rows in aimed[aimed["criterion"] == "正確性"].groupby("question_id")]
    assert len(set(tried)) == 3
    assert (changes[changes["kind"] == "neutral"].groupby("question_id")["case"].nunique() == 2).all()


@pytest.mark.slow
def test_the_log_of_judgements_is_a_log_and_no_run_of_the_history(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    probing = probe(service, folder, logs_dir=folder / "certify", size=1)
    assert probing.log_path is not None and len(load_run(probing.log_path).results) == probing.usage.calls
    assert load_scores(folder).empty


def test_a_log_is_probed_like_its_answers_and_an_empty_one_is_refused(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    log = min(samples.glob("*.json"))
    of_log, of_run = (plan_certificate(given, judge_model="gpt-4o-mini") for given in (log, load_run(log)))
    assert of_log.estimate.calls == of_run.estimate.calls > 0
    question = EvalQuestion(1, "正常系", "？", ("端末の隔離",))
    for nothing in ([], [(question, AssistantAnswer("？", " "))]):
        with pytest.raises(ConfigError, match="no answer to work with"):
            certify_judge(nothing, judge_model="offline", logs_dir=tmp_path, progress=False)
    twice = [(question, AssistantAnswer("？", "隔離する。"))] * 2
    with pytest.raises(SocJudgeError, match="question id 1 occurs more than once"):
        certify_judge(twice, judge_model="offline", logs_dir=tmp_path, progress=False)
