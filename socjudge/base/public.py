"""Import each public name of a package when it is first used. The names are listed in its stub, `__init__.pyi`.

The error about a package that is not installed names the extra of pyproject.toml that installs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import ConfigError

# The extras by what they install.
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
_NAME = re.compile(r"^from (\.\S*) import (\w+) as", re.MULTILINE)


def homes(folder: Path) -> dict[str, str]:
    """{public name: its module, or "." if it is a module itself}, from the stub in a package's folder."""
    return {name: home for home, name in _NAME.findall((folder / "__init__.pyi").read_text("utf-8"))}


def public_names(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the values for `__all__`, `__getattr__` and `__dir__` of a package."""
    module = sys.modules[package]
    names = homes(Path(module.__path__[0]))

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(_absent(name, package, names))
        home = f".{name}" if names[name] == "." else names[name]
        try:
            value = import_module(home, package)
        except ModuleNotFoundError as error:
            raise missing_extra(error, wanted=f"{package}.{name}") from error
        value = value if names[name] == "." else getattr(value, name)
        setattr(module, name, value)
        return value

    return sorted(names), load, lambda: sorted(names)


def _absent(name: str, package: str, names: Iterable[str]) -> str:
    told = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_"):  # Python and editors ask for such names; nobody reads the error
        return told
    import difflib  # only needed for a name that is not there

    from .former_names import instead_of
    from .messages import say

    near = difflib.get_close_matches(name, names, n=1)
    hint = instead_of(name) or (say("Did you mean '{name}'?", name=near[0]) if near else "")
    return f"{told}. {hint}" if hint else told


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
