"""Keep the journal of a run, `logs/judge_eval_….partial.jsonl`. Everything that was paid for is written as it arrives.

Each line is a JSON object. The first line is the header: {"journal", "run", "key", "total", "folder"}. `folder` is
where the journal belongs, even if it had to be written elsewhere. Every other line may have two numbers: "t", the
seconds since the line's session began, and "spent_usd", the cost of the run so far. This cost includes calls without a
reply. A later row or answer replaces an earlier one of the same sample and repeat. The lines after the header are:

- {"session"}: the run was started or resumed
- {"answer", "sample"}: an answer of the assistant, and the number of its sample
- {"reply", "sample", "repeat"}: a judge's reply that could not be parsed
- {"row", "sample", "repeat"}: a judged answer as a row of the log
- {"over"}: the run judges until the verdict is certain, and will request nothing more
- {"handed_on"}: another judge's journal now has the answers of this journal, with their cost

If the disk is full, or the file is removed or replaced during the run, the journal continues in the fallback folder
(`logs.fallback_folder`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import threading
import warnings
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import filelock
import orjson

try:
    import fcntl
except ImportError:  # Windows has only the lock beside the file
    fcntl = None  # type: ignore[assignment]

from ..base.messages import os_reason, say
from ..base.missing_marks import outcome_of, span_of
from ..base.pass_rule import run_rule
from ..base.storage import is_remote
from ..errors import ConfigError
from ..records import AssistantAnswer, Completion, EvaluationResult, RunInfo, Usage, total_usage
from .log_json import from_dict, result_to_dict, run_info_from_dict, to_dict
from .logs import fallback_folder, find_log, is_ours, make_fallback_folder, new_log_name, nowhere, to_json
from .unfinished import SUFFIX, count, fitting, headers, is_done, lines, newest

FORMAT = 1
_MISSING = -1
# otherwise Windows would write \r\n, and the positions would be wrong
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Journal:
    """Keep a run on disk. The journal's file is locked, so that no other process can resume the run meanwhile.

    In the methods, `sample` is the number of an answer in the run, and `repeat` is the number of a judgement of this
    answer. Both count from 0.

    - info: the run's info from the header.
    - folder: the folder that the journal belongs to. path: the file, which may be in the fallback folder.
    - wall_time_s: the duration of all earlier sessions, in seconds.
    - n_done: the number of judgements in the journal that will not be requested again.
    - is_over: whether a run that judges until the verdict is certain will request nothing more.
    - meter: a function that returns the run's cost so far, in US dollars. noted_usd: the cost that was last written.
    """

    def __init__(self, folder: Path, *, total: int, judge_repeats: int) -> None:
        self.folder = self.path = folder
        self.info = RunInfo("", "")
        self.key: dict[str, Any] = {}
        self.judge_repeats = judge_repeats
        self.wall_time_s = 0.0
        self.sessions = 0
        self.n_done = 0
        self.is_over = False
        self.meter: Callable[[], float] = lambda: 0.0
        self.noted_usd = 0.0
        self._locks: list[filelock.BaseFileLock] = []
        # the loop adds lines, while the waiting thread syncs and may find the disk full
        self._writing = threading.Lock()
        # Where the line of each item begins. Arrays, because a run may have a million of them.
        self._rows = array("q", [_MISSING]) * total
        self._failed = bytearray(total)
        self._answers = array("q", [_MISSING]) * (total // judge_repeats)
        self._replies: dict[int, list[int]] = {}
        self._unread: dict[int, int] = {}  # rows of judgements that could not be parsed
        self._first_read = sys.maxsize
        self._handle = -1
        self._size = 0
        self._in_session_s = 0.0

    # -- what it holds

    def is_done(self, sample: int, repeat: int) -> bool:
        """Return whether the journal has judgement number `repeat` of answer number `sample`.

        Return False if the judgement must be requested again.
        """
        row = sample * self.judge_repeats + repeat
        return self._rows[row] != _MISSING and not self._failed[row]

    def answer(self, sample: int) -> AssistantAnswer | None:
        """Return the assistant's answer number `sample`. Return None if the journal does not have it."""
        start = self._answers[sample]
        return None if start == _MISSING else from_dict(AssistantAnswer, self._line(start)["answer"], str(self.path))

    def replies(self, sample: int, repeat: int) -> list[Completion]:
        """Return the judge's replies that could not be parsed, for one judgement, the oldest first.

        Replies that stand before the last row of this judgement are left out, because the row counts their cost.
        Return [] if there are none.

        sample: the number of the answer. repeat: the number of the judgement.
        """
        row = sample * self.judge_repeats + repeat
        starts = [start for start in self._replies.get(row, ()) if start > self._rows[row]]
        return [from_dict(Completion, self._line(start)["reply"], str(self.path)) for start in starts]

    def has_failed(self, sample: int) -> bool:
        """Return whether any judgement of answer number `sample` must be requested again.

        It must if it failed. It may have to if its reply could not be parsed (`unfinished.is_done`).
        """
        first = sample * self.judge_repeats
        return any(self._failed[first : first + self.judge_repeats])

    def is_refused(self, sample: int, repeat: int) -> bool:
        """Return whether the last row of judgement number `repeat` of answer number `sample` has the status "failed".

        Return False if there is no row.
        """
        row = sample * self.judge_repeats + repeat
        return bool(self._failed[row]) and self._line(self._rows[row])["row"]["evaluation"]["status"] == "failed"

    @property
    def has_judgements(self) -> bool:
        """Return whether the journal has any reply of the judge, parsed or not."""
        return self.n_done > 0 or bool(self._replies)

    @property
    def has_readable(self) -> bool:
        """Return whether at least one reply of the judge could be parsed."""
        return self._first_read < sys.maxsize

    @property
    def has_answers(self) -> bool:
        """Return whether the journal has any answer of the assistant."""
        return any(start != _MISSING for start in self._answers)

    @property
    def assistant_version(self) -> str:
        """Return the version that the assistant reported with its answers. Return "" if it reported none."""
        return next((told for i in range(len(self._answers)) if (told := getattr(self.answer(i), "version", ""))), "")

    def paid_before(self, sample: int, repeat: int) -> Usage:
        """Return the usage of the earlier attempts at a judgement that must be requested again.

        In these attempts, the judgement failed or its reply could not be parsed. For any other judgement, the usage is
        zero.

        sample: the number of the answer. repeat: the number of the judgement.
        """
        row = sample * self.judge_repeats + repeat
        if not self._failed[row]:
            return Usage()
        return Usage(**self._line(self._rows[row])["row"]["evaluation"]["usage"])

    @property
    def lost_usage(self) -> Usage:
        """Return the usage of replies that could not be parsed and that no row of the journal counts.

        No row counts them if their judgements were given up.
        """
        given_up = [start for row, starts in self._replies.items() for start in starts if start > self._rows[row]]
        return total_usage(Usage(**self._line(start)["reply"]["usage"]) for start in given_up)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the judged answers as rows of a log, in the order of the questions."""
        with self._open() as file:
            for start in self._rows:
                if start != _MISSING:
                    file.seek(start)
                    yield orjson.loads(file.readline())["row"]

    @property
    def spent_usd(self) -> float:
        """Return the known cost of the run so far, in US dollars.

        A call without a reply counts as the most that it can cost.
        """
        return count(self.path).spent_usd

    @property
    def is_empty(self) -> bool:
        """Return whether the journal has nothing that was paid for."""
        return (
            not self._replies
            and not self.noted_usd
            and all(start == _MISSING for starts in (self._rows, self._answers) for start in starts)
        )

    def judged(self, result: EvaluationResult) -> EvaluationResult:
        """Return the result with its verdict (`passed`).

        The pass line is the one that the journal got when the run began. The present settings may have another one.
        """
        marks = result.evaluation
        span = span_of(marks.scores, marks.average_score, marks.status)
        passed = outcome_of(span, marks.status, run_rule(self.info).line) == "passed"
        return replace(result, evaluation=replace(marks, passed=passed))

    # -- writing

    def add_answer(self, sample: int, answer: AssistantAnswer, t: float) -> None:
        """Write an answer of the assistant. sample: the sample's number. t: the seconds since this session began."""
        self._answers[sample] = self._append({"answer": to_dict(answer), "sample": sample, "t": t})

    def add_reply(self, sample: int, repeat: int, completion: Completion, t: float) -> None:
        """Write a judge's reply even though it could not be parsed: it was paid for. sample, t: as for `add_answer`."""
        line = {"reply": asdict(completion), "sample": sample, "repeat": repeat, "t": t}
        self._replies.setdefault(sample * self.judge_repeats + repeat, []).append(self._append(line))

    def add_result(self, sample: int, result: EvaluationResult, t: float) -> None:
        """Write a judged answer. sample, t: as for `add_answer`."""
        repeat = result.judge_repeat
        line = {"row": result_to_dict(result), "sample": sample, "repeat": repeat, "t": t}
        self._note_row(sample, repeat, self._append(line), result.evaluation.status)

    def take_over(self, old: Path) -> None:
        """Copy from the journal `old` the rows and replies of those judgements of which this journal has neither.

        Both journals must have the same answers in the same order. `old` is not changed.
        """
        known = {row for row, start in enumerate(self._rows) if start != _MISSING} | {*self._replies}
        for _, line in lines(old):
            if "row" in line or "reply" in line:
                row = line["sample"] * self.judge_repeats + line["repeat"]
                if row not in known:
                    added = {name: value for name, value in line.items() if name not in ("raw", "t", "spent_usd")}
                    self._note(self._append(added), added)
        self._ask_anew()

    def note_end(self) -> None:
        """Write that a run that judges until the verdict is certain will request nothing more.

        The number of its judgements alone does not show this.
        """
        self.is_over = True
        self._append({"over": True})

    def note_spending(self, t: float) -> None:
        """Write the run's cost so far, if it is higher than the cost that was last written. t: as for `add_answer`."""
        if self.meter() > self.noted_usd:
            self._append({"t": t})

    def sync(self) -> None:
        """Wait until everything is on the disk, in the journal's place or in the fallback folder.

        Raises ConfigError if it can be written in neither.
        """
        path = self.path
        try:
            self._check_in_place()
            os.fsync(self._handle)
        except OSError as problem:
            with self._writing:
                if self.path == path:  # otherwise the journal was just moved, and synced by that
                    self._move(problem)

    def close(self, *, discard: bool = False) -> None:
        """Unlock and close the journal.

        discard: whether to remove the file too. This is right if the log has everything, or if nothing was paid for.
        """
        if self._handle >= 0:
            _unlock(self._handle)
            os.close(self._handle)
            self._handle = -1
        if discard:
            with contextlib.suppress(ConfigError, OSError):  # the log is safe, so this is only clearing up
                self.path.unlink(missing_ok=True)
                # the file that it was moved from, if it could not be removed then
                for path, header in headers(self.folder):
                    if isinstance(run := header.get("run"), dict) and run.get("run_id") == self.info.run_id:
                        path.unlink()
        for lock in self._locks:
            lock.release()
            if discard:
                with contextlib.suppress(OSError):
                    Path(lock.lock_file).unlink(missing_ok=True)

    # -- inside

    def hold(self, path: Path) -> None:
        """Lock the journal at this path for this process. Raises filelock.Timeout if another process has locked it."""
        name = path.name.removesuffix(SUFFIX).removeprefix(".")
        file = path.with_name(f".{name}.lock")
        file.touch()  # in a folder that accepts no files, filelock would report a lock that somebody holds
        lock = filelock.FileLock(file, thread_local=False)
        lock.acquire(timeout=0)
        self._locks.append(lock)

    def _note_row(self, sample: int, repeat: int, start: int, status: str) -> None:
        row = sample * self.judge_repeats + repeat
        self.n_done += (status != "failed") - self.is_done(sample, repeat)
        self._rows[row], self._failed[row] = start, status == "failed"
        if status == "ok":
            self._first_read = min(self._first_read, start)
        elif status != "failed":
            self._unread[row] = start

    def _ask_anew(self) -> None:
        """Mark the judgements that could not be parsed and, by `unfinished.is_done`, must be requested again."""
        for row, start in self._unread.items():
            if self._rows[row] == start and not is_done("unparsable", start, self._first_read):
                self.ask_again(*divmod(row, self.judge_repeats))

    def ask_again(self, sample: int, repeat: int) -> None:
        """Mark a judgement that could not be parsed, so that it is requested again. `paid_before` returns its cost.

        sample: the number of the answer. repeat: the number of the judgement.
        """
        row = sample * self.judge_repeats + repeat
        self._failed[row] = True
        self.n_done -= 1
        self._replies[row] = [at for at in self._replies.get(row, ()) if at > self._rows[row]]

    def _open(self) -> IO[bytes]:
        """Open the journal for reading by its handle. The file at its path may have been removed or replaced."""
        return open(self._handle, "rb", 2**16, closefd=False)  # most lines are read in one call

    def _line(self, start: int) -> dict[str, Any]:
        with self._writing, self._open() as file:
            file.seek(start)
            line: dict[str, Any] = orjson.loads(file.readline())
            return line

    def _append(self, line: dict[str, Any]) -> int:
        """Write a line at once, so that a killed process loses nothing. Return the line's position in bytes."""
        if (spent_usd := self.meter()) > 0:
            line["spent_usd"] = self.noted_usd = spent_usd
        data = to_json(line, indent=False) + b"\n"
        with self._writing:
            start = self._size
            try:
                _write_all(self._handle, data)
            except OSError as problem:
                self._move(problem, data)
            self._size = start + len(data)
        return start

    def _check_in_place(self) -> None:
        with self._writing:
            ours, there = os.fstat(self._handle), self.path.stat()
            # Not by the inode alone, because some network drives invent a new one each time.
            if not os.path.samestat(ours, there) and there.st_size != self._size:
                raise FileNotFoundError(errno.ENOENT, say("runs.journal_replaced"))

    def _move(self, problem: OSError, data: bytes = b"") -> None:
        """Warn, and continue the journal in the fallback folder.

        problem: why the journal cannot stay where it is. data: the line that could not be written, if any.
        """
        old = self.path
        try:
            path, handle = _create_file(make_fallback_folder(), self.info, mode=0o600)
            try:
                with self._open() as file:
                    file.seek(0)
                    _write_all(handle, file.read(self._size) + data)
                os.fsync(handle)
            except OSError:
                os.close(handle)
                path.unlink(missing_ok=True)
                raise
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)  # removes half a line
            raise nowhere("runs.journal_nowhere", problem, error, path=old) from None
        ours = False
        with contextlib.suppress(OSError):
            ours = os.path.samestat(os.fstat(self._handle), old.stat())
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, 0)  # nobody shall resume the old journal, wherever it is now
        os.dup2(handle, self._handle, inheritable=False)  # in one step, because the other thread may be syncing
        os.close(handle)
        self.path = path
        with contextlib.suppress(OSError, filelock.Timeout):  # nobody else has the new name
            self.hold(path)
        if ours:
            with contextlib.suppress(OSError):
                old.unlink()
        warnings.warn(say("runs.journal_moved", path=old, reason=os_reason(problem), to=path), stacklevel=2)

    def _create(self, folder: Path, info: RunInfo, key: Mapping[str, Any]) -> None:
        self.info, self.key = info, dict(key)
        self.path, self._handle = _create_file(folder, info, mode=0o600 if folder == fallback_folder() else 0o644)
        self.hold(self.path)
        _lock(self._handle)
        home = str(self.folder.resolve())
        self._append(
            {"journal": FORMAT, "run": asdict(info), "key": self.key, "total": len(self._rows), "folder": home}
        )

    def _take_up(self, path: Path) -> None:
        try:
            self.hold(path)  # the lock is the same whichever folder it is found in
        except filelock.Timeout:
            raise
        except OSError:  # the folder is read-only
            pass
        self.path, problem = path, None
        try:
            self._handle = os.open(path, _FLAGS)
        except OSError as error:  # the file can only be read now
            self._handle, problem = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), error
        _lock(self._handle)  # the file may have another name elsewhere
        header: dict[str, Any] = {}
        for number, (start, line) in enumerate(lines(path), start=1):
            header = header or line
            self._size = start + len(line.pop("raw"))
            try:
                self._note(start, line)
            except LookupError:  # the line is about a question that the run does not have
                reason = say("runs.journal_no_line")
                raise ConfigError(say("runs.journal_damaged", path=path, number=number, reason=reason)) from None
        self.wall_time_s += self._in_session_s
        self.info, self.key = run_info_from_dict(header["run"], where=str(path)), header["key"]
        if problem is None:
            os.ftruncate(self._handle, self._size)  # remove half a line, left by a killed process
        else:
            self._move(problem)

    def _note(self, start: int, line: dict[str, Any]) -> None:
        if "session" in line:
            self.sessions += 1
            self.wall_time_s += self._in_session_s
            self._in_session_s = 0.0
        elif "over" in line:
            self.is_over = True
        elif "row" in line:
            self._note_row(line["sample"], line["repeat"], start, line["row"]["evaluation"]["status"])
        elif "answer" in line:
            self._answers[line["sample"]] = start
        elif "reply" in line:
            self._replies.setdefault(line["sample"] * self.judge_repeats + line["repeat"], []).append(start)
        self._in_session_s = max(self._in_session_s, line.get("t", 0.0))
        self.noted_usd = max(self.noted_usd, line.get("spent_usd", 0.0))

    def _begin_session(self) -> None:
        self.sessions += 1
        started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._append({"session": {"started_at": started, "pid": os.getpid()}, "t": 0.0})


