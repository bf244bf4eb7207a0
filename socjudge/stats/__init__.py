"""Frames in, frames out: intervals, comparisons, agreement, noise, gates and bridges."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
