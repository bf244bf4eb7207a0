"""The journal of a run, `logs/judge_eval_….partial.jsonl`: everything that was paid for, written as it arrives.

One JSON object per line. The first is the header: {"journal", "run", "total"}; `run` has the run's identity. Each has
"t", the seconds since its session began, and perhaps "spent_usd", the run's cost so far, and "open_usd", the most that
the calls in flight can add to it. `sample` and `repeat` count answers and judgements from 0.

- {"session"}: the run was started or resumed
- {"answer", "sample", "repeat"}: an answer of the assistant
- {"reply", "sample", "repeat"}: a judge's reply that could not be parsed
- {"row", "sample", "repeat"}: a judged answer, as a row of the log; the last one of a judgement counts
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import filelock

from ..base.files import refuse_links
from ..base.messages import os_reason
from ..errors import ConfigError
from ..records import AssistantAnswer, Completion, EvaluationResult, RunInfo, Usage
from .identity import Identity
from .log_json import record_to_dict, result_to_dict
from .logs import log_names, to_json
from .unfinished import FORMAT, SUFFIX, UnfinishedRun, find_journal


class Journal(UnfinishedRun):
    """A run on disk, locked against other processes."""

    def __init__(self, path: Path, lock: filelock.BaseFileLock) -> None:
        super().__init__(path)
        self._lock, self._began = lock, time.monotonic()
        # judgements that are requested again: without scores, or unparsable before
        self.again = {at for at, row in self.rows.items() if row.evaluation.status in ("failed", "unparsable")}
        # the run's cost so far in US dollars, and the most that the calls in flight can cost
        self.meter: Callable[[], tuple[float, float]] = lambda: (self.noted_usd, self.open_usd)
        self._writing = threading.Lock()  # after a second Ctrl-C, the loop may add a line while the waiting thread does
        self._file = path.open("a+b", buffering=0)
        self._file.truncate(self.size)  # removes half a line, left by a killed process
        if not self.is_ended:
            os.write(self._file.fileno(), b"\n")  # the line is whole, and only its end was lost

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def n_done(self) -> int:
        return len(self.rows) - len(self.again)

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.answers or self.unparsable or self.noted_usd)

    def is_done(self, sample: int, repeat: int) -> bool:
        return (sample, repeat) in self.rows and (sample, repeat) not in self.again

    def before(self, sample: int, repeat: int) -> tuple[str, Usage]:
        """Return the status of a judgement that must be requested again, and what it has consumed so far."""
        if (sample, repeat) not in self.again:
            return "", Usage()
        evaluation = self.rows[sample, repeat].evaluation
        return evaluation.status, evaluation.usage

    def add(self, what: AssistantAnswer | Completion | EvaluationResult, sample: int, repeat: int = 0) -> None:
        if isinstance(what, EvaluationResult):
            told = {"row": result_to_dict(what)}
        else:
            told = {"answer" if isinstance(what, AssistantAnswer) else "reply": record_to_dict(what)}
        self._write({**told, "sample": sample, "repeat": repeat})
        self._keep(what, sample, repeat)
        if isinstance(what, EvaluationResult):
            self.again.discard((sample, repeat))
            if what.evaluation.status == "failed":
                self.again.add((sample, repeat))

    def note_spending(self) -> None:
        """Write what the run has cost, and what the calls in flight can cost, if the last line says something else."""
        if self.meter() != (self.noted_usd, self.open_usd):
            self._write({})

    def sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as problem:
            raise self._unwritable(problem) from None

    def close(self, *, discard: bool = False) -> None:
        """Unlock and close. discard: remove the file too, because the log has everything or nothing was paid for."""
        self._file.close()
        if discard:
            self.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # before another process can hold it
                Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    def _write(self, line: dict[str, Any]) -> None:
        """Write a line at once, so that a killed process loses nothing. ConfigError if the disk takes no more."""
        line["t"], (spent_usd, open_usd) = self.elapsed_s, self.meter()
        if spent_usd or open_usd or self.open_usd:  # a cost of 0 is not written
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
        self._note(line["t"], spent_usd, open_usd)

    def _unwritable(self, problem: OSError) -> ConfigError:
        return ConfigError(
            "{path}: the journal cannot be written ({reason}), and the run ends here, because further "
            "replies would be paid for and lost; free some disk space or fix the permissions, then run "
            "the same command again: it resumes after what was written",
            path=self.path,
            reason=os_reason(problem),
        )


def open_journal(folder: Path, info: RunInfo, *, total: int, fresh: bool = False) -> Journal:
    """Open the run's unfinished journal, or create one. ConfigError if another process is making the run."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = Identity.of(info)
    with contextlib.ExitStack() as undo:
        lock = _held(folder, identity.sha256)
        undo.callback(lock.release)
        journal = Journal((None if fresh else find_journal(folder, identity)) or _create(folder, info, total), lock)
        undo.callback(journal.close)
        started = datetime.now().astimezone().isoformat(timespec="seconds")
        journal._write({"session": {"started_at": started, "pid": os.getpid()}})
        journal._begin_session()
        journal.sync()
        undo.pop_all()
    return journal


def _create(folder: Path, info: RunInfo, total: int) -> Path:
    header = to_json({"journal": FORMAT, "run": record_to_dict(info), "total": total}, indent=False) + b"\n"
    names = log_names(info.started_at, SUFFIX)
    while True:
        path = folder / next(names)
        with contextlib.suppress(FileExistsError), path.open("xb") as file:  # of a run that began in the same second
            file.write(header)
            return path


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
