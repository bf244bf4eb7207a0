"""Carry out a plan: open its journal, run its engine, show the progress, and write its log."""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import constants
from ..base.atomic_files import check_writable
from ..base.conditions import UNTOLD
from ..base.files import as_path
from ..base.messages import aside, explained, say
from ..errors import ConfigError, ProviderError, RunStopped, SocJudgeError
from ..models import event_loop
from ..models.gate import Budget, RunGate, get_settings
from ..records import EvaluationRun, ModelRequest, RunOptions
from .engine import Engine
from .finishing import find_finished, finish_run
from .journal import Journal, open_journal
from .plan import Plan, begin_now, check_counts
from .unfinished import describe_journal, find_journal

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
    """Carry out a plan and write the log. The run begins now, or an interrupted one is resumed, which must have at least
    `already` judged answers. The other arguments are those of `run_evaluation_suite`."""
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
        path = None if options.resume is None else Path(options.resume)
        journal = open_journal(folder, begin_now(plan.info), total=plan.total, fresh=options.fresh, path=path)
    is_over = False
    try:
        if journal.sessions > 1 and (finished := find_finished(journal)):
            is_over = True
            return finished
        _take_over(journal, plan, already, progress)
        run_id = journal.info.run_id
        budget.note(run_id, journal.noted_usd + journal.open_usd if budget.max_usd is None else journal.spent_usd)
        gate = RunGate(
            max_concurrency=options.max_concurrency, budget=budget, run_id=run_id, signal=options.stop, settings=settings,
            models=journal.models, answer_usd=journal.answer_usd,
            note=journal.note_spending,
        )  # fmt: skip
        journal.meter = lambda: (gate.spent_usd, gate.sent_usd)
        engine = Engine(plan, journal, gate, max_failures=options.max_failures, executor=options.executor)
        if plan.asks and not engine.failures.has_answered["judge"]:
            event_loop.wait(plan.judge.check_name())  # before the answers are paid for
        _work(engine, gate, journal, plan.total, options, progress=progress)
        run = finish_run(journal, plan, folder, spent_usd=gate.spent_usd if is_priced else None)
        is_over = True
        return run
    except (SocJudgeError, KeyboardInterrupt) as error:
        is_over = journal.is_empty
        if is_over or isinstance(error, KeyboardInterrupt):
            raise
        error.args = (f"{error}\n{_how_to_go_on(journal, plan.total)}",)
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


def _take_over(journal: Journal, plan: Plan, already: int, progress: bool) -> None:
    """Say what is there already, and add the judgements of an earlier run that are not made again."""
    if journal.n_done < already:
        raise ConfigError(
            "the plan counted on {before} judged answers of an interrupted run, and now {now} are there; make the plan "
            "again and look at it",
            before=already,
            now=journal.n_done,
        )
    if journal.n_done and progress:
        told = say(
            "{done}/{total} judged answers are taken over from before the run was broken off ({path})",
            done=journal.n_done,
            total=plan.total,
            path=journal.path,
        )
        print(told, file=aside())
    places = {(sample.question.id, sample.answer_repeat): i for i, sample in enumerate(plan.samples)}
    for result in plan.known:
        i = places[result.question.id, result.answer_repeat]
        if not journal.is_done(i, result.judge_repeat):
            journal.add(result, i, result.judge_repeat)


def shared_budget(
    given: Budget | float | None,
    finished: Iterable[EvaluationRun],
    folder: Path,
    interrupted: Iterable[Plan],
) -> Budget:
    """Return one budget for several runs, which counts the cost of the finished and the interrupted runs.
    ConfigError if there is a limit and the cost of a finished run is unknown."""
    budget = Budget.of(given)
    for run in finished:
        paid = run.cost_usd if run.run.most_usd is None else run.run.most_usd
        if paid is None and budget.max_usd is not None:
            raise ConfigError(
                "max_cost_usd cannot be held: nobody knows what {judge} has cost ({log}); leave max_cost_usd "
                "out, or start anew with fresh (--fresh)",
                judge=run.judge_model,
                log=run.log_path,
            )
        budget.note(run.run.run_id, paid or 0.0)
    for plan in interrupted if budget.max_usd is not None else ():
        if (journal := find_journal(folder, plan.identity)) is not None:
            counted = describe_journal(journal)
            budget.note(counted.run.run_id, counted.spent_usd)
    return budget


