"""The journal of a run, `logs/judge_eval_….partial.jsonl`: everything that was paid for, written as it arrives.

One JSON object per line. The first is the header: {"journal", "run", "total"}; `run` has the run's identity. Any
other may have "t", the seconds since its session began, "spent_usd", the run's cost so far, and "open_usd", the most
that the calls in flight can add to it. `sample` and `repeat` count answers and judgements from 0.

- {"session"}: the run was started or resumed
- {"answer", "sample"}: an answer of the assistant
- {"reply", "sample", "repeat"}: a judge's reply that could not be parsed
- {"row", "sample", "repeat"}: a judged answer, as a row of the log; the last one of a judgement counts
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import filelock
import orjson

from ..base.atomic_files import refuse_links
from ..base.messages import os_reason
from ..base.missing_scores import outcome_of, span_of
from ..base.pass_rule import run_rule
from ..errors import ConfigError
from ..records import AssistantAnswer, Completion, EvaluationResult, RunInfo, Usage, total_usage
from .identity import Identity
from .log_json import answer_from_dict, result_to_dict, run_info_from_dict, to_dict
from .log_shape import fit
from .logs import new_log_name, to_json
from .unfinished import (
    FORMAT,
    SUFFIX,
    Spending,
    check_same_run,
    damaged,
    find_journal,
    journal_info,
    read_lines,
)


class Journal:
    """A run on disk, locked against other processes. It holds where each line begins."""

    def __init__(self, path: Path, lock: filelock.BaseFileLock, *, total: int, judge_repeats: int) -> None:
        self.path, self._lock, self._total, self.judge_repeats = path, lock, total, judge_repeats
        self.info = RunInfo("", "")
        self.sessions = self.n_done = 0  # n_done: judgements that will not be requested again
        self.wall_time_s = self._in_session_s = 0.0  # of all earlier sessions, and of the last one
        # The run's cost so far in US dollars, and the most that the calls in flight can cost: what was last written, and
        # what holds now.
        self.spending = Spending()
        self.meter: Callable[[], tuple[float, float]] = lambda: (self.spending.noted_usd, self.spending.open_usd)
        # The models that have answered, {task: names}, and the most that an answer has cost.
        self.models = {"judge": set[str](), "answer": set[str]()}
        self.answer_usd: float | None = None
        self._rows: dict[int, int] = {}
        self._answers: dict[int, int] = {}
        self._replies: dict[int, list[int]] = {}
        self._again: set[int] = set()  # judgements without scores, which are requested again
        self._file = path.open("a+b", buffering=0)
        self._writing = threading.Lock()  # the loop adds lines while the waiting thread reads

    def _row(self, sample: int, repeat: int) -> int:
        return sample * self.judge_repeats + repeat

    def is_done(self, sample: int, repeat: int) -> bool:
        """Return whether a judgement is there and need not be requested again."""
        row = self._row(sample, repeat)
        return row in self._rows and row not in self._again

    def has_failed(self, sample: int) -> bool:
        """Return whether a judgement of this answer is there and must be requested again."""
        return not self._again.isdisjoint(range(self._row(sample, 0), self._row(sample + 1, 0)))

    def is_refused(self, sample: int, repeat: int) -> bool:
        """Return whether the last row of a judgement has the status "failed"."""
        row = self._row(sample, repeat)
        return row in self._again and self._evaluation(row)["status"] == "failed"

    def paid_before(self, sample: int, repeat: int) -> Usage:
        """Return the usage in the last row of a judgement that must be requested again."""
        row = self._row(sample, repeat)
        return Usage(**self._evaluation(row)["usage"]) if row in self._again else Usage()

    def answer(self, sample: int) -> AssistantAnswer | None:
        start = self._answers.get(sample)
        return None if start is None else answer_from_dict(self._line(start)["answer"], str(self.path))

    def replies(self, sample: int, repeat: int) -> list[Completion]:
        """Return the replies that could not be parsed since the judgement's last row, which counts earlier ones."""
        starts = self._uncounted(self._row(sample, repeat))
        return [fit(self._line(start)["reply"], Completion, str(self.path)) for start in starts]

    @property
    def lost_usage(self) -> Usage:
        """Return the usage of replies that no row counts, because their judgements were given up."""
        starts = [start for row in self._replies for start in self._uncounted(row)]
        return total_usage(Usage(**self._line(start)["reply"]["usage"]) for start in starts)

    @property
    def has_judgements(self) -> bool:
        return self.n_done > 0 or bool(self._replies)

    @property
    def has_readable(self) -> bool:
        return self.n_done > 0

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    @property
    def assistant_version(self) -> str:
        return next((told for i in self._answers if (told := getattr(self.answer(i), "version", ""))), "")

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing that was paid for."""
        return not (self._rows or self._answers or self._replies or self.spending.noted_usd)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the log, in the order of the questions."""
        for row in sorted(self._rows):
            yield self._line(self._rows[row])["row"]

    def judged(self, result: EvaluationResult) -> EvaluationResult:
        """Return the result with `passed` by the pass line with which the run began."""
        evaluation = result.evaluation
        span = span_of(evaluation.scores, evaluation.average_score, evaluation.status)
        passed = outcome_of(span, evaluation.status, run_rule(self.info).line) == "passed"
        return replace(result, evaluation=replace(evaluation, passed=passed))

    def add_answer(self, sample: int, answer: AssistantAnswer, t: float) -> None:
        self._add({"answer": to_dict(answer), "sample": sample, "t": t})

    def add_reply(self, sample: int, repeat: int, completion: Completion, t: float) -> None:
        self._add({"reply": asdict(completion), "sample": sample, "repeat": repeat, "t": t})

    def add_result(self, sample: int, result: EvaluationResult, t: float) -> None:
        self._add({"row": result_to_dict(result), "sample": sample, "repeat": result.judge_repeat, "t": t})

    def note_spending(self, t: float) -> None:
        """Write what the run has cost, and what the calls in flight can cost, if the last line says something else."""
        if self.meter() != (self.spending.noted_usd, self.spending.open_usd):
            self._add({"t": t})

    def ask_again(self, sample: int, repeat: int) -> None:
        self._again.add(self._row(sample, repeat))
        self.n_done -= 1

    def sync(self) -> None:
        """Wait until everything is on the disk. Raises ConfigError if it cannot be."""
        try:
            os.fsync(self._file.fileno())
        except OSError as problem:
            raise self._unwritable(problem) from None

    def close(self, *, discard: bool = False) -> None:
        """Unlock and close. discard: remove the file too, because the log has everything or nothing was paid for."""
        self._file.close()
        if discard:
            self.path.unlink(missing_ok=True)
        if discard:
            _remove(self._lock)
        else:
            self._lock.release()

    def _line(self, start: int) -> dict[str, Any]:
        with self._writing:
            self._file.seek(start)
            with open(self._file.fileno(), "rb", closefd=False) as file:
                return orjson.loads(file.readline())  # type: ignore[no-any-return]

    def _evaluation(self, row: int) -> dict[str, Any]:
        return self._line(self._rows[row])["row"]["evaluation"]  # type: ignore[no-any-return]

    def _uncounted(self, row: int) -> list[int]:
        return [start for start in self._replies.get(row, ()) if start > self._rows.get(row, -1)]

    def _add(self, line: dict[str, Any]) -> None:
        """Write a line at once, so that a killed process loses nothing. ConfigError if the disk takes no more."""
        spent_usd, open_usd = self.meter()
        if spent_usd or open_usd or self.spending.open_usd:  # a cost of 0 is not written
            line |= {"spent_usd": spent_usd, "open_usd": open_usd}
        data = to_json(line, indent=False) + b"\n"
        with self._writing:
            start = self._file.seek(0, os.SEEK_END)
            try:
                while data:  # a disk that takes only a part says why at the next write
                    data = data[os.write(self._file.fileno(), data) :]
            except OSError as problem:
                with contextlib.suppress(OSError):
                    self._file.truncate(start)
                raise self._unwritable(problem) from None
        self._note(start, line)

    def _unwritable(self, problem: OSError) -> ConfigError:
        return ConfigError(
            "{path}: the journal cannot be written ({reason}), and the run ends here, because further "
            "replies would be paid for and lost; free some disk space or fix the permissions, then run "
            "the same command again: it resumes after what was written",
            path=self.path,
            reason=os_reason(problem),
        )

    def _note(self, start: int, line: dict[str, Any]) -> None:
        if "session" in line:
            self.sessions += 1
            self.wall_time_s += self._in_session_s
            self._in_session_s = 0.0
        elif "answer" in line:
            self._answers[line["sample"]] = start
            assistant = line["answer"]["assistant"]
            self.models["answer"].add(assistant["model"])
            self.answer_usd = max(self.answer_usd or 0.0, assistant["usage"]["cost_usd"] or 0.0)
        elif "reply" in line:
            self._replies.setdefault(self._row(line["sample"], line["repeat"]), []).append(start)
            self.models["judge"].add(line["reply"]["model"])
        elif "row" in line:
            row, status = self._row(line["sample"], line["repeat"]), line["row"]["evaluation"]["status"]
            self.n_done += (status != "failed") - self.is_done(line["sample"], line["repeat"])
            self._rows[row] = start
            self.models["judge"].add(line["row"]["evaluation"]["model"])
            (self._again.add if status == "failed" else self._again.discard)(row)
        self._in_session_s = max(self._in_session_s, line.get("t", 0.0))
        self.spending.add(line)

    def _take_up(self) -> None:
        end, header, raw = 0, dict[str, Any](), b""
        for number, (start, line) in enumerate(read_lines(self.path), start=1):
            header, raw, end = header or line, line["raw"], start + len(line["raw"])
            if line.get("sample", 0) * self.judge_repeats + line.get("repeat", 0) >= self._total:
                raise damaged(self.path, number)
            self._note(start, line)
            if "row" in line and line["row"]["evaluation"]["status"] == "unparsable":
                self.ask_again(line["sample"], line["repeat"])
        self.info = run_info_from_dict(header["run"], where=str(self.path))
        self._file.truncate(end)  # removes half a line, left by a killed process
        if not raw.endswith(b"\n"):
            os.write(self._file.fileno(), b"\n")  # the line is whole, and only its end was lost


