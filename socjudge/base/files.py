"""Read the files that users name, and write files so that readers never see half of one.

An error says which line is not valid. A new file first gets a temporary name in its final folder. It gets its final name
when it is complete on the disk. Appended lines of two writers do not mix.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from .. import constants
from ..errors import ConfigError
from .messages import explained, say
from .texts import visible

# At least two letters, because C:\logs is a folder. Path makes s3:/ of s3://.
_URL = re.compile(r"([A-Za-z][\w+.-]+):[/\\]")
# What only a wrong encoding leaves in a text: U+0000 of UTF-16 or UTF-32, or the escape sequences of ISO-2022-JP
_UNDECODED = re.compile(r"\0|\x1b\$[@B(]")
_NEAR = 30  # characters of a line that are shown
# Errors of os.link on drives without hard links: exFAT, many network drives, and Windows with either.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}


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
    """The bytes of a file, or its first `most`. OSError for a pipe or a device: reading one may wait for ever."""
    with open(path, "rb", buffering=0 if most < 0 else -1, opener=_open_file) as file:  # read at once
        return file.read(most)


def _open_file(path: str, flags: int) -> int:
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise OSError(errno.EINVAL, say("it is no regular file (a pipe or a device)"), path)


def read_json(raw: bytes | str) -> Any:
    """The contents of a JSON file. ValueError with the faulty line, the text there, and what to look for."""
    import json

    text = raw if isinstance(raw, str) else decoded(raw)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        line = (text.split("\n") or [""])[error.lineno - 1]
        start = max(0, error.colno - 1 - _NEAR // 2)
        told = say(
            "line {line}, character {column}, '{near}': this is not JSON; look there or just before for a comma, colon, "
            "bracket or double quote that is missing or too many",
            line=error.lineno,
            column=error.colno,
            near=visible(line[start : start + _NEAR].strip()),
        )
        raise ValueError(told) from None
    except RecursionError:
        raise ValueError(say("brackets are nested too deeply")) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice, because the json module would keep the second value and say nothing."""
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(
            say("an item gives {fields} twice: {item}", fields=", ".join(sorted(twice)), item=f"{dict(pairs)!r:.80}")
        )
    return dict(pairs)


def decoded(raw: bytes, *, is_table: bool = False) -> str:
    """Return the text of a file in UTF-8; a table may also be in UTF-16 with a byte order mark, or in cp932, the encoding
    of Excel's CSV files in Japan. Raises ValueError with the number of the first line that is not."""
    encodings: tuple[str, ...] = ("utf-8-sig", "cp932") if is_table else ("utf-8-sig",)
    if is_table and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # cp932 would make other letters of it
        encodings = ("utf-16",)
    lines = []
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
            if not (found := _UNDECODED.search(text)):
                return text
            before = text[: found.start()].encode()
        except UnicodeDecodeError as error:
            before = raw[: error.start]
        lines.append(before.count(b"\n") + 1)
    raise ValueError(
        say(
            "line {line} is not UTF-8 (it may be Shift_JIS, UTF-16 or ISO-2022-JP); save the file as UTF-8",
            line=lines[0],
        )
    )


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


def checked_page(path: Path | str, mark: bytes) -> Path:
    """Return the path of a page that may be written: no file is there, or an empty one, or one with our mark.
    Raises ConfigError if there is another file, or if the folder is missing."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ConfigError(
            "{path}: there is no folder {folder} to put the report in; make it first", path=path, folder=path.parent
        )
    if path.is_dir():
        raise ConfigError(
            "{path}: is a folder; give the report a name, such as {example}", path=path, example=path / "report.html"
        )
    words = "{path}: a file is there, but it cannot be read ({reason}); give the report another name"
    with explained(words, path=path):
        content = path.read_bytes() if path.is_file() else b""
    if content and mark not in content[:4096] + content[-4096:]:  # a page may quote another one
        raise ConfigError(
            "{path}: is there already and was not written by socjudge; give another name, or remove it", path=path
        )
    return path


def write_page(path: Path, text: str) -> None:
    words = "{path}: the report cannot be written ({reason}); remove the cause or take another folder, then try again"
    with explained(words, path=path), replacing(path) as file:
        file.write(text.encode())
