"""Try an edited prompt on the answers of a stored run, and compare it with the prompt that it was made from."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from .. import constants
from ..base.files import as_path
from ..errors import ConfigError
from ..models.opening import Model
from ..prompts.saved import judge_prompt_of
from ..prompts.templates import Kind, Prompt, check_prompt, default_prompt_id, load_prompt
from ..records import UNKNOWN, EvaluationResult, EvaluationRun, RunOptions, is_embedded, total_usage
from ..runs.forecast import RunPlan, foresee, shared_budget
from ..runs.logs import load_run, log_files
from ..runs.plan import STORED, Plan, plan_answers, plan_rejudging
from .effect import FLIPS, RunComparison, compare_runs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..runbooks.index import RunbookIndex

# If these conditions are equal, the scores or the answers of the stored run are also those of the base prompt.
_JUDGING = ("judge_model", "judge_service", "embedded_judge", "judge_prompt_sha256")
_ANSWERING = ("assistant_model", "assistant_service", "assistant_prompt_sha256", "index_fingerprint", "k")


class QuestionChange(NamedTuple):
    before: tuple[EvaluationResult, ...]  # the results on a question with the base prompt
    after: tuple[EvaluationResult, ...]  # and with the edited prompt
    direction: str  # one of FLIPS; empty if the verdict did not change


@dataclass(frozen=True)
class PromptTrial:
    """What an edited prompt changed, compared with its base prompt. `socjudge.try_prompt` makes it."""

    before: EvaluationRun  # with the base prompt
    after: EvaluationRun  # with the edited prompt
    same_answers: bool  # whether both prompts were tried on the same answers
    # the runs that this trial paid for: `after`, and `before` if it was not known
    made: tuple[EvaluationRun, ...] = field(repr=False)

    @cached_property
    def comparison(self) -> RunComparison:
        """Return the comparison of the two runs, on the questions that were tried with the edited prompt."""
        tried = {result.question.id for result in self.after.results}
        kept = [result for result in self.before.results if result.question.id in tried]
        return compare_runs(replace(self.before, results=kept), self.after)

    @cached_property
    def questions(self) -> list[QuestionChange]:
        """Return the results question by question. Those whose verdict changed come first."""
        found = self.comparison.questions
        changes = [
            QuestionChange(_of(self.before, question), _of(self.after, question), way if way in FLIPS else "")
            for question, way in zip(found["question_id"], found["direction"], strict=True)
        ]
        return sorted(changes, key=lambda both: not both.direction)

    @property
    def flips(self) -> pd.DataFrame:
        """Return the rows of `comparison.questions` whose verdict the edited prompt turned."""
        found = self.comparison.questions
        return found[found["direction"].isin(FLIPS)].reset_index(drop=True)

    @property
    def difference(self) -> float | None:
        """Return by how many points the edited prompt changed the mean score over questions and criteria.
        A positive number means higher scores with the edited prompt. Return None if nothing could be compared."""
        moved = self.comparison.differences["mean_difference"].iloc[-1]  # the row of 総合
        return None if pd.isna(moved) else float(moved)

    @property
    def cost_usd(self) -> float | None:
        """Return what the trial has cost in US dollars, with both prompts. Return None if it is unknown."""
        return total_usage(run.usage for run in self.made).cost_usd

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()


@dataclass(frozen=True)
class TrialPlan:
    """What a trial would ask and cost. `known` has the scores with the base prompt if they exist already."""

    sides: list[RunPlan]  # what must be judged: with the base prompt, unless it is known, and with the edited one
    known: EvaluationRun | None
    kind: Kind

    @property
    def base_calls(self) -> int:
        """Return how many of the calls that are left are made with the base prompt."""
        return sum(side.left.calls for side in self.sides[:-1])

    @property
    def is_unread(self) -> bool:
        """Return whether an embedded model has the prompt's task, so that no model reads the edited prompt."""
        edited = self.sides[-1].plan
        reader = edited.judge if self.kind == "judge" else edited.assistant
        return reader is not None and is_embedded(reader.name)

    @property
    def paid(self) -> list[EvaluationRun]:
        """Return what counts against the cap: the run of the base prompt, if no trial has ended since it was judged."""
        newest = log_files(self.sides[0].logs_dir)[-1:]
        return [self.known] if self.known is not None and self.known.log_path in newest else []

    def effect_of(self, made: Sequence[EvaluationRun]) -> PromptTrial:
        return PromptTrial(self.known or made[0], made[-1], self.kind == "judge", tuple(made))


