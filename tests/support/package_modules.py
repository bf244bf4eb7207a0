"""The modules of the package as syntax trees, and what they import."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "socjudge"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def modules() -> dict[str, ast.Module]:
    """By name, such as stats/basics."""
    return {path.relative_to(PACKAGE).with_suffix("").as_posix(): tree_of(path) for path in PACKAGE.rglob("*.py")}


def runtime_imports(tree: ast.Module) -> set[str]:
    """The modules that a file imports at any place, those for type checking aside."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level and node.module is None:
                names |= {f".{alias.name}" for alias in node.names}
            else:
                names.add("." * node.level + (node.module or ""))
    return names
