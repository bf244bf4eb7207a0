"""Define what a command does for a CI job besides its exit code.

The options are `--summary`, `--junit`, `--against` and `--require-certificate`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Never

from ..base.messages import say
from ..errors import ConfigError, SocJudgeError
from ..records import EvaluationRun
from .groups import Job
from .shared import UNCERTIFIED, Stopped, report_run, stop


def reporting(command: Callable[..., EvaluationRun]) -> Callable[..., Never]:
    """Wrap a command that returns a run. The wrapped command prints the run, writes the files for CI, and ends.

    It ends with the run's exit code. It also writes the files before the run, with the text that there is no verdict
    yet. So no file of an earlier CI job remains.
    """

    @functools.wraps(command)
    def reported(**options: Any) -> Never:
        job: Job = options["job"]
        summary, junit = job.summary, job.junit
        before = None
        _write_stopped(summary, junit, say("report.job_killed"))
        try:
            if job.against is not None:
                from ..report.effect import named_run

                before = named_run(job.against, options["logs_dir"])
            finished = command(**options)
        except Stopped as stopped:
            _write_stopped(summary, junit, stopped.message, is_uncertified=stopped.exit_code == UNCERTIFIED)
            raise
        except SocJudgeError as error:
            _write_stopped(summary, junit, str(error))
            raise
        uncertified = ""
        if job.require_certificate:
            from ..certify.certificate import why_run_uncertified

            uncertified = why_run_uncertified(finished)
        if summary or junit:
            from ..report import job_page

            compared = "" if before is None else _compared(before, finished)
            if summary:
                page = job_page.job_page(finished, against=compared, uncertified=uncertified)
                job_page.write_job_file(summary, page.encode())
            if junit:
                job_page.write_job_file(junit, job_page.job_junit(finished, uncertified=uncertified))
        report_run(finished, uncertified)

    return reported


def need_certificates(bindings: Iterable[Any]) -> None:
    """End the command if a judge has no valid certificate. This function is called before any model is called.

    bindings: for each judge, what its certificate must be valid for, such as its model, prompt and criteria.
    """
    from ..certify.certificate import why_uncertified

    for binding in bindings:
        if reason := why_uncertified(binding):
            stop(reason, UNCERTIFIED)


def _write_stopped(summary: Path | None, junit: Path | None, reason: str, *, is_uncertified: bool = False) -> None:
    if summary or junit:
        from ..report import job_page

        if summary:
            job_page.write_job_file(summary, job_page.stopped_page(reason, is_uncertified=is_uncertified).encode())
        if junit:
            job_page.write_job_file(junit, job_page.stopped_junit(reason))


def _compared(before: EvaluationRun, finished: EvaluationRun) -> Any:
    """Return the comparison of the run `before` with the finished run.

    The finished run may have several judges. If one of them also judged `before`, the results of this judge are
    compared; otherwise, those of the first judge. If the runs cannot be compared, or if their judge, prompt or criteria
    differ, return a text that says why there is no comparison.
    """
    from ..report.effect import compare_runs

    runs = (finished, *finished.others)
    after = next((run for run in runs if run.judge_model == before.judge_model), finished)
    try:
        found = compare_runs(before, after)
    except ConfigError as error:
        return say("report.job_not_compared", reason=error)
    return say("report.job_not_compared", reason=found.doubt) if found.judging else found
