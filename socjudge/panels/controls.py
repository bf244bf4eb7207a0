"""Define what the panels share: their base class, and functions that make their controls look alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from .. import constants
from ..base.messages import say
from ..base.redact import surprise_text
from ..base.showing import block, block_style, clipped, escape, shown_path
from ..errors import SocJudgeError
from ..history.frames import load_runs
from ..models.opening import OFFLINE, Task
from ..prompts.saved import list_prompts
from ..prompts.templates import Kind, default_prompt_id
from ..runs.logs import log_files
from ..settings import open_project
from .views import run_label

# Dicts, so that each widget makes a layout of its own. A shared layout would be hidden for all widgets.
WIDE = {"width": "min(100% - 4px, 64em)"}  # fits within the margins of a control
NARROW = {"width": "min(100% - 4px, 26em)"}
ROW = {"flex_flow": "row wrap"}
AUTO = {"width": "auto"}  # Japanese does not fit the usual width
MOST_CHOICES = 200  # nobody reads a longer list, and it slows the page
NAMES = {"description_width": "15em"}
OWN = "@"  # marks a choice of answers that is a user's own assistant or file, not a log


def heading(title: str, *lines: str) -> Any:
    """Return the head of a panel: its title, `lines` of HTML, the style sheet of all panels, and a hidden message that
    the kernel has ended."""
    # Python cannot show this message, because it runs in the kernel. When the kernel ends, the page sets a CSS class.
    # The style sheet then shows the message, only in the outermost panel.
    ours = '[class*=" socjudge-"]'
    told = say(
        "The kernel is gone. Execute the notebook's cell again. If a run was under way, what it had judged is "
        "kept in logs."
    )
    gone = f""".jupyter-widgets-disconnected{ours}:not({ours} *)::before {{ content: {json.dumps(told, ensure_ascii=False)};
      display: block; margin: .3em 0; padding: .4em .8em; border-left: 4px solid var(--jp-error-color1, #c62828);
      color: var(--jp-ui-font-color1, #1a1a1a); font-family: var(--jp-ui-font-family, sans-serif); line-height: 1.6; }}"""
    style = Path(__file__).with_name("panels.css").read_text("utf-8")
    return widgets.HTML(f"<style>{style}{gone}</style>" + block("", f"<h2>{title}</h2>", *lines), tooltip="")


class _Html(widgets.HTML):  # type: ignore[misc]
    """Hold HTML of a panel without our style sheet, which the panel's heading has sent."""

    @traitlets.validate("value")
    def _without_style(self, proposal: Any) -> Any:
        return proposal["value"].replace(block_style(), "")


def html(value: str = "") -> Any:
    """Return a place for HTML in a panel."""
    return _Html(value=value, tooltip="")


class Words:
    """Hold HTML that is shown later. A widget made for it at each keystroke would never go away."""

    value = ""


@contextmanager
def told_in(place: Any) -> Iterator[None]:
    """Run the block of a `with` statement, and show its error in the widget `place` instead of raising it."""
    try:
        yield
    except SocJudgeError as error:
        place.value = block("bad", escape(error))
    except Exception as surprise:  # shown as a cell would show it
        place.value = block("bad", escape(surprise_text(surprise)))


class Panel(widgets.VBox):  # type: ignore[misc]
    """Serve as the base class of all panels, which are groups of controls in a notebook cell."""

    def __repr__(self) -> str:  # shown where controls cannot be displayed, such as in an exported page
        return say("<{name}: open it in JupyterLab to use this panel>", name=type(self).__name__)


def field(kind: Any, name: str, **more: Any) -> Any:
    """Return a control of this kind of widget with its name before it."""
    # Without a tooltip, the page would show the word null.
    return kind(description=name, **{"tooltip": "", "style": NAMES, "layout": WIDE, **more})


def button(name: str, icon: str = "", **more: Any) -> Any:
    """Return a button that is only as wide as its label."""
    return widgets.Button(description=name, icon=icon, layout=AUTO, **more)


def tick_box(name: str) -> Any:
    return widgets.Checkbox(value=False, description=name, tooltip="", indent=False, layout=AUTO)


def model_box(name: str, task: Task) -> Any:
    """Return a box for the name of a model, which the user types or chooses from a short list. It begins with the
    project's model for the task, or "auto" if the project has set none."""
    project = open_project()
    model, is_named = project.default_model(task)
    models = dict.fromkeys(["auto", OFFLINE, project.default_model("judge")[0], *constants.OTHER_MODELS])
    return field(widgets.Combobox, name, value=model if is_named else "auto", options=list(models))


def prompt_box(name: str, kind: Kind) -> Any:
    """Return a drop-down list of the prompts of one kind, with the project's default prompt selected."""
    box = field(widgets.Dropdown, name)
    list_prompts_in(box, kind)
    return box


def list_prompts_in(box: Any, kind: Kind) -> None:
    """Update the list of prompts in `box`, a control from `prompt_box` for the same kind of prompt.
    The selected prompt stays selected if it still exists. Otherwise the default prompt is selected."""
    usual, chosen = default_prompt_id(kind), box.value
    # The default is offered even if it cannot be used. The reason is shown when it is about to be used.
    known = list(dict.fromkeys([usual, *list_prompts(kind)]))
    if list(box.options) != known:
        box.options = known
        box.value = chosen if chosen in known else usual


def number_box(name: str, value: int, most: int = 1000) -> Any:
    """Return a box for a whole number from 1 to `most`."""
    return field(widgets.BoundedIntText, name, value=value, min=1, max=most, layout=NARROW)


def seconds_box(name: str, value: float, least: float = 0.0) -> Any:
    """Return a box for a number of seconds, from `least` to one day."""
    return field(widgets.BoundedFloatText, name, value=value, min=least, max=86_400, step=10, layout=NARROW)


def log_choices(logs_dir: Path | str, *, blind: bool = False) -> list[tuple[str, Path]]:
    """Return (label, path) for each of the newest logs in a folder, the newest first. `blind`: without the mean score,
    for a person who scores the answers. Raises ConfigError in the same cases as `log_files`."""
    logs = log_files(logs_dir)[: -MOST_CHOICES - 1 : -1]
    if not logs:
        return []
    known = {run["log"]: run for run in load_runs(logs_dir).to_dict("records")}
    choices = []
    for log in logs:
        # Only the file name stands for a log that cannot be read or is a copy of another log.
        label, run = log.name, known.get(log.name)
        if run is not None:
            is_unread = blind or pd.isna(run["mean_score"])  # NaN; None if no run of the folder has a mean
            label = run_label(run) + ("" if is_unread else "  " + say("mean {mean:.1f}", mean=run["mean_score"]))
        choices.append((clipped(label), log))
    return choices


def own_choices() -> list[tuple[str, str]]:
    """Return (label, value) for the default source of answers and each of your own assistants in socjudge.toml. The
    value is `OWN` and the name, or the path of a file of answers."""
    project, choices = open_project(), []
    for name in filter(None, dict.fromkeys([project.answers, *project.assistants])):
        is_asked = name in project.assistants or ".py:" in name
        words = "ask {name}, an assistant of your own" if is_asked else "answers of {name}"
        choices.append((say(words, name=clipped(shown_path(Path(name)))), f"{OWN}{name}"))
    return choices
