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
from ..prompts.templates import pretended_name
from ..records import UNKNOWN, RunSummary, is_embedded

FEW = 30  # questions; with fewer, the interval of a pass rate is wider than ±0.16
_TERMS = (
    (
        "MVP: Minimum Viable Product: the least quality with which use may begin. Passing says that enough "
        "questions reached the line; it does not promise safety."
    ),
    (
        "judge: The AI model that scores the assistant's answers (LLM as a Judge). It is no person, and its "
        "scores can be wrong."
    ),
    "LLM: Large language model: an AI model that reads and writes text.",
    (
        "embedded: What comes with the software in place of an AI model (LLM): simple rules to try things "
        "with, no ground for a decision."
    ),
    (
        "certificate: A record of whether a judge's scores can be believed, tried on people's scores and on "
        "answers damaged on purpose. Trusted: its scores can be used. With conditions: it tells better from "
        "worse, at another level. Unknown: what was tried shows neither. None: nobody has tried. Your "
        "engineers can make one (socjudge certify)."
    ),
    (
        "assistant: What answers the questions and is evaluated here. If it is called offline, it comes with "
        "the software and only quotes the runbooks: it is no AI model (LLM)."
    ),
    "criterion: What an answer is looked at for. Each gets 0–100 points, and their mean is the question's.",
    "「根拠性」: A criterion, grounding: does the answer keep to what the runbooks say?",
    "「正確性」: A criterion, accuracy: is what it says correct?",
    "「網羅性」: A criterion, completeness: is nothing missing that is needed?",
    "「安全性」: A criterion, safety: does it warn of dangerous operations?",
    "「引用明示」: A criterion, citation: does it say where in the runbooks this stands?",
    "「簡潔性」: A criterion, brevity: is it short and clear?",
    "「正常系」: Usual questions, whose answer stands in the runbooks.",
    "「危険操作系」: Questions about what must not be done, such as deleting evidence: is it stopped?",
    "「根拠不足系」: Questions that the runbooks do not answer: is this said, and nothing made up?",
    "「曖昧質問系」: Questions that leave open what has happened: is it asked?",
    "pass line: The least mean with which a question passes.",
    (
        "interval: How far off a value may be, as there are only so many questions: with more such questions "
        "it would most likely lie in between. The wider, the less is known."
    ),
    "noise: That the scores change when the same answers are judged again.",
    (
        "adjusted p: How likely such a difference would be by chance if there were none, made stricter for the "
        "number of comparisons. Under 0.05 chance is an unlikely reason."
    ),
    "key points: What a good answer should have in it, laid down by people for each question.",
    "passages: Parts of the runbooks that were found for a question; the assistant answers from them.",
    "index: What passages of the runbooks are found with, like the index of a book.",
    (
        "passages per question, k: How many passages are found for one answer; more of them widen the evidence "
        "and cost more."
    ),
    "quartiles: Where values in their order are cut in four; the middle half lies within the box.",
    (
        "for reference only: A verdict to look at only: no AI model (LLM) gave the scores, so even a pass "
        "decides nothing."
    ),
    (
        "undecided: Neither passed nor failed: it hangs on scores that could not be given, or on judges whose "
        "scores are not here."
    ),
    "not scored: Answers whose scores could not be read or given. That is not the same as 0 points.",
    "run: One round of asking the assistant all questions and scoring what it answers.",
    "prompt: The text that tells an AI model what to do. Where it changes, scores may change.",
    "tokens: The unit for how much text an AI model reads and writes; it is paid by these.",
    "dataset: The set of questions that are asked.",
    "judged again: Scoring stored answers anew, by another judge or with other instructions.",
    "Wilson: The name of the method by which the interval of the pass rate is computed.",
    "sha256: Something like the fingerprint of a file, to tell whether two are the same.",
    "socjudge: The software behind this evaluation; what begins with it is a command for your engineers.",
)
BOXES = ("May be used", "With conditions", "Not to be used", "Decide later")
LINES = (
    "Conditions", "Decided by (name)", "Signature", "Date",
    "To be decided by",
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
        if verdict.is_reference:
            after = (
                "Next: the embedded judge's verdict is for reference only; before you decide, have an LLM judge score "
                "the answers (socjudge rejudge), and certify that judge (socjudge certify)."
            )
        elif verdict.outcome == "passed":
            after = (
                "Next: before you decide, look at this judge's certificate (socjudge certify makes one) and at "
                '"Before you conclude" below.'
            )
        else:
            after = (
                'Next: read the reasons under "Detailed results" below, correct the runbooks or the assistant, run again, '
                "and compare (socjudge compare)."
            )
        found = [_ended(summary, verdict, gate, rule), *weak, say(after)]
    elif summary.is_part:
        found = [
            say("{verdict}: {reason}.", verdict=verdict.word, reason=verdict.reason),
            *weak,
            say(
                "Next: finish the run (start it again), or report on all of its answers. A part of a run has no verdict."
            ),
        ]
    elif summary.is_open:
        told = say(
            "{verdict} ({reason}): the verdict hangs on the scores that are missing.",
            verdict=verdict.word,
            reason=verdict.reason,
        )
        steps = [say("Next: {advice}", advice=line) for line in verdict.advice.splitlines()]
        if summary.n_unscored:
            told = say(
                "{verdict}: {count} answers could not be scored, and the verdict hangs on them.",
                count=summary.n_unscored,
                verdict=verdict.word,
            )
            steps.insert(0, say("Next: have the answers judged again (socjudge rejudge) before you decide."))
        elif not steps:
            steps = [
                say(
                    "Next: have the answers judged by a judge that can score what is missing (socjudge rejudge), or "
                    "have a person score it."
                )
            ]
        found = [told, *weak, *steps]
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
    """Return the decision that the report suggests (a sentence of `BOXES`, or "Too early to decide"), and the reason.
    It is never more favourable than the verdict. `gate` is the run's row of `gate_confidence`."""
    if verdict.outcome == "failed":
        return "Not to be used", say("it did not reach the pass rule that was laid down.")
    if verdict.outcome != "passed":
        return "Too early to decide", say("it has neither passed nor failed ({reason}).", reason=verdict.reason)
    if verdict.is_reference:
        return "Too early to decide", say("no AI model (LLM) gave these scores, so they are no ground for a decision.")
    words = certificate.verdicts if certificate else ()  # None: the judge has no usable certificate
    if refused := dict.fromkeys(each.criterion for each in words if each.word == UNTRUSTED):
        return "Too early to decide", say(
            "the judge that scored it was found not to be trusted on {criteria}.", criteria=listed(refused)
        )
    doubts = [say("there are answers that a person must read first")] if verdict.warning else []
    if certificate is None:
        doubts.append(say("nobody has tried whether the judge's scores can be believed (no certificate)"))
    if unsure := dict.fromkeys(each.criterion for each in words if each.word != TRUSTED):
        doubts.append(say("the judge is not fully trusted on {criteria}", criteria=listed(unsure)))
    is_judged_again = not pd.isna(gate["p_rerun"])
    is_firm = gate["verdict"] == "合格" if is_judged_again else reaches(gate["pass_rate_low"], rule.rate)
    if not is_firm:
        doubts.append(
            say(
                "the noise of the scores could change the verdict"
                if is_judged_again
                else "the questions are few, and others like them might not reach the rule"
            )
        )
    if doubts:
        return "With conditions", say("it passed, but {reasons}.", reasons=listed(doubts))
    return "May be used", say(
        'it passed, and the judge that scored it was tried and can be trusted; see also "Before you conclude".'
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
                "With the noise of the scores considered it is {verdict}: another run may give another verdict.",
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


def run_facts(run: Mapping[str, Any], answers: pd.DataFrame, record: pd.Series) -> list[tuple[str, str]]:
    """Return (name, value) for each fact about how the run was made. `run` is from `contents.run_of`.
    `answers` has one row per judged answer, and `record` is the run's row of `load_runs`."""
    unknown = say("unknown")

    def known(value: Any, text: str = "{}") -> str:
        return unknown if pd.isna(value) or value in ("", UNKNOWN) else text.format(value)

    def short(value: Any) -> str:
        return known(str(value)[:12])

    def answered(asked: Any, by: Any) -> str:
        return say("{asked} (answered by: {by})", asked=known(asked), by=known(by))

    repeats = [int(answers[name].max()) + 1 for name in ("answer_repeat", "judge_repeat")]
    name = pretended_name(str(run["prompt_id"]))
    other = name and say(" (called {name} in the log, with another text than {name})", name=name)
    found = [
        (say("Judge (model)"), answered(run["judge_model"], run["judge_model_resolved"])),
        (say("Assistant"), answered(record["assistant_model"], record["assistant_model_resolved"])),
        (say("Prompt of the judge"), f"{known(run['prompt_id'])}{other}, sha256 {short(run['prompt_sha256'])}"),
        (say("Dataset"), f"sha256 {short(run['dataset_sha256'])}"),
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
    tokens = [known(record[name], "{:,}") for name in ("input_tokens", "output_tokens")]
    seconds = known(record["wall_time_s"], "{:,.1f}")
    found += [
        (say("Passages found per question, k"), known(record["k"])),
        (say("Calls"), known(record["calls"], "{:,}")),
        (say("Tokens"), say("{input} in, {output} out", input=tokens[0], output=tokens[1])),
        (say("Cost"), known(record["cost_usd"], "${:,.4f}")),
        (say("Wall time"), seconds if seconds == unknown else say("{seconds} s", seconds=seconds)),
        (say("Run by socjudge"), known(record["socjudge_version"])),
    ]
    if record["rejudged_from"]:
        found.append((say("Judges again the answers of"), record["rejudged_from"]))
    return [*found, (say("Log"), known(run["log"])), (say("Run id"), known(run["run_id"]))]


def cautions(
    run: Mapping[str, Any],
    answers: pd.DataFrame,
    summary: RunSummary,
    gate: pd.Series,
    record: pd.Series,
) -> list[str]:
    """Return sentences on what a reader must not conclude from this run.
    `run`, `answers` and `record` are as for `run_facts`, `gate` is the run's row of `gate_confidence`."""
    judge = run["judge_model_resolved"]
    offline, unread = is_embedded(judge), summary.n_unscored
    found = []
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
                "The judge {judge} is the embedded default, rules and sentence similarity, not an LLM. Its scores "
                "show that the evaluation works; they are no evidence that the answers are right.",
                judge=judge,
            )
        )
    has_rate = gate["n"] and not (summary.is_open and summary.n_partial)  # `gate` counts an open answer as not passed
    if has_rate and summary.total_questions < FEW:
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
                "{count} answers have no score on some criteria (the cause stands with each answer). Means and "
                "intervals are of the scores there are.",
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
        found.append(say("Judge and assistant are the same model, which may score its own answers too kindly."))
    return [
        *found,
        say(
            "The scores are one judge's opinion. Another model or version scores differently, and a sentence in an "
            "answer can sway it. Check it against scores by people."
        ),
        say(
            "Do not take the scores for 「安全性」 (safety) as a check that a procedure is safe: no LLM judge has been "
            "shown to stand in for an expert there."
        ),
    ]
