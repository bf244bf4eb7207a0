"""The log of a run on disk: `logs/judge_eval_YYYYMMDD_HHMMSS.json`, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from . import constants
from .errors import ConfigError
from .records import EvaluationRun

_STAMP = "%Y%m%d_%H%M%S"
_LOG_NAME = re.compile(r"judge_eval_(\d{8}_\d{6})\b")


def save_evaluation_results(run: EvaluationRun, logs_dir: Path | str = constants.LOGS_DIR) -> Path:
    """Write the run's log and return its path, `judge_eval_YYYYMMDD_HHMMSS.json` after the run's start.

    Nothing is overwritten: a name that is taken moves on by a second. When the folder cannot be written
    (no permission, disk full), the log goes to the system's temporary folder instead, with a warning that
    says where it is; ConfigError if that fails too. Text that UTF-8 cannot hold (half of a surrogate pair,
    as a model may send) is written with U+FFFD in its place."""
    payload = _to_json(run.to_dict())
    try:
        return _write_new(Path(logs_dir), run.run.started_at, payload)
    except OSError as problem:
        refuge = Path(tempfile.gettempdir()) / "socjudge-logs"
        try:
            path = _write_new(refuge, run.run.started_at, payload)
        except OSError as error:
            raise ConfigError(
                f"{logs_dir}: the log cannot be written ({problem.strerror}), nor can {refuge} ({error.strerror}); "
                "free some disk space or fix the permissions, then call save_evaluation_results(run, <folder>): "
                "the run is still in memory"
            ) from None
        warnings.warn(
            f"{logs_dir}: the log cannot be written ({problem.strerror}). The results are safe in {path}; fix the "
            "permissions or the disk space, then move that file into the folder",
            stacklevel=2,
        )
        return path


def load_run(path: Path | str) -> EvaluationRun:
    """The run in a log file, this project's or the specification's bare one.

    A bare log has its time from the file name and the judge model "unknown". Raises ConfigError that
    names the file, the place in it and what was expected."""
    path = Path(path)
    try:
        data = _from_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: the log cannot be read ({error.strerror})") from None
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); was the file cut while it was copied?") from None
    run = EvaluationRun.from_dict(data, where=str(path), started_at=_time_in_name(path.name))
    return replace(run, log_path=path)


def _to_json(log: dict[str, Any]) -> bytes:
    """The log as JSON; what orjson refuses is made writable, for nothing in a run may cost the run."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(log, option=options)
    except TypeError:
        return orjson.dumps(_writable(log), option=options, default=lambda value: _writable(str(value)))


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


def _from_json(raw: bytes) -> Any:
    """The JSON value, also of a file with a byte order mark, NaN or lone surrogates, as other tools write them."""
    try:
        return orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        try:
            return _writable(json.loads(raw, parse_constant=lambda name: None))
        except (ValueError, RecursionError):
            raise error from None


def _write_new(folder: Path, started_at: str, payload: bytes) -> Path:
    """Write to a file that was not there before; readers see all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        moment = datetime.fromisoformat(started_at)
    except ValueError:
        moment = datetime.now().astimezone()
    handle, temporary = tempfile.mkstemp(prefix=".judge_eval_", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private to its writer; logs are for the team
        while True:
            path = folder / f"judge_eval_{moment:{_STAMP}}.json"
            try:
                os.link(temporary, path)  # fails if the name is taken, unlike a rename
                return path
            except FileExistsError:
                moment += timedelta(seconds=1)
    finally:
        os.unlink(temporary)


def _time_in_name(name: str) -> str:
    """The start time that a log's name tells, ISO 8601 without a zone; empty if it tells none."""
    match = _LOG_NAME.search(name)
    try:
        return datetime.strptime(match[1], _STAMP).isoformat() if match else ""
    except ValueError:
        return ""
