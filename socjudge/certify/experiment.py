"""An experiment on a judge: cases made from answers, judged through the engine of a run, read as findings.

Probes, injections, anchoring and prompts are the four; a certificate asks for all of them at once."""

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
from ..settings import project_rubric
from .cases import Case, Judged, estimate_cases, judge_parts, make_terms
from .subjects import Given, Subject, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True)
class Plan:
    """What is put before the judge. parts: cases, each with the prompt they are judged by; left_out: question_id, case, status
    and note of what is not."""

    parts: Sequence[tuple[Sequence[Case], Prompt]] = field(repr=False)
    rubric: Rubric
    left_out: Sequence[dict[str, Any]] = field(default=(), repr=False)

    def estimate(self, judge_model: str | BaseChatModel | Model) -> Estimate:
        """Calls, tokens and list price; sends nothing."""
        first, *others = (
            estimate_cases(cases, judge_model=judge_model, judge_prompt=prompt, rubric=self.rubric)
            for cases, prompt in self.parts
        )
        return sum(others, first)


@dataclass(frozen=True)
class Outcome:
    """What an experiment found. findings: its frame; judged: the marks behind it, part by part.

    usage: what they took; stopped: why the money did not suffice, or nothing; words: the findings in plain words."""

    experiment: Experiment
    findings: pd.DataFrame = field(repr=False)
    judged: tuple[Judged, ...] = field(repr=False)

    @property
    def usage(self) -> Usage:
        return total_usage(part.usage for part in self.judged)

    @property
    def stopped(self) -> str:
        return next((part.stopped for part in self.judged if part.stopped), "")

    @cached_property
    def words(self) -> str:
        return self.experiment.explain(self.findings)


class Experiment(ABC):
    """One way to try a judge. Its fields are its own settings; what is common to all is said to `estimate` and `run`."""

    @abstractmethod
    def cases(self, subjects: Sequence[Subject], prompt: Prompt, rubric: Rubric) -> Plan:
        """What is put before the judge, in the order in which it is worth having: a budget may end midway."""

    @abstractmethod
    def findings(self, plan: Plan, judged: Sequence[Judged]) -> pd.DataFrame:
        """The frame of the experiment; marks of cases that are not its own are left alone."""

    @abstractmethod
    def explain(self, findings: pd.DataFrame) -> str:
        """The findings in plain words, in the language of messages."""

    def plan(
        self, given: Given, *, judge_prompt: Prompt | str | Path | None = None, rubric: Rubric | None = None
    ) -> Plan:
        """The cases of `run` with the same arguments; sends nothing."""
        rubric = rubric or project_rubric()
        return self.cases(find_subjects(given), load_prompt(judge_prompt, rubric=rubric), rubric)

    def estimate(
        self,
        given: Given,
        *,
        judge_model: str | BaseChatModel | Model = "auto",
        judge_prompt: Prompt | str | Path | None = None,
        rubric: Rubric | None = None,
    ) -> Estimate:
        """Calls, tokens and list price of `run` with the same arguments; sends nothing."""
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
        """Have the judge mark the cases, and read what it made of them.

        Parameters
        ----------
        given
            A log, a run, or a list of (question, answer). Good answers: what has no points cannot lose any.
        judge_model, judge_prompt, rubric, progress, options
            As in `run_evaluation_suite`.
        max_cost_usd
            A hard cap on all of it together.
        logs_dir
            Where the log of the judgements goes, "certify" below the project's logs unless given: it is no run of the
            assistant and stays out of the history.

        Returns
        -------
        Outcome
            `findings` is the frame that the experiment describes, `words` says the same in words. Status in frames: "ok",
            "unparsable", "failed", "not_judged" (the budget was used up), "not_chosen", "not_applicable".

        Raises
        ------
        SocJudgeError
            As in `run_evaluation_suite`; ConfigError where there is no answer, or the judge never keeps to the format. A
            used-up budget raises nothing: what was paid for is there, the rest is "not_judged", and the same call with a
            larger budget goes on.
        """
        plan = self.plan(given, judge_prompt=judge_prompt, rubric=rubric)
        terms = make_terms(options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=progress)
        judged = judge_parts(plan.parts, terms, judge_model=judge_model, rubric=plan.rubric)
        return Outcome(self, self.findings(plan, judged), tuple(judged))
