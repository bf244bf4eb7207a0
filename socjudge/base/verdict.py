"""The pass rule of the specification and the words it is announced in."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import truediv
from statistics import fmean

from ..records import EvaluationResult, EvaluationRun, RunInfo, RunSummary
from .messages import Language, say
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


def open_text(n_unscored: int) -> str:
    """What is said of a run whose unread replies decide."""
    return f"⚠️ 判定保留（採点不能 {n_unscored} 件）"


def _summary(averages: Sequence[float], n_unscored: int, rule: PassRule) -> RunSummary:
    total = len(averages)
    passed = sum(reaches(value, rule.line) for value in averages)
    rate = passed / total if total else 0.0
    mean = fmean(averages) if averages else 0.0
    mvp = total > 0 and bool(rule.is_met(passed, total, mean))
    return RunSummary(total, passed, rate, mean, mvp, n_unscored)


# Why a run until it was certain ended (runs/certainty.py).
_CERTAIN = {
    "certain pass": "「合格」が確実になったので止めました",
    "certain fail": "「不合格」が確実になったので止めました",
    "settled": "確実とまでは言えませんが、残りを採点しても判定はほぼ変わらないので止めました",
    "most": "上限まで採点しても確実になりませんでした",
    "unread": "判定を左右する回答を採点できず、確実になりませんでした",
    "budget": "確実になる前に費用の上限に達しました",
}


def certainty_text(info: RunInfo) -> str:
    """What is said below the verdict of a run until it was certain; empty for other runs."""
    if not info.stopped_because:
        return ""
    counts = info.repeats.values()
    why = _CERTAIN.get(info.stopped_because, info.stopped_because)
    return (
        f"採点の反復: 計{sum(counts)}回（1問に{min(counts, default=0)}〜{max(counts, default=0)}回）。{why}。"
        "確実かどうかは、この回答を同じJudgeが採点し直したときの話です。反復は質問を増やす代わりになりません。"
    )


def judges_text(runs: Sequence[EvaluationRun], asked: int) -> str:
    """The verdicts of several judges on the same answers in one line; 判定保留 unless all that were asked say the same."""
    words = ["合格" if run.summary.mvp_passed else "判定保留" if is_open(run.summary) else "不合格" for run in runs]
    told = "、".join(f"{run.judge_model} {word}" for run, word in zip(runs, words, strict=True))
    if len(runs) < asked:
        return f"複数のJudge（{asked}人中{len(runs)}人が採点）: {told}。全員の採点がそろわないため判定保留です。"
    if len(set(words)) > 1:
        return f"複数のJudge: {told}。判定が割れたため判定保留です。"
    return f"複数のJudge: {told}。全員が同じ判定です。"


# The specification's words when a run has ended, Japanese in every language.
FINISHED = "評価完了！結果を {path} に保存しました"

# What stands in grey beside a verdict of the embedded judge.
REFERENCE_NOTE = "参考判定（LLMによる採点ではありません）"


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
    """The summary in the specification's words (Markdown), and a line on unread replies if there were any; 判定保留 where
    they decide.

    summary: better the run, which knows the rule that it was judged by and what its unread replies could change. Of a
    summary alone, rule is that one (today's unless given), best: see `is_open`."""
    if isinstance(summary, EvaluationRun):
        rule = rule or run_rule(summary.run)
        best = best or (best_case(summary.results, rule) if summary.summary.n_unscored else None)
        summary = summary.summary
    rule = rule or todays_rule()
    needed = rule.needed(summary.total_questions)
    text = f"""## 評価結果サマリー

**{"✅ MVP合格" if summary.mvp_passed else "❌ MVP不合格"}**

- 総問題数: {summary.total_questions}問
- 合格問題数: {summary.passed_questions}問（平均{rule.line:g}点以上）
- 合格率: {summary.pass_rate:.1%}
- 全体平均スコア: {summary.average_score:.1f}点

**MVP合格基準**: {summary.total_questions}問中{needed}問以上が平均{rule.line:g}点以上
"""
    enough = summary.passed_questions >= needed
    if enough and not reaches(summary.average_score, rule.line):
        text += f"\n⚠️ 合格問題数は足りていますが、全体平均スコア（{summary.average_score:.2f}点）が{rule.line:g}点に届きません\n"
    if summary.n_unscored:
        text += f"\n⚠️ 採点できなかった回答: {summary.n_unscored}件（仕様どおり0点として集計。ログの status と error を確認）\n"
    if is_open(summary, best, rule):
        text += f"\n**{open_text(summary.n_unscored)}**: 採点できなかった回答がすべて満点なら合格です\n"
    return text
