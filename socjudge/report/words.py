"""Return the sentences of the report: the conclusion, how the run was made, and what the numbers cannot show."""

from __future__ import annotations

import re

import pandas as pd

from ..base.conditions import CONDITIONS, conditions_of_info
from ..base.messages import listed, say, sentences
from ..base.pass_rule import PassRule, reaches, run_rule
from ..base.verdict import Verdict, run_verdict
from ..certify.certificate import TRUSTED, UNTRUSTED, Certificate
from ..records import BARE, UNKNOWN, EvaluationRun, RunSummary, is_embedded
from .contents import shown_time

_TERMS = (
    (
        "MVP: Minimum Viable Product: the least quality with which use may begin. Passing says that enough "
        "questions reached the line; it does not promise safety."
    ),
    (
        "judge: The AI model that scores the assistant's answers (LLM as a Judge). It is no person, and its scores "
        "can be wrong."
    ),
    "LLM: Large language model: an AI model that reads and writes text.",
    (
        "embedded: What comes with the software in place of an AI model (LLM): simple rules to try things with, no "
        "ground for a decision."
    ),
    (
        "certificate: A record of whether a judge's scores can be believed, tried on people's scores and on answers"
        " damaged on purpose. Trusted: its scores can be used. With conditions: it tells better from worse, at "
        "another level. Unknown: what was tried shows neither. None: nobody has tried. Your engineers can make one "
        "(socjudge certify)."
    ),
    (
        "assistant: What answers the questions and is evaluated here. If it is called offline, it comes with the "
        "software and only quotes the runbooks: it is no AI model (LLM)."
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
        "interval: How far off a value may be, as there are only so many questions: with more such questions it "
        "would most likely lie in between. The wider, the less is known."
    ),
    "noise: That the scores change when the same answers are judged again.",
    (
        "adjusted p: How likely such a difference would be by chance if there were none, made stricter for the "
        "number of comparisons. Under 0.05 chance is an unlikely reason."
    ),
    "quartiles: Where values in their order are cut in four; the middle half lies within the box.",
    (
        "undecided: Neither passed nor failed: it hangs on scores that could not be given, or on judges whose "
        "scores are not here."
    ),
    "not scored: Answers whose scores could not be read or given. That is not the same as 0 points.",
)
BOXES = ("May be used", "With conditions", "Not to be used", "Decide later")
LINES = ("Conditions", "Decided by (name)", "Signature", "Date", "To be decided by")
# the words in the frames of `gate_confidence`
GATE_VERDICTS = {"合格": Verdict("passed"), "不合格": Verdict("failed"), "判定保留": Verdict("open")}


def conclusion(run: EvaluationRun, gate: pd.Series, by_criterion: pd.DataFrame) -> list[str]:
    """Return a paragraph about what the verdict rests on, and then what to do next, one text per step. The verdict is
    not decided here. `gate` is from `gate_confidence`, and `by_criterion` from `summarise_scores`."""
    summary, verdict = run.summary, run_verdict(run)
    told = say("{verdict}: {reason}.", verdict=verdict.word, reason=verdict.reason)
    if verdict.outcome != "open":
        told, steps = _ended(summary, verdict, gate, run_rule(run.run)), [_next(verdict)]
    elif summary.is_part:
        words = (
            "Next: finish the run (start it again), or report on all of its answers. A part of a run has no verdict."
        )
        steps = [say(words)]
    else:
        steps = [say("Next: {advice}", advice=line) for line in verdict.advice.splitlines()]
        if summary.n_unscored or not steps:
            words = "Next: have the answers judged again (socjudge rejudge), by the one judge that is to decide."
            steps = [say(words), *steps]
    means = by_criterion.dropna(subset=["mean"]).set_index("criterion")["mean"]
    words = "The weakest criterion is {criterion} (mean {mean:.1f})."
    weakest = say(words, criterion=means.idxmin(), mean=means.min()) if len(means) > 1 else ""
    return [text[:1].upper() + text[1:] for text in (sentences(told, weakest), *steps)]


