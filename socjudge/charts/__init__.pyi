"""The public names of `socjudge.charts`; see `socjudge/__init__.pyi`."""

from .judges import plot_judge_comparison as plot_judge_comparison
from .probe_matrix import plot_probe_matrix as plot_probe_matrix
from .scores import plot_gate_confidence as plot_gate_confidence
from .style import japanese_text as japanese_text
from .style import judge_colours as judge_colours
