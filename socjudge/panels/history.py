"""Show the panel that explores the logs. `HistoryExplorer()` shows itself in a notebook cell.

Its data come from state/explorer.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd

from .. import constants
from ..base.messages import in_panel, listed, say
from ..base.redact import redact, surprise_text
from ..base.showing import block, escape
from ..charts.judges import plot_judge_comparison
from ..charts.runs import plot_criterion_trend, plot_question_strip
from ..charts.scores import plot_category_breakdown
from ..charts.style import chart_url
from ..errors import SocJudgeError
from ..history.frames import History
from .controls import MOST_CHOICES, WIDE, Panel, as_choice, button, heading
from .state.explorer import Explorer, Filters, RunPair, pair_runs, run_table
from .views.history import (
    answers_html,
    chart_html,
    pair_html,
    question_text,
    report_html,
    run_label,
    runs_html,
    side_names,
)

CHART_RUNS = 24  # plot_question_strip can write into this many columns
CHART_QUESTIONS = 60  # one line each; thousands take minutes to draw, and nobody reads them
FIRST_S = 30  # the cell waits until the panel is drawn, because a page that is still loading can miss changes
CHARTS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "Criteria over time": plot_criterion_trend,
    "Categories × criteria": plot_category_breakdown,
    "By question": plot_question_strip,
}
_NARROW = {"width": "min(100% - 4px, 24em)"}
_THIRD = {"width": "min(100% - 4px, 20em)"}
_NAMES = {"description_width": "7em"}


class HistoryExplorer(Panel):
    """Explore the history of runs.

    You filter the runs, see charts and a table, compare two runs, read their answers to one question, and export a
    report. Everything is drawn in the background, so other cells can run at the same time. After several clicks, only
    the result of the last one is shown. No model is called.

    - explorer: the `Explorer`, which holds the history that was read; None before the first reading.
    - selection: the `History` with only the runs and results that pass the filters; None if no run passes them, or if
      the logs could not be read.
    """

    def __init__(self, logs_dir: Path | str | None = None) -> None:
        logs_dir = logs_dir or constants.LOGS_DIR
        self.logs_dir = logs_dir
        self.explorer: Explorer | None = None
        self.selection: History | None = None
        self.pair: RunPair | None = None
        self._all, several = (say("All"), ""), say("Hold Ctrl (⌘) or Shift to choose several")
        self.since, self.until = (
            widgets.DatePicker(description=name, style=_NAMES, layout=_NARROW) for name in (say("From"), say("Until"))
        )
        self.judges, self.prompts, self.categories = (
            widgets.SelectMultiple(
                options=[self._all], value=[""], rows=5, description=name, tooltip=several, layout=_THIRD
            )
            for name in ("Judge", say("Prompt"), say("Category"))
        )
        self.reload_button = button(say("Read the logs again"), "refresh")
        self.chart = widgets.Dropdown(
            options=[(say(name), name) for name in CHARTS], description=say("Chart"), style=_NAMES,
            layout=_NARROW,
        )  # fmt: skip
        self.order = widgets.Dropdown(
            options=[(say("Newest first"), "started_at"), (say("Lowest mean first"), "mean")],
            description=say("Order"), style=_NAMES, layout=_NARROW,
        )  # fmt: skip
        self.first, self.second = (
            widgets.Dropdown(description=name, style=_NAMES, layout=WIDE)
            for name in (say("Baseline run"), say("Run to compare"))
        )
        self.question = widgets.Select(description=say("Question"), rows=10, style=_NAMES, layout=WIDE)
        self.path = widgets.Text(
            description=say("Save to"), placeholder=say("Empty: in reports/ beside the logs"), style=_NAMES, layout=WIDE
        )
        self.export_button = button(say("Write the report"), "file-text")
        self.status, self.chart_view, self.table, self.comparison, self.answers, self.report = (
            widgets.HTML() for _ in range(6)
        )
        self._reload, self._export = False, False  # whether each was requested and is not done yet
        self._version = 0  # how often the logs were read
        self._chosen: Any = None  # (`_version`, filters) from which the selection was made
        self._runs = pd.DataFrame()  # the rows of the selection, from `run_table`
        self._drawn: dict[Any, Any] = {}  # {part of the page: what it was drawn from}
        # only the newest click counts: the number of clicks, and the one that is being drawn
        self._clicks, self._drawing = 0, 0
        self._drawer = futures.ThreadPoolExecutor(1, f"socjudge-history-{id(self)}")

        row = widgets.Layout(flex_flow="row wrap")
        period = [self.since, self.until, self.reload_button]
        lists = [self.judges, self.prompts, self.categories]
        super().__init__(
            [
                heading(f"📈 {say('History of runs')}"),
                widgets.HBox(period, layout=row),
                widgets.HBox(lists, layout=row),
                widgets.HTML(block("", say("Judge, prompt, category: {hint}", hint=several))),
                self.status,
                self.chart,
                self.chart_view,
                self.order,
                self.table,
                widgets.HTML(block("", f"<h2>🔍 {say('Compare two runs')}</h2>")),
                self.first,
                self.second,
                self.comparison,
                self.question,
                self.answers,
                widgets.HTML(block("", f"<h2>📄 {say('Write what is chosen as a report')}</h2>")),
                self.path,
                widgets.HBox([self.export_button]),
                self.report,
            ]
        )
        self.add_class("socjudge-history-explorer")
        for control in (
            self.since, self.until, self.judges, self.prompts, self.categories, self.chart, self.order, self.first,
            self.second, self.question,
        ):  # fmt: skip
            control.observe(lambda _: self._ask(), "value")
        self.reload_button.on_click(lambda _: self.reload())
        self.export_button.on_click(lambda _: self._ask(export=True))
        self.reload()
        self.wait(FIRST_S)

    def reload(self) -> None:
        """Read the logs again, in the background. The choices in the controls are kept."""
        self._ask(reload=True)

    @property
    def filters(self) -> Filters:
        """Return the filters that are set in the controls."""
        several = (() if "" in box.value else box.value for box in (self.judges, self.prompts, self.categories))
        return Filters(self.since.value, self.until.value, *several)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until everything is drawn, or until the timeout (seconds) has passed."""
        futures.wait([self._drawer.submit(int)], timeout_s)  # this task comes after all clicks so far

    def _ask(self, *, reload: bool = False, export: bool = False) -> None:
        if threading.current_thread().name.startswith(f"socjudge-history-{id(self)}"):
            return  # the drawing itself has filled a list; nobody clicked
        self._reload, self._export = self._reload or reload, self._export or export
        self.status.value = block("", f'<span role="status">{say("⏳ Updating...")}</span>')
        self._clicks += 1
        self._drawer.submit(self._redraw, self._clicks)

    @property
    def _is_stale(self) -> bool:
        return self._drawing != self._clicks  # there was a newer click

    # -- in the background

    def _redraw(self, click: int) -> None:
        self._drawing = click  # counted from 1; a newer click ends this drawing and starts another one
        if self._is_stale:
            return
        with in_panel():
            try:
                self._draw_parts(self._select())
            except Exception as problem:
                self._clear(_problem(problem))

    def _draw_parts(self, selection: History) -> None:
        if selection.runs.empty:
            self._clear(self._nothing())
            return
        chosen, runs = self._chosen, (self.first.value, self.second.value)
        chart, order = self.chart.value, self.order.value
        self._draw(self.chart_view, (chosen, chart), lambda: self._chart(selection, chart))
        self._draw(self.table, (chosen, order), lambda: self._table(order))
        self._draw(self.comparison, (chosen, runs), lambda: self._compare(selection, *runs))
        question = self.question.value
        self._draw(self.answers, (chosen, runs, question), lambda: self._answers(question))
        if self._export and not self._is_stale:
            self._export = False
            self.report.value = _made(lambda: self._write(selection, *runs))
        if not self._is_stale:
            self.status.value = self._found(selection)

    def _select(self) -> History:
        if self._reload or self.explorer is None:
            self._reload = False
            if self.explorer is None:
                self.explorer = Explorer(self.logs_dir)
            else:
                self.explorer.reload()
            self._version += 1
            for box, values in (
                (self.judges, self.explorer.judges), (self.prompts, self.explorer.prompts),
                (self.categories, self.explorer.categories),
            ):  # fmt: skip
                before = box.value
                box.options = [self._all, *((as_choice(value), value) for value in values)]
                box.value = [value for value in before if value in values] or [""]
        chosen = self._version, self.filters
        if self.selection is None or chosen != self._chosen:
            selection = self.explorer.select(self.filters)
            self.selection, self._chosen, self._runs = selection, chosen, run_table(selection)
            rows = self._runs.head(MOST_CHOICES).to_dict("records")
            choices = [(as_choice(run_label(row)), row["run_id"]) for row in rows]
            latest = rows[0] if rows else {"run_id": None, "rejudged_from": ""}
            known = [run_id for _, run_id in choices]
            before = latest["rejudged_from"] if latest["rejudged_from"] in known else next(iter(known[1:]), None)
            _fill(self.second, choices, latest["run_id"])
            _fill(self.first, choices, before or latest["run_id"])
        return self.selection

    def _draw(self, part: Any, what: Any, make: Callable[[], str]) -> None:
        # `what` holds the choices on which the HTML depends. For the same choices, the part is not drawn again.
        if self._drawn.get(part) == what or self._is_stale:
            return
        self._drawn.pop(part, None)  # `make` may have changed the part even if its result is not shown
        found = _made(make)
        if not self._is_stale:
            part.value, self._drawn[part] = found, what

    def _clear(self, why: str) -> None:
        self.selection, self.pair, self._export = None, None, False
        for part in (self.chart_view, self.table, self.comparison, self.answers, self.report):
            part.value = ""
        self._drawn.clear()
        self.question.options = ()
        if not self._is_stale:
            self.status.value = why

    def _nothing(self) -> str:
        assert self.explorer is not None
        if self.explorer.history.runs.empty:
            words = escape(
                say("{folder} has no log that can be read. 「評価を実行」 (RunPanel) makes one.", folder=self.logs_dir)
            )
        else:
            words = say("No run fits. Widen the period, the judges, the prompts or the categories.")
        return block("warn", words, *self._left_out())

    def _found(self, selection: History) -> str:
        words = say("{runs} runs, {answers:,} judged answers", runs=len(selection.runs), answers=len(selection.results))
        return block("warn" if selection.n_left_out else "", words, *self._left_out())

    def _left_out(self) -> list[str]:
        assert self.explorer is not None
        count = self.explorer.history.n_left_out
        if not count:
            return []
        return [
            escape(
                say(
                    "⚠️ {count} logs are left out, as they cannot be read or are copies of a run. "
                    "sj.history.check_logs({folder!r}) in a cell tells why, and what to do.",
                    count=count,
                    folder=str(self.logs_dir),
                )
            )
        ]

    def _chart(self, selection: History, name: str) -> str:
        scores, runs = selection.scores, selection.runs
        if scores["score"].isna().all():
            return block("warn", say("No answer was scored, so there is no chart."))
        judges = listed(dict.fromkeys(runs["judge_model"]))
        note = say("Means over {runs} runs together (judge: {judges}).", runs=len(runs), judges=judges)
        if CHARTS[name] is not plot_category_breakdown:
            dated = runs.dropna(subset=["started_at"])
            scores = scores[scores["run_id"].isin(dated["run_id"].iloc[-CHART_RUNS:])]
            if scores["score"].isna().all():
                return block("warn", say("No run says when it began, so nothing can be drawn over time."))
            drawn = scores["run_id"].nunique()
            note = say("{runs} runs", runs=len(runs))
            if drawn < len(runs):
                note = say("the latest {drawn} with a known start, of {runs} runs", runs=len(runs), drawn=drawn)
        if CHARTS[name] is plot_question_strip and scores["question_id"].nunique() > CHART_QUESTIONS:
            weakest = scores.groupby("question_id", observed=True)["score"].mean().nsmallest(CHART_QUESTIONS).index
            scores = scores[scores["question_id"].isin(weakest)]
            note += say(", the {count} questions with the lowest means", count=CHART_QUESTIONS)
        means = self._runs.dropna(subset=["mean"])["mean"]
        alt = say(
            "Chart: {name}. Mean {latest:.1f} in the latest run (the table below has the numbers)",
            name=say(name),
            latest=means.iloc[0],
        )
        return chart_html(chart_url(CHARTS[name], scores), alt, note)

    def _table(self, order: str) -> str:
        runs = self._runs if order == "started_at" else self._runs.sort_values(order, kind="stable")
        return runs_html(runs.head(MOST_CHOICES), len(runs))

    def _compare(self, selection: History, first: str, second: str) -> str:
        self.pair, choices = None, []
        try:
            pair = self.pair = pair_runs(selection, first, second)
            choices = [(as_choice(question_text(row)), row["question_id"]) for row in pair.questions.to_dict("records")]
        finally:
            _fill(self.question, choices, None)
        chart = ""
        if pair.paired is not None and pair.paired["mean_difference"].notna().any():
            # Shorter than the labels of the runs, which a chart would cut off.
            names = [
                say("{side} ({judge} / {prompt})", side=side, judge=run["judge_model"], prompt=run["prompt_id"])
                for side, run in zip(side_names(), (pair.first, pair.second), strict=True)
            ]
            named = pair.paired.assign(baseline=names[0], run_id=names[1])
            overall = pair.paired.iloc[-1]
            alt = say(
                "Chart of the differences by criterion. {criterion}: {note}",
                criterion=overall["criterion"],
                note=overall["conclusion"],
            )
            chart = chart_html(chart_url(plot_judge_comparison, named), alt, "")
        return pair_html(pair, chart)

    def _answers(self, question: Any) -> str:
        if self.pair is None or self.explorer is None:
            return ""
        if question is None:
            return block("", say("Choose a question to see both answers and their scores side by side here."))
        sides = self.explorer.answers(self.pair.first["run_id"], self.pair.second["run_id"], question)
        return answers_html(self.pair, str(question), sides)

    def _write(self, selection: History, first: str, second: str) -> str:
        assert self.explorer is not None
        path = self.explorer.report_path(second, self.path.value.strip())
        replaced = path.exists()
        self.explorer.export(selection, second, baseline=first if first != second else None, path=path)
        return report_html(path, replaced=replaced, part=listed(self._chosen[1].categories))


def _fill(box: Any, choices: list[tuple[str, Any]], otherwise: Any) -> None:
    before = box.value
    box.options = choices
    box.value = before if before in [value for _, value in choices] else otherwise


def _made(make: Callable[[], str]) -> str:
    try:
        return make()
    except Exception as problem:
        return _problem(problem)


def _problem(problem: Exception) -> str:
    words = redact(str(problem)) if isinstance(problem, SocJudgeError) else surprise_text(problem)
    return block("bad", f"⚠️ {escape(words)}")
