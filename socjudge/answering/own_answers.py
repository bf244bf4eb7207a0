"""Turn the answers of your own assistant into records. The answers come from a function, a service or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from ..base.redact import redact
from ..base.showing import one_line
from ..base.texts import encodable
from ..errors import ConfigError, NoAnswer
from ..records import UNKNOWN, AssistantAnswer, Flags, Passage, Usage
from .citations import citable, format_context, numbered_name

# The names under which LangChain's chains return the answer and its sources.
_ANSWERS = ("answer", "output", "result", "output_text", "text")
_SOURCES = ("contexts", "context", "source_documents", "documents")
_Text = str | int | float | None
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Context(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    source: _Text = None
    heading: _Text = None


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    answer: str
    error: Any = None
    contexts: list[str | _Context] | _Context | str | None = None
    flags: dict[Literal["insufficient_evidence", "dangerous_operation", "ambiguous_query"], bool] | None = None
    model: _Text = None
    version: _Text = None
    input_tokens: _Amount | None = None
    output_tokens: _Amount | None = None
    cost_usd: _Amount | None = None


KEYS = _Reply.__struct_fields__


def as_answer(given: str | Mapping[str, Any] | AssistantAnswer, *, question: str = "") -> AssistantAnswer:
    """Turn an answer of your own assistant into an AssistantAnswer. `Assistant` lists the keys that a dict may have.
    ConfigError if a key is unknown, the answer is missing or a value is of the wrong type. NoAnswer for an `error`."""
    if isinstance(given, AssistantAnswer):
        return given
    if isinstance(given, str):
        return AssistantAnswer(encodable(question), encodable(given))
    if isinstance(given, Mapping):
        if given.get("error"):
            raise NoAnswer("the assistant reports an error: {said}", said=one_line(redact(str(given["error"])), 300))
        contexts = given.get("contexts")
        if isinstance(contexts, list | tuple):
            given = {**given, "contexts": [*map(_without_document, contexts)]}
    try:
        reply = msgspec.convert(given, _Reply, strict=False)  # some services send numbers as text
    except msgspec.ValidationError as error:
        raise ConfigError(
            "the answer cannot be used ({reason}); give a text, or a dict with answer, whose keys may be {keys}; where there "
            "is no answer, give the reason as error",
            reason=redact(str(error)),
            keys=", ".join(KEYS),
        ) from None
    contexts = reply.contexts or []
    items = contexts if isinstance(contexts, list) else [contexts]
    passages = tuple(_passage(item, k, len(items)) for k, item in enumerate(items, 1))
    return AssistantAnswer(
        question=encodable(question),
        answer=encodable(reply.answer),
        context=format_context(passages),
        passages=passages,
        flags=Flags(**(reply.flags or {})),
        model=_text(reply.model) or UNKNOWN,
        version=_text(reply.version),
        usage=Usage(1, int(reply.input_tokens or 0), int(reply.output_tokens or 0), reply.cost_usd),
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


def _without_document(item: Any) -> Any:
    """LangChain returns its passages as documents."""
    if not hasattr(item, "page_content"):
        return item
    source = (getattr(item, "metadata", None) or {}).get("source")
    return {"text": item.page_content, "source": None if source is None else str(source)}


def _passage(item: str | _Context, k: int, count: int) -> Passage:
    part = _Context(item) if isinstance(item, str) else item
    source = citable(_text(part.source).strip()).replace(">", "›") or numbered_name(k, count)
    return Passage(encodable(part.text).strip(), source, citable(_text(part.heading).strip()))


def _text(value: _Text) -> str:
    return "" if value is None else encodable(str(value))
