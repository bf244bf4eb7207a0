"""Define `socjudge init --assistant URL`: try an assistant of one's own with one question, and note how it is called."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import constants
from ..base.atomic_files import append_line
from ..base.messages import explained, say
from ..base.project_file import ASSISTANTS
from ..errors import ConfigError, NoAnswer
from ..settings import open_project
from .shared import echo, tell

_TRIED = "マルウェア検知アラートが発生しました。初動対応の手順を教えてください。"  # the specification's first question
_WAIT_S = 120.0


def add_assistant(folder: Path, url: str) -> None:
    """Ask the service at `url` a test question, and add it as an assistant to socjudge.toml in the project's folder.
    The user is asked for its name and its settings. Without a terminal, the suggested ones are taken."""
    assistants, path = open_project(folder).assistants, folder / constants.PROJECT_MARK
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
