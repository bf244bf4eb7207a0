"""Every reader takes the inputs that the fuzzer began with, and those that were too much for it once."""

from __future__ import annotations

from zipfile import Path

import pytest
from support.readers import INPUTS, READERS, check

KEPT = [path for folder in INPUTS.iterdir() for path in folder.iterdir()]


def test_each_reader_has_inputs() -> None:
    assert {path.parent.name for path in KEPT} == set(READERS)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_too_much_for_a_reader_is_taken(path: Path) -> None:
    check(path.parent.name, path.read_bytes())
