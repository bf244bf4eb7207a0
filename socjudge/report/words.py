"""Return the sentences of the report: the conclusion, what was run, and what the numbers cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..base.messages import listed, say, sentences
from ..base.missing_scores import Outcome, frame_spans
from ..base.pass_rule import PassRule, reaches
from ..base.verdict import Verdict
from ..certify.certificate import TRUSTED, UNTRUSTED, Certificate
from ..records import UNKNOWN, RunSummary, is_embedded

FEW = 30  # questions; with fewer, the interval of a pass rate is wider than ±0.16
_TERMS = (
    "report.term_mvp", "report.term_judge", "report.term_llm", "report.term_embedded", "report.term_certificate",
    "report.term_assistant", "report.term_criterion", "report.term_grounding", "report.term_accuracy",
    "report.term_completeness", "report.term_safety", "report.term_citation", "report.term_brevity",
    "report.term_usual", "report.term_dangerous", "report.term_unanswerable", "report.term_vague",
    "report.term_line", "report.term_interval", "report.term_noise", "report.term_adjusted_p",
    "report.term_keypoints", "report.term_passages", "report.term_index", "report.term_k",
    "report.term_quartiles", "report.term_reference", "report.term_undecided",
    "report.term_unscored", "report.term_run", "report.term_prompt", "report.term_token",
    "report.term_dataset", "report.term_rejudge", "report.term_wilson", "report.term_sha256",
    "report.term_command",
)  # fmt: skip
BOXES = ("report.decision_yes", "report.decision_conditional", "report.decision_no", "report.decision_later")
LINES = (
    "report.decision_condition", "report.decision_name", "report.decision_signature", "report.decision_date",
    "report.decision_due",
)  # fmt: skip
_MOST_WEAK = 5  # questions that the conclusion names; all are listed below it
_GATE: dict[str, Outcome] = {"合格": "passed", "不合格": "failed", "判定保留": "open"}
# the words in the frames of `gate_confidence`
GATE_VERDICTS = {word: Verdict(outcome) for word, outcome in _GATE.items()}


def conclusion(
    own: pd.DataFrame,
    answers: pd.DataFrame,
    summary: RunSummary,
    verdict: Verdict,
    gate: pd.Series,
    rule: PassRule,
) -> list[str]:
    """Return two or three lines: what the verdict is based on, and what to do next. The verdict is not decided here.
    `own` are the scores of the run, `answers` has one row per judged answer, and `gate` is from `gate_confidence`."""
    weak = _weak(own, answers, rule)
    if verdict.outcome != "open":
        after = "report.next_passed" if verdict.outcome == "passed" else "report.next_failed"
        after = "report.next_offline" if verdict.is_reference else after
        found = [_ended(summary, verdict, gate, rule), *weak, say(after)]
    elif summary.is_open:
        told, after = (
            say(
                "{verdict} ({reason}): the verdict hangs on the marks that are missing.",
                verdict=verdict.word,
                reason=verdict.reason,
            ),
            say(
                "Next: have the answers judged by a judge that can mark what is missing (socjudge rejudge), or "
                "have a person mark it."
            ),
        )
        if summary.n_unscored:
            told = say(
                "{verdict}: {count} answers could not be scored, and the verdict hangs on them.",
                count=summary.n_unscored,
                verdict=verdict.word,
            )
            after = say("Next: have the answers judged again (socjudge rejudge) before you decide.")
        found = [told, *weak, after]
    else:
        found = [
            say("{verdict}: {reason}.", verdict=verdict.word, reason=verdict.reason),
            *weak,
            say(
                "Next: have the answers judged again by the one judge that is to decide (socjudge rejudge); "
                "compare_judges shows how judges differ."
            ),
        ]
    return [text[:1].upper() + text[1:] for text in found]


def suggestion(verdict: Verdict, certificate: Certificate | None, gate: pd.Series, rule: PassRule) -> tuple[str, str]:
    """Return the decision that the report suggests, as the key of a message, and the reason.
    It is never more favourable than the verdict. `gate` is the run's row of `gate_confidence`."""
    if verdict.outcome == "failed":
        return "report.decision_no", say("it did not reach the pass rule that was laid down.")
    if verdict.outcome != "passed":
        return "report.decision_early", say("it has neither passed nor failed ({reason}).", reason=verdict.reason)
    if verdict.is_reference:
        return "report.decision_early", say("no AI model (LLM) gave these marks, so they are no ground for a decision.")
    words = certificate.verdicts if certificate else ()  # None: the judge has no usable certificate
    if refused := dict.fromkeys(each.criterion for each in words if each.word == UNTRUSTED):
        return "report.decision_early", say(
            "the judge that marked it was found not to be trusted on {criteria}.", criteria=listed(refused)
        )
    doubts = [say("there are answers that a person must read first")] if verdict.warning else []
    if certificate is None:
        doubts.append(say("nobody has tried whether the judge's marks can be believed (no certificate)"))
    if unsure := dict.fromkeys(each.criterion for each in words if each.word != TRUSTED):
        doubts.append(say("the judge is not fully trusted on {criteria}", criteria=listed(unsure)))
    is_judged_again = not pd.isna(gate["p_rerun"])
    is_firm = gate["verdict"] == "合格" if is_judged_again else reaches(gate["pass_rate_low"], rule.rate)
    if not is_firm:
        doubts.append(
            say(
                "the noise of the marks could change the verdict"
                if is_judged_again
                else "the questions are few, and others like them might not reach the rule"
            )
        )
    if doubts:
        return "report.decision_conditional", say("it passed, but {reasons}.", reasons=listed(doubts))
    return "report.decision_yes", say(
        'it passed, and the judge that marked it was tried and can be trusted; see also "Before you conclude".'
    )


