"""Define `socjudge index | ask`, and the assistant of your own that `ask --answers` asks and `init --assistant` adds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.atomic_files import append_line
from ..base.messages import explained, listed, say
from ..base.project_file import ASSISTANTS
from ..errors import ConfigError, NoAnswer
from ..records import EvalQuestion
from ..settings import open_project
from . import options as given
from .shared import echo, tell

_TRIED = "マルウェア検知アラートが発生しました。初動対応の手順を教えてください。"  # the specification's first question
_WAIT_S = 120.0


def index(
    runbooks: given.Runbooks = None,
    index_dir: given.IndexDir = None,
) -> None:
    from tqdm.auto import tqdm

    from ..runbooks.index import build_index

    index_dir = index_dir or constants.INDEX_DIR
    with tqdm(desc=say("embedding"), unit=say("text"), leave=False, disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        built = build_index(runbooks or constants.RUNBOOKS_DIR, index_dir=index_dir, on_progress=show)
    told = say(
        "{passages} passages of runbooks in {folder}; embedded now: {count}",
        passages=len(built),
        folder=index_dir,
        count=built.n_embedded,
    )
    echo(told)


def ask(
    question: Annotated[str, typer.Argument(help=say("What to ask, in quotes."))],
    model: given.AssistantModel = "auto",
    answers: given.Answers = None,
    assistant_prompt: given.AssistantPrompt = None,
    k: given.K = None,
    runbooks: given.Runbooks = None,
    index_dir: given.IndexDir = None,
) -> None:
    from ..answering.assistant import handle_query
    from ..runbooks.index import open_index

    if answers := answers or open_project().answers:
        _ask_own(question, answers)
        return
    answer = handle_query(
        question, index=open_index(runbooks, index_dir=index_dir), model=model, k=k, prompt=assistant_prompt
    )
    echo(f"{answer.answer}\n")
    tell("({model}, {seconds:.1f} s)", model=answer.model, seconds=answer.processing_time)


def _ask_own(question: str, answers: str) -> None:
    from ..answering.own_assistant import Assistant
    from ..runs.given_answers import open_answers

    own = open_answers(answers, [EvalQuestion("?", "", question, ())])
    if isinstance(own, Assistant):
        if told := own.told_before:
            echo(told, err=True)
        answer = own.ask(question)
        name = f"{own.name} {answer.version or own.version}".strip()
    else:
        assert own is not None  # because a file was named
        answer, name = own[0], answers
    _show(answer)
    tell("({model}, {seconds:.1f} s)", model=name, seconds=answer.processing_time)


def _show(answer: Any) -> None:
    """Print the answer of your own assistant, and what a judge would see of it."""
    from ..answering.citations import as_material, unmeasurable

    material = as_material(answer)
    echo(f"{answer.answer}\n")
    names = listed(passage.citation for passage in material.passages) or say("none")
    tell("{count} contexts: {names}", count=len(material.passages), names=names)
    if material.answer != answer.answer:
        tell("the judge is shown (the log keeps the answer as it came):\n{text}", text=material.answer)
    if lacking := unmeasurable(answer):
        tell(
            "nobody can score {criteria} like this: have it return its contexts with their names, or use a rubric "
            "without",
            criteria=listed(lacking),
        )


def add_assistant(folder: Path, url: str) -> None:
    """Ask the service at `url` a test question, and add it as an assistant to socjudge.toml in the project's folder.
    The user is asked for its name and its settings. Without a terminal, the suggested ones are taken."""
    from ..answering.own_assistant import Assistant

    assistants, path = open_project(folder).assistants, folder / constants.PROJECT_MARK
    name = _answer_to("name of the assistant", "bot")
    if name in assistants:
        raise ConfigError(
            "{path} already has [assistants.{name}]; choose another name, or edit the table", name=name, path=path
        )
    table: dict[str, Any] = {"url": url}
    if "{question}" not in url:
        table["body"] = {_answer_to("key of the JSON that takes the question", "question"): "{question}"}
    if variable := _answer_to("variable that holds the API key (empty for none)", ""):
        table["headers"] = {"Authorization": f"Bearer ${{{variable}}}"}
    guessed = _tried(table, name, path)
    table["answer"] = _answer_to("where the answer stands", guessed.get("answer", "answer"))
    contexts = _answer_to("where the texts stand that it was made from (- for none)", guessed.get("contexts", "-"))
    if contexts != "-":
        table["contexts"] = contexts
    assistant = Assistant(table, name=name)
    if told := assistant.told_before:
        echo(told, err=True)
    _show(assistant.ask(_TRIED))
    lines = [f"[{ASSISTANTS}.{_key(name)}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=path):
        append_line(path, ("\n" + "\n".join(lines)).encode())
    echo(say("[assistants.{name}] is in {path}; next: socjudge run --answers {name}", name=name, path=path))


def _tried(table: Mapping[str, Any], name: str, path: Path) -> Mapping[str, str]:
    """Send the test question, and return where answer and contexts seem to stand in the reply."""
    from ..answering.http_assistant import HttpAssistant, guess_paths
    from ..models import event_loop

    tried = HttpAssistant({**table, "answer": "$"}, where=f"[{ASSISTANTS}.{name}]")
    try:
        replies, _ = event_loop.wait(tried.reply({"question": _TRIED}, _WAIT_S))
    except NoAnswer as error:
        raise ConfigError(
            "{said}\n"
            "If the service needs more than this, write [assistants.{name}] into {path}; docs/reference.md has "
            "examples for Dify and Azure OpenAI",
            said=error,
            name=name,
            path=path,
        ) from None
    reply = replies[-1].value if replies else ""
    tell("reply: {reply}", reply=json.dumps(reply, ensure_ascii=False)[:1000])
    return guess_paths(reply)


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
