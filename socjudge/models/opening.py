"""Turn a model's name, or an object, into a `Model` that completes requests: `open_model`."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Literal
from urllib.request import getproxies

from ..base.messages import aside, say
from ..base.redact import redact, show_url
from ..base.texts import visible
from ..errors import ConfigError
from ..settings import open_project
from .decision_model import DecisionModel, split_name
from .endings import MAKER
from .langchain_model import LangChainModel, init_langchain_model
from .openai_model import OpenAIModel
from .own_object import ForeignModel
from .pacing import Model as Model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

OFFLINE = "offline"
Task = Literal["answer", "judge"]


def open_model(model: str | BaseChatModel | Model = "auto", *, task: Task = "judge") -> Model:
    """Return a model ready to be called. Nothing is sent yet. ConfigError if a key or a package is missing."""
    if not isinstance(model, str):
        return _open_object(model)
    if model == "auto":
        model = resolve_auto(task)
    if " > " in model or model.startswith(("http://", "https://")):
        raise _no_model(show_url(model) if "://" in model else model)
    if model == OFFLINE:
        from .offline import OfflineModel

        return OfflineModel()
    levels, name = split_name(model) or (0, model)
    prefix, colon, rest = name.partition(":")
    if colon and not levels and (chat_model := init_langchain_model(prefix, rest)) is not None:
        return LangChainModel(chat_model, model)
    return _connected(name, levels, *_key_and_url(), tuple(sorted(getproxies().items())))


def _key_and_url() -> tuple[str, str]:
    return os.environ.get("OPENAI_API_KEY", "").strip(), os.environ.get("OPENAI_BASE_URL", "").strip()


def _open_object(model: object) -> Model:
    if isinstance(model, Model):  # already open
        return model
    if hasattr(model, "complete") and not isinstance(model, type):  # an object of your own
        return ForeignModel(model)
    if hasattr(model, "invoke") and not isinstance(model, type):
        return LangChainModel(model)
    raise _no_model(getattr(model, "__name__", type(model).__name__))  # its repr may show a key


def _no_model(found: str) -> ConfigError:
    return ConfigError(
        "{found} is no model; pass a name such as 'offline', a LangChain chat model, or an object with a method "
        "`complete(request)`. What answers by itself is given as answers= (--answers); several judges judge one after "
        "the other, a second one only near the line (docs/reference.md#several-judges-under-one-cap, "
        "#judge-again-near-the-line)",
        found=found,
    )


def resolve_auto(task: Task) -> str:
    """Return the model that "auto" means. If socjudge.toml names none, stderr shows once which one was chosen."""
    default, is_named = open_project().default_model(task)
    model = default if is_named or any(_key_and_url()) else OFFLINE
    if not is_named:
        _announce(model)
    return model


@functools.cache  # once per process and choice
def _announce(model: str) -> None:
    told = "socjudge: model 'auto' is '{model}', because no OPENAI_API_KEY or OPENAI_BASE_URL is set; it is no LLM"
    if model != OFFLINE:
        told = "socjudge: model 'auto' is '{model}', because OPENAI_API_KEY or OPENAI_BASE_URL is set; calls may cost money"
    print(say(told, model=model), file=aside())


def list_models() -> list[str]:
    """Return the names that the service lists. ConfigError if it gives no list within two seconds."""
    import openai

    key, url = _key_and_url()
    try:
        with openai.OpenAI(api_key=key or "none", base_url=url or None, max_retries=0, timeout=2.0) as client:
            return sorted({visible(str(model.id)) for model in client.models.list().data})
    except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            "{where} gives no list of its models ({reason}); type the name",
            where=show_url(url) if url else MAKER,
            reason=redact(visible(str(error)))[:200],
        ) from None


# A model is opened once for each name, key, address and way there, so that calls share connections.
@functools.lru_cache(maxsize=16)
def _connected(name: str, levels: int, key: str, base_url: str, proxies: tuple[tuple[str, str], ...]) -> OpenAIModel:
    if levels:
        return DecisionModel(name, levels, api_key=key, base_url=base_url)
    return OpenAIModel(name, api_key=key, base_url=base_url)
