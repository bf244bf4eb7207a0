"""Choose which answers to judge once more until the verdict is certain, and note why the run ended.

Every answer is judged twice. After that, only the answers that decide the verdict are judged again; `gate_progress`
finds them. The choice is made from the journal, so an interrupted run resumes with the same answers. If a judge's reply
could not be parsed, the judgement is requested once more before the run ends. In the log, a judgement without a parsed
reply counts as zeros. The verdict is called certain only if the log, with these zeros, gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.messages import say
from ..base.missing_marks import UNREAD, Span, span_of
from ..base.pass_rule import run_rule
from ..base.verdict import Tally
from ..errors import BudgetReached, ConfigError, SocJudgeError
from ..records import RunSummary

if TYPE_CHECKING:
    from .assignment import Assignment
    from .journal import Journal

FIRST = 2  # judgements of every answer before it is decided which need more
MOST = 10  # judgements of one answer, unless the caller gives a number
# Answers judged between two checks. Two cost 1 call more than one at a time, and half the waiting. Four cost 4 more
# (benchmarks/validation.py, stopping).
ROUND = 2
MAX_QUESTIONS = 300  # one check takes a second for this many; with more, no single question decides


def most_repeats(judge_repeats: int, until_certain: bool) -> int:
    """Return the highest number of judgements that one answer can get.

    This is `judge_repeats`. But with `until_certain` and the default `judge_repeats` of 1, it is the constant MOST.
    """
    return MOST if until_certain and judge_repeats == 1 else judge_repeats


class Certainty:
    """Track the results of a run that judges until the verdict is certain.

    wanted: for each answer, the number of judgements that it should have by now. stopped_because: why the run ended:

    - "": it has not ended.
    - "certain pass", "certain fail": the verdict is certain.
    - "settled": the judgements that are still allowed would hardly change the verdict.
    - "most": every answer has as many judgements as are allowed.
    - "unread": the verdict needs a judgement that was refused, or whose reply could not be parsed.
    - "budget": the budget is used up.
    """

    def __init__(self, assignment: Assignment, journal: Journal) -> None:
        most, n = assignment.plan.judge_repeats, assignment.n_samples
        if assignment.info.answer_repeats != 1:
            raise ConfigError(say("runs.certain_of_one_answer"))
        if most <= FIRST:
            raise ConfigError(say("runs.certain_most", most=most, least=FIRST + 1))
        if n > MAX_QUESTIONS:
            raise ConfigError(say("runs.certain_questions", count=n, most=MAX_QUESTIONS))
        self.stopped_because = ""
        self._journal = journal
        self._most, self._rule = most, run_rule(journal.info)
        self._names = [assignment.sample_at(i).question.id for i in range(n)]
        self._marks: list[dict[int, Span | None]] = [{} for _ in range(n)]  # {repeat: marks} of each answer
        self._failed: set[int] = set()
        self._asked_anew: set[tuple[int, int]] = set()
        self._awaited: set[tuple[int, int]] = set()  # those of them that have not come yet
        places = {name: i for i, name in enumerate(self._names)}
        for row in journal.rows():
            i = places[row["question_id"]]
            if journal.is_done(i, row["judge_repeat"]):
                marks = row["evaluation"]
                self.add(i, row["judge_repeat"], marks["scores"], marks["average_score"], marks["status"])
            else:  # it will be requested again
                self._marks[i][row["judge_repeat"]] = None
                self._awaited.add((i, row["judge_repeat"]))
        self.wanted = [max(FIRST, len(marks)) for marks in self._marks]

    def n_missing(self, i: int) -> int:
        """Return how many judgements the i-th answer still lacks, compared with `wanted`."""
        return self.wanted[i] - len(self._marks[i]) + sum(sample == i for sample, _ in self._awaited)

    def add(self, i: int, repeat: int, scores: Mapping[str, int | None], average_score: float, status: str) -> None:
        """Note a judgement of the i-th answer. repeat: the number of the judgement among those of the answer."""
        self._marks[i][repeat] = span_of(scores, average_score, status) if status == "ok" else None
        self._awaited.discard((i, repeat))
        if status == "failed":
            self._failed.add(i)

    def next_round(self) -> list[int]:
        """Choose the answers to judge once more, and return their numbers. Return [] if the run is over.

        These are answers that decide the verdict, the most decisive first. If there are none, they are all answers
        with a judgement that could not be parsed. Each such judgement is requested again only once. If there are none
        of these either, set `stopped_because`.
        """
        found = self._progress()
        # A refused question would be refused again.
        asked = [i for i in found.ask if i not in self._failed and self.wanted[i] < self._most][:ROUND]
        if asked:
            for i in asked:
                self.wanted[i] += 1
            return asked
        if unread := self._unread() - self._asked_anew:
            self._asked_anew |= unread
            self._awaited |= unread
            for i, repeat in unread:
                self._journal.ask_again(i, repeat)
            return sorted({i for i, _ in unread})
        summary = self._summary()
        if summary.is_open:
            self.stopped_because = "unread"
        elif found.verdict != "判定保留" and (found.verdict == "合格") == summary.mvp_passed:
            self.stopped_because = "certain pass" if summary.mvp_passed else "certain fail"
        elif found.ask or any(all(mark is None for mark in each.values()) for each in self._marks):
            self.stopped_because = "unread"
        else:
            self.stopped_because = "most" if min(map(len, self._marks)) >= self._most else "settled"
        return []

    def _progress(self) -> Any:
        """Return the result of `gate_progress`: how certain the verdict is, and which answers to judge next.

        A missing score counts as 0 points in the test whether a pass is certain. It counts as 100 points in the test
        whether a fail is certain.
        """
        from ..stats.sequential import gate_progress  # imports scipy, which only such a run needs

        spans = [list(each.values()) for each in self._marks]
        lows, highs = (
            {i: [span and getattr(span, end) for span in each] for i, each in enumerate(spans)}
            for end in ("low", "high")
        )
        found = gate_progress(lows, rule=self._rule, cap=self._most)
        return found if found.passes or lows == highs else gate_progress(highs, rule=self._rule, cap=self._most)

    def _unread(self) -> set[tuple[int, int]]:
        """Return the judgements whose replies could not be parsed: {(number of the answer, number of the judgement)}.

        If one judgement of an answer has the status "failed", all judgements of this answer are left out.
        """
        return {
            (i, repeat)
            for i, marks in enumerate(self._marks) if i not in self._failed
            for repeat, mark in marks.items() if mark is None
        }  # fmt: skip

    def _summary(self) -> RunSummary:
        """Return the summary that the log would have if the run ended now."""
        tally = Tally()
        for i, marks in enumerate(self._marks):
            for mark in marks.values():
                tally.add(i, mark or UNREAD, is_read=mark is not None)
        return tally.summary(self._rule)

    def ends_with(self, reason: SocJudgeError | None) -> bool:
        """Return whether the run ends because its budget is used up. If so, set `stopped_because` to "budget".

        This is so if `reason` is BudgetReached and every answer has at least one judgement. If an answer has none, the
        run counts as interrupted.

        reason: the error that stopped the calls, or None.
        """
        if isinstance(reason, BudgetReached) and all(self._marks):
            self.stopped_because = "budget"
        return self.stopped_because == "budget"

    @property
    def repeats(self) -> Mapping[str, int]:
        """Return how often each question's answer was judged, as {question id: number}."""
        return {str(name): len(marks) for name, marks in zip(self._names, self._marks, strict=True)}
