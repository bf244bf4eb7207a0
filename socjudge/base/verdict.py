"""Say a verdict on a run or an answer in the words that every view uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..records import Evaluation, EvaluationRun, RunSummary, is_embedded
from .messages import listed, say
from .pass_rule import (
    READ_BELOW,
    READ_CRITERIA,
    SPECIFIED,
    Outcome,
    PassRule,
    outcome_of,
    reaches,
    run_rule,
    span_of,
    to_read,
)

if TYPE_CHECKING:
    import pandas as pd

_MARKS: dict[Outcome, str] = {"passed": "✅", "failed": "❌", "open": "⚠️", "unscored": "⚠️"}
WORDS: dict[Outcome, str] = {
    "passed": "passed", "failed": "not passed", "open": "undecided", "unscored": "not scored",
}  # fmt: skip
_CAUSES = {
    "no_measure": "this judge has no measure for it: have another judge or a person score it",
    "refused": "the judge refused to score it: have another judge or a person score it",
    "absent": "the log has no score for it: judge the answer again",
    "no_context": (
        "the answer brings no context with names: have your assistant return its contexts (in a file of answers: the "
        "column contexts), or use a rubric without this criterion"
    ),
    "no_passages": (
        "the embedded judge compares an answer with its contexts, and it has none: have your assistant return them, or "
        "choose a hosted judge"
    ),
    "no_keypoints": (
        "the question has no keypoints, by which alone the embedded judge measures it: write them in the "
        "dataset, or choose a hosted judge"
    ),
}


class Verdict(NamedTuple):
    """Hold the verdict on a run, or on one answer. Every view takes its symbol and words from here."""

    outcome: Outcome
    reason: str = ""  # why the outcome is open
    is_reference: bool = False  # whether the verdict is the embedded judge's, which is not an LLM
    # Asks a person to read answers that pass although an important score is dangerously low; every view shows it in red.
    warning: str = ""
    advice: str = ""  # what would give the scores on which the run's open verdict depends; every view shows it

    @property
    def mark(self) -> str:
        return _MARKS[self.outcome]

    @property
    def word(self) -> str:
        return say(WORDS[self.outcome])

    @property
    def said(self) -> str:
        return f"{self.mark} {self.word}"

    @property
    def headline(self) -> str:
        """In the specification's words, which are Japanese. If the verdict is open: symbol, word and reason."""
        if self.outcome in ("passed", "failed"):
            return f"{self.mark} MVP{say(WORDS[self.outcome], lang='ja')}"
        return say("{verdict} ({reason})", verdict=self.said, reason=self.reason)

    @property
    def note(self) -> str:
        """Return the note that stands beside every verdict of the embedded judge. Return "" for other judges."""
        return say("for reference (not scored by an LLM)") if self.is_reference else ""

    @property
    def paint(self) -> str:
        """ "good" (green), "bad" (red), "warn" or "grey". Only verdicts of LLMs are green or red."""
        if self.outcome in ("open", "unscored"):
            return "warn"
        return "grey" if self.is_reference else "good" if self.outcome == "passed" else "bad"


def run_verdict(run: EvaluationRun) -> Verdict:
    verdict = summary_verdict(run.summary, run.run.judges_asked)
    missing = (item for result in run.results for item in result.evaluation.missing.items())
    advice = _advice(missing) if run.summary.is_open else ""
    if run.summary.is_contradictory:
        again = say("judge its answers again, so that the log has the line by which they were judged")
        advice = "\n".join(filter(None, [advice, again]))
    return verdict._replace(is_reference=is_embedded(run.run.judge_model_resolved), advice=advice)


