"""Define the command line: `socjudge init | settings | app | index | ask | run | rejudge | unfinished | doctor |
compare | report | certify`.

Exit codes of run and rejudge: 0 passed; 1 not passed; 2 no verdict was possible, or any error; 4 a required certificate
is missing.
"""

from __future__ import annotations

import io
import re
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.former_names import instead_of
from ..base.messages import say
from ..base.showing import shown_path
from ..records import EvaluationRun
from ..settings import default_answers, project_rubric, specified_values
from . import certify, history, project
from .groups import Answering, Job, Judging, Pace, grouped
from .job import need_certificate, reporting
from .own_assistant import ask_own
from .shared import (
    COULD_NOT_JUDGE,
    PLAIN_SYMBOLS,
    Explained,
    ask_to_run,
    confirm,
    cost_text,
    echo,
    stop,
)

app = typer.Typer(
    cls=Explained,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's boxes cut Japanese text short
    help=say("cli.help", default=specified_values()["defaults.judge_model"]),
)
app.callback()(project.choose_project)
app.command(help=say("cli.init_help"))(project.init)
app.command("settings", help=say("cli.settings_help"))(project.show_settings)
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command("app", help=say("cli.app_help"), context_settings=_PASSED_ON)(project.open_app)
app.command(help=say("cli.doctor_help"))(history.doctor)
app.command(help=say("cli.report_help"))(history.report)
app.command(help=say("cli.compare_help"))(history.compare)
app.command(help=say("cli.certify_help"))(certify.certify)

Runbooks = Annotated[Path | None, typer.Option(help=say("cli.runbooks_option"))]
IndexDir = Annotated[Path | None, typer.Option(help=say("cli.index_dir_option"))]
LogsDir = Annotated[str | None, typer.Option(help=say("cli.logs_dir_option"))]
AssistantPrompt = Annotated[str | None, typer.Option(help=say("cli.assistant_prompt_option"))]
Answers = Annotated[str | None, typer.Option(help=say("cli.answers_option"))]
MaxCost = Annotated[float | None, typer.Option(min=0, help=say("cli.max_cost_option"))]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=say("cli.yes_option"))]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=say("cli.quiet_option"))]


