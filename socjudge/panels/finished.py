"""Show what comes after a run: a paragraph to pass on, the matrix with what failed first, and the next three steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from ..base.messages import say
from ..base.pass_rule import run_rule
from ..base.showing import block, question_html, shown_path
from ..errors import ConfigError
from ..records import EvaluationRun
from ..report.effect import compare_runs
from ..report.page import log_before
from ..stats.matrix import question_matrix, run_names
from .controls import ROW, button, html, told_in
from .matrix import Matrix
from .views import boss_text, save_report


class CopyText(anywidget.AnyWidget):
    """Show a text with a button that copies it."""

    _esm = Path(__file__).parent / "copy_text.js"
    text, title, name, done = (traitlets.Unicode().tag(sync=True) for _ in range(4))


class Finished(widgets.VBox):  # type: ignore[misc]
    """Show a finished run's matrix and what to do next. It is empty until `show` is called."""

    def __init__(self, logs_dir: Path, on_again: Callable[[Path], str]) -> None:
        self.logs_dir = logs_dir
        self.run: EvaluationRun | None = None
        self._questions: list[Any] = []
        self.text = CopyText(title=say("For your boss"), name=say("Copy"), done=say("✅ Copied"))
        self.matrix, self.detail, self.told = Matrix(), html(), html()
        self.report_button = button(say("Report"), "file-text")
        self.again_button = button(say("Have another judge score"), "gavel")
        self.compare_button = button(say("Compare with the run before"), "columns")
        steps = {
            self.report_button: lambda log: save_report(logs_dir, log),
            self.again_button: on_again,
            self.compare_button: self._compare_before,
        }
        for each in steps:
            each.on_click(lambda clicked: self._step(steps[clicked]))
        self.matrix.observe(lambda _: self._open(), "chosen")
        buttons = widgets.HBox(list(steps), layout=ROW)
        super().__init__([self.text, buttons, self.told, self.matrix, self.detail], layout={"display": "none"})

    def show(self, run: EvaluationRun | None) -> None:
        """Show a run; None hides everything."""
        self.run, self.detail.value, self.told.value = run, "", ""
        self.layout.display = "none" if run is None else ""
        if run is None:
            return
        scores = run.scores_frame()
        cells = question_matrix(scores)
        weakest = cells.sort_values("mean", na_position="first", kind="stable")  # also what could not be scored
        texts = {result.question.id: f"{result.question.id} {result.question.question}" for result in run.results}
        self._questions = weakest["question_id"].tolist()
        self.matrix.show(cells, {question: texts[question] for question in self._questions}, run_names(scores))
        self.matrix.picked = [0]
        self.text.text = boss_text(run)

    def _open(self) -> None:
        row, _ = self.matrix.chosen
        if self.run is not None and 0 <= row < len(self._questions):
            line = run_rule(self.run.run).line
            found = [each for each in self.run.results if each.question.id == self._questions[row]]
            self.detail.value = block("", *(question_html(each, line=line, opened=True) for each in found))

    def _step(self, step: Callable[[Path], str]) -> None:
        with told_in(self.told):
            if self.run is None or self.run.log_path is None:
                raise ConfigError("this run has no log")
            self.told.value = block("", say("⏳ Working..."))
            self.told.value = step(self.run.log_path)

    def _compare_before(self, log: Path) -> str:
        before = log_before(log)
        if before is None:
            raise ConfigError(
                "there is no earlier run of these questions by the same judge, prompt and assistant in {folder}",
                folder=shown_path(self.logs_dir),
            )
        return str(compare_runs(before, log)._repr_html_())
