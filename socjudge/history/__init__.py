"""Logs as frames: reading, the cache, export, what is wrong with them, people's labels."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
