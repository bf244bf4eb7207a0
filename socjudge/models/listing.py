"""Ask a server of OpenAI's protocol which models it has. Only a press in a panel does so."""

from __future__ import annotations

import os

from ..base.redact import redact, show_url
from ..base.texts import visible
from ..errors import ConfigError

MOST_NAMES = 200
WAIT_S = 2.0


def list_models() -> list[str]:
    """Return the names of the models that the configured service lists, sorted. It is asked once, for at most two seconds.
    Raises ConfigError if it cannot be asked, or gives no list."""
    import openai

    key, url = (os.environ.get(name, "").strip() for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    where = show_url(url) if url else "api.openai.com"
    if not key and not url:
        raise ConfigError(
            "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own; then the models can be listed"
        )
    try:
        with openai.OpenAI(api_key=key or "none", base_url=url or None, max_retries=0, timeout=WAIT_S) as client:
            found = client.models.list().data
        names = sorted({visible(str(model.id)) for model in found})
    except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            "{where} gives no list of its models ({reason}); type the name",
            where=where,
            reason=redact(visible(str(error)))[:200],
        ) from None
    if not names:
        raise ConfigError("{where} lists no model; type the name", where=where)
    return names[:MOST_NAMES]
