"""The public names of `socjudge.history`; see `socjudge/__init__.pyi`."""

from .doctor import check_logs as check_logs
from .doctor import check_verdicts as check_verdicts
from .examples import find_logs as find_logs
from .export import export_history as export_history
from .frames import load_history as load_history
from .imports.importing import import_results as import_results
from .labels import load_labels as load_labels
from .marks_sheet import write_marks_sheet as write_marks_sheet
from .table_files import load_table as load_table
from .table_files import write_table as write_table
