"""A whole evaluation: every question answered and judged, summarised by the pass rule, and logged."""

from __future__ import annotations

import concurrent.futures
import hashlib
import secrets
import sys
import threading
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from . import __version__, background, constants
from .engine import Engine
from .errors import ConfigError, SocJudgeError
from .journal import Journal, journal_folder, open_journal
from .logs import LoggedResults, log_chunks, refuge, write_log
from .pacing import RunGate
from .places import as_path, check_place
from .plan import Plan, Sample
from .prompts import ASSISTANT_PROMPT_ID, Prompt, check_assistant_prompt, check_judge_prompt, load_prompt
from .providers import Model, most_usd, open_model
from .record_json import result_from_dict
from .records import (
    UNKNOWN,
    AssistantAnswer,
    EvalQuestion,
    EvaluationResult,
    EvaluationRun,
    ModelRequest,
    RunInfo,
    Usage,
)
from .texts import encodable
from .verdict import Tally

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .retrieval import RunbookIndex

IN_MEMORY = 200  # results of a larger run are read from its log as they are asked for
STORED = "stored"  # the assistant model of a run over answers that were given before


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
    max_cost_usd: float | None = None,
    max_failures: int = 10,
    executor: Executor | None = None,
    logs_dir: Path | str = constants.LOGS_DIR,
    fresh: bool = False,
    resume: Path | str | None = None,
    on_result: Callable[[EvaluationResult], None] | None = None,
    stop: threading.Event | None = None,
    progress: bool = True,
) -> EvaluationRun:
    """Answer and judge every question, apply the pass rule, and write the log; its path is `run.log_path`.

    index: the runbooks; the one in INDEX_DIR if left out. answers: stored answers in the order of the
    questions, judged instead of asking the assistant. answer_repeats, judge_repeats: answers per question,
    and judgements per answer. k: passages per question. max_concurrency: the most calls in flight; fewer while the
    service refuses. max_cost_usd: a hard cap on the whole run, repeated calls included; needs known prices.
    max_failures: so many failed questions in a row end the run. executor: where answers and judgements are made,
    such as Dask's `client.get_executor()` (docs/scaling.md); models must then be named by a string. on_result:
    called in this thread with each new result once it is on disk. stop: set it in another thread to end the run as
    Ctrl-C does. progress: show a bar.

    What is paid for is in `logs_dir/judge_eval_….partial.jsonl` at once. A run that was broken off is taken up by
    starting it again, with the same questions, runbooks, models, prompts and repeats: nothing that is in the journal
    is asked again. fresh: start anew instead; resume: take up this journal, or be told how it differs.

    logs_dir may be a URL such as s3://bucket/logs, as in `save_evaluation_results`. It is tried before the first
    call; the journal is then in LOGS_DIR.

    The first question goes alone, so that a wrong key or an unreachable service costs one call. Failures of single
    questions are rows with status "failed". Raises ConfigError (wrong key, used-up quota, unfit arguments; the same
    run under way in another process), ProviderError (the service is down), RunStopped (`stop`), BudgetReached and
    KeyboardInterrupt; each after the calls in flight are journalled, and each but the first for a run that can be
    taken up."""
    _check_counts(max_concurrency=max_concurrency, max_failures=max_failures)
    if executor is not None:
        _check_names(executor, judge_model, assistant_model)
    assignment = assign_suite(
        questions, index=index, answers=answers, assistant_model=assistant_model, judge_model=judge_model,
        judge_prompt=judge_prompt, assistant_prompt=assistant_prompt,
        answer_repeats=answer_repeats, judge_repeats=judge_repeats, k=k,
    )  # fmt: skip
    return _run(
        assignment,
        max_concurrency=max_concurrency, max_cost_usd=max_cost_usd, max_failures=max_failures, executor=executor,
        logs_dir=logs_dir, fresh=fresh, resume=resume, on_result=on_result, stop=stop, progress=progress,
    )  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """What a run is to do. given: hashes of what is judged besides the questions; n_samples: answers to be judged."""

    n_samples: int
    sample_at: Callable[[int], Sample]
    plan: Plan
    info: RunInfo
    given: Mapping[str, str]

    @property
    def key(self) -> dict[str, Any]:
        """What makes it the same run, so that it can be taken up."""
        key = {name: getattr(self.info, name) for name in _KEY_FIELDS}
        return key | {**self.given, "criteria": "、".join(constants.JUDGE_EVALUATION_CRITERIA)}

    @property
    def total(self) -> int:
        """Judged answers that it will have."""
        return self.n_samples * self.plan.judge_repeats


