"""socjudge: is the SOC runbook assistant good enough to use, and can its LLM judge be trusted?

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so that `import socjudge` is
fast.
"""

from .base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
