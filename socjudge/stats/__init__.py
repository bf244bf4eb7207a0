"""Frames in, frames out: intervals, comparisons, agreement, noise, gates and bridges."""
