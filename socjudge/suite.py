"""A whole evaluation: every question answered and judged, summarised by the pass rule, and logged."""

from __future__ import annotations

import hashlib
import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from . import __version__, constants
from .assistant import handle_query
from .errors import ConfigError, ProviderError, RequestRefused, SocJudgeError
from .judge import evaluate_answer, failed_evaluation
from .logs import save_evaluation_results
from .prompts import ASSISTANT_PROMPT_ID, Prompt, check_assistant_prompt, check_judge_prompt, load_prompt
from .providers import Model, open_model
from .records import (
    UNKNOWN,
    AssistantAnswer,
    EvalQuestion,
    EvaluationResult,
    EvaluationRun,
    RunInfo,
    Usage,
    total_usage,
)
from .redact import redact
from .verdict import summarise_results

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .retrieval import RunbookIndex

STORED = "stored"  # the assistant model of a run over answers that were given before


@dataclass(frozen=True)
class _Sample:
    """One answer to be judged: asked for, or stored."""

    question: EvalQuestion
    answer_repeat: int
    stored: AssistantAnswer | None = None


@dataclass(frozen=True)
class _Setup:
    """What all samples of a run have in common."""

    judge: Model
    judge_prompt: Prompt
    judge_repeats: int
    assistant: Model | None
    assistant_prompt: Prompt | None
    index: RunbookIndex | None
    k: int


def run_evaluation_suite(
    questions: Sequence[EvalQuestion],
    *,
    index: RunbookIndex | None = None,
    answers: Sequence[AssistantAnswer] | None = None,
    assistant_model: str | BaseChatModel | Model = "auto",
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    assistant_prompt: Prompt | str | Path | None = None,
    answer_repeats: int = 1,
    judge_repeats: int = 1,
    k: int = 5,
    max_concurrency: int = 8,
    logs_dir: Path | str = constants.LOGS_DIR,
    on_result: Callable[[EvaluationResult], None] | None = None,
    progress: bool = True,
) -> EvaluationRun:
    """Answer and judge every question, apply the pass rule, and write the log; its path is `run.log_path`.

    index: the runbooks; the one in INDEX_DIR if left out. answers: stored answers in the order of the
    questions, judged instead of asking the assistant. answer_repeats, judge_repeats: answers per question,
    and judgements per answer. k: passages per question. on_result: called in this thread with each result as
    it comes in. progress: show a bar.

    The first question goes alone, so that a wrong key or an unreachable service costs one call: ConfigError or
    ProviderError. Later failures are rows with status "failed", and after a ConfigError (say, a used-up quota)
    nothing more is sent. A run that is broken off (Ctrl-C, an error in on_result) waits for the calls in flight and
    logs what it has; what was paid for is in the log in every case."""
    questions = list(questions)
    _check_repeats(answer_repeats=answer_repeats, judge_repeats=judge_repeats, k=k, max_concurrency=max_concurrency)
    if not questions:
        raise ConfigError("no questions to evaluate; load some with load_eval_dataset()")
    repeated = [str(name) for name, count in Counter(str(q.id) for q in questions).items() if count > 1]
    if repeated:
        raise ConfigError(f"question id {', '.join(repeated)} occurs more than once; every question needs its own")
    if answers is not None and len(answers) != len(questions):
        raise ConfigError(f"{len(answers)} answers for {len(questions)} questions; give one per question, in order")
    if answers is not None and answer_repeats != 1:
        raise ConfigError("answer_repeats asks the assistant again, which stored answers exclude; use judge_repeats")

    if answers is not None:
        samples = [_Sample(q, 0, answer) for q, answer in zip(questions, answers, strict=True)]
    else:
        samples = [_Sample(q, repeat) for q in questions for repeat in range(answer_repeats)]
        if index is None:
            from .retrieval import load_index

            index = load_index()
    setup = _set_up(
        judge_model, judge_prompt, judge_repeats,
        assistant_model=None if answers is not None else assistant_model,
        assistant_prompt=assistant_prompt, index=index, k=k,
    )  # fmt: skip
    info = replace(_run_info(setup, questions), answer_repeats=answer_repeats)
    return _run(samples, setup, info, max_concurrency, logs_dir, on_result, progress)


