"""Estimate the calls, tokens and list price of a run before it is started. No request is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..answering.own_assistant import Assistant
from ..base.messages import say
from ..base.showing import block, escape, usage_html
from ..models.endings import ending_line
from ..models.opening import OFFLINE, Model, Task, open_model, resolve_auto
from ..models.prices import estimate_tokens, price_usd
from ..prompts.templates import Prompt, load_prompt
from ..records import EvalQuestion, Rubric, Usage, total_usage
from ..settings import default_k, project_rubric
from .given_answers import Given, open_answers

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

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
    note: str = field(default="", repr=False)  # what else to know, such as that a model ends soon; one line each

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
        return Estimate(calls, tokens_in, tokens_out, cost_usd, note=self.note)

    def _repr_html_(self) -> str:
        note = block("warn", *map(escape, self.note.splitlines())) if self.note else ""
        usage = Usage(self.calls, self.input_tokens, self.output_tokens, self.cost_usd)
        return usage_html(usage, say("Estimate (list prices)")) + note


def estimate_run(
    questions: Sequence[EvalQuestion],
    *,
    answers: Given = None,
    assistant_model: str | BaseChatModel | Model = "auto",
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    assistant_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    answer_repeats: int = 1,
    judge_repeats: int = 1,
    k: int | None = None,
) -> Estimate:
    """Estimate calls, tokens and list price of `run_evaluation_suite` with the same arguments. No request is sent.

    The estimate is rough: it leaves out hidden reasoning tokens and retries. Calls of the embedded default model are
    not counted.

    Returns
    -------
    Estimate
        calls, input_tokens, output_tokens, cost_usd (US dollars, None if a price is unknown), and note, which says if a
        model ends soon.

    Raises
    ------
    ConfigError
        If the answers do not match the questions one to one.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.estimate_run(sj.load_eval_dataset(), assistant_model="offline", judge_model="gpt-4o-mini").calls
    10
    """
    rubric = rubric or project_rubric()
    template = estimate_tokens(load_prompt(judge_prompt, rubric=rubric).text)
    answers = open_answers(answers, questions)
    context = _GUIDE_TOKENS + _PASSAGE_TOKENS * (default_k() if k is None else k)
    given = [context + _ANSWER_TOKENS] * len(questions)
    if isinstance(answers, list):
        given = [estimate_tokens(answer.context + answer.answer) for answer in answers]
    asked = [estimate_tokens(q.question + "".join(q.expected_keypoints)) for q in questions]
    judge_in = [template + question + answer for question, answer in zip(asked, given, strict=True)]
    answer_in = []
    if answers is None:
        answering = estimate_tokens(load_prompt(assistant_prompt, kind="assistant").text) + context
        answer_in = [answering + estimate_tokens(q.question) for q in questions]
    judge_out = _COMMENT_TOKENS + _CRITERION_TOKENS * len(rubric.criteria)

    parts = [_estimate(judge_model, "judge", judge_in, judge_out, answer_repeats * judge_repeats)]
    endings = [_ending(judge_model, "judge")]
    if answers is None:
        parts.append(_estimate(assistant_model, "answer", answer_in, _ANSWER_TOKENS, answer_repeats))
        endings.append(_ending(assistant_model, "answer"))
    if isinstance(answers, Assistant):
        endings.append(
            say(
                "the answers of {name} are not known yet, so about {answer:,} tokens for each and {contexts:,} for its "
                "contexts are assumed; with longer contexts the judge reads, and costs, more",
                name=answers.name,
                answer=_ANSWER_TOKENS,
                contexts=context,
            )
        )
    total, note = total_usage(parts), "\n".join(filter(None, dict.fromkeys(endings)))
    return Estimate(total.calls, total.input_tokens, total.output_tokens, total.cost_usd, note)


def _name(model: str | BaseChatModel | Model, task: Task) -> str:
    return resolve_auto(task) if model == "auto" else model if isinstance(model, str) else open_model(model).name


def _ending(model: str | BaseChatModel | Model, task: Task) -> str:
    service = None if isinstance(model, str) else getattr(open_model(model), "service", "")
    return ending_line(_name(model, task), service)


def _estimate(
    model: str | BaseChatModel | Model, task: Task, input_tokens: list[int], output_tokens_each: int, repeats: int
) -> Usage:
    name = _name(model, task)
    if name == OFFLINE or not input_tokens:
        return Usage()
    calls = len(input_tokens) * repeats
    tokens_in, tokens_out = sum(input_tokens) * repeats, output_tokens_each * calls
    return Usage(calls, tokens_in, tokens_out, price_usd(name, tokens_in, tokens_out))
