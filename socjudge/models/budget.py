"""The budget that one or several runs share, and what each of them has spent."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..settings import cost_cap


@dataclass
class Budget:
    """Limit what several runs may spend together: `max_usd` in US dollars, None for no limit.

    Spending is noted per run id, so an earlier session's spending can be reported more than once without counting
    twice. Runs that share a budget go one after the other, and within a run only the background loop changes it.
    """

    max_usd: float | None = None
    _spent: dict[str, float] = field(default_factory=dict)

    @property
    def spent_usd(self) -> float:
        """Sum what all runs have spent; a call of unknown cost counts as the most it can have cost."""
        return sum(self._spent.values())

    def spent_by(self, run_id: str) -> float:
        """Return what one run has spent, earlier sessions included."""
        return self._spent.get(run_id, 0.0)

    def note(self, run_id: str, usd: float) -> None:
        """Record that a run has spent at least `usd` in total."""
        self._spent[run_id] = max(usd, self.spent_by(run_id))

    def add(self, run_id: str, usd: float) -> None:
        """Record that a run has spent `usd` more."""
        self._spent[run_id] = self.spent_by(run_id) + usd

    def move(self, run_id: str, to: str) -> None:
        """Move one run's spending to the run that has taken over its results."""
        self.note(to, self._spent.pop(run_id, 0.0))


def as_budget(given: Budget | float | None) -> Budget:
    """Return the budget given, or make one from a limit in US dollars: None is the project's limit, infinity is no
    limit.
    """
    return given if isinstance(given, Budget) else Budget(cost_cap(given))
