"""Read logs as frames, and check them for problems. Read and write people's scores."""

from ..base.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__)
