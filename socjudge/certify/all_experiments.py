"""List all experiments by the names that the command line and a panel use for them."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.messages import listed
from ..errors import ConfigError
from .anchoring import Anchoring
from .experiment import Experiment
from .injections import Injections
from .probes import Probes
from .two_prompts import Prompts

NAMES = ("probes", "injections", "anchoring", "prompts")


def chosen_experiments(names: Sequence[str], *, repeats: int = 2, size: int | None = None) -> list[Experiment]:
    """Return the experiments with these names, in the order of `NAMES`. Raises ConfigError for an unknown name.
    `size` is the number of damages per criterion and answer, and of attacks per answer; None means all."""
    every = (Probes(repeats, per_criterion=size), Injections(per_answer=size), Anchoring(repeats), Prompts())
    if unknown := [name for name in names if name not in NAMES]:
        raise ConfigError(
            "no experiment named {name}; expected some of {known}", name=listed(unknown), known=listed(NAMES)
        )
    return [experiment for name, experiment in zip(NAMES, every, strict=True) if name in names]
