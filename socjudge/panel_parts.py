"""What the panels share: the looks of their controls, and what stands where a panel cannot be shown."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

MODELS = ["auto", "offline", "gpt-4o-mini", "gpt-4o"]  # to choose from; any other name can be typed
WIDE = widgets.Layout(width="min(100% - 4px, 42em)")
AUTO = widgets.Layout(width="auto")  # Japanese does not fit the usual width
NAMES = {"description_width": "15em"}


def model_box(name: str, value: str = "offline") -> Any:
    """A box for the name of a model, with some to choose from."""
    return widgets.Combobox(
        value=value, options=MODELS, description=name, ensure_option=False, style=NAMES, layout=WIDE
    )


def number_box(name: str, value: int) -> Any:
    """A box for a count from 1 to 1,000."""
    return widgets.BoundedIntText(value=value, min=1, max=1000, description=name, style=NAMES, layout=WIDE)


def dollar_box(value: float = 0.5) -> Any:
    """A box for the most that a run may cost; 0 means no limit."""
    return widgets.BoundedFloatText(
        value=value, min=0, max=1e6, step=0.1, description="費用の上限（米ドル、0は上限なし）", style=NAMES, layout=WIDE
    )


def cost_box() -> Any:
    """The tick without which nothing that costs money is started."""
    return widgets.Checkbox(value=False, description="費用がかかることを確認しました", indent=False)


def elsewhere(panel: Any) -> str:
    """What stands where a panel cannot be shown, such as in an exported page."""
    return f"<{type(panel).__name__}: このパネルは JupyterLab で開くと使えます>"
