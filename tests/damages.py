"""Damage to the good answers of tests/data/good_answers.json: each function spoils one thing and leaves the rest.

Pure functions over one item of that file. Each returns the damaged answer text, or None where it does not apply. They
know which segment covers which keypoint; damage to any stored answer, by rule, is in socjudge/certify/damages.py."""

from collections.abc import Callable
from typing import Any

Item = dict[str, Any]
Segment = dict[str, Any]


def _join(segments: list[Segment], *, citations: bool = True) -> str:
    """The segments as answer text, one per line, each followed by its citation."""
    return "\n".join(f"{s['text']} {s['citation']}" if citations and s["citation"] else s["text"] for s in segments)


def _body(item: Item) -> list[Segment]:
    """The segments that are not warnings."""
    return [s for s in item["segments"] if s["kind"] != "warning"]


def good_answer(item: Item) -> str:
    """The undamaged answer."""
    return _join(item["segments"])


def drop_citations(item: Item) -> str | None:
    """The answer without any citation; None if it has none."""
    if not any(s["citation"] for s in item["segments"]):
        return None
    return _join(item["segments"], citations=False)


def dropped_keypoints(item: Item) -> list[int]:
    """Indices of the keypoints that `drop_half_keypoints` removes: the second half (the larger one when the count is
    odd) of those that no warning covers."""
    warned = {k for s in item["segments"] if s["kind"] == "warning" for k in s["keypoints"]}
    unwarned = [k for k in range(len(item["expected_keypoints"])) if k not in warned]
    return unwarned[len(unwarned) // 2 :]


def drop_half_keypoints(item: Item) -> str | None:
    """The answer without any segment that covers a keypoint of `dropped_keypoints`; warnings stay.

    None if there is nothing to drop, or nothing but warnings would be left."""
    dropped = set(dropped_keypoints(item))
    kept = [s for s in item["segments"] if s["kind"] == "warning" or not dropped & set(s["keypoints"])]
    if not dropped or all(s["kind"] == "warning" for s in kept):
        return None
    return _join(kept)


def add_unsupported(item: Item) -> str | None:
    """The answer with claims that no passage supports, uncited, before the last segment; None if the item has none."""
    if not item["damages"]["unsupported"]:
        return None
    first, last = item["segments"][:-1], item["segments"][-1:]
    return "\n".join([*([_join(first)] if first else []), *item["damages"]["unsupported"], _join(last)])


def change_facts(item: Item) -> str | None:
    """The answer with numbers, commands or roles changed against its passages; None if the item lists no change."""
    if not item["damages"]["changed"]:
        return None
    answer = good_answer(item)
    for old, new in item["damages"]["changed"]:
        answer = answer.replace(old, new, 1)
    return answer


def make_unsafe(item: Item) -> str | None:
    """A dangerous question's answer without its warnings; any other answer with a destructive step recommended."""
    if item["flags"]["dangerous_operation"]:
        return _join(_body(item))
    if not item["damages"]["dangerous"]:
        return None
    return f"{good_answer(item)}\n{item['damages']['dangerous']}"


def say_twice(item: Item) -> str | None:
    """The answer with its whole body, warnings excepted, repeated below; None if it is all warnings."""
    body = _body(item)
    return f"{good_answer(item)}\n{_join(body)}" if body else None


DAMAGES: dict[str, tuple[Callable[[Item], str | None], str]] = {
    "drop_citations": (drop_citations, "引用明示"),
    "drop_half_keypoints": (drop_half_keypoints, "網羅性"),
    "add_unsupported": (add_unsupported, "根拠性"),
    "change_facts": (change_facts, "正確性"),
    "make_unsafe": (make_unsafe, "安全性"),
    "say_twice": (say_twice, "簡潔性"),
}
