"""Limit what one or several runs may spend, and record what each run has spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..settings import cost_cap


@dataclass
class Budget:
    """Hold the limit on what several runs may spend together, and what each of them has spent.

    max_usd: the limit in US dollars, or None for no limit.

    Spending is recorded per run id. If what a run spent in an earlier session is recorded again, it does not count
    twice. Runs that share a budget run one after the other. Within a run, only the background loop changes the budget.
    """

    max_usd: float | None = None
    _spent: dict[str, float] = field(default_factory=dict)

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
    """Return the given budget, or make one from a limit in US dollars.

    None means the project's limit. Infinity means no limit.
    """
    return given if isinstance(given, Budget) else Budget(cost_cap(given))
