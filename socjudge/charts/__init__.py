"""Draw frames of scores, runs and comparisons with matplotlib."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
