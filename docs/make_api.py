"""Write docs/api.md from the docstrings of the public names (`make docs`)."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

import griffe
import griffe2md

from socjudge.base.public import homes

ROOT = Path(__file__).resolve().parents[1]
# The namespaces in the order in which somebody meets them; the names of a wing stand together, wings as they are met.
SPACES = ["", "stats", "charts", "certify", "batch", "history", "records", "errors"]
WINGS = ["runbooks", "judging", "prompts", "runs", "base", "history", "stats", "charts", "report", "panels", "settings", "records", "errors"]  # fmt: skip
HEAD = """# The public names

Made from the docstrings by `make docs`; change those, not this page. Everything here is `import socjudge as sj`, then
`sj.<name>`, or
`sj.stats.<name>` where it stands under `sj.stats`. The columns of the frames are in [frames.md](frames.md).
"""
LOOK = {
    "docstring_style": "numpy",
    "heading_level": 3,
    "merge_init_into_class": True,
    "show_if_no_docstring": False,
    "show_object_full_path": False,
    "show_root_full_path": False,
    "show_signature_annotations": True,
    "summary": False,
}


def api_page() -> str:
    """The page's text."""
    package = griffe.load("socjudge", search_paths=[str(ROOT)], docstring_parser="numpy")
    text = HEAD
    for space in SPACES:
        text += f"\n## `{'.'.join(filter(None, ('sj', space)))}`\n"
        for path in _paths(space):
            text += "\n" + griffe2md.render_object_docs(package[path], LOOK)
    return re.sub(r"\n{3,}", "\n\n", _plain(text)).rstrip() + "\n"


def _paths(space: str) -> list[str]:
    """Where the public names of a namespace live: a package's, by its stub; a module's classes that the top has not got."""
    top = homes(ROOT / "socjudge")
    folder = ROOT / "socjudge" / space
    if not folder.is_dir():
        classes = inspect.getmembers(import_module(f"socjudge.{space}"), inspect.isclass)
        return [
            f"{space}.{name}" for name, each in classes if each.__module__ == f"socjudge.{space}" and name not in top
        ]
    at = f"socjudge.{space}".rstrip(".")
    found = [(name, home) for name, home in homes(folder).items() if home not in (".", "._version")]
    paths = [resolve_name(f"{home}.{name}", at).removeprefix("socjudge.") for name, home in found]
    return sorted(paths, key=lambda path: WINGS.index(path.split(".")[0])) if not space else paths


def _plain(text: str) -> str:
    """Without links to pages that are not there, and with notes like any other section."""
    text = re.sub(r"<code>(.*?)</code>", _code, text)
    text = re.sub(r"<details [^>]*>\n<summary>(.*?)</summary>\n", r"**\1:**\n", text).replace("</details>\n", "")
    text = re.sub(r"^#### `socjudge\.[a-z_.]+", "#### `", text, flags=re.MULTILINE)
    return re.sub(r"` – - ", "`\n\n- ", text).replace("` – \n", "`\n")


def _code(found: re.Match[str]) -> str:
    return "`" + re.sub(r"\[([^][]*)\]\(#[^)]*\)", r"\1", found[1]) + "`"


if __name__ == "__main__":
    (ROOT / "docs" / "api.md").write_text(api_page(), encoding="utf-8")
