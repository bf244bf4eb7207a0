"""Read logs as frames, with cache, export and checks. Read and write people's labels."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
