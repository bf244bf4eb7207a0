"""Files that readers see whole or not at all: written beside their place, and put there when they are on the disk."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of the one of that name when the block ends well, or not at all."""
    with _beside(path.parent) as file:
        yield file
        _complete(file)
        os.replace(file.name, path)


def write_new(folder: Path, names: Iterable[str], chunks: Iterable[bytes]) -> Path:
    """Write to a file of the first of these names that the folder does not have; FileExistsError if it has them all."""
    folder.mkdir(parents=True, exist_ok=True)
    with _beside(folder) as file:
        file.writelines(chunks)
        _complete(file)
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.link(file.name, folder / name)  # fails if the name is taken, unlike a rename
                return folder / name
    raise FileExistsError(str(folder / name))


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[IO[bytes]]:
    """A file in the folder, which is removed at the end if it was not moved."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".unfinished_", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def _complete(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows moves no open file
    os.chmod(file.name, 0o644)  # a temporary file is private to its writer; these are for the team
