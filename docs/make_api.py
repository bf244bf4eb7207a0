"""Write docs/api.md from the docstrings of the public names (`make docs`)."""

from __future__ import annotations

import re
from pathlib import Path

import griffe
import griffe2md

import socjudge

ROOT = Path(__file__).resolve().parents[1]
# Wings in the order in which somebody meets them, under the five doors of the README and what stands behind these.
DOORS = {
    "Ask": ["runbooks", "judging", "prompts"],
    "Run": ["runs", "batch"],
    "Load": ["base", "history"],
    "Compare": ["stats", "certify", "charts"],
    "Report": ["report"],
    "Panels": ["panels"],
    "Settings": ["settings"],
    "Records": ["records"],
    "Errors": ["errors"],
}
HEAD = """# The public names

Made from the docstrings by `make docs`; change those, not this page. Everything here is `import socjudge as sj`, then
`sj.<name>`. The columns of the frames are in [frames.md](frames.md).
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
    # The records are given these when the package is imported.
    for name, method in package["methods"].functions.items():
        if not name.startswith("_"):
            package["records.EvaluationRun"][name].docstring = method.docstring
    homes = dict.fromkeys(name for names in DOORS.values() for name in names)
    assert homes.keys() == {home.split(".")[0] for home in socjudge._HOMES.values()}, "a wing without a door"
    text = HEAD
    for door, wings in DOORS.items():
        text += f"\n## {door}\n"
        for wing in wings:
            names = [name for name, home in socjudge._HOMES.items() if home.split(".")[0] == wing]
            for name in names:
                found = package[f"{socjudge._HOMES[name]}.{name}"]
                # Another name for a function is only mentioned.
                text += "\n" + (
                    griffe2md.render_object_docs(found, LOOK) if not found.is_attribute else _alias(name, found)
                )
    return re.sub(r"\n{3,}", "\n\n", _plain(text)).rstrip() + "\n"


def _alias(name: str, found: griffe.Object) -> str:
    return f"### `{name}`\n\nAnother name for `{found.value}`.\n"


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
