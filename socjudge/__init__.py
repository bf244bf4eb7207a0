"""socjudge: is the SOC runbook assistant good enough to use, and can the judge that says so be trusted?

The public names stand in `__init__.pyi`, and each is imported when it is first used: `import socjudge` stays quick.
"""

from . import settings as _settings  # notes what constants.py says, before anybody assigns one
from .base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
