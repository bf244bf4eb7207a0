"""Define `socjudge certify`, which tests whether a judge can be trusted.

`--only` runs single experiments. `--check` shows the certificate that exists. Exit codes: 0 every criterion is
信頼できる (trusted) or 条件つき (with conditions); 1 at least one criterion is 信頼できない (not trusted) or
分からない (unknown); 2 no valid certificate, or any error. Exit codes with `--only`: 0 done; 2 the budget ended before
the experiments were done, or any error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from .. import constants
from ..base.messages import say
from ..base.showing import shown_path
from ..records import RunOptions
from ..settings import open_project
from .groups import grouped
from .shared import COULD_NOT_JUDGE, NOT_PASSED, PASSED, confirm, echo, stop


@dataclass(frozen=True)
class Written:
    """Hold the options that say where the results of `socjudge certify` are written."""

    certificates: Annotated[
        Path | None, typer.Option(help=say("The folder of certificates; default: certificates."))
    ] = None
    page: Annotated[
        Path | None,
        typer.Option(
            help=say(
                "The page to write (HTML); default: beside the certificate. With --only probes its chart (.png, .svg)."
            )
        ),
    ] = None
    logs_dir: Annotated[
        str | None, typer.Option(help=say("Where the log of the judgements goes; default: logs/certify."))
    ] = None


@grouped
def certify(
    *,
    log: Annotated[
        str | None,
        typer.Argument(help=say("The log whose answers are used, by its name or path; not needed with --check.")),
    ] = None,
    judge_model: Annotated[str, typer.Option(help=say("The judge."))] = "auto",
    judge_prompt: Annotated[str | None, typer.Option(help=say("Prompt id or .txt file; default: guide-1."))] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help=say(
                "Make no certificate, only this experiment (may be repeated): probes (does it notice damage?), "
                "injections (do commands and forged verdicts move it?), anchoring (does it follow flags?), "
                "prompts (does the hardened prompt change honest scores?)."
            )
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help=say(
                "People's scores: the folder of LabelPanel, or a CSV file (rater, question_id, answer_sha256, "
                "criterion, score)."
            )
        ),
    ] = None,
    damaged: Annotated[
        Path | None,
        typer.Option(
            help=say(
                "Answers that you broke (JSONL: question_id, broken_answer, criterion a line), judged beside those "
                "damaged by rule."
            )
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            "--max-cost-usd",
            min=0,
            help=say(
                "The most that it may cost in US dollars; default: 0.25 or max_cost_usd of socjudge.toml, the "
                "lesser (without the latter none where prices are not known). With less, less is tried."
            ),
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=say(
                "Damages per answer and criterion, attacks per answer; default: as many as fit the budget, with --only "
                "all."
            ),
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(min=1, help=say("How often each answer is judged again as it is, to measure the judge's noise.")),
    ] = 2,
    check: Annotated[
        bool, typer.Option("--check", help=say("Ask nothing; only look for a valid certificate of today's judge."))
    ] = False,
    written: Written,
    fresh: Annotated[
        bool, typer.Option("--fresh", help=say("Start anew although unfinished judgements could be taken up."))
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=say("Do not ask before a run that costs money."))] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=say("No progress bar."))] = False,
) -> None:
    """Test a judge, and write a certificate that says for each criterion whether to trust the judge."""
    if check:
        _check(judge_model, judge_prompt, written.certificates)
    if log is None:
        stop(
            say(
                "name a log (such as socjudge certify logs/judge_eval_….json), or pass --check to look for a "
                "certificate"
            )
        )
    from ..certify import issue
    from ..certify.all_experiments import chosen_experiments
    from ..certify.certificate import load_certificate, save_certificate
    from ..certify.trust_conditions import plan_told
    from ..report.certificate_page import write_certificate_page
    from ..report.page import checked_page
    from ..runs.load import find_log, load_run

    run = load_run(find_log(log))
    options: dict[str, Any] = {"logs_dir": written.logs_dir, "progress": not quiet, "options": RunOptions(fresh=fresh)}
    if only:
        judge = {"judge_model": judge_model, "judge_prompt": judge_prompt}
        _experiment(
            run, chosen_experiments(only, repeats=repeats, size=size), judge, budget, yes, written.page, options
        )
    what: dict[str, Any] = {
        "judge_model": judge_model, "judge_prompt": judge_prompt, "labels": labels, "damaged": damaged, "size": size,
        "budget_usd": budget,
    }  # fmt: skip
    trials = issue.plan_certificate(run, **what).trials
    if trials.estimate.cost_usd is None and budget is None and open_project().cost_cap() is None:
        what |= {
            "budget_usd": math.inf,
            "size": size or 1,
        }  # the price is unknown; `confirm` says so before it asks the user
        trials = issue.plan_certificate(run, **what).trials
    if written.page is not None:
        checked_page(written.page)
    if not quiet:
        echo(plan_told(trials.tried, len(trials.plan.rubric.criteria)), err=True)
    confirm(trials.estimate, yes)
    made = issue.certify_judge(run, **what, **options)
    path = save_certificate(made, written.certificates)
    certificate = load_certificate(path)
    report = write_certificate_page(written.page or path.with_suffix(".html"), certificate)
    echo(
        say(
            "the certificate is in {path}, its page in {page}",
            path=shown_path(path.absolute()),
            page=shown_path(report.absolute()),
        ),
        err=True,
    )
    if certificate.stopped:
        echo(
            say(
                "the budget was used up, so the rest is 「分からない」; what was paid for is in the certificate ({reason})",
                reason=certificate.stopped,
            ),
            err=True,
        )
    _tell(certificate)


def _experiment(
    run: Any,
    experiments: Any,
    judge: dict[str, Any],
    cap: float | None,
    yes: bool,
    chart: Path | None,
    options: dict[str, Any],
) -> Never:
    from ..base.storage import as_path
    from ..certify.finished_parts import forget_parts
    from ..models.budget import as_budget

    first, *others = (experiment.estimate(run, **judge) for experiment in experiments)
    confirm(sum(others, first), yes)
    # One cap for all experiments; None stands for the project's cap.
    budget, folder = as_budget(cap), options["logs_dir"] or constants.LOGS_DIR / "certify"
    found = []
    for experiment in experiments:
        found.append(experiment.run(run, **judge, **options, max_cost_usd=budget))
        echo(f"{found[-1].words}\n")
    if chart is not None:
        _draw(found, chart)
    if any(outcome.stopped for outcome in found):
        echo(
            say(
                "the budget was used up (${cost:.4f}), so the rest is unknown; the same command with more goes on "
                "from here.",
                cost=budget.spent_usd,
            ),
            err=True,
        )
        raise typer.Exit(COULD_NOT_JUDGE)
    forget_parts(as_path(folder), [part.log_path for outcome in found for part in outcome.judged])
    raise typer.Exit(PASSED)


def _draw(found: Sequence[Any], chart: Path) -> None:
    from ..certify.probe_findings import summarise_probes
    from ..certify.probes import Probes
    from ..charts.probe_matrix import plot_probe_matrix

    for outcome in found:
        if isinstance(outcome.experiment, Probes):
            figure: Any = plot_probe_matrix(summarise_probes(outcome.findings)).figure
            figure.savefig(chart)


def _check(judge_model: str, judge_prompt: str | None, folder: Path | None) -> Never:
    from ..certify.certificate import explain_absence, find_certificate
    from ..certify.issue import binding_of_judge

    binding = binding_of_judge(judge_model, judge_prompt)
    certificate = find_certificate(binding, folder=folder)
    if certificate is None:
        echo(explain_absence(binding, folder=folder), err=True)
        raise typer.Exit(COULD_NOT_JUDGE)
    _tell(certificate)


def _tell(certificate: Any) -> Never:
    echo(say("certificate {name} ({date})", name=certificate.name, date=certificate.issued_at[:10]))
    for verdict in certificate.verdicts:
        echo(f"{verdict.criterion}: {verdict.shown}  {verdict.why}")
    raise typer.Exit(PASSED if certificate.holds else NOT_PASSED)
