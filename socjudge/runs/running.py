"""Carry out a plan: open its journal, run its engine, show the progress, and write its log."""

from __future__ import annotations

import concurrent.futures
import contextlib
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from .. import constants
from ..base.conditions import UNTOLD
from ..base.files import as_path, check_writable
from ..base.messages import aside, explained, say
from ..base.pass_rule import run_rule, summarise_results
from ..errors import ConfigError, ProviderError, RunStopped, SocJudgeError
from ..models import event_loop
from ..models.gate import Budget, RunGate, get_settings
from ..records import UNKNOWN, AssistantAnswer, EvaluationRun, ModelRequest, RunOptions, Usage, total_usage
from .engine import Engine
from .identity import Identity
from .journal import Journal, open_journal
from .logs import load_log, log_files, log_names, parse_log, save_evaluation_results
from .plan import Plan, begin_now, check_counts

SHOW_S = 1.0  # seconds between updates of the bar
LOG_S = 30.0  # seconds, if a bar is not redrawn in place, because each update is a line in somebody's log file


def carry_out(
    plan: Plan,
    options: RunOptions | None = None,
    *,
    max_cost_usd: Budget | float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    already: int = 0,
) -> EvaluationRun:
    """Carry out a plan, or resume it with at least `already` judged answers; otherwise as `run_evaluation_suite`."""
    options = options or RunOptions()
    check_counts(max_concurrency=options.max_concurrency, max_failures=options.max_failures)
    settings = get_settings(options.output_tokens, options.timeout_s, options.patience_s)
    folder, budget = as_path(logs_dir or constants.LOGS_DIR), Budget.of(max_cost_usd)
    is_priced = _is_priced(plan, budget)
    with explained(
        "{folder}: cannot be written ({reason}); nothing was asked yet. Free some disk space, fix the "
        "permissions, or name another folder",
        folder=folder,
    ):  # now, because later it would cost the replies
        check_writable(folder)
        journal = open_journal(folder, begin_now(plan.info), total=plan.total, fresh=options.fresh)
    is_over = False
    try:
        if journal.sessions > 1 and (finished := _find_finished(journal)):
            is_over = True
            return finished
        plan = replace(plan, rubric=journal.run.rubric or plan.rubric)  # the run keeps the pass line that it began with
        _take_over(journal, plan, already)
        run_id = journal.run.run_id
        budget.note(run_id, journal.spent_usd)
        gate = RunGate(
            max_concurrency=options.max_concurrency,
            budget=budget,
            run_id=run_id,
            signal=options.stop,
            settings=settings,
            models=journal.models,
            answer_usd=journal.answer_usd,
            note=journal.note_spending,
        )
        journal.meter = lambda: (gate.spent_usd, gate.sent_usd)
        engine = Engine(plan, journal, gate, max_failures=options.max_failures, executor=options.executor)
        _work(engine, gate, journal, options, progress=progress)
        run = _finish(journal, plan, folder, spent_usd=gate.spent_usd if is_priced else None)
        is_over = True
        return run
    except (SocJudgeError, KeyboardInterrupt) as error:
        is_over = journal.is_empty
        if is_over or isinstance(error, KeyboardInterrupt):
            raise
        error.args = (f"{error}\n{_how_to_go_on(journal)}",)
        raise
    finally:
        journal.close(discard=is_over)


def _is_priced(plan: Plan, budget: Budget) -> bool:
    """Return whether the most that each call can cost is known. Raise ConfigError if it is not, and there is a cap."""
    models = (model for model in (plan.judge, plan.assistant) if model is not None)
    unpriced = next((model.name for model in models if model.most_usd(ModelRequest("judge", (), {})) is None), "")
    if not unpriced or budget.max_usd is None:
        return not unpriced
    raise ConfigError(
        "max_cost_usd cannot be held: the price of '{model}' is unknown; put it into {file} ([prices.\"{model}\"], 0 "
        "if it is free), "
        "give a chat model an output limit and an object of your own `most_usd(request)`, or have no cap: "
        "it is max_cost_usd, or stands in socjudge.toml (--max-cost-usd inf, in Python math.inf, in a panel 0)",
        model=unpriced,
        file=constants.PROJECT_MARK,
    )


def _find_finished(journal: Journal) -> EvaluationRun | None:
    """Return the run of a journal from its log, if there is one with all that was asked for. The process was then
    killed before it could remove the journal. What was saved of the journal itself has no end, and is not that log."""
    began, first = journal.run, next(log_names(journal.run.started_at, ""))
    with contextlib.suppress(ConfigError):  # the user may be allowed to write there, and not to read
        for path in (path for path in log_files(journal.path.parent) if path.name >= first):
            with contextlib.suppress(ConfigError, OSError):  # a damaged log is not that of a finished run
                raw = load_log(path)
                run = parse_log(raw, path) if began.run_id.encode() in raw else None
                is_whole = run is not None and run.run.run_id == began.run_id and len(run.results) == journal.total
                if run and is_whole and run.run.finished_at and Identity.of(began) == Identity.of(run.run):
                    return replace(run, log_path=path)
    return None


def _take_over(journal: Journal, plan: Plan, already: int) -> None:
    if journal.n_done < already:
        raise ConfigError(
            "the plan counted on {before} judged answers of an interrupted run, and now {now} are there; make the plan "
            "again and look at it",
            before=already,
            now=journal.n_done,
        )
    places = {(sample.question.id, sample.answer_repeat): i for i, sample in enumerate(plan.samples)}
    for result in plan.known:
        i = places[result.question.id, result.answer_repeat]
        if not journal.is_done(i, result.judge_repeat):
            journal.add(result, i, result.judge_repeat)


