"""Compute statistics of scores: intervals, comparisons, agreement, noise, and how sure a pass verdict is.

They also convert the points of an old judge to the scale of a new one. Most functions take a frame and return a frame.
"""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
