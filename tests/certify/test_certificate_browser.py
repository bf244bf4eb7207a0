"""A certificate's page in a real browser: nothing is fetched, nothing runs, and a phone shows it whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium, opened, sideways
from support.certify_judge import good_pairs

from socjudge.certify import certify_judge, write_certificate_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    made = certify_judge(good_pairs()[:1], judge_model="offline", size=1, logs_dir=folder / "certify", progress=False)
    return write_certificate_page(folder / "certificate.html", made)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_the_page_fetches_nothing_and_does_not_scroll_sideways(
    browser: Any, page_file: Path, width: int, scheme: str
) -> None:
    with opened(browser, page_file, viewport={"width": width, "height": 800}, color_scheme=scheme) as watched:
        assert sideways(watched.page) == 0
        assert watched.requests == [page_file.as_uri()] and watched.troubles == []
        assert watched.page.locator("#evidence .criterion").count() == 6
        assert watched.page.locator("script").count() == 0
