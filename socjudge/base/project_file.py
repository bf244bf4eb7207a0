"""Check `socjudge.toml`: define what the file may contain, and report every fault with its line and the name of the
setting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ..errors import ConfigError
from ..records import Rubric
from .former_names import instead_of
from .json_files import decoded
from .messages import Language, listed, os_reason, say

Tables = dict[str, dict[str, Any]]  # {table: {key: value}}, only what the file contains
Check = Callable[[Any], str]  # returns why a value is not valid; "" if it is valid


def read_project_file(path: Path) -> Tables:
    """Read and check socjudge.toml. Return {} if there is no such file. Raises a ConfigError that names every fault."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            "{path}: the settings cannot be read ({reason})", path=path, reason=os_reason(error)
        ) from None
    try:
        text = decoded(raw)
    except ValueError as error:
        raise ConfigError("{path}: the settings cannot be read ({reason})", path=path, reason=error) from None
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> Tables:
    import tomllib

    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_syntax_fault(path, text, str(error))) from None
    # a description is looked at once the criteria are known to be names
    if faults := list(_faults(found)) or list(_description_faults(found.get("rubric", {}))):
        told = [
            say("{path}, line {line}: {what}", path=path, line=_line_of(text, keys), what=what) for keys, what in faults
        ]
        raise ConfigError("\n".join(told))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value == value.strip()


def _names(value: Any) -> str:
    if not isinstance(value, list) or not value or not all(map(_is_text, value)):
        return say("write a list of names")
    twice = [name for name in dict.fromkeys(value) if value.count(name) > 1]
    return say("the same name stands there twice: {names}; write each once", names=listed(twice)) if twice else ""


def _criteria(value: Any) -> str:
    return _names(value) or _of_rubric("criteria")(value)


def _of_rubric(field: str) -> Check:
    def check(value: Any) -> str:
        try:
            Rubric(**{field: value})
        except ConfigError as error:
            return str(error)
        return ""

    return check


DEAREST_USD = 1e6  # US dollars per million tokens; with higher prices, sums of costs would soon overflow


def _unless(fits: Callable[[Any], bool], key: str) -> Check:
    return lambda value: "" if fits(value) else say(key)


_text = _unless(_is_text, "write a text in double quotes, not empty and without blanks around it")
_count = _unless(lambda value: type(value) is int and 1 <= value <= 1000, "write a whole number from 1 to 1000")
_dollars = _unless(
    lambda value: _is_number(value) and value >= 0, "write a number of US dollars, 0 or more; inf is no cap"
)  # inf means no cap
_price = _unless(
    lambda value: _is_number(value) and 0 <= value <= DEAREST_USD,
    "write the US dollars per million tokens, a number from 0 to a million",
)
_rate = _unless(
    lambda value: _is_number(value) and 0 < value < float("inf"), "write a number above 0: how many yen a dollar is"
)
_texts = _unless(
    lambda value: isinstance(value, dict) and all(isinstance(text, str) and text.strip() for text in value.values()),
    'below a line [rubric.descriptions], write "name of the criterion" = "what is looked at" for each',
)
_language = _unless(lambda value: value in get_args(Language), 'write "ja" or "en"')


class Setting(NamedTuple):
    """Describe a setting of socjudge.toml."""

    check: Check
    about: str  # the sentence that explains the setting
    constant: str = ""  # the name of the constant in constants.py that has the default value
    usual: Any = None  # the default value of a setting for which there is no such constant


# The settings of each table, in the order in which they are shown.
SETTINGS: dict[str, dict[str, Setting]] = {
    "rubric": {
        "criteria": Setting(_criteria, "the criteria, all of them", "JUDGE_EVALUATION_CRITERIA"),
        "pass_threshold": Setting(
            _of_rubric("pass_threshold"), "the pass line, 0 to 100 points", "JUDGE_PASS_THRESHOLD"
        ),
        "pass_rate": Setting(
            _of_rubric("pass_rate"), "the share of the questions that must pass, 0 to 1", "JUDGE_PASS_RATE"
        ),
        "judge_prompt": Setting(
            _text,
            "the judge prompt, such as one of your own in eval/prompts/; left out, the one that fits the criteria",
            "DEFAULT_JUDGE_PROMPT",
        ),
        "descriptions": Setting(
            _texts, "what criteria of your own look at, a line for each; their names stand in double quotes", usual={}
        ),
    },
    "dataset": {
        "categories": Setting(_names, "the categories of questions, in the order of charts", "QUESTION_CATEGORIES")
    },
    "defaults": {
        "judge_model": Setting(
            _text, 'the judge; "auto" may be the embedded one where there is no key', "DEFAULT_JUDGE_MODEL"
        ),
        "assistant_model": Setting(
            _text, 'the assistant; "auto" may be the embedded one where there is no key', "DEFAULT_ASSISTANT_MODEL"
        ),
        "assistant_prompt": Setting(_text, "the assistant's prompt", "DEFAULT_ASSISTANT_PROMPT"),
        "answers": Setting(
            _text,
            "the assistant of your own that is judged (a table [assistants.…], or a file of answers); empty "
            "for socjudge's",
            usual="",
        ),
        "k": Setting(_count, "how many passages of the runbooks an answer is made from", usual=10),
        "max_cost_usd": Setting(_dollars, "the most that a run may cost, in US dollars; inf is no cap", usual=math.inf),
        "language": Setting(_language, 'the language of messages, "ja" or "en"; the variable SOCJUDGE_LANG goes first'),
        "jpy_per_usd": Setting(_rate, "how many yen a dollar is, for prices in yen", "JPY_PER_USD"),
    },
    "report": {
        "title": Setting(_text, "the title of reports, such as the name of the assistant", usual=""),
        "team": Setting(_text, "the team, for reports", usual=""),
    },
}
ASSISTANTS = (
    "assistants"  # one table per assistant; its keys are checked when it is opened (answering/own_assistant.py)
)
PRICES = "prices"  # one table per model, with these two keys
_PRICE = {
    name: Setting(_price, '[prices."{model}"] needs input and output, in US dollars per million tokens')
    for name in ("input", "output")
}


