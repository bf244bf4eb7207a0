"""The public names of `socjudge.history`; see `socjudge/__init__.pyi`."""

from .doctor import check_logs as check_logs
from .frames import find_logs as find_logs
from .labels import load_labels as load_labels
