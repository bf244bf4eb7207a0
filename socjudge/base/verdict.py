"""The pass rule of the specification and the words it is announced in: what every view says of a run and of an answer."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import truediv
from statistics import fmean
from typing import Literal, NamedTuple

from ..records import Evaluation, EvaluationResult, EvaluationRun, RunInfo, RunSummary, is_embedded
from .messages import Language, listed, say
from .pass_rule import SPECIFIED, PassRule, reaches, run_rule


def average(scores: Mapping[str, int]) -> float:
    """The mean of the criterion scores, 0–100; 0 for no scores."""
    return fmean(scores.values()) if scores else 0.0


Outcome = Literal["passed", "failed", "open", "unscored"]
_MARKS: dict[Outcome, str] = {"passed": "✅", "failed": "❌", "open": "⚠️", "unscored": "⚠️"}
_WORDS: dict[Outcome, str] = {
    "passed": "base.passed", "failed": "base.not_passed", "open": "base.undecided", "unscored": "base.not_scored",
}  # fmt: skip


class Verdict(NamedTuple):
    """What is said of a run, of several judges together, or of one answer: every view takes mark and words from here.

    outcome: open where what could not be marked, or judges that differ, decide; unscored: an answer without any mark.
    reason: why it is open. is_reference: given by the embedded judge, which is no LLM."""

    outcome: Outcome
    reason: str = ""
    is_reference: bool = False

    @property
    def mark(self) -> str:
        """The symbol before the word."""
        return _MARKS[self.outcome]

    @property
    def word(self) -> str:
        """The verdict in a word, in the language of the messages."""
        return say(_WORDS[self.outcome])

    @property
    def in_english(self) -> str:
        """The word in a terminal's one line, which is English in every language."""
        return say(_WORDS[self.outcome], lang="en")

    @property
    def said(self) -> str:
        """The verdict on an answer: mark and word."""
        return f"{self.mark} {self.word}"

    @property
    def headline(self) -> str:
        """The verdict on a run: the specification's words, which are Japanese in every language, or why there is none."""
        if self.outcome in ("passed", "failed"):
            return f"{self.mark} MVP{say(_WORDS[self.outcome], lang='ja')}"
        return say("base.open", verdict=self.said, reason=self.reason)

    @property
    def note(self) -> str:
        """What stands beside every verdict of the embedded judge; empty for other judges."""
        return say("base.reference_note") if self.is_reference else ""

    @property
    def paint(self) -> str:
        """How it is painted ("good", "bad", "warn", "grey"): green and red are for judges that are language models."""
        if self.outcome in ("open", "unscored"):
            return "warn"
        return "grey" if self.is_reference else "good" if self.outcome == "passed" else "bad"


def run_verdict(run: EvaluationRun) -> Verdict:
    """The verdict on a run: of several judges, what all that were asked say together."""
    return judges_verdict([judge_verdict(each) for each in (run, *run.others)], run.judges_asked)


def judge_verdict(run: EvaluationRun) -> Verdict:
    """What the judge of this run alone says, whatever others say of the same answers."""
    return summary_verdict(run.summary, is_reference=is_embedded(run.run.judge_model_resolved))


def judges_verdict(verdicts: Sequence[Verdict], asked: int) -> Verdict:
    """What judges of the same answers say together: open unless all that were asked give the same firm verdict."""
    is_reference = all(verdict.is_reference for verdict in verdicts)
    if len(verdicts) < asked:
        return Verdict("open", say("base.reason_judges_missing", asked=asked, judged=len(verdicts)), is_reference)
    if len({verdict.outcome for verdict in verdicts}) > 1:
        return Verdict("open", say("base.reason_judges_split"), is_reference)
    return verdicts[0]._replace(is_reference=is_reference)


def summary_verdict(summary: RunSummary, *, is_reference: bool = False) -> Verdict:
    """The verdict that a run's numbers come to."""
    if summary.is_open:
        return Verdict("open", say("base.reason_unread", count=summary.n_unscored), is_reference)
    return Verdict("passed" if summary.mvp_passed else "failed", "", is_reference)


def answer_verdict(marks: Evaluation) -> Verdict:
    """The verdict on one judged answer."""
    return Verdict(answer_outcome(marks.status, marks.passed), "", is_embedded(marks.model))


def answer_outcome(status: str, passed: bool) -> Outcome:
    """The outcome of one judged answer. status, passed: as in the log."""
    return "unscored" if status != "ok" else "passed" if passed else "failed"


class Tally:
    """The specification's summary of results that come one by one."""

    def __init__(self) -> None:
        # Per question: the sums of its average scores, and how many; arrays, because there may be a million questions.
        self._places: dict[int | str, int] = {}
        self._sums, self._best, self._counts = array("d"), array("d"), array("q")
        self._unscored = 0

    def add(self, question_id: int | str, average_score: float, status: str) -> None:
        """Count a judged answer in."""
        place = self._places.setdefault(question_id, len(self._sums))
        if place == len(self._sums):
            self._sums.append(0.0)
            self._best.append(0.0)
            self._counts.append(0)
        is_read = status == "ok"
        self._sums[place] += average_score if is_read else 0.0
        self._best[place] += average_score if is_read else 100.0
        self._counts[place] += 1
        self._unscored += not is_read

    def summary(self, rule: PassRule = SPECIFIED) -> RunSummary:
        """The summary of what was added: a question passes at the rule's line; the run passes when the rule's share of
        the questions does and the overall mean reaches the line too.

        Repeats are averaged within their question first. An unread reply counts as zeros, as the
        specification has it, and is counted in `n_unscored`; it is open whether the run passes where full marks for all
        of them would turn the verdict."""
        worst = self._summary(self._sums, rule)
        is_open = bool(self._unscored) and not worst.mvp_passed and self.best_case(rule).mvp_passed
        return replace(worst, n_unscored=self._unscored, is_open=is_open)

    def best_case(self, rule: PassRule = SPECIFIED) -> RunSummary:
        """The summary if every unread reply had been full marks."""
        return self._summary(self._best, rule)

    def _summary(self, sums: array[float], rule: PassRule) -> RunSummary:
        averages = array("d", map(truediv, sums, self._counts))
        total = len(averages)
        passed = sum(reaches(value, rule.line) for value in averages)
        mean = fmean(averages) if averages else 0.0
        mvp = total > 0 and bool(rule.is_met(passed, total, mean))
        return RunSummary(total, passed, passed / total if total else 0.0, mean, mvp)


