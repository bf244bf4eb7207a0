"""Compare how several judges scored the same answers: their means, verdicts and single scores, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.missing_marks import frame_spans
from ..base.pass_rule import PassRule, reaches
from ..base.verdict import Verdict, summary_verdict
from ..records import RunSummary, is_embedded
from ..stats.basics import OVERALL, in_order
from ..stats.combined_judges import combine_judges
from . import contents

_ANSWER = ["question_id", "answer_repeat", "answer_sha256"]


@dataclass(frozen=True)
class JudgesBeside:
    """Hold how several judges scored the same answers.

    All lists with one entry per judge are in the order of `names`: the judge with the oldest run comes first.

    - verdicts: the verdict of each judge alone.
    - summaries: the summaries from which the verdicts come.
    - rows: one per criterion, 総合 (overall) last. A row has the criterion's name, the `means` (one row of `means_of` per
      judge), the `gap` between the highest and the lowest mean, and `agreed`: the share of answers for which all judges
      are on the same side of the pass line. For this share, only answers that all judges could score count. `gap` is
      None if fewer than two judges have a mean, and `agreed` if there is no such answer.
    - split: the questions with an answer for which the judges are on different sides of the pass line.
    - n_answers: the number of answers that all judges could score.
    - marks: {(question, answer repeat): [(judge, row of `rows_shown`)]}, without the judge whose run the page is about.
    """

    names: list[str]
    run_ids: list[str]
    verdicts: list[Verdict]
    summaries: list[RunSummary]
    rows: list[dict[str, Any]]
    split: list[Any]
    n_answers: int
    marks: dict[tuple[Any, Any], list[tuple[str, dict[Any, Any]]]]


def judges_beside(
    scores: pd.DataFrame, results: pd.DataFrame | None, run_id: str, rule: PassRule
) -> JudgesBeside | None:
    """Compare the run with other judges' runs that have exactly the same answers and the same prompt.

    Return None if there is no such run. If a judge scored the answers in several runs, its latest run is used.

    - scores, results: as for `write_report`.
    - rule: the pass rule.
    """
    runs = _same_answers(scores, run_id)
    if len(runs) < 2:
        return None
    parts = {name: scores[scores["run_id"] == name] for name in runs}
    answers = {name: contents.answers_of(part, results, name) for name, part in parts.items()}
    summaries = [contents.summaries_of(each, rule)[0] for each in answers.values()]
    resolved = [contents.run_of(scores, name)["judge_model_resolved"] for name in runs]
    verdicts = [
        summary_verdict(each, is_reference=is_embedded(name)) for each, name in zip(summaries, resolved, strict=True)
    ]
    criteria = in_order(parts[run_id]["criterion"])
    together = pd.concat(list(parts.values()))
    wholes = pd.concat([_wholes(parts[name], answers[name]) for name in runs])
    means = [{row["criterion"]: row for row in contents.means_of(part)} for part in parts.values()]
    rows = []
    for criterion in [*criteria, OVERALL]:
        own = [each.get(criterion) for each in means]
        known = [row["mean"] for row in own if row is not None and not pd.isna(row["mean"])]
        gap = max(known) - min(known) if len(known) > 1 else None
        sides = _sides(
            wholes if criterion == OVERALL else together[together["criterion"] == criterion], len(runs), rule
        )
        agreed = float(sides["agreed"].mean()) if len(sides) else None
        rows.append({"criterion": criterion, "means": own, "gap": gap, "agreed": agreed})
    split = list(dict.fromkeys(sides.loc[~sides["agreed"], "question_id"]))  # the row of 総合 is the last
    others: dict[tuple[Any, Any], list[tuple[str, dict[Any, Any]]]] = {}
    for name, judge in runs.items():
        if name != run_id:
            for row in contents.rows_shown(answers[name], parts[name], criteria, rule.line):
                others.setdefault((row["question_id"], row["answer_repeat"]), []).append((judge, row))
    return JudgesBeside(
        list(runs.values()), list(runs), verdicts, summaries, rows, split, len(sides), others
    )  # fmt: skip


def _same_answers(scores: pd.DataFrame, run_id: str) -> dict[str, str]:
    """Return {run_id: judge} for this run, and for the latest run of each other judge that scored the same answers.

    The prompt must be the same too. The oldest run comes first.
    """
    own = scores[scores["run_id"] == run_id]
    judge, prompt = own[["judge_model", "prompt_sha256"]].iloc[0]
    mine = set(own[_ANSWER].itertuples(index=False, name=None))
    alike = scores[(scores["prompt_sha256"] == prompt) & (scores["judge_model"] != judge)]
    near = set(alike.loc[alike["answer_sha256"].isin(own["answer_sha256"]), "run_id"])
    order = scores.drop_duplicates("run_id").sort_values("started_at", kind="stable", na_position="first")
    judges = dict(zip(order["run_id"], order["judge_model"], strict=True))
    latest = {judge: run_id}
    for name in judges:
        if name in near and set(alike.loc[alike["run_id"] == name, _ANSWER].itertuples(index=False, name=None)) == mine:
            latest[judges[name]] = name
    return {name: judges[name] for name in judges if name in latest.values()}


def _wholes(own: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per judged answer with its mean score, in the columns that `combine_judges` needs.

    If the score of any criterion is missing, the answer's mean is set to missing, because it could not be compared with
    the means of other judges.

    - own: the scores of one run.
    - answers: from `answers_of`.
    """
    told = own.drop_duplicates(contents.ANSWER)[[*contents.ANSWER, "judge_model", "answer_sha256"]]
    spans = frame_spans(answers)
    marks = answers[contents.ANSWER].assign(average_score=spans["mean"].where(spans["low"] == spans["high"]))
    return told.merge(marks, on=contents.ANSWER)


def _sides(marks: pd.DataFrame, judges: int, rule: PassRule) -> pd.DataFrame:
    """Return one row for each answer that all judges could score.

    Columns: question_id; agreed: whether all judges are on the same side of the pass line.

    - marks: one row per answer and judge, with the score for one criterion or the mean score.
    - judges: the number of judges.
    """
    found = combine_judges(marks).drop_duplicates(["question_id", "answer_sha256"])
    found = found[found["judges_n"] == judges]
    low, high = (reaches(found[name].astype(float), rule.line) for name in ("judges_low", "judges_high"))
    return pd.DataFrame({"question_id": found["question_id"], "agreed": low == high})