def open_journal(
    folder: Path,
    info: RunInfo,
    key: Mapping[str, Any],
    *,
    total: int,
    logs_dir: Path | None = None,
    fresh: bool = False,
    path: Path | None = None,
    in_fallback: bool = False,
) -> Journal:
    """Open the unfinished journal of the run. If there is none, create one.

    - key: the run's identity (`Assignment.key`).
    - total: the number of judgements that the finished run has.
    - logs_dir: the folder or URL of the run's log, if it is not `folder`.
    - fresh: whether to create a new journal in any case.
    - path: the journal to resume, instead of the newest one of the run.
    - in_fallback: whether to use the fallback folder, because `folder` cannot be written.

    Raises ConfigError if another process is making the run, or if the journal at `path` belongs to another run. In the
    second case, the message names the differences between the two runs.
    """
    place = make_fallback_folder() if in_fallback else folder
    place.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder, total=total, judge_repeats=info.judge_repeats)
    try:
        # So that two processes that begin the same run at once find each other. Later, the journal's own lock does.
        journal.hold(place / f".judge_eval_{_short(key)}")
        # For a link, the file itself, because it is removed when the run is finished.
        found = fitting(path.resolve(), key) if path is not None else None if fresh else newest(folder, key)
        if found is None:
            journal._create(place, info, key)
        else:
            journal._take_up(found)
            places = [logs_dir or folder, *filter(is_ours, [fallback_folder()])]
            # this only happens after a power cut, and searching a URL is slow
            if not journal.is_over and journal.n_done < total:
                places = [place for place in places if not is_remote(place)]
            if find_log(journal.info.run_id, *places, started_at=journal.info.started_at):
                # The process was killed after writing the log and before removing the journal.
                journal.close(discard=True)
                return open_journal(
                    folder, info, key, total=total, logs_dir=logs_dir, fresh=fresh or found.exists(),
                    in_fallback=in_fallback,
                )  # fmt: skip
            journal._ask_anew()
        journal._begin_session()
        journal.sync()
        return journal
    except filelock.Timeout:
        journal.close()
        raise ConfigError(say("runs.under_way", folder=folder)) from None
    except BaseException:
        journal.close()
        raise


