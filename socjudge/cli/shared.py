"""Define what all commands share: exit codes, how errors, paths and costs are shown, and how a user agrees."""

from __future__ import annotations

import signal
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..base.messages import say
from ..base.showing import estimate_text
from ..base.texts import visible
from ..errors import ConfigError, SocJudgeError
from ..records import Usage

# The specification's words, as in FINISHED: Japanese in every language.
COSTS_MONEY = "⚠️ LLM as a Judgeの実行にはコストがかかります: "

# The exit codes of all commands; docs/reference.md#exit-codes has the table.
PASSED, NOT_PASSED, TO_CORRECT, UNDECIDED, UNCERTIFIED, NOT_AGREED = range(6)


class Uncertified(SocJudgeError):
    """The judge lacks a certificate that is required."""

    exit_code = UNCERTIFIED


class NotAgreed(SocJudgeError):
    """The user did not agree, or nobody was there to agree."""

    exit_code = NOT_AGREED


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text. Control characters from a model, a service or a file are made visible, because the terminal would
    obey them."""
    typer.echo(visible(text), nl=nl, err=err)


def tell(sentence: str, /, **values: Any) -> None:
    """Print an English sentence in the user's language on stderr, with the values filled in."""
    echo(say(sentence, **values), err=True)


class Explained(TyperGroup):
    """Run the commands of socjudge, and show their errors without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SocJudgeError as error:
            echo(f"socjudge: {error}", err=True)
            code = TO_CORRECT if isinstance(error, ConfigError) else getattr(error, "exit_code", UNDECIDED)
            raise typer.Exit(code) from None
        except KeyboardInterrupt:
            echo("\n" + say("Cancelled"), err=True)
            raise typer.Exit(128 + signal.SIGINT) from None  # as a command that a signal ended


class Grouped(TyperCommand):
    """List the options that are rarely needed in a group of their own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for each in self.get_params(ctx):
            usual = "Arguments" if each.param_type_name == "argument" else "Options"
            if shown := each.get_help_record(ctx):
                groups.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(shown)
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def confirm(estimate: Usage, note: str, yes: bool) -> None:
    """Show what a run will cost, with `note`. NotAgreed if the user does not agree, unless `yes` is true."""
    if not estimate.calls:
        return
    told = estimate_text(estimate)
    echo(told if estimate.cost_usd == 0 else COSTS_MONEY + told, err=True)
    if note:
        echo(note, err=True)
    if yes:
        return
    if not sys.stdin.isatty():  # without a terminal, nobody can agree
        raise NotAgreed("nobody is there to confirm; pass --yes to run it from a script")
    if not is_agreed(say("Run it?")):
        raise NotAgreed("nothing was run")


def is_agreed(question: str) -> bool:
    """Ask a question on stderr, and return whether the user says yes."""
    echo(f"{question} [y/N]: ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes", "はい", "ｙ")
