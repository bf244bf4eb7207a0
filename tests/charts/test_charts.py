"""Charts: what is drawn is what the frame says, missing marks are named, names cannot break a chart."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from support.package_modules import PACKAGE
from support.score_frames import CATEGORIES, CRITERIA, framed, judged, judges_frame, results_of

from socjudge import constants
from socjudge.base.conditions import CONDITIONS, Condition
from socjudge.base.messages import say
from socjudge.charts import style as chart_style
from socjudge.charts.runs import plot_criterion_trend, plot_question_strip
from socjudge.charts.scores import plot_category_breakdown, plot_score_distribution
from socjudge.charts.style import chart_url, japanese_text
from socjudge.errors import ConfigError
from socjudge.stats.basics import OVERALL, summarise_scores
from socjudge.stats.gate import gate_confidence

mpl.use("agg")

AWKWARD = "_$\\frac{" + "long/name-" * 10 + "$\n😀"
SHOWN = r"＿\$\frac{long/name-long/name-long/name-l…"


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SOCJUDGE_LANG", "ja")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    plt.close("all")  # what another file left open would be counted with ours
    yield
    plt.close("all")
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def in_english(_tidy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCJUDGE_LANG", "en")


def made_once(make: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """Frames are made once and copied, as making one takes longer than drawing it."""
    made = functools.cache(make)
    return functools.wraps(make)(lambda *given: made(*given).copy())


@made_once
def two_judges(first: str = "gpt-4o-mini", second: str = "gpt-4.1-mini") -> pd.DataFrame:
    """Ten questions; the second judge gives 8 to 12 points less, so questions 3 and 4 fail with it."""
    marks = [90, 85, 78, 76, 95, 60, 50, 88, 84, 92]
    lower = [mark - 8 - number % 5 for number, mark in enumerate(marks)]
    return judges_frame(**{first: marks, second: lower})


@made_once
@made_once
def history() -> pd.DataFrame:
    """Four runs, given in the wrong order, of three questions; one answer of the third run is unscored.

    prompt_id changes before the second run, the judge before the third, the dataset before the fourth."""
    runs = [
        ("r3", "2026-01-02T00:30:00+00:00", "gpt-4.1-mini", "guide-2", "d1", [60, None, 90]),
        ("r1", "2025-12-31T22:00:00+00:00", "gpt-4o-mini", "guide-1", "d1", [60, 80, 100]),
        ("r2", "2025-12-31T23:00:00+00:00", "gpt-4o-mini", "guide-2", "d1", [50, 70, 90]),
        ("r4", "2026-01-03T09:00:00+00:00", "gpt-4.1-mini", "guide-2", "d2", [70, 72, 74]),
    ]
    parts = [
        judged(
            judge, q, mark, run_id=run, started_at=at, prompt_id=prompt, category="正常系" if q < 3 else "危険操作系"
        ).assign(dataset_sha256=data)
        for run, at, judge, prompt, data, marks in runs
        for q, mark in enumerate(marks, start=1)
    ]
    return framed(*parts).astype(dict.fromkeys(["run_id", "judge_model", "prompt_id", "dataset_sha256"], "category"))


def alike() -> pd.DataFrame:
    """The same four runs, all by one judge, with one prompt, on one dataset."""
    scores = history().drop(columns=["judge_model_resolved", "prompt_sha256"], errors="ignore")
    return scores.assign(dataset_sha256="a", judge_model="x", prompt_id="guide-1")


def errorbars(ax: Axes) -> list[tuple[list[float], list[float]]]:
    """x and y of each series with whiskers."""
    bars = [bar for bar in ax.containers if isinstance(bar, ErrorbarContainer)]
    return [(list(map(float, bar[0].get_xdata())), list(map(float, bar[0].get_ydata()))) for bar in bars]


def whiskers(ax: Axes) -> list[np.ndarray[Any, Any]]:
    """The ends of each whisker of each series."""
    bars = [bar for bar in ax.containers if isinstance(bar, ErrorbarContainer)]
    return [np.array(bar[2][0].get_segments()) for bar in bars if bar[2]]


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def ticks(ax: Axes, axis: str = "x") -> list[str]:
    return [text.get_text() for text in (ax.get_xticklabels() if axis == "x" else ax.get_yticklabels())]


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def trend(scores: pd.DataFrame) -> Figure:
    return cast(Figure, plot_criterion_trend(scores).figure)


def changes(figure: Figure) -> list[str]:
    """What the list below the trend says, without its numbers."""
    lines = str(figure.get_supxlabel()).splitlines()[1:]
    return [words for line in lines for words in line[2:].split("、")]


def small(figure: Figure, name: str) -> Axes:
    """The small chart of a criterion."""
    return next(ax for ax in figure.axes if ax.get_title(loc="left").startswith(f"{name}  "))


def dotted(ax: Axes) -> list[float]:
    """Where vertical dotted lines stand."""
    return [float(line.get_xdata()[0]) for line in ax.lines if line.get_linestyle() == ":"]  # type: ignore[index]


CHARTS: dict[str, Callable[[Axes | None], Axes]] = {
    "category_breakdown": lambda ax: plot_category_breakdown(history(), ax=ax),
    "score_distribution": lambda ax: plot_score_distribution(history(), ax=ax),
    "question_strip": lambda ax: plot_question_strip(history(), ax=ax),
}


@dataclass(frozen=True)
class Rendered:
    ax: Axes
    settings_changed: bool
    figures: int


@functools.cache
def rendered(name: str, lang: str) -> Rendered:
    """A chart in a language, drawn once for all that is asked of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOCJUDGE_LANG", lang)
        plt.close("all")
        before = dict(mpl.rcParams)
        ax = CHARTS[name](None)
        ax.figure.canvas.draw()  # a missing glyph is a warning, and so an error
        return Rendered(ax, dict(mpl.rcParams) != before, len(plt.get_fignums()))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_renders_japanese_and_leaves_the_settings_alone(name: str) -> None:
    chart = rendered(name, "ja")
    assert not chart.settings_changed
    assert chart.figures == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_draws_on_the_axes_it_is_given(name: str, tmp_path: Path) -> None:
    figure, ax = plt.subplots()
    assert ax.title.get_fontfamily() != ["IPAexGothic"]
    assert CHARTS[name](ax) is ax
    assert ax.title.get_fontfamily() == ["IPAexGothic"]
    for axis in (ax.xaxis, ax.yaxis):  # ticks are made anew when the user moves the limits
        axis.reset_ticks()
        assert all(text.get_fontfamily() == ["IPAexGothic"] for text in axis.get_ticklabels())
    assert plt.get_fignums() == [figure.number]
    figure.savefig(tmp_path / "chart.png")


