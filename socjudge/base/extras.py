"""The extras of pyproject.toml: what to install when a package of one is missing."""

from __future__ import annotations

from ..errors import ConfigError
from .messages import say

_EXTRAS = {
    "anywidget": "lab",
    "ipywidgets": "lab",
    "IPython": "lab",
    "jupyterlab": "lab",
    "voila": "lab",
    "openpyxl": "convert",
    "langchain": "langchain",
    "langchain_openai": "langchain",
}


def missing_extra(error: ImportError, *, wanted: str) -> ImportError | ConfigError:
    """What to raise for this failed import: a ConfigError with the pip command if an extra has the package, else itself.

    wanted: what could not be had, as the user calls it."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    return ConfigError(say("base.missing_extra", wanted=wanted, package=package, extra=_EXTRAS[package]))
