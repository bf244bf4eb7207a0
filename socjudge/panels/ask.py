"""Show the panel in which you ask the assistant. `AskPanel()` shows itself in a notebook cell."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import ipywidgets as widgets

from ..answering.assistant import follows_on, handle_query
from ..answering.own_assistant import Assistant
from ..base.messages import say
from ..base.showing import answer_html, block, clipped, escape
from ..records import AssistantAnswer, EvalQuestion
from ..runbooks.index import open_index
from ..runs.given_answers import open_answers
from ..settings import open_project
from .controls import OWN, Panel, button, field, heading, html, model_box, own_choices, told_in

MOST_KEPT = 3  # questions of a conversation that are read together with a follow-up


class AskPanel(Panel):
    """Chat with the assistant. No judge is called.

    The panel shows each question with its answer and the warnings about that answer. A click on a citation opens the
    cited passage. socjudge's own assistant reads a follow-up question together with up to three earlier questions,
    which the panel shows. A new conversation starts when you click the button for it, or when you ask about a new
    incident.
    """

    def __init__(
        self,
        *,
        model: str = "auto",
        runbooks: Path | str | None = None,
        index_dir: Path | str | None = None,
    ) -> None:
        self._runbooks, self._index_dir = runbooks, index_dir
        self.question = field(
            widgets.Textarea,
            say("Question"),
            rows=2,
            placeholder=say("For example: What comes first after a malware alert?"),
        )
        self.model = model_box(say("Assistant"), "answer")
        if model != "auto":
            self.model.value = model
        choices = [(say("socjudge's assistant"), ""), *own_choices()]
        self.assistant = field(widgets.Dropdown, say("who is asked"), options=choices)
        if (default := f"{OWN}{open_project().answers}") in [value for _, value in choices]:
            self.assistant.value = default
        self.assistant.layout.display = "" if len(choices) > 1 else "none"
        self.ask_button = widgets.Button(description=say("Ask"), icon="paper-plane", button_style="primary")
        self.new_button = button(say("Start a new question"), "refresh")
        self.new_button.layout.flex = "0 0 auto"
        self.before, self.status = html(), html()
        self.chat = widgets.VBox()  # newest first
        self.answers: list[AssistantAnswer] = []
        self._asked: list[str] = []  # the questions of this conversation
        self._follow_on = widgets.HBox([self.before, self.new_button])
        self._thread: threading.Thread | None = None
        how = say(
            "Say what is affected, what you see, when it began, and what was done. You can go on asking, as in "
            '"Whom do we tell about that?"'
        )
        super().__init__(
            [
                heading(f"💬 {say('Ask the runbooks')}", how), self._follow_on, self.question,
                self.ask_button, self.assistant, self.model, self.status, self.chat,
            ]
        )  # fmt: skip
        self.add_class("socjudge-ask-panel")
        self.ask_button.on_click(lambda _: self.ask())
        self.new_button.on_click(lambda _: self.start_anew())
        self.assistant.observe(lambda _: self._choose(), "value")
        self._choose()
        self.start_anew()

    def ask(self) -> None:
        """Send the question in the box to the assistant, in the background. Its answer is appended to `answers`."""
        question = self.question.value.strip()
        if self.ask_button.disabled:
            return
        if not question:
            self.status.value = block("warn", say('Type a question first, then press "Ask"'))
            return
        self.ask_button.disabled = True
        self.status.value = block("", say("⏳ Writing the answer..."))
        self._thread = threading.Thread(target=self._answer, args=(question,), name="socjudge-AskPanel", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until no answer is being made, or until the timeout (seconds) has passed."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _choose(self) -> None:
        self.model.layout.display = "none" if self.assistant.value else ""  # only our own assistant uses this model

    def start_anew(self) -> None:
        """Start a new conversation. The assistant reads the next question without the earlier ones."""
        self._keep([])

    def _keep(self, asked: list[str]) -> None:
        self._asked = asked[-MOST_KEPT:]
        self._follow_on.layout.display = "" if self._asked else "none"
        questions = "」「".join(clipped(question, 40) for question in self._asked)
        told = say(
            "↪ The next question is searched for together with the ones before it: 「{questions}」", questions=questions
        )
        self.before.value = block("", escape(told))

    def _answer(self, question: str) -> None:
        with told_in(self.status):
            if self.assistant.value or not follows_on(question):
                self.start_anew()
            answer = self._answer_of_own(question) if self.assistant.value else self._answer_of_ours(question)
            self.answers.append(answer)
            self._keep([] if self.assistant.value else [*self._asked, question])
            self.chat.children = (html(answer_html(answer)), *self.chat.children)
            self.status.value = ""
            if self.question.value.strip() == question:  # otherwise the user is already typing the next question
                self.question.value = ""
        self.ask_button.disabled = False

    def _answer_of_ours(self, question: str) -> AssistantAnswer:
        index = open_index(self._runbooks, index_dir=self._index_dir)
        previous = None
        if self._asked:  # the questions so far, with the answer to the last one
            previous = replace(self.answers[-1], question="\n".join(self._asked))
        return handle_query(question, index=index, model=self.model.value.strip(), previous=previous)

    def _answer_of_own(self, question: str) -> AssistantAnswer:
        """Return the answer to a question from the chosen source: your own assistant, or a file of answers."""
        own = open_answers(self.assistant.value.removeprefix(OWN), [EvalQuestion("?", "", question, ())])
        return own.ask(question) if isinstance(own, Assistant) else own[0]  # type: ignore[index]
