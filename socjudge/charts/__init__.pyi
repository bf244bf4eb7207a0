"""The public names of `socjudge.charts`; see `socjudge/__init__.pyi`."""

from .judges import plot_judge_comparison as plot_judge_comparison
from .style import japanese_text as japanese_text
from .style import judge_colours as judge_colours
