"""Prices of one's own, as a project has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from socjudge import constants


def set_prices(folder: Path, patch: pytest.MonkeyPatch, prices: Mapping[str, tuple[float, float]]) -> None:
    """Make a folder the project, with these prices: {model: dollars per million tokens in, and out}."""
    tables = (f'[prices."{name}"]\ninput = {one}\noutput = {two}\n' for name, (one, two) in prices.items())
    (folder / "socjudge.toml").write_text("".join(tables), encoding="utf-8")
    patch.setattr(constants, "PROJECT_DIR", folder)
