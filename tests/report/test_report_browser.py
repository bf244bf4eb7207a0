"""The report in a real browser: no request, no script of others, filters and sorting, phone, print."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium, opened, sideways
from support.report_logs import HOSTILE, bare_log, save_log

from socjudge.report.page import write_report

pytestmark = pytest.mark.browser

IDS = "tr:not([hidden]) th[scope=row]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; in the second, hostile texts, two categories, and marks 80, 50, unread, 95, 70, 60."""
    folder = tmp_path_factory.mktemp("report")
    save_log(folder / "logs", bare_log([75] * 6, "前"), "judge_eval_20260101_090000.json")
    log = bare_log([80, 50, None, 95, 70, 60], HOSTILE + "x" * 3000)
    log["results"][0]["category"] = log["results"][1]["category"] = "危険操作系"
    log["results"][3]["answer"] = "ＶＰＮ装置を止める"
    logs = save_log(folder / "logs", log, "judge_eval_20260102_090000.json")
    return write_report(folder / "report.html", logs, lang="ja")


def ids(page: Any) -> list[str]:
    return [text.strip() for text in page.locator("#rows").locator(IDS).all_inner_texts()]


def test_nothing_is_fetched_and_nothing_runs_but_our_script(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as watched:
        watched.page.click("#open")
        watched.page.wait_for_timeout(300)
        assert [url for url in watched.requests if not url.startswith("data:image/svg+xml")] == [page_file.as_uri()]
        assert watched.troubles == []
        assert watched.page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        assert (
            watched.page.locator(
                "#answers script, #answers img, #answers a, #answers svg, #rows script, #rows img"
            ).count()
            == 0
        )


def test_policy_stops_a_script_that_got_in(browser: Any, page_file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    text = page_file.read_text(encoding="utf-8")
    intruder = '<script>alert(1)</script><img src=x onerror=alert(2)><img src="http://127.0.0.1:9/x.png">'
    broken.write_text(text.replace("<main>", f"<main>{intruder}"), encoding="utf-8")
    with opened(browser, broken) as watched:
        watched.page.wait_for_timeout(300)
        assert len(watched.troubles) >= 2 and not [line for line in watched.troubles if line.startswith("dialog")]
        assert all("Content Security Policy" in line for line in watched.troubles)


def test_filters_by_text_category_and_verdict(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as watched:
        page = watched.page
        assert ids(page) == ["2", "6", "3", "1", "4", "5"]  # what failed or was not scored comes first
        page.fill("#find", "vpn")  # full-width letters in a closed answer are found too
        assert ids(page) == ["4"] and page.inner_text("#count") == "6件中1件を表示"
        page.fill("#find", "")
        page.select_option("#category", "危険操作系")
        assert ids(page) == ["2", "1"]
        page.select_option("#outcome", "failed")
        assert ids(page) == ["2"]
        page.select_option("#category", "")
        assert ids(page) == ["2", "6"]
        page.select_option("#outcome", "unscored")
        assert ids(page) == ["3"]


def test_sorts_by_mouse_and_by_keyboard_with_missing_last(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as watched:
        page = watched.page
        head = page.locator("#rows thead th", has_text="平均")
        head.locator("button").click()
        assert ids(page) == ["2", "6", "5", "1", "4", "3"] and head.get_attribute("aria-sort") == "ascending"
        page.keyboard.press("Enter")
        assert ids(page) == ["4", "1", "5", "6", "2", "3"] and head.get_attribute("aria-sort") == "descending"
        page.locator("#rows thead button").nth(1).focus()
        page.keyboard.press("Space")
        assert ids(page) == ["1", "2", "3", "4", "5", "6"]
        assert page.locator("[aria-sort]").count() == 1


def test_details_open_by_keyboard(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as watched:
        answer = watched.page.get_by_text("ＶＰＮ装置を止める")
        assert not answer.is_visible()
        watched.page.locator(".answer > summary").nth(4).focus()
        watched.page.keyboard.press("Enter")
        assert answer.is_visible()


def test_the_id_of_a_question_leads_to_its_answer(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file) as watched:
        watched.page.locator("#rows a", has_text="4").click()
        assert watched.page.get_by_text("ＶＰＮ装置を止める").is_visible()
        assert ids(watched.page) and watched.page.locator(".answer[open]").count() == 1


def test_everything_is_visible_without_javascript(browser: Any, page_file: Path) -> None:
    with opened(browser, page_file, java_script_enabled=False) as watched:
        assert watched.page.get_by_text("ＶＰＮ装置を止める").is_visible()
        assert not watched.page.locator("#controls").is_visible()
        assert watched.troubles == []


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_nothing_is_cut_and_the_page_does_not_scroll_sideways(browser: Any, page_file: Path, width: int) -> None:
    with opened(browser, page_file, viewport={"width": width, "height": 800}) as watched:
        watched.page.click("#open")
        assert sideways(watched.page) == 0
        wide = "[...document.querySelectorAll('img, td, th, p, dd, h2')].filter(e => e.getBoundingClientRect().right > innerWidth)"
        assert watched.page.evaluate(f"{wide}.map(e => e.outerHTML.slice(0, 80))") == []


def test_charts_are_dark_on_a_dark_screen(browser: Any, page_file: Path) -> None:
    for scheme, shown in (("light", "none"), ("dark", "invert(0.93) hue-rotate(180deg)")):
        with opened(browser, page_file, color_scheme=scheme) as watched:
            assert watched.page.evaluate("getComputedStyle(document.querySelector('figure img')).filter") == shown
            watched.page.emulate_media(media="print")
            assert watched.page.evaluate("getComputedStyle(document.querySelector('figure img')).filter") == "none"


# The luminance of WCAG 2.2: of each element with text of its own, against the first background behind it.
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } };
  return [...document.body.querySelectorAll("*")]
    .filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .map((e) => { const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [(a + 0.05) / (b + 0.05), e.tagName, e.textContent.trim().slice(0, 20)]; })
    .filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(browser: Any, page_file: Path, scheme: str) -> None:
    with opened(browser, page_file, color_scheme=scheme) as watched:
        watched.page.click("#open")
        assert watched.page.evaluate(CONTRAST) == []


@pytest.mark.parametrize(("paper", "points"), [("A4", (595, 842)), ("Letter", (612, 792))])
def test_print_opens_the_details_and_hides_the_controls(
    browser: Any, page_file: Path, paper: str, points: tuple[int, int]
) -> None:
    pypdfium2 = pytest.importorskip("pypdfium2")
    with opened(browser, page_file, color_scheme="dark") as watched:
        pdf = watched.page.pdf(format=paper, prefer_css_page_size=True, print_background=True)
        document = pypdfium2.PdfDocument(io.BytesIO(pdf))
        text = "".join(sheet.get_textpage().get_text_bounded() for sheet in document)
        assert "質問4" in text and "手順書2" not in text  # passages are for the screen
        assert "すべて開く" not in text and "読むときの注意" in text
        assert document[0].get_size() == pytest.approx(points, abs=1)
        first = document[0].get_textpage().get_text_bounded()
        assert "決めた人（氏名）" in first and "署名" in first and not re.search("[0-9a-f]{12}", first)
        # White paper, also where the screen is dark.
        assert document[0].render().to_pil().convert("RGB").getpixel((5, 5)) == (255, 255, 255)
        assert not watched.page.get_by_text("ＶＰＮ装置を止める").is_visible()  # closed again


@pytest.mark.usefixtures("undrawn")
def test_the_head_of_a_long_table_is_repeated_on_paper(browser: Any, tmp_path: Path) -> None:
    pypdfium2 = pytest.importorskip("pypdfium2")
    page_file = write_report(tmp_path / "report.html", save_log(tmp_path / "logs", bare_log([80] * 90)), lang="ja")
    with opened(browser, page_file) as watched:
        document = pypdfium2.PdfDocument(io.BytesIO(watched.page.pdf(format="A4")))
        sheets = [sheet.get_textpage().get_text_bounded() for sheet in document]
        assert sum("質問45 文章" in sheet or "質問90 文章" in sheet for sheet in sheets) == 2
        assert all("カテゴリ" in sheet for sheet in sheets if re.search(r"質問\d+ 文章", sheet))
        assert "質問1 文章" in next(
            sheet for sheet in sheets if "質問ごとの結果" in sheet
        )  # it begins below its heading


@pytest.mark.usefixtures("undrawn")
def test_the_first_sheet_decides_and_the_second_has_the_questions(browser: Any, tmp_path: Path) -> None:
    pypdfium2 = pytest.importorskip("pypdfium2")
    logs = save_log(tmp_path / "logs", bare_log([80] * 5 + [50]))
    with opened(browser, write_report(tmp_path / "report.html", logs, lang="ja")) as watched:
        document = pypdfium2.PdfDocument(io.BytesIO(watched.page.pdf(format="A4")))
        sheets = [sheet.get_textpage().get_text_bounded() for sheet in document]
        assert "結論と次にすること" in sheets[0] and "署名" in sheets[0] and "質問6 文章" not in sheets[0]
        assert "質問6 文章" in sheets[1] and len(sheets) <= 5