@pytest.mark.few(6)
@pytest.mark.slow
@pytest.mark.parametrize("lang", ["ja", "en"])
@pytest.mark.parametrize("name", CHARTS)
def test_nothing_of_a_chart_is_cut_at_notebook_width(name: str, lang: str) -> None:
    ax = rendered(name, lang).ax
    inside, whole = ax.figure.get_tightbbox(), ax.figure.bbox_inches  # type: ignore[union-attr, call-arg]
    assert 8 <= whole.width <= 10
    assert inside.x0 >= 0
    assert inside.y0 >= 0
    assert inside.x1 <= whole.x1
    assert inside.y1 <= whole.y1


def contrast(one: Any, other: Any) -> float:
    """WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted(luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: Any) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


def inked(ax: Axes) -> Iterator[Any]:
    """The colour of all that is read before the paper or a band: what stands on cells is not."""
    cells = [text for text in ax.texts if ax.images and text.get_transform() == ax.transData]
    for text in ax.figure.findobj(Text):
        if text.get_text().strip() and text not in cells:  # type: ignore[attr-defined]
            yield text.get_color()  # type: ignore[attr-defined]
    for line in [*ax.lines, *([] if ax.get_legend() is None else ax.get_legend().get_lines())]:
        yield line.get_markeredgecolor() if line.get_linestyle() == "None" else line.get_color()
    for bar in (bar for bar in ax.containers if isinstance(bar, ErrorbarContainer)):
        for whiskers in bar[2]:
            assert whiskers.get_alpha() is None
            yield from whiskers.get_color()


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("dark", ["dark_background", {"axes.facecolor": "#212121", "text.color": "#e0e0e0"}])
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_stands_out_from_dark_paper(name: str, dark: Any) -> None:
    style = ["dark_background", dark]
    with plt.style.context(style):
        ax = CHARTS[name](None)
        paper = mpl.rcParams["axes.facecolor"]
        assert all(contrast(colour, paper) >= 3 for colour in inked(ax))
        # of a band the edge; white cells of the unscored would glare
        areas = [patch for patch in ax.patches if patch.get_fill()]
        assert all(contrast(area.get_edgecolor(), paper) >= 3 for area in areas)
        assert all(contrast(area.get_facecolor(), paper) < 3 for area in areas)
        assert all(contrast(colour, area.get_facecolor()) >= 3 for area in areas for colour in inked(ax))


@pytest.mark.slow
def test_the_colours_of_judges_stand_out_from_dark_paper_and_from_each_other() -> None:
    light = chart_style.palette().colours
    with plt.style.context("dark_background"):
        dark = chart_style.palette().colours
        figure = trend(history())
    assert len(set(dark)) == len(set(light)) == 7
    assert all(contrast(colour, paper) >= 3 for colour in dark for paper in ("black", "#111111", "#212121"))
    assert all(contrast(colour, "black") >= 3 for ax in figure.axes if ax.axison for colour in inked(ax))


@pytest.mark.slow
def test_the_chart_of_a_report_or_panel_is_light_in_any_style() -> None:
    light = chart_url(plot_question_strip, history())
    with plt.style.context("dark_background"):
        assert chart_url(plot_question_strip, history()) == light
        assert mpl.rcParams["text.color"] == "white"


@pytest.mark.parametrize("sheet", ["report/report.css", "panels/panels.css"])
def test_the_colours_stand_out_where_a_sheet_turns_them_for_a_dark_theme(sheet: str) -> None:
    """As the filters are defined: https://www.w3.org/TR/filter-effects-1/#feColorMatrixElement, of half a turn."""
    css = (PACKAGE / sheet).read_text("utf-8")
    turned = re.search(r"filter: invert\(([.\d]+)\) hue-rotate\(180deg\)", css)
    assert turned is not None
    share = float(turned[1])
    grey = np.array([0.213, 0.715, 0.072])

    def shown(colour: Any) -> Any:
        inverted = share + (1 - 2 * share) * np.array(to_rgb(colour))
        return np.clip(2 * grey @ inverted - inverted, 0, 1)

    light = chart_style.palette()
    for colour in (*light.colours, light.ink, light.grey):
        assert contrast(shown(colour), shown("white")) >= 3
    for mean in np.linspace(0, 1, 101):
        cell = chart_style._CELLS(mean)
        assert contrast("black", cell) >= 7
        assert contrast(shown("black"), shown(cell)) >= 4.5


