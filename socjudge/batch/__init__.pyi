"""The public names of `socjudge.batch`; see `socjudge/__init__.pyi`."""

from .api import batch_status as batch_status
from .api import collect_batch as collect_batch
from .api import prepare_batch as prepare_batch
from .api import submit_batch as submit_batch
