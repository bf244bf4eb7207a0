"""The pass rule of the specification and the words it is announced in."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import truediv
from statistics import fmean

from ..records import EvaluationResult, EvaluationRun, RunInfo, RunSummary
from .messages import Language, listed, say
from .pass_rule import PassRule, reaches, run_rule, todays_rule


def average(scores: Mapping[str, int]) -> float:
    """The mean of the criterion scores, 0–100; 0 for no scores."""
    return fmean(scores.values()) if scores else 0.0


class Tally:
    """The specification's summary of results that come one by one."""

    def __init__(self) -> None:
        # Per question: the sum of its average scores, and how many; arrays, because there may be a million questions.
        self._places: dict[int | str, int] = {}
        self._sums, self._counts = array("d"), array("q")
        self._unscored = 0

    def add(self, question_id: int | str, average_score: float, status: str) -> None:
        """Count a judged answer in."""
        place = self._places.setdefault(question_id, len(self._sums))
        if place == len(self._sums):
            self._sums.append(0.0)
            self._counts.append(0)
        self._sums[place] += average_score
        self._counts[place] += 1
        self._unscored += status != "ok"

    def summary(self, rule: PassRule | None = None) -> RunSummary:
        """The summary of what was added: a question passes at the rule's line; the run passes when the rule's share of
        the questions does and the overall mean reaches the line too. rule: today's unless given.

        Repeats are averaged within their question first. An unread reply counts as zeros, as the
        specification has it, and is counted in `n_unscored`."""
        return _summary(array("d", map(truediv, self._sums, self._counts)), self._unscored, rule or todays_rule())


def summarise_results(results: Iterable[EvaluationResult], rule: PassRule | None = None) -> RunSummary:
    """The specification's summary of the results; see `Tally.summary`."""
    tally = Tally()
    for result in results:
        tally.add(result.question.id, result.evaluation.average_score, result.evaluation.status)
    return tally.summary(rule)


def best_case(results: Sequence[EvaluationResult], rule: PassRule | None = None) -> RunSummary:
    """The summary if every unread reply had been full marks: what the unread replies leave open."""
    averages: dict[int | str, list[float]] = {}
    for result in results:
        scored = result.evaluation.status == "ok"
        averages.setdefault(result.question.id, []).append(result.evaluation.average_score if scored else 100.0)
    return _summary([fmean(values) for values in averages.values()], 0, rule or todays_rule())


def is_open(summary: RunSummary, best: RunSummary | None = None, rule: PassRule | None = None) -> bool:
    """Whether the run would have passed with full marks for its unread replies, so that it is no verdict on the answers.

    best: what `best_case` says; without it, of repeats the most that it could be."""
    if summary.mvp_passed or not summary.n_unscored:
        return False
    if best is not None:
        return best.mvp_passed
    rule, total = rule or todays_rule(), summary.total_questions
    passed = min(summary.passed_questions + summary.n_unscored, total)
    mean = min(summary.average_score + 100 * summary.n_unscored / total, 100.0)
    return bool(rule.is_met(passed, total, mean))


def is_undecided(run: EvaluationRun) -> bool:
    """Whether the unread replies of a run decide its verdict, by its own rule."""
    rule = run_rule(run.run)
    return bool(run.summary.n_unscored) and is_open(run.summary, best_case(run.results, rule), rule)


def open_text(n_unscored: int) -> str:
    """What is said of a run whose unread replies decide."""
    return say("base.open", count=n_unscored)


def _summary(averages: Sequence[float], n_unscored: int, rule: PassRule) -> RunSummary:
    total = len(averages)
    passed = sum(reaches(value, rule.line) for value in averages)
    rate = passed / total if total else 0.0
    mean = fmean(averages) if averages else 0.0
    mvp = total > 0 and bool(rule.is_met(passed, total, mean))
    return RunSummary(total, passed, rate, mean, mvp, n_unscored)


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


def judges_text(runs: Sequence[EvaluationRun], asked: int) -> str:
    """The verdicts of several judges on the same answers in one line; undecided unless all that were asked say the same."""
    told = listed(f"{run.judge_model} {say(_verdict(run))}" for run in runs)
    if len(runs) < asked:
        return say("base.judges_missing", asked=asked, judged=len(runs), verdicts=told)
    return say("base.judges_split" if len(set(map(_verdict, runs))) > 1 else "base.judges_alike", verdicts=told)


def judges_decide(runs: Sequence[EvaluationRun], asked: int) -> bool:
    """Whether all judges that were asked have judged, and gave one verdict that is not open."""
    return len(runs) == asked and {_verdict(run) for run in runs} in ({"base.passed"}, {"base.not_passed"})


def _verdict(run: EvaluationRun) -> str:
    """The name of the message that is the verdict of a run."""
    if run.summary.mvp_passed:
        return "base.passed"
    return "base.undecided" if is_undecided(run) else "base.not_passed"


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


def rule_text(total: int, rule: PassRule | None = None, *, lang: Language = "ja") -> str:
    """The whole pass rule for so many questions, in the one wording of views that are not the specification's summary.

    Examples
    --------
    >>> rule_text(10)
    '10問中7問以上が平均70点以上、かつ全体平均が70点以上'
    """
    rule = rule or todays_rule()
    return say("base.pass_rule", lang=lang, total=total, needed=rule.needed(total), line=rule.line)


def summary_text(
    summary: EvaluationRun | RunSummary, rule: PassRule | None = None, *, best: RunSummary | None = None
) -> str:
    """The summary in the specification's words (Markdown), Japanese in every language, and a line on unread replies if there
    were any; undecided where they decide.

    summary: better the run, which knows the rule that it was judged by and what its unread replies could change. Of a
    summary alone, rule is that one (today's unless given), best: see `is_open`."""
    if isinstance(summary, EvaluationRun):
        rule = rule or run_rule(summary.run)
        best = best or (best_case(summary.results, rule) if summary.summary.n_unscored else None)
        summary = summary.summary
    rule = rule or todays_rule()
    needed = rule.needed(summary.total_questions)
    text = SUMMARY.format(
        verdict="✅ MVP合格" if summary.mvp_passed else "❌ MVP不合格",
        total=summary.total_questions, passed=summary.passed_questions, needed=needed, line=rule.line,
        rate=summary.pass_rate, mean=summary.average_score,
    )  # fmt: skip
    enough = summary.passed_questions >= needed
    if enough and not reaches(summary.average_score, rule.line):
        text += "\n" + say("base.mean_too_low", mean=summary.average_score, line=rule.line) + "\n"
    if summary.n_unscored:
        text += "\n" + say("base.unread", count=summary.n_unscored) + "\n"
    if is_open(summary, best, rule):
        text += f"\n**{open_text(summary.n_unscored)}**: {say('base.could_pass')}\n"
    return text