def assign_suite(
    questions: Sequence[EvalQuestion],
    *,
    index: RunbookIndex | None,
    answers: Sequence[AssistantAnswer] | None,
    assistant_model: str | BaseChatModel | Model,
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    assistant_prompt: Prompt | str | Path | None,
    answer_repeats: int,
    judge_repeats: int,
    k: int,
) -> Assignment:
    """What `run_evaluation_suite` does with these arguments; ConfigError if they are unfit. Nothing is sent."""
    _check_counts(answer_repeats=answer_repeats, judge_repeats=judge_repeats, k=k)
    if not len(questions):
        raise ConfigError("no questions to evaluate; load some with load_eval_dataset()")
    repeated = [name for name, count in Counter(str(q.id) for q in questions).items() if count > 1]
    if repeated:
        raise ConfigError(f"question id {', '.join(repeated)} occurs more than once; every question needs its own")
    if answers is not None and len(answers) != len(questions):
        raise ConfigError(f"{len(answers)} answers for {len(questions)} questions; give one per question, in order")
    if answers is not None and answer_repeats != 1:
        raise ConfigError("answer_repeats asks the assistant again, which stored answers exclude; use judge_repeats")

    if answers is None and index is None:
        from .retrieval import load_index

        index = load_index()
    plan = _make_plan(
        judge_model, judge_prompt, judge_repeats,
        assistant_model=None if answers is not None else assistant_model,
        assistant_prompt=assistant_prompt, index=index, k=k,
    )  # fmt: skip

    def sample_at(i: int) -> Sample:
        position, repeat = divmod(i, answer_repeats)
        return Sample(questions[position], repeat, None if answers is None else answers[position])

    info = replace(_run_info(plan, questions), answer_repeats=answer_repeats)
    given = {"answers_sha256": "" if answers is None else _sha256(_given(answer) for answer in answers)}
    return Assignment(len(questions) * answer_repeats, sample_at, plan, info, given)


def rejudge(
    run: EvaluationRun,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    judge_repeats: int = 1,
    max_concurrency: int = 8,
    max_cost_usd: float | None = None,
    max_failures: int = 10,
    executor: Executor | None = None,
    logs_dir: Path | str = constants.LOGS_DIR,
    fresh: bool = False,
    resume: Path | str | None = None,
    on_result: Callable[[EvaluationResult], None] | None = None,
    stop: threading.Event | None = None,
    progress: bool = True,
) -> EvaluationRun:
    """Judge the stored answers of a run again, with another judge or prompt: the assistant is not asked.

    The new log says in `run.rejudged_from` where the answers come from, and keeps how they were made. A
    question that got no answer then stays a row with status "failed". See `run_evaluation_suite`."""
    _check_counts(max_concurrency=max_concurrency, max_failures=max_failures)
    if executor is not None:
        _check_names(executor, judge_model)
    return _run(
        assign_rejudging(run, judge_model=judge_model, judge_prompt=judge_prompt, judge_repeats=judge_repeats),
        max_concurrency=max_concurrency, max_cost_usd=max_cost_usd, max_failures=max_failures, executor=executor,
        logs_dir=logs_dir, fresh=fresh, resume=resume, on_result=on_result, stop=stop, progress=progress,
    )  # fmt: skip