def _next(verdict: Verdict) -> str:
    if verdict.is_reference:
        return say(
            "Next: the embedded judge's verdict is for reference only; before you decide, have an LLM judge score the "
            "answers (socjudge rejudge), and certify that judge (socjudge certify)."
        )
    if verdict.outcome == "passed":
        return say(
            "Next: before you decide, look at this judge's certificate (socjudge certify makes one) and at "
            '"Before you conclude" below.'
        )
    return say(
        'Next: read the reasons under "Detailed results" below, correct the runbooks or the assistant, run again, and '
        "compare (socjudge compare)."
    )


def _ended(summary: RunSummary, verdict: Verdict, gate: pd.Series, rule: PassRule) -> str:
    told = say(
        "{reference}{verdict}: {passed} of {total} questions ({needed} needed), with an overall mean of {mean} "
        "({line:g} needed).",
        verdict=verdict.word,
        reference=say("For reference only: ") if verdict.is_reference else "",
        total=summary.total_questions,
        passed=summary.passed_questions,
        needed=rule.needed(summary.total_questions),
        # A mean just below the line must not look as if it reached it.
        mean=f"{summary.average_score:.{1 if verdict.outcome == 'passed' else 2}f}",
        line=rule.line,
    )
    noisy = GATE_VERDICTS[gate["verdict"]]
    if pd.isna(gate["p_rerun"]) or noisy.outcome != "open":
        return told
    doubt = "With the noise of the scores considered it is {verdict}: another run may give another verdict."
    return sentences(told, say(doubt, verdict=noisy.word))


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
    if pd.isna(gate["p_rerun"]):  # nothing was judged again
        if not reaches(gate["pass_rate_low"], rule.rate):
            doubts.append(say("the questions are few, and others like them might not reach the rule"))
    elif gate["verdict"] != "合格":
        doubts.append(say("the noise of the scores could change the verdict"))
    if doubts:
        return "With conditions", say("it passed, but {reasons}.", reasons=listed(doubts))
    return "May be used", say(
        'it passed, and the judge that scored it was tried and can be trusted; see also "Before you conclude".'
    )


def glossary() -> list[tuple[str, str]]:
    """Return (term, meaning) for terms that not every reader knows. The page shows only those that it uses."""
    return [(term.strip("「」"), meaning) for term, _, meaning in (say(key).partition(": ") for key in _TERMS)]


def run_facts(run: EvaluationRun, certificate: Certificate | None) -> list[tuple[str, str]]:
    """Return (name, value) for each fact about how the run was made. The log of another program says little of it."""
    info, unknown = run.run, say("unknown")
    usage = None if info.schema_version == BARE else run.usage
    told = conditions_of_info(info, run.rubric.criteria) | {"runbooks": listed(info.runbooks)}
    found = [
        (say("Started"), shown_time(info.started_at)),
        *((say(each.name), _short(told.get(each.column, ""))) for each in CONDITIONS),
        (say("Calls"), unknown if usage is None else f"{usage.calls:,}"),
        (say("Cost"), unknown if usage is None or usage.cost_usd is None else f"${usage.cost_usd:,.4f}"),
        (say("Judges again the answers of"), info.rejudged_from),
        (say("Log"), run.log_path.name if run.log_path else unknown),
        (say("Run id"), info.run_id),
        (say("Judge's certificate"), certificate.name if certificate else ""),
    ]
    return [(name, value) for name, value in found if value]


def _short(value: str) -> str:
    return value[:12] if re.fullmatch("[0-9a-f]{64}", value) else value


def cautions(run: EvaluationRun, logged: RunSummary) -> list[str]:
    """Return sentences on what a reader must not conclude from this run. `logged` is the summary that its log has."""
    info, summary, found = run.run, run.summary, []
    mine, theirs = ((each.total_questions, each.passed_questions, each.mvp_passed) for each in (summary, logged))
    if mine != theirs:
        found.append(
            say(
                "The log's own summary ({logged_passed} of {logged_total} passed) differs from this "
                "report's ({passed} of {total}): part of the run was loaded, the pass line has "
                "changed, or the log was edited.",
                logged_total=logged.total_questions,
                logged_passed=logged.passed_questions,
                total=summary.total_questions,
                passed=summary.passed_questions,
            )
        )
    if info.judge_model == info.assistant_model != UNKNOWN and not is_embedded(info.judge_model_resolved):
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
