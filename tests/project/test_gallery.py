"""The stored pages of the notebooks' outputs: one for each notebook, of its present cells, and nothing of this machine."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from conftest import ROOT
from test_notebooks import NOTEBOOKS, code_cells

GALLERY = ROOT / "docs" / "gallery"
NUMBERED = [path for path in NOTEBOOKS if path.stem != "app"]  # one panel, which shows nothing without a kernel


def shown_cells(page: str) -> list[str]:
    """The code of the cells on a page, as it was written."""
    return [
        unescape(re.sub("<[^>]+>", "", code)).strip()
        for code in re.findall(r'class="input_area">.*?<pre>(<span></span>.*?)</pre>', page, re.S)
    ]


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_a_page_shows_the_notebook_as_it_is_now(path: Path) -> None:
    page = (GALLERY / f"{path.stem}.html").read_text("utf-8")
    assert shown_cells(page) == [code.strip() for code in code_cells(path.name)], (
        "run make gallery, and look at the pages"
    )
    assert "/tmp/" not in page and str(ROOT) not in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)(?!\.?\.?/|[\w.]+["'])""", page)
    assert not re.search("<script", page)


def test_the_index_leads_to_every_page_and_both_readmes_lead_to_it() -> None:
    index = (GALLERY / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\(([\w.]+\.(?:html|png))\)", index))
    assert {f"{path.stem}.html" for path in NUMBERED} <= linked
    assert linked == {path.name for path in GALLERY.iterdir()} - {"README.md"}
    for name in ("README.md", "README.ja.md"):
        assert "(docs/gallery/README.md)" in (ROOT / name).read_text("utf-8")