_Fault = tuple[Sequence[str], str]  # the keys that lead to the value, and what is wrong with it
_NO_TABLE = "{name} is a table; write a line [{name}] and the settings below it"


def _faults(found: Mapping[str, Any]) -> Iterator[_Fault]:
    tables = [*SETTINGS, PRICES, ASSISTANTS]
    for name, table in found.items():
        if name not in tables:
            yield (name,), _unknown(name, tables, "there is no table [{name}]; {hint}")
        elif not isinstance(table, dict):
            yield (name,), say(_NO_TABLE, name=name)
        elif name == ASSISTANTS:
            for key, inner in table.items():
                if not isinstance(inner, dict):
                    yield (name, key), say(_NO_TABLE, name=f"{name}.{key}")
        elif name == PRICES:
            for model, row in table.items():
                yield from _price_faults(model, row)
        else:
            yield from _table_faults((name,), table, SETTINGS[name])


def _description_faults(rubric: Mapping[str, Any]) -> Iterator[_Fault]:
    known = rubric.get("criteria", Rubric().criteria)
    for name in rubric.get("descriptions", {}):
        if name not in known:
            told = _unknown(
                name,
                known,
                "[rubric.descriptions] '{name}' is no criterion; {hint} (add a new criterion to criteria in [rubric] too)",
                is_setting=False,
            )
            yield ("rubric", "descriptions", name), told


def _table_faults(at: tuple[str, ...], table: Mapping[str, Any], settings: Mapping[str, Setting]) -> Iterator[_Fault]:
    shown = ".".join(at)
    for key, value in table.items():
        if key not in settings:
            told = f"[{shown}] " + _unknown(key, list(settings), "there is no setting '{name}'; {hint}")
            yield (*at, key), told
        elif why := settings[key].check(value):
            told = say(
                "[{table}] {key} = {value} will not do: {why}", table=shown, key=key, value=_shown(value), why=why
            )
            yield (*at, key), told


def _price_faults(model: str, row: Any) -> Iterator[_Fault]:
    at = (PRICES, model)
    if isinstance(row, dict) and _PRICE.keys() <= row.keys():
        yield from _table_faults(at, row, _PRICE)
    else:
        yield at, say('[prices."{model}"] needs input and output, in US dollars per million tokens', model=model)


def _unknown(name: str, known: Sequence[str], sentence: str, *, is_setting: bool = True) -> str:
    import difflib  # only needed if something is misspelt

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    home = [table for table, settings in SETTINGS.items() if name in settings]
    if home and is_setting:
        hint = say("that setting belongs into the table [{table}]", table=home[0])
    else:
        hint = say("did you mean '{name}'?", name=near[0]) if near else say("there are {names}", names=listed(known))
    instead = instead_of(name) if is_setting else ""
    return "\n".join(filter(None, [say(sentence, name=name, hint=hint), instead]))


def _shown(value: Any) -> str:
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


_BARE = re.compile(r"""[^"'#=\[]*[^\x00-\x7f"'#=\[][^"'#=]*=|\[[^"']*[^\x00-\x7f]""")
_TWICE = ("overwrite", "twice", "Duplicate", "immutable")


def _syntax_fault(path: Path, text: str, said: str) -> str:
    lines = text.splitlines() or [""]
    at = re.search(r"line (\d+)", said)
    number = min(int(at[1]) if at else len(lines), len(lines))
    line = lines[number - 1].strip()
    key = "'{text}' cannot be read ({cause}); write name = value, and texts in plain double quotes"
    if any(word in said for word in _TWICE):
        key = "the same name stands there twice ('{text}'); remove one"
    elif _BARE.match(line):
        key = "'{text}': put a Japanese name in double quotes; = and quotes are the plain ones"
    cause = re.sub(r" \(at .*\)$", "", said)
    return say("{path}, line {line}: {what}", path=path, line=number, what=say(key, text=line[:80], cause=cause))
