"""Compute intervals, comparisons, agreement, noise, gates and bridges. Each function takes frames and returns frames."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
