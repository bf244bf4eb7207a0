"""Write and read the log of a run, `logs/judge_eval_YYYYMMDD_HHMMSS.json`. It is written as a whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from .. import constants
from ..base.files import as_path, load_bytes, write_new
from ..base.messages import explained, os_reason, say
from ..errors import ConfigError
from ..records import SCHEMA_VERSION, EvaluationRun
from .log_json import record_to_dict, refuse_doubles, result_to_dict, run_from_dict, with_unknown, writable
from .unfinished import SUFFIX, load_unfinished

MAX_UNPACKED = 512 * 2**20  # bytes of an unpacked .gz log; a larger one may be a zip bomb
RESCUED = "socjudge-logs-"  # begins the name of a temporary folder with a log that could not be written elsewhere
_STAMP = "%Y%m%d_%H%M%S"


def save_evaluation_results(run: EvaluationRun, logs_dir: Path | str | None = None) -> Path:
    """Write the run's log as `judge_eval_YYYYMMDD_HHMMSS.json`, named after the run's start, and return its path.

    Nothing is overwritten: if the name is taken, the next second whose name is free is used. Characters that UTF-8
    cannot hold (half of a surrogate pair, which a model may send) are written as U+FFFD. If the folder cannot be
    written, a warning says in which temporary folder the log is. ConfigError if that cannot be written either.
    `run_evaluation_suite` has already saved the run that it returns."""
    logs_dir = logs_dir or constants.LOGS_DIR
    refuse_doubles(
        ((each.question.id, each.answer_repeat, each.judge_repeat) for each in run.results), where=say("the run")
    )
    rows = [result_to_dict(result) for result in run.results]
    log = {"results": rows, "summary": asdict(run.summary), "run": record_to_dict(run.run)}
    content = [to_json(with_unknown(log, run.extra))]
    try:
        return write_new(as_path(logs_dir), log_names(run.run.started_at, ".json"), content)
    except OSError as problem:
        reason = os_reason(problem)
    with explained(
        "{place}: the log cannot be written ({first}), nor can one in a temporary folder ({reason}); free some disk "
        "space or fix the permissions, then call save_evaluation_results(run, <folder>): the run is still in memory",
        place=logs_dir,
        first=reason,
    ):
        folder = Path(tempfile.mkdtemp(prefix=RESCUED))  # which this user alone can read
        path = write_new(folder, log_names(run.run.started_at, ".json"), content)
        path.chmod(0o600)
    told = (
        "{place}: the log cannot be written ({reason}). The results are safe in {path}; correct what is wrong "
        "(permissions, disk space), then move that file there"
    )
    warnings.warn(say(told, place=logs_dir, reason=reason, path=path), stacklevel=2)
    return path


def parse_log(raw: bytes, path: Path) -> EvaluationRun:
    """Parse a log's bytes. `path` is the log's path, for errors and for the start time of a log without `run` block."""
    try:
        data = from_json(raw)
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            "{path}: not valid JSON ({reason}); was the file cut while it was copied?", path=path, reason=error
        ) from None
    return run_from_dict(data, where=str(path))


def named_log(name: Path | str, logs_dir: Path | str | None = None) -> Path:
    """Return the path of a log that is given by its path, or by its name in the folder."""
    path, folder = as_path(name), as_path(logs_dir or constants.LOGS_DIR)
    if path.name == str(name) and not path.is_file():
        path = folder / path.name
    if not path.is_file():
        raise ConfigError(
            "{name}: no such log; give a path, or the name of a log in {folder}", name=name, folder=folder
        )
    return path


def load_stored(path: Path) -> EvaluationRun:
    """Return the run of a log as `load_run` does. The log is read again only after it has changed."""
    return _load_once(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=32)  # as many as a panel shows side by side
def _load_once(path: Path, changed: int) -> EvaluationRun:
    return load_run(path)


def load_run(path: Path | str) -> EvaluationRun:
    """Load a run from a log file that socjudge wrote, or from a log that has only the specification's fields.

    The file may be compressed (.json.gz). If it is the journal of an unfinished run (….partial.jsonl), the results so
    far are loaded; such a run has no verdict. If a log has only the specification's fields, the start time comes from
    the file name, and the judge model is "unknown". If the file cannot be read, the ConfigError names the file, the
    place in it and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> import socjudge as sj
    >>> run = sj.load_run(min(Path("logs").glob("*.json")))
    >>> len(run.results)
    10
    """
    path = as_path(path)
    if path.name.endswith(SUFFIX):
        run = load_unfinished(path)
    else:
        with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
            raw = load_log(path)
        run = replace(parse_log(raw, path), log_path=path)
    if told := newer_text(run.run.schema_version):
        warnings.warn(f"{path}: {told}", stacklevel=2)
    return run


def newer_text(version: int) -> str:
    """Return the words for a log in a newer format than this version knows, by its `schema_version`; otherwise ""."""
    if version <= SCHEMA_VERSION:
        return ""
    return say(
        "written by a newer socjudge (schema_version {version}; this one knows {known}), so its numbers may mean "
        "something else; update socjudge",
        version=version,
        known=SCHEMA_VERSION,
    )


def load_log(path: Path) -> bytes:
    """Read a log's bytes, unpacked. ConfigError if it cannot be unpacked, or is too large then."""
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
        words = "{path}: more than {most:,} bytes when unpacked; unpack it yourself if that is right"
        raise ConfigError(words, path=path, most=MAX_UNPACKED)
    return unpacked


def log_files(logs_dir: Path | str | None = None) -> list[Path]:
    """List the logs in a folder, ordered by name and thereby by start time. [] if the folder does not exist."""
    place = as_path(logs_dir or constants.LOGS_DIR)
    with explained("{place}: the logs cannot be listed ({reason})", place=place):
        names = sorted(filter(is_log_name, os.listdir(place))) if place.is_dir() else []
    return [place / name for name in names]


def newest_log(logs_dir: Path | str | None = None) -> Path:
    """Return the log of a folder that comes last by name. ConfigError if the folder has none."""
    if logs := log_files(logs_dir):
        return logs[-1]
    folder = logs_dir or constants.LOGS_DIR
    raise ConfigError("{folder}: there are no logs yet; make one with socjudge run", folder=folder)


def is_log_name(name: str) -> bool:
    return name.startswith("judge_eval_") and name.endswith((".json", ".json.gz"))


def to_json(value: dict[str, Any], *, indent: bool = True) -> bytes:
    """Return the value as JSON. What orjson refuses is replaced, because no value may make a run fail."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        return orjson.dumps(writable(value), option=options, default=lambda value: writable(str(value)))


def from_json(raw: bytes) -> Any:
    """Parse JSON, also with what other tools write: a byte order mark, lone surrogates, NaN (as None)."""
    try:
        return orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        try:
            return writable(json.loads(raw, parse_constant=lambda name: None))
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
