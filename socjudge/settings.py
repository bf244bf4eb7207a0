"""Read the project's settings.

Only this module reads the specification's names in constants.py (JUDGE_*, QUESTION_CATEGORIES, DEFAULT_* …). A function
reads the settings that it needs when it is called, and passes them on as values. A constant that was assigned in this
process takes precedence over socjudge.toml, and socjudge.toml takes precedence over constants.py. The file is read when
a setting is first needed, never at import. It is read again after it has changed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, get_args

from . import constants
from .base.messages import Language, say
from .base.project_file import ASSISTANTS, PRICES, SETTINGS, Tables, read_project_file
from .base.showing import escape, facts_html, one_line
from .errors import ConfigError
from .records import Rubric

Source = Literal["constant", "file", "built-in"]
# as in constants.py: it stands for the prompt that fits the criteria, unless somebody chose one
SPECIFIED_PROMPT = "guide-1"

_SOURCES = {"constant": "a constant", "file": "socjudge.toml", "built-in": "built in"}


def _contents(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# The objects that constants.py made, and their contents.
_AT_IMPORT = {
    each.constant: (value := getattr(constants, each.constant), _contents(value))
    for keys in SETTINGS.values()
    for each in keys.values()
    if each.constant
}


@dataclass(frozen=True)
class Project:
    """Hold the current settings of a project. `open_project(folder)` returns this object, and `socjudge settings` shows
    it."""

    folder: Path
    rubric: Rubric
    categories: tuple[str, ...]
    # The table [defaults] in socjudge.toml, such as models, k and the cost cap, and `judge_prompt`, which the table
    # [rubric] sets.
    defaults: Mapping[str, Any]
    report: Mapping[str, str]  # the title of reports, and the team that they name
    # {name of the setting, such as "rubric.pass_threshold": where its value comes from}. A source is "constant" (a
    # constant assigned in this process), "file" (socjudge.toml) or "built-in".
    sources: Mapping[str, Source]

    @property
    def name(self) -> str:
        """Return the name of the project's folder. Logs have this name."""
        return self.folder.name

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of all settings, as {"table.key": value}, with keys such as "rubric.pass_rate"."""
        rubric = {
            name: getattr(self.rubric, name) for name in ("criteria", "pass_threshold", "pass_rate", "descriptions")
        }
        rubric["judge_prompt"] = self.defaults["judge_prompt"]
        # relative, so that the folder's place does not matter
        answers = self.defaults["answers"].removeprefix(f"{self.folder}{os.sep}")
        tables = {
            "rubric": rubric,
            "dataset": {"categories": self.categories},
            "defaults": {**self.defaults, "answers": answers},
            "report": self.report,
        }
        return {f"{table}.{key}": tables[table][key] for table, checks in SETTINGS.items() for key in checks}

    @property
    def settings_sha256(self) -> str:
        """Return the SHA-256 of the values of all settings, in hex. It does not depend on where the values come from."""
        import hashlib  # only a run needs it, not an import
        import json

        return hashlib.sha256(json.dumps(self.values, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        changed = sum(source != "built-in" for source in self.sources.values())
        return f"<Project {one_line(self.folder, 120)}: {changed} of {len(self.sources)} settings of its own>"

    def _repr_html_(self) -> str:
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows())
        head = "".join(f'<th class="muted">{escape(name)}</th>' for name in self.columns())
        return facts_html(str(self.folder), {}, after=f'<table class="facts"><tr>{head}</tr>{rows}</table>')

    def columns(self) -> tuple[str, str, str, str]:
        """Return the titles of the four columns of `rows`, in the language of the messages."""
        return say("setting"), say("value"), say("from"), say("about")

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the name, value, source and meaning of each setting, as texts in the language of the messages."""
        rows, abouts = [], [each.about for keys in SETTINGS.values() for each in keys.values()]
        for (name, value), about in zip(self.values.items(), abouts, strict=True):
            source = self.sources[name]
            stands_for = name.endswith("_model") and source != "file"
            told = (
                say("auto ({model} where there is a key or an address)", model=value) if stands_for else _shown(value)
            )
            rows.append((name, told, say(_SOURCES[source]), say(about)))
        return rows


def open_project(folder: Path | str | None = None) -> Project:
    """From now on, use this project: its questions, runbooks, prompts and logs, and the settings in its socjudge.toml.

    Parameters
    ----------
    folder
        The project's folder. If left out, the current project stays in use.

    Returns
    -------
    Project
        The project's settings and the source of each. If a folder is given, constants that were assigned in this
        process first get back their values in constants.py.

    Raises
    ------
    ConfigError
        If the folder does not exist, or its socjudge.toml has faults. The message lists every fault with its line.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.open_project().rubric.pass_threshold
    70.0
    """
    if folder is None:
        return current_project()
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise ConfigError(
            "{folder}: no such folder; `socjudge init {folder}` makes an evaluation project there", folder=place
        )
    use_project(place)
    return current_project()


