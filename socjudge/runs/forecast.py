"""Show what a run would do and cost before it starts, and start it: `RunPlan`. No request is sent before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from .. import constants
from ..base.conditions import rubric_changes
from ..base.files import as_path
from ..base.messages import say
from ..base.showing import block, dollars, escape, facts_html, money, one_line
from ..errors import ConfigError
from ..models.endings import ending_line
from ..models.gate import Budget
from ..models.opening import Model
from ..models.prices import estimate_tokens, price_key, price_usd
from ..records import EvaluationResult, EvaluationRun, ModelRequest, RunOptions, Usage, is_embedded
from .plan import Plan
from .running import carry_out
from .unfinished import UnfinishedRun, find_journal, note_on_nearest


@dataclass(frozen=True, repr=False)
class RunPlan:
    """What a run would do and cost if it were started now. `run()` starts it."""

    plan: Plan
    options: RunOptions
    logs_dir: Path
    left: Usage  # what is left to be paid for: calls, tokens and list price
    already: int = 0  # judged answers of an interrupted run that would be resumed
    note: str = ""  # what else to know before it starts, one line each; without `cost_note`
    problem: str = ""  # why it cannot start; empty if it can

    @property
    def total(self) -> int:
        return self.plan.total

    @property
    def cost_note(self) -> str:
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
        `stop` take precedence over those of the options. ConfigError if there is a problem, or if more is left to be
        paid for than the plan said, such as because the interrupted run that it would have resumed is gone.
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
        return f"<RunPlan: {self.already} of {self.total} judged, {left}{problem}>"

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


def foresee(plan: Plan, options: RunOptions | None = None, logs_dir: Path | str | None = None) -> RunPlan:
    """Return what a plan would do and cost now, and the interrupted run that it would resume. No request is sent."""
    options, folder = options or RunOptions(), as_path(logs_dir or constants.LOGS_DIR)
    problem, found = "", None
    notes = [plan.own.told_before] if plan.own is not None and plan.own.told_before else []
    try:
        found = _find_interrupted(plan, options, folder)
        if not found and not options.fresh and (note := note_on_nearest(folder, plan.identity)):
            notes.append(note)
    except ConfigError as error:
        problem = str(error)
    if plan.assistant is not None and plan.index is None:
        problem = problem or say("there is no search index of the runbooks yet; build it")
    if found and (told := rubric_changes(plan.rubric, found.run.rubric or plan.rubric)):
        words = (
            "The run keeps the rubric it began with; other than the present settings: {told}. Start anew to use those"
        )
        notes.append(say(words, told=told))
    left = estimate_plan(plan, found)
    return RunPlan(plan, options, folder, left, found.done if found else 0, "\n".join(notes), problem)


def _find_interrupted(plan: Plan, options: RunOptions, folder: Path) -> UnfinishedRun | None:
    path = None if options.fresh else find_journal(folder, plan.identity)
    return UnfinishedRun(path) if path else None


def shared_budget(given: float | None, finished: Iterable[EvaluationRun], plans: Iterable[RunPlan]) -> Budget:
    """Return one budget for several plans, against which the finished runs and the interrupted ones count."""
    budget = Budget.of(given)
    for run in finished:
        paid = run.cost_usd if run.run.most_usd is None else run.run.most_usd
        if paid is None and budget.max_usd is not None:
            raise ConfigError(
                "max_cost_usd cannot be held: nobody knows what {judge} has cost ({log}); leave max_cost_usd "
                "out, or start anew with fresh (--fresh)",
                judge=run.run.judge_model,
                log=run.log_path,
            )
        budget.note(run.run.run_id, paid or 0.0)
    for each in plans if budget.max_usd is not None else ():
        if found := _find_interrupted(each.plan, each.options, each.logs_dir):
            budget.note(found.run.run_id, found.spent_usd)
    return budget


# Tokens for estimates: means over the ten questions. An answer; its passages, by k (2,040 tokens with k=1, 2,410 with
# 5, 3,380 with 10, 7,540 with 30); a judge's JSON (700 with six criteria).
_ANSWER_TOKENS, _GUIDE_TOKENS, _PASSAGE_TOKENS, _CRITERION_TOKENS, _COMMENT_TOKENS = 500, 1500, 190, 100, 100


def estimate_plan(plan: Plan, found: UnfinishedRun | None = None) -> Usage:
    """Estimate what is left to pay for, without hidden reasoning tokens, retries and calls of the embedded default."""
    rows = [*plan.known, *(found.results if found else ())]
    known = {(r.question.id, r.answer_repeat, r.judge_repeat) for r in rows if r.evaluation.status == "ok"}
    answers = found.answers if found else {}
    template = estimate_tokens(plan.judge_prompt.text)
    context = _GUIDE_TOKENS + _PASSAGE_TOKENS * plan.k
    answering = 0 if plan.assistant_prompt is None else estimate_tokens(plan.assistant_prompt.text) + context
    judge_in, answer_in = list[int](), list[int]()
    for i, sample in enumerate(plan.samples):
        question, stored = sample.question, sample.stored
        if stored is not None and stored.is_empty:
            continue  # there is nothing to judge
        asked = estimate_tokens(question.question + "".join(question.expected_keypoints))
        given = context + _ANSWER_TOKENS if stored is None else estimate_tokens(stored.context + stored.answer)
        places = ((question.id, sample.answer_repeat, repeat) for repeat in range(plan.judge_repeats))
        judge_in += [template + asked + given for place in places if place not in known]
        if plan.assistant is not None and i not in answers:
            answer_in.append(answering + estimate_tokens(question.question))
    judge_out = _COMMENT_TOKENS + _CRITERION_TOKENS * len(plan.rubric.criteria)
    return _usage(plan.judge, judge_in, judge_out) + _usage(plan.assistant, answer_in, _ANSWER_TOKENS)


def cost_notes(*plans: Plan) -> str:
    """Return what to know beside the estimates, one line each: that a model ends, what is assumed, what has no price."""
    told = list[str]()
    for plan in plans:
        told += [ending_line(each.name, each.service) for each in (plan.judge, plan.assistant) if each]
        if plan.own is not None:
            words = (
                "the answers of {name} are not known yet, so about {answer:,} tokens for each and {contexts:,} for its "
                "contexts are assumed; with longer contexts the judge reads, and costs, more. What {name} costs is "
                "not counted"
            )
            contexts = _GUIDE_TOKENS + _PASSAGE_TOKENS * plan.k
            told.append(say(words, name=plan.own.name, answer=_ANSWER_TOKENS, contexts=contexts))
        words = (
            "the price of {model} is unknown, so its cost is not counted and no cap can be held: an address does "
            "not prove a price. socjudge.toml takes it, in US dollars per million tokens, below a line "
            '[prices."{name}"]: input = … and output = …, both 0 if it is free'
        )
        told += [say(words, model=model.where, name=key) for key, model in unpriced(plan).items()]
    return "\n".join(dict.fromkeys(filter(None, told)))


def unpriced(plan: Plan) -> dict[str, Model]:
    """Return the models whose price nobody knows, by their names in `[prices]`."""
    asked = ModelRequest("judge", (), {})
    models = {model.name: model for model in (plan.judge, plan.assistant) if model is not None}
    return {
        price_key(name, model.address): model
        for name, model in models.items()
        if model.most_usd(asked) is None and price_usd(name, 1, 1, model.address) is None
    }


def _usage(model: Model | None, input_tokens: list[int], output_tokens_each: int) -> Usage:
    if model is None or is_embedded(model.name) or not input_tokens:
        return Usage()
    calls, tokens_in = len(input_tokens), sum(input_tokens)
    tokens_out = output_tokens_each * calls
    return Usage(calls, tokens_in, tokens_out, price_usd(model.name, tokens_in, tokens_out, model.address))
