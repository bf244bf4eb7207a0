"""Load stored runs from a log, or from the journal of an unfinished run."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from .. import constants
from ..base.files import as_path
from ..base.messages import explained
from ..errors import ConfigError
from ..records import EvaluationRun
from .logs import load_log, newer_text, parse_log
from .unfinished import load_unfinished


def named_log(name: Path | str, logs_dir: Path | str | None = None) -> Path:
    """Return the path of a log, which is given by its path or by its file name in the folder of logs. Raises ConfigError
    if there is none."""
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
    far are loaded; such a run has no verdict (`run.asked`). If a log has only the specification's fields, the start time
    comes from the file name, and the judge model is "unknown". If the file cannot be read, the ConfigError names the
    file, the place in it and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> import socjudge as sj
    >>> run = sj.load_run(min(Path("logs").glob("*.json")))
    >>> len(run.results)
    10
    """
    path = as_path(path)
    if path.name.endswith(".partial.jsonl"):
        run = load_unfinished(path)
    else:
        with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
            raw = load_log(path)
        run = replace(parse_log(raw, path), log_path=path)
    if told := newer_text(run.run.schema_version):
        warnings.warn(f"{path}: {told}", stacklevel=2)
    return run
