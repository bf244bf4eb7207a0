"""The log of a run on disk: `logs/judge_eval_YYYYMMDD_HHMMSS.json`, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, overload

import orjson

from . import constants
from .errors import ConfigError
from .records import EvaluationResult, EvaluationRun, RunInfo, RunSummary, result_from_dict, result_to_dict

_STAMP = "%Y%m%d_%H%M%S"
_LOG_NAME = re.compile(r"judge_eval_(\d{8}_\d{6})\b")


def save_evaluation_results(run: EvaluationRun, logs_dir: Path | str = constants.LOGS_DIR) -> Path:
    """Write the run's log and return its path, `judge_eval_YYYYMMDD_HHMMSS.json` after the run's start.

    Nothing is overwritten: a name that is taken moves on by a second. When the folder cannot be written
    (no permission, disk full), the log goes to the system's temporary folder instead, with a warning that
    says where it is; ConfigError if that fails too. Text that UTF-8 cannot hold (half of a surrogate pair,
    as a model may send) is written with U+FFFD in its place."""
    rows = (result_to_dict(result) for result in run.results)
    # Twice if the first folder fails, so not as a generator.
    chunks = list(log_chunks(rows, lambda: (run.summary, run.run)))
    return write_log(lambda: chunks, run.run.started_at, logs_dir)


def log_chunks(rows: Iterable[dict[str, Any]], end: Callable[[], tuple[RunSummary, RunInfo]]) -> Iterator[bytes]:
    """A log's bytes: its head, a chunk for each row of `results`, and its end, which is asked for last."""
    yield b'{\n  "results": ['
    # A row as it stands in a log of one row: indented alike.
    head, tail = len(b'{\n  "results": ['), len(b"\n  ]\n}")
    separator = b""
    for row in rows:
        yield separator + to_json({"results": [row]})[head:-tail]
        separator = b","
    summary, info = end()
    closing = b"\n  ]" if separator else b"]"
    yield closing + b"," + to_json({"summary": asdict(summary), "run": asdict(info)})[1:]


def write_log(chunks: Callable[[], Iterable[bytes]], started_at: str, logs_dir: Path | str) -> Path:
    """Write a log as `save_evaluation_results` does; `chunks` gives its bytes, again after a failed attempt."""
    try:
        return _write_new(Path(logs_dir), started_at, chunks())
    except OSError as problem:
        try:
            path = _write_new(refuge(), started_at, chunks())
        except OSError as error:
            raise ConfigError(
                f"{logs_dir}: the log cannot be written ({problem.strerror}), nor can {refuge()} ({error.strerror}); "
                "free some disk space or fix the permissions, then call save_evaluation_results(run, <folder>): "
                "the run is still in memory"
            ) from None
        warnings.warn(
            f"{logs_dir}: the log cannot be written ({problem.strerror}). The results are safe in {path}; fix the "
            "permissions or the disk space, then move that file into the folder",
            stacklevel=3,
        )
        return path


def refuge() -> Path:
    """Where logs go when their own folder cannot be written."""
    return Path(tempfile.gettempdir()) / "socjudge-logs"


class LoggedResults(Sequence[EvaluationResult]):
    """The results of a log, read from the file as they are asked for: a large run stays small in memory."""

    def __init__(self, path: Path, starts: Sequence[int]) -> None:
        self._path = path
        self._starts = starts  # where each row begins; the last number is where the rows end

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> EvaluationResult: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[EvaluationResult]: ...
    def __getitem__(self, index: int | slice) -> EvaluationResult | Sequence[EvaluationResult]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        start, end = self._starts[index : index + 2]
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                row = orjson.loads(file.read(end - start).strip(b",\n "))
        except OSError as error:
            raise ConfigError(
                f"{self._path}: results of the run are read from its log, which cannot be read any more "
                f"({error.strerror}); put it back, or load_run it from its new place"
            ) from None
        except orjson.JSONDecodeError:
            raise ConfigError(f"{self._path}: the log was changed after the run; load_run it again") from None
        return result_from_dict(row, where=f"{self._path}: results[{index}]")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def load_run(path: Path | str) -> EvaluationRun:
    """The run in a log file, this project's or the specification's bare one.

    A bare log has its time from the file name and the judge model "unknown". Of a journal (….partial.jsonl), the run
    as far as it got. Raises ConfigError that names the file, the place in it and what was expected."""
    path = Path(path)
    if path.name.endswith(".partial.jsonl"):
        from .journal import load_unfinished

        return load_unfinished(path)
    try:
        data = from_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: the log cannot be read ({error.strerror})") from None
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); was the file cut while it was copied?") from None
    run = EvaluationRun.from_dict(data, where=str(path), started_at=_time_in_name(path.name))
    return replace(run, log_path=path)


def to_json(value: dict[str, Any], *, indent: bool = True) -> bytes:
    """The value as JSON; what orjson refuses is made writable, for nothing in a run may cost the run."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        return orjson.dumps(_writable(value), option=options, default=lambda value: _writable(str(value)))


def _writable(value: Any) -> Any:
    """The value with lone surrogates as U+FFFD, and numbers beyond 64 bits as text."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_writable(key): _writable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def from_json(raw: bytes) -> Any:
    """The JSON value, also of a file with a byte order mark, NaN or lone surrogates, as other tools write them."""
    try:
        return orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        try:
            return _writable(json.loads(raw, parse_constant=lambda name: None))
        except (ValueError, RecursionError):
            raise error from None


def _write_new(folder: Path, started_at: str, chunks: Iterable[bytes]) -> Path:
    """Write to a file that was not there before; readers see all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".judge_eval_", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private to its writer; logs are for the team
        while True:
            path = new_log_name(folder, started_at, ".json")
            with contextlib.suppress(FileExistsError):  # another run took the name at this moment
                os.link(temporary, path)  # fails if the name is taken, unlike a rename
                return path
    finally:
        os.unlink(temporary)


def new_log_name(folder: Path, started_at: str, suffix: str) -> Path:
    """The name after the run's start, moved on by seconds while it is taken."""
    try:
        moment = datetime.fromisoformat(started_at)
    except ValueError:
        moment = datetime.now().astimezone()
    while (path := folder / f"judge_eval_{moment:{_STAMP}}{suffix}").exists():
        moment += timedelta(seconds=1)
    return path


def _time_in_name(name: str) -> str:
    """The start time that a log's name tells, ISO 8601 without a zone; empty if it tells none."""
    match = _LOG_NAME.search(name)
    try:
        return datetime.strptime(match[1], _STAMP).isoformat() if match else ""
    except ValueError:
        return ""
