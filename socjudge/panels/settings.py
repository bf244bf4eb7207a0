"""Show the panel that edits the project's settings. `SettingsPanel()` shows itself in a notebook cell."""

from __future__ import annotations

import ipywidgets as widgets

from .. import constants
from ..base.atomic_files import replacing
from ..base.messages import explained, say
from ..base.project_file import parse_project_file
from ..base.showing import block, escape, shown_path
from ..errors import ConfigError
from ..settings import settings_file
from .controls import Panel, button, heading, told_in


class SettingsPanel(Panel):
    """Show 「設定」 (settings). You edit the text of socjudge.toml, which is checked while you type.

    If the text has no errors, a click saves it.

    If the file does not exist, the panel starts with a text that has all settings as comments. The file is not replaced
    if another program has changed it since the panel read it.
    """

    def __init__(self) -> None:
        self._path = constants.PROJECT_DIR / constants.PROJECT_MARK
        self._read: bytes | None = None  # the bytes of the file; None if there is none
        self.text = widgets.Textarea(rows=28, layout={"width": "calc(100% - 4px)"})
        self.text.add_class("socjudge-code")
        self.save_button = button(say("panels.settings_save"), "save", button_style="primary")
        self.check, self.status = widgets.HTML(), widgets.HTML()
        hint = say("panels.settings_hint", path=shown_path(self._path))
        super().__init__(
            [
                heading(f"📄 {say('panels.page_settings')}", escape(hint)),
                self.text,
                self.check,
                widgets.HBox([self.save_button]),
                self.status,
            ]
        )
        self.add_class("socjudge-settings-panel")
        self.text.observe(lambda _: self._judge(), "value")
        self.save_button.on_click(lambda _: self._save())
        with told_in(self.status):
            self._read = self._on_disk()
            self.text.value = settings_file() if self._read is None else self._read.decode("utf-8-sig")
        self._judge()

    def _on_disk(self) -> bytes | None:
        return self._path.read_bytes() if self._path.is_file() else None

    def _judge(self) -> None:
        """Show the errors in the text, line by line. If there are none, enable the button that saves."""
        self.save_button.disabled = True
        with told_in(self.check):
            parse_project_file(self.text.value, self._path)
            self.check.value = block("", say("panels.settings_fit"))
            self.save_button.disabled = False

    def _save(self) -> None:
        with told_in(self.status):
            if self._on_disk() != self._read:
                raise ConfigError(say("panels.settings_changed", path=shown_path(self._path)))
            content = self.text.value.encode()
            with explained("panels.settings_not_saved", path=self._path), replacing(self._path) as file:
                file.write(content)
            self._read = content
            self.status.value = block("good", escape(say("panels.settings_saved", path=shown_path(self._path))))
