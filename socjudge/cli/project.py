"""`socjudge init`: an evaluation project of the reader's own. And the option --project, which chooses one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import constants
from ..base.messages import say
from .shared import echo, stop

OF_EVERY_PROJECT = ("notebooks/*.ipynb", "notebooks/voila.json")
OF_THE_EXAMPLE = (
    "eval/eval_dataset.json",
    "eval/eval_dataset_extended.json",
    "eval/runbooks/*",
    "eval/prompts/*.txt",
)
FOLDERS = ("eval/prompts", "eval/human_labels", "logs")
# What an empty project begins with, each in the form that its reader expects.
AT_FIRST = {
    "eval/eval_dataset.json": "[]\n",
    "eval/runbooks/questions.json": "{}\n",
    "eval/runbooks/prohibitions.json": "{}\n",
    "eval/runbooks/synonyms.json": "{}\n",
}
_GITIGNORE = ".socjudge/\n.ipynb_checkpoints/\nlogs/.history/\nlogs/*.partial.jsonl\n"


def choose_project(
    context: typer.Context,
    project: Annotated[Path | None, typer.Option("--project", help=say("cli.project_help"))] = None,
) -> None:
    if project is None:
        is_needed = context.invoked_subcommand != "init" and "--help" not in sys.argv
        if is_needed and "SOCJUDGE_HOME" not in os.environ and not Path.cwd().is_relative_to(constants.PROJECT_DIR):
            echo(say("cli.project_elsewhere", folder=constants.PROJECT_DIR), err=True)
        return
    if not project.is_dir():
        stop(say("cli.no_such_project", folder=project))
    constants.use_project(project)


def init(
    folder: Annotated[Path, typer.Argument(help=say("cli.init_folder"))],
    example: Annotated[bool, typer.Option("--example/--empty", help=say("cli.init_example"))] = True,
) -> None:
    written, kept = 0, []
    try:
        if example and (folder / "eval").is_dir() and any((folder / "eval").iterdir()):
            stop(say("cli.init_has_own", folder=folder / "eval"))  # the example would be mixed into what is theirs
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in _files(example).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                with (folder / name).open("xb") as file:
                    file.write(content)
                written += 1
            except FileExistsError:
                kept.append(name)
    except OSError as error:
        stop(say("cli.init_failed", folder=folder, reason=error))
    echo(say("cli.init_done", folder=folder, count=written))
    if kept:
        echo(say("cli.init_kept", names=", ".join(kept)))
    echo(say("cli.init_next" if example else "cli.init_next_empty", folder=folder))


def _files(example: bool) -> dict[str, bytes]:
    """{path inside the project: content}."""
    source = constants.CARRIED_DIR
    patterns = OF_EVERY_PROJECT + (OF_THE_EXAMPLE if example else ())
    found = sorted(path for pattern in patterns for path in source.glob(pattern))
    readme = Path(__file__).with_name("project_readme.md").read_bytes()
    return {
        **{path.relative_to(source).as_posix(): path.read_bytes() for path in found},
        **({} if example else {name: text.encode() for name, text in AT_FIRST.items()}),
        "README.md": readme,
        ".gitignore": _GITIGNORE.encode(),
        constants.PROJECT_MARK: say("cli.project_mark").encode() + b"\n",
    }
