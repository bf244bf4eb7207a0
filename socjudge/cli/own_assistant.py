"""Use your own assistant on the command line.

`ask --answers` asks it. `init --assistant` asks it one test question and writes its settings into socjudge.toml.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import constants, settings
from ..base.atomic_files import append_line
from ..base.messages import explained, listed, say
from ..base.project_file import ASSISTANTS
from ..errors import NoAnswer
from ..records import EvalQuestion
from .shared import echo, stop

_TRIED = "マルウェア検知アラートが発生しました。初動対応の手順を教えてください。"  # the specification's first question
_WAIT_S = 120.0


def ask_own(question: str, answers: str, open_index: Callable[[], Any]) -> None:
    """Print the answer of your own assistant, or of a file of answers, and what a judge would see of this answer.
    `answers` is the name of an assistant in socjudge.toml, `file.py:name`, or the path of a file of answers."""
    from ..answering.own_assistant import Assistant
    from ..runs.given_answers import needs_index, open_answers

    given = open_answers(answers, [EvalQuestion("?", "", question, ())])
    if isinstance(given, Assistant):
        echo(given.told_before, err=True)
        answer = given.ask(question, index=open_index() if needs_index(given) else None)
        name = f"{given.name} {answer.version or given.version}".strip()
    else:
        assert given is not None  # because a file was named
        answer, name = given[0], answers
    _show(answer)
    echo(say("({model}, {seconds:.1f} s)", model=name, seconds=answer.processing_time), err=True)


def _show(answer: Any) -> None:
    from ..answering.citations import as_material, unmeasurable

    material = as_material(answer)
    echo(answer.answer)
    names = listed(passage.citation for passage in material.passages) or say("none")
    echo("\n" + say("{count} contexts: {names}", count=len(material.passages), names=names), err=True)
    if material.answer != answer.answer:
        echo(say("the judge is shown (the log keeps the answer as it came):\n{text}", text=material.answer), err=True)
    if lacking := unmeasurable(answer):
        echo(
            say(
                "nobody can score {criteria} like this: have it return its contexts with their names, fill them "
                'from the runbooks with contexts = "runbooks", or use a rubric without',
                criteria=listed(lacking),
            ),
            err=True,
        )


def add_assistant(folder: Path, url: str) -> None:
    """Ask the service at `url` a test question, and add it as an assistant to socjudge.toml in the project's folder.
    The user is asked for its name and its settings. Without a terminal, the suggested ones are taken."""
    from ..answering.http_assistant import HttpAssistant, guess_paths
    from ..answering.own_assistant import Assistant
    from ..models import event_loop

    settings.use_project(folder)
    path = folder / constants.PROJECT_MARK
    name = _answer_to("name of the assistant", "bot")
    if name in settings.open_project().assistants:
        stop(
            say("{path} already has [assistants.{name}]; choose another name, or edit the table", name=name, path=path)
        )
    table: dict[str, Any] = {"url": url}
    if "{question}" not in url:
        table["body"] = {_answer_to("key of the JSON that takes the question", "question"): "{question}"}
    if variable := _answer_to("variable that holds the API key (empty for none)", ""):
        table["headers"] = {"Authorization": f"Bearer ${{{variable}}}"}
    tried = HttpAssistant(table | {"answer": "$"}, where=f"[{ASSISTANTS}.{name}]")
    try:
        replies, _ = event_loop.wait(tried.reply({"question": _TRIED}, _WAIT_S))
    except NoAnswer as error:
        stop(
            say(
                "{said}\n"
                "If the service needs more than this, write [assistants.{name}] into {path}; docs/reference.md has "
                "examples for Dify and Azure OpenAI",
                said=error,
                name=name,
                path=path,
            )
        )
    reply = replies[-1].value if replies else ""
    echo(say("reply: {reply}", reply=json.dumps(reply, ensure_ascii=False)[:1000]), err=True)
    guessed = guess_paths(reply)
    table["answer"] = _answer_to("where the answer stands", guessed.get("answer", "answer"))
    contexts = _answer_to("where the texts stand that it was made from (- for none)", guessed.get("contexts", "-"))
    if contexts != "-":
        table["contexts"] = contexts
    assistant = Assistant(table, name=name)
    echo(assistant.told_before, err=True)
    _show(assistant.ask(_TRIED))
    lines = [f"[{ASSISTANTS}.{_key(name)}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    with explained("{path}: cannot be written ({reason})", path=path):
        append_line(path, ("\n" + "\n".join(lines)).encode())
    echo(say("[assistants.{name}] is in {path}; next: socjudge run --answers {name}", name=name, path=path))


def _answer_to(question: str, default: str) -> str:
    shown = f" [{default}]" if default else ""
    echo(f"{say(question)}{shown}: ", nl=False, err=True)
    typed = sys.stdin.readline()
    if not typed:  # nobody is there, as in a script
        echo(default, err=True)
    return typed.strip() or default


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # TOML writes strings as JSON does


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
