"""Show the panel that edits a dataset without writing JSON by hand. `DatasetPanel()` shows itself in a notebook cell."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import ipywidgets as widgets

from ..base.messages import listed, say
from ..base.showing import block, escape, shown_path
from ..errors import ConfigError
from ..judging.dataset import dataset_notes, dataset_problems, load_eval_dataset, save_eval_dataset
from ..records import EvalQuestion
from ..settings import project_categories
from .controls import (
    NAMES,
    WIDE,
    Panel,
    as_choice,
    button,
    choice_box,
    dataset_box,
    heading,
    known_datasets,
    text_box,
    tick_box,
    told_in,
)

_drafts: dict[Path, list[EvalQuestion]] = {}  # unsaved changes, so that nothing is lost when the cell is run again


class DatasetPanel(Panel):
    """Show 「質問の編集」 (edit the questions).

    You add, change and remove questions and keypoints, see what is wrong with them, and save them.

    A text counts as entered when the cursor leaves its field. Only a click on the button for saving writes a file. An
    existing file is replaced only if the box for this is ticked. The opened file is not replaced if another program has
    changed it since it was opened.

    questions: the questions as edited in the panel.
    """

    def __init__(self, dataset: Path | str | None = None) -> None:
        self.questions: list[EvalQuestion] = []
        self._saved: list[EvalQuestion] = []  # the questions as they are in the file
        self._removed: list[tuple[int, EvalQuestion]] = []
        self._source, self._content, self._filling = Path(), b"", False
        self.dataset = dataset_box(say("panels.dataset_file"), dataset)
        self.list = widgets.Select(description=say("panels.dataset_questions"), rows=12, style=NAMES, layout=WIDE)
        self.category = choice_box(say("panels.dataset_category"), options=project_categories())
        self.question, self.keypoints = (
            widgets.Textarea(
                description=say(name),
                placeholder=say(hint),
                rows=rows,
                continuous_update=False,
                style=NAMES,
                layout=WIDE,
            )
            for name, hint, rows in (
                ("panels.dataset_question", "panels.dataset_question_hint", 3),
                ("panels.dataset_keypoints", "panels.dataset_keypoints_hint", 7),
            )
        )
        self.path = text_box(say("panels.dataset_path"))
        self.replace = tick_box(say("panels.dataset_replace"))
        self.add_button, self.remove_button, self.undo_button, self.save_button = (
            button(say(name), icon)
            for name, icon in (
                ("panels.dataset_add", "plus"), ("panels.dataset_remove", "trash"), ("panels.dataset_undo", "undo"),
                ("panels.dataset_save", "save"),
            )
        )  # fmt: skip
        self.save_button.button_style = "primary"
        self.check, self.status = widgets.HTML(), widgets.HTML()
        title = say("panels.dataset_title")
        super().__init__(
            [
                heading(f"📋 {title}", say("panels.dataset_hint")), self.dataset, self.list,
                widgets.HBox([self.add_button, self.remove_button, self.undo_button]), self.category, self.question,
                self.keypoints, self.check, self.path, self.replace, widgets.HBox([self.save_button]), self.status,
            ]
        )  # fmt: skip
        self.add_class("socjudge-dataset-panel")
        self.dataset.observe(lambda _: self._open(), "value")
        self.list.observe(lambda _: self._fill(), "value")
        for control in (self.category, self.question, self.keypoints):
            control.observe(lambda _: self._take(), "value")
        self.add_button.on_click(lambda _: self._add())
        self.remove_button.on_click(lambda _: self._remove())
        self.undo_button.on_click(lambda _: self._undo())
        self.save_button.on_click(lambda _: self._save())
        self._open()

    def _open(self) -> None:
        """Open the chosen file. If this kernel holds unsaved changes to it, show the questions with these changes."""
        source = Path(self.dataset.value)
        with told_in(self.status):
            self._take_up(source, load_eval_dataset(source), source.read_bytes())

    def _take_up(self, source: Path, questions: list[EvalQuestion], content: bytes) -> None:
        self._source, self._content, self._removed = source.resolve(), content, []
        self._saved = questions
        self.questions = list(_drafts.get(self._source, questions))
        is_ours = source in known_datasets()
        self.path.value = str(source.with_name("my_questions.json") if is_ours else source)
        self.status.value = block("", say("panels.dataset_open", count=len(questions), path=shown_path(source)))
        self._show(0)

    def _show(self, place: int) -> None:
        """List the questions, select the one at the index `place`, and show what is wrong with the questions."""
        self._filling = True
        self.list.options = [
            (as_choice(f"{question.id}  {question.category}  {question.question}"), at)
            for at, question in enumerate(self.questions)
        ]
        self.list.value = min(place, len(self.questions) - 1) if self.questions else None
        self._filling = False
        self._fill()

    def _fill(self) -> None:
        """Fill the fields with the selected question. If none is selected, empty and disable the fields."""
        if self._filling:
            return
        self._filling, place = True, self.list.value
        chosen = None if place is None else self.questions[place]
        self.category.value = chosen.category if chosen else project_categories()[0]
        self.question.value = chosen.question if chosen else ""
        self.keypoints.value = "\n".join(chosen.expected_keypoints) if chosen else ""
        for control in (self.category, self.question, self.keypoints, self.remove_button):
            control.disabled = chosen is None
        self.undo_button.disabled = not self._removed
        self._filling = False
        self._judge()

    def _take(self) -> None:
        """Copy the values of the fields into the selected question. If none is selected, do nothing."""
        if self._filling or self.list.value is None:
            return
        place = self.list.value
        keypoints = tuple(line.strip() for line in self.keypoints.value.splitlines() if line.strip())
        self.questions[place] = replace(
            self.questions[place],
            category=self.category.value, question=self.question.value.strip(), expected_keypoints=keypoints,
        )  # fmt: skip
        self._show(place)

    def _add(self) -> None:
        numbers = [question.id for question in self.questions if isinstance(question.id, int)]
        category = self.category.value
        self.questions.append(EvalQuestion(max(numbers, default=0) + 1, category, "", ()))
        self._show(len(self.questions) - 1)

    def _remove(self) -> None:
        if self.list.value is not None:
            self._removed.append((self.list.value, self.questions.pop(self.list.value)))
            self._show(self._removed[-1][0])

    def _undo(self) -> None:
        if self._removed:
            place, question = self._removed.pop()
            self.questions.insert(place, question)
            self._show(place)

    def _judge(self) -> None:
        """Show the errors in the questions. If there are none, show their weak points, and allow saving.

        Unsaved changes are kept in this kernel, so that they are still there when the cell is run again.
        """
        if self.questions == self._saved:
            _drafts.pop(self._source, None)
            unsaved = []
        else:
            _drafts[self._source] = list(self.questions)
            unsaved = [say("panels.dataset_unsaved")]
        problems = dataset_problems(self.questions)
        counts = Counter(question.category for question in self.questions)
        told = listed(f"{category} {counts[category]}" for category in project_categories())
        fit = say("panels.dataset_fit", count=len(self.questions), categories=told)
        first = say("panels.dataset_unfit") if problems else fit
        notes = problems or dataset_notes(self.questions)
        self.check.value = block("bad" if problems else "", *map(escape, [first, *notes, *unsaved]))
        self.save_button.disabled = bool(problems)

    def _save(self) -> None:
        with told_in(self.status):
            path = Path(self.path.value.strip()).expanduser()
            self._check_place(path)
            save_eval_dataset(self.questions, path)
            self._follow_saved(path)

    def _follow_saved(self, path: Path) -> None:
        _drafts.pop(self._source, None)
        self.replace.value = False  # each time needs a new decision
        count = len(self.questions)
        if self.dataset.value == str(path):
            self._open()
        else:
            self.dataset.value = str(path)
        self.status.value = block("good", escape(say("panels.dataset_saved", path=shown_path(path), count=count)))

    def _check_place(self, path: Path) -> None:
        """Raise ConfigError unless the questions may be written to this path.

        The path must end in .json. If a file is there already, the box for replacing it must be ticked. If this file is
        the opened one, it must not have changed since it was opened.
        """
        if path.suffix.lower() != ".json":
            raise ConfigError(say("panels.dataset_no_json", path=path))
        if not path.exists():
            return
        if not self.replace.value:
            raise ConfigError(say("panels.dataset_exists", path=path, replace=say("panels.dataset_replace")))
        if path.resolve() == self._source and path.read_bytes() != self._content:
            raise ConfigError(say("panels.dataset_changed", path=path))