def rejudge(
    run: EvaluationRun,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    judge_repeats: int = 1,
    max_concurrency: int = 8,
    logs_dir: Path | str = constants.LOGS_DIR,
    on_result: Callable[[EvaluationResult], None] | None = None,
    progress: bool = True,
) -> EvaluationRun:
    """Judge the stored answers of a run again, with another judge or prompt: the assistant is not asked.

    The new log says in `run.rejudged_from` where the answers come from, and keeps how they were made. A
    question that got no answer then stays a row with status "failed". See `run_evaluation_suite`."""
    _check_repeats(judge_repeats=judge_repeats, max_concurrency=max_concurrency)
    first_judged = {(r.question.id, r.answer_repeat): r for r in reversed(run.results)}
    samples = [_Sample(r.question, r.answer_repeat, r.answer) for r in reversed(first_judged.values())]
    if not samples:
        raise ConfigError(f"{run.log_path or 'the run'} holds no results to judge again")
    setup = _set_up(judge_model, judge_prompt, judge_repeats)
    questions = list({sample.question.id: sample.question for sample in samples}.values())
    info = replace(
        _run_info(setup, questions),
        rejudged_from=run.run.run_id,
        assistant_model=run.run.assistant_model,
        assistant_prompt_id=run.run.assistant_prompt_id,
        assistant_prompt_sha256=run.run.assistant_prompt_sha256,
        index_fingerprint=run.run.index_fingerprint,
        k=run.run.k,
        answer_repeats=run.run.answer_repeats,
    )
    return _run(samples, setup, info, max_concurrency, logs_dir, on_result, progress)


def _check_repeats(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}, expected 1 or more")


def _set_up(
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    judge_repeats: int,
    *,
    assistant_model: str | BaseChatModel | Model | None = None,
    assistant_prompt: Prompt | str | Path | None = None,
    index: RunbookIndex | None = None,
    k: int = 5,
) -> _Setup:
    """Open the models and check the prompts: whatever is wrong shows before the first call."""
    judging = load_prompt(judge_prompt)
    check_judge_prompt(judging, constants.JUDGE_EVALUATION_CRITERIA)
    judge = open_model(judge_model)
    if assistant_model is None:
        return _Setup(judge, judging, judge_repeats, None, None, index, k)
    answering = load_prompt(assistant_prompt, default=ASSISTANT_PROMPT_ID)
    check_assistant_prompt(answering)
    return _Setup(judge, judging, judge_repeats, open_model(assistant_model), answering, index, k)


def _run_info(setup: _Setup, questions: Sequence[EvalQuestion]) -> RunInfo:
    started = datetime.now().astimezone()
    answered = setup.assistant is not None
    return RunInfo(
        run_id=f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        started_at=started.isoformat(timespec="seconds"),
        judge_model=setup.judge.name,
        assistant_model=setup.assistant.name if setup.assistant else STORED,
        judge_prompt_id=setup.judge_prompt.id,
        judge_prompt_sha256=setup.judge_prompt.sha256,
        assistant_prompt_id=setup.assistant_prompt.id if setup.assistant_prompt else STORED,
        assistant_prompt_sha256=setup.assistant_prompt.sha256 if setup.assistant_prompt else "",
        dataset_sha256=_dataset_sha256(questions),
        index_fingerprint=setup.index.fingerprint if setup.index is not None and answered else "",
        k=setup.k if answered else None,
        judge_repeats=setup.judge_repeats,
        pass_threshold=constants.JUDGE_PASS_THRESHOLD,
        pass_rate_required=constants.JUDGE_PASS_RATE,
        socjudge_version=__version__,
    )


def _dataset_sha256(questions: Sequence[EvalQuestion]) -> str:
    """SHA-256 of the questions as values, in hex: the file's layout does not matter."""
    return hashlib.sha256(orjson.dumps([asdict(question) for question in questions])).hexdigest()


def _run(
    samples: Sequence[_Sample],
    setup: _Setup,
    info: RunInfo,
    max_concurrency: int,
    logs_dir: Path | str,
    on_result: Callable[[EvaluationResult], None] | None,
    progress: bool,
) -> EvaluationRun:
    from tqdm.auto import tqdm

    started = time.perf_counter()
    rows: dict[int, list[EvaluationResult]] = {}
    scored: list[float] = []

    def finish() -> EvaluationRun:
        run = _finished_run(rows, setup, info, time.perf_counter() - started)
        return replace(run, log_path=save_evaluation_results(run, logs_dir))

    with tqdm(total=len(samples), desc="評価を実行中", unit="問", disable=not progress) as bar:

        def take(position: int, results: list[EvaluationResult]) -> None:
            rows[position] = results
            scored.extend(r.evaluation.average_score for r in results if r.evaluation.status == "ok")
            bar.update()
            if scored:
                bar.set_postfix_str(f"平均 {sum(scored) / len(scored):.1f}点")
            if on_result is not None:
                for result in results:
                    on_result(result)

        try:
            _judge_all(samples, setup, max_concurrency, rows, take)
        except BaseException:
            if rows:  # Ctrl-C, or on_result failed: what was paid for is not lost
                path = finish().log_path
                warnings.warn(f"the run was broken off; what was finished is in {path}", stacklevel=3)
            raise
    return finish()


