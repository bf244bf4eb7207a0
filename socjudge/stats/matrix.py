"""Show how each question did in each run: the frame behind the matrix of questions and runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..base.conditions import conditions_of
from ..base.pass_rule import PassRule, frame_rule, reaches
from ..base.verdict import frame_undecided
from .basics import need_columns, question_means

# What a cell shows beside its score. A run that did not ask the question has no row.
PASSED, UNDECIDED, FAILED, UNSCORED = "○", "△", "×", "–"
# {condition by which people know a run, the most telling first: what stands before its value}
_TELLING = {
    "judge_model": "", "prompt_id": "", "assistant_model": "←", "assistant_prompt_id": "", "assistant_version": "",
    "k": "k", "pass_threshold": "≥",
}  # fmt: skip


def question_matrix(scores: pd.DataFrame, *, line: float | None = None) -> pd.DataFrame:
    """Return one row per run and question of a frame from `load_scores`. `line`: another pass line (points) than each
    run's own."""
    # mean: of the known scores over criteria and repeats (0–100, missing if there is none); low and high: with 0 and with
    # 100 for each missing score; missing: how many are; sign: ○ passes, × fails, △ depends on missing scores or on a line
    # that nobody knows, – has none.
    need_columns(scores, ["run_id", "question_id", "criterion", "score"], "question_matrix", "load_scores")
    used = {"run_id", "question_id", "criterion", "score", "judge_model", "prompt_id", "answer_sha256", "answer_repeat"}
    used |= {"pass_threshold", "pass_rate_required", "contradictory"}
    scores = scores[[name for name in scores.columns if name in used]].astype({"run_id": object, "score": "float64"})
    keys = ["run_id", "question_id"]
    table = question_means(scores, keys).rename(columns={"score": "mean"}).set_index(keys)
    for name, filled in (("low", 0.0), ("high", 100.0)):
        whole = question_means(scores.assign(score=scores["score"].fillna(filled)), keys)
        table[name] = whole.set_index(keys)["score"]
    table["missing"] = scores["score"].isna().groupby([scores[key] for key in keys], observed=True).sum()
    lines = {run_id: rule.line for run_id, rule in _rules(scores).items()}
    own = table.index.get_level_values("run_id").map(lines).to_numpy(float) if line is None else line
    low, high = (reaches(table[name].to_numpy(), own) for name in ("low", "high"))
    known = np.where(low, PASSED, np.where(high, UNDECIDED, FAILED))
    if line is None and "contradictory" in scores:
        unclear = scores.loc[scores["contradictory"].fillna(False).astype(bool), "run_id"].unique()
        known[table.index.get_level_values("run_id").isin(unclear)] = UNDECIDED
    table["sign"] = np.where(table["mean"].isna(), UNSCORED, known)
    return table.reset_index()


def run_verdicts(scores: pd.DataFrame, *, line: float | None = None) -> pd.DataFrame:
    """Return one row per run, indexed by run_id: line, questions, passed and undecided (numbers of questions), mean
    (0–100) and outcome, "passed", "failed" or "open". `line`: another pass line (points) than each run's own."""
    # It is open if it depends on missing scores, or if the run has no verdict for another reason.
    cells = question_matrix(scores, line=line)
    rows = {}
    names = ["question_id", "answer_repeat", "judge_repeat", "asked", "judges_asked", "contradictory"]
    names = [name for name in names if name in scores]
    for run_id, rule in _rules(scores).items():
        own, run = cells[cells["run_id"] == run_id], scores.loc[scores["run_id"] == run_id, names]
        rule = rule if line is None else PassRule(line, rule.rate)
        passed, total = int((own["sign"] == PASSED).sum()), len(own)
        possible = int(reaches(own["high"], rule.line).sum())
        outcome = "failed" if not rule.is_met(possible, total, own["high"].mean()) else "open"
        if rule.is_met(passed, total, own["low"].mean()):
            outcome = "passed"
        rows[run_id] = {
            "line": rule.line, "questions": total, "passed": passed, "undecided": possible - passed,
            "mean": own["mean"].mean(), "outcome": "open" if frame_undecided(run) else outcome,
        }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run_id")


def run_names(scores: pd.DataFrame) -> dict[Any, str]:
    """Return {run id: its judge, and what else with a name tells it apart}, such as 「gpt-4o / strict-1」."""
    told = conditions_of(scores)
    differing = [name for name in _TELLING if len({each.get(name, "") for each in told.values()}) > 1]
    return {
        run_id: " / ".join(
            f"{words}\u00a0{each[name]}".strip() for name, words in _TELLING.items() if each.get(name) and name in shown
        )
        for run_id, each in told.items()
        for shown in [{"judge_model", *differing}]
    }


def _rules(scores: pd.DataFrame) -> dict[Any, PassRule]:
    names = ["run_id", *(name for name in ("pass_threshold", "pass_rate_required") if name in scores)]
    runs = scores[names].drop_duplicates("run_id")
    return {run_id: frame_rule(row) for run_id, row in runs.groupby("run_id", sort=False, observed=True)}
