"""Test whether a judge can be trusted. Answers are changed on purpose, and the judge's scores of them are examined."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
