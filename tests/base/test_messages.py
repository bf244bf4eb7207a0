"""The messages: each English sentence that is said has its Japanese, with the same values, and none stands elsewhere."""

from __future__ import annotations

import ast
import functools
import re
import string
import tomllib
from collections.abc import Iterator
from typing import NamedTuple, get_args

import jinja2
import pytest
from conftest import TYPED
from support.package_modules import PACKAGE, tree_of

from socjudge import errors
from socjudge.base import messages
from socjudge.base.messages import say
from socjudge.base.verdict import FINISHED, SUMMARY
from socjudge.cli.shared import COSTS_MONEY, _cause
from socjudge.judging.judge import count_retries
from socjudge.records import SPECIFIED_CRITERIA

SENTENCES: dict[str, str] = tomllib.loads((PACKAGE / "messages" / "ja.toml").read_text(encoding="utf-8"))
MODULES = sorted(PACKAGE.rglob("*.py"))
TELLING = {"warn", "echo", "secho", "print"}  # calls that a user reads, beside the errors
OWN_ERRORS = {name for name, found in vars(errors).items() if isinstance(found, type)}
SAYING = {"say", "explained", *OWN_ERRORS}  # which take an English sentence and its values
ERRORS = ("ValueError", "OSError", "FileNotFoundError")  # which become the end of a message
NO_MESSAGES = {"AssertionError", "TypeError", "_Unusual", "compile"}  # for us
JAPANESE = re.compile("[、-ヿ一-龠（）：]")  # with their punctuation
LETTERS = re.compile("[ぁ-んァ-ヶ一-龠]")
NAMES = {"Judge", "socjudge"}  # which Japanese has as they are
# What no panel shows: the command line, files that are imported, pages that it writes too, tables of a notebook.
NOT_IN_PANELS = re.compile(
    r"(cli|report|stats)/|history/(doctor|frames)|certify/issue|runs/(executor|suite)|settings|base/former_names"
)
# Whose Japanese is that of answers, of prompts, of what is looked for in them, or of the damage done to them.
MATERIAL = re.compile(
    r"constants|embedded/|flags/|models/decision_model"
    r"|base/(quoting|texts)"
    r"|certify/(anchoring|damages|injections|items|neutral)"
    r"|cli/(own_assistant)"
    r"|answering/(assistant|citations|dataset|own_answers|stored_answers)"
    r"|judging/(judge|replies|shown_verdicts)"
    r"|prompts/(for_rubric)"
    r"|runbooks/(bm25|asking|excel|guide|points|reading|word)"
)
# The specification's words; values in frames and certificates; what is in answers, prompts and runbooks; what is typed.
KEPT = {*SPECIFIED_CRITERIA, FINISHED, SUMMARY, COSTS_MONEY, "[出典: ", *"""
評価を実行
🧪 評価実行
⏳ 評価を実行中... これには数分かかる場合があります
⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）
📋 詳細結果を見る
✅ MVP合格
❌ MVP不合格
MVP合格
MVP不合格
\\[出典: [^\\]]*\\]
合格
不合格
判定保留
不合格→合格
合格→不合格
合格のまま
不合格のまま
比較対象外
総合
常に合格
長いほど良い
安全性
信頼できる
条件つき
信頼できない
分からない
（モデルの応答が空でした。回答はありません。）
責任者
承認
と承認
または
あり
なし
[ァ-ヺー]{4,}
ぁ
 > |[とのやへ・、（）()]
はい
""".strip().split("\n")}  # fmt: skip


class Said(NamedTuple):
    """values: the names of those that are given; None if they come as **values."""

    place: str
    sentence: str
    values: set[str] | None
    in_panel: bool


@functools.cache
def nodes() -> list[tuple[str, ast.Call | ast.Constant]]:
    return [
        (place, node)
        for path in MODULES
        for place in [path.relative_to(PACKAGE).as_posix()]
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.Call, ast.Constant))
    ]


def name_of(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "id", getattr(called, "attr", ""))


def pages() -> Iterator[tuple[str, jinja2.nodes.Template]]:
    for path in sorted(PACKAGE.rglob("*.j2")):
        yield path.relative_to(PACKAGE).as_posix(), jinja2.Environment().parse(path.read_text(encoding="utf-8"))


def said() -> Iterator[Said]:
    """Each literal that is said."""
    for place, call in nodes():
        if isinstance(call, ast.Call) and name_of(call) in SAYING and call.args:
            given = {each.arg: each.value for each in call.keywords}
            known = None if None in given else {*given} | ({"reason"} if name_of(call) == "explained" else set())
            branches = [(call.args[0], False), (given.get("panel"), True)]
            while branches:
                each, in_panel = branches.pop()
                if isinstance(each, ast.IfExp):
                    branches += [(each.body, in_panel), (each.orelse, in_panel)]
                elif isinstance(each, ast.Constant):
                    yield Said(f"{place}:{call.lineno}", each.value, known, in_panel)
    for place, page in pages():
        for call in page.find_all(jinja2.nodes.Call):
            if getattr(call.node, "name", "") == "say" and isinstance(call.args[0], jinja2.nodes.Const):
                yield Said(place, call.args[0].value, None if call.dyn_kwargs else {x.key for x in call.kwargs}, False)