def drop_journal(path: Path) -> None:
    """Remove the journal of an unwanted run.

    Raises ConfigError if the file is no journal, or if the run is under way.
    """
    if not path.name.endswith(SUFFIX) or not path.is_file():
        raise ConfigError(say("runs.no_journal", path=path, suffix=SUFFIX))
    journal = Journal(path.parent, total=0, judge_repeats=1)
    key = None
    with contextlib.suppress(ConfigError):  # a damaged journal may be removed too
        key = next((line["key"] for _, line in lines(path)), None)
    try:
        if key is not None:
            journal.hold(path.with_name(f".judge_eval_{_short(key)}"))
        journal.hold(path)
        journal.path, journal._handle = path, os.open(path, _FLAGS)
        _lock(journal._handle)
        path.unlink()
        journal.close(discard=True)
    except filelock.Timeout:
        raise ConfigError(say("runs.under_way", folder=path)) from None
    except OSError as error:
        raise ConfigError(say("runs.journal_not_removed", path=path, reason=os_reason(error))) from None
    finally:
        journal.close()


def _create_file(folder: Path, info: RunInfo, *, mode: int) -> tuple[Path, int]:
    """Create an empty journal file, named after the run's start. Return its path and handle.

    mode: the permissions of the file.
    """
    while True:
        path = new_log_name(folder, info.started_at, SUFFIX)
        with contextlib.suppress(FileExistsError):  # another run of the same second has just taken the name
            return path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, mode)


def _lock(handle: int) -> None:
    """Lock the open file against other processes, also under its other names (links).

    Raises filelock.Timeout if another process has locked it.
    """
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise filelock.Timeout("journal") from None
        except OSError:  # a network drive that has no locks
            pass


def _unlock(handle: int) -> None:
    """Unlock the file at once, even if a forked process still has it open."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _short(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(dict(key), option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
