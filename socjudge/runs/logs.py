"""Write and read the log of a run, `logs/judge_eval_YYYYMMDD_HHMMSS.json`.

A log is written as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import stat
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson

from .. import constants
from ..base.atomic_files import write_new
from ..base.files import as_path, load_bytes
from ..base.messages import explained, os_reason, say
from ..errors import ConfigError
from ..records import SCHEMA_VERSION, EvaluationRun, RunInfo
from .log_json import (
    checked_log,
    info_to_dict,
    log_from_dict,
    refuse_doubles,
    result_to_dict,
    run_from_dict,
    writable,
)  # fmt: skip
from .log_shape import Log

MAX_UNPACKED = 512 * 2**20  # bytes of an unpacked .gz log; a larger one may be a zip bomb
RESCUED = "socjudge-logs-"  # begins the name of a temporary folder with a log that could not be written elsewhere
_STAMP = "%Y%m%d_%H%M%S"


def save_evaluation_results(run: EvaluationRun, logs_dir: Path | str | None = None) -> Path:
    """Write the run's log as `judge_eval_YYYYMMDD_HHMMSS.json`, named after the run's start. Return the log's path.

    Nothing is overwritten: if the name is taken, the next second whose name is free is used. Characters that UTF-8
    cannot hold (half of a surrogate pair, which a model may send) are written as U+FFFD. If the folder cannot be
    written (no permission, disk full), the log is in the system's temporary folder, and a warning says so.
    ConfigError if it cannot be written there either. `run_evaluation_suite` has already saved the run that it returns.
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    refuse_doubles(
        ((each.question.id, each.answer_repeat, each.judge_repeat) for each in run.results), where=say("the run")
    )
    try:
        return write_new(as_path(logs_dir), log_names(run.run.started_at, ".json"), _chunks(run))
    except OSError as problem:
        reason = os_reason(problem)
    with explained(
        "{place}: the log cannot be written ({first}), nor can one in a temporary folder ({reason}); free some disk "
        "space or fix the permissions, then call save_evaluation_results(run, <folder>): the run is still in memory",
        place=logs_dir,
        first=reason,
    ):
        folder = Path(tempfile.mkdtemp(prefix=RESCUED))  # which this user alone can read
        path = write_new(folder, log_names(run.run.started_at, ".json"), _chunks(run))
        path.chmod(0o600)
    told = (
        "{place}: the log cannot be written ({reason}). The results are safe in {path}; correct what is wrong "
        "(permissions, disk space), then move that file there"
    )
    warnings.warn(say(told, place=logs_dir, reason=reason, path=path), stacklevel=2)
    return path


def _chunks(run: EvaluationRun) -> Iterator[bytes]:
    """Yield a log's bytes row by row, because a whole large log takes more memory than the run."""
    begin, end = b'{\n  "results": [', b"\n  ]\n}"  # what stands around the row in a log of one row
    yield begin
    for place, result in enumerate(run.results):
        row = to_json({"results": [result_to_dict(result)]}).removeprefix(begin).removesuffix(end)
        yield b"," + row if place else row
    rest = to_json({"summary": asdict(run.summary), "run": info_to_dict(run.run), **run.extra})
    yield (b"\n  ]," if run.results else b"],") + rest.removeprefix(b"{")


def is_ours(path: Path, *, beside: Path | None = None) -> bool:
    """Return whether a file or folder belongs to this user, or to the owner of the folder `beside`.
    A link or a pipe does not."""
    try:
        there = os.lstat(path)
        owners = {os.geteuid(), *([] if beside is None else [beside.stat().st_uid])} if hasattr(os, "geteuid") else {0}
    except OSError:
        return False
    return stat.S_IFMT(there.st_mode) in (stat.S_IFREG, stat.S_IFDIR) and there.st_uid in owners


def parse_log(raw: bytes, path: Path) -> EvaluationRun:
    """Parse a log's bytes. `path` is the log's path, for errors and for the start time of a log without `run` block."""
    return run_from_dict(_parsed(raw, path), where=str(path))


_read_log = msgspec.json.Decoder(Log).decode


def parse_rows(raw: bytes, path: Path) -> tuple[Log, RunInfo]:
    """Parse a log's bytes as `parse_log` does, but leave its rows in the shape of the log, which takes half the time."""
    # Any fault is named by the other way, which also takes what is no strict JSON.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ConfigError):
        log = _read_log(raw)
        # Keys that this version does not know may say what an older run asked for; see `asked_of`.
        if log.run is None or log.run.asked is not None:
            return log, checked_log(log, where=str(path))
    return log_from_dict(_parsed(raw, path), where=str(path))


def _parsed(raw: bytes, path: Path) -> Any:
    try:
        return from_json(raw)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            "{path}: not valid JSON ({reason}); was the file cut while it was copied?", path=path, reason=error
        ) from None


def newer_text(version: int) -> str:
    """Return the words for a log in a newer format than this version knows, by its `schema_version`. Return "" otherwise."""
    if version <= SCHEMA_VERSION:
        return ""
    return say(
        "written by a newer socjudge (schema_version {version}; this one knows {known}), so its numbers may mean "
        "something else; update socjudge",
        version=version,
        known=SCHEMA_VERSION,
    )


def load_log(path: Path) -> bytes:
    """Read a log's bytes. A log whose name ends in .gz is unpacked.
    ConfigError if the file cannot be unpacked, or is too large when unpacked."""
    raw = load_bytes(path)
    if not path.name.endswith(".gz"):
        return raw
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            unpacked = file.read(MAX_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(
            "{path}: not a whole gzip file ({reason}); was it cut while it was copied?", path=path, reason=error
        ) from None
    if len(unpacked) > MAX_UNPACKED:
        raise ConfigError(
            "{path}: more than {most:,} bytes when unpacked; unpack it yourself if that is right",
            path=path,
            most=MAX_UNPACKED,
        )
    return unpacked


def log_files(logs_dir: Path | str | None = None) -> list[Path]:
    """List the logs in a folder, ordered by name and thereby by start time. [] if the folder does not exist.
    ConfigError if it cannot be read."""
    place = as_path(logs_dir or constants.LOGS_DIR)
    return [place / name for name in names_of_logs(place)]


def names_of_logs(place: Path) -> list[str]:
    with explained("{place}: the logs cannot be listed ({reason})", place=place):
        return sorted(filter(is_log_name, os.listdir(place))) if place.is_dir() else []


def is_log_name(name: str) -> bool:
    """Return whether a file name is that of a log: judge_eval_….json, or compressed (.json.gz)."""
    return name.startswith("judge_eval_") and name.endswith((".json", ".json.gz"))


def to_json(value: dict[str, Any], *, indent: bool = True) -> bytes:
    """Return the value as JSON. What orjson refuses is replaced, because no value may make a run fail."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        return orjson.dumps(_writable(value), option=options, default=lambda value: _writable(str(value)))


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, dict):
        return {_writable(key): _writable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def from_json(raw: bytes) -> Any:
    """Parse JSON. A byte order mark and lone surrogates are accepted, because other tools write them.
    NaN and infinity are read as None."""
    try:
        return orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        try:
            return _writable(json.loads(raw, parse_constant=lambda name: None))
        except (ValueError, RecursionError):
            raise error from None


def log_names(started_at: str, suffix: str) -> Iterator[str]:
    """Yield names for a log or journal: after the run's start, and after each second that follows."""
    try:
        moment = datetime.fromisoformat(started_at)
    except ValueError:
        moment = datetime.now().astimezone()
    while True:
        yield f"judge_eval_{moment:{_STAMP}}{suffix}"
        moment += timedelta(seconds=1)
