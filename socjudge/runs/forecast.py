"""Show what a run would do and cost before it starts, and start it: `RunPlan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from .. import constants
from ..base.conditions import rubric_changes
from ..base.files import as_path
from ..base.messages import say
from ..base.showing import block, dollars, escape, facts_html, money, one_line
from ..errors import ConfigError
from ..models.gate import Budget
from ..records import EvaluationResult, EvaluationRun, Rubric, RunOptions, Usage
from .estimate import cost_notes, estimate_plan, rest_of
from .plan import Plan
from .running import carry_out
from .unfinished import check_same_run, describe_journal, find_journal, note_on_nearest


@dataclass(frozen=True, repr=False)
class RunPlan:
    """What a run would do and cost if it were started now. `run()` starts it. `socjudge.plan_run` makes it."""

    plan: Plan
    options: RunOptions
    logs_dir: Path
    left: Usage  # what is left to be paid for: calls, tokens and list price
    already: int = 0  # judged answers of an interrupted run that would be resumed
    note: str = ""  # what else to know before it starts, one line each; without `cost_note`
    problem: str = ""  # why it cannot start; empty if it can

    @property
    def total(self) -> int:
        """Return how many judged answers the finished run will have."""
        return self.plan.total

    @property
    def cost_note(self) -> str:
        """Return what to know beside `left`, one line each: that a model ends, what is assumed, what has no price."""
        return cost_notes(self.plan)

    @property
    def n_questions(self) -> int:
        return len(self.plan.samples) // self.plan.info.answer_repeats

    def run(
        self,
        *,
        max_cost_usd: Budget | float | None = None,
        on_result: Callable[[EvaluationResult], None] | None = None,
        stop: Event | None = None,
        progress: bool = True,
    ) -> EvaluationRun:
        """Start or resume the run, and write its log. The arguments are as in `run_evaluation_suite`; `on_result` and
        `stop` take precedence over those of the options.

        Raises
        ------
        ConfigError
            If there is a problem, or if more is left to be paid for than the plan said, such as because the interrupted
            run that it would have resumed is gone.
        SocJudgeError
            As in `run_evaluation_suite`.
        """
        if self.problem:
            raise ConfigError(self.problem)
        options = replace(self.options, on_result=on_result or self.options.on_result, stop=stop or self.options.stop)
        return carry_out(
            self.plan,
            options,
            max_cost_usd=max_cost_usd,
            logs_dir=self.logs_dir,
            progress=progress,
            already=self.already,
        )

    def __repr__(self) -> str:
        left = f"{self.left.calls} calls left, {dollars(self.left.cost_usd)}"
        problem = f", problem: {one_line(self.problem, 120)}" if self.problem else ""
        return (
            f"<RunPlan: {self.already} of {self.total} judged, {left}, judge {one_line(self.plan.judge.name)}{problem}>"
        )

    def _repr_html_(self) -> str:
        info = self.plan.info
        facts = {
            say("Answers to judge"): self.total,
            say("Assistant"): info.assistant_model,
            "Judge": info.judge_model,
            say("Calls"): say("{count:,} calls", count=self.left.calls),
            say("Cost"): money(self.left.cost_usd),
        }
        if self.already:
            facts[say("Judged before")] = self.already
        told = [block("bad", escape(self.problem))] if self.problem else []
        notes = [*self.note.splitlines(), *self.cost_note.splitlines()]
        told += [block("warn", *map(escape, notes))] if notes else []
        return facts_html(say("Plan of a run (list prices)"), facts) + "".join(told)


def foresee(
    plan: Plan,
    options: RunOptions | None = None,
    logs_dir: Path | str | None = None,
    *,
    expected: Rubric | None = None,
) -> RunPlan:
    """Return what a plan would do and cost now, and the interrupted run that it would resume. No request is sent.
    `expected`: the rubric that the user counts on. ConfigError if `options.resume` is the journal of another run."""
    options, folder = options or RunOptions(), as_path(logs_dir or constants.LOGS_DIR)
    whole, problem, found = estimate_plan(plan), "", None
    notes = [plan.own.told_before] if plan.own is not None and plan.own.told_before else []
    try:
        path = None
        if options.resume is not None:
            path = check_same_run(Path(options.resume).resolve(), plan.identity)
        elif not options.fresh:
            path = find_journal(folder, plan.identity)
            if path is None and (note := note_on_nearest(folder, plan.identity)):
                notes.append(note)
        found = None if path is None else describe_journal(path)
    except ConfigError as error:
        if options.resume is not None:
            raise
        problem = str(error)
    if plan.assistant is not None and plan.index is None:
        problem = problem or say("there is no search index of the runbooks yet; build it")
    if found is None:
        return RunPlan(plan, options, folder, whole, 0, "\n".join(notes), problem)
    if told := rubric_changes(expected or plan.rubric, found.run.rubric or plan.rubric):
        notes.append(
            say(
                "The run keeps the rubric it began with; other than the present settings: {told}. Start anew to "
                "use those",
                told=told,
            )
        )
    kept = len(plan.known)
    done = max(found.done - kept, 0)
    left = rest_of(whole, done, plan.total - kept)
    return RunPlan(plan, options, folder, left, found.done, "\n".join(notes), problem)
