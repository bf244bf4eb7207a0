"""Hold the version of socjudge."""

__version__ = "0.3.0"
