"""The messages: each English sentence that is said has its Japanese, with the same values, and none stands elsewhere."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator

import jinja2
import pytest
from conftest import DATA, TYPED
from support.package_modules import PACKAGE, modules

from socjudge import errors
from socjudge.base import messages
from socjudge.base.messages import say
from socjudge.base.verdict import FINISHED, SUMMARY
from socjudge.cli.run import cause_of
from socjudge.cli.shared import COSTS_MONEY
from socjudge.judging.judge import count_retries

SENTENCES: dict[str, str] = tomllib.loads((PACKAGE / "messages" / "ja.toml").read_text("utf-8"))
GUIDE = (DATA / "EVAL_GUIDE.ja.md").read_text("utf-8")  # whose words are Japanese in every language
# Calls that take an English sentence and its values; calls that a user reads, and errors that end a message; ours.
SAYING = {"say", "explained", "tell", "option", "NotAgreed", "Uncertified"} | {
    name for name, found in vars(errors).items() if isinstance(found, type)
}
TELLING = re.compile(r"warn|s?echo|print|.*(ValueError|OSError|FileNotFoundError)")
NO_MESSAGES = {"AssertionError", "TypeError", "compile"}
JAPANESE, LETTERS = re.compile("[、-ヿ一-龠（）：]"), re.compile("[ぁ-んァ-ヶ一-龠]")
# What no panel shows: the command line, files that are imported, pages that it writes too, tables of a notebook.
NOT_IN_PANELS = re.compile(
    r"(cli|report|stats)/|history/(doctor|frames)|certify/issue|runs/(executor|suite)|settings|base/former_names"
)
# Whose Japanese is that of answers, of prompts, of what is looked for in them, or of the damage done to them.
MATERIAL = re.compile(
    r"constants|(embedded|flags)/|models/decision_model|base/(quoting|texts)|cli/ask|prompts/for_rubric"
    r"|certify/(changes|damages|subjects)|judging/(judge|replies|shown_verdicts)"
    r"|answering/(assistant|citations|dataset|own_answers|stored_answers)"
    r"|runbooks/(bm25|asking|excel|guide|points|reading|word)"
)
# Beside the specification's words: values in frames and certificates; what is in answers and runbooks; what is typed.
KEPT = {
    *["判定保留", "不合格→合格", "合格→不合格", "合格のまま", "不合格のまま", "比較対象外", "常に合格", "信頼できる", "条件つき"],
    *["信頼できない", "分からない", "責任者", "承認", "と承認", "なし", "はい"], r"\[出典: [^\]]*\]", "[出典: ",
    " > |[とのやへ・、（）()]", "（モデルの応答が空でした。回答はありません。）", "⏳ 評価を実行中... これには数分かかる場合があります",
    "⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）", COSTS_MONEY, FINISHED, SUMMARY,
}  # fmt: skip
NODES = [
    (place, node)
    for place, tree in modules().items()
    for node in ast.walk(tree)
    if isinstance(node, (ast.Call, ast.Constant))
]
PAGES = [
    (path.relative_to(PACKAGE).as_posix(), jinja2.Environment().parse(path.read_text("utf-8")))
    for path in PACKAGE.rglob("*.j2")
]


def name_of(node: ast.AST) -> str:
    called = getattr(node, "func", None)
    return getattr(called, "id", getattr(called, "attr", ""))


def said() -> Iterator[tuple[str, str, set[str] | None, bool]]:
    """(place, sentence, names of the values that are given, whether in a panel alone) of each literal that is said. The
    names are None if they come as **values."""
    for place, call in NODES:
        if name_of(call) in SAYING and (arguments := getattr(call, "args", [])):
            given = {each.arg: each.value for each in call.keywords}  # type: ignore[union-attr]
            known = None if None in given else {*given, "reason"} if name_of(call) == "explained" else {*given}
            branches = [(arguments[0], False), (given.get("panel"), True)]
            for each, in_panel in branches:
                if isinstance(each, ast.IfExp):
                    branches += [(each.body, in_panel), (each.orelse, in_panel)]
                elif isinstance(each, ast.Constant):
                    yield f"{place}:{call.lineno}", each.value, known, in_panel
    for name, page in PAGES:
        for call in page.find_all(jinja2.nodes.Call):
            if getattr(call.node, "name", "") == "say" and isinstance(call.args[0], jinja2.nodes.Const):
                yield name, call.args[0].value, None if call.dyn_kwargs else {x.key for x in call.kwargs}, False


def texts(place: str, node: ast.AST, *apart: str) -> Iterator[tuple[str, str]]:
    """(where, text) of each text below a node that is no message, docstring or repr, nor given to one of `apart`."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if is_docstring or name_of(child) in {*SAYING, *apart} or getattr(child, "name", "") == "__repr__":
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value not in SENTENCES:
            yield f"{place}:{child.lineno}", child.value
        yield from texts(place, child, *apart)


