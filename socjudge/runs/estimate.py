"""Estimate the calls, tokens and list price of a run before it is started. No request is sent."""

from __future__ import annotations

import math

from ..base.messages import say
from ..models.endings import ending_line
from ..models.opening import Model
from ..models.prices import estimate_tokens, price_key, price_usd
from ..records import ModelRequest, Usage, is_embedded
from .plan import Plan

# Tokens for estimates: means over the ten questions. An answer; its passages, by k (2,040 tokens with k=1, 2,410 with
# 5, 3,380 with 10, 7,540 with 30); a judge's JSON (700 with six criteria).
_ANSWER_TOKENS, _GUIDE_TOKENS, _PASSAGE_TOKENS, _CRITERION_TOKENS, _COMMENT_TOKENS = 500, 1500, 190, 100, 100


def estimate_plan(plan: Plan) -> Usage:
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
    return _usage(plan.judge, judge_in, judge_out) + _usage(plan.assistant, answer_in, _ANSWER_TOKENS)


def rest_of(whole: Usage, done: int, total: int) -> Usage:
    """Return the estimate for the rest of a run, in proportion to the judgements that are left."""
    share = 1 - done / total
    calls, tokens_in, tokens_out = (
        math.ceil(round(number * share, 6)) for number in (whole.calls, whole.input_tokens, whole.output_tokens)
    )
    return Usage(calls, tokens_in, tokens_out, None if whole.cost_usd is None else whole.cost_usd * share)


def cost_notes(*plans: Plan) -> str:
    """Return what to know beside the estimates, one line each: that a model ends, what is assumed, what has no price."""
    told = list[str]()
    for plan in plans:
        told += [ending_line(each.name, each.service) for each in (plan.judge, plan.assistant) if each]
        if plan.own is not None:
            told.append(
                say(
                    "the answers of {name} are not known yet, so about {answer:,} tokens for each and {contexts:,} for its "
                    "contexts are assumed; with longer contexts the judge reads, and costs, more. What {name} costs is "
                    "not counted",
                    name=plan.own.name,
                    answer=_ANSWER_TOKENS,
                    contexts=_GUIDE_TOKENS + _PASSAGE_TOKENS * plan.k,
                )
            )
        told += [
            say(
                "the price of {model} is unknown, so its cost is not counted and no cap can be held: an address does "
                "not prove a price. socjudge.toml takes it, in US dollars per million tokens, below a line "
                '[prices."{name}"]: input = … and output = …, both 0 if it is free',
                model=model.where,
                name=key,
            )
            for key, model in unpriced(plan).items()
        ]
    return "\n".join(dict.fromkeys(filter(None, told)))


def unpriced(plan: Plan) -> dict[str, Model]:
    """Return the models whose price nobody knows, by the names that `[prices]` has for them where they are called."""
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