def open_journal(
    folder: Path,
    info: RunInfo,
    identity: Identity,
    *,
    total: int,
    fresh: bool = False,
    path: Path | None = None,
) -> Journal:
    """Open the run's unfinished journal (the one at `path`, if given), or create one (always, if `fresh`).
    ConfigError if another process is making the run, or if the journal at `path` is of another run (it says how)."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = _held(folder, identity.sha256)
    journal, how = None, {"total": total, "judge_repeats": info.judge_repeats}
    try:
        found = (
            check_same_run(path.resolve(), identity)
            if path is not None
            else None
            if fresh
            else find_journal(folder, identity)
        )
        if found is not None:
            journal = Journal(found, lock, **how)
            journal._take_up()
        else:
            journal = Journal(_new_file(folder, info.started_at), lock, **how)
            journal.info = info
            journal._add({"journal": FORMAT, "run": to_dict(info), "total": total})
        started = datetime.now().astimezone().isoformat(timespec="seconds")
        journal._add({"session": {"started_at": started, "pid": os.getpid()}, "t": 0.0})
        journal.sync()
        return journal
    except BaseException:
        journal.close() if journal is not None else lock.release()
        raise


def _new_file(folder: Path, started_at: str) -> Path:
    while True:
        path = new_log_name(folder, started_at, SUFFIX)
        with contextlib.suppress(FileExistsError):  # of a run that began in the same second
            path.touch(exist_ok=False)
            return path


def drop_journal(path: Path) -> None:
    """Remove the journal of an unwanted run. Raises ConfigError if it is none, or if the run is under way."""
    if not path.name.endswith(SUFFIX) or not path.is_file():
        raise ConfigError(
            "{path}: no journal of an unfinished run; they are named judge_eval_…{suffix}", path=path, suffix=SUFFIX
        )
    of_run = ""
    with contextlib.suppress(ConfigError):  # a damaged journal may be removed too
        of_run = Identity.of(journal_info(path)).sha256
    try:
        lock = _held(path.parent, of_run)
        try:
            path.unlink()
        finally:
            _remove(lock)
    except OSError as error:
        raise ConfigError("{path}: cannot be removed ({reason})", path=path, reason=os_reason(error)) from None


def _held(folder: Path, of_run: str) -> filelock.BaseFileLock:
    refuse_links(path := folder / f".judge_eval_{of_run[:16]}.lock")
    lock = filelock.FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ConfigError(
            "{folder}: the same run is under way in another process; wait for it, or stop it first", folder=folder
        ) from None
    return lock


def _remove(lock: filelock.BaseFileLock) -> None:
    lock.release()
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
