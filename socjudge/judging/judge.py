"""Ask a judge to score one answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..answering.citations import as_material, unmeasurable
from ..base.messages import listed, say
from ..base.pass_rule import average, outcome_of, span_of
from ..base.texts import encodable
from ..errors import ProviderError, RequestRefused, SocJudgeError, UnparsableJudgement
from ..models import event_loop
from ..models.gate import RunGate
from ..models.opening import Model, open_model
from ..prompts.templates import Prompt, check_prompt, fill, judge_values, load_prompt
from ..records import (
    AssistantAnswer,
    Completion,
    EvalQuestion,
    Evaluation,
    ModelRequest,
    Rubric,
    Status,
    Usage,
    total_usage,
)
from ..settings import open_project
from .replies import Judgement, judgement_schema, parse_judgement

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

MAX_REPLIES = 3  # the first reply, and two after the judge was told what was wrong
Ask = Callable[[ModelRequest], Awaitable[Completion]]  # how a judgement asks its model
OUTPUT_TOKENS = 4000  # the JSON takes about 700 tokens; the rest is for hidden reasoning


def evaluate_answer(
    question: EvalQuestion,
    answer: AssistantAnswer,
    *,
    model: str | BaseChatModel | Model = "auto",
    prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
) -> Evaluation:
    """Let a judge score one answer: 0–100 points for each criterion of the rubric, with reasons.

    Parameters
    ----------
    question
        The question, with the keypoints that a good answer contains.
    answer
        The answer, with the passages that it was made from.
    model
        The judge: "auto", "offline", the name of a model, or a chat model object.
    prompt
        The judge prompt, in any form that `load_prompt` accepts.
    rubric
        The criteria and the pass line; the project's current rubric if left out.

    Returns
    -------
    Evaluation
        A score that the judge cannot give is None, and `missing` has the cause. If a reply cannot be parsed with
        certainty, the judge is told the error and asked again, until it has replied MAX_REPLIES times. If none of these
        replies can be parsed, `status` is "unparsable" and `raw_text` is the last reply. All scores are then 0, as the
        specification requires. Treat these zeros as missing scores.

    Raises
    ------
    ConfigError
        If there is no key, the model is unknown, or the prompt cannot be used.
    ProviderError
        If the model's service failed.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "端末を隔離します。[出典: malware_response.md > 初動対応]")
    >>> sj.evaluate_answer(question, answer, model="offline").status
    'ok'
    """
    rubric = rubric or open_project().rubric
    template = load_prompt(prompt, rubric=rubric)
    check_prompt(template, "judge", rubric)
    opened, gate = open_model(model), RunGate()

    def ask(request: ModelRequest) -> Awaitable[Completion]:
        return opened.complete_async(request, gate)

    return event_loop.wait(judge_answer(question, answer, prompt=template, rubric=rubric, ask=ask))


async def judge_answer(
    question: EvalQuestion, answer: AssistantAnswer, *, prompt: Prompt, rubric: Rubric, ask: Ask
) -> Evaluation:
    """Judge one answer, for a prompt that was checked. Ask for at most MAX_REPLIES replies, until one can be parsed.
    RequestRefused if the judge refuses, or if the answer lacks the sources that every criterion needs."""
    criteria = rubric.criteria
    # Asked for anyway, because all answers have the same prompt. These scores are not used, and stay in raw_text.
    lacking: dict[str, str] = {name: "no_context" for name in unmeasurable(answer) if name in criteria}
    if lacking and len(lacking) == len(criteria):
        raise RequestRefused(
            "the answer came without the passages it was made from, so {criteria} cannot be scored; have your assistant "
            "return them (its contexts), or use a rubric whose criteria need none",
            criteria=listed(criteria),
            about_content=True,
        )
    answer = as_material(answer)
    request = ModelRequest(
        task="judge",
        messages=({"role": "user", "content": fill(prompt.text, judge_values(question, answer))},),
        material={"question": question, "answer": answer, "criteria": criteria, "rubric": rubric},
        schema=judgement_schema(criteria, reasons_first=prompt.reasons_first),
        max_output_tokens=OUTPUT_TOKENS,
    )
    shown = (question.question, answer.answer, answer.context, *question.expected_keypoints)
    completions, doubts = list[Completion](), list[str]()
    judgement: Judgement | None = None

    def refused(told: str, *lost: Usage) -> RequestRefused:  # with the usage of all calls, because they were paid for
        usage = total_usage([*(completion.usage for completion in completions), *lost])
        return RequestRefused("; ".join([*doubts, told]), about_content=True, usage=usage)

    while judgement is None and len(completions) < MAX_REPLIES:
        try:
            completion = await ask(request)
        except RequestRefused as error:
            if not completions:
                raise
            raise refused(str(error), lost_usage(error)) from None  # it replied before, and now refuses
        completions.append(completion)
        doubts += [say("retried: {cause}", cause=cause) for cause in completion.retries]
        if list(completion.missing.values()) == ["refused"] * len(criteria):
            raise refused(
                say(
                    "the judge refused to score every criterion; see the question and the answer, or take another judge"
                )
            )
        try:
            judgement = _read(completion, rubric, shown, was_told=len(completions) > 1)
            doubts += judgement.notes
        except UnparsableJudgement as error:
            if completion.is_refused:  # it would be withheld again
                told = say(
                    "the content filter of the judge's service withheld the reply (finish_reason: {reason}); see the "
                    "question and the answer, or take another judge",
                    reason=completion.finish_reason,
                )
                raise refused(told) from None
            doubts.append(say("reply {number}: {reason}", number=len(completions), reason=error))
            request = _ask_again(request, completion, error)

    if judgement is None:
        doubts.append(
            say(
                "none of the judge's {count} replies could be read, so this answer has no score, and its zeros are no "
                "scores; judge it again, or take another judge",
                count=len(completions),
            )
        )
    last, read = completions[-1], judgement or Judgement({}, {}, "")
    status: Status = "ok" if judgement else "unparsable"
    missing = {**last.missing, **lacking} if judgement else {}
    scores = {name: None if name in missing else read.scores.get(name, 0) for name in criteria}
    mean = average(scores)
    return Evaluation(
        scores=scores,
        average_score=mean,
        # JSON escapes can hold half a character even if the reply has none.
        rationale={c: "" if c in missing else encodable(read.rationale.get(c, "")) for c in criteria},
        overall_comment=encodable(read.overall_comment),
        passed=outcome_of(span_of(scores, mean, status), status, rubric.pass_threshold) == "passed",
        processing_time=sum(completion.seconds for completion in completions),
        status=status,
        model=last.model,
        usage=total_usage(completion.usage for completion in completions),
        attempts=len(completions),
        error="; ".join(doubts),
        raw_text="" if judgement and not judgement.notes and not lacking else last.text,
        missing={name: missing[name] for name in criteria if name in missing},
        request_id=last.request_id,
    )


def _read(completion: Completion, rubric: Rubric, shown: Sequence[str], *, was_told: bool) -> Judgement:
    if completion.problem:
        raise UnparsableJudgement(completion.problem)
    marked = [name for name in rubric.criteria if name not in completion.missing]
    return parse_judgement(
        completion.text,
        marked,
        finish_reason=completion.finish_reason,
        quoted=shown,
        is_of_hundred=completion.is_computed,
        was_told=was_told,
    )


def keeping(ask: Ask, earlier: Iterable[Completion], keep: Callable[[Completion], object]) -> Ask:
    """An `ask` that gives the earlier replies first, and keeps each new reply that another request follows."""
    left, last = deque(earlier), list[Completion]()

    async def asking(request: ModelRequest) -> Completion:
        while last:
            keep(last.pop())
        if left:
            return left.popleft()
        last.append(await ask(request))
        return last[0]

    return asking


def lost_usage(error: SocJudgeError) -> Usage:
    """What the calls of a failed request consumed; the cost is None if some of them got no reply."""
    lost = error.lost_calls if isinstance(error, ProviderError) else 0
    told = getattr(error, "usage", None) or Usage()
    return told + Usage(lost_calls=lost, cost_usd=None if lost else 0.0)


def failed_evaluation(error: SocJudgeError, *, model: str, criteria: Sequence[str]) -> Evaluation:
    """The evaluation, with status "failed", of an answer that the judge could not score because its service failed."""
    return Evaluation(
        scores=dict.fromkeys(criteria, 0),
        average_score=0.0,
        rationale=dict.fromkeys(criteria, ""),
        overall_comment="",
        passed=False,
        processing_time=0.0,
        status="failed",
        model=model,
        usage=lost_usage(error),
        attempts=0,
        error=str(error),
    )


def _ask_again(request: ModelRequest, completion: Completion, error: UnparsableJudgement) -> ModelRequest:
    complaint = (
        f"その出力は採点結果として読み取れませんでした（{error}）。"
        "指定のJSON形式だけを、すべての観点に0-100の整数を付けて、最初から最後まで出力し直してください。"
    )
    # A reply that was cut would only fill the prompt; the error message is enough.
    is_shown = completion.text.strip() and not completion.is_cut
    replies = [{"role": "assistant", "content": completion.text}] if is_shown else []
    return replace(
        request,
        messages=(request.messages[0], *replies, {"role": "user", "content": complaint}),
        max_output_tokens=request.max_output_tokens * 2 if completion.is_cut else request.max_output_tokens,
    )