def _work(engine: Engine, gate: RunGate, journal: Journal, total: int, options: RunOptions, *, progress: bool) -> None:
    """Wait for the engine, show the progress and pass on the results. Raise the error that ended the run."""
    from tqdm.auto import tqdm

    on_result, stop = options.on_result, options.stop
    scored, unread, points, shown_at = 0, 0, 0.0, 0.0
    complaint: BaseException | None = None
    loop = event_loop.get_loop()
    work = event_loop.start(engine.run(options.max_concurrency))
    in_place = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    every_s = SHOW_S if in_place else LOG_S
    with tqdm(
        total=total, initial=journal.n_done, desc=say("evaluating"), unit=say(" questions"), disable=not progress,
        mininterval=0.1 if in_place else LOG_S, maxinterval=max(10.0, LOG_S),
    ) as bar:  # fmt: skip
        over = False
        while not over:
            try:
                over = bool(concurrent.futures.wait([work], event_loop.HEARTBEAT_S).done)
                if stop is not None and stop.is_set():
                    loop.call_soon_threadsafe(gate.stop)
                news = engine.synced_results()
                for result in news:
                    if result.evaluation.status == "ok":
                        scored, points = scored + 1, points + result.evaluation.average_score
                    else:
                        unread += 1
                if news:  # tqdm would also draw an empty update
                    bar.update(len(news))
                if (now := time.monotonic()) - shown_at >= every_s:
                    shown_at = now
                    mean = say("mean {mean:.1f}", mean=points / scored) if scored else ""
                    bar.set_postfix_str(f"{mean} {_under_way(engine, gate, unread, options.max_concurrency)}".strip())
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
            told = _how_to_go_on(journal, total)
            print(told, file=aside())
            if isinstance(complaint, KeyboardInterrupt):
                # a notebook shows a traceback below, with this as its last line
                raise KeyboardInterrupt(told) from None
        raise complaint
    work.result()
    if gate.reason is not None and (engine.n_left or not isinstance(gate.reason, RunStopped)):
        raise gate.reason  # not for a stop that came after the last result
    if engine.failures.n_undelivered:
        raise ProviderError(
            "the service did not deliver {count} judged answer(s); the last one: {cause}",
            count=engine.failures.n_undelivered,
            cause=engine.failures.last,
        )


def _under_way(engine: Engine, gate: RunGate, unread: int, max_concurrency: int) -> str:
    out = min(gate.in_flight, math.ceil(min(gate.limit, max_concurrency)))
    counts = {
        say("in flight"): out,
        say("queued"): gate.in_flight - out,
        say("retries"): gate.retries,
        say("not scored"): unread,
        say("undelivered"): engine.failures.n_undelivered,
    }
    said = [f"${gate.spent_usd:.4f}"] * bool(gate.spent_usd) + [f"{name} {n}" for name, n in counts.items() if n]
    if gate.limit < max_concurrency:
        said.append(say("at most {limit:.0f} at a time", limit=gate.limit))
    if gate.in_trouble:
        said.append(gate.cause[:100])
    return " ".join(said)


def _how_to_go_on(journal: Journal, total: int) -> str:
    try:
        journal.sync()
        counted = describe_journal(journal.path)  # the same numbers as in `unfinished_runs`
    except (ConfigError, OSError) as problem:
        return say(
            "{done} of {total} judged answers may be lost: {problem}", done=journal.n_done, total=total, problem=problem
        )
    info = journal.info
    unread = (
        say(" ({count} more could not be read and will be asked for again)", count=counted.unread)
        if counted.unread
        else ""
    )
    kept: dict[str, Any] = {"done": counted.done, "unread": unread, "total": total, "path": journal.path}
    for model, settings in ((info.judge_model, info.judge_settings), (info.assistant_model, info.assistant_settings)):
        if settings.startswith(UNTOLD):
            return say(
                "{done} of {total} judged answers{unread} are safe in {path}, but cannot be gone on from: the "
                "object {model} has no `settings` (temperature, address and the like, as text or a dict) that "
                "would tell it from another one; give it some before the next run",
                **kept,
                model=model,
            )
    return say(
        "{done} of {total} judged answers{unread} are safe in {path}; start the same run again to go on",
        **kept,
    )
