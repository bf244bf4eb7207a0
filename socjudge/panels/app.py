"""Show all panels on one page: in a notebook cell with `app()`, or in a browser with `make app`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import say
from .ask import AskPanel
from .history import HistoryExplorer
from .labels import LabelPanel
from .prompts import PromptLab
from .run import RunPanel


def app(
    *, logs_dir: Path | str | None = None, index_dir: Path | str | None = None, labels_dir: Path | str | None = None
) -> Any:
    """Return one page with all panels, each on a tab.

    On the first tab, you ask the assistant and run evaluations. The other tabs have the matrix of questions and runs,
    prompts, and scores by people. What was typed on a tab is kept. After a run has finished, a tab reads the logs again
    when it is opened.

    Parameters
    ----------
    logs_dir, index_dir, labels_dir
        The folders of the logs, of the search index and of the scores by people; the project's own if left out.

    Returns
    -------
    Tab
        A widget, which a notebook cell displays.

    Examples
    --------
    >>> import socjudge as sj
    >>> len(sj.app(logs_dir="logs").titles)
    4
    """
    run = RunPanel(logs_dir=logs_dir, index_dir=index_dir)
    panels = [
        HistoryExplorer(logs_dir),
        PromptLab(logs_dir=logs_dir, index_dir=index_dir),
        LabelPanel(logs_dir=logs_dir, labels_dir=labels_dir),
    ]
    page = widgets.Tab(
        [widgets.VBox([AskPanel(index_dir=index_dir), run]), *panels],
        titles=[say("Ask and evaluate"), say("History"), say("Prompts"), say("Scoring")],
    )
    page.add_class("socjudge-app")
    seen = [run.run] * len(panels)  # the newest run when each panel was made or read the logs again

    def show() -> None:
        place = (page.selected_index or 0) - 1
        if place >= 0 and seen[place] is not run.run:
            seen[place] = run.run
            panels[place].reload()  # what was typed and chosen is kept

    page.observe(lambda _: show(), "selected_index")
    run.results.observe(lambda change: show() if change["new"] else None, "value")  # shows a run that has just ended
    return page
