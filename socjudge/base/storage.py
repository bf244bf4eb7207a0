"""Read and write logs, through fsspec. The logs are in a folder, or in an object store with a URL (`s3://bucket/logs`).

Every error of an object store is raised as an OSError, so that callers can treat the store like a disk. The error's
`strerror` says what to do, and contains no secrets.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigError
from .messages import explained, say
from .redact import redact, show_url

_URL = re.compile(r"[A-Za-z][\w+.-]+://")  # at least two letters, because C:\logs is a folder
_URL_AS_PATH = re.compile(r"[A-Za-z][\w+.-]+:[/\\]")
# A secret may contain "/", so the host need not end at the first one.
_WITH_PASSWORD = re.compile(r"[^/@]*:.*@", re.DOTALL)


def as_path(place: Path | str) -> Path:
    """Return a Path for a local folder or file, also for a file:// URL. For any other URL, return a UPath, which works
    like a Path.

    Raises ConfigError for an unknown kind of URL, and for a URL that contains a password or a query. Messages show
    URLs, so they must not contain secrets.
    """
    if isinstance(place, str | Path):
        place = str(place)
        if not (scheme := _URL.match(place)):
            if scheme := _URL_AS_PATH.match(place):
                raise ConfigError(say("base.url_as_path", scheme=scheme[0]))
            return Path(place)
        if _WITH_PASSWORD.match(place, scheme.end()):
            raise ConfigError(say("base.url_password", scheme=scheme[0], credentials=say("base.credentials")))
        if "?" in place:
            raise ConfigError(say("base.url_query", url=show_url(place)))
        from upath import UPath

        try:
            place = cast(Path, UPath(place))
        except ValueError as error:
            raise ConfigError(say("base.url_unknown", scheme=scheme[0], error=error)) from None
    store: Any = place
    return Path(store.path) if store.protocol in ("", "file", "local") else store


def is_remote(path: Path) -> bool:
    """Return whether a path that `as_path` returned is in an object store."""
    return not isinstance(path, Path)


def check_place(place: Path) -> None:
    """Raise ConfigError if no log can be written to this object store. The check writes nothing and costs no money.

    A local folder is not checked here. If it cannot be used, the run's journal fails at once.
    """
    if not is_remote(place):
        return
    with explained("base.no_log_there", place=place), _in_words(place):
        store, key = _open(place / "judge_eval_check.json", to_write=True)
        if "s3" in store.protocol:
            # Needs the same rights as a log, but not the right to list. If given up, nothing is left behind.
            bucket, key, _ = store.split_path(key)
            upload = store.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
            with contextlib.suppress(PermissionError):
                store.abort_mpu(bucket, key, upload["UploadId"])
        else:
            store.exists(key)


def load_bytes(path: Path, start: int = 0, end: int | None = None) -> bytes:
    """Return the bytes of a file or object, from position `start` up to, but not including, position `end`.

    If `end` is left out, the bytes up to the end of the file are returned.
    """
    if not is_remote(path):
        with open(path, "rb", buffering=0 if end is None else -1, opener=_open_file) as file:  # read at once
            if start:
                file.seek(start)
            return file.read(-1 if end is None else end - start)
    with _in_words(path):
        store, key = _open(path)
        return cast(bytes, store.cat_file(key, start=start or None, end=end))


def _open_file(path: str, flags: int) -> int:
    """Open a file, as `os.open` does. Raises OSError for a pipe or a device, because reading from it may wait for ever."""
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise OSError(errno.EINVAL, say("base.no_file"), path)


def load_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder or under a URL. Return [] if the folder does not exist."""
    if not is_remote(folder):
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []
    with _in_words(folder):
        store, key = _open(folder)
        try:
            found = store.ls(key, detail=False)
        except FileNotFoundError as error:
            if error.__cause__ is not None:  # the store's own message: there is no such bucket
                raise
            return []
        return [name.rpartition("/")[2] for name in found]


def write_object(path: Path, file: Path) -> None:
    """Upload the local file `file` as the object `path`. Readers see the whole object or no object.

    Raises FileExistsError if there already is an object of this name.
    """
    with _in_words(path):
        store, key = _open(path, to_write=True)
        with contextlib.suppress(PermissionError):  # the user may be allowed to write, but not to look
            if store.exists(key):
                raise FileExistsError(str(path))
        try:
            store.put_file(str(file), key, mode="create")  # the store refuses if the name was taken meanwhile
        except FileExistsError:
            if not _is_same(store, key, file):
                raise
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            store.put_file(str(file), key)  # this store does not know the condition


def _is_same(store: Any, key: str, file: Path) -> bool:
    """Return whether the object `key` in the store has the same contents as this file.

    If so, we wrote it ourselves: the upload succeeded, its response was lost, and the upload was repeated.
    """
    with contextlib.suppress(PermissionError):
        return bool(store.size(key) == file.stat().st_size and store.cat_file(key) == file.read_bytes())
    return False


def _open(path: Path, *, to_write: bool = False) -> tuple[Any, str]:
    """Return the file system that a remote path belongs to, and the path in the spelling of that file system.

    Raises OSError if `to_write` is true and the path is a web address (http or https).
    """
    remote: Any = path
    if to_write and remote.protocol in ("http", "https"):
        raise OSError(errno.EROFS, say("base.web_read_only"))
    remote.fs.invalidate_cache()  # listings are cached, but other processes write there too
    return remote.fs, remote.path


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except Exception as error:
        with contextlib.suppress(Exception):
            # Sessions are cached by place. A second try with other credentials must not use this one.
            type(cast(Any, path).fs).clear_instance_cache()
        raise OSError(errno.EIO, say("base.store_failed", remedy=_remedy(error), said=_said(error))) from None


def _said(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {redact(' '.join(text.split()))[:300]}"


def _remedy(error: Exception) -> str:
    """Return a text that says what to do about an error of an object store.

    s3fs converts most errors to Python's own classes. Errors of botocore are recognised by the name of their class.
    """
    kind = type(error).__name__
    if isinstance(error, ImportError):
        return say("base.store_no_package")
    if isinstance(error, FileNotFoundError):
        return say("base.store_not_found")
    if isinstance(error, PermissionError) or re.search("Credential|Profile|Token|SSO|Unauthorized", kind):
        return say("base.store_denied", credentials=say("base.credentials"))
    if isinstance(error, TimeoutError | ConnectionError) or re.search("Connect|Timeout|HTTPClient|Proxy|SSL", kind):
        return say("base.store_unreachable")
    return say("base.store_refused")
