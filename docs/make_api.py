"""Write build/api.md from the docstrings of the public names (`make docs`)."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from importlib import import_module
from importlib.util import resolve_name
from itertools import groupby, takewhile
from pathlib import Path

import griffe
import griffe2md

from socjudge.base.public import homes

ROOT = Path(__file__).resolve().parents[1]
# What somebody does with the names of each wing that are at the top, and with those of each namespace.
AT_THE_TOP = {
    "runbooks": "Search the runbooks",
    "answering": "Ask the assistant, or bring answers in",
    "judging": "Judge one answer",
    "prompts": "Write a prompt",
    "runs": "Run an evaluation",
    "base": "Show a run",
    "history": "Load the history",
    "stats": "Measure and compare",
    "charts": "Draw",
    "report": "Compare two runs, and write a report",
    "panels": "Click instead of typing",
    "settings": "Choose the project",
    "records": "What goes in and comes out",
    "errors": "Errors",
}
SPACES = {
    "stats": "More statistics",
    "charts": "More charts",
    "certify": "Test a judge",
    "history": "Import, export, check",
    "records": "More records",
    "errors": "More errors",
}
HEAD = """# The public names

After this page you can call each public function. `make docs` writes it from the docstrings; change those, not this page.
After `import socjudge as sj`, a name is `sj.<name>`, or `sj.stats.<name>` under a heading with `sj.stats`. The
examples also need `import pandas as pd`. The columns of the frames are in [frames.md](../docs/frames.md).
"""
LOOK = {
    "docstring_style": "numpy",
    "heading_level": 3,
    "merge_init_into_class": True,
    "show_if_no_docstring": False,
    "show_bases": False,
    "show_object_full_path": False,
    "show_root_full_path": False,
    "show_signature_annotations": True,
    "summary": False,
}


def api_page() -> str:
    """The page's text."""
    package = griffe.load("socjudge", search_paths=[str(ROOT)], docstring_parser="numpy")
    groups = [(AT_THE_TOP[wing], [*paths]) for wing, paths in groupby(_paths(""), _wing)]
    groups += [(f"{title}: `sj.{space}`", _paths(space)) for space, title in SPACES.items()]
    text = HEAD
    seen: dict[str, str] = {}
    for title, paths in groups:
        text += f"\n## {title}\n"
        for path in paths:
            _add_fields(package[path])
            text += "\n" + _once(_plain(griffe2md.render_object_docs(package[path], LOOK)), seen)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _paths(space: str) -> list[str]:
    """Where the public names of a namespace live: a package's, by its stub; a module's classes that the top has not got."""
    top = homes(ROOT / "socjudge")
    folder = ROOT / "socjudge" / space
    if not folder.is_dir():
        classes = inspect.getmembers(import_module(f"socjudge.{space}"), inspect.isclass)
        return [f"{space}.{name}" for name, each in classes if each.__module__ == f"socjudge.{space}" and name not in top and name[0] != "_"]  # fmt: skip
    at = f"socjudge.{space}".rstrip(".")
    found = [(name, home) for name, home in homes(folder).items() if home not in (".", "._version")]
    paths = [resolve_name(f"{home}.{name}", at).removeprefix("socjudge.") for name, home in found]
    return sorted(paths, key=lambda path: list(AT_THE_TOP).index(_wing(path))) if not space else paths


def _add_fields(shown: griffe.Object) -> None:
    """Add to the docstring of a class what the comments behind or above its fields say."""
    if not isinstance(shown, griffe.Class) or shown.docstring is None:
        return
    lines = shown.filepath.read_text("utf-8").splitlines()  # type: ignore[union-attr]
    node = next(each for each in ast.parse("\n".join(lines)).body if getattr(each, "name", "") == shown.name)
    told = []
    for field in node.body:  # type: ignore[attr-defined]
        if isinstance(field, ast.AnnAssign):
            above = takewhile(re.compile(r" +# ").match, reversed(lines[: field.lineno - 1]))
            behind = lines[(field.end_lineno or 0) - 1].encode()[field.end_col_offset :].decode()
            said = " ".join(line.strip(" #") for line in [*reversed([*above]), behind] if line.strip(" #"))
            told += (
                [textwrap.fill(f"- {ast.unparse(field.target)}: {said}", 118, subsequent_indent="  ")] if said else []
            )
    shown.docstring.value += "\n\n" * bool(told) + "\n".join(told)


def _wing(path: str) -> str:
    return path.split(".")[0]


def _plain(text: str) -> str:
    """Without links to pages that are not there and types that the signature has, with notes like any other section."""
    text = re.sub(r"<code>(.*?)</code>", _code, text)
    text = re.sub(r"<details [^>]*>\n<summary>(.*?)</summary>\n", r"**\1:**\n", text).replace("</details>\n", "")
    text = re.sub(r"^#### `socjudge\.[a-z_.]+", "#### `", text, flags=re.MULTILINE)
    text = re.sub(r"` – - ", "`\n\n- ", text).replace("` – \n", "`\n")
    text = re.sub(r"(\*\*Returns:\*\*\n\n)- `[^`\n]*`(?: – |\n\n)", r"\1", text)
    text = re.sub(r"\*\*Returns:\*\*\n+(?=\*\*|\Z)", "", text)
    text = re.sub(r"^>>> import (?:pandas as pd|socjudge as sj)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(- \*\*\w+\*\*) \(`.*?`\) – ", r"\1 – ", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\*\*Parameters:\*\*\n\n).+?(?=\n\n|\Z)", _parameters, text, flags=re.DOTALL)
    return re.sub(r"(?<=^```python\n).+?(?=\n```)", _signature, text, flags=re.MULTILINE)


def _code(found: re.Match[str]) -> str:
    return "`" + re.sub(r"\[([^][]*)\]\(#[^)]*\)", r"\1", found[1]) + "`"


def _parameters(found: re.Match[str]) -> str:
    """The parameters that are described together in one item."""
    items = re.findall(r"^- (\*\*\w+\*\*) – (.*?)(?=\n- \*\*|\Z)", found[0], re.MULTILINE | re.DOTALL)
    together = groupby(items, lambda item: item[1])
    return "\n".join(f"- {', '.join(name for name, _ in each)} – {said}" for said, each in together)


def _signature(found: re.Match[str]) -> str:
    return textwrap.fill(found[0], 120, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _once(text: str, seen: dict[str, str]) -> str:
    """Without the methods that another class has word for word: one line says whose."""
    first, *methods = re.split(r"^(?=#### )", text, flags=re.MULTILINE)
    kept, shared = first, []
    for method in methods:
        name, body = re.match(r"#### `(\S+)`\n(.*)", method, re.DOTALL).groups()  # type: ignore[union-attr]
        if body in seen:
            shared.append(f"`{seen[body]}`")
        else:
            seen[body] = name
            kept += method
    return kept + (f"Also has {', '.join(shared)}.\n" if shared else "")


if __name__ == "__main__":
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "api.md").write_text(api_page(), encoding="utf-8")
