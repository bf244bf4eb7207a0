"""The messages: each English sentence in the code has its Japanese, with the same values, and nothing stands beside them."""

from __future__ import annotations

import ast
import functools
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import jinja2.nodes
import pytest
from conftest import TYPED
from package_modules import PACKAGE, tree_of

from socjudge.base import messages
from socjudge.base.messages import say
from socjudge.base.verdict import FINISHED, SUMMARY
from socjudge.cli.shared import COSTS_MONEY, _cause
from socjudge.judging.judge import count_retries
from socjudge.records import SPECIFIED_CRITERIA

CATALOGUE = {
    f"{path.stem}.{name}": texts
    for path in sorted((PACKAGE / "messages").glob("*.toml"))
    if path.stem != "ja"
    for name, texts in tomllib.loads(path.read_text(encoding="utf-8")).items()
}
SENTENCES: dict[str, str] = tomllib.loads((PACKAGE / "messages" / "ja.toml").read_text(encoding="utf-8"))
KEY = re.compile(r"[a-z_]+\.[a-z0-9_]+")
# Whose messages are all in the catalogue.
WINGS = [
    "base",
    "certify",
    "charts",
    "cli",
    "history",
    "judging",
    "models",
    "panels/state",
    "prompts",
    "report",
    "rules",
    "runbooks",
    "runs",
    "stats",
    "records.py",
    "settings.py",
]
# Which name methods.
UNCHECKED = ("certify", "stats")
# Whose labels, headings and other words are there too; what they hold of Japanese is for all languages.
WORDED = [
    "base",
    "certify",
    "charts",
    "cli",
    "history",
    "judging",
    "panels",
    "prompts",
    "report",
    "runbooks",
    "runs",
    "stats",
]
WORDED += ["records.py"]
# But for these, whose Japanese is that of answers, of prompts, of what is looked for in them, or of the damage done to them.
MATERIAL = {
    "base/quoting.py",
    "base/texts.py",
    "certify/anchoring.py",
    "certify/damages.py",
    "certify/injections.py",
    "certify/items.py",
    "certify/neutral.py",
    "cli/own_assistant.py",
    "judging/assistant.py",
    "judging/citations.py",
    "judging/dataset.py",
    "judging/own_answers.py",
    "judging/stored_answers.py",
    "judging/judge.py",
    "judging/reasons.py",
    "judging/replies.py",
    "judging/shown_verdicts.py",
    "prompts/for_rubric.py",
    "runbooks/bm25.py",
    "runbooks/asking.py",
    "runbooks/guide.py",
    "runbooks/points.py",
    "runbooks/reading.py",
}
KEPT = {
    # the specification's words
    *SPECIFIED_CRITERIA,
    FINISHED,
    SUMMARY,
    COSTS_MONEY,
    "評価を実行",
    "🧪 評価実行",
    "⏳ 評価を実行中... これには数分かかる場合があります",
    "⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）",
    "📋 詳細結果を見る",
    "✅ MVP合格",
    "❌ MVP不合格",
    "MVP合格",
    "MVP不合格",
    r"\[出典: [^\]]*\]",
    # values in frames and certificates
    "合格",
    "不合格",
    "判定保留",
    "不合格→合格",
    "合格→不合格",
    "合格のまま",
    "不合格のまま",
    "比較対象外",
    "総合",
    "常に合格",
    "長いほど良い",
    "安全性",
    "信頼できる",
    "条件つき",
    "信頼できない",
    "分からない",
    # in answers and prompts, whoever reads them
    "（モデルの応答が空でした。回答はありません。）",
    "[出典: ",
    "責任者",
    "承認",
    "と承認",
    "または",
    "あり",
    "なし",
    # what is looked for in runbooks
    "[ァ-ヺー]{4,}",
    "ぁ",
    " > |[とのやへ・、（）()]",
    # what may be typed
    "はい",
}
TELLING = {"warn", "echo", "secho", "print"}  # calls that a user reads, beside the errors
ERRORS = ("ConfigError", "ProviderError", "RequestRefused", "UnparsableJudgement", "RunStopped", "BudgetReached")
ERRORS += ("ValueError", "OSError", "FileNotFoundError")  # which become the end of a message
NO_MESSAGES = {"AssertionError", "TypeError", "_Unusual", "compile"}  # for us
JAPANESE = re.compile("[、-ヿ一-龠（）：]")  # with their punctuation
NAMES = {"Judge", "socjudge"}  # which Japanese has as they are