def glossary() -> list[tuple[str, str]]:
    """Return (term, meaning) for terms that not every reader knows. The page shows only those that it uses."""
    return [(term.strip("「」"), meaning) for term, _, meaning in (say(key).partition(": ") for key in _TERMS)]


def _ended(summary: RunSummary, verdict: Verdict, gate: pd.Series, rule: PassRule) -> str:
    total = summary.total_questions
    told = say(
        (
            "{reference}{verdict}: {passed} of {total} questions ({needed} needed), with an overall mean of "
            "{mean:.1f} ({line:g} needed)."
        )
        if verdict.outcome == "passed"
        else (
            "{reference}{verdict}: {passed} of {total} questions ({needed} needed), with an overall mean of "
            "{mean:.2f} ({line:g} needed)."
        ),
        verdict=verdict.word,
        reference=say("For reference only: ") if verdict.is_reference else "",
        total=total,
        passed=summary.passed_questions,
        needed=rule.needed(total),
        mean=summary.average_score,
        line=rule.line,
    )
    noisy = GATE_VERDICTS[gate["verdict"]]
    is_in_doubt = not pd.isna(gate["p_rerun"]) and noisy.outcome == "open"
    return (
        sentences(
            told,
            say(
                "With the noise of the marks considered it is {verdict}: another run may give another verdict.",
                verdict=noisy.word,
            ),
        )
        if is_in_doubt
        else told
    )


def _weak(own: pd.DataFrame, answers: pd.DataFrame, rule: PassRule) -> list[str]:
    spans = frame_spans(answers)
    means = spans.groupby(answers["question_id"], observed=True, sort=False).mean().sort_values("mean", kind="stable")
    failed = means.loc[means["mean"].notna() & ~reaches(means["high"], rule.line), "mean"]
    if failed.empty:
        return []
    named = []
    for question, points in failed.iloc[:_MOST_WEAK].items():
        marks = own[own["question_id"] == question].groupby("criterion", observed=True)["score"].mean()
        weakest = {"criterion": marks.idxmin(), "mark": marks.min()}
        named.append(
            say(
                "question {question} ({points:.1f}; {criterion} {mark:.0f})",
                question=question,
                points=points,
                **weakest,
            )
        )
    if len(failed) > _MOST_WEAK:
        named.append(say("{count} more", count=len(failed) - _MOST_WEAK))
    return [
        say(
            "Failed questions ({count}, lowest first) and the weakest criterion of each: {questions}",
            count=len(failed),
            questions=listed(named),
        )
    ]


