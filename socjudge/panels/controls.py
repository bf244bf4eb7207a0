"""Define what the panels share: their base classes, and functions that make their controls look alike."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import pandas as pd
import traitlets

from .. import constants
from ..base.messages import in_panel, listed, say
from ..base.redact import show_url, surprise_text
from ..base.showing import block, block_style, escape, shown_path
from ..base.texts import visible
from ..errors import SocJudgeError
from ..models.opening import OFFLINE, Task
from ..prompts.saved import list_prompts
from ..prompts.templates import Kind, default_prompt_id
from ..runs.estimate import Estimate
from ..runs.logs import log_files
from ..settings import keep_free, open_project
from .state.run import Session

# Dicts, so that each widget makes a layout of its own. A shared layout would be hidden for all widgets.
WIDE = {"width": "min(100% - 4px, 64em)"}  # fits within the margins of a control
_NUMBER = {"width": "min(100% - 4px, 26em)"}
ROW = {"flex_flow": "row wrap"}
AUTO = {"width": "auto"}  # Japanese does not fit the usual width
MOST_CHOICES = 200  # nobody reads a longer list, and it slows the page
NAMES = {"description_width": "15em"}
_NAMES_OF_KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


def heading(title: str, *lines: str) -> Any:
    """Return the head of a panel: its title, `lines` of HTML, and a hidden message that the kernel has ended."""
    # Python cannot show this message, because it runs in the kernel. When the kernel ends, the page sets a CSS class.
    # The style sheet then shows the message, only in the outermost panel.
    ours = '[class*=" socjudge-"]'
    told = say(
        "The kernel is gone. Execute the notebook's cell again. If a run was under way, what it had judged is "
        "kept in logs."
    )
    gone = f""".jupyter-widgets-disconnected{ours}:not({ours} *)::before {{ content: {json.dumps(told, ensure_ascii=False)};
      display: block; margin: .3em 0; padding: .4em .8em; border-left: 4px solid var(--jp-error-color1, #c62828);
      color: var(--jp-ui-font-color1, #1a1a1a); font-family: var(--jp-ui-font-family, sans-serif); line-height: 1.6; }}
{ours} .widget-html-content {{ min-width: 0; }}"""  # wide content scrolls inside its own box, not the whole panel
    return widgets.HTML(f"<style>{gone}</style>" + block("", f"<h2>{title}</h2>", *lines))  # with the style sheet


class _Html(widgets.HTML):  # type: ignore[misc]
    """Hold HTML of a panel without our style sheet, which the panel's heading has sent."""

    @traitlets.validate("value")
    def _without_style(self, proposal: Any) -> Any:
        return proposal["value"].replace(block_style(), "")


def html(value: str = "") -> Any:
    """Return a place for HTML in a panel."""
    return _Html(value=value)


class Words:
    """Hold HTML that is shown later. A widget made for it at each keystroke would never go away."""

    value = ""


@contextmanager
def told_in(place: Any) -> Iterator[None]:
    """Run the block of a `with` statement, and show its error in the widget `place` instead of raising it.
    Messages from this block name the panel's buttons and fields instead of command-line options."""
    with in_panel():
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


class SessionPanel(Panel):
    """Serve as the base class of panels that show a session, which continues even if its panel is closed.
    The panel is updated until it is closed or until its cell is run again."""

    session: Session
    _listener: Callable[[], Any] | None = None

    def _follow_session(self, listener: Callable[[], Any]) -> None:
        # When a cell is run again, it makes a new panel. Nothing else would close the panel that it made before.
        for older in [getattr(listener, "__self__", None) for listener in self.session.listeners]:
            if type(older) is type(self):
                older.close()
        self._listener = listener
        self.session.listeners.append(listener)

    @property
    def is_busy(self) -> bool:
        """Return whether the session is running a task."""
        return self.session.is_busy

    def close(self) -> None:
        """Close the panel, and stop updating it when the session changes."""
        if self._listener is not None and self._listener in self.session.listeners:
            self.session.listeners.remove(self._listener)
        super().close()


class KeyBox(widgets.VBox):  # type: ignore[misc]
    """Ask the user for the API key of a hosted model, or for the address of a server.
    Both are stored only as environment variables of this kernel, from which all models on the page read them."""

    def __init__(self, on_change: Callable[[], Any]) -> None:
        self._on_change = on_change
        self.key = widgets.Password(
            description=say("API key"), placeholder=say("Paste it and press Enter"), continuous_update=False,
            style=NAMES, layout=WIDE,
        )  # fmt: skip
        self.base_url = text_box(
            say("URL of the service"),
            placeholder=say("Empty: OpenAI. For example: http://localhost:8000/v1"),
            continuous_update=False,
        )
        self.forget_button = button(say("Forget key and URL"), "trash")
        self.status = html()
        super().__init__([self.key, self.base_url, self.status, widgets.HBox([self.forget_button])])
        self.key.observe(lambda change: self._keep("OPENAI_API_KEY", change), "value")
        self.base_url.observe(lambda change: self._keep("OPENAI_BASE_URL", change), "value")
        self.forget_button.on_click(lambda _: self._forget())
        self.show()

    def show(self) -> None:
        """Show whether a key is set and which server is used. The key itself is never shown."""
        key, url = (os.environ.get(name, "").strip() for name in _NAMES_OF_KEYS)
        state = say("✅ A key is set") if key else say("No key is set")
        if key or url:
            state = say("{state} (service: {place})", state=state, place=show_url(url) if url else "api.openai.com")
        self.status.value = block(
            "",
            escape(state),
            say(
                "What you type is kept in this kernel's memory only, and in no notebook, log or report; it is gone "
                "when the kernel restarts. Nothing is sent before you press 「評価を実行」."
            ),
        )
        self.forget_button.disabled = not (key or url)

    def lock(self, is_busy: bool) -> None:
        """Disable the fields while a task is running (`is_busy`), and enable them otherwise."""
        self.key.disabled = self.base_url.disabled = is_busy
        if is_busy:
            self.forget_button.disabled = True
        else:
            self.show()

    def _keep(self, name: str, change: Any) -> None:
        if value := change["new"].strip():
            os.environ[name] = value
            change["owner"].value = ""  # so that the key is never saved in a notebook
            self._tell()

    def _forget(self) -> None:
        for name in _NAMES_OF_KEYS:
            os.environ.pop(name, None)
        self._tell()

    def _tell(self) -> None:
        self.show()
        self._on_change()


def button(name: str, icon: str = "", **more: Any) -> Any:
    """Return a button that is only as wide as its label."""
    return widgets.Button(description=name, icon=icon, layout=AUTO, **more)


def text_box(name: str, **more: Any) -> Any:
    return widgets.Text(description=name, style=NAMES, layout=WIDE, **more)


def choice_box(name: str, **more: Any) -> Any:
    return widgets.Dropdown(description=name, style=NAMES, layout=WIDE, **more)


def usual_model(task: Task) -> str:
    """Return the project's model for a task, or "auto" if the project has set none."""
    model, is_named = open_project().default_model(task)
    return model if is_named else "auto"


def model_box(name: str, value: str = "auto", **more: Any) -> Any:
    """Return a box for the name of a model, which the user types or chooses from a short list."""
    models = dict.fromkeys(["auto", OFFLINE, open_project().default_model("judge")[0], *constants.OTHER_MODELS])
    return widgets.Combobox(
        value=value, options=list(models), description=name, ensure_option=False, style=NAMES, layout=WIDE, **more
    )


def dataset_box(name: str, dataset: Path | str | None) -> Any:
    """Return a box for a dataset's path, which the user types or chooses. None stands for the default dataset."""
    usual = constants.EVAL_DATASET_PATH
    known = [path for path in (usual, usual.with_name("eval_dataset_extended.json")) if path.is_file()]
    return widgets.Combobox(
        value=str(dataset or usual), options=list(map(str, known)), description=name, continuous_update=False,
        style=NAMES, layout=WIDE,
    )  # fmt: skip


def prompt_box(name: str, kind: Kind) -> Any:
    """Return a drop-down list of the prompts of one kind, with the project's default prompt selected."""
    box = choice_box(name)
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
    return widgets.BoundedIntText(value=value, min=1, max=most, description=name, style=NAMES, layout=_NUMBER)


def seconds_box(name: str, value: float, least: float = 0.0) -> Any:
    """Return a box for a number of seconds, from `least` to one day."""
    return widgets.BoundedFloatText(
        value=value, min=least, max=86_400, step=10, description=name, style=NAMES, layout=_NUMBER
    )


def dollar_box() -> Any:
    """Return a box for the most that a run may cost, in US dollars. 0 means no limit."""
    cap = open_project().cost_cap()
    return widgets.BoundedFloatText(
        value=0.5 if cap is None else cap,
        min=0,
        max=1e6,
        step=0.1,
        description=say("Most that it may cost ($; 0: no limit)"),
        style=NAMES,
        layout=_NUMBER,
    )


class Payment(widgets.VBox):  # type: ignore[misc]
    """Show what a click would cost, and ask before money is spent. Where nothing is paid, nothing is asked."""

    def __init__(self, on_free: Callable[[], Any]) -> None:
        self.on_change: Callable[[Any], Any] = lambda control: None  # set it when the panel is complete
        self.cost = html()
        self.max_cost_usd = dollar_box()  # 0: no cap
        self.allow_cost = tick_box(say("I know that this costs money"))
        self.free_button = button(say("It costs nothing there"), "check")
        self.due: Estimate | None = None  # what a start would have to pay for; None if nothing can be started
        self._agreed: Estimate | None = None  # what was due when the box was ticked
        self._unpriced: list[str] = []
        super().__init__([self.cost, widgets.HBox([self.free_button]), self.allow_cost])
        self._on_free = on_free
        self.free_button.on_click(lambda _: self._keep_free())
        self.allow_cost.observe(lambda change: self._agree(change["new"]), "value")
        for control in (self.allow_cost, self.max_cost_usd):
            control.observe(lambda change: self.on_change(change["owner"]), "value")
        self.offer(None)

    def offer(self, due: Estimate | None, shown: str = "", unpriced: Iterable[str] = ()) -> None:
        """Show (HTML) what is due. unpriced: names of models whose price nobody knows."""
        self.due, self._unpriced = due, list(dict.fromkeys(unpriced))
        self.cost.value = shown
        if self._unpriced and due is not None:
            self.cost.value += block(
                "warn",
                escape(
                    say(
                        "If the address of {models} costs nothing, as a server of your own, say so with the button",
                        models=listed(self._unpriced),
                    )
                ),
            )
        self.free_button.layout.display = "" if self._unpriced and due is not None else "none"
        self.allow_cost.layout.display = "" if self.is_paid else "none"

    @property
    def is_paid(self) -> bool:
        """Return whether a start costs money. A cost that is unknown counts as money."""
        return self.due is not None and self.due.calls > 0 and self.due.cost_usd != 0

    @property
    def is_ready(self) -> bool:
        """Return whether a start may be offered."""
        capped = bool(self.max_cost_usd.value)
        is_known = self.due is not None and (self.due.cost_usd is not None or not (self.is_paid and capped))
        return is_known and (self.allow_cost.value or not self.is_paid)

    @property
    def limit(self) -> float | None:
        """Return the cap in US dollars, infinity if there is none, and None if nothing is paid."""
        return (self.max_cost_usd.value or math.inf) if self.is_paid else None

    def take(self) -> str:
        """Use up the tick, as each paid run needs a new decision. Return why nothing may be started, or ""."""
        is_agreed = not self.is_paid or self.due == self._agreed
        self.allow_cost.value = False
        if is_agreed:
            return ""
        return block(
            "warn",
            escape(
                say(
                    "The estimate has changed since you ticked the box, so nothing was run. Check the estimate above and "
                    "tick the box again"
                )
            ),
        )

    def _agree(self, is_ticked: bool) -> None:
        self._agreed = self.due if is_ticked else None

    def _keep_free(self) -> None:
        with told_in(self.cost):
            for name in self._unpriced:
                keep_free(name)
            self._on_free()


def tick_box(name: str) -> Any:
    return widgets.Checkbox(value=False, description=name, indent=False, layout=AUTO)


def as_choice(text: object) -> str:
    """Return a text from a log as one line of at most 80 characters, with invisible characters made visible."""
    line = " ".join(visible(str(text)).split())
    return line if len(line) <= 80 else line[:79] + "…"


def log_choices(logs_dir: Path | str, *, blind: bool = False) -> list[tuple[str, Any]]:
    """Return (label, path) for each of the newest logs in a folder, the newest first.
    Raises ConfigError in the same cases as `log_files`."""
    logs = log_files(logs_dir)[: -MOST_CHOICES - 1 : -1]
    if not logs:
        return []
    from ..history.frames import load_runs  # pandas takes half a second to import
    from .views.history import run_label

    known = {run["log"]: run for run in load_runs(logs_dir).to_dict("records")}
    choices = []
    for log in logs:
        # Only the file name stands for a log that cannot be read or is a copy of another log.
        label, run = log.name, known.get(log.name)
        if run is not None:
            # `blind`: a person who scores the answers must not see the mean score.
            is_unread = blind or pd.isna(run["mean_score"])  # NaN; None if no run of the folder has a mean
            label = run_label(run) + ("" if is_unread else "  " + say("mean {mean:.1f}", mean=run["mean_score"]))
        choices.append((as_choice(label), log))
    return choices


OWN = "@"  # marks a choice that is a user's own assistant, not a log


def own_choices() -> list[tuple[str, str]]:
    """Return (label, value) for each of your own assistants in socjudge.toml. The value is `OWN` and the name.
    A default source of answers that is not one of them, such as a file of answers, comes first."""
    project = open_project()
    tables, default = project.assistants, project.answers
    names = {name: say("ask {name}, an assistant of your own", name=as_choice(name)) for name in tables}
    if default and default not in tables:
        is_asked = ".py:" in default
        shown = as_choice(str(shown_path(Path(default))))
        told = (
            say("ask {name}, an assistant of your own", name=shown)
            if is_asked
            else say("answers of {name}", name=shown)
        )
        names = {default: told} | names
    return [(label, f"{OWN}{name}") for name, label in names.items()]