@pytest.mark.parametrize("name", CHARTS)
def test_of_an_english_chart_only_names_and_values_are_japanese(name: str) -> None:
    names = [
        *CRITERIA,
        *CATEGORIES,
        OVERALL,
        "不合格→合格",
        "合格→不合格",
        "判定保留",
        "不合格",
        "合格",
    ]
    for text in rendered(name, "en").ax.figure.findobj(Text):
        assert not re.search("[ぁ-んァ-ヶ一-龠（）：、〜]", re.sub("|".join(names), "", text.get_text()))  # type: ignore[attr-defined]


@pytest.mark.usefixtures("in_english")
@pytest.mark.parametrize(
    "plot", [plot_category_breakdown, plot_score_distribution, plot_criterion_trend, plot_question_strip]
)
def test_a_frame_without_scores_says_what_to_do(plot: Callable[[pd.DataFrame], Axes]) -> None:
    unread = history().assign(score=pd.array([None] * 72, dtype="Float64"), status="unparsable")
    with pytest.raises(ValueError, match=f"{plot.__name__}: no row has a score; look at the column 'status'"):
        plot(unread)
    with pytest.raises(ValueError, match=f"{plot.__name__}: the frame has no row; widen the filters"):
        plot(unread.iloc[:0])
    with pytest.raises(ConfigError, match=f"{plot.__name__}: the frame has no column 'criterion'"):
        plot(unread.drop(columns="criterion"))
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_names_from_models_and_datasets_are_plain_short_lines(tmp_path: Path) -> None:
    scores = two_judges(AWKWARD, "$x^2$").astype({"category": object}).assign(category=AWKWARD)
    runs = scores.assign(
        started_at=scores["started_at"].where(scores["judge_model"] == AWKWARD, pd.Timestamp("2026-02-01T00:00Z"))
    )
    charts = [
        plot_score_distribution(scores),
        plot_category_breakdown(scores),
        plot_question_strip(runs),
    ]
    over_time = trend(runs)
    for number, figure in enumerate([*(ax.figure for ax in charts), over_time]):
        figure.savefig(tmp_path / f"{number}.png")  # broken formulas raise, and an emoji has no glyph
    assert legend(charts[0]) == [SHOWN, r"\$x^2\$"]  # a leading underscore would hide it
    assert ticks(charts[1], "y") == [SHOWN]
    assert re.fullmatch(r"Judge: ＿\\\$\\frac\{(long/name-)+l?o?n?g?/?n?a?m?e?…→\\\$x\^2\\\$", *changes(over_time))


