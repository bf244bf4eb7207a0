"""What the panels share: the looks of their controls, and what stands where a panel cannot be shown."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from . import constants
from .prompt_files import Kind, list_prompts
from .providers import OFFLINE

# As dicts, of which each widget makes a layout of its own: one that is shared is hidden for all.
WIDE = {"width": "min(100% - 4px, 42em)"}  # within the margins of a control
AUTO = {"width": "auto"}  # Japanese does not fit the usual width
NAMES = {"description_width": "15em"}


def model_box(name: str, value: str = OFFLINE) -> Any:
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


def number_box(name: str, value: int) -> Any:
    """A box for a count from 1 to 1,000."""
    return widgets.BoundedIntText(value=value, min=1, max=1000, description=name, style=NAMES, layout=WIDE)


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
