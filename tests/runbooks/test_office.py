"""Runbooks as offices write them: what a person sees is read, or named with its place; what nobody sees is left out."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from support.office_files import docx, paragraph, run

from socjudge.base.messages import speaking
from socjudge.base.texts import fold
from socjudge.history.doctor import check_runbooks
from socjudge.runbooks.bm25 import tokenise
from socjudge.runbooks.index import build_index
from socjudge.runbooks.reading import decode_runbook, split_runbook


def read(raw: bytes, name: str = "a.docx") -> tuple[str, str]:
    """The text, and what is named: one line for each kind."""
    with speaking("en"):
        text, notes = decode_runbook(raw, Path(name))
    return text, "\n".join(f"{note.what}: {', '.join(note.places)}" for note in notes)


# --- Word

RUBY = "<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>かくり</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>隔離</w:t></w:r></w:rubyBase></w:ruby></w:r>"
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> EQ \\* jc2 \\o\\ad(\\s\\up 9(かくり)</w:instrText></w:r>'
    '<w:r><w:instrText>,隔離)</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
)


@pytest.mark.parametrize("ruby", [RUBY, FIELD])
def test_furigana_is_left_out_and_its_word_stays(ruby: str) -> None:
    text, named = read(docx(paragraph(f"{run('感染した端末を')}{ruby}{run('する。')}")))
    assert (text, named) == ("感染した端末を隔離する。", "")


BOX = f"<w:txbxContent>{paragraph('夜間は当番へ電話する。')}{paragraph('内線7111')}</w:txbxContent>"
DRAWN = f"<w:drawing><wp:anchor><a:graphic><wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp></a:graphic></wp:anchor></w:drawing>"
VML = f"<w:pict><v:group><v:shape><v:textbox>{BOX}</v:textbox></v:shape></v:group></w:pict>"
BOTH = f'<mc:AlternateContent><mc:Choice Requires="wps">{DRAWN}</mc:Choice><mc:Fallback>{VML}</mc:Fallback></mc:AlternateContent>'


@pytest.mark.parametrize("drawing", [DRAWN, VML, BOTH], ids=["DrawingML", "VML", "both"])
def test_a_text_box_is_read_once(drawing: str) -> None:
    text, named = read(docx(paragraph(f"{run('端末を隔離する。')}<w:r>{drawing}</w:r>") + paragraph("終わり。")))
    assert (text, named) == ("端末を隔離する。\n\n夜間は当番へ電話する。\n\n内線7111\n\n終わり。", "")


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def test_merged_cells_keep_the_cells_beside_them_in_their_columns() -> None:
    start, on, two = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    rows = [
        [cell("部署"), cell("役職"), cell("内線")],
        [cell("情報部", start), cell("部長"), cell("7001")],
        [cell("情報部", on), cell("課長"), cell("7002")],
        [cell("全員", two), cell("7000")],
    ]
    table = "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows)
    text, named = read(docx(f"<w:tbl>{table}</w:tbl>"))
    assert text.splitlines() == [
        "| 部署 | 役職 | 内線 |",
        "| --- | --- | --- |",
        "| 情報部 | 部長 | 7001 |",
        "| 情報部 | 課長 | 7002 |",
        "| 全員 | 全員 | 7000 |",
    ]
    assert named == ""


STRUCK = '<w:style w:styleId="Old"><w:rPr><w:strike/></w:rPr></w:style><w:style w:styleId="Older"><w:basedOn w:val="Old"/></w:style>'


@pytest.mark.parametrize("look", ["<w:strike/>", '<w:dstrike w:val="1"/>', '<w:rStyle w:val="Older"/>'])
def test_what_is_struck_out_is_left_out_and_named(look: str) -> None:
    body = paragraph(
        f"{run('電源を切る。', look)}{run('端末を隔離する。', '<w:strike w:val=' + chr(34) + '0' + chr(34) + '/>')}"
    )
    text, named = read(docx(body, styles=STRUCK))
    assert (text, named) == ("端末を隔離する。", "struck out, and left out: 「電源を切る。」")
    text, named = read(docx(paragraph("電源を切る。", "Older"), styles=STRUCK))
    assert (text, named) == ("", "struck out, and left out: 「電源を切る。」")


def test_of_tracked_changes_the_last_version_is_read() -> None:
    old = "<w:r><w:delText>三十分</w:delText></w:r>"
    changed = f"{run('当番へ')}<w:del>{old}</w:del><w:ins>{run('十五分')}</w:ins>{run('以内に報告する。')}"
    moved = f"<w:moveFrom>{run('電話する。')}</w:moveFrom>"
    text, named = read(docx(paragraph(changed) + paragraph(moved) + f"<w:ins>{paragraph('記録する。')}</w:ins>"))
    assert text == "当番へ十五分以内に報告する。\n\n記録する。"
    assert named == "deleted with tracked changes, and left out: 「三十分」, 「電話する。」"


def test_what_is_hidden_in_word_is_left_out_and_named() -> None:
    text, named = read(docx(paragraph(run("見える。") + run("見えない。", "<w:vanish/>"))))
    assert (text, named) == ("見える。", "hidden, and left out: 「見えない。」")


def test_footnotes_headers_and_links_are_read() -> None:
    note = f'<w:footnote w:id="2">{paragraph("休日は当番のみ。")}</w:footnote>'
    link = f'<w:hyperlink r:id="link">{run("申請書")}</w:hyperlink>'
    body = paragraph(f'{run("上長へ報告する")}<w:r><w:footnoteReference w:id="2"/></w:r>{run("。")}') + paragraph(
        f"{link}{run('を出す。')}"
    )
    section = (
        '<w:sectPr><w:headerReference w:type="default" r:id="header1"/><w:footerReference r:id="footer1"/></w:sectPr>'
    )
    parts = {"header1": paragraph("社外秘 第3版"), "footer1": paragraph("- 1 -"), "footnotes": note}
    text, named = read(docx(body + section, **parts))
    assert text.split("\n\n") == [
        "社外秘 第3版",
        "上長へ報告する。",
        "休日は当番のみ。",
        "申請書を出す。（https://a.example/f）",
    ]
    assert named == ""


def test_pictures_charts_and_comments_of_word_are_named() -> None:
    picture = (
        '<w:drawing><wp:inline><a:graphic><pic:pic><a:blip r:embed="x"/></pic:pic></a:graphic></wp:inline></w:drawing>'
    )
    comment = f'<w:comment w:id="1">{paragraph("来月から変わる。")}</w:comment>'
    body = paragraph("連絡の流れは図のとおり。") + paragraph(f"<w:r>{picture}</w:r>")
    text, named = read(
        docx(body + paragraph(run("報告する。") + '<w:r><w:commentReference w:id="1"/></w:r>'), comments=comment)
    )
    assert text == "連絡の流れは図のとおり。\n\n報告する。"
    assert "text in pictures is not read: after 「連絡の流れは図のとおり。」" in named
    assert "comments are not read: 「来月から変わる。」" in named


NUMBERS = (
    '<w:abstractNum w:abstractNumId="5"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="第%1章"/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="aiueoFullWidth"/><w:lvlText w:val="(%2)"/></w:lvl></w:abstractNum>'
    '<w:num w:numId="3"><w:abstractNumId w:val="5"/></w:num>'
)
HEADINGS = '<w:style w:styleId="1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style><w:style w:styleId="a3"><w:name w:val="Title"/></w:style>'


def test_numbers_that_word_shows_before_headings_and_items_are_read() -> None:
    def numbered(text: str, level: int, style: str = "") -> str:
        number = f'<w:pStyle w:val="{style}"/><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="3"/></w:numPr>'
        return f"<w:p><w:pPr>{number}</w:pPr>{run(text)}</w:p>"

    body = paragraph("障害対応手順書", "a3") + numbered("目的", 0, "1") + numbered("範囲", 1) + numbered("対象", 1)
    text, _ = read(docx(body + numbered("手順", 0, "1") + numbered("隔離", 1), numbering=NUMBERS, styles=HEADINGS))
    assert text.splitlines() == ["# 障害対応手順書", "", "## 第1章 目的", "", "  (ア) 範囲", "  (イ) 対象", "", "## 第2章 手順", "", "  (ア) 隔離"]  # fmt: skip
    assert [(c.title, c.heading) for c in split_runbook(text, "a.docx")] == [
        ("障害対応手順書", "第1章 目的"),
        ("障害対応手順書", "第2章 手順"),
    ]


def test_a_text_of_an_office_file_is_no_markdown() -> None:
    lines = ["# systemctl stop httpd", "```", "<!-- 注意", "---"]
    text, _ = read(
        docx(
            paragraph("手順", "1") + "".join(map(paragraph, map(escaped, lines))) + paragraph("復旧", "1"),
            styles=HEADINGS,
        )
    )
    chunks = split_runbook(text, "a.docx")
    assert [chunk.heading for chunk in chunks] == ["手順"] and all(line in chunks[0].text for line in lines)


def escaped(text: str) -> str:
    return text.replace("<", "&lt;")


# --- Excel


def workbook(*rows: list[object]):  # type: ignore[no-untyped-def]
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "連絡"
    for row in rows:
        book.active.append(row)
    return book


def saved(book) -> bytes:  # type: ignore[no-untyped-def]
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def changed(raw: bytes, part: str, old: str, new: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as before, zipfile.ZipFile(buffer, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name == part:
                content, count = re.subn(old.encode(), new.encode(), content)
                assert count
            after.writestr(name, content)
    return buffer.getvalue()


SHEET = "xl/worksheets/sheet1.xml"


def test_all_rows_of_another_office_suites_workbook_are_read() -> None:
    raw = saved(workbook(["役割", "内線"], ["当番", "7111"], ["責任者", "7120"]))
    raw = changed(raw, SHEET, '<dimension ref="[^"]*"', '<dimension ref="A1"')
    raw = changed(raw, SHEET, ' (?:r|spans)="[A-Z0-9:]*"', "")  # and without the places of cells
    assert read(raw, "a.xlsx") == ("## 連絡\n\n| 役割 | 内線 |\n| 当番 | 7111 |\n| 責任者 | 7120 |", "")


def test_struck_out_cells_and_parts_of_cells_are_left_out_and_named() -> None:
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont
    from openpyxl.styles import Font

    book = workbook(["当番", "7111"], ["旧当番", "7119"])
    book.active["A2"].font = book.active["B2"].font = Font(strike=True)
    book.active["A3"] = CellRichText(
        "報告は", TextBlock(InlineFont(strike=True), "三十分"), TextBlock(InlineFont(b=True), "十五分"), "以内"
    )
    text, named = read(saved(book), "a.xlsx")
    assert text == "## 連絡\n\n| 当番 | 7111 |\n\n報告は十五分以内"
    assert (
        named == "struck out, and left out: sheet 連絡 A2 「旧当番」, sheet 連絡 B2 「7119」, sheet 連絡 A3 「三十分」"
    )


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_hidden_sheets_rows_and_columns_are_left_out_and_named(state: str) -> None:
    book = workbook(["当番", "秘密の列", "7111"], ["古い行", None, "7119"], ["責任者", None, "7120"])
    book.create_sheet("旧版").append(["古い手順"])
    book["旧版"].sheet_state = state
    book.active.row_dimensions[2].hidden = book.active.column_dimensions["B"].hidden = True
    text, named = read(saved(book), "a.xlsx")
    assert text == "## 連絡\n\n| 当番 | 7111 |\n| 責任者 | 7120 |"
    assert (
        named
        == "hidden, and left out: sheet 連絡 B1 「秘密の列」, sheet 連絡 A2 「古い行」, sheet 連絡 C2 「7119」, sheet 旧版"
    )


def test_merged_cells_of_a_sheet_reach_into_their_rows_and_are_seen_beside_hidden_ones() -> None:
    book = workbook(["部署", "役職"], ["情報部", "部長"], [None, "課長"], ["総務部", "部長"], [None, "課長"])
    book.active.merge_cells("A2:A3")
    book.active.merge_cells("A4:A5")
    book.active.row_dimensions[4].hidden = True
    text, _ = read(saved(book), "a.xlsx")
    assert text.splitlines()[2:] == ["| 部署 | 役職 |", "| 情報部 | 部長 |", "| 情報部 | 課長 |", "| 総務部 | 課長 |"]


def test_a_sheet_of_squared_paper_is_mostly_text() -> None:
    book = workbook()
    sheet = book.active
    for column in range(1, 41):
        sheet.column_dimensions[sheet.cell(1, column).column_letter].width = 2.5
    sheet["B2"], sheet["C4"], sheet["C5"] = "1 初動対応", "感染が疑われる端末を隔離する。", "当番へ電話する。"
    for place, text in {"C7": "氏名", "K7": "内線", "C8": "佐藤", "K8": "7111"}.items():
        sheet[place] = text
    for column, letter in enumerate("整理番号", start=3):
        sheet.cell(10, column, letter)
    sheet.merge_cells("C4:AF4")
    text, _ = read(saved(book), "a.xlsx")
    assert text.split("\n\n") == ["## 連絡", "1 初動対応", "感染が疑われる端末を隔離する。\n当番へ電話する。", "| 氏名 | 内線 |\n| 佐藤 | 7111 |", "整理番号"]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (datetime(2026, 4, 1), "yyyy/m/d", "2026/4/1"),
        (datetime(2026, 4, 1), 'yyyy"年"mm"月"dd"日"(aaa)', "2026年04月01日(水)"),
        (datetime(2026, 4, 1, 9, 5), "m/d h:mm", "4/1 9:05"),
        (datetime(2026, 4, 1), '[$-411]ggge"年"m"月"d"日"', "令和8年4月1日"),
        (datetime(2019, 4, 30), '[$-411]ggge"年"m"月"d"日"', "平成31年4月30日"),
        (0.375, "h:mm", "9:00"),
        (0.995, "0.0%", "99.5%"),
        (1234567, '#,##0"円"', "1,234,567円"),
        (30, '0"分以内"', "30分以内"),
        (7, "000", "007"),
        (0.1 + 0.2, "General", "0.3"),
        (7111, "General", "7111"),
        (True, "General", "TRUE"),
    ],
)
def test_numbers_and_dates_are_read_as_they_are_shown(value: object, form: str, shown: str) -> None:
    book = workbook([value])
    book.active["A1"].number_format = form
    assert read(saved(book), "a.xlsx")[0] == f"## 連絡\n\n{shown}"


def test_formulas_without_a_result_and_comments_are_named() -> None:
    from openpyxl.comments import Comment

    book = workbook(["当番", "=A1"])
    book.active["A1"].comment = Comment("四月から変わる", "佐藤")
    text, named = read(saved(book), "a.xlsx")
    assert text == "## 連絡\n\n当番"
    assert named.splitlines() == ["formulas without a saved result are not read: sheet 連絡 B1", "comments are not read: sheet 連絡 A1 「四月から変わる」"]  # fmt: skip


def test_furigana_of_cells_is_left_out() -> None:
    raw = changed(
        saved(workbook(["隔離"])),
        "xl/sharedStrings.xml",
        "<si>.*</si>",
        "<si><t>隔離</t><rPh sb='0' eb='2'><t>カクリ</t></rPh></si>",
    )
    assert read(raw, "a.xlsx")[0] == "## 連絡\n\n隔離"


def test_text_boxes_of_a_sheet_are_read_and_its_pictures_named() -> None:
    pytest.importorskip("PIL")
    from openpyxl.drawing.image import Image
    from PIL import Image as Picture

    book = workbook(["当番"])
    buffer = io.BytesIO()
    Picture.new("RGB", (2, 2)).save(buffer, "PNG")
    book.active.add_image(Image(buffer), "C3")
    box = "<xdr:sp xmlns:xdr='x' xmlns:a='y'><xdr:txBody><a:p><a:r><a:t>まず</a:t></a:r><a:r><a:t>隔離する。</a:t></a:r></a:p></xdr:txBody></xdr:sp>"
    raw = changed(saved(book), "xl/drawings/drawing1.xml", "(<(?:xdr:)?oneCellAnchor>)", rf"\1{box}")
    text, named = read(raw, "a.xlsx")
    assert (text, named) == ("## 連絡\n\n当番\n\nまず隔離する。", "text in pictures is not read: sheet 連絡")


# --- HTML, headings, letters


def test_html_is_read_as_a_browser_shows_it() -> None:
    page = """<p>端末を<ruby>隔離<rp>(</rp><rt>かくり</rt><rp>)</rp></ruby>する。<del>電源を切る。</del></p><p hidden>秘密</p>
    <p style="text-decoration: line-through">旧手順</p><p>図1</p><img src="a.png">
    <table><tr><th>部署</th><th>役職</th></tr><tr><td rowspan="2">情報部</td><td>部長</td></tr><tr><td>課長</td></tr></table>"""
    text, named = read(page.encode(), "a.html")
    assert text.split("\n\n") == [
        "端末を隔離する。",
        "図1",
        "| 部署 | 役職 |\n| --- | --- |\n| 情報部 | 部長 |\n| 情報部 | 課長 |",
    ]
    assert (
        "struck out, and left out: 「電源を切る。」, 「旧手順」" in named and "hidden, and left out: 「秘密」" in named
    )
    assert "text in pictures is not read: after 「図1」" in named


def test_rules_of_a_style_sheet_hide_and_tables_of_the_layout_are_none() -> None:
    page = """<style>@media print {.noprint {display:none}} p.old, .gone {display: none} .x{text-decoration:line-through}</style><!-- 覚え --><![if !supportLists]>(1)<![endif]>
    <table><tr><td><h2 class="noprint">連絡先</h2><p class="gone">旧番号</p><p class="x">旧手順</p>
    <table><tr><th>庁舎</th><th colspan=2>電話</th></tr><tr><td>北</td><td>昼 1</td><td>夜 2</td></tr></table></td></tr></table>"""
    text, named = read(page.encode(), "a.html")
    assert text.split("\n\n") == [
        "(1)",
        "## 連絡先",
        "| 庁舎 | 電話 | 電話 |\n| --- | --- | --- |\n| 北 | 昼 1 | 夜 2 |",
    ]
    assert named == "struck out, and left out: 「旧手順」\nhidden, and left out: 「旧番号」"


def test_markdown_is_read_as_a_viewer_shows_it() -> None:
    source = "合言葉は<ruby>符丁<rt>ふちょう</rt></ruby>。~~旧い手順。~~<!-- 下書き -->新しい手順。`a ~~b~~`\n\n```\n<!-- 残る -->\n```\n![図](a.png)\n"
    text, named = read(source.encode(), "a.md")
    assert text == "合言葉は符丁。新しい手順。`a ~~b~~`\n\n```\n<!-- 残る -->\n```\n![図](a.png)\n"
    assert named.splitlines() == [
        "struck out, and left out: 「旧い手順。」",
        "hidden, and left out: 「下書き」",
        "text in pictures is not read: ![図](a.png)",
    ]


def test_a_line_through_the_text_of_a_pdf_strikes_it_out_and_a_rule_below_does_not(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(6, 6))
    FigureCanvasPdf(figure)
    for y, text, line in [
        (0.8, "Isolate the host", -0.01),
        (0.6, "Reboot the host", 0.011),
        (0.4, "Call the leader", None),
    ]:
        figure.text(0.1, y, text, fontsize=16)
        if line is not None:
            figure.add_artist(Line2D([0.1, 0.6], [y + line, y + line], linewidth=1))
    figure.savefig(tmp_path / "a.pdf")
    text, named = read((tmp_path / "a.pdf").read_bytes(), "a.pdf")
    assert "Isolate the host" in text and "Call the leader" in text and "Reboot" not in text
    assert named == "struck out, and left out: page 1 「Reboot the host」"


def test_a_numbered_line_alone_is_a_heading_and_a_list_is_none() -> None:
    body = "前文\n\n１．目的\n\n隔離する。\n\n１．電源\n\n２．報告\n\n３．記録\n\n以上\n\n２　手順\n\n話す。\n"
    assert [chunk.heading for chunk in split_runbook(body, "a.md")] == ["", "１．目的", "２　手順"]
    lines = "【１】　目的\n隔離する。\n【注意】電源を切らない。\n【二】手順\n話す。\n"
    assert [chunk.heading for chunk in split_runbook(lines, "a.txt")] == ["【１】　目的", "【二】手順"]


@pytest.mark.parametrize("mark", ["## ", "##　", "##", "##\u00a0", "＃＃　", "＃＃", " ##　"])
def test_headings_as_people_type_them(mark: str) -> None:
    text, _ = read(f"#　手順書\n\n{mark}初動対応\n端末を隔離する。\n\n{mark}復旧\n戻す。\n".encode(), "a.md")
    assert [(c.title, c.heading) for c in split_runbook(text, "a.md")] == [("手順書", "初動対応"), ("手順書", "復旧")]


def test_what_only_looks_like_a_heading_is_none() -> None:
    lines = [
        "#!/bin/sh",
        "#123 を参照",
        "#systemctl stop",
        "```",
        "##　中",
        "#説明",
        "```",
        "#######　七つ",
        "- 項目",
        "  ```",
        "  #説明",
        "  ```",
    ]
    assert {chunk.heading for chunk in split_runbook("## 節\n" + "\n".join(lines), "a.md")} == {"節"}


def test_radicals_of_pdfs_are_the_letters_that_they_look_like() -> None:
    text, _ = read("⻑時間、⺠間、⻄⽇本、⻘、⻝事、⻭、⼾⼝、⿊".encode(), "a.txt")
    assert text == "長時間、民間、西日本、青、食事、歯、戸口、黒"
    assert tokenise("⻑⽇") == tokenise("長日") and fold("⺠間") == fold("民間")


@pytest.mark.parametrize(("jis", "windows"), [("−", "－"), ("—", "―"), ("‖", "∥"), ("〜", "～")])
def test_signs_that_differ_by_encoding_alone_are_the_same(jis: str, windows: str) -> None:
    for pattern in ("A{}1", "手順{}復旧"):
        assert tokenise(pattern.format(jis)) == tokenise(pattern.format(windows))
        assert fold(pattern.format(jis)) == fold(pattern.format(windows))


# --- who is told


def test_the_index_and_doctor_name_what_was_not_read(tmp_path: Path) -> None:
    struck = "".join(paragraph(f"古い手順{n}。", "Old") for n in range(7))
    (tmp_path / "a.docx").write_bytes(docx(paragraph("端末を隔離する。") + struck, styles=STRUCK))
    with speaking("en"):
        with pytest.warns(UserWarning) as warned:
            build_index(tmp_path, index_dir=tmp_path / ".index")
        (row,) = check_runbooks(tmp_path).to_dict("records")
    (said,) = [str(each.message) for each in warned]
    assert "a.docx: struck out, and left out (「古い手順0。」" in said and said.endswith("2 more places)")
    assert (row["level"], row["file"], row["problem"], row["what"]) == (
        "note",
        "a.docx",
        "not read",
        "struck out, and left out",
    )
    assert row["where"].count("古い手順") == 7 and row["remedy"]