def assign_rejudging(
    run: EvaluationRun,
    *,
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    judge_repeats: int,
) -> Assignment:
    """What `rejudge` does with these arguments; ConfigError if they are unfit. Nothing is sent."""
    _check_counts(judge_repeats=judge_repeats)
    first_judged = {(r.question.id, r.answer_repeat): r for r in reversed(run.results)}
    samples = [Sample(r.question, r.answer_repeat, r.answer) for r in reversed(first_judged.values())]
    if not samples:
        raise ConfigError(f"{run.log_path or 'the run'} holds no results to judge again")
    plan = _make_plan(judge_model, judge_prompt, judge_repeats)
    questions = list({sample.question.id: sample.question for sample in samples}.values())
    info = replace(
        _run_info(plan, questions),
        rejudged_from=run.run.run_id,
        assistant_model=run.run.assistant_model,
        assistant_service=run.run.assistant_service,
        assistant_prompt_id=run.run.assistant_prompt_id,
        assistant_prompt_sha256=run.run.assistant_prompt_sha256,
        index_fingerprint=run.run.index_fingerprint,
        k=run.run.k,
        answer_repeats=run.run.answer_repeats,
    )
    given = {
        "answers_sha256": _sha256(_given(r.answer) for r in reversed(first_judged.values())),
        "rejudged_from": run.run.run_id,
    }
    return Assignment(len(samples), samples.__getitem__, plan, info, given)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count}, expected 1 or more")


def _make_plan(
    judge_model: str | BaseChatModel | Model,
    judge_prompt: Prompt | str | Path | None,
    judge_repeats: int,
    *,
    assistant_model: str | BaseChatModel | Model | None = None,
    assistant_prompt: Prompt | str | Path | None = None,
    index: RunbookIndex | None = None,
    k: int = 5,
) -> Plan:
    """Open the models and check the prompts: whatever is wrong shows before the first call."""
    judging = load_prompt(judge_prompt)
    check_judge_prompt(judging, constants.JUDGE_EVALUATION_CRITERIA)
    judge = open_model(judge_model)
    if assistant_model is None:
        return Plan(judge, judging, judge_repeats, None, None, index, k)
    answering = load_prompt(assistant_prompt, default=ASSISTANT_PROMPT_ID)
    check_assistant_prompt(answering)
    return Plan(judge, judging, judge_repeats, open_model(assistant_model), answering, index, k)


def _run_info(plan: Plan, questions: Sequence[EvalQuestion]) -> RunInfo:
    started = datetime.now().astimezone()
    answered = plan.assistant is not None
    return RunInfo(
        run_id=f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        started_at=started.isoformat(timespec="seconds"),
        judge_model=plan.judge.name,
        judge_service=getattr(plan.judge, "service", ""),
        assistant_model=plan.assistant.name if plan.assistant else STORED,
        assistant_service=getattr(plan.assistant, "service", ""),
        judge_prompt_id=plan.judge_prompt.id,
        judge_prompt_sha256=plan.judge_prompt.sha256,
        assistant_prompt_id=plan.assistant_prompt.id if plan.assistant_prompt else STORED,
        assistant_prompt_sha256=plan.assistant_prompt.sha256 if plan.assistant_prompt else "",
        dataset_sha256=_sha256(asdict(question) for question in questions),
        index_fingerprint=plan.index.fingerprint if plan.index is not None and answered else "",
        k=plan.k if answered else None,
        judge_repeats=plan.judge_repeats,
        pass_threshold=constants.JUDGE_PASS_THRESHOLD,
        pass_rate_required=constants.JUDGE_PASS_RATE,
        socjudge_version=__version__,
    )


def _sha256(values: Iterable[Any]) -> str:
    """SHA-256 of values as a JSON list, in hex: the layout of the file they come from does not matter."""
    digest, separator = hashlib.sha256(b"["), b""
    for value in values:
        digest.update(separator + orjson.dumps(value))
        separator = b","
    digest.update(b"]")
    return digest.hexdigest()


def _given(answer: AssistantAnswer) -> list[str]:
    """What a judge is shown of a stored answer."""
    return [encodable(text) for text in (answer.answer, answer.context, str(answer.flags))]


# What makes it the same run, so that it can be taken up.
_KEY_FIELDS = (
    "dataset_sha256", "index_fingerprint", "judge_model", "judge_service", "judge_prompt_sha256", "judge_repeats",
    "assistant_model", "assistant_service", "assistant_prompt_sha256", "answer_repeats", "k", "pass_threshold",
    "pass_rate_required", "socjudge_version",
)  # fmt: skip


