"""Trials of prompts in `logs/trials/trials.jsonl`: one line per trial and change; a trial's last line counts."""

from __future__ import annotations

import codecs
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ...base.atomic_files import append_line
from ...base.messages import explained, os_reason, say
from ...errors import ConfigError
from ...prompts.templates import Kind, default_prompt_id, is_prompt_id
from ...runs.logs import is_log_name

ALL, DISPUTED = "all", "disputed"


@dataclass(frozen=True)
class TrialSettings:
    """Describe a trial.

    log: the name of the log whose answers are used. base: the id of the prompt to compare with. text: the edited
    prompt. answers: `ALL`, `DISPUTED` (other logs give another verdict), or a category. assistant_model: used only for
    an assistant prompt.
    """

    log: str = ""
    kind: Kind = "judge"
    base: str = field(default_factory=lambda: default_prompt_id("judge"))
    text: str = ""
    answers: str = ALL
    judge_model: str = "auto"
    assistant_model: str = "auto"


@dataclass(frozen=True)
class Trial:
    """Hold one trial.

    id: of its first start, ISO 8601 and a few letters. before, after: names of logs in logs/trials, empty for the run's
    own marks and for an unfinished trial. difference: of the means in points, if known.
    """

    id: str
    choice: TrialSettings
    note: str = ""
    before: str = ""
    after: str = ""
    difference: float | None = None


def load_trials(folder: Path) -> list[Trial]:
    """Load the trials, the oldest first; an unreadable line is left out with a warning."""
    path, trials = folder / "trials.jsonl", dict[str, Trial]()
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(say("panels.trials_unreadable", path=path, reason=os_reason(error))) from None
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            trial = _trial(orjson.loads(line))
        except (orjson.JSONDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
            warnings.warn(say("panels.trial_left_out", path=path, line=number, reason=error), stacklevel=2)
        else:
            trials[trial.id] = trial
    return list(trials.values())


def save_trial(folder: Path, trial: Trial) -> None:
    """Add the trial, or its new state, to the list; ConfigError if it cannot be written."""
    path = folder / "trials.jsonl"
    with explained("panels.trial_not_noted", path=path):
        append_line(path, orjson.dumps(asdict(trial)))


def _trial(line: dict[str, Any]) -> Trial:
    """Read a line; ValueError and the like unless every field is of its type and no name leads out of its folder."""
    choice = TrialSettings(**line["choice"])
    trial = Trial(**{**line, "choice": choice})
    texts = [*asdict(choice).values(), trial.id, trial.note, trial.before, trial.after]
    if not all(isinstance(text, str) for text in texts) or not isinstance(trial.difference, float | int | None):
        raise ValueError(say("panels.trial_field"))
    if choice.kind not in ("judge", "assistant") or not is_prompt_id(choice.base):
        raise ValueError(say("panels.trial_prompt", kind=choice.kind, prompt=repr(choice.base)[:80]))
    for name in (choice.log, trial.before, trial.after):
        if name and (not is_log_name(name) or "/" in name or "\\" in name):
            raise ValueError(say("panels.trial_log", name=repr(name)[:80]))
    return trial
