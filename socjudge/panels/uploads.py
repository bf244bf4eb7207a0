"""Define the button that adds a file of the user's to a folder of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from ..base.messages import explained, listed, say
from ..base.showing import block, escape
from ..base.texts import visible
from ..errors import ConfigError
from .controls import AUTO, ROW, html, told_in

MOST_MB = 8  # a message of Jupyter holds 10 MB, and a file is a little larger in it


class UploadBox(widgets.HBox):  # type: ignore[misc]
    """Add one file to a folder. It never replaces a file, and the limits are told before."""

    def __init__(self, name: str, folder: Path, suffixes: Iterable[str], on_saved: Callable[[Path], Any]) -> None:
        self.folder, self.suffixes, self._on_saved = folder, tuple(suffixes), on_saved
        # The name is the title, which panels.css shows: ipywidgets writes the number of files behind a description.
        self.upload = widgets.FileUpload(
            description="", tooltip=name, accept=",".join(self.suffixes), multiple=False, layout=AUTO
        )
        self.upload.add_class("socjudge-upload")
        self._limits = say(
            "{suffixes}, at most {most} MB, saved in {folder}",
            suffixes=listed(self.suffixes),
            most=MOST_MB,
            folder=folder.name,
        )
        self.status = html(block("muted", escape(self._limits)))
        super().__init__([self.upload, self.status], layout=ROW)
        self.upload.observe(lambda change: self._take(change["new"]), "value")

    def _take(self, files: tuple[Any, ...]) -> None:
        with told_in(self.status):
            for file in files:
                path = self._save(str(file["name"]), bytes(file["content"]))
                self.status.value = block("good", escape(say("✅ {name} is saved", name=path.name)))
                self._on_saved(path)
        if files:
            self.upload.value = ()  # so that the same name can be chosen again

    def _save(self, name: str, content: bytes) -> Path:
        is_plain = name == Path(name).name and name == visible(name) and not name.startswith(".") and "\\" not in name
        if not is_plain or Path(name).suffix.lower() not in self.suffixes:
            raise ConfigError("{name}: not a name of such a file; {limits}", name=repr(name)[:80], limits=self._limits)
        if len(content) > MOST_MB * 10**6:
            raise ConfigError("{name} is too large; {limits}", name=name, limits=self._limits)
        path = self.folder / name
        with explained("{path}: cannot be written ({reason}); check the permissions and the space left", path=path):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                raise ConfigError("{path} is there already, and is kept; rename your file", path=path) from None
        return path
