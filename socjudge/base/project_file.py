"""Check `socjudge.toml`: define what the file may contain, and report every fault with its line and the name of the
setting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from .. import constants
from ..errors import ConfigError
from ..records import Rubric
from .files import decoded
from .former_names import instead_of
from .messages import Language, explained, say

Tables = dict[str, dict[str, Any]]  # {table: {key: value}}, only what the file contains


class Setting(NamedTuple):
    fits: Callable[[Any], bool]  # whether a value is valid
    needs: str  # the sentence that says what a valid value is
    about: str  # the sentence that explains the setting
    constant: str = ""  # the name of the constant in constants.py that has the default value
    usual: Any = None  # the default value of a setting for which there is no such constant
    example: Any = None  # the value in a new socjudge.toml, if the default would say nothing

    def default(self) -> Any:
        """Return the value that holds if the file has none, a list as a tuple."""
        value = getattr(constants, self.constant) if self.constant else self.usual
        return tuple(value) if isinstance(value, list) else value

    def fault(self, value: Any) -> str:
        """Return why a value is not valid. Return "" if it is."""
        return "" if self.fits(value) else say(self.needs)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value == value.strip()


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value)) and len({*value}) == len(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) and text.strip() for text in value.values())


def _within(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


_TEXT = _is_text, "write a text in double quotes, not empty and without blanks around it"
_NAMES = _are_names, "write a list of names, each once"
DEAREST_USD = 1e6  # US dollars per million tokens; with higher prices, sums of costs would soon overflow
# The settings of each table, in the order in which they are shown.
SETTINGS: dict[str, dict[str, Setting]] = {
    "rubric": {
        "criteria": Setting(*_NAMES, "the criteria, all of them", "JUDGE_EVALUATION_CRITERIA"),
        "pass_threshold": Setting(
            _within(0, 100), "write a number from 0 to 100", "the pass line, 0 to 100 points", "JUDGE_PASS_THRESHOLD"
        ),
        "pass_rate": Setting(
            _within(0, 1),
            "write a number from 0 to 1: 0.7 for 70 %",
            "the share of the questions that must pass, 0 to 1",
            "JUDGE_PASS_RATE",
        ),
        "judge_prompt": Setting(
            *_TEXT,
            "the judge prompt, such as one of your own in eval/prompts/; left out, the one that fits the criteria",
            "DEFAULT_JUDGE_PROMPT",
            example="strict-1",
        ),
        "descriptions": Setting(
            _are_texts,
            'below a line [rubric.descriptions], write "name of the criterion" = "what is looked at" for each',
            "what criteria of your own look at, a line for each; their names stand in double quotes",
            usual={},
        ),
    },
    "dataset": {
        "categories": Setting(*_NAMES, "the categories of questions, in the order of charts", "QUESTION_CATEGORIES")
    },
    "defaults": {
        "judge_model": Setting(
            *_TEXT,
            'the judge; "auto" may be the embedded one where there is no key',
            "DEFAULT_JUDGE_MODEL",
            example="auto",
        ),
        "assistant_model": Setting(
            *_TEXT,
            'the assistant; "auto" may be the embedded one where there is no key',
            "DEFAULT_ASSISTANT_MODEL",
            example="auto",
        ),
        "assistant_prompt": Setting(*_TEXT, "assistant's prompt", "DEFAULT_ASSISTANT_PROMPT"),
        "answers": Setting(
            *_TEXT,
            "the assistant of your own that is judged (a table [assistants.…], or a file of answers); empty "
            "for socjudge's",
            usual="",
            example="bot",
        ),
        "k": Setting(
            lambda value: type(value) is int and 1 <= value <= 1000,
            "write a whole number from 1 to 1000",
            "how many passages of the runbooks an answer is made from",
            usual=10,
        ),
        "max_cost_usd": Setting(
            _within(0, math.inf),
            "write a number of US dollars, 0 or more; inf is no cap",
            "the most that a run may cost, in US dollars; inf is no cap",
            usual=math.inf,
        ),
        "language": Setting(
            lambda value: value in get_args(Language),
            'write "ja" or "en"',
            'the language of messages, "ja" or "en"; the variable SOCJUDGE_LANG goes first',
            example="ja",
        ),
        "jpy_per_usd": Setting(
            _within(1e-9, 1e9),
            "write a number above 0: how many yen a dollar is",
            "how many yen a dollar is, for prices in yen",
            "JPY_PER_USD",
        ),
    },
    "report": {
        "title": Setting(*_TEXT, "the title of reports, such as the name of the assistant", usual=""),
        "team": Setting(*_TEXT, "the team, for reports", usual="", example="SOC"),
    },
}
ASSISTANTS = (
    "assistants"  # one table per assistant; its keys are checked when it is opened (answering/own_assistant.py)
)
PRICES = "prices"  # one table per model, with input and output


def read_project_file(path: Path) -> Tables:
    """Read and check socjudge.toml. Return {} if there is no such file. Raises a ConfigError that names every fault."""
    import tomllib

    with explained("{path}: it cannot be read ({reason})", path=path):
        if not path.exists():
            return {}
        raw = path.read_bytes()
    try:
        text = decoded(raw)
    except ValueError as error:
        raise ConfigError("{path}: it cannot be read ({reason})", path=path, reason=error) from None
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_syntax_fault(path, text, str(error))) from None
    # The rubric is looked at as a whole once its settings are known to be names and texts.
    if faults := list(_faults(found)) or list(_rubric_faults(found.get("rubric", {}))):
        told = [
            say("{path}, line {line}: {what}", path=path, line=_line_of(text, keys), what=what) for keys, what in faults
        ]
        raise ConfigError("\n".join(told))
    return found


_Fault = tuple[Sequence[str], str]  # the keys that lead to the value, and what is wrong with it


def _faults(found: Mapping[str, Any]) -> Iterator[_Fault]:
    for name, table in found.items():
        if name not in (*SETTINGS, PRICES, ASSISTANTS):
            yield (name,), _unknown(f"[{name}]", name)
        elif not isinstance(table, dict):
            yield (name,), _no_table(name)
        elif name == ASSISTANTS:
            yield from (((name, key), _no_table(f"{name}.{key}")) for key in table if not isinstance(table[key], dict))
        elif name == PRICES:
            yield from (((name, model), _price_fault(model)) for model in table if not _is_price(table[model]))
        else:
            for key, value in table.items():
                if key not in SETTINGS[name]:
                    yield (name, key), _unknown(f"[{name}] {key}", key)
                elif why := SETTINGS[name][key].fault(value):
                    told = say(
                        "[{table}] {key} = {value} will not do: {why}",
                        table=name,
                        key=key,
                        value=_value_text(value),
                        why=why,
                    )
                    yield (name, key), told


def _rubric_faults(rubric: Mapping[str, Any]) -> Iterator[_Fault]:
    for names in (("criteria",), ("criteria", "descriptions")):
        try:
            Rubric(**{name: rubric[name] for name in names if name in rubric})
        except ConfigError as error:
            yield ("rubric", names[-1]), str(error)
            return


def _no_table(name: str) -> str:
    return say("{name} is a table; write a line [{name}] and the settings below it", name=name)


def _is_price(row: Any) -> bool:
    return (
        isinstance(row, dict) and row.keys() == {"input", "output"} and all(map(_within(0, DEAREST_USD), row.values()))
    )


def _price_fault(model: str) -> str:
    return say(
        '[prices."{model}"] needs input and output and nothing else: US dollars per million tokens, numbers from 0 to a '
        "million",
        model=model,
    )


def _unknown(place: str, name: str) -> str:
    import difflib  # only needed if something is misspelt

    known = {key: f"[{table}] {key}" for table, settings in SETTINGS.items() for key in settings}
    known |= {table: f"[{table}]" for table in (*SETTINGS, PRICES, ASSISTANTS)}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = say("did you mean {name}?", name=known[near[0]]) if near else say("`socjudge settings` lists all")
    return say("there is no {name}; {hint}", name=place, hint=instead_of(name) or hint)


def _value_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _line_of(text: str, keys: Sequence[str]) -> int:
    import tomllib

    # The value begins in the line after the longest beginning of the file that can be parsed and does not have it yet.
    lines, last = text.splitlines(), 0
    for count in range(len(lines) + 1):
        try:
            found: Any = tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:  # the text ends within a value
            continue
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            break
        last = count
    return last + 1


def _syntax_fault(path: Path, text: str, said: str) -> str:
    lines = text.splitlines() or [""]
    at = re.search(r"line (\d+)", said)
    number = min(int(at[1]) if at else len(lines), len(lines))
    return say(
        "{path}, line {line}: '{text}' cannot be read ({cause}); write name = value, each name once, and texts and "
        "Japanese names in plain double quotes",
        path=path,
        line=number,
        text=lines[number - 1].strip()[:80],
        cause=re.sub(r" \(at .*\)$", "", said),
    )
