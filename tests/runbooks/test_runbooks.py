"""Reading and splitting runbooks: encodings, formats, headings, and nothing lost on the way."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from conftest import OTHERS
from hypothesis import given
from hypothesis import strategies as st

from socjudge.base.texts import normalise_text
from socjudge.errors import ConfigError
from socjudge.runbooks.bm25 import Bm25, content_words, tokenise
from socjudge.runbooks.reading import (
    decode_runbook,
    find_runbooks,
    load_runbooks,
    split_front_matter,
    split_runbook,
    split_sentences,
)

RUNBOOK = """---
id: RB-1
title: 端末隔離手順書
version: "1.0"
---
# 端末隔離手順書

まえがき。

## 初動対応
全体の注意。

### Windows端末
1. LANケーブルを抜く。

```powershell
# この行は見出しではない
Get-NetAdapter
```

## 禁止事項
- 電源を切らない。
"""


def text_of(path: Path) -> tuple[str, list[str]]:
    """What is read of a runbook, and what had to be guessed."""
    return decode_runbook(path.read_bytes(), path)


def without_space(text: str) -> str:
    return "".join(text.split())


# --- splitting


def test_passages_carry_heading_path_without_the_only_h1() -> None:
    chunks = split_runbook(RUNBOOK, "isolate.md")
    assert [chunk.heading for chunk in chunks] == ["", "初動対応", "初動対応 > Windows端末", "禁止事項"]
    assert {chunk.title for chunk in chunks} == {"端末隔離手順書"}
    assert chunks[2].search_text.startswith("端末隔離手順書\n初動対応 > Windows端末\n1. LAN")


def test_front_matter_gives_the_title_and_stays_out_of_passages() -> None:
    chunks = split_runbook("---\ntitle: 表題\nowner: 秘密係\n---\n## 節\n本文。", "a.md")
    assert [(c.title, c.heading, c.text) for c in chunks] == [("表題", "節", "本文。")]


def test_several_h1_stay_in_the_path_and_the_file_name_is_the_title() -> None:
    chunks = split_runbook("# 甲\nA\n## 乙\nB\n# 丙\nC", "sub/plan.md")
    assert [(c.title, c.heading) for c in chunks] == [("plan", "甲"), ("plan", "甲 > 乙"), ("plan", "丙")]


@pytest.mark.parametrize(
    "body",
    [
        "```bash\n# comment\nls\n```",
        "~~~\n# comment\n~~~",
        "手順:\n\n    # comment in an indented block\n    ls",
        "````\n```\n# comment\n```\n````",
        "- 項目\n  ```\n  # comment\n  ```",
        "文章のすぐ下の\n二行の段落\n---\n罫線",
    ],
)
def test_code_and_rules_are_not_headings(body: str) -> None:
    chunks = split_runbook(f"## 節\n{body}\n", "a.md")
    assert {chunk.heading for chunk in chunks} == {"節"}
    assert without_space("".join(c.text for c in chunks)) == without_space(body)


def test_indentation_and_full_width_spaces_are_kept() -> None:
    text = "- 親\n    - 子　全角\n```\n    if x:\n```"
    assert split_runbook(text, "a.md")[0].text == text


def test_marks_are_taken_out_of_headings() -> None:
    assert split_runbook("## **初動** [対応](a.md) `ls` ##\nx", "a.md")[0].heading == "初動 対応 ls"


def test_long_section_is_cut_at_sentences_into_passages_of_bounded_size() -> None:
    sentence = "被害端末をネットワークから隔離し、証拠を保全してから報告する。"
    chunks = split_runbook("## 長い節\n" + sentence * 100, "a.md", chunk_size=300)
    assert len(chunks) > 5
    assert all(len(c.text) <= 300 and c.text.endswith("。") and c.heading == "長い節" for c in chunks)


def test_plain_text_uses_japanese_heading_marks_and_no_others() -> None:
    chunks = split_runbook("前書き\n■ 初動対応\n隔離する\n# コメント\n【連絡先】\n内線7111\n", "plan.txt")
    assert [(c.heading, c.text) for c in chunks] == [
        ("", "前書き"),
        ("初動対応", "隔離する\n# コメント"),
        ("連絡先", "内線7111"),
    ]


def test_two_rules_around_prose_are_not_front_matter() -> None:
    title, body = split_front_matter("---\nただの文章\n---\n続き")
    assert title == "" and "ただの文章" in body
    assert split_front_matter("---\n---\n続き") == ("", "続き")


@pytest.mark.parametrize("field", ["title: 表題  # 仮", 'title: "表題"', "tags:\n- a\n  b\n\n# 仮\ntitle: '表題'"])
def test_a_title_may_be_quoted_and_stand_below_other_fields(field: str) -> None:
    assert split_front_matter(f"---\n{field}\n---\n本文") == ("表題", "本文")


WORDS = st.sampled_from(
    ["端末", "を", "隔離。", "EDR", " ", "\n", "\n\n", "- ", "1. ", "　", "`ls`", "|", "😀", "é", "---\n"]
)


@pytest.mark.slow
@given(
    sections=st.lists(st.tuples(st.integers(1, 6), st.lists(WORDS, max_size=60).map("".join)), min_size=1, max_size=6)
)
def test_splitting_loses_no_body_text(sections: list[tuple[int, str]]) -> None:
    text = "".join(f"\n\n{'#' * level} H{i}\n\n{body}\n" for i, (level, body) in enumerate(sections))
    passages = split_runbook("x\n" + text, "a.md", chunk_size=40)
    # Texts in one piece: a line without a space or full stop may be cut between two passages.
    shown = without_space("".join([*(p.text for p in passages), "\n", *(p.heading for p in passages)]))
    for _, body in sections:
        lines = body.splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=False):
            # A line of dashes makes the line above a heading, and a heading without text makes no passage.
            is_heading = below.strip() and not below.strip(" -=")
            assert without_space(line) in shown or is_heading or not line.strip("- |")


def test_sentences_leave_out_commands_and_marks() -> None:
    text = "1. 端末を隔離し、報告する。電源は切らない。\n- [ ] メモリを取得した\n```\nrm -rf /\n```\n| a | 内線7111へ電話 |"
    assert split_sentences(text) == [
        "端末を隔離し、報告する。",
        "電源は切らない。",
        "メモリを取得した",
        "a 内線7111へ電話",
    ]


# --- tokens


def test_tokens_ignore_width_and_case() -> None:
    assert tokenise("ＥＤＲ　ﾗﾝｻﾑ") == tokenise("edr ランサム")


def test_tokens_per_script() -> None:
    assert tokenise("隔離") == ["隔", "離", "隔離"]
    assert tokenise("しない") == ["しな", "ない"]
    assert tokenise("nmap-7.94_x") == ["nmap-7.94_x", "nmap", "7", "94", "x"]
    assert tokenise("電源を切") == ["電", "源", "電源", "源を", "を切", "切"]
    assert tokenise("電源、切") == ["電", "源", "電源", "切"]
    assert "フィッシ" in set(tokenise("フィッシングメール")) & set(tokenise("フィッシング詐欺"))


@given(st.text())
def test_every_letter_but_lone_hiragana_is_in_a_token(text: str) -> None:
    tokens = "".join(tokenise(text))
    for character in normalise_text(text):
        if character.isalnum() and not "\u3041" <= character <= "\u309f":
            assert character in tokens


def test_content_words_are_what_paraphrases_must_not_share() -> None:
    assert content_words("端末をEDRで隔離") == {"端末", "edr", "隔離"}


def test_bm25_ratio_is_within_its_bound_and_unknown_words_lower_it() -> None:
    bm25 = Bm25(["端末を隔離する", "電源を切らない", "報告する"])
    known, mixed = bm25.match("端末を隔離する"), bm25.match("端末を隔離する宇宙飛行士")
    assert 0 < mixed.ratio < known.ratio < 1
    assert "宇宙" in mixed.unknown and known.unknown == ()
    assert bm25.match("宇宙飛行士").ratio == 0 and not bm25.match("😀").scores.any()


def test_bm25_ratio_by_hand() -> None:
    # Two texts of one token each; "x" is in one of them: idf = ln(1 + 1.5/1.5) = ln 2, tf part = 1/(1+1.5).
    assert Bm25(["x", "y"]).match("x").ratio == pytest.approx(1 / 2.5)


# --- finding and reading files


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "iso2022_jp", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings_are_read_with_a_warning_that_names_the_file(tmp_path: Path, encoding: str) -> None:
    write(tmp_path, "isolate.md", RUNBOOK.encode(encoding))
    with pytest.warns(UserWarning, match=r"isolate\.md: read as .*UTF-8"):
        books = load_runbooks(tmp_path)
    assert books[0].chunks == tuple(split_runbook(RUNBOOK, "isolate.md"))


def test_windows_characters_in_old_encodings(tmp_path: Path) -> None:
    for encoding in ("cp932", "euc_jis_2004"):
        text, notes = text_of(write(tmp_path, "a.md", "① 端末を隔離する。\n② 電話する。\n".encode(encoding)))
        assert text.startswith("① 端末") and len(notes) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_utf8_needs_no_warning_and_windows_line_ends_are_evened(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, "a.md", "## 節\r\n本文\r\n".encode(encoding))
    assert text_of(path) == ("## 節\n本文\n", [])


@pytest.mark.parametrize("data", [b"\x80\x81\xff\xfe\xfd" * 9, b"PK\x03\x04\0\0\0\xff\xff\x9c" * 9])
def test_undecodable_file_is_a_config_error_with_the_fix(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "broken.md", data)
    with pytest.raises(ConfigError, match=r"broken\.md.*save it as UTF-8"):
        load_runbooks(tmp_path)


def test_nothing_is_dropped_silently(tmp_path: Path) -> None:
    write(tmp_path, "good.md", RUNBOOK)
    write(tmp_path, "empty.md", "")
    write(tmp_path, "only_headings.md", "# A\n## B\n")
    write(tmp_path, "movie.mp4", b"\0")
    write(tmp_path, ".hidden.md", RUNBOOK)
    write(tmp_path, "~$lock.docx", b"\0")
    with pytest.warns(UserWarning) as warned:
        assert [book.source for book in load_runbooks(tmp_path)] == ["good.md"]
    said = " ".join(str(w.message) for w in warned)
    assert len(warned) == 3 and all(name in said for name in ("empty.md", "only_headings.md", "movie.mp4"))


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/secret.md", RUNBOOK)
    inside = write(tmp_path, "books/good.md", RUNBOOK)
    (inside.parent / "link.md").symlink_to(outside)
    (inside.parent / "folder").symlink_to(outside.parent)
    (inside.parent / "loop").symlink_to(inside.parent)
    with pytest.warns(UserWarning) as warned:
        assert [source for _, source in find_runbooks(inside.parent)] == ["good.md"]
    assert len(warned) == 3


def test_source_is_the_path_inside_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "cloud/aws/key.md", RUNBOOK)
    assert load_runbooks(tmp_path)[0].source == "cloud/aws/key.md"


def test_no_runbooks_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="put files there"):
        load_runbooks(tmp_path)
    with pytest.raises(ConfigError, match="no such runbooks folder"):
        load_runbooks(tmp_path / "absent")


# --- other formats

HTML = (
    "<html><head><title>x</title></head><body><h1>手順</h1><h2>初動</h2><p>端末を隔離する。</p><script>bad()</script>"
)


@pytest.mark.parametrize("encoding", ["utf-8", "cp932"])
def test_html(tmp_path: Path, encoding: str) -> None:
    pytest.importorskip("markdownify")
    text, notes = text_of(write(tmp_path, "a.html", HTML.encode(encoding)))
    (chunk,) = split_runbook(text, "a.html")
    assert (chunk.title, chunk.heading, chunk.text) == ("手順", "初動", "端末を隔離する。")
    assert bool(notes) == (encoding == "cp932")


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("tags", ["<script", "<style>x", "<noscript><p>x</p>", "<script>x"])
def test_html_whose_tags_never_close_is_read_once(tmp_path: Path, tags: str) -> None:
    pytest.importorskip("markdownify")
    before = "<h1>手順</h1><p>端末を隔離する。</p>"
    text, _ = text_of(write(tmp_path, "a.html", (before + 30_000 * tags).encode()))  # minutes, if quadratic
    assert text.startswith("# 手順\n\n端末を隔離する。")
    assert text.count("<script") == (30_000 if tags == "<script" else 0)  # what has no end is text, and never a tag


@pytest.mark.slow
def test_excel_keeps_sheets_rows_and_empty_cells(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "連絡先"
    book.active.append(["役割", "内線", None])
    book.active.append([None, 7111, "夜間"])
    book.save(tmp_path / "a.xlsx")
    (chunk,) = split_runbook(text_of(tmp_path / "a.xlsx")[0], "a.xlsx")
    assert (chunk.heading, chunk.text) == ("連絡先", "| 役割 | 内線 |  |\n|  | 7111 | 夜間 |")


def make_docx() -> bytes:
    """The smallest Word file with two headings and a paragraph."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    package = "http://schemas.openxmlformats.org/package/2006"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

    def paragraph(text: str, style: str = "") -> str:
        properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"

    body = paragraph("手順", "Heading1") + paragraph("初動", "Heading2") + paragraph("端末を隔離する。")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="r1" Type="{office}" Target="word/document.xml"/></Relationships>',
        )
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>')
    return buffer.getvalue()