def use_project(folder: Path) -> None:
    """From now on, use this project. Its settings are not read yet. Constants that were assigned in this process get
    back their values in constants.py."""
    for name, (value, contents) in _AT_IMPORT.items():
        if isinstance(value, list):
            value[:] = contents
        setattr(constants, name, value)
    constants.use_project(folder)


def current_project() -> Project:
    """Return the settings of the current project. Raises ConfigError if its socjudge.toml has faults."""
    return _project(_file())


def project_without_file() -> Project:
    """Return the settings that the current project would have without its socjudge.toml. They are shown if it has
    faults."""
    return _project({})


def specified_values() -> dict[str, Any]:
    """Return the default values of all settings, as {"table.key": value}, with keys such as "rubric.pass_rate". They
    are the values that constants.py had when it was imported."""
    return {
        f"{table}.{key}": _AT_IMPORT[each.constant][1] if each.constant else each.usual
        for table, keys in SETTINGS.items()
        for key, each in keys.items()
    }


# Example values for the settings that have no default.
_FOR_EXAMPLE = {
    "rubric.judge_prompt": "strict-1", "defaults.judge_model": "auto", "defaults.assistant_model": "auto",
    "defaults.answers": "bot", "defaults.language": "ja", "report.team": "SOC",
}  # fmt: skip


def settings_file() -> str:
    """Return the text of socjudge.toml for a new project: every setting as a comment, below a line with its purpose."""
    import json

    built_in = specified_values()
    lines = [
        say(
            "# The settings of this evaluation project; socjudge finds it by this file.\n"
            '# Remove the "# " in front of a line and change its value. What is not written is as it stands '
            "here.\n"
            "# `socjudge settings` shows what holds, and where it comes from. No keys here: they belong into the "
            "environment."
        ),
        "",
    ]
    for table, keys in SETTINGS.items():
        lines.append(f"[{table}]")
        for key, setting in keys.items():
            if key == "descriptions":  # it is a separate table, below the other settings of its table
                lines += [
                    "",
                    f"[{table}.{key}]",
                    f"# {say(setting.about)}",
                    say('# "speed" = "does it say how soon to begin?"'),
                ]
                continue
            value = _FOR_EXAMPLE.get(f"{table}.{key}", built_in[f"{table}.{key}"]) or say("Runbook assistant, April")
            text = "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)
            lines += [f"# {say(setting.about)}", f"# {key} = {text}"]
        lines.append("")
    prices = say("The price of a model that no list has, in US dollars per million tokens; 0 if it is free.")
    lines += [
        f"# {prices}",
        f'# [{PRICES}."my-model"]',
        "# input = 0.15",
        "# output = 0.60",
    ]
    return "\n".join(lines) + "\n"


def project_rubric() -> Rubric:
    """Return the project's current rubric. Raises ConfigError if the rubric cannot be used."""
    return _rubric(_file())


def project_categories() -> tuple[str, ...]:
    """Return the categories that questions may have, in the order of charts."""
    return tuple(_value("dataset", "categories"))


def chosen_judge_prompt() -> str | None:
    """Return the id of the judge prompt that the project chose. Return None if it chose none; the criteria then
    decide."""
    return _chosen_prompt(_file())


def default_assistant_prompt() -> str:
    return str(_value("defaults", "assistant_prompt"))


def default_model(task: Literal["answer", "judge"]) -> tuple[str, bool]:
    """Return the model for this task, and whether socjudge.toml names it. The caller may use the embedded model instead
    of one that the file does not name (or calls "auto"), but must not replace one that it names."""
    key = "judge_model" if task == "judge" else "assistant_model"
    value, source = _look(_file(), "defaults", key)
    if source == "file" and value == "auto":
        return str(getattr(constants, SETTINGS["defaults"][key].constant)), False
    return str(value), source == "file"


def default_k() -> int:
    """Return from how many passages an answer is made, as the project has set it."""
    return int(_value("defaults", "k"))


def cost_cap(given: float | None) -> float | None:
    """Return the cost cap in US dollars: `given`, or the project's cap if `given` is None. Return None if there is no
    cap. A cap of infinity means no cap. ConfigError if it is none, by the same rule as in socjudge.toml."""
    if given is not None and (why := SETTINGS["defaults"]["max_cost_usd"].check(given)):
        raise ConfigError("max_cost_usd = {value} will not do: {why}", value=f"{given!r:.60}", why=why)
    cap = _value("defaults", "max_cost_usd") if given is None else given
    return None if cap == math.inf else cap


def report_title() -> str:
    """Return the title for reports. Return "" if the project has set none; reports then have the specification's title."""
    return str(_value("report", "title"))


def report_team() -> str:
    """Return the name of the team for reports. Return "" if the project has set none."""
    return str(_value("report", "team"))


def project_prices() -> Mapping[str, Mapping[str, float]]:
    """Return the models' prices in socjudge.toml: {model: {"input": …, "output": …}}, in US dollars per million tokens."""
    return _last_good().get(PRICES, {})


