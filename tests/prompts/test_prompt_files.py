"""Prompts of your own: saved with where they come from, loaded as the text alone, and never over another."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socjudge import ConfigError, constants, load_prompt, save_prompt
from socjudge.prompts.saved import list_prompts
from socjudge.prompts.templates import Prompt, check_prompt
from socjudge.records import Rubric

GUIDE = load_prompt("guide-1")
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1b"))  # no file of UTF-8 has them


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An eval/prompts of the test's own."""
    monkeypatch.setattr(constants, "PROMPTS_DIR", tmp_path / "prompts")
    return tmp_path / "prompts"


def test_a_saved_prompt_is_used_by_its_name_and_tells_where_it_comes_from(folder: Path) -> None:
    path = save_prompt(GUIDE.text + "\n厳しく。", name="strict-2", parent="guide-1", note="減点を増やす")
    assert path == folder / "strict-2.txt"
    loaded = load_prompt("strict-2")
    assert (loaded.id, loaded.text) == ("strict-2", GUIDE.text + "\n厳しく。")
    assert loaded.placeholders == GUIDE.placeholders
    head = path.read_text("utf-8").split("\n")[:6]
    assert head[0] == head[5] == "---"
    assert head[1:4] == ["kind: judge", "parent: guide-1", "note: 減点を増やす"]
    assert head[4].startswith("saved_at: 20")
    assert list_prompts("judge") == ["guide-1", "guide-1-hardened", "strict-2"]
    assert list(folder.iterdir()) == [path]  # nothing temporary is left


@pytest.mark.slow
@given(before=ANY_TEXT, after=ANY_TEXT, note=st.text())
def test_what_is_saved_is_loaded(before: str, after: str, note: str) -> None:
    text = before + GUIDE.text + after
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "PROMPTS_DIR", Path(folder))
        try:
            path = save_prompt(text, name="mine", parent="guide-1", note=note)
        except ConfigError as error:  # the text brought a placeholder of its own
            assert "unknown" in str(error)
            return
        assert load_prompt(path) == load_prompt("mine")
        assert load_prompt("mine").text == text.replace("\r\n", "\n").replace("\r", "\n")
        assert path.read_text("utf-8").split("\n")[5] == "---"  # each value on one line


@pytest.mark.parametrize(
    "text",
    [
        "---\nこれは本文です。\n---\n{question}{answer}",
        "---\nparent: guide-1\n---\n{question}",
        "---\nsha256: 12\nparent: x",
        "---\n",
        "---",
        "\n---\nparent: a\nsha256: b\n---\n",
        "",
    ],
)
def test_a_file_without_a_block_is_loaded_as_it_is(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "plain.txt").write_text(text, encoding="utf-8")
    assert load_prompt("plain").text == text
    assert load_prompt(folder / "plain.txt").text == text


def test_the_prompts_that_come_with_the_project_are_loaded_byte_for_byte() -> None:
    for name in ("guide-1", "guide-1-hardened", "assistant-1", "assistant-2", "assistant-3"):
        path = Path(constants.__file__).parent / "prompts" / f"{name}.txt"
        assert load_prompt(name).text.encode() == path.read_bytes()
    assert load_prompt("strict-1").text.encode() == (constants.PROMPTS_DIR / "strict-1.txt").read_bytes()
    assert list_prompts("judge") == ["guide-1", "guide-1-hardened", "strict-1"]
    assert list_prompts("assistant") == ["assistant-3", "assistant-1", "assistant-2"]


def test_a_byte_order_mark_of_a_windows_editor_is_no_part_of_a_prompt(folder: Path) -> None:
    path = save_prompt(GUIDE.text, name="mine", parent="guide-1", note="減点を増やす")
    for content, text in ((path.read_text("utf-8"), GUIDE.text), ("{question}{answer}", "{question}{answer}")):
        path.write_text(content, encoding="utf-8-sig", newline="\r\n")
        assert load_prompt("mine").text == text


