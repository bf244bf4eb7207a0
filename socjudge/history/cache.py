"""Cache the tables of a folder's logs beside the logs, so that only changed logs are read again.

A log is read again if its size or one of its times has changed. A cache that is damaged, has another version, or cannot
be written is ignored. You may delete the cache at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..base.atomic_files import refuse_links, replacing
from ..base.messages import os_reason, say
from ..base.storage import as_path, load_bytes
from ..errors import ConfigError
from ..runs.logs import is_log_name
from .reading import LogFile, read_logs
from .tables import Coded, Column, Tables, join, take_runs

FOLDER = ".history"  # inside the folder of the logs
FILE = "tables.msgpack"
VERSION = "10"  # version of the tables; raise it when reading the same log gives other contents
MANY = 500  # logs; with this many there is a progress bar
_STAMP = ("size", "modified_ns", "changed_ns")
_HASH = hashlib.sha256().digest_size


class _Stored(msgspec.Struct):
    """A column in the cache."""

    data: bytes
    type: str
    names: list[Any] | None = None


_Table = dict[str, _Stored]
_decode = msgspec.msgpack.Decoder(tuple[str, _Table, _Table, _Table]).decode


def list_logs(logs_dir: Path | str) -> list[LogFile]:
    """List the logs in a folder, sorted by name. Raises ConfigError if there is no such folder."""
    place = as_path(logs_dir)
    try:
        with os.scandir(place) as entries:
            return sorted(LogFile(place, entry.name, *_stamp(entry)) for entry in entries if is_log_name(entry.name))
    except FileNotFoundError:
        raise ConfigError(
            "{place}: no such folder; give the one that the runs were logged to (logs_dir)", place=place
        ) from None
    except OSError as error:
        raise ConfigError(
            "{place}: the logs cannot be listed ({reason})", place=place, reason=os_reason(error)
        ) from None


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    try:
        status = entry.stat()
    except OSError:  # a broken link, or a file that was just removed; reading it gives the error
        return 0, 0, 0
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def load_tables(logs_dir: Path | str, files: list[LogFile]) -> Tables:
    """Load the tables of `files`, which are all logs that `list_logs` returns for the folder, or some of them.
    Logs that have not changed come from the cache. The others are read and cached."""
    place = as_path(logs_dir)
    path = place / FOLDER / FILE
    kept = _load(path) or read_logs([])
    stamps = (kept.runs[name].tolist() for name in _STAMP)
    known = dict(zip(_logs(kept), zip(*stamps, strict=True), strict=True))
    changed = [file for file in files if file[2:] != known.get(file.name)]
    others = known.keys() - {file.name for file in files}
    deleted = others.difference(os.listdir(place)) if others else set()
    if changed or deleted:
        kept = _without(kept, deleted.union(file.name for file in changed))
        kept = join([kept, read_logs(with_progress(changed, say("reading logs")))])
        _save(path, kept)
    return _without(kept, others) if others > deleted else kept


def _logs(tables: Tables) -> list[str]:
    column = tables.runs["log"]
    return [column.names[code] for code in column.codes]


def _without(tables: Tables, logs: set[str]) -> Tables:
    return take_runs(tables, np.flatnonzero([log not in logs for log in _logs(tables)]))


def with_progress(files: list[LogFile], what: str) -> Iterable[LogFile]:
    """Return the files. If there are MANY or more, going through them shows a progress bar, labelled `what`."""
    from tqdm.auto import tqdm

    return tqdm(files, desc=what, unit=say(" logs"), leave=False) if len(files) >= MANY else files


def _load(path: Path) -> Tables | None:
    """Return the cached tables, or None if there are none, or they are damaged or do not fit `_made`."""
    try:
        raw = memoryview(load_bytes(path))
    except OSError:
        return None
    if hashlib.sha256(raw[_HASH:]).digest() != raw[:_HASH]:
        return None
    try:
        made, *tables = _decode(raw[_HASH:])
    except msgspec.MsgspecError:  # of another version
        return None
    return (
        Tables(*({name: _read(each) for name, each in table.items()} for table in tables)) if made == _made() else None
    )


def _read(stored: _Stored) -> Column:
    values = np.frombuffer(stored.data, stored.type)
    if stored.names is None:
        return values
    return Coded(values, [tuple(name) if isinstance(name, list) else name for name in stored.names])


def _made() -> str:
    """Return what the cached tables depend on besides the logs: the cache's version, and this machine's time zone."""
    # Times in a log that have no zone are read as times in this machine's zone.
    return f"{VERSION} {time.timezone} {time.tzname}"


def _save(path: Path, tables: Tables) -> None:
    stored = [{name: _written(column) for name, column in table.items()} for table in tables]
    # A folder that cannot be written, and a name that is no UTF-8, are read again each time.
    with contextlib.suppress(OSError, UnicodeEncodeError):
        raw = msgspec.msgpack.encode((_made(), *stored))
        refuse_links(path.parent)
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as file:
            file.write(hashlib.sha256(raw).digest() + raw)


def _written(column: Column) -> _Stored:
    values, names = column if isinstance(column, Coded) else (column, None)
    return _Stored(values.tobytes(), values.dtype.str, names)
