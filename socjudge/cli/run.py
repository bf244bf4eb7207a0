"""Define `socjudge run | rejudge | unfinished`: judge answers, print the verdict and end with its exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Never

import typer

from .. import constants
from .._version import __version__
from ..base.files import checked_page, write_page
from ..base.messages import say
from ..base.showing import answered_by, cost_text, money, shown_path
from ..base.texts import visible
from ..base.verdict import FINISHED, Verdict, answer_verdict, of_criteria, run_verdict, summary_text
from ..errors import ConfigError, SocJudgeError
from ..records import EvaluationRun, RunOptions
from ..settings import keep_free, open_project
from . import options as given
from .options import log_path, one_judge, option
from .shared import NOT_PASSED, PASSED, UNDECIDED, Uncertified, confirm, echo, is_agreed, tell

if TYPE_CHECKING:
    from ..runs.forecast import RunPlan

_OURS = b"<!-- socjudge "  # begins the last line of each summary
# Characters that Markdown or HTML could take for a link, a picture or a tag, and bare addresses, which GitHub would link.
_MARKUP = re.compile(r"[<>&\[\]`\\|~@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def run(
    dataset: given.Dataset = None,
    answers: given.Answers = None,
    assistant_model: given.AssistantModel = "auto",
    judge_model: given.JudgeModels = None,
    max_cost_usd: given.MaxCost = None,
    logs_dir: given.LogsDir = None,
    fresh: given.Fresh = False,
    summary: given.Summary = None,
    require_certificate: given.RequireCertificate = False,
    yes: given.Yes = False,
    quiet: given.Quiet = False,
    judge_prompt: given.JudgePrompt = None,
    judge_repeats: given.JudgeRepeats = 1,
    assistant_prompt: given.AssistantPrompt = None,
    answer_repeats: given.AnswerRepeats = 1,
    k: given.K = None,
    runbooks: given.Runbooks = None,
    index_dir: given.IndexDir = None,
    max_concurrency: given.MaxConcurrency = 8,
    max_failures: given.MaxFailures = 10,
) -> None:
    from ..answering.dataset import load_eval_dataset
    from ..runs.given_answers import open_answers
    from ..runs.suite import plan_run

    def plan() -> RunPlan:
        if dataset is None and not constants.EVAL_DATASET_PATH.exists():
            raise ConfigError(
                "{path}: no questions here; make an evaluation project with `socjudge init DIR`, or say where it is "
                "with --project or --dataset",
                path=constants.EVAL_DATASET_PATH,
            )
        questions = load_eval_dataset(dataset)
        source = answers or open_project().answers or None
        own, index = open_answers(source, questions), None
        if own is None:
            from ..runbooks.index import open_index

            index = open_index(runbooks, index_dir=index_dir)
        else:
            given.refuse_unused(
                say(given.OWN_ANSWERS, answers=source),
                assistant_model=assistant_model,
                assistant_prompt=assistant_prompt,
                k=k,
                runbooks=runbooks,
                index_dir=index_dir,
            )
        return plan_run(
            questions,
            answers=own,
            index=index,
            assistant_model=assistant_model,
            assistant_prompt=assistant_prompt,
            answer_repeats=answer_repeats,
            k=k,
            judge_model=one_judge(judge_model),
            judge_prompt=judge_prompt,
            judge_repeats=judge_repeats,
            logs_dir=logs_dir,
            options=RunOptions(max_concurrency, max_failures, fresh=fresh),
        )

    _carry_out(plan, summary, require_certificate, yes, max_cost_usd, quiet)


def rejudge(
    log: given.Log = None,
    judge_model: given.JudgeModels = None,
    only_failed: Annotated[
        bool,
        option(
            "Judge again only the answers without scores (failed or unparsable), with the run's own judge and prompt; "
            "copy all other rows into the new log.",
            "--only-failed",
        ),
    ] = False,
    max_cost_usd: given.MaxCost = None,
    logs_dir: given.LogsDir = None,
    fresh: given.Fresh = False,
    summary: given.Summary = None,
    require_certificate: given.RequireCertificate = False,
    yes: given.Yes = False,
    quiet: given.Quiet = False,
    judge_prompt: given.JudgePrompt = None,
    judge_repeats: given.JudgeRepeats = 1,
    max_concurrency: given.MaxConcurrency = 8,
    max_failures: given.MaxFailures = 10,
) -> None:
    from ..base.conditions import rubric_changes
    from ..runs.logs import load_run
    from ..runs.suite import plan_rejudge

    def plan() -> RunPlan:
        planned = plan_rejudge(
            load_run(log_path(log, logs_dir)),
            judge_model=one_judge(judge_model),
            judge_prompt=judge_prompt,
            judge_repeats=judge_repeats,
            only_failed=only_failed,
            logs_dir=logs_dir,
            options=RunOptions(max_concurrency, max_failures, fresh=fresh),
        )
        if told := rubric_changes(open_project().rubric, planned.plan.rubric):
            tell("judged by the rubric of this log; other than the present settings: {told}", told=told)
        return planned

    _carry_out(plan, summary, require_certificate, yes, max_cost_usd, quiet)


def unfinished(logs_dir: given.LogsDir = None) -> None:
    from ..runs.unfinished import unfinished_runs

    runs = unfinished_runs(logs_dir)
    for each in runs:
        told = say(
            "{path}: {done} of {total} judged answers, {cost} so far; judge {judge}, assistant {assistant}, "
            "started {started}",
            path=shown_path(each.path),
            done=each.done,
            total=each.total,
            cost=money(each.cost_usd),
            judge=each.run.judge_model,
            assistant=each.run.assistant_model,
            started=each.run.started_at,
        )
        echo(told)
    if not runs:
        echo(say("No unfinished run."))


def _carry_out(
    make_plan: Callable[[], RunPlan], summary: Path | None, certified: bool, yes: bool, cap: float | None, quiet: bool
) -> Never:
    """Say what a run costs, let the user agree, and run it. Print its results, write its summary, and end with the exit
    code of its verdict. If `certified`, no model is called unless the judge has a certificate."""
    # Before the run, so that no summary of an earlier CI job remains.
    _write_stopped(summary, say("The command was ended from outside; see the end of this job's output."))
    try:
        plan = make_plan()
        if certified:
            # imports pandas and scipy, which takes as long as the rest of a run's start
            from ..certify.certificate import why_uncertified
            from ..certify.issue import binding_of_judge

            judging = plan.plan
            if reason := why_uncertified(binding_of_judge(judging.judge, judging.judge_prompt, rubric=judging.rubric)):
                raise Uncertified(reason)
        if plan.note:
            echo(plan.note, err=True)
        confirm(ask_what_is_free(plan, yes).left, plan.cost_note, yes)
        finished = plan.run(max_cost_usd=cap, progress=not quiet)
        code = report_run(finished)
        if certified:
            from ..certify.certificate import binding_of_run, certificates_folder

            folder = certificates_folder(finished.run.mode)
            if reason := why_uncertified(binding_of_run(finished), folder=folder):
                raise Uncertified(reason)
    except SocJudgeError as error:
        _write_stopped(summary, str(error))
        raise
    _write(summary, _finished_text(finished))
    raise typer.Exit(code)


def ask_what_is_free(plan: RunPlan, yes: bool) -> RunPlan:
    """Ask once whether a model of unknown price is free, keep a yes in socjudge.toml, and return the plan at that price.
    Without a terminal, or with `yes`, nothing is asked."""
    from ..runs.forecast import foresee, unpriced

    if yes or not sys.stdin.isatty() or not (models := unpriced(plan.plan)):
        return plan
    for key, model in models.items():
        if is_agreed(say("The price of {model} is unknown. Is it free of charge?", model=model.where)):
            keep_free(key)
    return replace(plan, left=foresee(plan.plan, plan.options, plan.logs_dir).left)


def report_run(finished: EvaluationRun) -> int:
    """Print the results of a run, and return the exit code of its verdict."""
    from ..certify.certificate import run_certificate

    _echo_answers(finished)
    echo("\n" + FINISHED.format(path=shown_path(finished.log_path)) + "\n")
    echo(summary_text(finished))
    verdict = run_verdict(finished)
    if verdict.note:
        echo(verdict.note)
    echo(run_certificate(finished)[1])
    info = finished.run
    tell(
        "Judge: {judge}, assistant: {assistant}, prompt: {prompt}, cost: {cost}, {seconds:.1f} s",
        judge=answered_by(info.judge_model, info.judge_model_resolved),
        assistant=answered_by(info.assistant_model, info.assistant_model_resolved),
        prompt=info.judge_prompt_id,
        cost=cost_text(finished),
        seconds=info.wall_time_s,
    )
    return {"passed": PASSED, "failed": NOT_PASSED}.get(verdict.outcome, UNDECIDED)


def _echo_answers(finished: EvaluationRun) -> None:
    for result in finished.results:
        evaluation = result.evaluation
        verdict = answer_verdict(evaluation, finished.rubric.pass_threshold)
        if evaluation.status == "ok":
            score = say("{score:5.1f} points", score=evaluation.average_score) + of_criteria(evaluation)
        else:
            score = say("not scored ({cause})", cause=evaluation.error[:200])
        line = f"{verdict.mark} {result.question.id}. {score}  {result.question.category}  {result.question.question}"
        echo(_one_line(f"{line}  ⚠️ {verdict.warning}" if verdict.warning else line))


def _finished_text(run: EvaluationRun) -> str:
    from ..certify.certificate import run_certificate

    facts = [run_certificate(run)[1], *([] if run.log_path is None else [str(shown_path(run.log_path))])]
    told = [summary_text(run), run_verdict(run).note, "\n".join(f"- {_one_line(fact)}" for fact in facts)]
    return "\n\n".join(part.strip() for part in told if part)


def _write_stopped(summary: Path | None, reason: str) -> None:
    head = Verdict("open", say("this run has no verdict")).headline
    next_step = say("Next: remove the cause and run the same command again (an interrupted run is resumed).")
    _write(summary, f"## {head}\n\n{_one_line(reason)}\n\n{next_step}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _write(summary: Path | None, text: str) -> None:
    if summary is not None:
        plain = _MARKUP.sub(lambda found: f"&#{ord(found[0])};", visible(text))
        write_page(checked_page(summary, _OURS), f"{plain}\n\n{_OURS.decode()}{__version__} -->\n")
