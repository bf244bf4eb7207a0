"""Define the commands for the project: `socjudge init | settings | app`, and the option --project of all commands."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from .. import constants, settings
from .._version import __version__
from ..base.files import append_line, refuse_links, replacing
from ..base.messages import explained, say
from ..base.project_file import ASSISTANTS
from ..base.public import missing_extra
from ..errors import ConfigError, NoAnswer
from .options import option
from .shared import echo, tell

OF_EVERY_PROJECT = ("notebooks/*.ipynb", "notebooks/voila.json")
OF_THE_EXAMPLE = ("eval/eval_dataset.json", "eval/eval_dataset_extended.json", "eval/runbooks/*", "eval/prompts/*.txt")
FOLDERS = ("eval/prompts", "eval/human_labels", "logs")
# The files of an empty project, each in the form that its reader expects.
AT_FIRST = {"eval/eval_dataset.json": "[]\n"} | {
    f"eval/runbooks/{name}.json": "{}\n" for name in ("questions", "prohibitions", "synonyms")
}
_TRIED = "マルウェア検知アラートが発生しました。初動対応の手順を教えてください。"  # the specification's first question
_WAIT_S = 120.0
_GITIGNORE = ".socjudge/\n.ipynb_checkpoints/\nlogs/*.partial.jsonl\n"


def _show_version(asked: bool) -> None:
    if asked:
        echo(f"socjudge {__version__}")
        raise typer.Exit


def choose_project(
    context: typer.Context,
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
        return
    is_needed = context.invoked_subcommand != "init" and "--help" not in sys.argv
    if is_needed and "SOCJUDGE_HOME" not in os.environ and not Path.cwd().is_relative_to(constants.PROJECT_DIR):
        tell(
            "The working directory is in no evaluation project, so {folder} is used (another one: socjudge --project "
            "DIR …)",
            folder=constants.PROJECT_DIR,
        )


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


def add_assistant(folder: Path, url: str) -> None:
    """Ask the service at `url` a test question, and add it as an assistant to socjudge.toml in the project's folder.
    The user is asked for its name and its settings. Without a terminal, the suggested ones are taken."""
    assistants, path = settings.open_project(folder).assistants, folder / constants.PROJECT_MARK
    name = _typed(say("name of the assistant"), "bot")
    if name in assistants:
        raise ConfigError(
            "{path} already has [assistants.{name}]; choose another name, or edit the table", name=name, path=path
        )
    lines = [f"url = {_text(url)}"]
    if "{question}" not in url:
        key = _typed(say("key of the JSON that takes the question"), "question")
        lines.append(f'body = {{ {_text(key)} = "{{question}}" }}')
    if variable := _typed(say("variable that holds the API key (empty for none)"), ""):
        lines.append(f"headers = {{ Authorization = {_text(f'Bearer ${{{variable}}}')} }}")
    reply = _tried(tomllib.loads("\n".join(lines)), name, path)
    tell("reply: {reply}", reply=json.dumps(reply, ensure_ascii=False)[:1000])
    answer, contexts = guess_paths(reply)
    lines.append(f"answer = {_text(_typed(say('where the answer stands'), answer))}")
    contexts = _typed(say("where the texts stand that it was made from (- for none)"), contexts)
    lines += [f"contexts = {_text(contexts)}"] if contexts != "-" else []
    with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=path):
        append_line(path, "\n".join(["", f"[{ASSISTANTS}.{_text(name)}]", *lines]).encode())
    echo(say("[assistants.{name}] is in {path}; next: socjudge run --answers {name}", name=name, path=path))


def _tried(table: Mapping[str, Any], name: str, path: Path) -> Any:
    from ..answering.http_assistant import HttpAssistant
    from ..models import event_loop

    tried = HttpAssistant({**table, "answer": "$"}, where=f"[{ASSISTANTS}.{name}]")
    try:
        replies, _ = event_loop.wait(tried.read(_TRIED, _WAIT_S))
    except NoAnswer as error:
        raise ConfigError(
            "{said}\n"
            "If the service needs more than this, write [assistants.{name}] into {path}; docs/reference.md has "
            "examples for Dify and Azure OpenAI",
            said=error,
            name=name,
            path=path,
        ) from None
    return replies[-1] if replies else ""


def guess_paths(reply: Any) -> tuple[str, str]:
    """Guess where a reply has the answer and its contexts: the longest text outside of lists, and where a list's first
    item has its longest text ("-" if there is none)."""
    texts, lists = [(0, "answer")], [(0, "-")]

    def look(value: Any, path: str) -> None:
        if isinstance(value, str):
            texts.append((len(value), path or "$"))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                look(inner, f"{path}.{key}" if path else str(key))
        elif isinstance(value, list) and path.endswith("choices"):  # a chat completion has only one here
            look(value[0] if value else "", f"{path}[0]")
        elif isinstance(value, list) and value:
            parts = value[0].items() if isinstance(value[0], Mapping) else [("", value[0])]
            places = [(f"{path}[*].{key}" if key else f"{path}[*]", inner) for key, inner in parts]
            lists.extend((len(inner), place) for place, inner in places if isinstance(inner, str))

    look(reply, "")
    return max(texts)[1], max(lists)[1]


def _typed(question: str, default: str) -> str:
    shown = f" [{default}]" if default else ""
    echo(f"{question}{shown}: ", nl=False, err=True)
    typed = sys.stdin.readline()
    if not typed:  # nobody is there, as in a script
        echo(default, err=True)
    return typed.strip() or default


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # TOML writes strings as JSON does


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
