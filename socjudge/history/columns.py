"""Make the frames that `load_runs`, `load_results` and `load_scores` return. docs/frames.md has the columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd

from ..base.conditions import CONDITIONS
from .reading import RUN_COLUMNS, TEXTS, Answer, LoggedRun, moment_of

# The first columns of all three frames identify a run. The last ones hold what else is known about it.
RUN_NAMES = (
    "run_id", "log", "started_at", "judge_model", "judge_model_resolved", "assistant_model", "prompt_id",
    "prompt_sha256", "dataset_sha256", "index_fingerprint",
)  # fmt: skip
_SHARED = (*RUN_NAMES, "pass_threshold", "pass_rate_required")
_SHARED_LAST = (
    *(each.column for each in CONDITIONS if each.column not in _SHARED), "judges_asked", "asked", "contradictory"
)  # fmt: skip
_OF_ANSWER = Answer._fields[4:14]  # from average_score to cost_usd
_ANSWER = get_type_hints(Answer)
_TYPES: dict[type, Any] = {float: "Float64", int: "Int64", bool: "boolean"}


def run_frame(runs: Sequence[LoggedRun]) -> pd.DataFrame:
    return pd.DataFrame(_run_columns(runs))


def result_frame(runs: Sequence[LoggedRun], *, text: bool = False) -> pd.DataFrame:
    own, answers = _run_columns(runs), _answer_columns(runs)
    run = np.repeat(np.arange(len(runs)), [len(each.answers) for each in runs])
    columns = {name: own[name][run] for name in _SHARED} | _question(answers)
    columns |= {name: _array(_ANSWER[name], answers[name]) for name in _OF_ANSWER}
    columns["answer_sha256"] = pd.array(answers["answer_sha256"], dtype="str")
    if text:
        texts = _turned(answers["texts"], len(TEXTS))
        columns |= {name: pd.array(values, dtype="str") for name, values in zip(TEXTS, texts, strict=True)}
    columns |= {name: _array(_ANSWER[name], answers[name]) for name in ("judge_model_resolved", "truncated")}
    return pd.DataFrame(columns | {name: own[name][run] for name in _SHARED_LAST}, copy=False)


def score_frame(runs: Sequence[LoggedRun], *, text: bool = False) -> pd.DataFrame:
    own, answers = _run_columns(runs), _answer_columns(runs)
    lengths = [len(names) for names in answers["criteria"]]
    row = np.repeat(np.arange(len(lengths)), lengths)
    run = np.repeat(np.arange(len(runs)), [len(each.answers) for each in runs])[row]
    columns = {name: own[name][run] for name in _SHARED}
    columns |= {name: values[row] for name, values in _question(answers).items()}
    # The criteria of the latest run come first, in its order. Criteria that only earlier runs have come last.
    criteria = dict.fromkeys(chain.from_iterable(dict.fromkeys(reversed(answers["criteria"]))))
    columns["criterion"] = _categories([*chain.from_iterable(answers["criteria"])], criteria, ordered=True)
    columns["score"] = _array(float, [*chain.from_iterable(answers["score"])])
    columns["missing"] = _array(str, [*chain.from_iterable(answers["missing"])])
    columns |= {
        name: _array(_ANSWER[name], answers[name])[row]
        for name in ("status", "passed", "processing_time", "cost_usd", "judge_model_resolved")
    }
    # Nearly every hash is different. As categories they would take ten times as long.
    columns["answer_sha256"] = pd.array(answers["answer_sha256"], dtype="str")[row]
    if text:
        columns["rationale"] = pd.array([*chain.from_iterable(answers["rationale"])], dtype="str")
    return pd.DataFrame(columns | {name: own[name][run] for name in _SHARED_LAST}, copy=False)


def _run_columns(runs: Sequence[LoggedRun]) -> dict[str, Any]:
    rows = ((run.run_id, run.log, moment_of(run.started_at), *run.values) for run in runs)
    columns = zip(RUN_COLUMNS.items(), _turned(rows, len(RUN_COLUMNS)), strict=True)
    return {name: _array(kind, values) for (name, kind), values in columns}


def _answer_columns(runs: Sequence[LoggedRun]) -> dict[str, Sequence[Any]]:
    answers = chain.from_iterable(run.answers for run in runs)
    return dict(zip(Answer._fields, _turned(answers, len(Answer._fields)), strict=True))


def _turned(rows: Iterable[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) or [()] * width


def _array(kind: Any, values: Sequence[Any]) -> Any:
    """Return values as pandas' array of the type in docs/frames.md. `kind` is their annotation."""
    plain = {*(get_args(kind) or [kind])} - {NoneType}
    if plain == {datetime}:
        return pd.DatetimeIndex(np.array(values, "datetime64[us]")).tz_localize("UTC")
    found: Any = np.array(values, np.float64) if float in plain else values  # None becomes NaN
    for one, name in _TYPES.items():
        if one in plain:
            return pd.array(found, dtype=name)
    return _categories(values, dict.fromkeys(values))  # in the order in which they first occur


def _categories(values: Sequence[Any], names: Iterable[str], *, ordered: bool = False) -> pd.Categorical:
    places = {name: place for place, name in enumerate(names)}
    kind = pd.CategoricalDtype(pd.Index(list(places), dtype=object), ordered=ordered)
    codes = np.fromiter(map(places.__getitem__, values), np.min_scalar_type(-max(len(places), 1)), len(values))
    return pd.Categorical.from_codes(codes, dtype=kind, validate=False)


def _question(answers: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    ids, category = answers["question_id"], answers["category"]
    names = np.empty(len(ids), object)
    names[:] = ids
    return {
        "question_id": names.astype("int64") if all(isinstance(each, int) for each in set(ids)) else names,
        "category": _categories(category, dict.fromkeys(category), ordered=True),  # in the order of the dataset
        "answer_repeat": np.array(answers["answer_repeat"], np.int64),
        "judge_repeat": np.array(answers["judge_repeat"], np.int64),
    }
