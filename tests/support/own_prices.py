"""Prices of one's own, as a project has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from socjudge import constants
from socjudge.models import prices
from support.service import sell_on_loopback

MINI = {"gpt-4o-mini": (0.15, 0.6)}
# The first lines of a notebook beside the folder `own`, which has the prices. The runbooks stay those of the checkout.
IN_KERNEL = "from pathlib import Path\nfrom socjudge import constants\nconstants.PROJECT_DIR = Path('own').resolve()\n"


def set_prices(folder: Path, patch: pytest.MonkeyPatch, prices: Mapping[str, tuple[float, float]]) -> None:
    """Make a folder the project, with these prices: {model: dollars per million tokens in, and out}."""
    write_prices(folder, prices)
    patch.setattr(constants, "PROJECT_DIR", folder)


def write_prices(folder: Path, prices: Mapping[str, tuple[float, float]]) -> None:
    folder.mkdir(exist_ok=True)
    tables = (f'[prices."{name}"]\ninput = {one}\noutput = {two}\n' for name, (one, two) in prices.items())
    (folder / "socjudge.toml").write_text("".join(tables), encoding="utf-8")


# --- Loaded by each worker of a cluster: the service on loopback stands in for OpenAI's own there too


def stand_in() -> None:
    prices.door_of = sell_on_loopback  # type: ignore[assignment]


def dask_setup(worker: object) -> None:
    """Called by Dask in the worker alone, so that the process of the tests keeps its own addresses."""
    stand_in()
