"""LangChain chat models behind the model seam: any provider that LangChain knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import background
from .errors import ConfigError, RequestRefused
from .pacing import Account, Retryable, RunGate, send_with_retries
from .prices import most_usd_of, price_usd
from .records import Completion, ModelRequest, Usage
from .redact import redact
from .texts import encodable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def init_langchain_model(provider: str, name: str) -> BaseChatModel | None:
    """The model by LangChain's `init_chat_model`; None where LangChain has no such provider, as for
    "qwen2.5:7b", whose colon belongs to the name."""
    from langchain.chat_models import init_chat_model

    try:
        return init_chat_model(name, model_provider=provider)
    except ValueError as error:
        if "Unsupported" in str(error):
            return None
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {redact(str(error))}") from None
    except ImportError as error:
        raise ConfigError(f"model '{provider}:{name}' needs another package: {error}") from None
    except Exception as error:  # each provider has its own class for "no key"
        raise ConfigError(f"model '{provider}:{name}' cannot be set up: {redact(str(error))}") from None


class LangChainModel:
    """A LangChain chat model, with the parameters it was made with; it retries by its own settings."""

    def __init__(self, chat_model: Any, name: str = "") -> None:
        self._chat_model = chat_model
        found = getattr(chat_model, "model_name", None) or getattr(chat_model, "model", None)
        self.name = name or f"langchain:{found or type(chat_model).__name__}"
        self.service = "langchain"
        self._account = Account()

    def complete(self, request: ModelRequest) -> Completion:
        """The reply; see `providers.Model.complete`."""
        return background.wait(self.complete_async(request))

    async def complete_async(self, request: ModelRequest, run: RunGate | None = None) -> Completion:
        """The reply, as part of a run; for the background loop."""
        return await send_with_retries(
            lambda: background.in_thread(self._send, request),
            what=self.name, account=self._account, run=run, most_usd=lambda: self.most_usd(request),
        )  # fmt: skip

    def most_usd(self, request: ModelRequest) -> float | None:
        """About the most that one call can cost, US dollars: its output limit is its maker's, not ours."""
        return most_usd_of(self.name.rpartition(":")[2], request)

    def _send(self, request: ModelRequest) -> Completion:
        message = self._invoke(request)
        metadata = message.response_metadata or {}
        used = message.usage_metadata or {}
        resolved = str(metadata.get("model_name") or metadata.get("model") or self.name)
        tokens_in, tokens_out = used.get("input_tokens", 0), used.get("output_tokens", 0)
        finish_reason = metadata.get("finish_reason") or metadata.get("stop_reason") or ""
        return Completion(
            text=encodable(str(message.text)),
            model=resolved,
            usage=Usage(1, tokens_in, tokens_out, price_usd(resolved, tokens_in, tokens_out) if used else None),
            finish_reason=str(finish_reason).lower(),
        )

    def _invoke(self, request: ModelRequest) -> Any:
        try:
            return self._chat_model.invoke([dict(message) for message in request.messages])
        except (TypeError, NotImplementedError) as error:
            raise ConfigError(
                f"{self.name} cannot be called: {redact(str(error))[:300]}; pass a chat model whose `invoke` takes a list "
                "of messages"
            ) from None
        except Exception as error:  # every provider brings its own exceptions; the status code sorts them
            said = f"{type(error).__name__}: {redact(str(error))[:300]}"
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            if status in (401, 403, 404):
                raise ConfigError(f"{self.name}: check the key and the model's name ({status}): {said}") from None
            if status in (400, 413, 422):
                raise RequestRefused(f"{self.name} refused the request ({status}): {said}") from None
            # It cannot be told from here whether a failure without a status was processed.
            raise Retryable(said, refused=status == 429, may_be_billed=status is None) from None
