"""Move from one judge to another while both can still be called. Both judges score stored answers, and the changes are
reported.

The stored answers are sorted by category and by the old judge's score. The answers to judge are taken evenly from this
list. So they cover the categories and both sides of the pass line, and the result applies to the other stored answers
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .. import constants
from ..base.messages import say
from ..base.pass_rule import reaches
from ..base.storage import as_path
from ..errors import BudgetReached, ConfigError
from ..history.frames import load_results
from ..models.budget import as_budget
from ..models.opening import open_model
from ..prompts.saved import judge_prompt_of
from ..prompts.templates import Prompt, load_prompt
from ..records import EvaluationRun, Rubric, RunOptions, Usage
from ..runs.estimate import Estimate
from ..runs.finished_parts import forget_parts
from ..runs.load import load_run
from ..runs.unfinished import journal_folder
from ..stats.basics import OVERALL, pass_rate_interval
from ..stats.bridge import MIN_QUESTIONS, bridge_judges, questions_missing
from ..stats.comparison import pair_scores
from .cases import ORIGINAL, Case, estimate_cases, judge_parts, make_terms
from .subjects import Subject

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..models.opening import Model

SIZE = 40  # answers, if left out; docs/validation.md ("Another judge") says how well they show the corresponding line
ENOUGH = 5.0  # points; the interval of the corresponding line may reach this far to either side


@dataclass(frozen=True)
class MigrationPlan:
    """Hold which stored answers both judges will score, and the estimate of calls, tokens and cost.

    - stored: the number of stored answers from which these were chosen.
    - categories_left: the categories of which no answer was chosen.
    """

    old: str
    new: str
    cases: tuple[Case, ...] = field(repr=False)
    rubric: Rubric
    prompt: Prompt
    stored: int
    categories_left: tuple[str, ...]
    estimate: Estimate
    judges: tuple[Any, Any] = field(repr=False)


@dataclass(frozen=True)
class Migration:
    """Hold what changes if another judge takes over.

    - bridge: the frame of `bridge_judges`.
    - turned: the answers whose verdict changes, one row each, with question_id, answer_sha256, old_mean, new_mean and
      old_passed.
    - n: the number of answers that both judges scored.
    - share_low, share_high: the interval of the share of all stored answers whose verdict changes.
    - is_enough: whether the new pass line is known to ENOUGH points.
    - more: how many further questions are needed for this; None if it cannot be estimated.
    - usage: the usage of both judges.
    - one_sided: True if all answers passed with the old judge, False if none did, None if some did and some did not.
    """

    plan: MigrationPlan = field(repr=False)
    bridge: pd.DataFrame = field(repr=False)
    turned: pd.DataFrame = field(repr=False)
    n: int
    share_low: float
    share_high: float
    is_enough: bool
    more: int | None
    usage: Usage
    one_sided: bool | None = None

    @property
    def overall(self) -> pd.Series:
        """Return the row of `bridge` for the mean over the criteria (総合)."""
        return self.bridge[self.bridge["criterion"] == OVERALL].iloc[0]


def plan_migration(
    logs_dir: Path | str | None = None,
    *,
    old: str,
    new: str | BaseChatModel | Model,
    size: int = SIZE,
    seed: int = 0,
) -> MigrationPlan:
    """Choose stored answers that the old judge judged and that both judges will score. Estimate what this costs.
    Nothing is sent to a judge.

    Parameters
    ----------
    logs_dir
        The folder of the logs; the project's if left out.
    old, new
        The two judges. The old judge is given by its name in the logs. Only answers that it judged with the prompt of
        its latest run are used. Both judges get this prompt, and the rubric of that run.
    size
        Number of answers, taken evenly by category and by the old judge's score. If there are fewer answers, all are
        taken.
    seed
        Random seed that decides which answer is taken first.

    Returns
    -------
    MigrationPlan
        Its `estimate` is of the calls, tokens and cost of both judges.

    Raises
    ------
    ConfigError
        If the old judge has scored nothing, or answers to fewer than eight questions; if `load_prompt` refuses the
        prompt; if the name of a judge is not usable.

    Examples
    --------
    >>> import socjudge as sj
    >>> old = sj.load_runs("logs").judge_model.iloc[-1]
    >>> sj.certify.plan_migration("logs", old=old, new="offline").estimate.calls >= 0
    True
    """
    results = load_results(logs_dir)
    results = results[(results["judge_model"] == old) & (results["status"] == "ok")]
    if results.empty:
        raise ConfigError(say("certify.migrate_no_marks", old=old))
    latest = results.sort_values("started_at", kind="stable").iloc[-1]
    results = results[results["prompt_sha256"] == latest["prompt_sha256"]]
    folder = as_path(logs_dir) if logs_dir is not None else None
    run = _load(folder, str(latest["log"]))
    picked = pick_answers(results, size, seed=seed)
    if (count := picked["question_id"].nunique()) < MIN_QUESTIONS:
        raise ConfigError(say("certify.migrate_few", old=old, count=count, least=MIN_QUESTIONS))
    cases = tuple(_cases(picked, folder))
    rubric, prompt = run.rubric, load_prompt(judge_prompt_of(run.run), rubric=run.rubric)
    judges = open_model(old), open_model(new)
    how: dict[str, Any] = {"judge_prompt": prompt, "rubric": rubric}
    first, second = (estimate_cases(cases, judge_model=judge, **how) for judge in judges)
    missing = [name for name in dict.fromkeys(results["category"]) if name not in set(picked["category"])]
    stored = len(_answers(results))
    return MigrationPlan(
        judges[0].name, judges[1].name, cases, rubric, prompt, stored, tuple(map(str, missing)), first + second, judges
    )


def pick_answers(results: pd.DataFrame, size: int, *, seed: int = 0) -> pd.DataFrame:
    """Pick `size` stored answers, spread evenly over the categories and, within each, over the old judge's scores.

    results: one row per judged answer, from `load_results`.

    If there are at most `size` answers, all are picked.
    """
    answers = _answers(results).sort_values(["category", "average_score", "answer_sha256"], kind="stable")
    n, start = len(answers), np.random.default_rng(seed).random()
    if n <= size:
        return answers
    return answers.iloc[((np.arange(size) + start) * n / size).astype(int)]


def migrate_judge(
    plan: MigrationPlan,
    *,
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> Migration:
    """Let both judges score the answers of the plan, and return what changes.

    If a call was interrupted, call again with the same plan. The new call continues where the old one stopped.

    Parameters
    ----------
    plan
        From `plan_migration`.
    max_cost_usd
        A hard cap on the cost of both judges together, in US dollars; the project's cap if left out, infinity for no
        cap.
    logs_dir
        The folder for the logs of the judgements; "certify" below the project's logs if left out.
    progress, options
        As in `run_evaluation_suite`.

    Returns
    -------
    Migration
        `write_migration_page` makes a page of it.

    Raises
    ------
    SocJudgeError
        As in `run_evaluation_suite`. BudgetReached if the cap is reached before all answers are judged.

    Examples
    --------
    >>> import socjudge as sj
    >>> old = sj.load_runs("logs").judge_model.iloc[-1]
    >>> plan = sj.certify.plan_migration("logs", old=old, new="offline", size=8)
    >>> plan.new
    'offline'
    """
    budget = as_budget(max_cost_usd)
    terms = make_terms(options, logs_dir=logs_dir, max_cost_usd=budget, progress=progress)
    marks, usage, logs = [], Usage(), []
    answers = {case.variant: case.subject.answer_sha256 for case in plan.cases}
    for name, judge in zip((plan.old, plan.new), plan.judges, strict=True):
        (judged,) = judge_parts([(plan.cases, plan.prompt)], terms, judge_model=judge, rubric=plan.rubric)
        if judged.stopped:
            raise BudgetReached(judged.stopped)
        usage += judged.usage
        logs.append(judged.log_path)
        marks.append(judged.marks.assign(judge_model=name, answer_sha256=judged.marks["variant"].map(answers)))
    found = what_changes(plan, pd.concat(marks, ignore_index=True), usage)
    forget_parts(journal_folder(terms.logs_dir or ""), logs)
    return found


def what_changes(plan: MigrationPlan, scores: pd.DataFrame, usage: Usage) -> Migration:
    """Compute what changes with the new judge, from the two judges' scores of the same answers."""
    line = plan.rubric.pass_threshold
    scores = scores.assign(
        pass_threshold=line, criterion=pd.Categorical(scores["criterion"], plan.rubric.criteria, ordered=True)
    )
    bridge = bridge_judges(scores, old=plan.old, new=plan.new)
    pairs = pair_scores(scores, plan.old, plan.new, by="judge_model", who="migrate_judge")
    both = pairs[pairs["criterion"] == OVERALL].dropna(subset=["first", "second"])
    both = both.assign(old_passed=reaches(both["first"], line))
    turned = both[both["old_passed"] != reaches(both["second"], line)]
    turned = turned.rename(columns={"first": "old_mean", "second": "new_mean"})
    low, high = pass_rate_interval(len(turned), len(both))
    row = bridge[bridge["criterion"] == OVERALL].iloc[0]
    reach = max(row["pass_line_high"] - row["pass_line"], row["pass_line"] - row["pass_line_low"])
    more = questions_missing(reach, int(row["n"]), ENOUGH) if math.isfinite(reach) else None
    turned = turned[["question_id", "answer_sha256", "old_mean", "new_mean", "old_passed"]].reset_index(drop=True)
    sides = set(both["old_passed"])
    one_sided = bool(*sides) if len(sides) == 1 else None
    return Migration(plan, bridge, turned, len(both), low, high, more == 0, more, usage, one_sided)


def _answers(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each stored answer: its first one, if it was judged several times."""
    return results.drop_duplicates(["question_id", "answer_sha256"])


def _cases(picked: pd.DataFrame, folder: Any) -> Iterator[Case]:
    number = 0
    for log, rows in picked.groupby("log", observed=True, sort=True):
        wanted = set(zip(rows["question_id"], rows["answer_sha256"], strict=True))
        for result in _load(folder, str(log)).results:
            subject = Subject(result.question, result.answer)
            if (key := (result.question.id, subject.answer_sha256)) in wanted:
                wanted.remove(key)
                yield Case(result.question.id, ORIGINAL, number, subject)
                number += 1


def _load(folder: Any, log: str) -> EvaluationRun:
    return load_run((folder or constants.LOGS_DIR) / log)
