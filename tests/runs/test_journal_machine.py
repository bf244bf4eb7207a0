"""A run that is broken off in any way, any number of times, and in any order: the laws that hold all the same.

`make fuzz` gives it many more examples (SOCJUDGE_EXAMPLES)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.runs import with_options
from support.service import Service, judgement

from socjudge import (
    AssistantAnswer,
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunStopped,
    load_run,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.errors import BudgetReached
from socjudge.records import EvaluationResult

EXAMPLES = int(os.environ.get("SOCJUDGE_EXAMPLES", "2"))
COUNT = 5
QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(COUNT)]
ANSWERS = [AssistantAnswer(q.question, f"回答{q.id}", "文脈") for q in QUESTIONS]
CALL_USD = 0.00027
MOST_USD = 0.0035  # more than any of these calls can cost

some = st.integers(1, COUNT)


class RunMachine(RuleBasedStateMachine):
    """Each rule is a session of the run, or what befalls its files between two sessions."""

    def __init__(self, service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.service, self.patch = service, monkeypatch
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.logs = self.folder / "logs"
        service.requests.clear()
        service.default = self.reply
        self.unreadable: set[int] = set()
        self.n_logs = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(numbers=st.sets(st.integers(0, COUNT - 1), max_size=2))
    def some_replies_cannot_be_read(self, numbers: set[int]) -> None:
        self.unreadable = set(numbers)

    # -- what there is

    def reply(self, request: dict[str, Any]) -> str:
        number = asked(request)
        if number in self.unreadable:
            self.unreadable.discard(number)
            return "読めない返事"
        return judgement(80)

    def journals(self) -> list[Path]:
        found = self.logs.glob("*.partial.jsonl")
        return sorted((path for path in found if b"\n" in path.read_bytes()), key=lambda path: path.name)

    def written_logs(self) -> list[Path]:
        return sorted(self.logs.glob("*.json"))

    # -- sessions

    def session(self, **keywords: Any) -> EvaluationRun | None:
        """Start the run, and hold it to the laws; None if it was broken off."""
        known = self.journals()
        before = held(known[-1]) if known and not keywords.get("fresh") else Counter[str]()
        rows = {int(thing[3:]) for thing in before if thing.startswith("row")}
        ids = {load_run(path).run.run_id for path in self.written_logs()}
        finished = known and not keywords.get("fresh") and load_run(known[-1]).run.run_id in ids
        seen = len(self.service.requests)
        run: EvaluationRun | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(RunStopped, BudgetReached, ConfigError):
                run = run_evaluation_suite(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=self.logs, progress=False, **with_options(**{"max_concurrency": 1, **keywords}))  # fmt: skip
        calls = Counter(asked(request) for request in self.service.requests[seen:])
        if not finished:
            assert not rows & set(calls), "what was judged is paid for again"
            for number, count in calls.items():
                assert count + before[f"reply{number}"] <= 2, "a reply that could not be read is paid for again"
            if (cap := keywords.get("max_cost_usd")) is not None:
                assert (before.total() + calls.total()) * CALL_USD <= cap + 1e-9, "beyond the budget"
        if finished:
            assert run is not None and run.run.run_id in ids and not calls, "a finished run is made again"
        elif run is None:
            now = [held(path) for path in self.journals()]
            assert not before or any(before <= each for each in now), "something is lost"
        else:
            assert run.run.run_id not in ids
            assert [result.question.id for result in run.results] == list(range(COUNT))
            assert {result.evaluation.average_score for result in run.results} == {80.0}
            assert run.usage.calls == before.total() + calls.total()
            self.n_logs += 1
        return run

    @rule(at_once=st.integers(1, 3))
    def to_the_end(self, at_once: int) -> None:
        assert self.session(max_concurrency=at_once) is not None

    @rule()
    def anew(self) -> None:
        assert self.session(fresh=True) is not None

    @rule(calls=some, at_once=st.integers(1, 3), fresh=st.booleans())
    def stopped(self, calls: int, at_once: int, fresh: bool) -> None:
        stop, seen = threading.Event(), len(self.service.requests)

        def reply(request: dict[str, Any]) -> str:
            if len(self.service.requests) - seen >= calls:
                stop.set()
            return self.reply(request)

        self.service.default = reply
        self.session(stop=stop, max_concurrency=at_once, fresh=fresh)
        self.service.default = self.reply

    @rule(calls=some)
    def out_of_money(self, calls: int) -> None:
        self.session(max_cost_usd=calls * CALL_USD + MOST_USD, max_concurrency=2)

    @rule(results=some, at_once=st.integers(1, 3))
    def killed(self, results: int, at_once: int) -> None:
        """Whatever the process did after that moment never came to be; what it had asked was asked."""
        stop, left, kept = threading.Event(), results, self.folder / "kept"

        def on_result(result: EvaluationResult) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.copy(self.folder, kept)
                stop.set()

        n_logs = self.n_logs
        self.session(stop=stop, max_concurrency=at_once, on_result=on_result)
        if kept.exists():
            shutil.rmtree(self.logs, ignore_errors=True)
            self.copy(kept, self.folder)
            shutil.rmtree(kept)
            self.n_logs = n_logs

    @rule()
    def killed_before_the_journal_is_removed(self) -> None:
        kept = self.folder / "kept"
        self.session(on_result=lambda result: (shutil.rmtree(kept, ignore_errors=True), self.copy(self.folder, kept)))
        for path in (kept / "logs").glob("*.partial.jsonl"):
            if not (self.logs / path.name).exists():
                shutil.copy(path, self.logs)
        shutil.rmtree(kept, ignore_errors=True)

    @rule(lines=st.integers(0, 6), at_once=st.integers(1, 3))
    def full_disk(self, lines: int, at_once: int) -> None:
        with full(self.logs, lines=lines):
            self.session(max_concurrency=at_once)

    @rule()
    def a_second_one_meanwhile(self) -> None:
        def start_another(result: EvaluationResult) -> None:
            with pytest.raises(ConfigError, match="under way in another process"):
                run_evaluation_suite(
                    QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=self.logs, progress=False
                )  # and what it asks would be seen as paid twice

        self.session(on_result=start_another)

    @rule(share=st.floats(0, 1))
    def power_cut(self, share: float) -> None:
        """The end of the latest journal never reached the disk: all but its header may be gone."""
        for path in self.journals()[-1:]:
            data = path.read_bytes()
            first = data.index(b"\n") + 1
            path.write_bytes(data[: first + round(share * (len(data) - first))])

    # -- at all times

    @invariant()
    def every_run_has_an_id_and_a_log_of_its_own(self) -> None:
        ids = [load_run(path).run.run_id for path in self.written_logs()]
        assert len(ids) == len(set(ids)) == self.n_logs

    @invariant()
    def each_unfinished_run_is_listed_once(self) -> None:
        ids = [unfinished.run.run_id for unfinished in unfinished_runs(self.logs)]
        assert len(ids) == len(set(ids))
        assert set(ids) == {load_run(path).run.run_id for path in self.journals()}

    @staticmethod
    def copy(source: Path, target: Path) -> None:
        if (source / "logs").is_dir():
            shutil.copytree(source / "logs", target / "logs", dirs_exist_ok=True)


def asked(request: dict[str, Any]) -> int:
    """Which question a call is about."""
    return int(re.search(r"質問(\d+)", request["messages"][0]["content"])[1])  # type: ignore[index]


def held(path: Path) -> Counter[str]:
    """The paid things in a journal: "row3", "reply3"."""
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return Counter(f"{kind}{line['sample']}" for line in lines for kind in ("row", "reply") if kind in line)


@contextlib.contextmanager
def full(folder: Path, *, lines: int) -> Iterator[None]:
    """Journals there take so many more lines."""
    real, left = os.write, lines

    def write(handle: int, data: bytes) -> int:
        nonlocal left
        target = os.readlink(f"/proc/self/fd/{handle}")
        if target.endswith(".partial.jsonl") and target.startswith(f"{folder}/"):
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        yield


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_however_often_and_in_whatever_way_it_is_broken_off(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_state_machine_as_test(
        lambda: RunMachine(service, tmp_path, monkeypatch),
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=8, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
