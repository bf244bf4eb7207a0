"""Define the columns of the tables of logs. Each is linked to the field of the records (records.py) that it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import pyarrow as pa

from ..records import EvaluationResult, RunInfo, RunSummary, Usage
from ..runs.log_json import log_fields

# Fields of the run's block in the log, in the order of the frames. All but two have the same names there.
RENAMED = {"prompt_id": "judge_prompt_id", "prompt_sha256": "judge_prompt_sha256"}
_OF_RUN = (
    "judge_model", "judge_model_resolved", "assistant_model", "assistant_model_resolved", "prompt_id", "prompt_sha256",
    "dataset_sha256", "index_fingerprint", "pass_threshold", "pass_rate_required", "assistant_prompt_id", "k",
    "answer_repeats", "judge_repeats", "rejudged_from", "mode",
)  # fmt: skip
_OF_RUN_TOO = (
    "wall_time_s", "socjudge_version", "judges_asked", "asked", "schema_version", "judge_service", "judge_settings", "assistant_service", "assistant_settings",
    "assistant_prompt_sha256", "assistant_version",
)  # fmt: skip
OF_INFO = ("run_id", *_OF_RUN, *_OF_RUN_TOO)
OF_SUMMARY = ("total_questions", "passed_questions", "pass_rate", "average_score", "mvp_passed")
OF_USAGE = ("calls", "input_tokens", "output_tokens", "cost_usd")
# {column of `results`: place of its value in `EvaluationResult`}. log_json.py knows the place in a log.
OF_RESULT = {
    "category": "question.category", "answer_repeat": "answer_repeat", "judge_repeat": "judge_repeat",
    "insufficient_evidence": "answer.flags.insufficient_evidence",
    "dangerous_operation": "answer.flags.dangerous_operation", "ambiguous_query": "answer.flags.ambiguous_query",
    "judge_model_resolved": "evaluation.model", "processing_time": "evaluation.processing_time",
    "cost_usd": "evaluation.usage.cost_usd", "truncated": "answer.truncated",
}  # fmt: skip
OF_TEXTS = {
    "question": "question.question", "answer": "answer.answer", "context": "answer.context",
    "overall_comment": "evaluation.overall_comment", "error": "evaluation.error",
}  # fmt: skip


def place_in_log(path: str) -> tuple[str, Any]:
    """Return where a log stores a field of `EvaluationResult`, and the field's type annotation. Both places are dotted
    paths; the one in the log starts at the JSON object of a judged answer."""
    kind: Any = EvaluationResult
    keys: list[str] = []
    for name in path.split("."):
        field = next(field for field in log_fields(kind) if field.name == name)
        keys += [] if field.inline else filter(None, [field.block, field.key])
        kind = field.kind
    return ".".join(keys), kind


def _types(record: type, names: Iterable[str]) -> dict[str, pa.DataType]:
    kinds = {field.name: field.kind for field in log_fields(record)}
    return {name: _arrow(kinds[RENAMED.get(name, name)]) for name in names}


def _arrow(kind: Any) -> pa.DataType:
    (plain,) = set(get_args(kind) or (kind,)) - {NoneType}
    return {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}[plain]


RUNS = pa.schema(
    {
        # These columns show whether a file is still the one that was read, and why it could not be read.
        "size": pa.int64(), "modified_ns": pa.int64(), "changed_ns": pa.int64(), "problem": pa.string(),
        "run_id": pa.string(), "log": pa.string(), "started_at": pa.timestamp("us", "UTC"),
        **_types(RunInfo, _OF_RUN), **_types(RunSummary, OF_SUMMARY),
        "n_results": pa.int64(), "n_unscored": pa.int64(), "is_open": pa.bool_(), "mean_score": pa.float64(),
        **_types(Usage, OF_USAGE), **_types(RunInfo, _OF_RUN_TOO), "criteria": pa.string(),
        "runbooks": pa.string(),
    }
)  # fmt: skip
RUN_COLUMNS = RUNS.names[RUNS.get_field_index("run_id") :]
RESULTS = pa.schema(
    {
        "log": pa.string(), "question_id": pa.string(), "status": pa.string(), "average_score": pa.float64(),
        "average_low": pa.float64(), "average_high": pa.float64(), "passed": pa.bool_(), "answer_sha256": pa.string(),
        "criterion": pa.string(), "score": pa.list_(pa.float64()), "missing": pa.list_(pa.string()),
        **{name: _arrow(place_in_log(path)[1]) for name, path in OF_RESULT.items()},
    }
)  # fmt: skip  # question_id and criterion (a list) are JSON. missing: why each score is missing, or ""
TEXTS = pa.schema(
    {**{name: _arrow(place_in_log(path)[1]) for name, path in OF_TEXTS.items()}, "rationale": pa.list_(pa.string())}
)


class LogFile(NamedTuple):
    """Describe a log file. Size and times are 0 for a file that cannot be looked at."""

    folder: Path
    name: str
    size: int = 0  # in bytes
    modified_ns: int = 0  # when its content last changed, in nanoseconds since 1970
    changed_ns: int = 0  # when its content or its attributes last changed, in the same unit

    @property
    def path(self) -> Path:
        return self.folder / self.name  # made on demand, because ten thousand paths take a tenth of a second


@dataclass(frozen=True)
class Tables:
    """Hold the contents of several logs as two tables."""

    runs: pa.Table  # one row per log, with the columns of RUNS, also for a log that could not be read
    results: pa.Table  # one row per judged answer, with the columns of RESULTS, and those of TEXTS if requested