@functools.cache
def calls() -> list[tuple[Path, ast.Call, str]]:
    """Each call in the package with the name that is called."""
    return [
        (path, node, getattr(node.func, "id", getattr(node.func, "attr", "")))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
    ]


def template_calls() -> Iterator[tuple[Path, jinja2.nodes.Call]]:
    """Each message that a page says."""
    for path in sorted(PACKAGE.rglob("*.j2")):
        for call in jinja2.Environment().parse(path.read_text(encoding="utf-8")).find_all(jinja2.nodes.Call):
            is_say = isinstance(call.node, jinja2.nodes.Name) and call.node.name == "say"
            if is_say and isinstance(call.args[0], jinja2.nodes.Const):
                yield path, call


def sentences(node: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each English sentence in the code: three words at least, and no HTML, docstring or repr."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_repr = isinstance(child, ast.FunctionDef) and child.name == "__repr__"
        called = child.func if isinstance(child, ast.Call) else None
        is_for_us = getattr(called, "id", getattr(called, "attr", "")) in {*NO_MESSAGES, "say", "explained"}
        if is_docstring or is_repr or is_for_us:
            continue
        text = child.value if isinstance(child, ast.Constant) else None
        if (
            isinstance(text, str)
            and not text.startswith(("<", COSTS_MONEY))
            and re.search(r"[A-Za-z,;:)]+ [a-z]+ [A-Za-z(]+", text)
        ):
            yield child.lineno, text
        yield from sentences(child)


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each text in the code but docstrings."""
    for child in ast.iter_child_nodes(node):
        is_said = isinstance(child, ast.Call) and getattr(child.func, "id", "") in ("say", "explained")
        if is_said or (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value
        yield from texts(child)


def values(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("wing", sorted({key.partition(".")[0] for key in CATALOGUE}))
def test_a_message_has_both_languages_with_the_same_values(wing: str) -> None:
    wrong = {
        "lack a language": lambda texts: set(texts) not in ({"ja", "en"}, {"ja", "en", "ja_panel", "en_panel"}),
        "have other values": lambda texts: values(texts["ja"]) != values(texts["en"]),
        "have other values in a panel": lambda texts: any(
            not values(texts.get(f"{lang}_panel", "")) <= values(texts["ja"]) for lang in ("ja", "en")
        ),
        "are not Japanese": lambda texts: not JAPANESE.search(texts["ja"]) and texts["ja"] not in NAMES,
        "are not English, but for quoted labels": lambda texts: JAPANESE.search(re.sub("「[^」]*」", "", texts["en"])),
    }
    own = {key: texts for key, texts in CATALOGUE.items() if key.partition(".")[0] == wing}
    for what, is_wrong in wrong.items():
        assert not [key for key, texts in own.items() if is_wrong(texts)], f"these messages {what}"


# What no panel shows: the command line, files that are imported, pages that are also written by it, tables of a notebook.
NOT_IN_PANELS = re.compile(
    r"(cli|former|stats|report)\.|history\.(left_out|rejudge|only_failed|remove_stub|check_)"
    r"|certify\.(not_tried_|page_)|runs\.(executor_|only_failed_)|settings\.(no_folder|file_head)$"
)


def test_what_a_panel_shows_names_no_option_argument_or_command() -> None:
    for key, texts in CATALOGUE.items():
        if not NOT_IN_PANELS.match(key):
            for lang in ("ja", "en"):
                shown = texts.get(f"{lang}_panel", texts[lang])
                assert not TYPED.search(shown), f"{key}: add ja_panel and en_panel, or a line to NOT_IN_PANELS"


def test_a_message_has_its_panels_words_within_a_panel_alone() -> None:
    values = {"total": 10, "done": 3, "unread": "", "path": "logs/x"}
    assert "--fresh" in say("runs.safe", **values)
    with messages.in_panel():
        assert "「最初からやり直す」" in say("runs.safe", **values, lang="ja")
    assert "--fresh" in say("runs.safe", **values)


def said() -> Iterator[tuple[str, str, set[str] | None]]:
    """(place, sentence or key, names of its values) of each literal that is said; None for values that come as **values."""
    for path, call, name in calls():
        if name in ("say", "explained") and call.args:
            given = {keyword.arg for keyword in call.keywords} | ({"reason"} if name == "explained" else set())
            branches = [call.args[0]]
            while branches:
                each = branches.pop()
                if isinstance(each, ast.IfExp):
                    branches += [each.body, each.orelse]
                elif isinstance(each, ast.Constant):
                    known = None if None in given else {str(value) for value in given - {"lang"}}
                    yield f"{path.name}:{call.lineno}", each.value, known
    for path, call in template_calls():
        known = None if call.dyn_kwargs else {each.key for each in call.kwargs}
        yield path.name, call.args[0].value, known


def test_each_sentence_in_the_code_has_its_japanese_with_the_same_values_and_all_japanese_is_used() -> None:
    used: set[str] = set()
    for place, sentence, given in said():
        texts = CATALOGUE.get(sentence) or {"en": sentence, "ja": SENTENCES.get(sentence, "")}
        assert texts["ja"], f"{place} has no Japanese for {sentence!r}"
        assert values(texts["en"]) == values(texts["ja"]), f"{place}: {sentence!r}"
        assert given is None or given >= values(texts["ja"]), f"{place}: {sentence!r}"
        used.add(sentence)
    assert set(SENTENCES) <= used
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.j2")]:  # also keys that are chosen before they are said
        used |= set(re.findall(r"""["']([a-z_]+\.[a-z0-9_]+)["']""", path.read_text(encoding="utf-8")))
    assert set(CATALOGUE) <= used


def test_a_sentence_is_in_english_and_its_japanese_is_japanese() -> None:
    quoted = re.compile("「[^」]*」")
    assert not [each for each in SENTENCES if KEY.fullmatch(each) or JAPANESE.search(quoted.sub("", each))]
    assert not [each for each, japanese in SENTENCES.items() if not JAPANESE.search(japanese) and japanese not in NAMES]


@pytest.mark.parametrize("wing", WINGS)
def test_no_message_stands_in_the_code(wing: str) -> None:
    stray = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path, call, name in calls()
        if (name in TELLING or name.endswith(ERRORS)) and call.args and path.is_relative_to(PACKAGE / wing)
        for argument in call.args
        for _, text in texts(ast.Tuple([argument]))
        if re.search(r"\w \w|[ぁ-ん]", text)
    ]
    assert not stray


@pytest.mark.parametrize("wing", [wing for wing in WINGS if wing not in UNCHECKED])
def test_no_sentence_waits_in_the_code_to_become_a_message(wing: str) -> None:
    """Such as one that is put into a variable first, or into a list of problems."""
    stray = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]!r}"
        for path in sorted((PACKAGE / wing).rglob("*.py"))
        for line, text in sentences(tree_of(path))
    ]
    assert not stray


