"""Show the panel with the matrix of questions and runs. `HistoryExplorer()` shows itself in a notebook cell."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd

from .. import constants
from ..base.files import as_path
from ..base.messages import say
from ..base.pass_rule import row_lines
from ..base.showing import block, escape
from ..errors import ConfigError
from ..history.frames import load_runs, load_scores
from ..report.effect import compare_runs
from ..runs.logs import load_stored, log_files
from ..stats.matrix import FAILED, PASSED, question_matrix, run_names
from .again import JudgeAgain
from .controls import AUTO, ROW, Panel, button, field, heading, html, told_in
from .matrix import Matrix
from .views import answers_html, chart_html, head_text, runs_html, save_report

SHOWN_RUNS = 30  # columns; the newest
MOVED = 5.0  # points between two runs that are called a difference
_ONLY = {"All": "", "Failed only": "failed", "Verdicts differ": "split", "Moved": "moved"}
_CHARTS = {"Criteria over time": "trend", "Categories × criteria": "categories"}
_ORDERS = {"As in the dataset": "", "Lowest score first": "low", "Largest difference first": "difference"}


class HistoryExplorer(Panel):
    """Look at the history: questions × runs, with the score and ○ △ × in each cell.

    A click on a question or a cell opens the answer, the scores and the reasons, side by side for the runs whose
    headings are ticked. With the buttons you write a report of a run, have another judge score its answers, and compare
    two runs. 「線を変えた場合」 shows the verdicts at another pass line, 「グラフ」 the criteria over time and the
    categories. No model is called before a click.

    - runs, scores: the frames from `load_runs` and `load_scores` of the runs that are shown
    - picked: the ids of the runs that are ticked, the oldest first
    """

    def __init__(self, logs_dir: Path | str | None = None) -> None:
        self.logs_dir = as_path(logs_dir or constants.LOGS_DIR)
        self.runs = self.scores = self._cells = pd.DataFrame()
        self._questions: list[Any] = []
        self._filling = False  # true while the panel itself sets controls
        self.only = widgets.ToggleButtons(
            options=[(say(name), value) for name, value in _ONLY.items()], style={"button_width": "auto"}
        )
        self.order = widgets.Dropdown(
            options=[(say(name), value) for name, value in _ORDERS.items()], description=say("Order"), layout=AUTO
        )
        self.matrix = Matrix()
        self.reload_button = button(say("Read the logs again"), "refresh")
        self.report_button = button(say("Report"), "file-text")
        self.again_button = button(say("Have another judge score"), "gavel")
        self.compare_button = button(say("Compare two"), "columns")
        self.status, self.legend, self.told, self.detail, self.table, self.picture = (html() for _ in range(6))
        self.again = JudgeAgain(self.logs_dir, self.reload)
        self.again.layout.display = "none"
        self.line = field(
            widgets.FloatSlider,
            say("Pass line (points)"),
            min=0,
            max=100,
            step=1,
            value=70,
            readout_format=".0f",
            continuous_update=False,
            layout={"width": "min(100% - 4px, 40em)"},
        )
        self.chart = widgets.Dropdown(
            options=[(say(name), value) for name, value in _CHARTS.items()], description=say("Chart"), layout=AUTO
        )
        self.more = widgets.Accordion(
            [widgets.VBox([self.line, self.table]), widgets.VBox([self.chart, self.picture])],
            titles=(say("With another pass line"), say("Charts")),
        )
        super().__init__(
            [
                heading(f"📈 {say('History of runs')}"),
                widgets.HBox([self.only, self.order, self.reload_button], layout=ROW),
                self.status,
                self.matrix,
                self.legend,
                widgets.HBox([self.report_button, self.again_button, self.compare_button], layout=ROW),
                self.told,
                self.again,
                self.detail,
                self.more,
            ]
        )
        self.add_class("socjudge-history-explorer")
        self._connect()
        self.reload()

    def _connect(self) -> None:
        watched = [
            (self.only, "value", self._arrange),
            (self.order, "value", self._arrange),
            (self.matrix, "picked", self._pick),
            (self.matrix, "chosen", self._open),
            (self.line, "value", self._unfold),
            (self.chart, "value", self._unfold),
            (self.more, "selected_index", self._unfold),
        ]
        for control, name, act in watched:
            control.observe(lambda _, act=act: None if self._filling else act(), name)
        self.reload_button.on_click(lambda _: self.reload())
        self.report_button.on_click(
            lambda _: self._use_logs(1, 2, lambda logs: save_report(self.logs_dir, *reversed(logs)))
        )
        self.again_button.on_click(lambda _: self._use_logs(1, SHOWN_RUNS, self._offer))
        self.compare_button.on_click(
            lambda _: self._use_logs(2, 2, lambda logs: str(compare_runs(*logs)._repr_html_()))
        )

    def reload(self) -> None:
        """Read the logs again. The choices in the controls are kept."""
        self.runs, self.scores, self._questions = pd.DataFrame(), pd.DataFrame(), []
        self.status.value = self.detail.value = self.told.value = ""
        # How many logs are left out is said below, in words for a panel.
        with warnings.catch_warnings(action="ignore"), told_in(self.status):
            runs, scores = load_runs(self.logs_dir), load_scores(self.logs_dir)
            if ids := scores["run_id"].astype(object).unique().tolist()[-SHOWN_RUNS:] if len(scores) else []:
                self.scores = scores[scores["run_id"].isin(ids)]
                self.runs = runs.set_index("run_id").loc[ids].reset_index()
                self._show_matrix(ids)
            self.status.value = self._found(runs["run_id"].nunique())
        for part in (self.matrix, self.legend, self.more):
            part.layout.display = "" if len(self.runs) else "none"
        self._unfold()

    @property
    def picked(self) -> list[str]:
        """Return the ids of the runs that are ticked, the oldest first."""
        return self._picked("run_id")

    def _picked(self, column: str) -> list[Any]:
        values = self.runs[column].tolist() if len(self.runs) else []
        return [values[place] for place in sorted(self.matrix.picked) if place < len(values)]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        # An exported page has no kernel, and shows the matrix as a plain table.
        found = super()._repr_mimebundle_(**options)
        return {**found, "text/html": self.matrix.to_html()} if isinstance(found, dict) and len(self.runs) else found

    # -- what is shown

    def _show_matrix(self, ids: list[Any]) -> None:
        self._cells, texts, names = question_matrix(self.scores), self._texts(), run_names(self.scores)
        self._questions = list(texts)
        self._filling = True
        self.matrix.show(
            self._cells, texts, {row["run_id"]: head_text(row, names) for row in self.runs.to_dict("records")}
        )
        latest = self.runs.iloc[-1]
        before = latest["rejudged_from"] if latest["rejudged_from"] in ids else ids[-2] if len(ids) > 1 else ids[-1]
        self.matrix.picked = sorted({ids.index(before), len(ids) - 1})
        self.line.value = float(row_lines(self.runs).iloc[-1])
        self._filling = False
        self.legend.value = block(
            "", say("○ passes　△ undecided (scores are missing)　× fails　– not scored　empty: not asked")
        )
        self._arrange()

    def _texts(self) -> dict[Any, str]:
        """Return {question id: the line of the matrix}. The frames have no texts, so the newest logs are read."""
        wanted = self.scores.drop_duplicates("question_id").set_index("question_id")["category"].to_dict()
        found: dict[Any, str] = {}
        for log in reversed(self.runs["log"].tolist()):
            if not wanted.keys() <= found.keys():
                found = {each.question.id: each.question.question for each in self._results(log)} | found
        return {
            question: " ".join(filter(None, [str(question), str(category), found.get(question, "")]))
            for question, category in wanted.items()
        }

    def _results(self, log: str) -> Any:
        return load_stored(self.logs_dir / log).results

    def _arrange(self) -> None:
        if not self._questions:
            return
        picked = self._cells[self._cells["run_id"].isin(self.picked)]
        signs, means = (
            picked.pivot(index="question_id", columns="run_id", values=name).reindex(self._questions)
            for name in ("sign", "mean")
        )
        apart = (means.max(axis=1) - means.min(axis=1)).fillna(0.0)
        failed, passed = ((signs == sign).any(axis=1) for sign in (FAILED, PASSED))
        wanted = {"failed": failed, "split": failed & passed, "moved": apart >= MOVED}.get(self.only.value)
        order = {"low": means.min(axis=1), "difference": -apart}.get(self.order.value)
        rows = pd.Series(range(len(self._questions)), self._questions)
        if order is not None:
            rows = rows.loc[order.sort_values(kind="stable").index]  # what has no score comes last
        self.matrix.shown = [int(row) for row in (rows if wanted is None else rows[wanted.loc[rows.index].to_numpy()])]

    def _found(self, total: int) -> str:
        if not len(self.runs):
            none = say(
                "{folder} has no log that can be read. 「評価を実行」 (RunPanel) makes one.", folder=self.logs_dir
            )
            return block("warn", escape(none))
        words = say("{runs} runs, {questions} questions", runs=len(self.runs), questions=len(self._questions))
        if total > len(self.runs):
            words = say("The newest {runs} of {total} runs", runs=len(self.runs), total=total)
        left_out = len(log_files(self.logs_dir)) - total
        if not left_out:
            return block("", words)
        told = say(
            "⚠️ {count} logs are left out, as they cannot be read or are copies of a run. "
            "sj.history.check_logs({folder!r}) in a cell tells why, and what to do.",
            count=left_out,
            folder=str(self.logs_dir),
        )
        return block("warn", words, escape(told))

    def _unfold(self) -> None:
        if len(self.runs) and self.more.selected_index == 0:
            self.table.value = runs_html(self.runs, self.scores, self.line.value)
        elif len(self.runs) and self.more.selected_index == 1:
            with told_in(self.picture):
                from .. import plot_category_breakdown, plot_criterion_trend  # which takes a second
                from ..charts.style import chart_url

                by_time = self.chart.value == "trend"
                shown = self.scores.dropna(subset=["started_at"]) if by_time else self.scores
                if shown["score"].isna().all():
                    self.picture.value = block("warn", say("No answer was scored, so there is no chart."))
                    return
                url = chart_url(plot_criterion_trend if by_time else plot_category_breakdown, shown)
                self.picture.value = chart_html(url, self.chart.label)

    # -- what a person does

    def _pick(self) -> None:
        self._arrange()
        self._open()

    def _open(self) -> None:
        row, column = self.matrix.chosen
        if not 0 <= row < len(self._questions):
            return
        wanted = set(self.matrix.picked) | {column}
        runs = [run for place, run in enumerate(self.runs.to_dict("records")) if place in wanted]
        question = self._questions[row]
        with told_in(self.detail):
            sides = [[each for each in self._results(run["log"]) if each.question.id == question] for run in runs]
            self.detail.value = answers_html(runs, sides)

    def _use_logs(self, least: int, most: int, act: Callable[[list[Path]], str]) -> None:
        """Do something with the logs of the ticked runs, the oldest first, and show what comes of it."""
        with told_in(self.told):
            logs = [self.logs_dir / log for log in self._picked("log")]
            if not least <= len(logs) <= most:
                raise ConfigError(
                    "Tick runs in their headings: one for its report, two to compare the newer with the older, any number "
                    "for another judge (ticked now: {count})",
                    count=len(logs),
                )
            self.told.value = act(logs)

    def _offer(self, logs: list[Path]) -> str:
        self.again.offer(logs)
        self.again.layout.display = ""
        return ""
