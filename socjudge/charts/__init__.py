"""Frames as matplotlib axes."""
