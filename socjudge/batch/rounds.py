"""Work out the requests of a round of a batch, and put the replies into the journal.

Between two rounds, a judgement is stored as the replies in the journal, from which it is made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..base.messages import say
from ..errors import ConfigError, ProviderError, RequestRefused
from ..judging.asking import Unanswered, replaying
from ..judging.assistant import Asked, prepare_answer
from ..judging.judge import failed_evaluation, judge_answer
from ..models import event_loop
from ..models.decision_model import DecisionModel
from ..models.openai_model import OpenAIModel
from ..models.opening import OFFLINE
from ..records import AssistantAnswer, Completion, Evaluation, EvaluationResult, ModelRequest
from ..runs.assignment import Assignment
from ..runs.journal import Journal
from ..settings import default_model
from .files import Line

BATCH_PRICE_FACTOR = 0.5  # share of the list price: https://developers.openai.com/api/docs/guides/batch
MAX_FAILURES = 3  # rounds in which a request may fail


def check_models(assignment: Assignment) -> None:
    """Raise ConfigError if OpenAI's Batch endpoint cannot call the run's models.

    An embedded assistant is allowed, because it answers on this machine.
    """
    plan = assignment.plan
    if not isinstance(plan.judge, OpenAIModel) or isinstance(plan.judge, DecisionModel):
        instead = say("batch.instead", model=default_model("judge")[0])
        if plan.judge.name == OFFLINE:
            raise ConfigError(say("batch.judge_needs_none", judge=OFFLINE, instead=instead))
        raise ConfigError(say("batch.judge_has_none", judge=plan.judge.name, instead=instead))
    if plan.assistant is not None and plan.assistant.name != OFFLINE and not isinstance(plan.assistant, OpenAIModel):
        raise ConfigError(say("batch.assistant_has_none", assistant=plan.assistant.name, offline=OFFLINE))


def asks_assistant(assignment: Assignment) -> bool:
    """Return whether the batch requests answers too, not only judgements."""
    return isinstance(assignment.plan.assistant, OpenAIModel)


def get_model(assignment: Assignment, line: Line) -> OpenAIModel:
    """Return the model that the line's request is for: the judge or the assistant."""
    model = assignment.plan.judge if line.repeat is not None else assignment.plan.assistant
    assert isinstance(model, OpenAIModel)
    return model


def add_local_answers(assignment: Assignment, journal: Journal) -> None:
    """Let an embedded assistant give the answers that the journal lacks, and write them into the journal."""
    assistant = assignment.plan.assistant
    if assistant is None or asks_assistant(assignment):
        return
    for i in range(assignment.n_samples):
        if journal.answer(i) is None:
            asked = _asked(assignment, i)
            journal.add_answer(i, asked.answer(assistant.complete(asked.request)), 0.0)
    journal.sync()


def missing_lines(assignment: Assignment, journal: Journal, failures: Mapping[str, Sequence[str]]) -> Iterator[Line]:
    """Yield a line for each missing answer or judgement that can be requested now.

    A judgement can be requested only if its answer exists and has text. Requests that have failed in
    MAX_FAILURES rounds are left out.

    failures: {line name: the reasons of its failures, one per round}.
    """
    for i in range(assignment.n_samples):
        answer = _get_answer(assignment, journal, i)
        if answer is None:
            lines = [Line(i)]
        elif not answer.is_empty:
            lines = [Line(i, repeat, len(journal.replies(i, repeat))) for repeat in _repeats(assignment, journal, i)]
        else:
            lines = []  # there is nothing to judge
        yield from (line for line in lines if len(failures.get(line.name, ())) < MAX_FAILURES)


def is_missing(assignment: Assignment, journal: Journal, line: Line) -> bool:
    """Return whether a reply to the line's request is still needed.

    It is needed if the line belongs to the run and the journal lacks the reply.
    """
    if line.sample >= assignment.n_samples:
        return False
    answer = _get_answer(assignment, journal, line.sample)
    if line.repeat is None:
        return answer is None
    return (
        answer is not None
        and line.repeat in _repeats(assignment, journal, line.sample)
        and line.turn == len(journal.replies(line.sample, line.repeat))
    )