def plan_trial(
    run: EvaluationRun,
    text: str,
    *,
    kind: Kind = "judge",
    base: str | None = None,
    judge_model: str | BaseChatModel | Model | None = None,
    assistant_model: str | BaseChatModel | Model | None = None,
    get_index: Callable[[], RunbookIndex] | None = None,
    logs_dir: Path | str | None = None,
    options: RunOptions | None = None,
) -> TrialPlan:
    """Return what `try_prompt` with these arguments would ask and cost. No request is sent."""
    base = base or (run.run.judge_prompt_id if kind == "judge" else run.run.assistant_prompt_id)
    before = _known_prompt(run, base, kind)
    edited = Prompt(before.id, text)
    edited = replace(edited, id=f"{before.id}+{edited.sha256[:8]}")  # logs show this id
    check_prompt(edited, kind, run.rubric)
    judge = judge_model or usual_model_of(run.run.judge_model)
    folder = constants.LOGS_DIR / "trials" if logs_dir is None else as_path(logs_dir)

    def judging(prompt: Prompt) -> Plan:
        return plan_rejudging(run, judge_model=judge, judge_prompt=prompt, judge_repeats=1)

    if kind == "judge":
        sides = judging(before), judging(edited)
    else:
        # The default judge prompt stands in for a prompt of the run that no longer exists.
        judge_prompt = judge_prompt_of(run.run) or load_prompt(None, rubric=run.rubric)
        questions = list({result.question.id: result.question for result in run.results}.values())
        if get_index is None:
            from ..runbooks.index import open_index  # loads faiss

            get_index = open_index
        index = get_index()

        def answering(prompt: Prompt) -> Plan:
            return plan_answers(
                questions,
                index=index,
                answers=None,
                assistant_prompt=prompt,
                judge_model=judge,
                assistant_model=assistant_model or usual_model_of(run.run.assistant_model),
                judge_prompt=judge_prompt,
                rubric=run.rubric,
                answer_repeats=1,
                judge_repeats=1,
                k=run.run.k,
            )

        sides = answering(before), answering(edited)
        # Stored answers that were made with the base prompt are judged. Only the other side asks the assistant again.
        if _agrees(sides[0], run, _ANSWERING):
            sides = judging(judge_prompt), sides[1]
    has_scores = not sides[0].asks and _agrees(sides[0], run, _JUDGING)
    known = run if has_scores else _done(sides[0], folder)
    plans = [foresee(side, options, folder) for side in (sides if known is None else sides[1:])]
    return TrialPlan(plans, known, kind)


def try_prompt(
    run: EvaluationRun,
    text: str,
    *,
    kind: Kind = "judge",
    base: str | None = None,
    judge_model: str | BaseChatModel | Model | None = None,
    assistant_model: str | BaseChatModel | Model | None = None,
    index: RunbookIndex | None = None,
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> PromptTrial:
    """Try an edited prompt on the answers of a stored run, and say what it changed against its base prompt.

    The base prompt is judged too, unless the run, or a log of an earlier trial, has its scores. The logs go to a folder
    of their own, so that trials are not part of the history.

    Parameters
    ----------
    run
        From `load_run` or `run_evaluation_suite`.
    text
        The edited prompt. It needs the same placeholders as its base.
    kind
        "judge", or "assistant": the assistant then answers the questions again.
    base
        The id of the prompt that was edited; the run's own if left out.
    judge_model, assistant_model
        Those of the run if left out.
    index
        The runbooks, for an assistant's prompt; the index in INDEX_DIR if left out.
    max_cost_usd, progress, options
        As in `run_evaluation_suite`. The cap is for both prompts together.
    logs_dir
        The folder for the trial's logs; `trials` in the project's logs if left out.

    Returns
    -------
    PromptTrial
        `before` and `after` (runs), `comparison` (as from `compare_runs`), `flips` (a frame), `difference` (points) and
        `cost_usd`.

    Raises
    ------
    ConfigError
        If the text lacks a placeholder, or as in `run_evaluation_suite`.
    SocJudgeError
        As in `run_evaluation_suite`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import socjudge as sj
    >>> run = sj.load_run(min(Path("logs").glob("*.json")))
    >>> text = sj.load_prompt("guide-1").text + "根拠のない断定は厳しく減点してください。"
    >>> trial = sj.try_prompt(run, text, judge_model="offline", logs_dir="logs/trials", progress=False)
    >>> len(trial.flips)  # the embedded judge reads no prompt
    0
    """
    plan = plan_trial(
        run,
        text,
        kind=kind,
        base=base,
        judge_model=judge_model,
        assistant_model=assistant_model,
        get_index=None if index is None else lambda: index,
        logs_dir=logs_dir,
        options=options,
    )
    budget = shared_budget(max_cost_usd, plan.paid, plan.sides)
    return plan.effect_of([side.run(max_cost_usd=budget, progress=progress) for side in plan.sides])


def _known_prompt(run: EvaluationRun, base: str, kind: Kind) -> Prompt:
    own = judge_prompt_of(run.run) if kind == "judge" else None
    if own is not None and own.id == base:
        return own
    return load_prompt(default_prompt_id(kind) if base in (UNKNOWN, STORED) else base, kind=kind, rubric=run.rubric)


def usual_model_of(name: str) -> str:
    """Return the model of a stored run that can be asked again, by its name in the log."""
    return "auto" if name in (UNKNOWN, STORED) else name


def _agrees(plan: Plan, run: EvaluationRun, names: Iterable[str]) -> bool:
    return all(getattr(plan.info, name) == getattr(run.run, name) for name in names)


def _done(plan: Plan, folder: Path) -> EvaluationRun | None:
    for path in reversed(log_files(folder)):
        with contextlib.suppress(ConfigError, OSError):  # it is judged again if its log cannot be read
            if plan.is_done_in(run := load_run(path)):
                return run
    return None


def _of(run: EvaluationRun, question: int | str) -> tuple[EvaluationResult, ...]:
    return tuple(result for result in run.results if result.question.id == question)
