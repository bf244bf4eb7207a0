"""Collect the contents of a report from the frames of `load_scores` and `load_results`.

The contents are the run, its verdict, its means and questions, and the earlier run with which it is compared.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..base.conditions import conditions_of, differences
from ..base.missing_scores import Outcome, Span, frame_spans, outcome_of
from ..base.pass_rule import PassRule
from ..base.verdict import Tally, cause_text, marked_verdict
from ..errors import ConfigError
from ..history.columns import RUN_NAMES
from ..records import UNKNOWN, RunSummary
from ..stats.basics import OVERALL, summarise_scores
from .effect import compare_runs

_ALIKE = ["judge_model", "prompt_id", "prompt_sha256", "assistant_model", "dataset_sha256"]
ANSWER = ["question_id", "answer_repeat", "judge_repeat"]
OUTCOMES: tuple[Outcome, ...] = ("failed", "unscored", "open", "passed")  # the outcomes in the order of the page
FLAGS = {
    "insufficient_evidence": "insufficient evidence",
    "dangerous_operation": "dangerous operation",
    "ambiguous_query": "ambiguous question",
}


def run_of(scores: pd.DataFrame, run_id: str) -> dict[str, Any]:
    """Return {column: value} for the columns of the scores that describe the run.
    `judge_model_resolved` is a text that names all models that replied as the judge."""
    own = scores.loc[scores["run_id"] == run_id, list(RUN_NAMES)]
    judges = [name for name in dict.fromkeys(own["judge_model_resolved"]) if name not in ("", UNKNOWN)]
    return {**dict(zip(RUN_NAMES, own.iloc[0], strict=True)), "judge_model_resolved": ", ".join(judges) or UNKNOWN}


def previous(scores: pd.DataFrame, runs: pd.DataFrame) -> str | None:
    """Return the run_id of the latest earlier run with the same judge, prompt, assistant and dataset, and a question in
    common, or None. It is earlier than the last run of `runs`, which has one row per run, the oldest first."""
    questions = scores.groupby("run_id", observed=True)["question_id"].agg(set)
    own = runs.iloc[-1]
    same = runs[(runs[_ALIKE] == own[_ALIKE]).all(axis=1)]["run_id"].iloc[-2::-1]
    return next((name for name in same if questions[name] & questions[own["run_id"]]), None)


def summaries_of(answers: pd.DataFrame, rule: PassRule, asked: int) -> tuple[RunSummary, RunSummary]:
    """Return two summaries of the run: one that counts as the specification does, with zeros for unparsable replies,
    and the most favourable one, with 100 points for every missing score."""
    tally = Tally(asked)
    spans = frame_spans(answers).fillna({"mean": 0.0}).itertuples(index=False, name=None)
    for question, status, span in zip(answers["question_id"], answers["status"], spans, strict=True):
        tally.add(question, Span(*span), is_read=status == "ok")
    return tally.summary(rule), tally.best_case(rule)


def means_of(own: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the mean score of each criterion of a run, and last that of all criteria (総合), with their intervals."""
    rows = [*summarise_scores(own).to_dict("records"), *summarise_scores(own, by=()).to_dict("records")]
    return [{"criterion": OVERALL, **row} for row in rows]


def comparison_of(before: pd.DataFrame, own: pd.DataFrame) -> dict[str, Any]:
    """Compare the scores of a run with those of an earlier one, as the template of the report shows it.
    If `compare_runs` cannot compare the two, only their means stand side by side, as "unpaired"."""
    sides = [before, own]
    ids = [side["run_id"].iloc[0] for side in sides]
    told = conditions_of(pd.concat(sides, ignore_index=True))
    found: dict[str, Any] = {
        "before": run_of(before, ids[0]),
        # (name, value before, value after) of each condition that differs
        "causes": [each.words() for each in differences(told[ids[0]], told[ids[1]])],
    }
    try:
        effect = compare_runs(*sides)
        rows = [] if effect.is_unchanged else effect.differences.to_dict("records")
        return found | {"effect": effect.lines, "paired": rows}
    except ConfigError:  # another judging and other answers, or no common question: the means stand side by side
        means = [{row["criterion"]: row for row in means_of(side)} for side in sides]
        rows = [{"criterion": name, "before": means[0].get(name), "after": row} for name, row in means[1].items()]
        return found | {"unpaired": rows}


def missing_in(own: pd.DataFrame) -> list[tuple[str, str]]:
    """Return (criterion, cause) of each missing score, without doubles."""
    found = own.loc[own["missing"].fillna("") != "", ["criterion", "missing"]].drop_duplicates()
    return list(found.itertuples(index=False, name=None))


def rows_shown(answers: pd.DataFrame, own: pd.DataFrame, criteria: list[Any], line: float) -> list[dict[Any, Any]]:
    """Return the rows of the report's table of questions, one per judged answer, in the order of OUTCOMES.
    `marks` in a row is {criterion: (score, reason)}. The reason of a missing score (None) says why it is missing."""
    marks: dict[Any, dict[Any, Any]] = {}
    columns = [*ANSWER, "criterion", "score"]
    rows_of_marks = zip(own[columns].itertuples(index=False, name=None), own["rationale"], own["missing"], strict=True)
    for (*key, criterion, score), reason, cause in rows_of_marks:
        marks.setdefault(tuple(key), {})[criterion] = score, cause_text(cause) if cause else reason, cause
    rows = []
    spans = frame_spans(answers).itertuples(index=False, name=None)
    for answer, span in zip(answers.to_dict("records"), spans, strict=True):
        found = marks.get(tuple(answer[name] for name in ANSWER), {})
        told = {name: found.get(name, (None, "", "")) for name in criteria}
        missing = {name: cause for name, (_, _, cause) in told.items() if cause}
        scores = {name: None if pd.isna(score) else score for name, (score, _, _) in told.items()}
        verdict = marked_verdict(outcome_of(Span(*span), answer["status"], line), scores, missing)
        rows.append(
            {**answer, "verdict": verdict, "n_marked": sum(score is not None for score in scores.values()),
             "marks": {name: (score, reason) for name, (score, reason, _) in told.items()}}
        )  # fmt: skip
    return sorted(rows, key=lambda row: OUTCOMES.index(row["verdict"].outcome))
