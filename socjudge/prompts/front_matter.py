"""Read and write the block at the head of a saved prompt's file. It says where the prompt comes from.

The block consists of plain `key: value` lines between two lines that have only `---`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_RULE = "---"
_LINE = re.compile(r"([a-z0-9_]+):(?: (.*))?")
_REQUIRED = ("parent", "sha256")  # without these keys, it is a text that begins with a horizontal rule


def with_front_matter(values: Mapping[str, str], text: str) -> str:
    """Return the text below a block with one line for each of the values. Keys must be lower-case ASCII words."""
    lines = [f"{key}: {_escaped(value)}".rstrip(" ") for key, value in values.items()]
    return "\n".join([_RULE, *lines, _RULE, text])


def split_front_matter(content: str) -> tuple[dict[str, str], str]:
    """Return the values of the block at the head of a file's content, and the text below the block.
    Without a block that has at least the keys parent and sha256, return {} and the whole content."""
    first, *lines = content.split("\n")
    if first != _RULE or _RULE not in lines:
        return {}, content
    end = lines.index(_RULE)
    found = [_LINE.fullmatch(line) for line in lines[:end]]
    values = {match[1]: _unescaped(match[2] or "") for match in found if match}
    if not all(found) or any(key not in values for key in _REQUIRED):
        return {}, content
    return values, "\n".join(lines[end + 1 :])


def _escaped(value: str) -> str:
    """Escape as in JSON, and also surrogates and what some editors treat as the end of a line."""
    text = json.dumps(value, ensure_ascii=False)[1:-1]
    return re.sub("[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _unescaped(value: str) -> str:
    try:
        return str(json.loads(f'"{value}"', strict=False))
    except ValueError:  # somebody wrote the line by hand
        return value
