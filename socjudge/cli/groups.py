"""Define groups of options as records, which are dataclasses.

A command has a parameter for a record. On the command line, each field of the record is an option."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..base.messages import listed, say
from ..records import RunOptions
from .shared import stop


@dataclass(frozen=True)
class Pace:
    """Hold the options for how a run makes its calls. Each of them is also a field of RunOptions."""

    max_concurrency: Annotated[int, typer.Option(min=1, help=say("Calls in flight, at most."))] = 8
    max_failures: Annotated[int, typer.Option(min=1, help=say("Stop after so many failed questions in a row."))] = 10
    fresh: Annotated[
        bool, typer.Option("--fresh", help=say("Start anew although an unfinished run could be taken up."))
    ] = False
    resume: Annotated[Path | None, typer.Option(help=say("Take up this journal, or be told how it differs."))] = None

    @property
    def options(self) -> RunOptions:
        return RunOptions(**asdict(self))


@dataclass(frozen=True)
class Judging:
    """Hold the options that say who judges the answers, and how."""

    # A list, so that a second judge is refused and not taken instead of the first.
    judge_models: Annotated[list[str] | None, typer.Option("--judge-model", help=say("The model that judges."))] = None
    judge_prompt: Annotated[str | None, typer.Option(help=say("Prompt id or .txt file; default: guide-1."))] = None
    judge_repeats: Annotated[int, typer.Option(min=1, help=say("Judgements per answer."))] = 1

    @property
    def judge(self) -> str:
        """Return the name of the judge. End the command if several are named."""
        name, *more = self.judge_models or ["auto"]
        if more:
            stop(
                say(
                    "--judge-model takes one judge; run with the first, and have the others ({judges}) judge the "
                    'same answers: socjudge rejudge LOG --judge-model … (docs/reference.md, "Several judges under '
                    'one cap")',
                    judges=listed(more),
                )
            )
        return name


@dataclass(frozen=True)
class Answering:
    """Hold the options that say who answers, with which prompt, and with how many passages of the runbooks."""

    assistant_model: Annotated[str, typer.Option(help=say("The model that answers."))] = "auto"
    answers: Annotated[
        str | None,
        typer.Option(
            help=say(
                "what is judged instead of socjudge's assistant: a file of answers (CSV, JSONL, Excel), "
                "mybot.py:function, or a table [assistants.…] of socjudge.toml"
            )
        ),
    ] = None
    assistant_prompt: Annotated[
        str | None, typer.Option(help=say("Prompt id or .txt file of the assistant; default: assistant-3."))
    ] = None
    answer_repeats: Annotated[int, typer.Option(min=1, help=say("Answers per question."))] = 1
    k: Annotated[
        int | None, typer.Option(min=1, help=say("Passages per question; default: k of `socjudge settings`."))
    ] = None


@dataclass(frozen=True)
class Job:
    """Hold the options for CI: the summary file, and whether a certificate is required."""

    summary: Annotated[
        Path | None, typer.Option(help=say("Markdown file with the verdict and the summary, for the page of a CI job."))
    ] = None
    require_certificate: Annotated[
        bool,
        typer.Option(
            "--require-certificate",
            help=say(
                "End with exit code 4, and ask no model, unless a certificate holds for this judge, prompt, rubric and "
                "address."
            ),
        ),
    ] = False


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that does the same as `command` and takes each field of a record as a separate option.
    A record is a parameter whose type is a dataclass, such as `Pace`. Typer cannot read such a parameter."""
    given = inspect.signature(command, eval_str=True).parameters.values()
    records: dict[str, Any] = {each.name: each.annotation for each in given if is_dataclass(each.annotation)}
    flat: list[inspect.Parameter] = []
    for each in given:
        hints = get_type_hints(each.annotation, include_extras=True) if each.name in records else {}
        flat += [
            inspect.Parameter(field.name, each.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
            for field in (fields(each.annotation) if hints else ())
        ] or [each.replace(kind=each.KEYWORD_ONLY)]

    @functools.wraps(command)
    def called(**options: Any) -> Any:
        made = {name: kind(**{field.name: options.pop(field.name) for field in fields(kind)}) for name, kind in records.items()}  # fmt: skip
        return command(**options, **made)

    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in flat}
    return called
