"""Cache the tables of a folder's logs as Parquet beside the logs, so that only changed logs are read again.

A log is read again if its size or one of its times has changed. A cache that is damaged, has another version, or cannot
be written is ignored. You may delete the cache at any time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..base.atomic_files import refuse_links, replacing
from ..base.messages import os_reason, say
from ..base.storage import as_path
from ..errors import ConfigError
from ..runs.logs import is_log_name
from .schema import RESULTS, RUNS, LogFile, Tables
from .tables import read_logs

FOLDER = ".history"  # inside the folder of the logs
VERSION = b"9"  # version of the tables; raise it when reading the same log gives other contents
MANY = 500  # logs; with this many there is a progress bar
_STAMP = ("log", "size", "modified_ns", "changed_ns")


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


def load_tables(logs_dir: Path | str, files: list[LogFile], *, cache: bool = True) -> Tables:
    """Load the tables of `files`, which are all logs that `find_logs` returns for the folder, or some of them.
    Logs that have not changed come from the cache. The others are read and cached."""
    place = as_path(logs_dir)
    if not cache:
        return read_logs(with_progress(files, say("reading logs")))
    folder = place / FOLDER
    kept = _load(folder)
    if kept is None:
        kept = Tables(RUNS.empty_table(), RESULTS.empty_table())
    known = set(zip(*(kept.runs[name].to_numpy().tolist() for name in _STAMP), strict=True))
    changed = [file for file in files if file[1:] not in known]
    others = {stamp[0] for stamp in known} - {file.name for file in files}
    deleted = others.difference(os.listdir(place)) if others else set()
    if changed or deleted:
        new = read_logs(with_progress(changed, say("reading logs")))
        kept = _without(kept, deleted.union(file.name for file in changed))
        kept = Tables(pa.concat_tables([kept.runs, new.runs]), pa.concat_tables([kept.results, new.results]))
        _save(folder, kept)
    return _without(kept, others) if others > deleted else kept


def _without(tables: Tables, logs: set[str]) -> Tables:
    names = pa.array(sorted(logs), pa.string())
    return Tables(*(t.filter(pc.invert(pc.is_in(t["log"], value_set=names))) for t in (tables.runs, tables.results)))


def with_progress(files: list[LogFile], what: str) -> Iterable[LogFile]:
    """Return the files. If there are MANY or more, going through them shows a progress bar, labelled `what`."""
    from tqdm.auto import tqdm

    return tqdm(files, desc=what, unit=say(" logs"), leave=False) if len(files) >= MANY else files


def _load(folder: Path) -> Tables | None:
    """Return the cached tables, or None if there are none, they are damaged, or do not fit `_made`."""
    # only files, because reading a pipe would never end
    if not all((folder / f"{name}.parquet").is_file() for name in ("runs", "results")):
        return None
    try:
        runs, results = (
            pq.ParquetFile(folder / f"{name}.parquet").read(use_threads=False) for name in ("runs", "results")
        )
    except (OSError, UnicodeEncodeError, pa.ArrowException):  # Arrow takes no path that is not UTF-8
        return None
    marks = [table.schema.metadata or {} for table in (runs, results)]
    # The two files are written one after the other, perhaps by two processes at once. They must belong together.
    together = marks[0].get(b"pair") == marks[1].get(b"pair") and marks[0].get(b"made") == _made()
    if not together or not (runs.schema.equals(RUNS) and results.schema.equals(RESULTS)):
        return None
    return Tables(runs, results)


def _made() -> bytes:
    """Return what the cached tables depend on besides the logs: the cache's version, and this machine's time zone."""
    # Times in a log that have no zone are read as times in this machine's zone.
    return b"%s %r %r" % (VERSION, time.timezone, time.tzname)


def _save(folder: Path, tables: Tables) -> None:
    marks = {b"made": _made(), b"pair": secrets.token_hex(8).encode()}
    with contextlib.suppress(OSError):  # a folder that cannot be written is read again each time
        refuse_links(folder)
        folder.mkdir(exist_ok=True)
        for name, table in (("results", tables.results), ("runs", tables.runs)):
            with replacing(folder / f"{name}.parquet") as file:
                # Most of the data are hashes, which do not compress.
                pq.write_table(table.replace_schema_metadata(marks), file, compression="none")
