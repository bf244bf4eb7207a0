"""Define `socjudge certify`, which tests whether a judge can be trusted. `--check` shows the certificate that exists."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from ..base.messages import say
from ..base.showing import shown_path
from ..errors import ConfigError
from ..records import RunOptions
from ..settings import open_project
from . import options as given
from .options import log_path, one_judge, option, refuse_unused
from .shared import NOT_PASSED, PASSED, UNCERTIFIED, confirm, echo, tell


def certify(
    log: given.Log = None,
    judge_model: given.JudgeModels = None,
    labels: Annotated[
        Path | None,
        option(
            "People's scores: the folder of LabelPanel, or a CSV file (rater, question_id, answer_sha256, criterion, "
            "score)."
        ),
    ] = None,
    damaged: Annotated[
        Path | None,
        option(
            "Answers that you broke (JSONL: question_id, broken_answer, criterion a line), judged beside those damaged by "
            "rule."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        option(
            "The most that it may cost in US dollars; default: 0.25 or max_cost_usd of socjudge.toml, the lesser (without "
            "the latter none where prices are not known). With less, less is tried.",
            "--budget",
            "--max-cost-usd",
            min=0,
        ),
    ] = None,
    check: Annotated[
        bool, option("Ask nothing; only look for a valid certificate of today's judge.", "--check")
    ] = False,
    certificates: Annotated[Path | None, option("The folder of certificates; default: certificates.")] = None,
    fresh: given.Fresh = False,
    yes: given.Yes = False,
    quiet: given.Quiet = False,
    judge_prompt: given.JudgePrompt = None,
    size: Annotated[
        int | None,
        option(
            "Damages per answer and criterion, attacks per answer; default: as many as fit the budget.",
            rare=True,
            min=1,
        ),
    ] = None,
    logs_dir: Annotated[
        str | None, option("Where the log of the judgements goes; default: logs/certify.", rare=True)
    ] = None,
) -> None:
    judge = {"judge_model": one_judge(judge_model), "judge_prompt": judge_prompt}
    if check:
        why = say("without effect beside --check, which asks nothing")
        refuse_unused(why, log=log, labels=labels, damaged=damaged, budget=budget, size=size, logs_dir=logs_dir)
        _check(judge, certificates)
    from ..certify.certificate import load_certificate, save_certificate
    from ..certify.issue import plan_certificate
    from ..report.certificate_page import write_certificate_page
    from ..runs.logs import load_run

    run = load_run(log_path(log))
    what: dict[str, Any] = {**judge, "labels": labels, "damaged": damaged}
    plan = plan_certificate(run, **what, size=size, budget_usd=budget)
    if plan.estimate.cost_usd is None and budget is None and open_project().cost_cap() is None:
        # the price is unknown; `confirm` says so before it asks the user
        plan = plan_certificate(run, **what, size=size or 1, budget_usd=math.inf)
    if not quiet:
        echo(plan.note, err=True)
    confirm(plan.estimate, plan.cost_note, yes)
    made = plan.run(logs_dir=logs_dir, progress=not quiet, options=RunOptions(fresh=fresh))
    path = save_certificate(made, certificates)
    certificate = load_certificate(path)
    page = write_certificate_page(path.with_suffix(".html"), certificate)
    tell(
        "the certificate is in {path}, its page in {page}",
        path=shown_path(path.absolute()),
        page=shown_path(page.absolute()),
    )
    if certificate.stopped:
        tell(
            "the budget was used up, so the rest is 「分からない」; what was paid for is in the certificate ({reason})",
            reason=certificate.stopped,
        )
    _show(certificate)


def _check(judge: dict[str, Any], folder: Path | None) -> Never:
    from ..certify.certificate import find_certificate
    from ..certify.issue import binding_of_judge

    binding = binding_of_judge(**judge)
    try:
        found = find_certificate(binding, folder=folder)
    except ConfigError as error:  # a file that may be the certificate is broken or was changed
        found = str(error)
    if isinstance(found, str):
        echo(found, err=True)
        raise typer.Exit(UNCERTIFIED)
    _show(found)


def _show(certificate: Any) -> Never:
    echo(say("certificate {name} ({date})", name=certificate.name, date=certificate.issued_at[:10]))
    for verdict in certificate.verdicts:
        echo(f"{verdict.criterion}: {verdict.shown}  {verdict.why}")
    raise typer.Exit(PASSED if certificate.holds else NOT_PASSED)
