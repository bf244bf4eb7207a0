"""The messages: each sentence that is said is a literal with its Japanese, no Japanese is left over, the values agree.

tests/project/test_project.py looks at the docstrings of names that no user sees."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from typing import Any

import jinja2
import pytest
from support.package_modules import PACKAGE, modules

from socjudge import errors
from socjudge.base import messages
from socjudge.base.messages import say

SENTENCES: dict[str, str] = tomllib.loads((PACKAGE / "messages" / "ja.toml").read_text("utf-8"))
del SENTENCES["columns"]  # of which test_showing.py sees
ERRORS = {name for name, found in vars(errors).items() if isinstance(found, type)} | {"NotAgreed", "Uncertified"}
SAYING = {"say", "explained", "tell", "option"} | ERRORS
NODES = [(place, node) for place, tree in modules().items() for node in ast.walk(tree)]
PAGES = [
    (path.name, node)
    for path in PACKAGE.rglob("*.j2")
    for node in jinja2.Environment().parse(path.read_text("utf-8")).find_all((jinja2.nodes.Call, jinja2.nodes.Const))
]
CONSTANTS = (ast.Constant, jinja2.nodes.Const)
JAPANESE = re.compile("[、-ヿ一-龠（）：]")


def said() -> Iterator[tuple[str, Any, set[Any] | None]]:
    """(place, what is said, names of the values that are given, None if they come as **values) of each call."""
    for place, call in NODES:
        name = getattr(call, "func", None) and getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name in SAYING and (arguments := getattr(call, "args", [])):
            given: dict[str | None, Any] = {each.arg: each.value for each in call.keywords}  # type: ignore[attr-defined]
            known = None if None in given else {*given, *(["reason"] if name == "explained" else [])}
            branches = [arguments[0]]
            for each in branches:
                if isinstance(each, ast.IfExp):
                    branches += [each.body, each.orelse]
                elif isinstance(each, ast.Constant) or (each and name not in ERRORS):  # which take a text as it is, too
                    yield f"{place}:{each.lineno}", each, known
    for place, call in PAGES:
        if getattr(getattr(call, "node", None), "name", "") == "say":
            yield place, call.args[0], None if call.dyn_kwargs else {each.key for each in call.kwargs}  # type: ignore[attr-defined]


def values(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field}


def test_each_message_is_a_literal_with_its_japanese_and_the_values_that_both_have() -> None:
    built = [place for place, each, _ in said() if isinstance(each, (ast.BinOp, ast.JoinedStr))]
    told = [(place, each.value, names) for place, each, names in said() if isinstance(each, CONSTANTS)]
    unknown = [each for each in told if not {each[1], each[1][:1].lower() + each[1][1:]} & SENTENCES.keys()]
    assert (built, unknown) == ([], [])
    assert [each for each in told if each[2] is not None and not values(each[1]) <= each[2]] == []
    assert [english for english, japanese in SENTENCES.items() if values(english) != values(japanese)] == []
    # A sentence of a literal set is chosen before it is said.
    assert SENTENCES.keys() <= {getattr(node, "value", None) for _, node in [*NODES, *PAGES]}


def test_a_sentence_is_in_english_and_its_japanese_is_japanese() -> None:
    assert not [english for english in SENTENCES if JAPANESE.search(re.sub("「[^」]*」", "", english))]
    assert {text for text in SENTENCES.values() if not JAPANESE.search(text)} <= {"Judge", "socjudge"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ("", "ja"), ("LANG=C.UTF-8", "ja"), ("LANG=ja_JP.UTF-8", "ja"), ("LANG=en_US.UTF-8", "en"),
        ("LANG=ja_JP.UTF-8 LC_ALL=de_DE.UTF-8", "en"), ("LANG=en_US.UTF-8 SOCJUDGE_LANG=ja", "ja"),
        ("LANG=ja_JP.UTF-8 SOCJUDGE_LANG=en", "en"),
    ],
)  # fmt: skip
def test_the_language_is_chosen_by_the_variable_the_locale_or_a_call(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, environment: str, expected: str
) -> None:
    for name in ("SOCJUDGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for each in environment.split():
        monkeypatch.setenv(*each.split("="))
    messages._locale_language.cache_clear()  # a process does not change its locale
    request.addfinalizer(messages._locale_language.cache_clear)
    assert messages.language() == expected
    with messages.speaking("en"):
        assert say("lacks {names}", names="{question}") == "lacks {question}"
        assert say("lacks {names}", names="{question}", lang="ja") == "不足: {question}"