@app.command(help=say("cli.index_help"))
def index(
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
    embeddings: Annotated[str, typer.Option(help=say("cli.embeddings_option"))] = "use",
) -> None:
    """Build the search index of the runbooks. Only texts that changed since the last build are embedded again."""
    runbooks = runbooks or constants.RUNBOOKS_DIR
    index_dir = index_dir or constants.INDEX_DIR
    from tqdm.auto import tqdm

    from ..runbooks.index import build_index

    with tqdm(desc=say("cli.embedding_bar"), unit=say("cli.text_unit"), leave=False, disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        built = build_index(runbooks, index_dir=index_dir, embeddings=embeddings, on_progress=show)
    echo(say("cli.index_done", passages=len(built), folder=index_dir, count=built.n_embedded))


@app.command(help=say("cli.ask_help"))
def ask(
    question: Annotated[str, typer.Argument(help=say("cli.ask_question"))],
    model: Annotated[str, typer.Option(help=say("cli.assistant_model_option"))] = "auto",
    answers: Answers = None,
    assistant_prompt: AssistantPrompt = None,
    k: Annotated[int | None, typer.Option(min=1, help=say("cli.k_option"))] = None,
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
) -> None:
    """Ask socjudge's own assistant, or your own assistant (--answers), a question. No judge is called.

    After an answer of your own assistant, the command also prints what a judge would see of this answer.
    Example: socjudge ask "マルウェア検知アラートの初動を教えてください"
    """
    from ..judging.assistant import handle_query
    from ..runbooks.index import open_index

    if answers := answers or default_answers():
        ask_own(question, answers, lambda: open_index(runbooks, index_dir=index_dir))
        return
    index = open_index(runbooks, index_dir=index_dir)
    answer = handle_query(question, index=index, model=model, k=k, prompt=assistant_prompt)
    echo(answer.answer)
    echo("\n" + say("cli.answered_by", model=answer.model, seconds=answer.processing_time), err=True)


@app.command(help=say("cli.run_help"))
@grouped
@reporting
def run(
    *,
    dataset: Annotated[Path | None, typer.Option(help=say("cli.dataset_option"))] = None,
    answering: Answering,
    judging: Judging,
    max_cost_usd: MaxCost = None,
    pace: Pace,
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
    logs_dir: LogsDir = None,
    job: Job,
    yes: Yes = False,
    quiet: Quiet = False,
) -> EvaluationRun:
    """Answer and judge every question, print the verdict, and write a log.

    An interrupted run resumes where it stopped. `socjudge unfinished` lists such runs. docs/ci.md lists the exit
    codes.
    """
    from ..judging.dataset import load_eval_dataset
    from ..prompts.saved import judge_prompt_of
    from ..runs.assignment import assign_suite
    from ..runs.estimate import estimate_run
    from ..runs.given_answers import needs_index, open_answers
    from ..runs.suite import run_evaluation_suite
    from ..runs.unfinished import journal_info, judged_before

    if dataset is None and not constants.EVAL_DATASET_PATH.exists():
        stop(say("cli.no_questions_here", path=constants.EVAL_DATASET_PATH))
    questions = load_eval_dataset(dataset)
    judge = judging.judge
    there = None if pace.resume is None else journal_info(pace.resume)
    marking: dict[str, Any] = {
        "judge_prompt": judging.judge_prompt or (there and judge_prompt_of(there)),
        "rubric": (there and there.rubric) or project_rubric(),
        "judge_repeats": judging.judge_repeats,
    }
    if job.require_certificate:
        # imports pandas and scipy, which takes as long as the rest of a run's start
        from ..certify.issue import binding_of_judge

        prompt, rubric = marking["judge_prompt"], marking["rubric"]
        need_certificate(binding_of_judge(judge, prompt, rubric=rubric))
    given = open_answers(answering.answers or default_answers() or None, questions)
    asking: dict[str, Any] = asdict(answering) | {"answers": given}
    how = {**marking, **asking, "judge_model": judge}
    estimate = estimate_run(questions, **how)
    index = None
    if needs_index(given):
        from ..runbooks.index import open_index

        index = open_index(runbooks, index_dir=index_dir)
    if estimate.calls and not pace.fresh:
        assignment = assign_suite(questions, index=index, **how)
        estimate = estimate.after(judged_before(assignment.key, logs_dir), assignment.total)
    confirm(estimate, yes)
    # The run itself says how its rubric differs from that of a journal.
    return run_evaluation_suite(
        questions, index=index, **how | {"rubric": None}, max_cost_usd=max_cost_usd, logs_dir=logs_dir,
        progress=not quiet, options=pace.options,
    )  # fmt: skip


@app.command(help=say("cli.rejudge_help"))
@grouped
@reporting
def rejudge(
    *,
    log: Annotated[str, typer.Argument(help=say("cli.rejudge_log"))],
    judging: Judging,
    only_failed: Annotated[bool, typer.Option("--only-failed", help=say("cli.only_failed_option"))] = False,
    max_cost_usd: MaxCost = None,
    pace: Pace,
    logs_dir: LogsDir = None,
    job: Job,
    yes: Yes = False,
    quiet: Quiet = False,
) -> EvaluationRun:
    """Judge the stored answers of a log again, with another judge or prompt. The assistant is not asked.

    Example: socjudge rejudge logs/judge_eval_20260101_090000.json --judge-model gpt-4o
    """
    from ..base.conditions import rubric_changes
    from ..runs import suite
    from ..runs.assignment import assign_failed, assign_rejudging, rows_to_judge
    from ..runs.estimate import estimate_run
    from ..runs.load import find_log, load_run
    from ..runs.unfinished import judged_before

    earlier = load_run(find_log(log, logs_dir))
    how: dict[str, Any] = {
        "judge_model": judging.judge, "judge_prompt": judging.judge_prompt, "judge_repeats": judging.judge_repeats,
    }  # fmt: skip
    assignment = assign_failed(earlier, **how) if only_failed else assign_rejudging(earlier, **how)
    plan, rows, kept = assignment.plan, [row for row in earlier.results if row.judge_repeat == 0], 0
    repeats = plan.judge_repeats
    if only_failed:
        rows, repeats = rows_to_judge(earlier), 1
        kept = assignment.total - len(rows)
    if told := rubric_changes(project_rubric(), plan.rubric):
        echo(say("cli.rubric_of_log", told=told), err=True)
    if job.require_certificate:
        from ..certify.issue import binding_of_judge

        need_certificate(binding_of_judge(plan.judge, plan.judge_prompt, rubric=plan.rubric))
    estimate = estimate_run(
        [row.question for row in rows], answers=[row.answer for row in rows],
        judge_model=plan.judge, judge_prompt=plan.judge_prompt, rubric=plan.rubric, judge_repeats=repeats,
    )  # fmt: skip
    if estimate.calls and not pace.fresh:
        already = max(judged_before(assignment.key, logs_dir) - kept, 0)
        estimate = estimate.after(already, assignment.total - kept)
    confirm(estimate, yes)
    return suite.rejudge(
        earlier, **how, only_failed=only_failed, max_cost_usd=max_cost_usd, logs_dir=logs_dir, progress=not quiet,
        options=pace.options,
    )  # fmt: skip


@app.command(help=say("cli.unfinished_help"))
def unfinished(
    logs_dir: LogsDir = None,
    drop: Annotated[Path | None, typer.Option(help=say("cli.drop_option"))] = None,
    yes: Yes = False,
) -> None:
    """List the interrupted runs or, with --drop, delete one of them.

    To resume a run, start it again with the same options.
    """
    from ..base.storage import as_path
    from ..runs.unfinished import unfinished_runs

    if drop is not None:
        from ..runs.journal import drop_journal

        # In the form that the list shows: a path from here or from the project, or the name alone.
        places = (drop, constants.PROJECT_DIR / drop, as_path(logs_dir or constants.LOGS_DIR) / drop)
        path = next((place for place in places if place.is_file()), drop)
        ask_to_run(yes, question="cli.confirm_drop", declined="cli.nothing_dropped")
        drop_journal(path)
        echo(say("cli.dropped", path=shown_path(path)))
        return
    runs = unfinished_runs(logs_dir)
    for run in runs:
        told: dict[str, Any] = {
            "judge": run.run.judge_model,
            "assistant": run.run.assistant_model,
            "started": run.run.started_at,
        }
        echo(
            say(
                "cli.unfinished_run", path=shown_path(run.path), done=run.done, total=run.total, unread=run.unread_text,
                cost=cost_text(run.cost_usd), **told,
            )
        )  # fmt: skip
        if not run.is_resumable:
            echo(f"    {say('runs.unfinished_earlier')}")
    if not runs:
        echo(say("cli.no_unfinished"))


# The base class of all complaints of typer about what was typed.
_UsageError: Any = typer.BadParameter.__base__


def _with_first_sentences(command: Any) -> Any:
    """Give each subcommand the first sentence of its help text as its description in lists, and return the command.

    Typer would cut a sentence without spaces, as in Japanese, and show "...".
    """
    for below in getattr(command, "commands", {}).values():
        below.short_help = re.split(r"(?<=。)|(?<=\.) |\n", below.help)[0]
        _with_first_sentences(below)
    return command


def main() -> None:
    """Run the `socjudge` command. Warnings are printed as plain lines."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # there is none under pythonw
            stream.reconfigure(errors=PLAIN_SYMBOLS)
    warnings.showwarning = lambda message, *_, **__: echo(f"socjudge: {message}", err=True)
    command = _with_first_sentences(typer.main.get_command(app))
    try:
        sys.exit(command(prog_name="socjudge", standalone_mode=False))
    except _UsageError as error:
        error.show(told := io.StringIO())
        echo(told.getvalue(), nl=False, err=True)
        named = re.search(r"'(\S+)'", error.message)  # the command, where it is not an option
        if instead := instead_of(getattr(error, "option_name", None) or f"socjudge {named and named[1]}"):
            echo(instead, err=True)
        sys.exit(error.exit_code)
    except Exception:  # Python would exit with 1, which means "not passed" here
        echo(traceback.format_exc(), err=True)
        sys.exit(COULD_NOT_JUDGE)
