"""Choose the logs to read: your own logs, or the project's examples if you have none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .. import constants
from ..base.messages import say
from ..runs.logs import log_files

EXAMPLE_MODE = "example"  # the mode in the run block of an example's log, so that every view of it can say so


def find_logs(logs_dir: Path | str | None = None, *, example: Literal["series", "judges"] = "series") -> Path | str:
    """Return the folder of logs to read. If it has no log, print a message and return the folder of an example.

    Parameters
    ----------
    logs_dir
        A folder; the project's logs if left out.
    example
        "series": runs of one assistant whose settings change. "judges": several LLM judges on the same answers.

    Returns
    -------
    Path or str
        `logs_dir` as you gave it, or the Path of the project's logs or of the example.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.history.find_logs("logs")
    'logs'
    """
    own = logs_dir or constants.LOGS_DIR
    if log_files(own):
        return own
    folder = constants.EXAMPLES_DIR / example
    print(
        say(
            "⚠️ These are examples: {own} holds no log yet, so those that come with the project are shown "
            "({folder}). Once you have run an evaluation, yours are.",
            own=own,
            folder=folder,
        )
    )
    return folder
