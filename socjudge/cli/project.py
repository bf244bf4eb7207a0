"""Define the commands for the project: `socjudge init | settings | app`, and the option --project of all commands."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Never

import typer

from .. import constants, settings
from .._version import __version__
from ..base.atomic_files import refuse_links, replacing
from ..base.extras import missing_extra
from ..base.messages import explained, say
from ..errors import ConfigError
from .options import option
from .own_service import add_assistant
from .shared import echo

OF_EVERY_PROJECT = ("notebooks/*.ipynb", "notebooks/voila.json")
OF_THE_EXAMPLE = ("eval/eval_dataset.json", "eval/eval_dataset_extended.json", "eval/runbooks/*", "eval/prompts/*.txt")
FOLDERS = ("eval/prompts", "eval/human_labels", "logs")
# The files of an empty project, each in the form that its reader expects.
AT_FIRST = {"eval/eval_dataset.json": "[]\n"} | {
    f"eval/runbooks/{name}.json": "{}\n" for name in ("questions", "prohibitions", "synonyms")
}
_GITIGNORE = ".socjudge/\n.ipynb_checkpoints/\nlogs/*.partial.jsonl\n"


def _show_version(asked: bool) -> None:
    if asked:
        echo(f"socjudge {__version__}")
        raise typer.Exit


def choose_project(
    project: Annotated[
        Path | None,
        option("The evaluation project's folder; default: SOCJUDGE_HOME, or the nearest from here upwards."),
    ] = None,
    version: Annotated[
        bool, option("Show the version and end.", "--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if project is not None:
        settings.use_folder(project)


def init(
    folder: Annotated[Path, typer.Argument(help=say("Where; made if it is not there."))],
    example: Annotated[
        bool,
        option("With runbooks and questions of an invented company (default), or empty.", "--example/--empty"),
    ] = True,
    assistant: Annotated[
        str | None,
        option("the address of your own assistant; it is tried with one question and written into socjudge.toml"),
    ] = None,
) -> None:
    if assistant is None or not (folder / constants.PROJECT_MARK).is_file():
        _lay_out(folder, example)
    if assistant is not None:
        add_assistant(folder, assistant)


def _lay_out(folder: Path, example: bool) -> None:
    files, kept = _files(example), []
    with explained("{folder}: the project cannot be made ({reason}); check the folder and its rights", folder=folder):
        if example and (folder / "eval").is_dir() and any((folder / "eval").iterdir()):
            # the example would be mixed with the user's own files
            raise ConfigError(
                "{folder}: has files already, and the example is not mixed into them; choose another folder, or add "
                "only what is missing with --empty",
                folder=folder / "eval",
            )
        for name in FOLDERS:
            refuse_links(folder / name, project=folder)
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            refuse_links(folder / name, project=folder)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                with (folder / name).open("xb") as file:
                    file.write(content)
            except FileExistsError:
                kept.append(name)
    written = len(files) - len(kept)
    echo(say("{folder}: an evaluation project, {count} files written", folder=folder, count=written))
    if kept:
        echo(say("Left as they were: {names}", names=", ".join(kept)))
    echo(say("Next: cd {folder}, then socjudge run (README.md tells more)", folder=folder))


def _files(example: bool) -> dict[str, bytes]:
    source = constants.CARRIED_DIR
    patterns = OF_EVERY_PROJECT + (OF_THE_EXAMPLE if example else ())
    found = sorted(path for pattern in patterns for path in source.glob(pattern))
    readme = Path(__file__).with_name("project_readme.md").read_bytes()
    return {  # {path inside the project: content}
        **{path.relative_to(source).as_posix(): path.read_bytes() for path in found},
        **({} if example else {name: text.encode() for name, text in AT_FIRST.items()}),
        "README.md": readme,
        ".gitignore": _GITIGNORE.encode(),
        constants.PROJECT_MARK: settings.settings_file().encode(),
    }


def show_settings() -> None:
    try:
        project = settings.open_project()
    except ConfigError as error:
        echo(f"socjudge: {error}\n", err=True)
        project = settings.project_without_file()
    echo(str(project.folder))
    for name, value, source in project.rows():
        echo(f"  {name:<26}{value}  [{source}]")


def open_app(context: typer.Context) -> Never:
    """Serve the page with all panels until it is stopped, and end the command with the exit code of Voilà."""
    page = constants.PROJECT_DIR / "notebooks" / "app.ipynb"
    if not page.is_file():
        raise ConfigError(
            "{path}: there are no notebooks; `socjudge init {folder} --empty` adds them (files that are there are left "
            "alone)",
            path=page,
            folder=constants.PROJECT_DIR,
        )
    safe = page.with_name("voila.json")  # only this machine, with a token, and nothing from elsewhere
    if not safe.exists():
        with replacing(safe) as file:
            file.write((constants.CARRIED_DIR / "notebooks" / "voila.json").read_bytes())
    if importlib.util.find_spec("voila") is None:
        raise missing_extra(ModuleNotFoundError(name="voila"), wanted="socjudge app")
    command = [sys.executable, "-m", "voila", page.name, *context.args]
    # The kernels of the page use the same project as this command.
    environment = {**os.environ, "SOCJUDGE_HOME": str(constants.PROJECT_DIR)}
    server = subprocess.Popen(command, cwd=page.parent, env=environment)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # the server gets it too, and asks whether to end
            raise typer.Exit(server.wait())
