"""Limit what one or several runs may spend, and record what each run has spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..settings import open_project


@dataclass
class Budget:
    """Hold the limit on what several runs may spend together, and what each of them has spent.
    Runs that share a budget run one after the other. Within a run, only the background loop changes it."""

    max_usd: float | None = None  # None: no limit
    _spent: dict[str, float] = field(default_factory=dict)  # by run id, so that an earlier session counts once

    @property
    def spent_usd(self) -> float:
        """Return what all runs together have spent. A call of unknown cost counts as the most that it can cost."""
        return sum(self._spent.values())

    def spent_by(self, run_id: str) -> float:
        """Return what one run has spent, earlier sessions included."""
        return self._spent.get(run_id, 0.0)

    def note(self, run_id: str, usd: float) -> None:
        """Record that a run has spent at least `usd` in total, for example in an earlier session."""
        self._spent[run_id] = max(usd, self.spent_by(run_id))

    def add(self, run_id: str, usd: float) -> None:
        """Record that a run has spent `usd` more."""
        self._spent[run_id] = self.spent_by(run_id) + usd


def as_budget(given: Budget | float | None) -> Budget:
    """Return the budget, or make one from a limit in US dollars. None is the project's limit, infinity no limit."""
    return given if isinstance(given, Budget) else Budget(open_project().cost_cap(given))
