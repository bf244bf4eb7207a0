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
from ..stats.basics import OVERALL, need_columns, plain_floats, summarise_scores
from .effect import compare_runs

ANSWER = ["question_id", "answer_repeat", "judge_repeat"]
OUTCOMES: tuple[Outcome, ...] = ("failed", "unscored", "open", "passed")  # the outcomes in the order of the page
FLAGS = {
    "insufficient_evidence": "insufficient evidence",
    "dangerous_operation": "dangerous operation",
    "ambiguous_query": "ambiguous question",
}


def known(name: str | None, runs: pd.DataFrame, what: str) -> str | None:
    """Return `name` unchanged, also None. Raise ConfigError if no run has this log (if `what` is "log") or this run_id.
    `runs` has one row per run, the oldest first."""
    column = "log" if what == "log" else "run_id"
    if name is not None and name not in set(runs[column]):
        latest = ", ".join(map(str, runs[column].iloc[-5:]))
        raise ConfigError(
            "{what} {name!r} is not among the {count} runs; the latest are {latest}",
            what=what,
            name=name,
            count=len(runs),
            latest=latest,
        )
    return name


def rows_of(frame: pd.DataFrame, run_id: str, what: str) -> pd.DataFrame:
    """Return the rows of the run. Raises ConfigError if there are none. `what` is what the frame holds ("results")."""
    need_columns(frame, ["run_id"], f"write_report, {what}", f"load_{what}")
    rows = frame[frame["run_id"] == run_id]
    if rows.empty:
        raise ConfigError(
            "write_report: {what} has no row of run {run!r}; load it from the same logs as scores",
            what=what,
            run=run_id,
        )
    return rows


def run_of(scores: pd.DataFrame, run_id: str) -> dict[str, Any]:
    """Return {column: value} for the columns of the scores that describe the run.
    `judge_model_resolved` is a text that names all models that replied as the judge."""
    own = scores.loc[scores["run_id"] == run_id, list(RUN_NAMES)]
    judges = [name for name in dict.fromkeys(own["judge_model_resolved"]) if name not in ("", UNKNOWN)]
    return {**dict(zip(RUN_NAMES, own.iloc[0], strict=True)), "judge_model_resolved": ", ".join(judges) or UNKNOWN}


def previous(scores: pd.DataFrame, history: pd.DataFrame) -> str | None:
    """Return the run_id of the latest earlier run with the same dataset and a question in common, or None.
    It is earlier than the last run of `history`, which has one row per run, the oldest first."""
    questions = scores.groupby("run_id", observed=True)["question_id"].agg(set)
    run_id, dataset = history[["run_id", "dataset_sha256"]].iloc[-1]
    same = history[history["dataset_sha256"] == dataset]["run_id"].iloc[-2::-1]
    return next((name for name in same if questions[name] & questions[run_id]), None)


def answers_of(own: pd.DataFrame, results: pd.DataFrame | None, run_id: str) -> pd.DataFrame:
    """Return one row per judged answer of the run, with its average_score and, if given, all columns of `results`.
    Raises ConfigError if `results` has other answers than the scores `own`."""
    if results is None:
        kept = ["run_id", "category", "status", "pass_threshold", "pass_rate_required"]
        columns = {name: (name, "first") for name in kept if name in own.columns}
        ends = {
            f"average_{end}": plain_floats(own["score"]).fillna(points) for end, points in (("low", 0), ("high", 100))
        }
        grouped = own.assign(**ends).groupby(ANSWER, observed=True, sort=False)
        columns |= {name: (name, "mean") for name in ends}
        answers = grouped.agg(**columns, average_score=("score", "mean")).reset_index()  # type: ignore[call-overload]
        has_no_mark = answers["average_score"].isna() & (answers["status"] == "ok")
        return answers.assign(status=answers["status"].astype(object).mask(has_no_mark, "unparsable"))  # type: ignore[no-any-return]
    names = [*ANSWER, "category", "status", "average_score", *FLAGS]
    answers = rows_of(results, run_id, "results")
    need_columns(answers, names, "write_report, results", "load_results")
    scored = [
        set(part.loc[part["status"] == "ok", ANSWER].itertuples(index=False, name=None)) for part in (own, answers)
    ]
    if scored[0] != scored[1]:
        raise ConfigError(
            "write_report: scores has {scores} scored answers of run {run!r} and results {results}, or others; "
            "load both from the same logs with the same filters",
            run=run_id,
            scores=len(scored[0]),
            results=len(scored[1]),
        )
    return answers


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


def comparison_of(scores: pd.DataFrame, run_id: str, baseline: str | None) -> dict[str, Any] | None:
    """Compare the run with a baseline run, as the template of the report shows it. None if there is no baseline.
    If `compare_runs` cannot compare the two, only their means stand side by side, as "unpaired"."""
    if baseline is None:
        return None
    pair = scores[scores["run_id"].isin([baseline, run_id])]
    told = conditions_of(pair)
    found: dict[str, Any] = {
        "before": run_of(scores, baseline),
        # (name, value before, value after) of each condition that differs
        "causes": [each.words() for each in differences(told[baseline], told[run_id])],
    }
    sides = [pair[pair["run_id"] == name] for name in (baseline, run_id)]
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
    if "missing" not in own.columns:
        return []
    found = own.loc[own["missing"].fillna("") != "", ["criterion", "missing"]].drop_duplicates()
    return list(found.itertuples(index=False, name=None))


def rows_shown(answers: pd.DataFrame, own: pd.DataFrame, criteria: list[Any], line: float) -> list[dict[Any, Any]]:
    """Return the rows of the report's table of questions, one per judged answer, in the order of OUTCOMES.
    `marks` in a row is {criterion: (score, reason)}. The reason of a missing score (None) says why it is missing."""
    marks: dict[Any, dict[Any, Any]] = {}
    columns = [*ANSWER, "criterion", "score"]
    reasons, causes = (
        own[name] if name in own.columns else pd.Series("", index=own.index) for name in ("rationale", "missing")
    )
    rows_of_marks = zip(own[columns].itertuples(index=False, name=None), reasons, causes, strict=True)
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