def test_a_prompt_that_version_0_3_saved_is_loaded_without_its_block(folder: Path) -> None:
    folder.mkdir()
    block = (
        "---\nkind: judge\nparent: guide-1\nsha256: 12ab\nauthor:\nnote: 一行目\\n二行目\nsaved_at: 2026-01-01\n---\n"
    )
    (folder / "old.txt").write_text(block + GUIDE.text, encoding="utf-8")
    assert load_prompt("old").text == GUIDE.text


def test_a_block_may_be_edited_by_hand(folder: Path) -> None:
    path = save_prompt(GUIDE.text, name="mine", parent="guide-1")
    edited = path.read_text("utf-8").replace("note:", 'note: "厳しい" と\\言う\nticket: 42')
    path.write_text(edited, encoding="utf-8")
    assert load_prompt("mine").text == GUIDE.text


@pytest.mark.parametrize("name", ["guide-1", "assistant-1", "assistant-2", "Guide-1"])
def test_a_built_in_prompt_is_not_overwritten(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="exists and stays as it is; choose another name"):
        save_prompt(GUIDE.text, name=name, parent="guide-1")
    assert not folder.exists()


def test_a_saved_prompt_is_not_overwritten(folder: Path) -> None:
    path = save_prompt(GUIDE.text, name="mine", parent="guide-1")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists and stays as it is; choose another name"):
        save_prompt(GUIDE.text + "2", name="mine", parent="guide-1")
    assert path.read_bytes() == before
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../up",
        "a/b",
        "a\\b",
        "/etc/x",
        ".hidden",
        "x.txt",
        "a b",
        "a\n",
        "a\0b",
        "C:x",
        "CON",
        "nul.2",
        "あ" * 80,
    ],
)
def test_a_name_that_is_a_path_or_no_id_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name for a prompt"):
        save_prompt(GUIDE.text, name=name, parent="guide-1")
    assert not folder.exists()


def test_a_prompt_that_could_not_be_used_is_not_saved(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"lacks \{answer\}; has unknown \{foo\}"):
        save_prompt(GUIDE.text.replace("{answer}", "{foo}"), name="mine", parent="guide-1")
    with pytest.raises(ConfigError, match=r"lacks \{context\}"):
        save_prompt("{question}", name="mine", parent="assistant-1", kind="assistant")
    assert not folder.exists()


def test_prompts_of_the_assistant_are_listed_as_such(folder: Path) -> None:
    save_prompt("{question}\n{context}", name="short", parent="assistant-1", kind="assistant")
    (folder / "old.txt").write_text("{question} {context}", encoding="utf-8")  # without a block
    (folder / "broken.txt").write_bytes(b"\xff")
    assert list_prompts("assistant") == ["assistant-3", "assistant-1", "assistant-2", "old", "short"]
    assert list_prompts("judge") == ["guide-1", "guide-1-hardened"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="the prompt cannot be written"):
        save_prompt(GUIDE.text, name="mine", parent="guide-1", prompts_dir=tmp_path / "file")


@pytest.mark.parametrize(
    "odd", ["｛context｝", "{ｃｏｎｔｅｘｔ}", "｛context}", "{ context }", "{Context}", "{CONTEXT}"]
)
def test_what_looks_like_a_placeholder_and_is_not_filled_is_told(odd: str) -> None:
    prompt = Prompt("mine", GUIDE.text.replace("{context}", odd))
    with pytest.raises(ConfigError, match=re.escape(f"has {odd} ({{context}}), which must be written as in brackets")):
        check_prompt(prompt, "judge", Rubric())
    with pytest.raises(ConfigError, match="as in brackets"):
        check_prompt(Prompt("mine", f"{{question}}{{context}}{odd}"), "assistant", Rubric())


def test_other_braces_are_text() -> None:
    text = GUIDE.text + '\n{"context": "…"} ｛手順書｝ {文脈} {{context}}'
    check_prompt(Prompt("mine", text), "judge", Rubric())


def test_a_prompt_in_utf_16_is_named(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine.txt").write_bytes(GUIDE.text.encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-16"):
        load_prompt("mine")
