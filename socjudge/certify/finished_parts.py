"""List the parts of a test of a judge that are finished, in a small file beside the journals.

Each part is a run. If the test was interrupted and is started again, only the parts that are not in the list are judged. The file is removed when all parts are finished.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from ..base.atomic_files import replacing
from ..base.messages import explained
from ..base.storage import load_bytes
from ..errors import ConfigError
from ..records import EvaluationRun
from ..runs.load import load_run
from ..runs.logs import fallback_folder, is_log_name
from ..runs.plan import Plan


class FinishedParts:
    """Keep the list of an experiment's finished parts on disk, in the order in which they finished."""

    def __init__(self, folder: Path, plans: Sequence[Plan], *, fresh: bool) -> None:
        # all parts together identify the experiment
        keys = "".join(plan.identity.sha256 for plan in plans).encode()
        self._path = folder / f".parts_{hashlib.sha256(keys).hexdigest()[:16]}.json"
        self._logs: dict[str, str] = {}  # {index of the part: path of its log}
        if fresh:
            self.forget()
        if self._path.exists():
            self._logs = _listed(self._path)

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


def _listed(path: Path) -> dict[str, str]:
    """Return {index of the part: path of its log}. ConfigError if the file is no such list: it may be somebody else's,
    and names no file elsewhere."""
    places = path.parent.absolute(), fallback_folder()
    with explained("{path}: the list of finished parts cannot be read ({reason})", path=path):
        raw = load_bytes(path)
    try:
        found = orjson.loads(raw)
        fits = all(
            part.isdecimal() and Path(log).parent in places and is_log_name(Path(log).name)
            for part, log in found.items()
        )
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        fits = False
    if not fits:
        raise ConfigError(
            "{path}: this is no list of an experiment's finished parts; remove it, and these parts are judged again",
            path=path,
        )
    return dict(found)


def _where(log: Path | None) -> str:
    return str(log if log is None else log.absolute())
