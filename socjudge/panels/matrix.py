"""Define the control that shows questions and runs as a matrix of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import pandas as pd
import traitlets

from ..base.messages import say
from ..base.showing import escape
from ..base.texts import visible

_HERE = Path(__file__).parent
_NONE: list[Any] = [None, ""]  # a run that did not ask the question


class Matrix(anywidget.AnyWidget):
    """Show one line per question and one column per run. Each cell has a sign and a score from 0 to 100."""

    _esm = _HERE / "matrix.js"
    _css = _HERE / "matrix.css"
    words = traitlets.Dict().tag(sync=True)
    questions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    runs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    cells: Any = traitlets.List().tag(sync=True)
    shown = traitlets.List(traitlets.Int()).tag(sync=True)  # numbers of questions, in their order
    picked = traitlets.List(traitlets.Int()).tag(sync=True)  # numbers of the runs whose headings are ticked
    # Numbers of the question and of the run whose cell was chosen; the run is -1 for the question itself.
    chosen = traitlets.Tuple(traitlets.Int(), traitlets.Int(), default_value=(-1, -1)).tag(sync=True)

    def __init__(self) -> None:
        words = {
            "title": say("Questions and runs"),
            "question": say("Question"),
            "find": say("Find a question"),
            "pick": say("Choose {run}", run="{run}"),
        }
        super().__init__(words=words)

    def show(self, cells: pd.DataFrame, questions: dict[Any, str], runs: dict[Any, str]) -> None:
        """Show `cells`, a frame from `question_matrix`. questions and runs: {id: what stands for it}, in their order."""
        known = {
            (run_id, question): [None if pd.isna(mean) else round(mean, 1), sign]
            for run_id, question, mean, sign in zip(
                cells["run_id"], cells["question_id"], cells["mean"], cells["sign"], strict=True
            )
        }
        with self.hold_sync():  # the page must not see new questions with old cells
            self.questions = [visible(each) for each in questions.values()]
            self.runs = [visible(each) for each in runs.values()]
            self.cells = [[known.get((run_id, question), _NONE) for run_id in runs] for question in questions]
            self.shown, self.picked, self.chosen = list(range(len(questions))), [], (-1, -1)

    def to_html(self) -> str:
        """Return the shown lines as a plain table, for pages without a kernel."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in [self.words["question"], *self.runs])
        lines = (
            f'<tr><th scope="row">{escape(self.questions[row])}</th>{"".join(map(_cell, self.cells[row]))}</tr>'
            for row in self.shown
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        return f'<style>{(_HERE / "matrix.css").read_text("utf-8")}</style><div class="sj-matrix">{table}</div>'


def _cell(cell: list[Any]) -> str:
    score, sign = cell
    style = "" if score is None else f' style="--score: {score:g}"'
    return f"<td{style}>{escape(sign)} {'' if score is None else format(score, 'g')}</td>"
