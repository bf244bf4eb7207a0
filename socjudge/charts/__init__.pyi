"""The public names of `socjudge.charts`; see `socjudge/__init__.pyi`."""

from .scores import plot_judge_comparison as plot_judge_comparison
from .style import japanese_text as japanese_text
