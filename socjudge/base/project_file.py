"""Check `socjudge.toml`: define what the file may contain, and name every setting in it that is not valid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .. import constants
from ..errors import ConfigError
from .files import decoded
from .former_names import instead_of
from .messages import Language, explained, say

Tables = dict[str, dict[str, Any]]  # {table: {key: value}}, only what the file contains
Text = Annotated[str, Meta(min_length=1)]
Names = Annotated[list[Text], Meta(min_length=1)]
# US dollars per million tokens; with higher prices, sums of costs would soon overflow
Dollars = Annotated[float, Meta(ge=0, le=1e6)]


class Price(msgspec.Struct, forbid_unknown_fields=True):
    input: Dollars
    output: Dollars


class Setting(NamedTuple):
    about: str  # the sentence that explains the setting, and what a valid value is
    kind: Any  # the type of valid values, for msgspec
    constant: str = ""  # the name of the constant in constants.py that has the default value
    usual: Any = None  # the default value of a setting for which there is no such constant
    example: Any = None  # the value in a new socjudge.toml, if the default would say nothing

    def default(self) -> Any:
        value = getattr(constants, self.constant) if self.constant else self.usual
        return tuple(value) if isinstance(value, list) else value


def _number(least: float, most: float, kind: type = float) -> Any:
    return Annotated[kind, Meta(ge=least, le=most)]


# The settings of each table, in the order in which they are shown.
SETTINGS: dict[str, dict[str, Setting]] = {
    "rubric": {
        "criteria": Setting("the criteria, all of them", Names, "JUDGE_EVALUATION_CRITERIA"),
        "pass_threshold": Setting("the pass line, 0 to 100 points", _number(0, 100), "JUDGE_PASS_THRESHOLD"),
        "pass_rate": Setting("the share of the questions that must pass, 0 to 1", _number(0, 1), "JUDGE_PASS_RATE"),
        "judge_prompt": Setting(
            "the judge prompt, such as one of your own in eval/prompts/; left out, the one that fits the criteria",
            Text,
            "DEFAULT_JUDGE_PROMPT",
            example="strict-1",
        ),
        "descriptions": Setting(
            "what criteria of your own look at, a line for each; their names stand in double quotes",
            dict[str, str],
            usual={},
        ),
    },
    "dataset": {
        "categories": Setting("the categories of questions, in the order of charts", Names, "QUESTION_CATEGORIES")
    },
    "defaults": {
        "judge_model": Setting(
            'the judge; "auto" may be the embedded one where there is no key',
            Text,
            "DEFAULT_JUDGE_MODEL",
            example="auto",
        ),
        "assistant_model": Setting(
            'the assistant; "auto" may be the embedded one where there is no key',
            Text,
            "DEFAULT_ASSISTANT_MODEL",
            example="auto",
        ),
        "assistant_prompt": Setting("assistant's prompt", Text, "DEFAULT_ASSISTANT_PROMPT"),
        "answers": Setting(
            "the assistant of your own that is judged (a table [assistants.…], or a file of answers); empty "
            "for socjudge's",
            Text,
            usual="",
            example="bot",
        ),
        "k": Setting(
            "how many passages of the runbooks an answer is made from, 1 to 1000", _number(1, 1000, int), usual=10
        ),
        "max_cost_usd": Setting(
            "the most that a run may cost, in US dollars; inf is no cap", Annotated[float, Meta(ge=0)], usual=math.inf
        ),
        "language": Setting(
            'the language of messages, "ja" or "en"; the variable SOCJUDGE_LANG goes first', Language, example="ja"
        ),
        "jpy_per_usd": Setting("how many yen a dollar is, for prices in yen", _number(0.01, 10_000), "JPY_PER_USD"),
    },
    "report": {
        "title": Setting("the title of reports, such as the name of the assistant", Text, usual=""),
        "team": Setting("the team, for reports", Text, usual="", example="SOC"),
    },
}
# The tables whose keys the user chooses. The keys of an assistant are checked when it is opened.
ASSISTANTS, PRICES = "assistants", "prices"
NAMED = {ASSISTANTS: Setting("", dict[str, Any]), PRICES: Setting("US dollars per million tokens", Price)}


def read_project_file(path: Path) -> Tables:
    """Read and check socjudge.toml. Return {} if there is no such file. Raises a ConfigError that names every fault."""
    import tomllib

    with explained("{path}: it cannot be read ({reason})", path=path):
        if not path.exists():
            return {}
        raw = path.read_bytes()
    try:
        found = tomllib.loads(decoded(raw))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            "{path}: it cannot be read ({reason}); write name = value, each name once, and texts and Japanese names in "
            "plain double quotes",
            path=path,
            reason=error,
        ) from None
    if faults := list(_faults(found)):
        raise ConfigError("\n".join(f"{path}: {fault}" for fault in faults))
    return found


def _faults(found: Mapping[str, Any]) -> Iterator[str]:
    for name, table in found.items():
        if name not in SETTINGS and name not in NAMED:
            yield _unknown(f"[{name}]", name)
        elif not isinstance(table, dict):
            yield say("{name} is a table; write a line [{name}] and the settings below it", name=name)
        else:
            for key, value in table.items():
                if name in NAMED and not isinstance(value, dict):  # its value may be a secret
                    yield say("[{table}] {key} is no table; write a line [{table}.NAME] above it", table=name, key=key)
                elif setting := NAMED.get(name) or SETTINGS[name].get(key):
                    yield from _unfit(setting, name, key, value)
                else:
                    yield _unknown(f"[{name}] {key}", key)


def _unfit(setting: Setting, table: str, key: str, value: Any) -> Iterator[str]:
    try:
        msgspec.convert(value, setting.kind)
    except msgspec.ValidationError as error:
        yield say(
            "[{table}] {key} = {value} will not do ({reason}): {about}",
            table=table,
            key=key,
            value=f"{value!r:.60}",
            reason=error,
            about=say(setting.about),
        )


def _unknown(place: str, name: str) -> str:
    import difflib  # only needed if something is misspelt

    known = {key: f"[{table}] {key}" for table, settings in SETTINGS.items() for key in settings}
    known |= {table: f"[{table}]" for table in (*SETTINGS, *NAMED)}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = say("did you mean {name}?", name=known[near[0]]) if near else say("`socjudge settings` lists all")
    return say("there is no {name}; {hint}", name=place, hint=instead_of(name) or hint)