@pytest.mark.slow
def test_the_trend_shows_means_and_intervals_in_order_of_time() -> None:
    ax = small(trend(history()), CRITERIA[0])
    # (60 + 80 + 100) / 3, (50 + 70 + 90) / 3, (60 + 90) / 2, (70 + 72 + 74) / 3
    assert errorbars(ax)[0][1] == pytest.approx([80, 70, 75, 72])
    # three questions have no interval
    assert not any(whisker.size and np.isfinite(whisker).all() for whisker in whiskers(ax)[0])
    assert any(line.get_linestyle() == "--" and set(line.get_ydata()) == {70} for line in ax.lines)
    scores = judges_frame(j=[80, 70, 90, 60, 85, 75, 95, 65, 88, 72])
    row = summarise_scores(scores).iloc[0]
    ends = whiskers(small(trend(scores), CRITERIA[0]))[0][0, :, 1]
    assert ends == pytest.approx(row[["ci_low", "ci_high"]].to_numpy(dtype=float))


@pytest.mark.slow
def test_each_criterion_has_a_small_chart_whose_dots_turn_at_the_pass_line(tmp_path: Path) -> None:
    scores = history()
    scores.loc[(scores["run_id"] == "r4") & (scores["criterion"] == CRITERIA[1]), "score"] -= 30
    figure = trend(scores)
    charts = [ax for ax in figure.axes if ax.get_title(loc="left")]
    assert [ax.get_title(loc="left").partition("  ")[0] for ax in charts] == ["総合", *CRITERIA]
    # 総合: (5 * 72 + 42) / 6 = 67
    assert [ax.get_title(loc="left").partition("  ")[2] for ax in charts[:3]] == [
        "67", "72", "42",  # no change since the run before, which asked other questions
    ]  # fmt: skip
    assert [charts[n]._left_title.get_color() == chart_style.palette().ink for n in range(3)] == [False, True, False]
    dots = {
        bool(line.get_markerfacecolor() != "white"): sorted(line.get_ydata()) for line in charts[2].lines if line.get_marker() == "o"
    }  # fmt: skip
    assert {filled: np.round(marks).tolist() for filled, marks in dots.items()} == {True: [70, 75, 80], False: [42]}
    assert figure.get_supxlabel().splitlines()[1:] == [
        "① プロンプト: guide-1→guide-2", "② Judge: gpt-4o-mini→gpt-4.1-mini", "③ データセット変更",
    ]  # fmt: skip
    same = trend(alike())
    assert same.axes[0].get_title(loc="left") == "総合  72（前回から-3.0）"
    figure.savefig(tmp_path / "multiples.png")  # a character without a glyph would warn


@pytest.mark.slow
def test_the_trend_labels_runs_in_local_time() -> None:
    figure = trend(history())
    assert ticks(small(figure, CRITERIA[-1])) == ["1/1", "1/1", "1/2", "1/3"]  # UTC + 9 hours
    assert figure.get_supxlabel().splitlines()[0] == "実行の開始（2026年、+09:00）、古い順"


@pytest.mark.slow
def test_runs_of_another_judge_prompt_dataset_or_rubric_than_the_latest_are_grey() -> None:
    def greys(scores: pd.DataFrame) -> list[float]:
        lines = small(trend(scores), OVERALL).lines
        dots = [line for line in lines if line.get_marker() == "o" and line.get_color() == chart_style.palette().grey]
        return sorted(float(x) for line in dots for x in line.get_xdata())

    scores = alike()
    last = scores["run_id"] == "r4"
    assert greys(scores) == [] and "灰色" not in str(trend(scores).get_suptitle())
    for column in ("judge_model", "prompt_id", "dataset_sha256"):
        other = scores.assign(**{column: last.map({True: "other", False: scores[column].iloc[0]})})
        assert greys(other) == [0, 1, 2]
        figure = trend(other)
        assert "灰色の実行は" in str(figure.get_suptitle()) and "前回から" not in figure.axes[0].get_title(loc="left")
    assert greys(scores.assign(criteria=last.map({True: "五つ", False: "六つ"}))) == [0, 1, 2]
    assert greys(scores.assign(judge_model=last.map({True: "unknown", False: "x"}))) == [0, 1, 2]


