"""Lead a person through the stored answers of a run. The state consists of plain values, so a test can read it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...base.messages import listed
from ...errors import ConfigError
from ...history.labels import Key, Label, append_label, rater_name, read_rater
from ...records import AssistantAnswer, EvalQuestion, EvaluationResult, EvaluationRun
from ...runs.log_json import answer_sha256


@dataclass(frozen=True)
class LabelItem:
    """Hold one stored answer for a person to score, without anything that shows the judge's scores."""

    question: EvalQuestion
    answer: AssistantAnswer
    key: Key  # the question's id, and the hash of the answer with its context


class LabelSession:
    """Show a rater the answers of a run, one at a time, and store the scores that the rater saves.
    Answers without text are not shown. Answers that the rater has scored before, in any run, count as done."""

    def __init__(self, run: EvaluationRun, rater: str, *, folder: Path, repeats: int = 0) -> None:
        self.rater = rater_name(rater)  # as it stands in the name of the rater's file
        self.run, self.folder = run, folder
        self._places: dict[Key, list[int]] = {}  # {answer: its places in run.results}; equal answers are shown once
        for place, result in enumerate(run.results):
            if not result.answer.is_empty:
                key = (result.question.id, answer_sha256(result.answer.answer, result.answer.context))
                self._places.setdefault(key, []).append(place)
        # Ordered by hash, so that the order in the log does not matter and new answers do not change the order. Each
        # rater gets the answers in a different order, which stays the same in a new session.
        order = sorted(self._places, key=lambda key: hashlib.sha256(repr((0, self.rater, key)).encode()).digest())
        # The rater scores these twice. The second time comes at the end, without the first scores. Until then, the
        # judge's scores of these answers stay hidden.
        self._to_repeat = order[: max(repeats, 0)]
        self._read()
        # The answers in the order in which they are shown, each with whether it is shown for the second time: first
        # what has scores, then what follows the furthest of them; what was skipped before that comes last.
        seen = [(key, False) for key in self._labels if key in self._places]
        seen += [(key, True) for key in self._again if key in self._to_repeat]
        furthest = max((place for place, key in enumerate(order) if key in self._labels), default=-1)
        later = [(key, False) for key in order[furthest + 1 :] + order[: furthest + 1]]
        later += [(key, True) for key in self._to_repeat]
        self._items = [*seen, *(item for item in later if item not in seen)]
        self._reached = 0  # the furthest that was shown
        self._go_to(len(seen))

    @property
    def total(self) -> int:
        """Return the number of answers to score, including repeats."""
        return len(self._items)

    @property
    def done(self) -> int:
        """Return the number of answers with saved scores, including repeats."""
        return sum(key in self._labels_of(is_again) for key, is_again in self._items)

    @property
    def can_go_back(self) -> bool:
        return self._at > 0

    @property
    def current(self) -> LabelItem | None:
        """Return the answer that the rater sees now. Return None if the rater has gone past the last answer."""
        if self._at == self.total:
            return None
        key, _ = self._items[self._at]
        result = self.run.results[self._places[key][0]]
        return LabelItem(result.question, result.answer, key)

    @property
    def label(self) -> Label | None:
        """Return this rater's saved scores for the current answer. Return None if there are none."""
        return self._labels_of(self.is_again).get(self._items[self._at][0]) if self._at < self.total else None

    @property
    def is_again(self) -> bool:
        """Return whether the current answer is shown for the second time."""
        return self._at < self.total and self._items[self._at][1]

    @property
    def judge_results(self) -> Sequence[EvaluationResult]:
        """Return the current answer with the judge's scores, once per judgement.
        There are none until the rater has saved scores, and for an answer that is scored twice, the second ones."""
        if self.label is None or (self.label.key in self._to_repeat and self.label.key not in self._again):
            return ()
        return [self.run.results[place] for place in self._places[self.label.key]]

    def save(self, scores: Mapping[str, int | None], comment: str = "") -> Path:
        """Save the rater's scores for the current answer, which stays the current one. Return the path of the file.
        Raises ConfigError and saves nothing if there is no answer, a score is missing, or the file cannot be used."""
        item = self.current
        if item is None:
            raise ConfigError("there is no answer to score: all are done")
        given = {name: scores.get(name) for name in self.run.rubric.criteria}
        known = {name: score for name, score in given.items() if score is not None}
        if len(known) < len(given):
            raise ConfigError(
                "no score for {names}; give all, then save", names=listed(name for name in given if name not in known)
            )
        self._read()  # the answer may have been saved in another tab, where the judge's scores were shown
        label = Label(
            *item.key,
            run_id=self.run.run.run_id,
            scores=known,
            comment=comment,
            blind=item.key not in self._labels_of(self.is_again or item.key in self._to_repeat),
            again=self.is_again,
            saved_at=datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._shown_at, 1),
        )
        path = append_label(self.rater, label, self.folder)
        self._labels_of(self.is_again)[item.key] = label
        return path

    def next(self) -> None:
        """Go to the next answer. What was saved in another tab is passed by, unless the rater has seen it here."""
        at = self._at + 1
        while self._reached < at < self.total and self._items[at][0] in self._labels_of(self._items[at][1]):
            at += 1
        self._go_to(min(at, self.total))

    def skip(self) -> None:
        """Move the current answer behind the others, and go to the next one. No answer is repeated before it was shown."""
        item = self._items.pop(self._at)
        behind = self.total if item[1] else self.total - sum(is_again for _, is_again in self._items[self._at :])
        self._items.insert(behind, item)
        self._go_to(self._at)

    def back(self) -> None:
        """Go back to the answer that was shown before, if there is one, to see or correct its scores."""
        self._go_to(max(self._at - 1, 0))

    def _labels_of(self, is_again: bool) -> dict[Key, Label]:
        return self._again if is_again else self._labels

    def _read(self) -> None:
        file = read_rater(self.folder / f"{self.rater}.jsonl")
        # `problem` says which lines of the file cannot be read.
        self._labels, self._again, self.problem = dict(file.scores), dict(file.again), file.problem

    def _go_to(self, at: int) -> None:
        self._at, self._reached = at, max(at, self._reached)
        self._shown_at = time.monotonic()  # the time that the rater needs is counted from now on
