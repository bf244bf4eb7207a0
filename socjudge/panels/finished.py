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
from ..history.frames import load_runs
from ..records import EvaluationRun
from ..report.effect import compare_runs
from ..report.page import write_report
from ..stats.matrix import question_matrix, run_names
from .controls import ROW, button, html, told_in
from .matrix import Matrix
from .views.common import boss_text
from .views.history import report_html


class CopyText(anywidget.AnyWidget):
    """Show a text with a button that copies it."""

    _esm = Path(__file__).parent / "copy_text.js"
    text, title, name, done = (traitlets.Unicode().tag(sync=True) for _ in range(4))


class Finished(widgets.VBox):  # type: ignore[misc]
    """Show a finished run's matrix and what to do next. It is empty until `show` is called."""

    def __init__(self, logs_dir: Path, on_again: Callable[[Path], Any]) -> None:
        self.logs_dir, self._on_again = logs_dir, on_again
        self.run: EvaluationRun | None = None
        self._questions: list[Any] = []
        self.text = CopyText(title=say("For your boss"), name=say("Copy"), done=say("✅ Copied"))
        self.matrix, self.detail, self.told = Matrix(), html(), html()
        self.report_button = button(say("Report"), "file-text")
        self.again_button = button(say("Have another judge score"), "gavel")
        self.compare_button = button(say("Compare with the run before"), "columns")
        steps = widgets.HBox([self.report_button, self.again_button, self.compare_button], layout=widgets.Layout(**ROW))
        super().__init__([self.text, steps, self.told, self.matrix, self.detail], layout=widgets.Layout(display="none"))
        self.matrix.observe(lambda _: self._open(), "chosen")
        self.report_button.on_click(lambda _: self._step(self._report))
        self.again_button.on_click(lambda _: self._step(lambda run, log: on_again(log)))
        self.compare_button.on_click(lambda _: self._step(self._compare_before))

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

    def _step(self, step: Callable[[EvaluationRun, Path], Any]) -> None:
        with told_in(self.told):
            if self.run is None or self.run.log_path is None:
                raise ConfigError("this run has no log")
            self.told.value = step(self.run, self.run.log_path) or ""

    def _report(self, run: EvaluationRun, log: Path) -> str:
        folder = self.logs_dir / "reports"
        folder.mkdir(exist_ok=True)
        return report_html(write_report(folder / f"{log.name.split('.json')[0]}.html", log))

    def _compare_before(self, run: EvaluationRun, log: Path) -> str:
        runs = load_runs(self.logs_dir)
        own = runs[runs["run_id"] == run.run.run_id]
        earlier = runs.iloc[: own.index[0]] if len(own) else runs
        if len(own):
            earlier = earlier[earlier["dataset_sha256"] == own["dataset_sha256"].iloc[0]]
        if earlier.empty:
            raise ConfigError(
                "there is no earlier run of these questions in {folder}", folder=shown_path(self.logs_dir)
            )
        return str(compare_runs(self.logs_dir / earlier["log"].iloc[-1], log)._repr_html_())