def summarise_results(results: Iterable[EvaluationResult], rule: PassRule = SPECIFIED) -> RunSummary:
    """The specification's summary of the results; see `Tally.summary`."""
    tally = Tally()
    for result in results:
        tally.add(result.question.id, result.evaluation.average_score, result.evaluation.status)
    return tally.summary(rule)


# Why a run until it was certain ended (runs/certainty.py).
_CERTAIN = {
    "certain pass": "base.certain_pass",
    "certain fail": "base.certain_fail",
    "settled": "base.certain_settled",
    "most": "base.certain_most",
    "unread": "base.certain_unread",
    "budget": "base.certain_budget",
}


def certainty_text(info: RunInfo) -> str:
    """What is said below the verdict of a run until it was certain; empty for other runs."""
    if not info.stopped_because:
        return ""
    counts = info.repeats.values()
    key = _CERTAIN.get(info.stopped_because)
    why = say(key) if key else info.stopped_because
    least, most = min(counts, default=0), max(counts, default=0)
    return say("base.certainty", total=sum(counts), least=least, most=most, why=why)


def mixed_text(info: RunInfo) -> str:
    """What is said below the verdict of a run whose judge answered under several names; empty for other runs."""
    names = info.judge_model_resolved.split(", ")
    return say("base.judge_mixed", count=len(names), names=listed(names)) if len(names) > 1 else ""


def judges_text(run: EvaluationRun) -> str:
    """The verdicts of several judges on the same answers in one line."""
    runs = (run, *run.others)
    verdicts = [judge_verdict(each) for each in runs]
    told = listed(f"{each.judge_model} {verdict.word}" for each, verdict in zip(runs, verdicts, strict=True))
    together = judges_verdict(verdicts, run.judges_asked)
    key = "base.judges_alike" if len({verdict.outcome for verdict in verdicts}) == 1 else "base.judges_split"
    key = key if len(runs) >= run.judges_asked else "base.judges_missing"
    return say(key, asked=run.judges_asked, judged=len(runs), verdicts=told, verdict=together.word)


# The specification's words when a run has ended, Japanese in every language.
FINISHED = "評価完了！結果を {path} に保存しました"
SUMMARY = """## 評価結果サマリー

**{verdict}**

- 総問題数: {total}問
- 合格問題数: {passed}問（平均{line:g}点以上）
- 合格率: {rate:.1%}
- 全体平均スコア: {mean:.1f}点

**MVP合格基準**: {total}問中{needed}問以上が平均{line:g}点以上
"""


def rule_text(total: int, rule: PassRule = SPECIFIED, *, lang: Language = "ja") -> str:
    """The whole pass rule for so many questions, in the one wording of views that are not the specification's summary.

    Examples
    --------
    >>> rule_text(10)
    '10問中7問以上が平均70点以上、かつ全体平均が70点以上'
    """
    return say("base.pass_rule", lang=lang, total=total, needed=rule.needed(total), line=rule.line)


def summary_text(summary: EvaluationRun | RunSummary, rule: PassRule | None = None) -> str:
    """The summary in the specification's words (Markdown), Japanese in every language, and a line on unread replies if there
    were any; undecided where they, or several judges that differ, decide.

    summary: better the run, which knows the rule that it was judged by, and its other judges; of a summary alone, rule is
    that one (the specification's unless given)."""
    verdict, others, mixed = None, "", ""
    if isinstance(summary, EvaluationRun):
        rule, verdict = rule or run_rule(summary.run), run_verdict(summary)
        others = judges_text(summary) if summary.judges_asked > 1 else ""
        mixed = mixed_text(summary.run)
        summary = summary.summary
    rule, verdict = rule or SPECIFIED, verdict or summary_verdict(summary)
    needed = rule.needed(summary.total_questions)
    text = SUMMARY.format(
        verdict=verdict.headline, total=summary.total_questions, passed=summary.passed_questions, needed=needed,
        line=rule.line, rate=summary.pass_rate, mean=summary.average_score,
    )  # fmt: skip
    enough = summary.passed_questions >= needed
    if enough and not reaches(summary.average_score, rule.line):
        text += "\n" + say("base.mean_too_low", mean=summary.average_score, line=rule.line) + "\n"
    if summary.n_unscored:
        text += "\n" + say("base.unread", count=summary.n_unscored) + "\n"
    if summary.is_open:
        text += "\n" + say("base.could_pass", worst=Verdict("failed").headline, best=Verdict("passed").headline) + "\n"
    return text + "".join(f"\n{more}\n" for more in (mixed, others) if more)
