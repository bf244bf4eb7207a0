"""Know which extra of pyproject.toml installs which package. The error about a missing package names the extra."""

from __future__ import annotations

from ..errors import ConfigError

_EXTRAS = {
    "anywidget": "lab",
    "ipywidgets": "lab",
    "IPython": "lab",
    "voila": "lab",
    "openpyxl": "convert",
    "bs4": "convert",
    "markdownify": "convert",
    "pypdfium2": "convert",
    "langchain": "langchain",
}


def missing_extra(error: ImportError, *, wanted: str) -> ImportError | ConfigError:
    """The error to raise: a ConfigError with the pip command if an extra has the package, otherwise `error`."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    return ConfigError(
        "{wanted} needs {package}, which is not installed; run: pip install 'socjudge[{extra}]'",
        wanted=wanted,
        package=package,
        extra=_EXTRAS[package],
    )