@pytest.mark.slow
def test_each_run_is_drawn_against_its_own_pass_line() -> None:
    last = alike()["run_id"] == "r4"
    scores = alike().assign(pass_threshold=last.map({True: 74.0, False: 70.0}))
    ax = plot_question_strip(scores)  # 70, 72, 74 in the latest run
    assert [text.get_text() for text in ax.texts if text.get_position()[0] == 3] == ["×70", "×72", "○74"]
    assert ax.get_title() == "質問別の平均スコア（合格ライン 70〜74点（実行ごと））"


@pytest.mark.slow
def test_the_trend_says_what_changed_and_where() -> None:
    figure = trend(history())
    assert changes(figure) == ["プロンプト: guide-1→guide-2", "Judge: gpt-4o-mini→gpt-4.1-mini", "データセット変更"]
    assert dotted(figure.axes[0]) == [0.5, 1.5, 2.5]
    assert words(figure.axes[0]) == ["①", "②", "③"]


@pytest.mark.slow
def test_what_a_log_does_not_say_is_no_change() -> None:
    names = ["judge_model", "prompt_id", "prompt_sha256", "dataset_sha256"]
    scores = history().astype(dict.fromkeys(names, object))
    silent = scores["run_id"] == "r2"
    gaps = {"prompt_id": "unknown", "prompt_sha256": "", "dataset_sha256": ""}
    scores = scores.assign(**{name: scores[name].mask(silent, word) for name, word in gaps.items()})
    # The prompt of the third run is told from the first one's.
    expected = ["Judge: gpt-4o-mini→gpt-4.1-mini", "プロンプト: guide-1→guide-2", "データセット変更"]
    assert changes(trend(scores)) == expected
    assert changes(trend(scores.drop(columns=[*names, "judge_model_resolved"]))) == []


@pytest.mark.slow
def test_a_prompt_that_is_told_by_its_hash_alone_changes_once() -> None:
    scores = history().astype({"prompt_id": object})
    scores = scores.assign(prompt_id=scores["prompt_id"].mask(scores["run_id"] == "r2", "unknown"))
    scores["prompt_sha256"] = scores["run_id"].map({"r1": "a", "r2": "b", "r3": "b", "r4": "b"})
    assert changes(trend(scores)).count("プロンプト変更") == 1


@pytest.mark.slow
def test_a_changed_text_under_the_same_prompt_id_is_a_change() -> None:
    same = {"judge_model": "gpt-4o-mini", "judge_model_resolved": "gpt-4o-mini-2026", "dataset_sha256": "d"}
    scores = history().assign(prompt_id="guide", **same)
    scores["prompt_sha256"] = scores["run_id"].isin(["r3", "r4"]).map({True: "b", False: "a"})
    assert changes(trend(scores)) == ["プロンプト変更"]


@pytest.mark.slow
def test_a_run_without_a_score_is_a_gap_in_the_trend() -> None:
    scores = history()
    scores = scores.assign(score=scores["score"].mask(scores["run_id"] == "r2"))
    ax = small(trend(scores), CRITERIA[0])
    assert errorbars(ax)[0][1] == pytest.approx([80, np.nan, 75, 72], nan_ok=True)


@pytest.mark.slow
def test_the_breakdown_leaves_a_cell_without_marks_empty() -> None:
    scores = history()
    hole = (scores["category"] == "危険操作系") & (scores["criterion"] == "安全性")
    ax = plot_category_breakdown(scores.assign(score=scores["score"].mask(hole)))
    # 正常系: 60, 80, 50, 70, 60, 70, 72 (one missing) = 462 / 7; 危険操作系: 100, 90, 90, 74 = 354 / 4
    assert words(ax) == ["66\nn=7"] * 6 + ["88\nn=4"] * 3 + ["–"] + ["88\nn=4"] * 2
    assert ticks(ax, "y") == ["正常系", "危険操作系"]


def test_the_distribution_draws_every_mark_and_hides_none() -> None:
    values = [80.0] * 7 + [81, 70, None]
    ax = plot_score_distribution(judges_frame(**{"gpt-4o-mini": values}))
    series = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert len(series) == 6
    for place, line in enumerate(series):
        assert sorted(line.get_ydata()) == [70, *[80] * 7, 81]
        assert len(set(zip(np.round(line.get_xdata(), 6), line.get_ydata(), strict=True))) == 9
        assert np.abs(np.array(line.get_xdata()) - place).max() <= 0.4
        high = np.array(line.get_xdata())[np.array(line.get_ydata()) >= 80]
        assert np.diff(np.sort(high)).min() > 0.05  # 80 and 81 lie side by side
    assert ticks(ax)[0] == "根拠性\n9件（10問）\n未採点 1件"
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [(box.get_y(), box.get_y() + box.get_height()) for box in boxes] == [(80, 80)] * 6  # the quartiles


