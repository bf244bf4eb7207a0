"""Draw frames as matplotlib axes."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
