"""Loaded by each worker of a cluster: the service on loopback stands in for OpenAI's own there too."""

from __future__ import annotations

from socjudge.models import prices
from support.service import sell_on_loopback


def stand_in() -> None:
    prices.door_of = sell_on_loopback  # type: ignore[assignment]


def dask_setup(worker: object) -> None:
    """Called by Dask in the worker alone, so that the process of the tests keeps its own addresses."""
    stand_in()
