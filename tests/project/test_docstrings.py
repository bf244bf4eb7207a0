"""Names that no user sees have at most two lines of docstring. What more there is to know stands beside its line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from support.package_modules import PACKAGE, modules

STUBS = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("__init__.pyi"))
PUBLIC = set(re.findall(r" as (\w+)$", STUBS, re.MULTILINE))
# What needs more lines, and why: first what users call or read although no stub has its name.
LONGER = {
    "records.ModelRequest": "whoever writes a model reads here what `material` holds for a judge and for an assistant",
    "runs/logs.save_evaluation_results": "the specification names it, and users find it in socjudge.judge",
    "runs/forecast.run": "a method of what `plan_run` returns: its arguments and errors",
    "runbooks/search.search": "a method of what `load_index` returns: the order of equal scores, what is found, errors",
    "runbooks/reading.load_runbooks": "what is skipped with a warning, and what is an error",
    "runbooks/reading.find_runbooks": "what is left out with a warning, and what is an error",
    "runbooks/reading.split_runbook": "where Markdown and text files are split, and what is left out",
    "runbooks/bm25.match": "the formula",
}


def longer() -> Iterator[tuple[str, str]]:
    """(module.name, place) of each name that no user sees and whose docstring has more than two lines.

    Users see the names in the stubs, and of these classes everything that does not begin with an underscore."""
    for module, tree in modules().items():
        shown = set[ast.AST]()
        for node in ast.walk(tree):  # a class comes before what is in it
            if isinstance(node, ast.ClassDef) and node.name in PUBLIC:
                shown |= {member for member in node.body if not getattr(member, "name", "_").startswith("_")}
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                lines = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
                if lines > 2 and node.name not in PUBLIC and node not in shown and ast.get_docstring(node):
                    yield f"{module}.{node.name}", f"socjudge/{module}.py:{node.lineno} {node.name}: {lines} lines"


@pytest.fixture(scope="module")
def found() -> list[tuple[str, str]]:
    return list(longer())


@pytest.mark.slow
def test_a_name_that_no_user_sees_has_at_most_two_lines_of_docstring(found: list[tuple[str, str]]) -> None:
    places = [place for name, place in found if name not in LONGER]
    assert not places, "\n".join(places)


def test_each_docstring_that_may_be_longer_is_longer(found: list[tuple[str, str]]) -> None:
    assert not LONGER.keys() - dict(found).keys()
