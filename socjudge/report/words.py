"""What the report says in words: what was run, and what the numbers cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..base.messages import say
from ..records import UNKNOWN, is_embedded

FEW = 30  # questions; below, the interval of a pass rate is wider than ±0.16


def run_facts(run: Mapping[str, Any], answers: pd.DataFrame, record: pd.Series | None) -> list[tuple[str, str]]:
    """(name, value) of what was run. run: its columns in the scores; answers: one row each; record: its row of load_runs."""
    unknown = say("report.unknown")

    def known(value: Any, text: str = "{}") -> str:
        return unknown if pd.isna(value) or value in ("", UNKNOWN) else text.format(value)

    def short(value: Any) -> str:
        return known(str(value)[:12])

    def answered(asked: Any, by: Any) -> str:
        return say("report.answered", asked=known(asked), by=known(by))

    repeats = [int(answers[name].max()) + 1 for name in ("answer_repeat", "judge_repeat")]
    found = [
        (say("report.judge"), answered(run["judge_model"], run["judge_model_resolved"])),
        (say("report.assistant"), known(run["assistant_model"])),
        (say("report.judge_prompt"), f"{known(run['prompt_id'])}, sha256 {short(run['prompt_sha256'])}"),
        (say("report.dataset"), f"sha256 {short(run['dataset_sha256'])}"),
        (say("report.index"), short(run["index_fingerprint"])),
        (say("report.repeats"), say("report.repeats_told", answers=repeats[0], judgements=repeats[1])),
    ]
    if record is not None:
        tokens = [known(record[name], "{:,}") for name in ("input_tokens", "output_tokens")]
        seconds = known(record["wall_time_s"], "{:,.1f}")
        found[1] = (found[1][0], answered(record["assistant_model"], record["assistant_model_resolved"]))
        found += [
            (say("report.passages"), known(record["k"])),
            (say("report.calls"), known(record["calls"], "{:,}")),
            (say("report.tokens"), say("report.tokens_told", input=tokens[0], output=tokens[1])),
            (say("report.cost"), known(record["cost_usd"], "${:,.4f}")),
            (say("report.time"), seconds if seconds == unknown else say("report.seconds", seconds=seconds)),
            (say("report.run_by"), known(record["socjudge_version"])),
        ]
        if record["rejudged_from"]:
            found.append((say("report.rejudged"), record["rejudged_from"]))
    return [*found, (say("report.log"), known(run["log"])), (say("report.run_id"), known(run["run_id"]))]


def cautions(
    run: Mapping[str, Any],
    answers: pd.DataFrame,
    verdict: Mapping[str, Any],
    gate: pd.Series,
    record: pd.Series | None,
) -> list[str]:
    """What a reader must not conclude from this run, as sentences; the arguments are those of the page."""
    summary, judge = verdict["summary"], run["judge_model_resolved"]
    offline, unread = is_embedded(judge), summary.n_unscored
    found = []
    if record is not None:
        logged = record["total_questions"], record["passed_questions"], record["mvp_passed"]
        if logged != (summary.total_questions, summary.passed_questions, summary.mvp_passed):
            found.append(
                say(
                    "report.other_summary", logged_total=logged[0], logged_passed=logged[1], total=summary.total_questions,
                    passed=summary.passed_questions,
                )
            )  # fmt: skip
    if offline:
        found.append(say("report.offline", judge=judge))
    if gate["n"] and summary.total_questions < FEW:
        low, high = gate["pass_rate_low"], gate["pass_rate_high"]
        found.append(say("report.few", count=summary.total_questions, low=low, high=high))
    if gate["n"] and pd.isna(gate["p_rerun"]):
        found.append(say("report.once"))
    if unread:
        found.append(say("report.unread_answers", count=unread))
    if (answers["status"] == "suspect_zero").any():
        found.append(say("report.zeros"))
    if run["judge_model"] in ("", UNKNOWN):
        found.append(say("report.no_judge"))
    elif run["judge_model"] == run["assistant_model"] and not offline:
        found.append(say("report.same_model"))
    return [*found, say("report.one_opinion"), say("report.safety")]
