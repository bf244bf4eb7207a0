"""Show all panels on one page: in a notebook cell with `app()`, or in a browser with `make app`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import say
from ..base.showing import block
from .ask import AskPanel
from .run import RunPanel


def app(
    *, logs_dir: Path | str | None = None, index_dir: Path | str | None = None, labels_dir: Path | str | None = None
) -> Any:
    """Return one page with all panels, each on a tab.

    On the first tab, you ask the assistant and run evaluations. The other tabs have the matrix of questions and runs,
    prompts, and scores by people. A tab is filled when it is first opened, and what was typed there is kept. When a run
    finishes, the matrix reads the logs again.

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
    run, logs = RunPanel(logs_dir=logs_dir, index_dir=index_dir), {"logs_dir": logs_dir}
    tabs: list[tuple[str, dict[str, Any]]] = [
        ("history.HistoryExplorer", logs),
        ("prompts.PromptLab", logs | {"index_dir": index_dir}),
        ("labels.LabelPanel", logs | {"labels_dir": labels_dir}),
    ]
    titles = [
        say("Ask and evaluate"), say("History"), say("Prompts"), say("Scoring"),
    ]  # fmt: skip
    ask = AskPanel(index_dir=index_dir)
    page = widgets.Tab(
        [widgets.VBox([ask, run]), *(widgets.HTML(block("", say("⏳ Loading ..."))) for _ in tabs)], titles=titles
    )
    page.add_class("socjudge-app")
    made: dict[int, Any] = {}  # for each tab, the newest run at the time when the tab was made

    def show() -> None:
        place = page.selected_index
        if not place or (place in made and made[place] is run.run):
            return
        panel, (name, places) = page.children[place], tabs[place - 1]
        if place not in made:
            module, _, kind = name.partition(".")
            # imported only now, because charts take a second
            panel = getattr(import_module(f".{module}", __package__), kind)(**places)
        else:
            panel.reload()  # what was typed and chosen is kept
        made[place] = run.run
        page.children = [panel if at == place else child for at, child in enumerate(page.children)]

    page.observe(lambda _: show(), "selected_index")
    run.results.observe(lambda change: show() if change["new"] else None, "value")  # shows a run that has just ended
    return page
