"""Read the project's settings: socjudge.toml, and the specification's names in constants.py for what it does not set.

The file is read when a setting is first needed, never at import. It is read again after it has changed.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from . import constants
from .base.messages import Language, say
from .base.project_file import ASSISTANTS, PRICES, SETTINGS, Tables, read_project_file
from .base.showing import facts_html
from .errors import ConfigError
from .records import Rubric

Source = Literal["file", "built-in"]
# as in constants.py: it stands for the prompt that fits the criteria, unless somebody chose one
SPECIFIED_PROMPT = "guide-1"


@dataclass(frozen=True)
class Project:
    """Hold the current settings of a project. `open_project(folder)` returns this object, and `socjudge settings` shows
    it."""

    folder: Path
    rubric: Rubric
    categories: tuple[str, ...]  # those that questions may have, in the order of charts
    judge_model: str
    assistant_model: str
    judge_prompt: str | None  # the id of the judge prompt; None: the one that fits the criteria
    assistant_prompt: str
    # Whose answers are judged: a name in `assistants`, the path of a file of answers, or "" for the built-in assistant.
    answers: str
    k: int  # from how many passages of the runbooks an answer is made
    max_cost_usd: float  # the most that a run may cost; infinity is no cap
    language: Language | None  # of messages
    jpy_per_usd: float
    report_title: str  # "": the specification's
    report_team: str
    assistants: Mapping[str, Mapping[str, Any]]  # {name: its table [assistants.…]}
    prices: Mapping[str, Mapping[str, float]]  # {model: {"input": …, "output": …}}, US dollars per million tokens
    values: Mapping[str, Any]  # of all settings, by names such as "rubric.pass_threshold"
    sources: Mapping[str, Source]  # the same names, and where each value comes from: the file, or constants.py

    def default_model(self, task: Literal["answer", "judge"]) -> tuple[str, bool]:
        """Return the model for a task, and whether socjudge.toml names it. The caller may use the embedded model instead
        of one that the file does not name (or calls "auto"), but must not replace one that it names."""
        key = "judge_model" if task == "judge" else "assistant_model"
        value, is_named = getattr(self, key), self.sources[f"defaults.{key}"] == "file"
        if is_named and value == "auto":
            return str(SETTINGS["defaults"][key].default()), False
        return value, is_named

    def cost_cap(self, given: float | None = None) -> float | None:
        """Return the cost cap in US dollars: `given`, or the project's cap. None if there is none: infinity means no
        cap. ConfigError if `given` is no number or below 0."""
        cap = self.max_cost_usd if given is None else given
        if not isinstance(cap, int | float) or isinstance(cap, bool) or not cap >= 0:  # `not`, because of nan
            raise ConfigError(
                "max_cost_usd = {value} will not do: write a number of US dollars, 0 or more; inf is no cap",
                value=f"{cap!r:.60}",
            )
        return None if cap == math.inf else cap

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the name, value and source of each setting, as texts in the language of the messages."""
        rows = []
        for name, value in self.values.items():
            source = self.sources[name]
            told = _value_text(value)
            if name.endswith("_model") and source != "file":
                told = say("auto ({model} where there is a key or an address)", model=value)
            rows.append((name, told, say("socjudge.toml" if source == "file" else "built in")))
        return rows

    def _repr_html_(self) -> str:
        return facts_html(str(self.folder), {name: f"{value}　[{source}]" for name, value, source in self.rows()})


def open_project(folder: Path | str | None = None) -> Project:
    """From now on, use this project: its questions, runbooks, prompts and logs, and the settings in its socjudge.toml.
    Return its settings, and where each comes from.

    - folder: the project's folder. If left out, the current project stays in use.

    Raises ConfigError if the folder does not exist, or if its socjudge.toml has faults. The message lists every fault.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.open_project().rubric.pass_threshold
    70.0
    """
    global _made
    if folder is not None:
        use_folder(Path(folder).expanduser())
    defaults = [setting.default() for keys in SETTINGS.values() for setting in keys.values()]
    made_from = (constants.PROJECT_DIR, _state(), defaults)
    if _made is None or _made[0] != made_from:
        _made = made_from, _make(read_project_file(_path()))
    return _made[1]


def use_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(
            "{folder}: no such folder; `socjudge init {folder}` makes an evaluation project there", folder=folder
        )
    constants.use_project(folder)


def last_good_project() -> Project:
    """The current project. While its socjudge.toml has faults, it is as before, so that a paid run keeps its prices."""
    with contextlib.suppress(ConfigError):
        return open_project()
    is_ours = _made is not None and _made[1].folder == constants.PROJECT_DIR
    return _made[1] if _made and is_ours else project_without_file()


