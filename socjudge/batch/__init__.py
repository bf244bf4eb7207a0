"""Make runs through OpenAI's Batch endpoint: the same evaluation at half the price, within a day."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
