"""Store the trials of prompts in `logs/trials/trials.jsonl`.

Each new trial and each change of a trial adds one line. Of several lines about one trial, the last one counts.
"""

from __future__ import annotations

import codecs
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ...base.atomic_files import append_line, refuse_links
from ...base.messages import explained, say
from ...base.storage import load_bytes
from ...prompts.templates import Kind, default_prompt_id, is_prompt_id
from ...runs.logs import is_log_name

ALL = "all"


@dataclass(frozen=True)
class TrialSettings:
    """Hold the settings of a trial."""

    log: str = ""  # the name of the log whose answers are used
    kind: Kind = "judge"  # of the prompt
    base: str = field(default_factory=lambda: default_prompt_id("judge"))  # the edited prompt is compared with it
    text: str = ""  # of the edited prompt
    answers: str = ALL  # or one category of questions
    judge_model: str = "auto"
    assistant_model: str = "auto"  # used only in a trial of an assistant prompt


@dataclass(frozen=True)
class Trial:
    """Hold one trial, in which an edited prompt is tried on the answers of a log and compared with its base prompt."""

    id: str  # the time when the trial was first started (ISO 8601), and a few random characters
    choice: TrialSettings
    note: str = ""  # by the user
    # The names of two logs in logs/trials, with the results of the base prompt and of the edited prompt; empty until
    # the log exists. `before` stays empty if the log whose answers are used has the scores with the base prompt.
    before: str = ""
    after: str = ""
    difference: float | None = None  # of the mean score, in points; None if unknown


def load_trials(folder: Path) -> list[Trial]:
    """Return the stored trials, the oldest first. A line that cannot be read is left out with a warning.
    Raises ConfigError if the file cannot be read."""
    path, trials = folder / "trials.jsonl", dict[str, Trial]()
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
        try:
            raw = load_bytes(path)
        except FileNotFoundError:
            return []
    for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        try:
            trial = _trial(orjson.loads(line)) if line else None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            warnings.warn(
                say("{path}: line {line} is left out ({reason}); remove it", path=path, line=number, reason=error),
                stacklevel=2,
            )
        else:
            trials |= {trial.id: trial} if trial else {}
    return list(trials.values())


def save_trial(folder: Path, trial: Trial) -> None:
    """Append a line with a trial that is new or has changed. Raises ConfigError if the file cannot be written."""
    path = folder / "trials.jsonl"
    with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=path):
        refuse_links(folder)
        append_line(path, orjson.dumps(asdict(trial)))


def _trial(line: dict[str, Any]) -> Trial:
    choice = TrialSettings(**line["choice"])
    trial = Trial(**{**line, "choice": choice})
    texts = [*asdict(choice).values(), trial.id, trial.note, trial.before, trial.after]
    logs = [name for name in (choice.log, trial.before, trial.after) if name]
    is_sound = all(isinstance(text, str) for text in texts) and isinstance(trial.difference, float | int | None)
    is_sound = is_sound and choice.kind in ("judge", "assistant") and is_prompt_id(choice.base)
    # A name chooses no file of another folder.
    if not is_sound or not all(is_log_name(name) and "/" not in name and "\\" not in name for name in logs):
        raise ValueError(say("it is not a trial"))
    return trial