def keep_free(model: str) -> None:
    """Write into socjudge.toml that a model costs nothing."""
    import json

    from .base.atomic_files import append_line

    path = constants.PROJECT_DIR / constants.PROJECT_MARK
    append_line(path, f"\n[{PRICES}.{json.dumps(model, ensure_ascii=False)}]\ninput = 0\noutput = 0".encode())
    _state()  # it is looked at only once in a while


def assistant_tables() -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of your own assistants in socjudge.toml, as {name: table}."""
    return _file().get(ASSISTANTS, {})


def default_answers() -> str:
    """Return whose answers are judged if the caller names none: a name in `assistant_tables`, the path of a file with
    answers, or "" for the built-in assistant."""
    return _placed(_file())


def _file() -> Tables:
    state = _state()
    return {} if state is None else _read(*state)


def _last_good() -> Tables:
    """While the file has faults, prices and the yen rate come from its last valid contents, so a paid run goes on."""
    with contextlib.suppress(ConfigError):
        state = _held_state()
        _known[constants.PROJECT_DIR] = {} if state is None else _read(*state)
    return _known.get(constants.PROJECT_DIR, {})


_known: dict[Path, Tables] = {}


# (path, time of change, size) of the project file; None if there is none.
_State = tuple[Path, int, int] | None
_HOLDS_S = 1.0  # seconds for which a look is cached, because each message and call asks for language or prices
_seen: tuple[Path | None, float, _State] = (None, 0.0, None)  # (project, time of the look, state)


def _state() -> _State:
    global _seen
    path, state = constants.PROJECT_DIR / constants.PROJECT_MARK, None
    with contextlib.suppress(OSError):
        found = path.stat()
        state = path, found.st_mtime_ns, found.st_size
    _seen = constants.PROJECT_DIR, monotonic(), state
    return state


def _held_state() -> _State:
    folder, seen_at, state = _seen
    is_held = folder is constants.PROJECT_DIR and monotonic() - seen_at <= _HOLDS_S
    return state if is_held else _state()


@functools.lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> Tables:
    return read_project_file(path)


def _look(file: Tables, table: str, key: str) -> tuple[Any, Source]:
    _, _, name, value = SETTINGS[table][key]
    if name:
        value, (original, contents) = getattr(constants, name), _AT_IMPORT[name]
        if value is not original or _contents(value) != contents:
            return value, "constant"
    said = file.get(table, {}).get(key, {})  # an empty table means nothing
    return (value, "built-in") if said == {} else (said, "file")


def _value(table: str, key: str) -> Any:
    return _look(_file(), table, key)[0]


def _placed(file: Tables) -> str:
    # A relative file path is resolved against the project's folder, not the working directory.
    said = str(_look(file, "defaults", "answers")[0])
    return said if "." not in said or said in file.get(ASSISTANTS, {}) else str(constants.PROJECT_DIR / said)


def _rubric(file: Tables) -> Rubric:
    criteria, source = _look(file, "rubric", "criteria")
    described = _look(file, "rubric", "descriptions")[0]
    if source == "constant":  # the file's descriptions are for the file's criteria
        described = {name: text for name, text in described.items() if name in criteria}
    line, rate = (_look(file, "rubric", key)[0] for key in ("pass_threshold", "pass_rate"))
    return Rubric(tuple(criteria), described, line, rate)


def _chosen_prompt(file: Tables) -> str | None:
    value, source = _look(file, "rubric", "judge_prompt")
    return None if source == "built-in" and value == SPECIFIED_PROMPT else str(value)


def _project(file: Tables) -> Project:
    looked = {(table, key): _look(file, table, key) for table, checks in SETTINGS.items() for key in checks}
    defaults = {key: value for (table, key), (value, _) in looked.items() if table == "defaults"}
    defaults |= {"judge_prompt": _chosen_prompt(file), "answers": _placed(file)}
    return Project(
        constants.PROJECT_DIR,
        _rubric(file),
        tuple(looked["dataset", "categories"][0]),
        MappingProxyType(defaults),
        MappingProxyType({key: looked["report", key][0] for key in ("title", "team")}),
        MappingProxyType({f"{table}.{key}": source for (table, key), (_, source) in looked.items()}),
    )


def _shown(value: Any) -> str:
    if value in (None, "", {}):
        return "—"
    if value == math.inf:
        return say("no cap")
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {text}" for name, text in value.items())
    return "、".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def project_language() -> Language | None:
    """Return the language of the messages that socjudge.toml sets. Return None if it sets none."""
    state = _held_state()
    return None if state is None else _said_language(*state)


@functools.lru_cache(maxsize=4)
def _said_language(path: Path, changed: int, size: int) -> Language | None:
    import tomllib

    # Other faults in the file are ignored here, because their messages need the language.
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        said = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("defaults", {}).get("language")
        return said if said in get_args(Language) else None
    return None


def yen_per_usd() -> float:
    """Return the price of one US dollar in yen, as the project has set it."""
    return float(_look(_last_good(), "defaults", "jpy_per_usd")[0])
