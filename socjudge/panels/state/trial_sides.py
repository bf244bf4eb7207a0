"""Prepare the two sides of a trial, which are its base prompt and its edited prompt.

Each side knows what must be judged with its prompt, and whether the scores already exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...prompts.saved import judge_prompt_of
from ...prompts.templates import Prompt, load_prompt
from ...records import EvaluationRun
from ...runs.estimate import Estimate, estimate_plan
from ...runs.plan import Plan, plan_answers, plan_rejudging
from ...runs.unfinished import describe_journal, find_journal
from .trial_store import TrialSettings

if TYPE_CHECKING:
    from ...runbooks.index import RunbookIndex

# If these conditions are equal, the scores or the answers of a stored run are also those of a side.
_JUDGING = ("judge_model", "judge_service", "judge_prompt_sha256")
_ANSWERING = ("assistant_model", "assistant_service", "assistant_prompt_sha256", "index_fingerprint", "k")


@dataclass(frozen=True)
class Side:
    """Hold what must be done in a trial for one of its two prompts, the base prompt or the edited prompt."""

    run: EvaluationRun  # from whose log the trial takes the answers, reduced to those that the user chose
    plan: Plan  # what must be answered and judged with this prompt

    @property
    def is_asked(self) -> bool:
        """Return whether the assistant answers the questions again. If not, the stored answers are judged."""
        return self.plan.asks

    @property
    def identity(self) -> str:
        """Return a text that is the same for two sides that judge the same answers with the same settings."""
        return self.plan.identity.sha256

    @property
    def is_judged(self) -> bool:
        """Return whether `run` already has the scores of this side, because answers, prompt and judge are the same."""
        return not self.is_asked and self._agrees(_JUDGING)

    @property
    def is_answered(self) -> bool:
        """Return whether the answers in `run` were made under the conditions of this side (`_ANSWERING`)."""
        return self._agrees(_ANSWERING)

    def _agrees(self, names: tuple[str, ...]) -> bool:
        return all(getattr(self.plan.info, name) == getattr(self.run.run, name) for name in names)

    def count_done(self, logs_dir: Path) -> int:
        """Return how many answers an interrupted trial has already judged for this side, or 0."""
        journal = find_journal(logs_dir, self.plan.identity)
        return 0 if journal is None else describe_journal(journal).done

    def estimate(self) -> Estimate:
        """Return the estimated number and cost of this side's calls. Nothing is sent."""
        return estimate_plan(self.plan)


def get_sides(
    choice: TrialSettings, run: EvaluationRun, edited: Prompt, get_index: Callable[[], RunbookIndex]
) -> tuple[Side, Side]:
    """Return the two sides of a trial: that of the base prompt, then that of the edited prompt. Nothing is sent.
    Raises ConfigError if a prompt or a model cannot be used."""
    base = load_prompt(choice.base, rubric=run.rubric)

    def judging(prompt: Prompt) -> Side:
        judge = choice.judge_model
        return Side(run, plan_rejudging(run, judge_model=judge, judge_prompt=prompt, judge_repeats=1))

    if choice.kind == "judge":
        return judging(base), judging(edited)
    # The default judge prompt stands in for a prompt of the run that no longer exists.
    judge_prompt = judge_prompt_of(run.run) or load_prompt(None, rubric=run.rubric)
    questions = list({result.question.id: result.question for result in run.results}.values())

    def answering(prompt: Prompt) -> Side:  # only here is the index needed
        plan = plan_answers(
            questions, index=get_index(), answers=None, assistant_model=choice.assistant_model, assistant_prompt=prompt,
            judge_model=choice.judge_model, judge_prompt=judge_prompt, rubric=run.rubric,
            answer_repeats=1, judge_repeats=1, k=run.run.k,
        )  # fmt: skip
        return Side(run, plan)

    before, after = answering(base), answering(edited)
    # Stored answers that were made with the base prompt are judged. Then only the other side asks the assistant again.
    return judging(judge_prompt) if before.is_answered else before, after