def _finished_run(
    rows: Mapping[int, list[EvaluationResult]], setup: _Setup, info: RunInfo, wall_time_s: float
) -> EvaluationRun:
    ordered = tuple(result for position in sorted(rows) for result in rows[position])
    answers = {(r.question.id, r.answer_repeat): r.answer for r in ordered}.values()
    asked = setup.assistant is not None
    info = replace(
        info,
        finished_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        judge_model_resolved=_resolved(r.evaluation.model for r in ordered if r.evaluation.attempts),
        assistant_model_resolved=_resolved(answer.model for answer in answers),
        assistant_usage=total_usage(answer.usage for answer in answers) if asked else Usage(),
        judge_usage=total_usage(r.evaluation.usage for r in ordered),
        wall_time_s=wall_time_s,
    )
    return EvaluationRun(ordered, summarise_results(ordered), info)


def _judge_all(
    samples: Sequence[_Sample],
    setup: _Setup,
    max_concurrency: int,
    rows: dict[int, list[EvaluationResult]],
    take: Callable[[int, list[EvaluationResult]], None],
) -> None:
    """Judge the first sample alone, then the rest in threads; `take` gets each one's results as they come.

    When broken off, calls in flight are waited for, the rest is marked failed, and all of it is put into `rows`."""
    results, error = _judge_sample(samples[0], setup)
    failed = all(result.evaluation.status == "failed" for result in results)
    if error is not None and failed and not isinstance(error, RequestRefused):
        raise error  # nothing has worked yet, so this is about the set-up
    stop: list[SocJudgeError] = [error] if isinstance(error, ConfigError) else []

    def judge_next(sample: _Sample) -> list[EvaluationResult]:
        if stop:
            return _failed(sample, setup, stop[0])
        try:
            results, error = _judge_sample(sample, setup)
        except Exception as surprise:  # one row's bug must not cost the others what they paid for
            said = redact(f"unexpected {type(surprise).__name__}: {surprise}")[:300]
            return _failed(sample, setup, ProviderError(said))
        if isinstance(error, ConfigError):
            stop.append(error)
        return results

    pool = ThreadPoolExecutor(max_concurrency, thread_name_prefix="socjudge")
    positions = {pool.submit(judge_next, sample): i for i, sample in enumerate(samples) if i}
    try:
        take(0, results)
        for future in as_completed(positions):
            take(positions[future], future.result())
    except BaseException:
        stop.insert(0, ProviderError("the run was broken off before this question"))
        pool.shutdown(wait=True, cancel_futures=True)
        rows.setdefault(0, results)
        for future, i in positions.items():
            rows.setdefault(i, _failed(samples[i], setup, stop[0]) if future.cancelled() else future.result())
        raise
    finally:
        pool.shutdown()


def _judge_sample(sample: _Sample, setup: _Setup) -> tuple[list[EvaluationResult], SocJudgeError | None]:
    """The judgements of one answer, asked for first unless it is stored, and the error that ended them early.

    What was paid for before the error is in the results: the answer, and the judgements that came."""
    if sample.stored is None:
        assert setup.assistant is not None and setup.index is not None  # _set_up gave both
        question, prompt = sample.question.question, setup.assistant_prompt
        try:
            answer = handle_query(question, index=setup.index, model=setup.assistant, k=setup.k, prompt=prompt)
        except SocJudgeError as error:
            return _failed(sample, setup, error), error
        sample = replace(sample, stored=answer)
    assert sample.stored is not None
    if not sample.stored.answer.strip():
        return _failed(sample, setup, ProviderError("the assistant gave no answer, so there is nothing to judge")), None
    results: list[EvaluationResult] = []
    for repeat in range(setup.judge_repeats):
        try:
            evaluation = evaluate_answer(sample.question, sample.stored, model=setup.judge, prompt=setup.judge_prompt)
        except SocJudgeError as error:
            return [*results, *_failed(sample, setup, error)[repeat:]], error
        results.append(EvaluationResult(sample.question, sample.stored, evaluation, sample.answer_repeat, repeat))
    return results, None


def _failed(sample: _Sample, setup: _Setup, error: SocJudgeError) -> list[EvaluationResult]:
    answer = sample.stored or AssistantAnswer(sample.question.question, "")
    evaluation = failed_evaluation(error, model=setup.judge.name)
    return [
        EvaluationResult(sample.question, answer, evaluation, sample.answer_repeat, repeat)
        for repeat in range(setup.judge_repeats)
    ]


def _resolved(models: Any) -> str:
    """The models that answered, each once: usually one, two when the service changed it midway."""
    return ", ".join(dict.fromkeys(model for model in models if model != UNKNOWN)) or UNKNOWN