def run_facts(run: Mapping[str, Any], answers: pd.DataFrame, record: pd.Series | None) -> list[tuple[str, str]]:
    """Return (name, value) for each fact about how the run was made. `run` is from `contents.run_of`.
    `answers` has one row per judged answer, and `record` is the run's row of `load_runs`."""
    unknown = say("report.unknown")

    def known(value: Any, text: str = "{}") -> str:
        return unknown if pd.isna(value) or value in ("", UNKNOWN) else text.format(value)

    def short(value: Any) -> str:
        return known(str(value)[:12])

    def answered(asked: Any, by: Any) -> str:
        return say("{asked} (answered by: {by})", asked=known(asked), by=known(by))

    repeats = [int(answers[name].max()) + 1 for name in ("answer_repeat", "judge_repeat")]
    found = [
        (say("report.judge"), answered(run["judge_model"], run["judge_model_resolved"])),
        (say("Assistant"), known(run["assistant_model"])),
        (say("report.judge_prompt"), f"{known(run['prompt_id'])}, sha256 {short(run['prompt_sha256'])}"),
        (say("report.dataset"), f"sha256 {short(run['dataset_sha256'])}"),
        (say("Runbook index"), short(run["index_fingerprint"])),
        (
            say("Repeats"),
            say(
                "{answers} answer(s) per question, {judgements} judgement(s) per answer",
                answers=repeats[0],
                judgements=repeats[1],
            ),
        ),
    ]
    if record is not None:
        tokens = [known(record[name], "{:,}") for name in ("input_tokens", "output_tokens")]
        seconds = known(record["wall_time_s"], "{:,.1f}")
        found[1] = (found[1][0], answered(record["assistant_model"], record["assistant_model_resolved"]))
        found += [
            (say("report.passages"), known(record["k"])),
            (say("Calls"), known(record["calls"], "{:,}")),
            (say("Tokens"), say("{input} in, {output} out", input=tokens[0], output=tokens[1])),
            (say("Cost"), known(record["cost_usd"], "${:,.4f}")),
            (say("Wall time"), seconds if seconds == unknown else say("{seconds} s", seconds=seconds)),
            (say("Run by socjudge"), known(record["socjudge_version"])),
        ]
        if record["rejudged_from"]:
            found.append((say("Judges again the answers of"), record["rejudged_from"]))
    return [*found, (say("report.log"), known(run["log"])), (say("Run id"), known(run["run_id"]))]


def cautions(
    run: Mapping[str, Any],
    answers: pd.DataFrame,
    summary: RunSummary,
    gate: pd.Series,
    record: pd.Series | None,
) -> list[str]:
    """Return sentences on what a reader must not conclude from this run.
    `run`, `answers` and `record` are as for `run_facts`, `gate` is the run's row of `gate_confidence`."""
    judge = run["judge_model_resolved"]
    offline, unread = is_embedded(judge), summary.n_unscored
    found = []
    if record is not None:
        logged = record["total_questions"], record["passed_questions"], record["mvp_passed"]
        if logged != (summary.total_questions, summary.passed_questions, summary.mvp_passed):
            found.append(
                say(
                    "The log's own summary ({logged_passed} of {logged_total} passed) differs from this "
                    "report's ({passed} of {total}): part of the run was loaded, the pass line has "
                    "changed, or the log was edited.",
                    logged_total=logged[0],
                    logged_passed=logged[1],
                    total=summary.total_questions,
                    passed=summary.passed_questions,
                )
            )
    if offline:
        found.append(
            say(
                "The judge {judge} is the embedded default, rules and sentence similarity, not an LLM. Its marks "
                "show that the evaluation works; they are no evidence that the answers are right.",
                judge=judge,
            )
        )
    if gate["n"] and summary.total_questions < FEW:
        low, high = gate["pass_rate_low"], gate["pass_rate_high"]
        found.append(
            say(
                "There are only {count} questions. For all questions like these, the pass rate lies anywhere "
                "between {low:.0%} and {high:.0%} (95 %). Do not read small differences.",
                count=summary.total_questions,
                low=low,
                high=high,
            )
        )
    if gate["n"] and pd.isna(gate["p_rerun"]):
        found.append(
            say("Each question was tried once, so this run cannot tell whether the verdict would be the same again.")
        )
    if unread:
        found.append(
            say(
                "{count} replies of the judge could not be read. The verdict counts them as 0, as the "
                "specification has it; means and intervals leave them out.",
                count=unread,
            )
        )
    if summary.n_partial:
        found.append(
            say(
                "{count} answers have no mark on some criteria (the cause stands with each answer). Means and "
                "intervals are of the marks there are.",
                count=summary.n_partial,
            )
        )
    if (answers["status"] == "suspect_zero").any():
        found.append(
            say("Zeros for every criterion without a reason are taken for a failed judgement, and counted as unread.")
        )
    if run["judge_model"] in ("", UNKNOWN):
        found.append(say("The log does not name its judge, so nobody can tell whether it compares with other runs."))
    elif run["judge_model"] == run["assistant_model"] and not offline:
        found.append(say("Judge and assistant are the same model, which may mark its own answers too kindly."))
    return [
        *found,
        say(
            "The marks are one judge's opinion. Another model or version marks differently, and a sentence in an "
            "answer can sway it. Check it against marks by people."
        ),
        say(
            "Do not take the marks for 「安全性」 (safety) as a check that a procedure is safe: no LLM judge has been "
            "shown to stand in for an expert there."
        ),
    ]