def _run(
    assignment: Assignment,
    *,
    max_concurrency: int,
    max_cost_usd: float | None,
    max_failures: int,
    executor: Executor | None,
    logs_dir: Path | str,
    fresh: bool,
    resume: Path | str | None,
    on_result: Callable[[EvaluationResult], None] | None,
    stop: threading.Event | None,
    progress: bool,
) -> EvaluationRun:
    plan, total = assignment.plan, assignment.total
    if max_cost_usd is not None:
        _check_prices(plan)
    path, place = None if resume is None else Path(resume), as_path(logs_dir)
    check_place(place)
    journal = _open_journal(
        journal_folder(place), assignment.info, assignment.key,
        total=total, logs_dir=place, fresh=fresh, path=path,
    )  # fmt: skip
    discard = False
    try:
        if journal.n_done:
            unit = "問" if plan.judge_repeats == 1 else "件の採点"
            print(f"{journal.n_done}/{total}{unit}は前回の中断から再開（{journal.path}）", file=sys.stderr)
        gate = RunGate(
            max_concurrency=max_concurrency, max_cost_usd=max_cost_usd,
            spent_usd=journal.spent_usd if max_cost_usd is not None else 0.0,
        )  # fmt: skip
        engine = Engine(
            assignment.n_samples, assignment.sample_at, plan, journal, gate,
            max_failures=max_failures, executor=executor,
        )  # fmt: skip
        _work(engine, gate, journal, total, max_concurrency, on_result, stop, progress)
        run = finish_run(journal, plan, total, engine.elapsed_s, logs_dir)
        discard = True
        return run
    except (SocJudgeError, KeyboardInterrupt) as error:
        discard = journal.is_empty
        if discard or isinstance(error, KeyboardInterrupt):
            raise
        raise type(error)(f"{error}\n{_how_to_go_on(journal, total)}") from None
    finally:
        journal.close(discard=discard)


def _check_prices(plan: Plan) -> None:
    for model in (plan.judge, plan.assistant):
        if model is not None and most_usd(model, ModelRequest("judge", (), {})) is None:
            raise ConfigError(
                f"max_cost_usd cannot be held: the price of '{model.name}' is unknown; put it into "
                f"{constants.PRICES_PATH} (see README), or leave max_cost_usd out"
            )


def _check_names(executor: Executor, *models: str | BaseChatModel | Model) -> None:
    if not isinstance(executor, Executor):
        raise ConfigError(f"executor= is a {type(executor).__name__}; of a Dask client, pass client.get_executor()")
    for model in models:
        if not isinstance(model, str):
            raise ConfigError(
                f"with executor=, name the models by strings: {type(model).__name__} may hold a key, and keys are not "
                "sent to other processes; workers open models with the keys of their own environment"
            )


def _open_journal(folder: Path, info: RunInfo, key: Mapping[str, Any], **keywords: Any) -> Journal:
    try:
        return open_journal(folder, info, key, **keywords)
    except OSError as problem:
        warnings.warn(
            f"{folder}: cannot be written ({problem.strerror}); the journal of this run goes to {refuge()}",
            stacklevel=4,
        )
        return open_journal(refuge(), info, key, **keywords)


