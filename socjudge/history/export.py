"""Write logs, which together may be larger than memory, as partitioned Parquet for DuckDB, Dask and similar tools."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .. import constants
from ..base.messages import explained, say
from ..errors import ConfigError
from .cache import find_logs
from .frames import frames_of
from .schema import LogFile
from .tables import read_logs

BATCH_BYTES = 64 * 2**20  # bytes of logs that are in memory at once


def export_history(folder: Path | str, logs_dir: Path | str | None = None) -> Path:
    """Write all logs of a folder as Parquet files into a new folder. Return the new folder.

    Parameters
    ----------
    folder
        The folder to create. It must not exist yet. Its subfolders runs/, results/ and scores/ hold the columns of
        `load_runs`, `load_results(text=True)` and `load_scores(text=True)` (docs/frames.md), with categories as plain
        text. Each subfolder is partitioned by the month in which the run started, in UTC
        (month=2026-11/part-0.parquet; month=unknown).
    logs_dir
        The folder or URL of the logs; the project's logs if left out.

    Raises
    ------
    ConfigError
        If the folder exists or cannot be written.

    Notes
    -----
    The memory needed does not depend on the number of logs. Only a few logs have to fit in memory at a time. Logs that
    cannot be read are left out. Of several logs of the same run, only one is used. A UserWarning gives the number of
    logs left out.

    Examples
    --------
    >>> import socjudge as sj
    >>> sorted(path.name for path in sj.history.export_history("parquet", "logs").iterdir())
    ['results', 'runs', 'scores']
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    folder = Path(folder)
    if folder.exists():
        raise ConfigError(say("history.exists", folder=folder))
    seen: set[str] = set()
    files = find_logs(logs_dir)
    with explained("history.not_written", folder=folder):
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}_", dir=folder.parent))
        try:
            for number, batch in enumerate(_batches(files)):
                tables = read_logs(batch, text=True)
                for name, frame in frames_of(tables, seen).items():
                    _write(partial / name, frame, number)
            partial.chmod(0o755)  # mkdtemp makes the folder private
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    if len(seen) < len(files):
        left_out = len(files) - len(seen)
        warnings.warn(
            say("history.left_out", place=logs_dir, count=left_out, total=len(files), name=str(logs_dir)), stacklevel=2
        )
    return folder


def _batches(files: list[LogFile]) -> Iterator[list[LogFile]]:
    sizes = itertools.accumulate(map(_bytes, files))
    numbered = zip(sizes, files, strict=True)
    for _, batch in itertools.groupby(numbered, key=lambda each: each[0] // BATCH_BYTES):
        yield [file for _, file in batch]


def _bytes(file: LogFile) -> int:
    """Return the estimated size of an unpacked log in bytes.

    For a log in an object store, whose size is unknown, return a fixed value.
    """
    return max(file.size * (10 if file.name.endswith(".gz") else 1), 2**17 if file.modified_ns else 2**20)


def _write(folder: Path, frame: pd.DataFrame, number: int) -> None:
    months = frame["started_at"].dt.strftime("%Y-%m").fillna("unknown")
    for month, part in frame.groupby(months, sort=True):
        place = folder / f"month={month}"
        place.mkdir(parents=True, exist_ok=True)
        words = {name: str for name, kind in part.dtypes.items() if isinstance(kind, pd.CategoricalDtype)}
        # Ids may be numbers in one log and texts in the next. A table can only have one of the two.
        plain = part.astype(words | {"question_id": str} if "question_id" in part else words)
        # Not Table.from_pandas, because pandas 3.1 warns about its way with time zones.
        times = pa.array(plain["started_at"].dt.tz_convert(None).to_numpy(), pa.timestamp("us", "UTC"))
        table = pa.table({name: times if name == "started_at" else pa.array(plain[name]) for name in plain.columns})
        pq.write_table(table, place / f"part-{number}.parquet", compression="zstd")