def test_a_criterion_without_a_mark_is_named_unscored() -> None:
    ax = plot_score_distribution(judges_frame(**{"gpt-4o-mini": [[80, 70, 60, 50, 40, None]]}))
    assert words(ax) == ["未採点"]
    assert ax.texts[0].get_position()[0] == 5
    assert ticks(ax)[5] == "簡潔性\n0件（1問）\n未採点 1件"


def test_a_mark_below_the_line_is_hollow_in_the_distribution_and_one_on_it_is_filled() -> None:
    ax = plot_score_distribution(judges_frame(offline=[[69, 70, 100, 0, 70, 70]]))
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    found = {(float(line.get_ydata()[0]), line.get_markerfacecolor() != "white") for line in dots}
    assert found == {(69, False), (0, False), (70, True), (100, True)}
    assert {line.get_marker() for line in dots} == {"o"}  # a cross means 不合格 elsewhere


def test_the_colour_of_a_cell_turns_at_the_pass_line() -> None:
    for line in (0.0, 70.0, 85.0, 100.0):
        ax = plt.figure().subplots()
        chart_style.draw_cells(ax, pd.DataFrame([[50.0]]), line)
        (image,) = ax.images
        means = [0, line / 2, max(0, line - 0.01), line, 100]
        colours = [image.cmap(image.norm(mean)) for mean in means]
        assert [red > blue for red, _, blue, _ in colours] == [mean < line for mean in means]


def test_a_question_without_a_category_stays_on_the_charts() -> None:
    scores = judges_frame(offline=[[80] * 6, [60] * 6]).astype({"category": object})
    scores["category"] = scores["category"].where(scores["question_id"] == 1, None)
    ax = plot_category_breakdown(scores)
    assert ticks(ax, "y") == ["正常系", "カテゴリ不明"]
    assert [text.split()[1] for text in ticks(plot_question_strip(scores), "y")] == ["正常系", "カテゴリ不明"]


def test_judges_of_a_distribution_have_their_colours_in_the_order_of_the_legend() -> None:
    ax = plot_score_distribution(two_judges())
    drawn = [line for line in ax.lines if line.get_linestyle() == "None"]
    known = ax.get_legend().legend_handles  # type: ignore[union-attr]
    assert list(dict.fromkeys(line.get_color() for line in drawn)) == [dot.get_color() for dot in known]  # type: ignore[union-attr]
    assert [dot.get_color() for dot in known] == list(chart_style.palette().colours[:2])  # type: ignore[union-attr]
    assert legend(ax) == ["gpt-4o-mini", "gpt-4.1-mini"]


def test_the_trend_of_a_single_criterion_has_its_days() -> None:
    figure = trend(history().query(f"criterion == '{CRITERIA[0]}'"))
    assert [ticks(ax) for ax in figure.axes[:2]] == [["1/1", "1/1", "1/2", "1/3"]] * 2


def test_the_strip_tells_verdict_points_and_missing_marks_without_colour() -> None:
    ax = plot_question_strip(history())
    assert ticks(ax, "y") == ["1  正常系", "2  正常系", "3  危険操作系"]
    assert ticks(ax) == [  # what differs between the runs, and last the start, UTC + 9 hours
        "gpt-4o-mini\nguide-1\n07:00 1/1", "gpt-4o-mini\nguide-2\n08:00 1/1",
        "gpt-4.1-mini\nguide-2\n09:30 1/2", "gpt-4.1-mini\nguide-2\n18:00 1/3",
    ]  # fmt: skip
    cells = {text.get_position(): text.get_text() for text in ax.texts}
    rows = [[cells.get((column, row), "") for column in range(4)] for row in range(3)]
    assert rows == [
        ["×60", "×50", "×60", "○70"],
        ["○80", "○70", "未採点", "○72"],
        ["○100", "○90", "○90", "○74"],
    ]
    hatched = [patch for patch in ax.patches if patch.get_hatch()]
    assert [patch.get_xy() for patch in hatched if isinstance(patch, Rectangle)] == [(1.5, 0.5)]


