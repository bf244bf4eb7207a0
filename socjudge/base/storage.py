"""Find the files that users name, and read them."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from ..errors import ConfigError
from .messages import say

# At least two letters, because C:\logs is a folder. Path makes s3:/ of s3://.
_URL = re.compile(r"([A-Za-z][\w+.-]+):[/\\]")


def as_path(place: Path | str) -> Path:
    """Return the path of a folder of logs, or of a log. Raises ConfigError for a URL."""
    if scheme := _URL.match(str(place)):
        raise ConfigError(
            "{scheme}://…: logs are kept in a folder, not at a URL; mount or synchronise the bucket as a "
            "folder of this machine, and name that folder",
            scheme=scheme[1],
        )  # the rest of it may hold a password
    return Path(place)


def load_bytes(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a file, or its first `most` bytes. Raises OSError for a pipe or a device, because reading
    from it may wait for ever."""
    with open(path, "rb", buffering=0 if most < 0 else -1, opener=_open_file) as file:  # read at once
        return file.read(most)


def _open_file(path: str, flags: int) -> int:
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise OSError(errno.EINVAL, say("it is no regular file (a pipe or a device)"), path)