def project_without_file() -> Project:
    return _make({})


def settings_file() -> str:
    """Return the text of socjudge.toml for a new project: every setting as a comment, below a line with its purpose."""
    import json

    lines = [
        say(
            "# The settings of this evaluation project; socjudge finds it by this file.\n"
            '# Remove the "# " in front of a line and change its value. What is not written is as it stands '
            "here.\n"
            "# `socjudge settings` shows what holds, and where it comes from. No keys here: they belong into the "
            "environment."
        )
    ]
    for table, keys in SETTINGS.items():
        lines += ["", f"[{table}]"]
        for key, setting in keys.items():
            if key == "descriptions":  # it is a separate table, below the other settings of its table
                example = say('# "speed" = "does it say how soon to begin?"')
                lines += ["", f"[{table}.{key}]", f"# {say(setting.about)}", example]
                continue
            value = setting.example or setting.default() or say("Runbook assistant, April")
            text = "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)
            lines += [f"# {say(setting.about)}", f"# {key} = {text}"]
    about = "An assistant of your own behind HTTP: where it is, what it is sent, and where its reply has the answer."
    lines += ["", f"# {say(about)}", f"# [{ASSISTANTS}.bot]", '# url = "http://127.0.0.1:8000/ask"']
    lines += ['# body = { question = "{question}" }', '# answer = "answer"']
    about = "The price of a model that no list has, in US dollars per million tokens; 0 if it is free."
    lines += ["", f"# {say(about)}", f'# [{PRICES}."my-model"]', "# input = 0.15", "# output = 0.60"]
    return "\n".join([*lines, ""])


def keep_free(model: str) -> None:
    """Write into socjudge.toml that a model costs nothing. model: its name, as `models.prices.price_key` has it."""
    import json

    from .base.files import append_line

    if model in open_project().prices:
        return  # said in another panel since this one asked; a table that stands twice would break the file

    append_line(_path(), f"\n[{PRICES}.{json.dumps(model, ensure_ascii=False)}]\ninput = 0\noutput = 0".encode())


def _path() -> Path:
    return constants.PROJECT_DIR / constants.PROJECT_MARK


def _state() -> tuple[int, int] | None:
    """When socjudge.toml was changed, and its size; None if there is none."""
    try:
        found = _path().stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


_made: tuple[Any, Project] | None = None  # what the project's settings were made from, and the settings


def _make(file: Tables) -> Project:
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    fields: dict[str, Any] = {}
    for table, keys in SETTINGS.items():
        for key, setting in keys.items():
            name, said = f"{table}.{key}", file.get(table, {}).get(key, {})  # an empty table means nothing
            sources[name] = "built-in" if said == {} else "file"
            values[name] = setting.default() if said == {} else tuple(said) if isinstance(said, list) else said
            fields[f"report_{key}" if table == "report" else key] = values[name]
    fields["categories"] = tuple(dict.fromkeys(fields["categories"]))
    rubric = {name: fields.pop(name) for name in ("criteria", "descriptions", "pass_threshold", "pass_rate")}
    if sources["rubric.judge_prompt"] == "built-in" and fields["judge_prompt"] == SPECIFIED_PROMPT:
        values["rubric.judge_prompt"] = fields["judge_prompt"] = None
    folder, assistants = constants.PROJECT_DIR, file.get(ASSISTANTS, {})
    if "." in fields["answers"] and fields["answers"] not in assistants:
        fields["answers"] = str(folder / fields["answers"])  # a file, whatever the working directory is
    try:
        fields["rubric"] = Rubric(**rubric)
    except ConfigError as error:
        raise ConfigError(f"{_path()}, [rubric]: {error}") from None
    return Project(folder, assistants=assistants, prices=file.get(PRICES, {}), values=values, sources=sources, **fields)


def _value_text(value: Any) -> str:
    if value in (None, "", {}):
        return "—"
    if value == math.inf:
        return say("no cap")
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {text}" for name, text in value.items())
    return "、".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def project_language() -> Language | None:
    """The language of the messages that socjudge.toml sets. Its faults are told in this language."""
    state = _state()
    return None if state is None else _said_language(_path(), state)


@functools.lru_cache(maxsize=4)
def _said_language(file: Path, state: tuple[int, int]) -> Language | None:
    import tomllib

    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        said = tomllib.loads(file.read_text(encoding="utf-8-sig")).get("defaults", {}).get("language")
        return said if said in get_args(Language) else None
    return None
