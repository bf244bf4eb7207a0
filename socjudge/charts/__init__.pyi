"""The public names of `socjudge.charts`; see `socjudge/__init__.pyi`."""

from .style import japanese_text as japanese_text
