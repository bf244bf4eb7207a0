"""Write files so that readers never see half of one, and append lines so that those of two writers do not mix.

A new file first gets a temporary name in its final folder. It gets its final name when it is complete on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from .. import constants
from .messages import say

# Errors of os.link on drives without hard links: exFAT, many network drives, and Windows with either.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


def refuse_links(path: Path, *, project: Path | None = None) -> None:
    """Raise OSError if a path that is to be written, or a folder on the way to it inside the project, is a link. Git
    keeps links, so that a link in somebody else's project would choose which of the user's files is written."""
    path, project = Path(os.path.abspath(path)), Path(os.path.abspath(project or constants.PROJECT_DIR))
    for each in (path, *(folder for folder in path.parents if project in folder.parents)):
        if each.is_symlink():
            raise OSError(
                errno.ELOOP,
                say("{path} is a link; remove it, or name the place that it leads to", path=each),
                str(path),
            )


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the one at `path` when the `with` block ends; after an error, that one stays."""
    refuse_links(path)
    with _beside(path.parent) as file:
        yield file
        _complete(file)
        os.replace(file.name, path)


def write_new(folder: Path, names: Iterable[str], chunks: Iterable[bytes]) -> Path:
    """Write a new file under the first of `names` that is free, and return its path. FileExistsError if none is."""
    make_folder(folder)
    with _beside(folder) as file:
        file.writelines(chunks)
        _complete(file)
        for name in names:
            with contextlib.suppress(FileExistsError):
                _put(file.name, folder / name)
                return folder / name
    raise FileExistsError(str(folder / name))


def make_folder(folder: Path) -> None:
    refuse_links(folder / "file")
    folder.mkdir(parents=True, exist_ok=True)


def check_writable(folder: Path) -> None:
    make_folder(folder)
    with _beside(folder) as file:
        file.write(bytes(4096))
        _complete(file)


def _put(file: str, path: Path) -> None:
    try:
        os.link(file, path)  # raises FileExistsError if the name is taken, unlike a rename
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        # Readers may see an empty file for a moment. Two writers with the same name would be worse.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            os.replace(file, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def append_line(path: Path, line: bytes) -> None:
    """Append a line, given without its end. When the function returns, the line is safely on the disk."""
    refuse_links(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        line += b"\n"
        if os.fstat(handle).st_size and _last_byte(handle) != b"\n":
            line = b"\n" + line  # the last line was cut off; the new one still begins on a line of its own
        # In one call, so that the lines of two writers do not mix.
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(handle)
    finally:
        os.close(handle)


def _last_byte(handle: int) -> bytes:
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1)


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[IO[bytes]]:
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".unfinished_", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)  # it is missing if it was renamed


def _complete(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows cannot move an open file
    with contextlib.suppress(OSError):  # some drives refuse, because they store no permissions
        os.chmod(file.name, 0o644)  # a temporary file is private to its writer, but these files are for the team
