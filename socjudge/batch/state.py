"""Keep the state of a batch job in `logs/judge_eval_….batch/state.json`: its request files and the run's sources."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ..base.atomic_files import replacing
from ..base.messages import os_reason, say
from ..base.storage import as_path
from ..errors import ConfigError
from ..prompts.templates import Prompt
from ..records import Rubric
from ..runs.logs import to_json
from .files import RequestFile

SUFFIX = ".batch"
_STATE = "state.json"
_FORMAT = 1


@dataclass
class Source:
    """Hold what a run is made from: its questions or its log, its models and its settings. When replies arrive, the
    run's `Assignment` is made again from it.

    log: the path of the log whose stored answers are judged. If it is empty, the questions of `dataset` are asked.
    """

    judge_model: str
    judge_prompt: Prompt
    rubric: Rubric
    judge_repeats: int
    dataset: str = ""
    log: str = ""
    assistant_model: str = ""
    assistant_prompt: Prompt | None = None
    answer_repeats: int = 1
    k: int | None = None
    index_dir: str = ""


@dataclass
class BatchState:
    """Hold a batch job's state.

    - run: the fields of the run's `RunInfo`, for its journal. key: the run's identity.
    - done: the number of judgements in the journal, of `total`.
    - journal: the journal's file name, or its path if it is not beside the job.
    - logs_url: the URL for the log; empty if the log goes beside the job.
    - rounds: the files of each round.
    - per_call: the estimated tokens and cost of an "answer" call and of a "judge" call.
    - failures: {line name: the reasons of its failures, one per round}.
    - learned: {model: parameters that the service refuses}.
    """

    folder: Path
    run: dict[str, Any]
    key: dict[str, Any]
    total: int
    source: Source
    requests_per_file: int
    logs_url: str = ""
    journal: str = ""
    done: int = 0
    per_call: dict[str, dict[str, float | None]] = field(default_factory=dict)
    rounds: list[list[RequestFile]] = field(default_factory=list)
    failures: dict[str, list[str]] = field(default_factory=dict)
    learned: dict[str, list[str]] = field(default_factory=dict)

    @property
    def files(self) -> list[RequestFile]:
        """Return the files of the latest round."""
        return self.rounds[-1]

    @property
    def is_sent(self) -> bool:
        """Return whether a file of the latest round has, or may have, become a batch at the service."""
        return any(file.creating or file.batch_id for file in self.files)

    @property
    def logs_dir(self) -> str:
        """Return the folder or URL to which the log goes."""
        return self.logs_url or str(self.folder.parent)


def save_state(state: BatchState) -> None:
    """Write the job's state to the disk, as a whole or not at all."""
    values = {name: value for name, value in asdict(state).items() if name != "folder"}
    values["rounds"] = [{"files": files} for files in values["rounds"]]
    with replacing(state.folder / _STATE) as file:
        file.write(to_json({"batch": _FORMAT, **values}))


def load_state(folder: Path | str) -> BatchState:
    """Load the state of the job in this folder. Raises ConfigError if there is no job, or if its state is damaged."""
    path = Path(folder).absolute() / _STATE
    try:
        values = orjson.loads(path.read_bytes())
        if values.pop("batch") != _FORMAT:
            raise ValueError(say("batch.other_version"))
        source = values.pop("source")
        for name in ("judge_prompt", "assistant_prompt"):
            source[name] = Prompt(**source[name]) if source[name] else None
        source["rubric"] = Rubric(**source["rubric"])
        rounds = [[RequestFile(**file) for file in entry["files"]] for entry in values.pop("rounds")]
        return BatchState(folder=path.parent, source=Source(**source), rounds=rounds, **values)
    except OSError as error:
        raise ConfigError(say("batch.no_job", folder=folder, reason=os_reason(error), suffix=SUFFIX)) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(say("batch.state_damaged", path=path, reason=error)) from None


def unfinished_batches(logs_dir: Path | str) -> list[Path]:
    """List the folders of the batch jobs in a log folder, the oldest first."""
    return sorted(path.parent for path in as_path(logs_dir).glob(f"judge_eval_*{SUFFIX}/{_STATE}"))