@pytest.mark.parametrize("wing", WORDED)
def test_no_label_or_heading_stands_in_the_code(wing: str) -> None:
    paths = [PACKAGE / wing] if wing.endswith(".py") else sorted((PACKAGE / wing).rglob("*.py"))
    stray = [
        f"{path.relative_to(PACKAGE)}:{line}: {text[:60]!r}"
        for path in paths
        if path.relative_to(PACKAGE).as_posix() not in MATERIAL
        for line, text in texts(tree_of(path))
        if re.search("[ぁ-んァ-ヶ一-龠]", text) and text not in KEPT
    ]
    stray += [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()[:60]!r}"
        for path in sorted((PACKAGE / wing).rglob("*"))
        if path.suffix in (".html", ".j2", ".js")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if any(
            re.search("[ぁ-んァ-ヶ一-龠]", text) and text.strip('"') not in KEPT
            for text in re.findall('"[^"]*"|[^"]+', re.sub(r'say\("(?:[^"\\]|\\.)*"', "", line))
        )
    ]
    assert not stray


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
            assert say("prompts.lacks", names="{question}") == "lacks {question}"
            assert say("prompts.lacks", names="{question}", lang="ja") == "不足: {question}"
    finally:
        messages._locale_language.cache_clear()


def test_the_user_facing_messages_are_in_japanese() -> None:
    """`pytest -s -k facing` prints the count."""
    sites = [
        bool(call.args)
        and not any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in call.args)
        for path, call, name in calls()
        if name.endswith("Error") and name in ERRORS and call.args
    ]
    japanese = sum(bool(JAPANESE.search(texts["ja"]) or texts["ja"] in NAMES) for texts in CATALOGUE.values())
    print(f"\n{japanese} of {len(CATALOGUE)} messages in the catalogue are in Japanese; ", end="")
    print(f"{sum(sites)} of {len(sites)} places that make an error take it from there")
    assert japanese == len(CATALOGUE) and sum(sites) >= 0.95 * len(sites)
