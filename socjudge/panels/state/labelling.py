"""A person's way through a run's stored answers: plain state, which the panel shows and a test reads."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ...base.messages import listed, say
from ...errors import ConfigError
from ...history.labels import Key, Mark, append_mark, rater_name, read_rater
from ...judging.dataset import load_eval_dataset
from ...records import AssistantAnswer, EvalQuestion, Evaluation, EvaluationRun
from ...runs.log_json import answer_sha256


@dataclass(frozen=True)
class LabelItem:
    """Hold one stored answer to mark, without anything that shows the judge's marks."""

    question: EvalQuestion
    answer: AssistantAnswer
    key: Key


class LabelSession:
    """Give a rater the distinct answers of a run in the rater's own order, one at a time; each mark is on disk at once.

    An answer that was judged repeatedly comes once; one without text (the assistant failed) does not come. What the
    rater has marked before, in any run, counts as done, and skipped answers come again at the end. Only marks are kept,
    so a new session continues where the last one ended.

    repeats: this many answers, the first ones, come once more at the end without the rater's first marks, and the
    judge's are withheld until then. rater: the name as it is used. total, done: answers, repeats included. problem:
    lines of the rater's file that cannot be read.
    """

    def __init__(
        self,
        run: EvaluationRun,
        rater: str,
        *,
        folder: Path,
        dataset: Path | str | None = None,
        repeats: int = 0,
    ) -> None:
        self.rater = rater_name(rater)
        self.run, self.folder = run, folder
        self._keypoints = _keypoints(dataset)
        self._places: dict[Key, list[int]] = {}  # in run.results
        for place, result in enumerate(run.results):
            if not result.answer.is_empty:
                key = (result.question.id, answer_sha256(result.answer.answer, result.answer.context))
                self._places.setdefault(key, []).append(place)
        # By hash: the same in whatever order a log has them, and not changed by answers that come in addition.
        order = sorted(self._places, key=lambda key: hashlib.sha256(repr((0, self.rater, key)).encode()).digest())
        self._to_repeat = order[: max(repeats, 0)]
        self._read()
        # What was looked at, the current one last: an answer, and whether it is there for the second time.
        self._trail = [(key, False) for key in self._marks if key in self._places]
        self._trail += [(key, True) for key in self._again if key in self._to_repeat]
        furthest = max((place for place, key in enumerate(order) if key in self._marks), default=-1)
        later = order[furthest + 1 :] + order[: furthest + 1]  # those before it were skipped
        self._waiting = [(key, False) for key in later] + [(key, True) for key in self._to_repeat]
        self._forget_marked()
        self._at = len(self._trail)
        self._go_on()

    @property
    def total(self) -> int:
        """Return the number of answers."""
        return len(self._places) + len(self._to_repeat)

    @property
    def done(self) -> int:
        """Return how many this rater has marked."""
        return sum(key in self._marks for key in self._places) + sum(key in self._again for key in self._to_repeat)

    @property
    def can_go_back(self) -> bool:
        """Whether another answer was shown before this one."""
        return self._at > 0

    @property
    def current(self) -> LabelItem | None:
        """Return the answer to mark; None when all are done."""
        if self._at == len(self._trail):
            return None
        key, _ = self._trail[self._at]
        result = self.run.results[self._places[key][0]]
        question = result.question
        if not question.expected_keypoints:
            found = self._keypoints.get((question.id, question.question), ())
            question = replace(question, expected_keypoints=found)
        return LabelItem(question, result.answer, key)

    @property
    def mark(self) -> Mark | None:
        """Return this rater's marks of the current answer, None if there are none."""
        if self._at == len(self._trail):
            return None
        key, is_again = self._trail[self._at]
        return (self._again if is_again else self._marks).get(key)

    @property
    def is_again(self) -> bool:
        """Whether the current answer comes for the second time."""
        return self._at < len(self._trail) and self._trail[self._at][1]

    @property
    def judge_marks(self) -> Sequence[Evaluation]:
        """Return the judge's marks of the current answer, one per judgement; none before the rater's (last) marks are
        saved.
        """
        if self.mark is None or (self.mark.key in self._to_repeat and self.mark.key not in self._again):
            return ()
        return [self.run.results[place].evaluation for place in self._places[self.mark.key]]

    def save(self, scores: Mapping[str, int | None], comment: str = "") -> Path:
        """Write marks of the current answer to disk, stay with it, and return the file.

        ConfigError that names the criteria without a mark, or what is wrong with the file; nothing is saved then.
        """
        item = self.current
        if item is None:
            raise ConfigError(say("panels.all_marked"))
        given = {name: scores.get(name) for name in self.run.rubric.criteria}
        marks = {name: score for name, score in given.items() if score is not None}
        if len(marks) < len(given):
            raise ConfigError(say("panels.marks_missing", names=listed(name for name in given if name not in marks)))
        self._read()  # in another tab it may have been saved, and the judge's marks seen
        mark = Mark(
            *item.key,
            run_id=self.run.run.run_id,
            scores=marks,
            comment=comment,
            blind=item.key not in (self._again if self.is_again or item.key in self._to_repeat else self._marks),
            again=self.is_again,
            saved_at=datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._shown_at, 1),
        )
        path = append_mark(self.rater, mark, self.folder)
        (self._again if self.is_again else self._marks)[item.key] = mark
        self._forget_marked()
        return path

    def next(self) -> None:
        """Go to the following answer: the next one if the rater went back, else the next without a mark."""
        self._at = min(self._at + 1, len(self._trail))
        self._go_on()

    def skip(self) -> None:
        """Leave the current answer for the end and go on."""
        item = self._trail[self._at] if self._at < len(self._trail) else None
        if item in self._waiting:
            self._waiting.remove(item)
            self._waiting.append(item)
            self._waiting.sort(key=lambda each: each[1])  # nothing comes again before it came
        self.next()

    def back(self) -> None:
        """Return to the previous answer, to look at its marks or correct them."""
        self._at = max(self._at - 1, 0)
        self._shown_at = time.monotonic()

    def _read(self) -> None:
        file = read_rater(self.folder / f"{self.rater}.jsonl")
        self._marks, self._again, self.problem = dict(file.marks), dict(file.again), file.problem

    def _forget_marked(self) -> None:
        self._waiting = [
            (key, is_again) for key, is_again in self._waiting if key not in (self._again if is_again else self._marks)
        ]

    def _go_on(self) -> None:
        """Add the first waiting answer at the end of the trail."""
        if self._at == len(self._trail) and self._waiting:
            item = self._waiting[0]
            self._trail = [*(seen for seen in self._trail if seen != item), item]
            self._at = len(self._trail) - 1
        self._shown_at = time.monotonic()


def _keypoints(dataset: Path | str | None) -> dict[tuple[int | str, str], tuple[str, ...]]:
    """Return the keypoints by question id and text, for logs that do not hold them."""
    try:
        questions = load_eval_dataset(dataset)
    except ConfigError:  # a help, not a need: marks can be given without
        return {}
    return {(question.id, question.question): question.expected_keypoints for question in questions}
