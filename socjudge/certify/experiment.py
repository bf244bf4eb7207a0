"""Test a judge by an experiment: make cases from answers, let the judge score them, and build the findings.

There are four experiments: probes, injections, anchoring and prompts. A certificate uses all of them in one run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..models.budget import Budget
from ..models.opening import Model
from ..prompts.templates import Prompt, load_prompt
from ..records import Rubric, RunOptions, Usage, total_usage
from ..runs.estimate import Estimate
from ..settings import open_project
from .cases import Case, Judged, estimate_cases, judge_parts, make_terms
from .subjects import Given, Subject, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True)
class Plan:
    """Hold the cases that an experiment lets the judge score. A case is a changed or unchanged answer."""

    parts: Sequence[tuple[Sequence[Case], Prompt]] = field(repr=False)
    rubric: Rubric
    # per case that is not judged: question_id, case, status and note
    left_out: Sequence[dict[str, Any]] = field(default=(), repr=False)

    def estimate(self, judge_model: str | BaseChatModel | Model) -> Estimate:
        """Estimate the calls, tokens and list price of the plan. Nothing is sent to the judge."""
        first, *others = (
            estimate_cases(cases, judge_model=judge_model, judge_prompt=prompt, rubric=self.rubric)
            for cases, prompt in self.parts
        )
        return sum(others, first)


@dataclass(frozen=True)
class Outcome:
    """Hold the result of an experiment."""

    experiment: Experiment
    findings: pd.DataFrame = field(repr=False)  # the frame that the experiment's class describes
    judged: tuple[Judged, ...] = field(repr=False)  # one per part of the plan

    @property
    def usage(self) -> Usage:
        return total_usage(part.usage for part in self.judged)

    @property
    def stopped(self) -> str:
        """Return the message that the budget was not enough; "" if it was enough."""
        return next((part.stopped for part in self.judged if part.stopped), "")

    @cached_property
    def words(self) -> str:
        return self.experiment.explain(self.findings)


class Experiment(ABC):
    """Define one way to test a judge. The fields of a subclass are that experiment's own settings."""

    @abstractmethod
    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        """Plan the cases for the judge. The most useful cases come first, because the budget may run out midway."""

    @abstractmethod
    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        """Build the experiment's frame from the scores of the cases. Scores of other experiments' cases are ignored."""

    @abstractmethod
    def explain(self, findings: pd.DataFrame) -> str:
        """Return the findings in plain words, in the language of the messages."""

    def plan(
        self, given: Given, *, judge_prompt: Prompt | str | Path | None = None, rubric: Rubric | None = None
    ) -> Plan:
        """Plan the cases that `run` judges with the same arguments. Nothing is sent to the judge."""
        rubric = rubric or open_project().rubric
        return self.cases(find_subjects(given), load_prompt(judge_prompt, rubric=rubric), rubric)

    def estimate(
        self,
        given: Given,
        *,
        judge_model: str | BaseChatModel | Model = "auto",
        judge_prompt: Prompt | str | Path | None = None,
        rubric: Rubric | None = None,
    ) -> Estimate:
        """Estimate the calls, tokens and list price of `run` with the same arguments. Nothing is sent to the judge."""
        return self.plan(given, judge_prompt=judge_prompt, rubric=rubric).estimate(judge_model)

    def run(
        self,
        given: Given,
        *,
        judge_model: str | BaseChatModel | Model = "auto",
        judge_prompt: Prompt | str | Path | None = None,
        rubric: Rubric | None = None,
        max_cost_usd: Budget | float | None = None,
        logs_dir: Path | str | None = None,
        progress: bool = True,
        options: RunOptions | None = None,
    ) -> Outcome:
        """Let the judge score the cases, and build the findings from its scores.

        Parameters
        ----------
        given
            The answers: a log, a run, or a list of (question, answer). Use good answers, because an answer with no
            points cannot lose any.
        judge_model, judge_prompt, rubric, progress, options
            As in `run_evaluation_suite`.
        max_cost_usd
            A hard cap on the cost of all cases together, in US dollars.
        logs_dir
            The folder for the log of the judgements; if left out, "certify" below the project's logs, which keeps the
            log out of the history.

        Returns
        -------
        Outcome
            `findings` is the frame that the experiment's class describes, and `words` a summary. The column status has
            "ok", "unparsable", "failed", "not_judged" (the budget was used up), "not_chosen" or "not_applicable".

        Raises
        ------
        SocJudgeError
            As in `run_evaluation_suite`. ConfigError if there is no answer, or if no reply of the judge has the right
            format. A used-up budget raises nothing: what was paid for is returned, and the same call with a larger
            budget continues.
        """
        plan = self.plan(given, judge_prompt=judge_prompt, rubric=rubric)
        terms = make_terms(options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=progress)
        judged = judge_parts(plan.parts, terms, judge_model=judge_model, rubric=plan.rubric)
        return Outcome(self, self.findings(plan, judged), tuple(judged))
