"""Write files and lines so that readers never see an incomplete one.

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

# Errors of os.link on drives without hard links: exFAT, many network drives, and Windows with either.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file for the caller to write.

    When the block ends without an error, the temporary file takes the place of `path`. After an error, it is deleted
    and `path` stays as it was."""
    with _beside(path.parent) as file:
        yield file
        _complete(file)
        os.replace(file.name, path)


def write_new(folder: Path, names: Iterable[str], chunks: Iterable[bytes]) -> Path:
    """Write a new file in the folder and return its path. The file gets the first of the names that is free.

    Raises FileExistsError if all names are taken.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _beside(folder) as file:
        file.writelines(chunks)
        _complete(file)
        for name in names:
            with contextlib.suppress(FileExistsError):
                _put(file.name, folder / name)
                return folder / name
    raise FileExistsError(str(folder / name))


def _put(file: str, path: Path) -> None:
    """Give the file this name. Raise FileExistsError if the name is taken."""
    try:
        os.link(file, path)  # fails if the name is taken, unlike a rename
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
    """Append a line to a file. When the function returns, the line is safely on the disk. A missing folder is created.

    line: the line without its line end. It is written in one call, so that the lines of two writers do not mix. If the
    last line of the file was cut off, the new line still starts on a line of its own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
    try:
        line += b"\n"
        if os.fstat(handle).st_size and _last_byte(handle) != b"\n":
            line = b"\n" + line
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
    """Yield a new temporary file in the folder. At the end of the block the file is deleted, unless it was moved."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".unfinished_", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def _complete(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows cannot move an open file
    with contextlib.suppress(OSError):  # some drives refuse, because they store no permissions
        os.chmod(file.name, 0o644)  # a temporary file is private to its writer, but these files are for the team