def texts(node: ast.AST, *apart: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each text below a node that is no message, docstring or repr, nor given to one of `apart`."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if is_docstring or name_of(child) in {*SAYING, *apart} or getattr(child, "name", "") == "__repr__":
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value not in SENTENCES:
            yield child.lineno, child.value
        yield from texts(child, *apart)


def values(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field}


def test_each_sentence_that_is_said_has_its_japanese_and_its_values() -> None:
    assert [each for each in said() if each.sentence not in SENTENCES] == []
    assert [each for each in said() if each.values is not None and not values(each.sentence) <= each.values] == []


def test_all_japanese_is_used_and_has_the_values_of_the_english() -> None:
    # A sentence may be chosen before it is said.
    used = {getattr(node, "value", None) for _, node in nodes() if isinstance(node, ast.Constant)}
    used |= {each.value for _, page in pages() for each in page.find_all(jinja2.nodes.Const)}
    assert set(SENTENCES) <= used
    assert [english for english, japanese in SENTENCES.items() if values(english) != values(japanese)] == []


def test_a_sentence_is_in_english_and_its_japanese_is_japanese() -> None:
    quoted = re.compile("「[^」]*」")
    assert not [english for english in SENTENCES if JAPANESE.search(quoted.sub("", english))]
    assert not [japanese for japanese in SENTENCES.values() if not JAPANESE.search(japanese) and japanese not in NAMES]


def test_what_a_panel_shows_names_no_option_argument_or_command() -> None:
    outside = {each.place for each in said() if each.in_panel}  # what is said there outside panels
    for place, sentence, _, in_panel in said():
        if in_panel or not (NOT_IN_PANELS.match(place) or place in outside):
            assert not TYPED.search(f"{sentence} {SENTENCES[sentence]}"), f"{place}: say it with panel=…"


def test_a_message_has_its_panels_words_within_a_panel_alone() -> None:
    def told() -> str:
        return say("{count} (--fresh)", panel="tick the box, {count}", count=3)

    assert told() == "3 (--fresh)"
    with messages.in_panel():
        assert told() == "tick the box, 3"
    assert told() == "3 (--fresh)"


def test_no_message_stands_in_the_code() -> None:
    """Neither where it is told, nor where it waits for that, such as in a variable or in a list of problems."""
    stray = [
        f"{place}:{line}: {text[:60]!r}"
        for place, node in nodes()
        if name_of(node) in TELLING or name_of(node).endswith(ERRORS)
        for line, text in texts(ast.Tuple(getattr(node, "args", [])))
        if re.search(r"\w \w|[ぁ-ん]", text)
    ]
    stray += [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]!r}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] not in ("certify", "stats")  # which name methods
        for line, text in texts(tree_of(path), *NO_MESSAGES)
        if text not in KEPT
        and not text.startswith(("<", ";", COSTS_MONEY))
        and re.search(r"[A-Za-z,;:)]+ [a-z]+ [A-Za-z(]+", text)
    ]
    assert stray == []


def test_no_japanese_stands_in_the_code() -> None:
    stray = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]!r}"
        for path in MODULES
        if not MATERIAL.match(path.relative_to(PACKAGE).as_posix())
        for line, text in texts(tree_of(path))
        if LETTERS.search(text) and text not in KEPT
    ]
    stray += [
        f"{path.name}:{number}: {line.strip()[:60]!r}"
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".html", ".j2", ".js")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for text in re.findall('"[^"]*"|[^"]+', re.sub(r'say\("(?:[^"\\]|\\.)*"', "", line))
        if LETTERS.search(text) and text.strip('"') not in KEPT
    ]
    assert stray == []


def test_what_is_read_out_of_a_message_is_found_in_both_languages() -> None:
    """A run may be taken up, and a log read, in another language than the one they were written in."""
    for lang in get_args(messages.Language):
        told = [say("retried: {cause}", lang=lang, cause=cause) for cause in ("HTTP 429", "HTTP 500")]
        assert count_retries("; ".join(told)) == 2
        last = say("last with: {cause}", lang=lang, cause="HTTP 500")
        assert (
            _cause(say("{what}: failed {count} times, {last}", lang=lang, what="a model", count=3, last=last))
            == "HTTP 500"
        )
        assert (
            _cause(
                say(
                    "{where} refused the request ({status}): {said}",
                    lang=lang,
                    where="a model",
                    status=400,
                    said="too long",
                )
            )
            == "too long"
        )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "ja"),
        ({"LANG": "C.UTF-8"}, "ja"),
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "de_DE.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "SOCJUDGE_LANG": "ja"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "SOCJUDGE_LANG": "en"}, "en"),
    ],
)
def test_the_language_is_chosen_by_the_variable_the_locale_or_a_call(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("SOCJUDGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    messages._locale_language.cache_clear()  # a process does not change its locale
    try:
        assert messages.language() == expected
        with messages.speaking("en"):
            assert say("lacks {names}", names="{question}") == "lacks {question}"
            assert say("lacks {names}", names="{question}", lang="ja") == "不足: {question}"
    finally:
        messages._locale_language.cache_clear()