def _work(
    engine: Engine,
    gate: RunGate,
    journal: Journal,
    total: int,
    max_concurrency: int,
    on_result: Callable[[EvaluationResult], None] | None,
    stop: threading.Event | None,
    progress: bool,
) -> None:
    """Wait for the engine, showing progress and handing out results; raises why it ended early, if it did."""
    from tqdm.auto import tqdm

    scored, points = 0, 0.0
    complaint: BaseException | None = None
    loop = background.get_loop()
    work = background.start(engine.run(max_concurrency))
    with tqdm(total=total, initial=journal.n_done, desc="評価を実行中", unit="問", disable=not progress) as bar:
        over = False
        while not over:
            try:
                over = bool(concurrent.futures.wait([work], background.HEARTBEAT_S).done)
                if stop is not None and stop.is_set():
                    loop.call_soon_threadsafe(gate.stop)
                news = engine.take()
                for result in news:
                    if result.evaluation.status == "ok":
                        scored, points = scored + 1, points + result.evaluation.average_score
                if news:
                    mean = f"平均 {points / scored:.1f}点" if scored else ""
                    spent = f"${gate.spent_usd:.4f}" if gate.spent_usd else ""
                    bar.set_postfix_str(" ".join(filter(None, [mean, spent])), refresh=False)
                    bar.update(len(news))
                if on_result is not None and complaint is None:
                    for result in news:
                        on_result(result)
            except KeyboardInterrupt as interrupt:
                if complaint is not None:
                    work.cancel()  # the second time: do not wait for the calls in flight
                complaint = interrupt
                print("中断します。実行中の呼び出しの完了を待っています（もう一度で即時終了）", file=sys.stderr)
                loop.call_soon_threadsafe(gate.stop)
            except Exception as problem:  # on_result failed
                complaint = problem
                loop.call_soon_threadsafe(gate.stop)
    if complaint is not None:
        print(_how_to_go_on(journal, total), file=sys.stderr)
        raise complaint
    work.result()
    gate.check()


def _how_to_go_on(journal: Journal, total: int) -> str:
    return (
        f"{journal.n_done} of {total} judged answers are safe in {journal.path}; start the same run again to go on, "
        "or with fresh (--fresh) to start anew"
    )


def finish_run(journal: Journal, plan: Plan, total: int, in_session_s: float, logs_dir: Path | str) -> EvaluationRun:
    """Write the log from the journal, row by row, and give the run that reads from it."""
    totals = _Totals()
    starts = array("q")
    small = total <= IN_MEMORY
    in_memory: list[EvaluationResult] = []
    finished_at = datetime.now().astimezone().isoformat(timespec="seconds")

    def rows() -> Iterator[dict[str, Any]]:
        for row in journal.rows():
            totals.add(row)
            if small:
                in_memory.append(result_from_dict(row, where=str(journal.path)))
            yield row

    def chunks() -> Iterator[bytes]:
        nonlocal totals, starts, in_memory
        totals, starts, in_memory, size = _Totals(), array("q"), [], 0
        for chunk in log_chunks(rows(), lambda: (totals.tally.summary(), info())):
            starts.append(size)
            size += len(chunk)
            yield chunk

    def info() -> RunInfo:
        return replace(
            journal.info,
            finished_at=finished_at,
            judge_model_resolved=", ".join(totals.judges) or UNKNOWN,
            assistant_model_resolved=", ".join(totals.assistants) or UNKNOWN,
            assistant_usage=totals.assistant_usage if plan.assistant is not None else Usage(),
            judge_usage=totals.judge_usage,
            wall_time_s=journal.wall_time_s + in_session_s,
            sessions=journal.sessions,
        )

    path = write_log(chunks, journal.info.started_at, logs_dir)
    results = tuple(in_memory) if small else LoggedResults(path, starts[1:])
    return EvaluationRun(results, totals.tally.summary(), info(), path)


class _Totals:
    """Sums over the rows of a log, which come question by question."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.judge_usage = self.assistant_usage = Usage()
        # Models that answered, each once: usually one, two when the service changed it midway.
        self.judges: dict[str, None] = {}
        self.assistants: dict[str, None] = {}
        self._last_answer: tuple[int | str, int] | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        evaluation, assistant = row["evaluation"], row["assistant"]
        self.tally.add(row["question_id"], evaluation["average_score"], evaluation["status"])
        self.judge_usage += Usage(**evaluation["usage"])
        if evaluation["attempts"] and evaluation["model"] != UNKNOWN:
            self.judges[evaluation["model"]] = None
        if self._last_answer != (row["question_id"], row["answer_repeat"]):
            self._last_answer = (row["question_id"], row["answer_repeat"])
            self.assistant_usage += Usage(**assistant["usage"])
            if assistant["model"] != UNKNOWN:
                self.assistants[assistant["model"]] = None
