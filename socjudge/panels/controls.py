"""What the panels share: the looks of their controls, and what stands where a panel cannot be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from .. import constants
from ..models.opening import OFFLINE
from ..prompts.saved import list_prompts
from ..prompts.templates import Kind
from .state.run import Session

# As dicts, of which each widget makes a layout of its own: one that is shared is hidden for all.
WIDE = {"width": "min(100% - 4px, 42em)"}  # within the margins of a control
AUTO = {"width": "auto"}  # Japanese does not fit the usual width
NAMES = {"description_width": "15em"}


class SessionPanel(widgets.VBox):  # type: ignore[misc]
    """A panel that shows a session, until it is closed or its cell is run again; the session itself goes on."""

    session: Session
    _listener: Callable[[], Any] | None = None

    def _follow_session(self, listener: Callable[[], Any]) -> None:
        """Have the listener called when the session changes. An older panel of the same kind is closed: the page has
        cleared the output that it was in, and nobody else would."""
        for older in [getattr(listener, "__self__", None) for listener in self.session.listeners]:
            if type(older) is type(self):
                older.close()
        self._listener = listener
        self.session.listeners.append(listener)

    def close(self) -> None:
        """Take the panel off the page, and from its session."""
        if self._listener is not None and self._listener in self.session.listeners:
            self.session.listeners.remove(self._listener)
        super().close()


def model_box(name: str, value: str = "auto") -> Any:
    """A box for the name of a model, with some to choose from."""
    models = dict.fromkeys(["auto", OFFLINE, constants.DEFAULT_JUDGE_MODEL, *constants.OTHER_MODELS])
    return widgets.Combobox(
        value=value, options=list(models), description=name, ensure_option=False, style=NAMES, layout=WIDE
    )


def prompt_box(name: str, kind: Kind) -> Any:
    """A list of the prompts of a kind; the built-in one is chosen."""
    box = widgets.Dropdown(description=name, style=NAMES, layout=WIDE)
    list_prompts_in(box, kind)
    return box


def list_prompts_in(box: Any, kind: Kind) -> None:
    """Bring the list up to date; what is chosen stays chosen, if it is still there."""
    known, chosen = [prompt.id for prompt in list_prompts(kind)], box.value
    if list(box.options) != known:
        box.options = known
        box.value = chosen if chosen in known else known[0]


def number_box(name: str, value: int, most: int = 1000) -> Any:
    """A box for a count from 1 to 1,000, or to `most`."""
    return widgets.BoundedIntText(value=value, min=1, max=most, description=name, style=NAMES, layout=WIDE)


def seconds_box(name: str, value: float, least: float = 0.0) -> Any:
    """A box for seconds, up to a day."""
    return widgets.BoundedFloatText(
        value=value, min=least, max=86_400, step=10, description=name, style=NAMES, layout=WIDE
    )


def dollar_box(value: float = 0.5) -> Any:
    """A box for the most that a run may cost; 0 means no limit."""
    return widgets.BoundedFloatText(
        value=value, min=0, max=1e6, step=0.1, description="費用の上限（ドル、0で無制限）", style=NAMES, layout=WIDE
    )


def cost_box() -> Any:
    """The tick without which nothing that costs money is started."""
    return tick_box("費用がかかることを確認しました")


def tick_box(name: str) -> Any:
    """A box to tick, no wider than its name."""
    return widgets.Checkbox(value=False, description=name, indent=False, layout=AUTO)


def elsewhere(panel: Any) -> str:
    """What stands where a panel cannot be shown, such as in an exported page."""
    return f"<{type(panel).__name__}: このパネルは JupyterLab で開くと使えます>"