def add_reply(assignment: Assignment, journal: Journal, line: Line, completion: Completion) -> None:
    """Put a reply into the journal as an answer, a judgement, or a reply that could not be parsed.

    If the judge refused to judge the answer, the judgement has the status "failed". The reply's cost is halved. Its
    `processing_time` is 0, because the time that the model took is unknown.
    """
    cost = completion.usage.cost_usd
    usage = replace(completion.usage, cost_usd=None if cost is None else cost * BATCH_PRICE_FACTOR)
    completion = replace(completion, usage=usage)
    if line.repeat is None:
        answer = replace(_asked(assignment, line.sample).answer(completion), processing_time=0.0)
        return journal.add_answer(line.sample, answer, 0.0)
    try:
        evaluation = _judged(assignment, journal, line, completion)
    except Unanswered:
        return journal.add_reply(line.sample, line.repeat, completion, 0.0)
    except RequestRefused as refusal:  # the reply was withheld, and would be withheld again
        evaluation = _failed(assignment, refusal)
    _add_result(assignment, journal, line.sample, line.repeat, evaluation)


def add_failures(assignment: Assignment, journal: Journal, failures: Mapping[str, Sequence[str]]) -> None:
    """Add a row with status "failed" to the journal for every judgement that is missing.

    failures: {line name: the reasons of its failures, one per round}. The last reason goes into the row.
    """
    for i in range(assignment.n_samples):
        answer = _get_answer(assignment, journal, i)
        for repeat in _repeats(assignment, journal, i):
            if answer is not None and answer.is_empty:
                error: ProviderError = RequestRefused(say("runs.no_answer"))
                evaluation = _failed(assignment, error)
            else:
                line = Line(i) if answer is None else Line(i, repeat, len(journal.replies(i, repeat)))
                evaluation = _give_up(assignment, journal, line, failures.get(line.name, ()))
            _add_result(assignment, journal, i, repeat, evaluation)


def _give_up(assignment: Assignment, journal: Journal, line: Line, reasons: Sequence[str]) -> Evaluation:
    last = reasons[-1] if reasons else say("batch.no_reply")
    error = ProviderError(say("batch.failed_rounds", count=len(reasons), last=say("base.last_cause", cause=last)))
    if line.repeat is not None and line.turn:  # there were replies that could not be parsed; their cost is kept
        with contextlib.suppress(ProviderError):
            return _judged(assignment, journal, line, error=error)
    return _failed(assignment, error)


def _failed(assignment: Assignment, error: ProviderError) -> Evaluation:
    plan = assignment.plan
    return failed_evaluation(error, model=plan.judge.name, criteria=plan.rubric.criteria)


def _repeats(assignment: Assignment, journal: Journal, i: int) -> list[int]:
    """Return the numbers (from 0) of those judgements of answer `i` that still need a reply.

    A judgement needs none if it is in the journal, also with the status "failed": a failed one is not repeated, because
    another round may take a day.
    """
    repeats = range(assignment.plan.judge_repeats)
    return [each for each in repeats if not journal.is_done(i, each) and not journal.is_refused(i, each)]


def _get_answer(assignment: Assignment, journal: Journal, i: int) -> AssistantAnswer | None:
    return assignment.sample_at(i).stored or journal.answer(i)


def next_request(assignment: Assignment, journal: Journal, line: Line) -> ModelRequest:
    """Return the request that a line stands for."""
    if line.repeat is None:
        return _asked(assignment, line.sample).request
    try:
        _judged(assignment, journal, line)
    except Unanswered as waiting:
        return waiting.request
    raise AssertionError("the line is missing no reply")


def _judged(
    assignment: Assignment, journal: Journal, line: Line, *new: Completion, error: ProviderError | None = None
) -> Evaluation:
    """Judge with the replies in the journal and a new one. After them comes the error, or Unanswered."""
    assert line.repeat is not None
    answer = _get_answer(assignment, journal, line.sample)
    assert answer is not None
    plan, question = assignment.plan, assignment.sample_at(line.sample).question
    ask = replaying([*journal.replies(line.sample, line.repeat), *new], error)
    judged = event_loop.wait(judge_answer(question, answer, prompt=plan.judge_prompt, rubric=plan.rubric, ask=ask))
    return replace(judged, processing_time=0.0)


def _asked(assignment: Assignment, i: int) -> Asked:
    plan = assignment.plan
    assert plan.index is not None and plan.assistant_prompt is not None
    question = assignment.sample_at(i).question.question
    return prepare_answer(question, index=plan.index, k=plan.k, prompt=plan.assistant_prompt)


def _add_result(assignment: Assignment, journal: Journal, i: int, repeat: int, evaluation: Evaluation) -> None:
    sample = assignment.sample_at(i)
    answer = _get_answer(assignment, journal, i) or AssistantAnswer(sample.question.question, "")
    result = EvaluationResult(sample.question, answer, evaluation, sample.answer_repeat, repeat)
    journal.add_result(i, journal.judged(result), 0.0)
