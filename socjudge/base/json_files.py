"""Read a JSON file that a person wrote by hand, as UTF-8. An error says in which line the file is not valid, and why."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .messages import say
from .texts import visible

if TYPE_CHECKING:
    import json

_UNDECODED = re.compile(r"\0|\x1b\$[@B(]")
UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff")  # the byte order marks
NEAR = 30  # characters of a line that are shown
_QUOTES = "“”„‟＂「」‘’＇"
# A part of the parser's message, and our message for it.
_CAUSES = (
    ("',' delimiter", "a comma is missing after the item before it"),
    ("':' delimiter", "a colon is missing after the name of the field"),
    ("property name", "put the name of the field in double quotes"),
    ("Unterminated", "the text is not closed by a double quote"),
    ("Extra data", "something stands behind the end of the whole; count the brackets"),
    ("control character", "a text cannot go on in the next line; write \\n, or close the quote of the line before"),
    ("escape", "write \\ as \\\\"),
    ("trailing comma", "remove the comma before the closing bracket"),
)


def read_json(raw: bytes | str, *, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the contents of a JSON file. Raises ValueError if it is not valid, with the number of the faulty line, the
    text there, and how to correct it."""
    import json

    text = raw if isinstance(raw, str) else decoded(raw)
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except json.JSONDecodeError as error:
        raise ValueError(_syntax_reason(error)) from None
    except RecursionError:
        raise ValueError(say("brackets are nested too deeply")) from None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice, because the json module would keep the second value and say nothing."""
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(
            say("an item gives {fields} twice: {item}", fields=", ".join(sorted(twice)), item=f"{dict(pairs)!r:.80}")
        )
    return dict(pairs)


def decoded(raw: bytes) -> str:
    """Return the text of a file that should be UTF-8. Raises ValueError with the number of the first line that is not,
    and the encoding that the file seems to have."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(_encoding_reason(raw, error)) from None
    return plainly_decoded(text)


def plainly_decoded(text: str) -> str:
    """Return a text. Raises ValueError if it has what only a wrong encoding leaves in it: U+0000 of UTF-16 or UTF-32, or
    the escape sequences of ISO-2022-JP."""
    if (found := _UNDECODED.search(text)) is None:
        return text
    line, encoding = text[: found.start()].count("\n") + 1, "UTF-16" if found[0] == "\0" else "ISO-2022-JP"
    raise ValueError(
        say("it seems to be saved as {encoding} (line {line}); save it as UTF-8", line=line, encoding=encoding)
    )


def _encoding_reason(raw: bytes, error: UnicodeDecodeError) -> str:
    line = raw[: error.start].count(b"\n") + 1
    name, encoding = ("UTF-16", "utf-16") if UTF_16.match(raw) or b"\0" in raw else ("Shift_JIS", "cp932")
    with contextlib.suppress(UnicodeDecodeError):
        raw.decode(encoding)
        return say("it seems to be saved as {encoding} (line {line}); save it as UTF-8", line=line, encoding=name)
    return say("line {line} is not UTF-8; save the file as UTF-8", line=line)


def _syntax_reason(error: json.JSONDecodeError) -> str:
    at = error.doc[error.pos : error.pos + 1]
    before = error.doc[: error.pos].rstrip()
    key = next(
        (key for part, key in _CAUSES if part in error.msg), "a value is missing here; texts stand in double quotes"
    )
    if at and at in _QUOTES:
        key = "use plain double quotes"
    elif at and at in "]}" and before.endswith(","):
        key = "remove the comma before the closing bracket"
    elif not error.doc.strip():
        key = "the file is empty"
    lines = error.doc.splitlines() or [""]
    line = lines[min(error.lineno, len(lines)) - 1]
    start = max(0, error.colno - 1 - NEAR // 2)
    near = visible(line[start : start + NEAR].strip())
    return say(
        "line {line}, character {column}, '{near}': {cause}",
        line=error.lineno,
        column=error.colno,
        near=near,
        cause=say(key),
    )