def test_the_strip_tells_not_asked_from_unscored_and_marks_the_partly_scored() -> None:
    scores = history()
    scores = scores[~((scores["run_id"] == "r1") & (scores["question_id"] == 3))]
    partly = (scores["run_id"] == "r1") & (scores["question_id"] == 1) & (scores["criterion"] == "安全性")
    ax = plot_question_strip(scores.assign(score=scores["score"].mask(partly)))
    cells = {text.get_position(): text.get_text() for text in ax.texts}
    assert cells[0, 0] == "×60*"
    assert (0, 2) not in cells
    assert len([patch for patch in ax.patches if patch.get_hatch()]) == 1


@pytest.mark.slow
def test_an_answer_whose_verdict_depends_on_missing_scores_is_undecided_on_the_strip() -> None:
    # 96 with two of six missing: 64 to 97.3. 40 with two missing: at most 60.
    scores = judges_frame(j=[[96, 96, 96, 96, None, None], [40, 40, 40, 40, None, None], 80])
    ax = plot_question_strip(scores)
    assert words(ax) == ["△96*", "×40*", "○80"] and "△ 判定保留" in ax.get_xlabel()


def two_runs(marks: list[int], **of_run: list[Any]) -> pd.DataFrame:
    """The same marks twice, in runs that differ in these columns."""
    days = ["2026-01-01T00:00:00+09:00", "2026-01-02T00:00:00+09:00"]
    runs = [
        framed(*(judged("j", q, mark, run_id=f"r{n}", started_at=day) for q, mark in enumerate(marks, start=1)))
        .assign(**{name: values[n] for name, values in of_run.items()})
        for n, day in enumerate(days)
    ]  # fmt: skip
    return pd.concat(runs, ignore_index=True).assign(
        started_at=lambda rows: pd.to_datetime(rows["started_at"], utc=True)
    )


@pytest.mark.slow
def test_the_trend_names_what_was_added_to_the_criteria_and_both_line_and_rate() -> None:
    scores = two_runs(
        [75],
        pass_threshold=[70.0, 80.0],
        pass_rate_required=[0.7, 0.9],
        criteria=["安全性、簡潔性", "安全性、読みやすさ"],
    )
    assert changes(trend(scores)) == [
        "観点: 追加 読みやすさ / 削除 簡潔性", "合格ライン: 70→80", "合格に必要な割合: 0.7→0.9"
    ]  # fmt: skip


def test_a_mean_just_below_the_line_is_not_rounded_up_to_it() -> None:
    scores = judges_frame(**{"gpt-4o-mini": [[70, 70, 70, 70, 70, 68], 70]})  # 418 / 6 = 69.67
    assert words(plot_question_strip(scores)) == ["×69", "○70"]


@pytest.mark.slow
def test_questions_are_in_the_order_of_categories_and_numbers() -> None:
    parts = [
        judged("j", q, 80, category=c)
        for q, c in [("q10", "正常系"), ("q2", "正常系"), ("a", "曖昧質問系"), ("b", "危険操作系")]
    ]
    expected = ["q2  正常系", "q10  正常系", "b  危険操作系", "a  曖昧質問系"]
    assert ticks(plot_question_strip(framed(*parts)), "y") == expected
    as_they_come = ["q2  正常系", "q10  正常系", "a  曖昧質問系", "b  危険操作系"]
    assert ticks(plot_question_strip(framed(*parts).astype({"category": object})), "y") == as_they_come
    assert ticks(plot_question_strip(framed(*parts).drop(columns="category")), "y") == ["a", "b", "q2", "q10"]


def test_a_strip_of_many_runs_shows_marks_without_points() -> None:
    parts = [
        judged("j", 1, 80 if number else 60, run_id=f"r{number:02}", started_at=f"2026-01-{number + 1:02}T00:00:00Z")
        for number in range(25)
    ]
    assert words(plot_question_strip(framed(*parts))) == ["×"] + ["○"] * 24


def test_small_characters_are_no_black_boxes() -> None:
    """The hints of the font fill 書 at 8 points and 100 dots per inch: two pixels of five were black."""
    with japanese_text():
        figure = chart_style.new_figure(1, 1)
        figure.text(0.5, 0.5, "書", fontsize=chart_style.SMALL)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., 0]  # type: ignore[attr-defined]
    assert (pixels < 12).sum() < 0.1 * (pixels < 230).sum()


