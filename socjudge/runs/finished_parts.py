"""List the finished runs of a function call that makes several runs, in a small file beside the journals.

Such a function call evaluates several judges, or several parts of an experiment. If it was interrupted and is made
again, it makes only the runs that are not in the list. The file is removed when all runs are finished.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson

from ..base.atomic_files import replacing
from ..errors import ConfigError
from ..records import EvaluationRun
from .assignment import Assignment
from .load import load_run


class FinishedParts:
    """Keep the list of a function call's finished runs on disk, in the order in which they finished.

    The list is {index of the run in `assignments`: path of the run's log}.

    assignments: all runs that the function call has to make. They identify the call. fresh: whether to forget the list
    and start with an empty one.
    """

    def __init__(self, folder: Path, assignments: Sequence[Assignment], *, fresh: bool) -> None:
        keys = orjson.dumps([assignment.key for assignment in assignments], option=orjson.OPT_SORT_KEYS)
        self._path = folder / f".judges_{hashlib.sha256(keys).hexdigest()[:16]}.json"
        self._logs: dict[str, str] = {}
        if fresh:
            self.forget()
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            self._logs = orjson.loads(self._path.read_bytes())

    def load(self) -> Iterator[tuple[int, EvaluationRun]]:
        for place, log in self._logs.items():
            with contextlib.suppress(ConfigError):  # if a log was removed meanwhile, its run is made again
                yield int(place), load_run(log)

    def note(self, place: int, run: EvaluationRun) -> None:
        self._logs[str(place)] = _where(run.log_path)
        with contextlib.suppress(OSError), replacing(self._path) as file:  # only a later call would need the file
            file.write(orjson.dumps(self._logs))

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def forget_parts(folder: Path, logs: Iterable[Path | None]) -> None:
    """Remove from the folder each list of finished runs (FinishedParts) that names only logs from `logs`."""
    over = {_where(log) for log in logs}
    for path in folder.glob(".judges_*.json"):
        with contextlib.suppress(OSError, orjson.JSONDecodeError):
            if {*orjson.loads(path.read_bytes()).values()} <= over:
                path.unlink()


def _where(log: Path | None) -> str:
    return str(log if log is None else log.absolute())