def _work(engine: Engine, gate: RunGate, journal: Journal, options: RunOptions, *, progress: bool) -> None:
    """Wait for the engine, show the progress and pass on the results. Raise the error that ended the run."""
    from tqdm.auto import tqdm

    on_result, stop = options.on_result, options.stop
    complaint: BaseException | None = None
    is_over, loop = False, event_loop.get_loop()
    work = event_loop.start(engine.run(options.max_concurrency))
    in_place = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    with tqdm(
        total=journal.total,
        initial=journal.n_done,
        desc=say("evaluating"),
        unit=say(" questions"),
        disable=not progress,
        miniters=0,
        mininterval=SHOW_S if in_place else LOG_S,
    ) as bar:
        while not is_over:
            try:
                is_over = bool(concurrent.futures.wait([work], event_loop.HEARTBEAT_S).done)
                if stop is not None and stop.is_set():
                    loop.call_soon_threadsafe(gate.stop)
                news = engine.synced_results()
                bar.set_postfix_str(_under_way(gate), refresh=False)
                bar.update(len(news))
                if on_result is not None and complaint is None:
                    for result in news:
                        on_result(result)
            except KeyboardInterrupt as interrupt:
                if complaint is not None:
                    work.cancel()  # the second time, do not wait for the calls in flight
                complaint = interrupt
                print(say("stopping; waiting for the calls in flight (once more to end at once)"), file=aside())
                loop.call_soon_threadsafe(gate.stop)
            except Exception as problem:  # on_result failed
                complaint = problem
                loop.call_soon_threadsafe(gate.stop)
    with contextlib.suppress(ConfigError):  # a full disk is reported when a result cannot be written
        journal.note_spending()
    if complaint is not None:
        # these errors say themselves how to go on
        if not journal.is_empty and not isinstance(complaint, SocJudgeError):
            told = _how_to_go_on(journal)
            print(told, file=aside())
            if isinstance(complaint, KeyboardInterrupt):
                # a notebook shows a traceback below, with this as its last line
                raise KeyboardInterrupt(told) from None
        raise complaint
    work.result()
    if gate.reason is not None and (engine.n_left or not isinstance(gate.reason, RunStopped)):
        raise gate.reason  # not for a stop that came after the last result
    if engine.failures.n_undelivered:
        words = "the service did not deliver {count} judged answer(s); the last one: {cause}"
        raise ProviderError(words, count=engine.failures.n_undelivered, cause=engine.failures.last)


def _under_way(gate: RunGate) -> str:
    counts = {say("in flight"): gate.in_flight, say("retries"): gate.retries}
    said = [f"${gate.spent_usd:.4f}"] * bool(gate.spent_usd) + [f"{name} {n}" for name, n in counts.items() if n]
    return " ".join([*said, gate.cause[:100] if gate.in_trouble else ""])


def _how_to_go_on(journal: Journal) -> str:
    counts: dict[str, Any] = {"done": journal.done, "total": journal.total, "path": journal.path}
    try:
        journal.sync()
        journal.path.stat()
    except (ConfigError, OSError) as problem:
        return say("{done} of {total} judged answers may be lost: {problem}", **counts, problem=problem)
    if any(each.startswith(UNTOLD) for each in (journal.run.judge_settings, journal.run.assistant_settings)):
        return say(
            "{done} of {total} judged answers are safe in {path}, but cannot be gone on from: an object without "
            "`settings` (temperature, address and the like, as text or a dict) cannot be told from another one",
            **counts,
        )
    return say("{done} of {total} judged answers are safe in {path}; start the same run again to go on", **counts)


def _finish(journal: Journal, plan: Plan, logs_dir: Path, *, spent_usd: float | None) -> EvaluationRun:
    """Write the log of what is in the journal. `spent_usd` is the most that the run has cost (None: unknown)."""
    began = journal.run
    # The present categories hold: they decide no score.
    questions = {sample.question.id: sample.question for sample in plan.samples}
    results = tuple(replace(each, question=questions[each.question.id]) for each in journal.results)
    answers = dict[Any, AssistantAnswer]()
    for each in results:
        answers.setdefault((each.question.id, each.answer_repeat), each.answer)
    answered = total_usage(answer.usage for answer in answers.values())
    judged = total_usage(each.evaluation.usage for each in results)
    given_up = total_usage(reply.usage for replies in journal.unparsable.values() for reply in replies)
    asked = answered if plan.asks else Usage()  # stored answers cost this run nothing
    costs = spent_usd, (asked + judged).cost_usd  # the most is never less than the sum over the rows
    info = replace(
        plan.info,
        run_id=began.run_id,
        started_at=began.started_at,
        # The rule is that of the journal, also if the run was resumed with another one.
        pass_threshold=began.pass_threshold,
        pass_rate_required=began.pass_rate_required,
        rubric=began.rubric,
        finished_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        # The models that answered: usually one, or two if the service changed it midway.
        judge_model_resolved=_names(each.evaluation.model for each in results if each.evaluation.attempts) or UNKNOWN,
        assistant_model_resolved=_names(answer.model for answer in answers.values()) or UNKNOWN,
        assistant_version=_names(answer.version for answer in answers.values()) or plan.info.assistant_version,
        assistant_usage=asked,
        judge_usage=judged + given_up,
        most_usd=max((cost for cost in costs if cost is not None), default=None),
        wall_time_s=journal.wall_time_s + journal.elapsed_s,
        sessions=journal.sessions,
    )
    run = EvaluationRun(results, summarise_results(results, run_rule(began)), info)
    return replace(run, log_path=save_evaluation_results(run, logs_dir))


def _names(told: Iterable[str]) -> str:
    return ", ".join(name for name in dict.fromkeys(told) if name not in ("", UNKNOWN))
