"""Load stored runs from a log, or from the journal of an unfinished run."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import replace
from pathlib import Path

from .. import constants
from ..base.messages import explained
from ..base.storage import as_path
from ..errors import ConfigError
from ..records import EvaluationRun
from .identity import Identity
from .logs import load_log, logs_of_run, newer_text, parse_log
from .unfinished import journal_info, journal_total, load_unfinished


def find_log(name: Path | str, logs_dir: Path | str | None = None) -> Path:
    """Return the path of a log. name: a path, or the name of a file in the log folder."""
    path = as_path(name)
    beside = as_path(logs_dir or constants.LOGS_DIR) / path.name
    return beside if path.name == str(name) and not path.is_file() and beside.is_file() else path


def load_run(path: Path | str) -> EvaluationRun:
    """Load a run from a log file that socjudge wrote, or from a log that has only the specification's fields.

    The file may be compressed (.json.gz). If it is the journal of an unfinished run (….partial.jsonl), the results so
    far are loaded; such a run has no verdict (`run.asked`). If a log has only the specification's fields, the start time comes from the file name, and the judge
    model is "unknown". If the file cannot be read, the ConfigError names the file, the place in it and what was
    expected.

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
        with explained("{path}: the log cannot be read ({reason})", path=path):
            raw = load_log(path)
        run = replace(parse_log(raw, path), log_path=path)
    if told := newer_text(run.run.schema_version):
        warnings.warn(f"{path}: {told}", stacklevel=2)
    return run


def find_finished(journal: Path) -> EvaluationRun | None:
    """Return the run of a journal from its log, if there is one with all that was asked for. The process was then
    killed before it could remove the journal. What was saved of the journal itself has no end, and is not that log."""
    info, total = journal_info(journal), journal_total(journal)
    for path in logs_of_run(info.run_id, journal.parent, started_at=info.started_at):
        with contextlib.suppress(ConfigError):
            run = load_run(path)
            is_whole = run.run.run_id == info.run_id and len(run.results) == total
            if is_whole and run.run.finished_at and Identity.of(info).agrees(Identity.of(run.run)):
                return run
    return None
