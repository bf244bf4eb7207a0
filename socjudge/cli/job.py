"""Define what a command does for a CI job besides its exit code: `--summary` and `--require-certificate`."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from .._version import __version__
from ..base.atomic_files import replacing
from ..base.messages import explained, say
from ..base.showing import shown_path
from ..base.texts import visible
from ..base.verdict import Verdict, run_verdict, summary_text
from ..errors import ConfigError, SocJudgeError
from ..records import EvaluationRun
from ..settings import keep_free
from .groups import Job
from .shared import AGREED, UNCERTIFIED, Stopped, confirm, echo, report_run, stop

if TYPE_CHECKING:
    from ..runs.run_plan import RunPlan

_OURS = "<!-- socjudge "  # begins the last line of each summary
# Characters that Markdown or HTML could take for a link, a picture or a tag, and bare addresses, which GitHub would link.
_MARKUP = re.compile(r"[<>&\[\]`\\|~@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def reporting(command: Callable[..., EvaluationRun]) -> Callable[..., Never]:
    """Wrap a command that returns a run: write its summary, print it, and end with its exit code."""

    @functools.wraps(command)
    def reported(**options: Any) -> Never:
        job: Job = options["job"]
        # Before the run, so that no summary of an earlier CI job remains.
        _write_stopped(job.summary, say("The command was ended from outside; see the end of this job's output."))
        try:
            finished = command(**options)
        except Stopped as stopped:
            _write_stopped(job.summary, stopped.message, is_uncertified=stopped.exit_code == UNCERTIFIED)
            raise
        except SocJudgeError as error:
            _write_stopped(job.summary, str(error))
            raise
        uncertified = ""
        if job.require_certificate:
            from ..certify.certificate import why_run_uncertified

            uncertified = why_run_uncertified(finished)
        if uncertified:
            _write_stopped(job.summary, uncertified, is_uncertified=True)
        else:
            _write(job.summary, _finished_text(finished))
        report_run(finished, uncertified)

    return reported


def carry_out(plan: RunPlan, job: Job, yes: bool, **how: Any) -> EvaluationRun:
    """Say what a run costs, let the user agree, and run it. Before any model is called, end the command if the judge
    lacks a required certificate."""
    if job.require_certificate:
        # imports pandas and scipy, which takes as long as the rest of a run's start
        from ..certify.certificate import why_uncertified
        from ..certify.issue import binding_of_judge

        judging = plan.plan
        if reason := why_uncertified(binding_of_judge(judging.judge, judging.judge_prompt, rubric=judging.rubric)):
            stop(reason, UNCERTIFIED)
    if plan.note:
        echo(plan.note, err=True)
    confirm(ask_what_is_free(plan, yes).left, yes)
    return plan.run(**how)


def ask_what_is_free(plan: RunPlan, yes: bool) -> RunPlan:
    """Ask once whether a model of unknown price is free, keep a yes in socjudge.toml, and return the plan at that price.
    Without a terminal, or with `yes`, nothing is asked."""
    from ..runs.estimate import unpriced
    from ..runs.run_plan import foresee

    if yes or not sys.stdin.isatty() or not (models := unpriced(plan.plan)):
        return plan
    for model in models:
        said = say("The price of {model} is unknown. Is it free of charge?", model=getattr(model, "where", model.name))
        echo(f"{said} [y/N]: ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() in AGREED:
            keep_free(model.name)
    return replace(plan, left=foresee(plan.plan, plan.options, plan.logs_dir).left)


def _finished_text(run: EvaluationRun) -> str:
    from ..certify.certificate import run_certificate_line

    facts = [run_certificate_line(run), *([] if run.log_path is None else [str(shown_path(run.log_path))])]
    told = [summary_text(run), run_verdict(run).note, "\n".join(f"- {_one_line(fact)}" for fact in facts)]
    return "\n\n".join(part.strip() for part in told if part)


def _write_stopped(summary: Path | None, reason: str, *, is_uncertified: bool = False) -> None:
    verdict = Verdict(
        "open",
        say(
            "this judge does not have the certificate that is required"
            if is_uncertified
            else "the run did not end, so there is no verdict"
        ),
    )
    next_step = say(
        (
            "Next: make a certificate (socjudge certify) and keep the folder certificates in the repository, or "
            "run without --require-certificate."
        )
        if is_uncertified
        else "Next: remove the cause and run the same command again (an interrupted run is resumed)."
    )
    _write(summary, f"## {verdict.headline}\n\n{_one_line(reason)}\n\n{next_step}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _write(summary: Path | None, text: str) -> None:
    if summary is None:
        return
    plain = _MARKUP.sub(lambda found: f"&#{ord(found[0])};", visible(text))
    with explained("{path}: the report cannot be written ({reason})", path=summary):
        if summary.is_file() and (old := summary.read_bytes()) and _OURS.encode() not in old:
            raise ConfigError(
                "{path}: is there already and was not written by socjudge; give another name, or remove it",
                path=summary,
            )
        with replacing(summary) as file:  # as a whole or not at all
            file.write(f"{plain}\n\n{_OURS}{__version__} -->\n".encode())