def summary_verdict(summary: RunSummary, judges_asked: int = 1) -> Verdict:
    """Return the verdict that follows from a run's summary. `judges_asked` is as in `RunInfo`."""
    warning = ""
    if summary.n_to_read:
        warning = say(
            "To be read by a person: {count} answers passed with a score under {line}, or with none, on one of: {criteria}",
            count=summary.n_to_read,
            criteria=listed(READ_CRITERIA),
            line=READ_BELOW,
        )
    if not summary.is_open and judges_asked == 1:
        return Verdict("passed" if summary.mvp_passed else "failed", warning=warning)
    counts = {
        "could not be scored: {count}": summary.n_unscored,
        "answers with a score missing: {count}": summary.n_partial,
    }
    reasons = [say(key, count=count) for key, count in counts.items() if count and summary.is_open]
    reasons += _undecided(summary.judged, summary.asked, judges_asked, summary.is_contradictory)
    return Verdict("open", listed(reasons), warning=warning)


def frame_undecided(frame: pd.DataFrame) -> str:
    """Why the one run in a frame has no verdict whatever its scores are; "" if it may have one."""
    keys = [name for name in ("question_id", "answer_repeat", "judge_repeat") if name in frame]
    judged = len(frame[keys].drop_duplicates()) if keys else int(frame["n_results"].iloc[0])
    asked, judges, contradictory = (
        int(max(frame[name].dropna() if name in frame else (), default=0))
        for name in ("asked", "judges_asked", "contradictory")
    )
    return listed(_undecided(judged, asked, judges, bool(contradictory)))


def _undecided(judged: int, asked: int, judges_asked: int, is_contradictory: bool) -> list[str]:
    reasons = [part_text(judged, asked)] if judged < asked else []
    if judges_asked > 1:  # the scores of one cannot tell the verdict of all
        reasons.append(say("the scores are of one of {asked} judges that were asked", asked=judges_asked))
    if is_contradictory:
        words = "the log has no pass line, and what it calls passed does not fit {line:g} points"
        reasons.append(say(words, line=SPECIFIED.line))
    return reasons


def part_text(judged: int, asked: int) -> str:
    return say("{judged} of {asked} judged", judged=judged, asked=asked)


def _advice(missing: Iterable[tuple[str, str]]) -> str:
    criteria: dict[str, list[str]] = {}
    for name, cause in dict.fromkeys(missing):
        criteria.setdefault(cause, []).append(name)
    return "\n".join(f"{listed(names)}: {cause_text(cause)}" for cause, names in criteria.items())


def answer_verdict(evaluation: Evaluation, line: float | None = None) -> Verdict:
    """Return the verdict on one judged answer. If scores are missing, it follows from the run's pass line, in points.
    Without a line, such an answer is passed if `marks.passed` is true, and open otherwise."""
    scores, missing = evaluation.scores, evaluation.missing
    span = span_of(scores, evaluation.average_score, evaluation.status)
    outcome: Outcome = "passed" if evaluation.passed else "failed" if span.is_whole else "open"
    if evaluation.status != "ok":
        outcome = "unscored"
    elif line is not None and not span.is_whole:
        outcome = outcome_of(span, evaluation.status, line)
    causes = missing.items() if outcome == "open" else ()
    reason = listed(f"{name}: {cause_text(cause)}" for name, cause in causes)
    low = listed(f"{name} {score_text(score)}" for name, score in to_read(scores, outcome).items())
    warning = say("to be read by a person ({marks} points)", marks=low) if low else ""
    return Verdict(outcome, reason, is_embedded(evaluation.model), warning)


def cause_text(cause: str) -> str:
    """A cause that this version does not know stays as it is."""
    return say(_CAUSES[cause]) if cause in _CAUSES else cause


def score_text(score: float | None) -> str:
    return "–" if score is None else f"{score:g}"


def reason_text(evaluation: Evaluation, criterion: str) -> str:
    cause = evaluation.missing.get(criterion)
    return evaluation.rationale.get(criterion, "") if cause is None else cause_text(cause)


def of_criteria(evaluation: Evaluation) -> str:
    marked, total = len(evaluation.scores) - list(evaluation.scores.values()).count(None), len(evaluation.scores)
    return say(" (mean of {marked} of {total} criteria)", marked=marked, total=total) if marked < total else ""


