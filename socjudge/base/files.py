"""Find the files that users name, and read those that a person wrote by hand. An error says which line is not valid."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .messages import say
from .texts import visible

# At least two letters, because C:\logs is a folder. Path makes s3:/ of s3://.
_URL = re.compile(r"([A-Za-z][\w+.-]+):[/\\]")
# What only a wrong encoding leaves in a text: U+0000 of UTF-16 or UTF-32, or the escape sequences of ISO-2022-JP
_UNDECODED = re.compile(r"\0|\x1b\$[@B(]")
_NEAR = 30  # characters of a line that are shown


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