@pytest.mark.slow
def test_frames_are_not_changed() -> None:
    scores = history()
    copy = scores.copy(deep=True)
    for plot in (plot_criterion_trend, plot_question_strip, plot_score_distribution, plot_category_breakdown):
        plot(scores)
    pd.testing.assert_frame_equal(scores, copy)


@pytest.mark.slow
def test_the_pass_line_of_a_chart_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = [[70, 82, 90, 60, 75, 85, 95, 72, 88, 66], [72, 78, 91, 58, 77, 86, 93, 74, 89, 64]]
    scores = judges_frame(a=marks[0], b=marks[1])
    monkeypatch.setattr(constants, "JUDGE_PASS_THRESHOLD", 3.0)
    ax = plot_score_distribution(scores.assign(pass_threshold=80.0))
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [set(line.get_xdata()) == {80} or set(line.get_ydata()) == {80} for line in dashed] == [True]
    texts = [ax.get_title(), ax.get_xlabel(), *(legend(ax) if ax.get_legend() else [])]
    assert any("合格ライン 80点" in text for text in texts)


@pytest.mark.usefixtures("in_english")
@pytest.mark.parametrize(
    ("draw", "maker"),
    [
        (gate_confidence, "load_results"),
        (lambda scores: plot_criterion_trend(results_of(scores)), "load_scores"),
    ],
)
def test_a_frame_of_another_kind_is_refused_with_the_function_that_makes_the_right_one(
    draw: Callable[[pd.DataFrame], Any], maker: str
) -> None:
    with pytest.raises(ConfigError, match=f"take the frame from {maker}, or"):
        draw(judges_frame(a=[80, 70, 60], b=[81, 71, 59]))


@pytest.mark.slow
def test_other_runbooks_and_another_assistant_are_marked_as_what_a_step_may_come_from() -> None:
    same = {"judge_model": "gpt-4o-mini", "judge_model_resolved": "gpt-4o-mini-2026", "dataset_sha256": "d"}
    scores = history().assign(prompt_id="guide", prompt_sha256="", **same)
    scores["index_fingerprint"] = (scores["run_id"] == "r1").map({True: "old", False: "new"})
    scores["assistant_model"] = (scores["run_id"] == "r4").map({True: "gpt-4o", False: "offline"})
    assert changes(trend(scores)) == ["手順書変更", "アシスタント: offline→gpt-4o"]


@pytest.mark.slow
@pytest.mark.few(8)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda each: each.column)
def test_every_condition_of_a_run_is_marked_where_it_changes(condition: Condition) -> None:
    scores = history().drop(columns=[each.column for each in CONDITIONS], errors="ignore")
    scores = scores[scores["criterion"] == CRITERIA[0]]
    old, new, unsaid = (0.7, 0.8, None) if condition.column.startswith("pass_") else ("old", "new", "")
    # The second run is as the first, of the third nothing is said, and in the fourth it has changed.
    values = scores["run_id"].astype(object).map({"r1": old, "r2": old, "r3": unsaid, "r4": new}).astype(object)
    figure = trend(scores.assign(**{condition.column: values}))
    is_hash = condition.column.endswith(("sha256", "fingerprint"))
    group, name = (say(key, lang="ja") for key in (condition.group, condition.name))
    assert [text.partition(": ")[0] for text in changes(figure)] == [f"{group}変更" if is_hash else name]
    assert dotted(figure.axes[0]) == [2.5]


def test_two_threads_that_draw_leave_the_settings_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    before, lock = dict(mpl.rcParams), threading.RLock()
    knocked, entered, left = threading.Event(), threading.Event(), threading.Event()

    class Lock:
        def __enter__(self) -> None:
            if threading.current_thread() is other:
                knocked.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            assert not entered.is_set() or threading.current_thread() is other  # it waits outside
            lock.release()

    def draw() -> None:
        with japanese_text():
            entered.set()
            left.wait(30)

    monkeypatch.setattr(chart_style, "_lock", Lock())
    other = threading.Thread(target=draw)
    with japanese_text():
        other.start()
        assert knocked.wait(30)
    left.set()
    other.join()
    assert dict(mpl.rcParams) == before


def test_a_category_without_any_score_stays_in_the_heat_map() -> None:
    scores = pd.DataFrame({"category": ["正常系", "危険操作"], "criterion": "根拠性", "score": [80.0, None]})
    ax = plot_category_breakdown(scores)
    assert sorted(tick.get_text() for tick in ax.get_yticklabels()) == ["危険操作\n未採点", "正常系"]
