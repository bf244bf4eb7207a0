"""Hold the version of socjudge."""

__version__ = "1.0.0"