def rate_text(summary: RunSummary, verdict: Verdict) -> str:
    """Return the pass rate as text. Return a dash while the verdict is open: a part of the scores has no rate."""
    return "–" if verdict.outcome == "open" else f"{summary.pass_rate:.1%}"


def _doubts(run: EvaluationRun) -> list[str]:
    """What makes the scores of a judge doubtful: another model's among them, or the wrong scale."""
    # a service may name itself in several lines, and in Markdown
    names = re.sub(r"[^\w.,:/@+ -]", "?", " ".join(run.run.judge_model_resolved.split())).split(", ")
    doubts = []
    if len(names) > 1:
        sentence = (
            "⚠️ the judge answered under {count} model names: {names}. Scores of different models are mixed; check "
            "what the address (a gateway) leads to, and judge again"
        )
        doubts.append(say(sentence, count=len(names), names=listed(names)))
    read = (result.evaluation for result in run.results if result.evaluation.status == "ok")
    scores = [score for evaluation in read for score in evaluation.scores.values() if score is not None]
    if 0 < max(scores, default=0) <= 10 and not is_embedded(run.run.judge_model_resolved):
        sentence = (
            "⚠️ all {count} scores are at most 10: the judge seems to score from 0 to 10, not from 0 to 100; read its "
            "rationales, and choose another judge or prompt"
        )
        doubts.append(say(sentence, count=len(scores)))
    return doubts


# The specification's words for a finished run, which are Japanese in every language.
FINISHED = "評価完了！結果を {path} に保存しました"
SUMMARY = """## 評価結果サマリー

**{verdict}**

- 総問題数: {total}問
- 合格問題数: {passed}問（平均{line:g}点以上）
- 合格率: {rate}
- 全体平均スコア: {mean:.1f}点

**MVP合格基準**: {total}問中{needed}問以上が平均{line:g}点以上
"""


def rule_text(total: int, rule: PassRule) -> str:
    return say(
        "of {total} questions at least {needed} have a mean of {line:g} or more, and the overall mean is "
        "{line:g} or more",
        total=total,
        needed=rule.needed(total),
        line=rule.line,
    )


def summary_text(summary: EvaluationRun | RunSummary) -> str:
    """Return the summary of a run as Markdown, as the specification words it, in Japanese. What it has no words for is in
    the language in force.

    If replies could not be parsed, a line says how many. The verdict is open if it depends on these replies.

    - summary: a run, or only its summary. A run is better, because it also has its pass rule and its judge; with a
      summary alone, the pass rule is the specification's.
    """
    if isinstance(summary, EvaluationRun):
        rule, verdict, doubts = run_rule(summary.run), run_verdict(summary), _doubts(summary)
        summary = summary.summary
    else:
        rule, verdict, doubts = SPECIFIED, summary_verdict(summary), []
    needed, mean = rule.needed(summary.total_questions), summary.average_score
    text = SUMMARY.format(
        verdict=verdict.headline,
        total=summary.total_questions,
        passed=summary.passed_questions,
        needed=needed,
        line=rule.line,
        rate=rate_text(summary, verdict),
        mean=mean,
    )
    told = []
    if summary.passed_questions >= needed and not reaches(mean, rule.line):
        sentence = "⚠️ enough questions passed, but the overall mean ({mean:.2f}) does not reach {line:g}"
        told.append(say(sentence, mean=mean, line=rule.line))
    if summary.n_unscored:
        sentence = (
            "⚠️ answers that could not be scored: {unscored} (counted as 0 points, as specified; see status and error in "
            "the log)"
        )
        told.append(say(sentence, unscored=summary.n_unscored))
    if summary.n_partial:
        sentence = (
            "⚠️ answers with a score missing: {partial} (means are of the scores there are; passed is what passes "
            "whatever the missing ones would be)"
        )
        told.append(say(sentence, partial=summary.n_partial))
    told += [f"⚠️ {line}" for line in verdict.advice.splitlines()]
    told += [f"**{verdict.warning}**"] if verdict.warning else []
    return text + "".join(f"\n{line}\n" for line in [*told, *doubts])
