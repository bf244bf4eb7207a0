"""Define the fields for the API key of a hosted model and the address of a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from ..base.messages import say
from ..base.redact import show_url
from ..base.showing import block, escape
from .controls import button, field, html

_KEY, _URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"


class KeyBox(widgets.VBox):  # type: ignore[misc]
    """Ask for an API key and a server's address. Both are stored only as environment variables of this kernel, from
    which all models on the page read them."""

    def __init__(self, on_change: Callable[[], Any]) -> None:
        self._on_change = on_change
        self.key = field(
            widgets.Password, say("API key"), placeholder=say("Paste it and press Enter"), continuous_update=False
        )
        self.base_url = field(
            widgets.Text,
            say("URL of the service"),
            continuous_update=False,
            placeholder=say("Empty: OpenAI. For example: http://localhost:8000/v1"),
        )
        self.forget_button = button(say("Forget key and URL"), "trash")
        self.status = html()
        super().__init__([self.key, self.base_url, self.status, widgets.HBox([self.forget_button])])
        self.key.observe(lambda change: self._keep(_KEY, change), "value")
        self.base_url.observe(lambda change: self._keep(_URL, change), "value")
        self.forget_button.on_click(lambda _: self._forget())
        self._tell()

    def _tell(self) -> None:
        key, url = (os.environ.get(name, "").strip() for name in (_KEY, _URL))
        state = say("✅ A key is set") if key else say("No key is set")  # the key itself is never shown
        if key or url:
            state = say("{state} (service: {place})", state=state, place=show_url(url) if url else "api.openai.com")
        kept = say(
            "What you type is kept in this kernel's memory only, and in no notebook, log or report; it is gone when the "
            "kernel restarts. Nothing is sent before you press 「評価を実行」."
        )
        self.status.value = block("", escape(state), kept)

    def _keep(self, name: str, change: Any) -> None:
        if value := change["new"].strip():
            os.environ[name] = value
            change["owner"].value = ""  # so that the key is never saved in a notebook
            self._tell()
            self._on_change()

    def _forget(self) -> None:
        for name in (_KEY, _URL):
            os.environ.pop(name, None)
        self._tell()
        self._on_change()
