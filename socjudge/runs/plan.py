"""Work out what a run has to do, its `Plan`: arguments, models and samples. No request is sent to a model."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from .._version import __version__
from ..answering.own_assistant import Assistant
from ..base.conditions import rubric_changes
from ..base.messages import say
from ..base.texts import encodable
from ..errors import ConfigError
from ..models.opening import Model, open_model
from ..prompts.saved import judge_prompt_of
from ..prompts.templates import Prompt, check_prompt, load_prompt
from ..records import (
    UNKNOWN,
    AssistantAnswer,
    EvalQuestion,
    EvaluationResult,
    EvaluationRun,
    Rubric,
    RunInfo,
    Usage,
    is_embedded,
)
from ..settings import open_project
from .identity import Identity
from .log_json import refuse_doubles

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..runbooks.index import RunbookIndex

STORED = "stored"  # the assistant model of a run over answers that existed before
OWN = "own-assistant"  # the assistant prompt of a run in which your own assistant answered


# Fields of RunInfo about how answers were made, which stay the same when the answers are judged again, and about the
# judge, which are the same for all rows of a log.
_OF_ANSWERS = (
    "assistant_model", "assistant_service", "assistant_settings", "assistant_version", "embedded_assistant",
    "assistant_prompt_id", "assistant_prompt_sha256", "index_fingerprint", "embedder", "runbooks", "k",
    "answer_repeats",
)  # fmt: skip
_OF_JUDGE = ("judge_model", "judge_service", "judge_settings", "judge_prompt_sha256", "judge_repeats")


@dataclass(frozen=True)
class Sample:
    question: EvalQuestion
    answer_repeat: int  # its number among the answers to this question, from 0
    stored: AssistantAnswer | None = None  # None: it must still be requested


@dataclass(frozen=True)
class Plan:
    samples: Sequence[Sample]  # the answers to judge
    judge: Model
    judge_prompt: Prompt
    judge_repeats: int  # judgements per answer
    rubric: Rubric
    info: RunInfo  # for the run's log
    assistant: Model | None = None  # behind socjudge's assistant; None if the answers are stored or `own` gives them
    assistant_prompt: Prompt | None = None
    index: RunbookIndex | None = None
    k: int = 10  # passages per question
    own: Assistant | None = None  # your own assistant
    known: tuple[EvaluationResult, ...] = ()  # judgements of an earlier run that are not requested again

    @cached_property
    def identity(self) -> Identity:
        return Identity.of(self.info)

    @property
    def asks(self) -> bool:
        return self.assistant is not None or self.own is not None

    @property
    def total(self) -> int:
        return len(self.samples) * self.judge_repeats

    def is_done_in(self, run: EvaluationRun) -> bool:
        is_same = Identity.of(run.run) == self.identity and run.run.rejudged_from == self.info.rejudged_from
        return is_same and len(run.results) == self.total and run.rubric == self.rubric


def plan_answers(
    questions: Sequence[EvalQuestion],
    *,
    index: RunbookIndex | None,
    answers: list[AssistantAnswer] | Assistant | None,
    assistant_model: str | BaseChatModel | Model,
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    assistant_prompt: Prompt | str | Path | None,
    rubric: Rubric,
    answer_repeats: int,
    judge_repeats: int,
    k: int | None,
) -> Plan:
    """Plan to answer and judge questions. No request is sent. ConfigError if an argument is unfit.
    `answers` are as from `open_answers`. Without an index where one is needed, the plan can only be shown."""
    k = open_project().k if k is None else k
    check_counts(answer_repeats=answer_repeats, judge_repeats=judge_repeats, k=k)
    if not len(questions):
        raise ConfigError("no questions to evaluate; load some with load_eval_dataset()")
    repeated = [name for name, count in Counter(str(q.id) for q in questions).items() if count > 1]
    if repeated:
        raise ConfigError(
            "question id {ids} occurs more than once; every question needs its own", ids=", ".join(repeated)
        )
    own = answers if isinstance(answers, Assistant) else None
    stored = answers if isinstance(answers, list) else None
    if stored is not None and answer_repeats != 1:
        raise ConfigError("answer_repeats asks the assistant again, which stored answers exclude; use judge_repeats")

    judge, judging = _open_judge(judge_model, judge_prompt, rubric)
    assistant, answering = None, None
    if answers is None:
        answering = load_prompt(assistant_prompt, kind="assistant")
        check_prompt(answering, "assistant")
        assistant = open_model(assistant_model, task="answer")
    samples = [
        Sample(question, repeat, None if stored is None else stored[position])
        for position, question in enumerate(questions)
        for repeat in range(answer_repeats)
    ]
    plan = Plan(samples, judge, judging, judge_repeats, rubric, RunInfo("", ""), assistant, answering, index, k, own)
    told: dict[str, Any] = {"answer_repeats": answer_repeats, "asked": plan.total}
    if stored is not None:  # two sets of stored answers count as two assistants, because nothing else is known
        answers_sha256, versions = _sha256(map(_shown, stored)), {answer.version for answer in stored}
        told |= {"answers_sha256": answers_sha256, "assistant_settings": f"answers {answers_sha256[:16]}"}
        told["assistant_version"] = versions.pop() if len(versions) == 1 else ""
    return _with_info(plan, questions, **told)


def plan_rejudging(
    run: EvaluationRun,
    *,
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    judge_repeats: int,
    rubric: Rubric | None = None,
) -> Plan:
    check_counts(judge_repeats=judge_repeats)
    name = run.log_path or say("the run")
    refuse_doubles(((each.question.id, each.answer_repeat, each.judge_repeat) for each in run.results), where=name)
    judge_prompt, rubric = judge_prompt or judge_prompt_of(run.run), rubric or run.rubric
    first_judged = {(r.question.id, r.answer_repeat): r for r in reversed(run.results)}
    judged = [*reversed(first_judged.values())]
    samples = [Sample(r.question, r.answer_repeat, r.answer) for r in judged]
    if not samples:
        raise ConfigError("{run} holds no results to judge again", run=name)
    judge, judging = _open_judge(judge_model, judge_prompt, rubric)
    plan = Plan(samples, judge, judging, judge_repeats, rubric, RunInfo("", ""))
    told: dict[str, Any] = {name: getattr(run.run, name) for name in _OF_ANSWERS}
    told |= {"rejudged_from": run.run.run_id, "answers_sha256": _sha256(_shown(r.answer) for r in judged)}
    # Of a part, as much as of the whole: what is not here stays missing.
    told["asked"] = max(len(samples), math.ceil(run.summary.asked / run.run.judge_repeats)) * judge_repeats
    return _with_info(plan, list({sample.question.id: sample.question for sample in samples}.values()), **told)


def plan_failed(
    run: EvaluationRun, *, judge_model: Any, judge_prompt: Any, judge_repeats: int, rubric: Rubric | None = None
) -> Plan:
    """Plan to judge the failed rows of a run again, in the same way as the others, which are kept."""
    name, info = run.log_path or say("the run"), run.run
    if all(result.evaluation.status == "ok" or result.answer.is_empty for result in run.results):
        raise ConfigError(
            "{run}: no row to judge again; each answer has scores. For questions without an answer run the "
            "evaluation again",
            run=name,
        )
    if judge_model == "auto" and info.judge_model != UNKNOWN:
        judge_model = info.judge_model
    plan = plan_rejudging(
        run,
        judge_model=judge_model,
        judge_prompt=judge_prompt or judge_prompt_of(info) or info.judge_prompt_id,
        judge_repeats=info.judge_repeats if judge_repeats == 1 else judge_repeats,
        rubric=rubric,
    )
    sides = ((name, getattr(info, name), getattr(plan.info, name)) for name in _OF_JUDGE)
    # A value that an old log does not have cannot be compared, but the judge must be known.
    told = [
        f"{name}: {there}→{here}"
        for name, there, here in sides
        if there != here and (there not in ("", UNKNOWN) or name == "judge_model")
    ]
    if plan.rubric != run.rubric:
        told.append(f"rubric {rubric_changes(run.rubric, plan.rubric)}".strip())
    if told:
        raise ConfigError(
            "{run}: only_failed judges with the run's own judge, prompt, rubric and repeats, so that a log has "
            "one judge; here differs: {told}. Leave that out, or judge all answers again with rejudge",
            run=name,
            told="; ".join(told),
        )
    if len(run.results) != plan.total:
        words = "{run}: expected {total} judged answers, and the log has {count}; judge all answers again with rejudge"
        raise ConfigError(words, run=name, count=len(run.results), total=plan.total)
    # Rows of a run in doubt do not make a pass of the new one, and another run with equal answers is not resumed.
    info = replace(plan.info, judges_asked=info.judges_asked, only_failed_of=info.run_id)
    return replace(plan, info=info, known=tuple(_paid(row) for row in run.results if row.evaluation.status == "ok"))


def _paid(result: EvaluationResult) -> EvaluationResult:
    """Return a copy of the result with zero usage, because the old log already counts its cost."""
    answer, evaluation = replace(result.answer, usage=Usage()), replace(result.evaluation, usage=Usage())
    return replace(result, answer=answer, evaluation=evaluation)


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError("{name} is {count}, expected 1 or more", name=name, count=count)


def begin_now(info: RunInfo) -> RunInfo:
    started = datetime.now().astimezone()
    run_id = f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    return replace(info, run_id=run_id, started_at=started.isoformat(timespec="seconds"))


def _open_judge(
    judge_model: str | BaseChatModel | Model, judge_prompt: Prompt | str | Path | None, rubric: Rubric
) -> tuple[Model, Prompt]:
    """Open the judge and check its prompt here, so that any error appears before the first call to a model."""
    judging = load_prompt(judge_prompt, rubric=rubric)
    check_prompt(judging, "judge", rubric)
    judge = open_model(judge_model)
    judge.check_rubric(rubric)
    return judge, judging


def _with_info(plan: Plan, questions: Sequence[EvalQuestion], **told: Any) -> Plan:
    from ..models.offline import ASSISTANT_NAME, JUDGE_NAME

    own, index = plan.own, plan.index if plan.assistant else None
    found = RunInfo(
        run_id="",
        started_at="",
        judge_model=plan.judge.name,
        judge_service=plan.judge.service,
        judge_settings=plan.judge.settings,
        assistant_model=plan.assistant.name if plan.assistant else own.name if own else STORED,
        assistant_service=own.service if own else plan.assistant.service if plan.assistant else "",
        assistant_settings=own.fingerprint if own else plan.assistant.settings if plan.assistant else "",
        assistant_version=own.version if own else "",
        judge_prompt_id=plan.judge_prompt.id,
        judge_prompt_sha256=plan.judge_prompt.sha256,
        assistant_prompt_id=plan.assistant_prompt.id if plan.assistant_prompt else OWN if own else STORED,
        assistant_prompt_sha256=plan.assistant_prompt.sha256 if plan.assistant_prompt else "",
        embedded_judge=JUDGE_NAME if is_embedded(plan.judge.name) else "",
        embedded_assistant=ASSISTANT_NAME if plan.assistant and is_embedded(plan.assistant.name) else "",
        dataset_sha256=_sha256(questions),
        # The categories are left out, because they decide no score.
        questions_sha256=_sha256([each.id, each.question, each.expected_keypoints] for each in questions),
        index_fingerprint=index.fingerprint if index else "",
        runbooks=index.contents if index else {},
        embedder=index.embedder if index else "",
        k=plan.k if plan.assistant else None,
        judge_repeats=plan.judge_repeats,
        pass_threshold=plan.rubric.pass_threshold,
        pass_rate_required=plan.rubric.pass_rate,
        rubric=plan.rubric,
        judge_prompt_text=plan.judge_prompt.text,
        project=open_project().folder.name,
        socjudge_version=__version__,
    )
    return replace(plan, info=replace(found, **told))


def _sha256(values: Iterable[Any]) -> str:
    """Hash the values as a JSON list, so that spaces and line breaks in a dataset's file change nothing."""
    return hashlib.sha256(orjson.dumps([*values])).hexdigest()


def _shown(answer: AssistantAnswer) -> list[str]:
    told = [answer.answer, answer.context, str(answer.flags)]
    if not answer.evidence:  # not socjudge's own answer, so its citations are read with its passages
        told += [str((passage.source, passage.heading, passage.text)) for passage in answer.passages]
    return [encodable(text) for text in told]
