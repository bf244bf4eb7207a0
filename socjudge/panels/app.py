"""Show all panels on one page: in a notebook cell with `app()`, or in a browser with `make app`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import say
from ..base.showing import block
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
    prompts, and scores by people. A tab reads the logs when it is first opened, and again after a run has finished. What
    was typed there is kept.

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
    makers: list[Callable[[], Any]] = [
        lambda: HistoryExplorer(logs_dir),
        lambda: PromptLab(logs_dir=logs_dir, index_dir=index_dir),
        lambda: LabelPanel(logs_dir=logs_dir, labels_dir=labels_dir),
    ]
    first = widgets.VBox([AskPanel(index_dir=index_dir), run])
    page = widgets.Tab(
        [first, *(widgets.HTML(block("", say("⏳ Loading ..."))) for _ in makers)],
        titles=[say("Ask and evaluate"), say("History"), say("Prompts"), say("Scoring")],
    )
    page.add_class("socjudge-app")
    seen: dict[int, Any] = {}  # the newest run when each tab was filled, or read the logs again

    def show() -> None:
        place = page.selected_index or 0
        if place and place not in seen:
            panels = list(page.children)
            panels[place] = makers[place - 1]()
            page.children = panels
        elif place and seen[place] is not run.run:
            page.children[place].reload()  # what was typed and chosen is kept
        seen[place] = run.run

    page.observe(lambda _: show(), "selected_index")
    run.results.observe(lambda change: show() if change["new"] else None, "value")  # shows a run that has just ended
    return page
