"""May a judge be believed? Answers changed on purpose, and what the judge makes of it."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
