"""Read an answer from the event stream of a service. It may come in pieces, as a text that grows, or be replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..base.messages import say
from ..base.redact import redact
from ..base.showing import one_line
from ..errors import NoAnswer

Steps = Sequence[str | int]  # of a path in a reply; "*" is every item of a list

_KINDS = ("event", "type", "op", "action", "kind")  # the keys by which events say what they are
_ALIKE = {"message", "agent_message"}  # Dify: both carry pieces of the answer
# Words in the kind of an event, or in the name of a key that is true.
_REPLACES = {"replace", "replaced", "replacement", "overwrite", "rewrite", "revise", "revised", "supersede", "override"}
_CHANGES = _REPLACES | {
    "retract", "retracted", "revoke", "revoked", "withdraw", "withdrawn", "reset", "clear", "undo", "delete", "deleted",
    "remove", "removed", "edit", "edited", "correction", "corrected", "moderation", "moderated", "blocked", "filtered",
}  # fmt: skip
_STARTS = {"start", "started", "begin", "created"}
_ENDS = {"end", "done", "stop", "finish", "finished", "complete", "completed", "final", "eos"}
_FAILS = {"error", "failed", "failure", "aborted", "cancelled", "canceled", "incomplete", "interrupted", "timeout"}
# of the whole answer, and not of a step, such as a tool
_OF_ALL = {"response", "message", "chat", "stream", "run", "workflow", "agent", "event"}
# why an answer ended before its end
_CUTS = {"filter", "filtered", "safety", "blocked", "length", "max", "limit", "error", "timeout", "recitation"}
_END_MARK = re.compile(r"(?i:[\[<](?:done|end|eos|stop)[\]>])|DONE|END")  # as data, in place of JSON


class Event(NamedTuple):
    """Hold one event of a stream, or a whole reply, which has no name."""

    name: str  # its field `event`
    value: Any  # its data: JSON, or text


def read_events(text: str) -> Iterator[Event]:
    """Yield the events of a stream. NoAnswer if the JSON of one is broken."""
    name, data = "", list[str]()
    for line in [*re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff")), ""]:
        field, _, content = line.partition(":")
        if not line and (name or data):
            yield Event(name, _value("\n".join(data)))
            name, data = "", []
        elif field == "event":
            name = content.strip()
        elif field == "data":
            data.append(content.removeprefix(" "))


def read_lines(text: str) -> Iterator[Event]:
    """Yield the values of JSON lines (NDJSON). NoAnswer if one is broken."""
    for line in text.split("\n"):
        if line.strip():
            yield Event("", _value(line.strip("\r ")))


def check_end(value: Any, steps: Steps) -> None:
    """Raise NoAnswer if a reply or an event says that the answer was cut off, as by a filter or a limit."""
    for at in _along(value, steps):
        for key, reason in at.items():
            if isinstance(reason, str) and _says_end(key) and _words(reason) & _CUTS:
                raise NoAnswer(
                    "the reply stopped before its end ({reason}); ask again, or see what the service says in its log",
                    reason=one_line(reason, 60),
                )


def _value(data: str) -> Any:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        if data.lstrip().startswith("{"):
            raise NoAnswer("the reply is broken JSON ({found})", found=one_line(redact(data), 120)) from None
        return data
    return found if isinstance(found, Mapping | list | str) else data


def follow(data: Any, steps: Steps) -> Any:
    """Return the value to which a path leads, or None. After "*" it is a list, with None for an item without a value."""
    for i, step in enumerate(steps):
        if step == "*":
            return [follow(item, steps[i + 1 :]) for item in data] if isinstance(data, list) else None
        if isinstance(step, int):
            data = data[step] if isinstance(data, list) and step < len(data) else None
        else:
            data = data.get(step) if isinstance(data, Mapping) else None
    return data


def answer_in(events: Sequence[Event], steps: Steps, *, only: Collection[str], must_end: bool) -> str | None:
    """Return the answer in a stream, or None if there is none. Events that add a text must be of one kind, or of `only`.
    With `must_end`, a stream without an end mark is not whole. NoAnswer if it is not clear what the answer is."""
    pieces, kinds, has_ended = list[str](), list[str](), False
    for event in events:
        kind, words, ends = _told(event, steps)
        value, text = event.value, follow(event.value, steps)
        is_mark = isinstance(value, str) and bool(_END_MARK.fullmatch(value))
        if words & _FAILS and words <= _FAILS | _OF_ALL:
            said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            raise NoAnswer("the assistant reports an error: {said}", said=one_line(redact(said), 200))
        check_end(value, steps)
        must_end |= bool(words & _STARTS) or ends is not None
        has_ended |= bool(words & _ENDS) or bool(ends) or is_mark
        if is_mark:
            continue
        if words & _REPLACES and isinstance(text, str):
            pieces = [text]
        elif only and not {kind, *kind.split()} & set(only):
            continue
        elif words & _CHANGES and pieces and not only:
            raise NoAnswer(
                "an event of the kind {kind} may change what was said before, and it is not clear how; say with events "
                "which kinds of events the answer is made of",
                kind=one_line(kind),
            )
        elif isinstance(text, str) and text:
            is_whole = text.strip() == "".join(pieces).strip() and (len(pieces) > 1 or kind not in kinds)
            pieces = [text] if is_whole else [*pieces, text]
            kinds += [] if is_whole else [kind]
    if must_end and not has_ended:
        raise NoAnswer(
            "the reply stopped before its end ({reason}); ask again, or see what the service says in its log",
            reason=say("no end mark"),
        )
    grows = len(pieces) > 1 and len(pieces[-1]) > max(5, len(pieces[0]))
    if grows and all(after.startswith(before) for before, after in pairwise(pieces)):
        return pieces[-1]  # each event has the text so far
    if not only and len(set(kinds)) > 1 and not set(kinds) <= _ALIKE:
        raise NoAnswer(
            "the reply has texts in events of several kinds ({kinds}), and it is not clear which are the answer; say with "
            'events which are, such as events = ["{kind}"]',
            kinds=", ".join(dict.fromkeys(kinds)),
            kind=kinds[0],
        )
    return "".join(pieces) if pieces else None


def _told(event: Event, steps: Steps) -> tuple[str, set[str], bool | None]:
    """Return what an event says of itself on the way to the answer: its kind, the words of its kind and of what is
    true, and whether it is the last one (None if events do not say this)."""
    names, true, ends = [event.name], set[str](), None
    for at in _along(event.value, steps):
        names += [at[key] for key in _KINDS if isinstance(at.get(key), str)]
        true |= {word for key, value in at.items() if value is True for word in _words(key)}
        for key in filter(_says_end, at):
            ends = bool(ends or at[key])
    value = event.value if isinstance(event.value, Mapping) else {}
    if "choices" in value or ("task_id" in value and value.get("event") in _ALIKE):  # OpenAI and Dify mark their end
        ends = bool(ends)
    names = list(dict.fromkeys(name for name in names if name))
    return " ".join(names), true.union(*map(_words, names)), ends


def _along(value: Any, steps: Steps) -> Iterator[Mapping[str, Any]]:
    for n in range(len(steps) + 1):
        at = follow(value, steps[:n])
        if isinstance(at, Mapping):
            yield at


def _says_end(key: str) -> bool:
    return bool(_words(key) & _ENDS) and _words(key) <= _ENDS | {"is", "reason"}


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower()))
