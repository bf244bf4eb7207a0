"""Map packages to the extras of pyproject.toml. When a package is missing, the error can then say what to install."""

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
    """Return the error to raise after a failed import.

    If one of our extras contains the package, the result is a ConfigError with the pip command. Otherwise the given
    error is returned.

    wanted: what the user cannot do without the package, in the user's words.
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    return ConfigError(say("base.missing_extra", wanted=wanted, package=package, extra=_EXTRAS[package]))