def test_word_headings_are_kept(tmp_path: Path) -> None:
    text, _ = text_of(write(tmp_path, "a.docx", make_docx()))
    (chunk,) = split_runbook(text, "a.docx")
    assert (chunk.title, chunk.heading, chunk.text) == ("手順", "初動", "端末を隔離する。")


@pytest.mark.slow
def test_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    figure = Figure()
    FigureCanvasPdf(figure)
    figure.text(0.1, 0.8, "Isolate the host first.")
    figure.savefig(tmp_path / "a.pdf")
    text, _ = text_of(tmp_path / "a.pdf")
    assert "Isolate the host first." in text


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".pdf"])
def test_damaged_office_file_names_itself(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pypdfium2")
    with pytest.raises(ConfigError, match=rf"bad\{suffix}: cannot be read"):
        text_of(write(tmp_path, f"bad{suffix}", b"not really such a file"))


def test_missing_converter_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    with pytest.raises(ConfigError, match=r"a\.pdf.*pip install 'socjudge\[convert\]'"):
        text_of(write(tmp_path, "a.pdf", b"x"))


@pytest.mark.parametrize(("folder", "count"), [("aws_ja", 4), ("counteractive_en", 5)])
def test_real_playbooks_split_without_losing_a_line(folder: str, count: int) -> None:
    paths = sorted((OTHERS / folder).glob("*.md"))
    assert len(paths) == count
    for path in paths:
        text, notes = text_of(path)
        chunks = split_runbook(text, path.name)
        shown = without_space("".join(chunk.text for chunk in chunks))
        lost = [s for s in text.splitlines() if without_space(s) not in shown and not s.lstrip().startswith("#")]
        assert not notes and chunks and not lost