def values(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field}


def test_each_sentence_that_is_said_has_its_japanese_and_all_japanese_is_used_with_the_same_values() -> None:
    assert [each for each in said() if each[1] not in SENTENCES] == []
    assert [each for each in said() if each[2] is not None and not values(each[1]) <= each[2]] == []
    # A sentence may be chosen before it is said.
    used = {getattr(node, "value", None) for _, node in NODES}
    used |= {each.value for _, page in PAGES for each in page.find_all(jinja2.nodes.Const)}
    assert set(SENTENCES) <= used
    assert [english for english, japanese in SENTENCES.items() if values(english) != values(japanese)] == []


def test_a_sentence_is_in_english_and_its_japanese_is_japanese() -> None:
    assert not [english for english in SENTENCES if JAPANESE.search(re.sub("「[^」]*」", "", english))]
    assert {text for text in SENTENCES.values() if not JAPANESE.search(text)} <= {"Judge", "socjudge"}


def test_what_a_panel_shows_names_no_option_argument_or_command() -> None:
    outside = {place for place, *_, in_panel in said() if in_panel}  # what is said there outside panels
    for place, sentence, _, in_panel in said():
        if in_panel or not (NOT_IN_PANELS.match(place) or place in outside):
            assert not TYPED.search(f"{sentence} {SENTENCES[sentence]}"), f"{place}: say it with panel=…"


def test_no_message_stands_in_the_code() -> None:
    """Neither where it is told, nor where it waits for that, such as in a variable or in a list of problems."""
    told = [(place, ast.Tuple(getattr(node, "args", []))) for place, node in NODES if TELLING.fullmatch(name_of(node))]
    stray = [each for place, node in told for each in texts(place, node) if re.search(r"\w \w|[ぁ-ん]", each[1])]
    stray += [
        each
        for place, tree in modules().items()
        if not place.startswith(("certify", "stats"))  # which name methods
        for each in texts(place, tree, *NO_MESSAGES)
        if re.search(r"[A-Za-z,;:)]+ [a-z]+ [A-Za-z(]+", each[1])
        and each[1] not in KEPT
        and not each[1].startswith(("<", ";", COSTS_MONEY))
    ]
    assert stray == []


def test_no_japanese_stands_in_the_code() -> None:
    found = [each for place, tree in modules().items() if not MATERIAL.match(place) for each in texts(place, tree)]
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".html", ".j2", ".js"):
            rest = re.sub(r'say\("(?:[^"\\]|\\.)*"', "", path.read_text("utf-8"))
            found += [(path.name, text.strip('"')) for text in re.findall(r'"[^"\n]*"|[^"\n]+', rest)]
    assert [each for each in found if LETTERS.search(each[1]) and each[1] not in KEPT and each[1] not in GUIDE] == []


def test_a_message_is_in_the_language_asked_for_with_a_panels_words_within_a_panel_alone() -> None:
    def told() -> str:
        return say("{count} (--fresh)", panel="tick the box, {count}", count=3)

    assert told() == "3 (--fresh)"
    with messages.in_panel():
        assert told() == "tick the box, 3"
    assert told() == "3 (--fresh)"
    # A run may be taken up, and a log read, in another language than the one they were written in.
    for lang in ("ja", "en"):
        with messages.speaking(lang):
            assert count_retries("; ".join(say("retried: {cause}", cause=f"HTTP {code}") for code in (429, 500))) == 2
            last = say("last with: {cause}", cause="HTTP 500")
            assert cause_of(say("{what}: failed {count} times, {last}", what="m", count=3, last=last)) == "HTTP 500"
            no = say("{where} refused the request ({status}): {said}", where="a model", status=400, said="too long")
            assert cause_of(no) == "too long"


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
