"""Turn the answers of your own assistant into records. The answers come from a function, a service or a file."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.messages import listed
from ..base.redact import redact
from ..base.showing import one_line
from ..base.texts import encodable
from ..errors import ConfigError, NoAnswer
from ..records import UNKNOWN, AssistantAnswer, Flags, Passage, Usage
from .citations import citable, format_context, numbered_name

KEYS = (
    "answer", "error", "contexts", "flags", "model", "version", "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip
_OF_CONTEXT = ("text", "source", "heading")
_FLAGS = tuple(Flags.__dataclass_fields__)
# The names under which LangChain's chains return the answer and its sources.
_ANSWERS = ("answer", "output", "result", "output_text", "text")
_SOURCES = ("contexts", "context", "source_documents", "documents")


def as_answer(given: str | Mapping[str, Any] | AssistantAnswer, *, question: str = "") -> AssistantAnswer:
    """Turn an answer of your own assistant into an AssistantAnswer. `Assistant` lists the keys that a dict may have.
    ConfigError if a key is unknown, the answer is missing or a value is of the wrong type. NoAnswer for an `error`."""
    if isinstance(given, AssistantAnswer):
        return given
    if isinstance(given, str):
        return AssistantAnswer(encodable(question), encodable(given))
    if not isinstance(given, Mapping):
        raise ConfigError(
            "an answer must be a text or a dict with answer, not {kind}; its keys may be {keys}",
            kind=type(given).__name__,
            keys=", ".join(KEYS),
        )
    if unknown := [str(key) for key in given if key not in KEYS]:
        near = difflib.get_close_matches(unknown[0], KEYS, n=1)
        raise ConfigError(
            "the answer's dict has keys that are not known: {found}; did you mean {near}? Known are {keys}",
            found=listed(unknown),
            near=near[0] if near else KEYS[0],
            keys=", ".join(KEYS),
        )
    if given.get("error"):
        raise NoAnswer("the assistant reports an error: {said}", said=one_line(redact(str(given["error"])), 300))
    if not isinstance(given.get("answer"), str):
        raise ConfigError(
            "the answer's dict has no answer that is a text, only {keys}; where there is none, give the reason "
            "as error",
            keys=", ".join(map(str, given)) or "{}",
        )
    passages = _passages(given.get("contexts"))
    tokens_in, tokens_out, cost_usd = (
        _number(name, given.get(name)) for name in ("input_tokens", "output_tokens", "cost_usd")
    )
    return AssistantAnswer(
        question=encodable(question),
        answer=encodable(given["answer"]),
        context=format_context(passages),
        passages=passages,
        flags=_flags(given.get("flags")),
        model=_text("model", given.get("model")) or UNKNOWN,
        version=_text("version", given.get("version")),
        usage=Usage(1, int(tokens_in or 0), int(tokens_out or 0), cost_usd),
    )


def from_runnable(given: Any) -> Any:
    """Return the output of a LangChain chain in a form that `as_answer` accepts."""
    if isinstance(content := getattr(given, "content", None), list):
        return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
    if isinstance(content, str):
        return content
    if not isinstance(given, Mapping) or set(given) <= set(KEYS):
        return given
    answer = next((given[key] for key in _ANSWERS if key in given), None)
    contexts = next((given[key] for key in _SOURCES if key in given), None)
    return {"answer": from_runnable(answer), "contexts": contexts}


def _passages(given: Any) -> tuple[Passage, ...]:
    if given is None:
        return ()
    items = [given] if isinstance(given, str | Mapping) else given
    if not isinstance(items, Sequence):
        raise ConfigError(
            'contexts must be a list, not {kind}, such as ["text", {{"text": "text", "source": "runbook.md"}}]',
            kind=type(given).__name__,
        )
    return tuple(_passage(item, k, len(items)) for k, item in enumerate(items, 1))


def _passage(item: Any, k: int, count: int) -> Passage:
    if hasattr(item, "page_content"):  # a LangChain document
        item = {"text": item.page_content, "source": (getattr(item, "metadata", None) or {}).get("source")}
    parts = {"text": item} if isinstance(item, str) else item
    if not isinstance(parts, Mapping) or not isinstance(parts.get("text"), str) or set(parts) - set(_OF_CONTEXT):
        raise ConfigError(
            "contexts: number {place} is neither a text nor a dict of text, source and heading: {found}",
            place=k,
            found=one_line(redact(repr(item))),
        )
    text, source, heading = (encodable(str(parts.get(name) or "")).strip() for name in _OF_CONTEXT)
    return Passage(text, citable(source).replace(">", "›") or numbered_name(k, count), citable(heading))


def _flags(given: Any) -> Flags:
    if given is None:
        return Flags()
    names = dict.fromkeys(given, True) if isinstance(given, list | tuple | set) else given
    if (
        not isinstance(names, Mapping)
        or set(names) - set(_FLAGS)
        or not all(isinstance(value, bool) for value in names.values())
    ):
        raise ConfigError(
            "flags must be a dict of true or false for {known}, not {found}",
            found=one_line(redact(repr(given))),
            known=", ".join(_FLAGS),
        )
    return Flags(**names)


def _text(name: str, given: Any) -> str:
    if given is None or isinstance(given, str | int | float):
        return "" if given is None else encodable(str(given))
    raise ConfigError("the answer's {name} cannot be read: {found}", name=name, found=one_line(redact(repr(given))))


def _number(name: str, given: Any) -> float | None:
    if given is None or given == "":
        return None
    try:
        number = math.nan if isinstance(given, bool) else float(given)  # some services send numbers as text
    except (TypeError, ValueError):
        number = math.nan
    if 0 <= number < math.inf:
        return number
    raise ConfigError("the answer's {name} cannot be read: {found}", name=name, found=one_line(redact(repr(given))))
