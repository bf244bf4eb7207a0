"""Define `socjudge index | ask`."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import constants
from ..base.messages import listed, say
from ..records import AssistantAnswer, EvalQuestion
from ..settings import open_project
from . import options as given
from .shared import echo, tell


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
        given.refuse_unused(
            say(given.OWN_ANSWERS, answers=answers),
            model=model,
            assistant_prompt=assistant_prompt,
            k=k,
            runbooks=runbooks,
            index_dir=index_dir,
        )
        answer, name = _own_answer(question, answers)
    else:
        index = open_index(runbooks, index_dir=index_dir)
        answer = handle_query(question, index=index, model=model, k=k, prompt=assistant_prompt)
        name = answer.model
        echo(f"{answer.answer}\n")
    tell("({model}, {seconds:.1f} s)", model=name, seconds=answer.processing_time)


def _own_answer(question: str, answers: str) -> tuple[AssistantAnswer, str]:
    """Print the answer of your own assistant, and what a judge would see of it. Return it with the assistant's name."""
    from ..answering.citations import as_material
    from ..answering.own_assistant import Assistant
    from ..runs.given_answers import open_answers

    own, name = open_answers(answers, [EvalQuestion("?", "", question, ())]), answers
    if isinstance(own, Assistant):
        if told := own.told_before:
            echo(told, err=True)
        answer = own.ask(question)
        name = f"{own.name} {answer.version or own.version}".strip()
    else:
        assert own is not None  # because a file was named
        answer = own[0]
    material = as_material(answer)
    echo(f"{answer.answer}\n")
    names = listed(passage.citation for passage in material.passages) or say("none")
    tell("{count} contexts: {names}", count=len(material.passages), names=names)
    if material.answer != answer.answer:
        tell("the judge is shown (the log keeps the answer as it came):\n{text}", text=material.answer)
    return answer, name
