"""Estimate the calls, tokens and list price of a run before it is started. No request is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..base.messages import say
from ..base.showing import block, escape, usage_html
from ..models.endings import ending_line
from ..models.opening import Model
from ..models.prices import estimate_tokens, price_key, price_usd
from ..records import ModelRequest, Usage, is_embedded
from .plan import Plan

# Tokens for estimates: means over the ten questions. An answer; its passages, by k (2,040 tokens with k=1, 2,410 with
# 5, 3,380 with 10, 7,540 with 30); a judge's JSON (700 with six criteria).
_ANSWER_TOKENS, _GUIDE_TOKENS, _PASSAGE_TOKENS, _CRITERION_TOKENS, _COMMENT_TOKENS = 500, 1500, 190, 100, 100


@dataclass(frozen=True)
class Estimate:
    """Hold the calls and tokens that a run is expected to need, and their cost."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  # at list prices; None if a price is unknown
    note: str = field(default="", repr=False)  # that a model ends soon; one line for each

    def __add__(self, other: Estimate) -> Estimate:
        mine, theirs = (Usage(e.calls, e.input_tokens, e.output_tokens, e.cost_usd) for e in (self, other))
        total = mine + theirs
        note = "\n".join(dict.fromkeys([*self.note.splitlines(), *other.note.splitlines()]))
        return Estimate(total.calls, total.input_tokens, total.output_tokens, total.cost_usd, note)

    def after(self, done: int, total: int) -> Estimate:
        """Return the estimate for the rest of a run, in proportion to the judgements that are left."""
        share = 1 - done / total
        calls, tokens_in, tokens_out = (
            math.ceil(round(number * share, 6)) for number in (self.calls, self.input_tokens, self.output_tokens)
        )
        cost_usd = None if self.cost_usd is None else self.cost_usd * share
        return Estimate(calls, tokens_in, tokens_out, cost_usd, self.note)

    def _repr_html_(self) -> str:
        usage = Usage(self.calls, self.input_tokens, self.output_tokens, self.cost_usd)
        note = block("warn", *map(escape, self.note.splitlines())) if self.note else ""
        return usage_html(usage, say("Estimate (list prices)")) + note


def estimate_plan(plan: Plan) -> Estimate:
    """Estimate calls, tokens and list price of a whole run. No request is sent. The estimate is rough: it leaves out
    hidden reasoning tokens and retries. Calls of the embedded default are not counted."""
    known = {(row.question.id, row.answer_repeat, row.judge_repeat) for row in plan.known}
    template = estimate_tokens(plan.judge_prompt.text)
    context = _GUIDE_TOKENS + _PASSAGE_TOKENS * plan.k
    answering = 0 if plan.assistant_prompt is None else estimate_tokens(plan.assistant_prompt.text) + context
    judge_in, answer_in = list[int](), list[int]()
    for sample in plan.samples:
        question, stored = sample.question, sample.stored
        if stored is not None and stored.is_empty:
            continue  # there is nothing to judge
        asked = estimate_tokens(question.question + "".join(question.expected_keypoints))
        given = context + _ANSWER_TOKENS if stored is None else estimate_tokens(stored.context + stored.answer)
        left = [
            repeat for repeat in range(plan.judge_repeats) if (question.id, sample.answer_repeat, repeat) not in known
        ]
        judge_in += [template + asked + given] * len(left)
        if plan.assistant is not None:
            answer_in.append(answering + estimate_tokens(question.question))
    judge_out = _COMMENT_TOKENS + _CRITERION_TOKENS * len(plan.rubric.criteria)
    usage = _usage(plan.judge, judge_in, judge_out) + _usage(plan.assistant, answer_in, _ANSWER_TOKENS)
    endings = [ending_line(each.name, each.service) for each in (plan.judge, plan.assistant) if each]
    assumed = [] if plan.own is None else [_assumed(plan.own.name, context)]
    unknown = [
        say(
            "the price of {model} is unknown, so its cost is not counted and no cap can be held: an address does "
            "not prove a price. socjudge.toml takes it, in US dollars per million tokens, below a line "
            '[prices."{name}"]: input = … and output = …, both 0 if it is free',
            model=model.where,
            name=key,
        )
        for key, model in unpriced(plan).items()
    ]
    note = "\n".join(dict.fromkeys(filter(None, [*endings, *assumed, *unknown])))
    return Estimate(usage.calls, usage.input_tokens, usage.output_tokens, usage.cost_usd, note)


def unpriced(plan: Plan) -> dict[str, Model]:
    """Return the models whose price nobody knows, by the names that `[prices]` has for them where they are called."""
    asked = ModelRequest("judge", (), {})
    models = {model.name: model for model in (plan.judge, plan.assistant) if model is not None}
    return {
        price_key(name, model.address): model
        for name, model in models.items()
        if model.most_usd(asked) is None and price_usd(name, 1, 1, model.address) is None
    }


def _assumed(name: str, context: int) -> str:
    return say(
        "the answers of {name} are not known yet, so about {answer:,} tokens for each and {contexts:,} for its "
        "contexts are assumed; with longer contexts the judge reads, and costs, more",
        name=name,
        answer=_ANSWER_TOKENS,
        contexts=context,
    )


def _usage(model: Model | None, input_tokens: list[int], output_tokens_each: int) -> Usage:
    if model is None or is_embedded(model.name) or not input_tokens:
        return Usage()
    calls, tokens_in = len(input_tokens), sum(input_tokens)
    tokens_out = output_tokens_each * calls
    return Usage(calls, tokens_in, tokens_out, price_usd(model.name, tokens_in, tokens_out, model.address))
