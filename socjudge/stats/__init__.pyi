"""The public names of `socjudge.stats`; see `socjudge/__init__.pyi`."""

from .bridge import bridge_judges as bridge_judges
from .correction import corrected_means as corrected_means
from .correction import corrected_pass_rate as corrected_pass_rate
from .gate import gate_confidence as gate_confidence
from .people import judge_vs_people as judge_vs_people
from .trust import judge_trust as judge_trust
