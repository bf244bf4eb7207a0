"""The purse of one or several runs: what they may spend together, and what each of them has spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..settings import cost_cap


@dataclass
class Budget:
    """max_usd: what all runs together may spend in US dollars, None for no limit.

    A run is known by its id, so that what was paid in an earlier session may be told more than once. Runs share a budget one
    after the other; within a run only the background loop changes it."""

    max_usd: float | None = None
    _spent: dict[str, float] = field(default_factory=dict)

    @property
    def spent_usd(self) -> float:
        """What all runs have spent, a call of unknown cost counted at the most that it can have."""
        return sum(self._spent.values())

    def spent_by(self, run_id: str) -> float:
        """What one run has spent, earlier sessions included."""
        return self._spent.get(run_id, 0.0)

    def note(self, run_id: str, usd: float) -> None:
        """A run has spent so much by now, at least."""
        self._spent[run_id] = max(usd, self.spent_by(run_id))

    def add(self, run_id: str, usd: float) -> None:
        """A run has spent so much more."""
        self._spent[run_id] = self.spent_by(run_id) + usd

    def move(self, run_id: str, to: str) -> None:
        """What one run has spent belongs to another, which has taken its results over."""
        self.note(to, self._spent.pop(run_id, 0.0))


def as_budget(given: Budget | float | None) -> Budget:
    """A budget as it is, or a new one with this limit in US dollars: the project's for None, none for infinity."""
    return given if isinstance(given, Budget) else Budget(cost_cap(given))
