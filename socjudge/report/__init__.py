"""Frames and charts as one self-contained page."""
