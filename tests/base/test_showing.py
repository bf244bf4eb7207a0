"""What a line of a notebook or a terminal shows when it ends with an object of ours."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from fontTools.ttLib import TTFont
from support.runs import one_run
from support.score_frames import judges_frame, results_of

import socjudge as sj
from socjudge import constants
from socjudge.base.messages import column_words, speaking
from socjudge.base.pass_rule import summarise_results
from socjudge.base.showing import question_html, steps_html, symbols
from socjudge.certify.findings import find_changes, summarise_changes
from socjudge.panels.views import summary_html
from socjudge.records import EvaluationRun, RunInfo, RunSummary, Usage, is_embedded
from socjudge.runs.logs import RESCUED

pytestmark = pytest.mark.usefixtures("in_japanese")

HOSTILE = "\x1b[31m<script>alert(1)</script>\n‮" + "長い" * 500


@pytest.fixture
def run(samples: Path) -> EvaluationRun:
    return sj.load_run(min(samples.glob("*.json")))


def judged_by(run: EvaluationRun, model: str) -> EvaluationRun:
    results = tuple(replace(each, evaluation=replace(each.evaluation, model=model)) for each in run.results)
    return replace(run, results=results, run=replace(run.run, judge_model=model, judge_model_resolved=model))


def every_object(run: EvaluationRun) -> Iterator[object]:
    result = run.results[0]
    yield from (run, result, result.answer, result.evaluation)
    yield replace(result.evaluation, status="unparsable", error="no JSON in it")


def test_a_terminal_shows_every_object_in_one_line(run: EvaluationRun) -> None:
    assert all("\n" not in repr(shown) for shown in [*every_object(run), run.summary])
    assert repr(run) == (
        f"<EvaluationRun: passed, 10 of 10 questions, mean {run.summary.average_score:.1f}, judge 'offline-rubric-1' (no LLM), $0.0000, "
        f"'{run.log_path}'>"
    )


def test_what_a_model_says_stays_text(run: EvaluationRun) -> None:
    result = run.results[0]
    answer = replace(result.answer, question=HOSTILE, answer=HOSTILE, model=HOSTILE)
    marks = replace(
        result.evaluation, model=HOSTILE, error=HOSTILE, overall_comment=HOSTILE, rationale={"根拠性": HOSTILE}
    )
    passage = sj.records.Passage(HOSTILE, HOSTILE, HOSTILE)
    info = replace(run.info, run_id=HOSTILE, judge_model=HOSTILE, judge_model_resolved=HOSTILE)
    question = replace(result.question, id=HOSTILE, question=HOSTILE)
    hostile = replace(result, question=question, answer=replace(answer, passages=(passage,)), evaluation=marks)
    texts = replace(run, results=(hostile,), run=info)
    for shown in every_object(texts):
        assert "\n" not in repr(shown) and "\x1b" not in repr(shown), shown
        page = shown._repr_html_()  # type: ignore[attr-defined]
        assert "<script" not in page and "\x1b" not in page and "\u202e" not in page, shown


def test_a_criterion_of_somebody_elses_log_is_no_link_and_no_command(run: EvaluationRun) -> None:
    evil = "<https://evil.example/x>\x1b[31m\u202e"
    marks = replace(run.results[0].evaluation, scores={evil: None, "安全性": 80.0}, missing={evil: "refused"})
    results = (replace(run.results[0], evaluation=marks),)
    page = replace(run, results=results, summary=summarise_results(results))._repr_html_()
    assert "evil.example" in page and not any(part in page for part in ("<a ", "\x1b", "\u202e"))


def test_a_run_in_a_cell_is_the_specifications_summary_with_judge_cost_and_log(run: EvaluationRun) -> None:
    page = judged_by(run, "gpt-4o-mini")._repr_html_()
    assert run.log_path is not None
    mean = f"{run.summary.average_score:.1f}点"
    for words in ("✅ MVP合格", "合格率: 100.0%", mean, "gpt-4o-mini", run.log_path.name):
        assert words in page
    assert 'class="socjudge good"' in page and len(page.replace(symbols(), "")) < 3_000
    failed = replace(judged_by(run, "gpt-4o-mini"), summary=RunSummary(10, 3, 0.3, 55.0, False))
    assert "❌ MVP不合格" in failed._repr_html_() and 'class="socjudge bad"' in failed._repr_html_()
    undecided = replace(failed, summary=RunSummary(10, 6, 0.6, 65.0, False, n_unscored=2, is_open=True))
    assert (
        "判定保留（採点不能 2 件）" in undecided._repr_html_()
        and "採点できなかった回答: 2件" in undecided._repr_html_()
    )
    assert 'class="socjudge warn"' in undecided._repr_html_() and "undecided" in repr(undecided)
    assert "（保存されていません）" in one_run()._repr_html_()


def test_a_verdict_of_the_embedded_judge_says_so_and_is_not_green(run: EvaluationRun) -> None:
    for shown in (run, run.results[0], run.results[0].evaluation):
        page = shown._repr_html_()
        assert "参考判定（LLMによる採点ではありません）" in page
        assert ('class="socjudge good"' not in page and '<span class="muted">✅</span>' in page) or "✅ " in page
    assert not is_embedded("gpt-4o-mini")
    assert "参考判定" not in judged_by(run, "gpt-4o-mini")._repr_html_()


def test_a_summary_fetches_nothing_from_elsewhere(run: EvaluationRun) -> None:
    names = "gpt-4o, ![x](https://evil.example/p.png)"
    page = summary_html(replace(run, run=replace(run.run, judge_model="gpt-4o", judge_model_resolved=names)))
    assert "ゲートウェイ" in page and "<img" not in page and "<a " not in page


def test_a_panel_paints_a_verdict_as_a_cell_does(run: EvaluationRun) -> None:
    kinds = [
        re.findall('class="socjudge ([a-z]*)"', summary_html(each)) for each in (run, judged_by(run, "gpt-4o-mini"))
    ]
    assert kinds == [["good", "grey"], ["good", "good"]]  # the log was saved, and the verdict
    assert run.log_path is not None
    rescued = summary_html(replace(run, log_path=Path(f"{RESCUED}x") / run.log_path.name))
    assert "一時フォルダーに保存しました" in rescued and 'class="socjudge good"' not in rescued


def test_an_unknown_price_is_shown_as_unknown() -> None:
    run = replace(one_run(), run=RunInfo("r", "", judge_usage=Usage(1, 2, 3, None)))
    assert (
        run.cost_usd is None and "cost unknown" in repr(run) and "不明（socjudge.toml の [prices]" in run._repr_html_()
    )


def test_a_run_gives_its_frames(run: EvaluationRun) -> None:
    assert run.results_frame()["question_id"].tolist() == [each.question.id for each in run.results]
    assert set(run.scores_frame()["criterion"]) == set(run.results[0].evaluation.scores)
    assert run.info is run.run and run.info.judge_model == "offline" and run.cost_usd == 0


def test_the_wide_frame_has_a_row_per_question_and_leaves_unread_replies_out_of_its_means(run: EvaluationRun) -> None:
    first, second = run.results[:2]
    names = list(first.evaluation.scores)
    again = replace(first.evaluation, scores=dict.fromkeys(names, 40), average_score=40.0)
    unread = replace(
        first.evaluation, scores=dict.fromkeys(names, 0), average_score=0.0, status="unparsable", error="no JSON"
    )
    results = (
        replace(second, evaluation=replace(unread)),
        replace(first, evaluation=replace(again, scores=dict.fromkeys(names, 80), average_score=80.0)),
        replace(first, evaluation=again, judge_repeat=1),
        replace(first, evaluation=unread, judge_repeat=2),
    )
    wide = replace(run, results=results).wide_frame()
    assert list(wide.index) == [second.question.id, first.question.id]  # as in the run
    assert wide["n"].tolist() == [1, 3] and wide["n_unscored"].tolist() == [1, 1]
    assert wide["average_score"].isna().tolist() == [True, False] and wide["average_score"].iloc[1] == 60.0
    assert list(wide.columns[-6:]) == names and wide.iloc[1, -6:].tolist() == [60.0] * 6  # (80 + 40) / 2
    assert wide.iloc[0, -6:].isna().all()


@pytest.mark.slow
def test_a_run_writes_its_report(run: EvaluationRun, tmp_path: Path) -> None:
    path = sj.write_report(tmp_path / "report.html", run, lang="ja")
    assert path.read_bytes() and run.results[3].question.question in path.read_text("utf-8")
    assert sj.write_report(tmp_path / "same.html", run, lang="ja").stat().st_size == path.stat().st_size
    with pytest.raises(sj.ConfigError):  # a run knows no other
        sj.write_report(tmp_path / "other.html", run, baseline="r", lang="ja")


def test_an_answer_is_shown_as_steps_and_nothing_in_it_is_markup() -> None:
    shown = steps_html(
        "手順書の順に。\n\n**初動 > 端末**\n\n1. 端末を<b>隔離</b>する。 [出典: a.md > 初動]\n2. 次を実行する。\n```bash\n1. echo <x>\n```\n- 記録する。"
    )
    assert "<b>初動 &gt; 端末</b>" in shown
    assert (
        '<div class="step"><b>1</b><div>端末を&lt;b&gt;隔離&lt;/b&gt;する。 <small class="muted">[出典: a.md &gt; 初動]'
        in shown
    )
    assert "<pre>1. echo &lt;x&gt;</pre>" in shown  # in a command no line is a step
    assert shown.count('class="step"') == 3
    assert steps_html("```\nnever closed <script>") == "<pre>never closed &lt;script&gt;</pre>"


def test_a_mark_below_the_line_is_red_and_a_low_safety_is_said_whatever_the_mean(run: EvaluationRun) -> None:
    scores = {**dict.fromkeys(constants.JUDGE_EVALUATION_CRITERIA, 100.0), "安全性": 69.9, "簡潔性": 70.0}
    marks = replace(run.results[0].evaluation, scores=scores, rationale={"安全性": "削除を勧めています"})
    page = question_html(replace(run.results[0], evaluation=marks), line=70.0)
    assert page.count('class="tile low"') == 1 and '<div class="tile low">安全性' in page
    assert "安全性が合格ライン（70点）を下回っています" in page
    assert page.index("削除を勧めています") < page.index("<details")  # reasons need no click
    assert "tile low" not in question_html(replace(run.results[0], evaluation=marks))  # no line is known


def test_a_reply_that_could_not_be_read_is_no_cross_but_not_scored(run: EvaluationRun) -> None:
    unread = replace(run.results[0].evaluation, status="unparsable", error="JSONがありません", scores={}, rationale={})
    page = question_html(replace(run.results[0], evaluation=unread), line=70.0)
    assert "⚠️" in page and "❌" not in page and "未採点: JSONがありません" in page and "tile low" not in page


def test_the_symbols_of_panels_and_reports_are_all_drawn() -> None:
    font = TTFont(io.BytesIO(base64.b64decode(symbols().split("base64,")[1].split(")")[0])))
    drawn = {chr(code) for code in font.getBestCmap()}
    used = {
        symbol
        for path in Path(sj.__file__).parent.rglob("*")
        if path.suffix in (".py", ".j2") and "cli" not in path.parts
        for symbol in re.findall("[\u2600-\u27bf\u23f0-\u23ff\U0001f300-\U0001faff]", path.read_text("utf-8"))
    }
    assert used - {"✕"} <= drawn  # ✕ is in every font


def test_a_table_escapes_what_it_shows_and_has_a_dash_where_nothing_is_known() -> None:
    frame = pd.DataFrame({"<b>": ["<script>", None], "mean": [80.25, None]}, index=["<i>", "x"])
    page = sj.show_table(frame).to_html()
    assert not any(tag in page for tag in ("<script>", "<i>", "<b>", "nan", "None"))
    assert page.count("–") == 2 and "80.2" in page
    assert sj.show_table(pd.concat([frame, frame])).to_html().count("80.2") == 2  # the same labels twice


def test_a_table_shows_control_and_direction_characters_as_what_they_are() -> None:
    hostile = "\x1b[31m\u202egnirts\u200b"
    frame = pd.DataFrame(
        {hostile: [hostile, 1], "list": [[hostile, "<i>"], None]}, index=pd.Index([hostile, 2.5], name=hostile)
    )
    page = sj.show_table(frame.rename_axis(columns=hostile)).to_html()
    assert not any(letter in page for letter in "\x1b\u202e\u200b") and "<i>" not in page
    assert page.count("⟦U+202E⟧") >= 3


def public_frames(run: EvaluationRun, logs: Path) -> Iterator[pd.DataFrame]:
    """One of each kind that a public function returns. Those that take a judge's replies to make are as documented."""
    yield from (sj.load_runs(logs), sj.load_results(logs, text=True), sj.load_scores(logs, text=True))
    yield from (run.wide_frame(), sj.history.check_logs(logs), sj.history.load_labels(ROOT / "eval" / "human_labels"))
    scores = judges_frame(A=[40, 45, 60, 65, 72, 76, 80, 85, 90, 95], B=[35, 50, 50, 70, 75, 70, 85, 80, 95, 90])
    labels = scores[scores["judge_model"] == "A"].assign(rater="佐藤", score=lambda rows: rows["score"] - 5)
    yield from (sj.compare_judges(scores, baseline="A"), sj.verdict_flips(scores, baseline="A"))
    yield from (sj.summarise_scores(scores), sj.judge_agreement(scores))
    stats = sj.stats
    for beside_people in (stats.corrected_means, stats.corrected_pass_rate, stats.judge_vs_people, stats.judge_trust):
        yield beside_people(scores, labels)
    yield stats.bridge_judges(scores, old="A", new="B")
    yield stats.gate_confidence(results_of(labels), noise=5.0)
    comparison = sj.compare_runs(run, replace(run, run=replace(run.run, run_id="another")))
    yield from (comparison.differences, comparison.questions)
    cases = [("original", 90), ("original", 88), ("said_twice", 40)]
    judged = pd.DataFrame([{"case": name, "score": float(score)} for name, score in cases]).assign(status="ok")
    judged = judged.assign(question_id=1, variant=[0, 1, 0], criterion="簡潔性")
    yield summarise_changes(find_changes(judged, 70.0))  # a certificate's table


def heads_of(frame: pd.DataFrame) -> list[str]:
    page = sj.show_table(frame.head(1)).to_html()
    found = re.findall(r'<th [^>]*"(?:col_heading|index_name)[^>]*>(.*?)</th>', page)
    return [html.unescape(re.sub("<[^>]*>", "", head)) for head in found]


@pytest.mark.slow
def test_every_column_of_a_public_frame_is_shown_with_a_japanese_head_and_its_name(
    run: EvaluationRun, samples: Path
) -> None:
    names = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "docs" / "frames.md").read_text("utf-8"), re.MULTILINE)
    documented = pd.DataFrame(columns=[*dict.fromkeys(re.findall(r"\w+", " ".join(names)))])
    seen = set[str]()
    for frame in (*public_frames(run, samples), documented):
        columns = [*frame.columns, *filter(None, frame.index.names)]
        columns = [name for name in columns if name not in run.rubric.criteria]
        heads = [head for head in heads_of(frame) if head not in run.rubric.criteria]
        assert {head for head in heads if not re.search("[ぁ-ヿ一-龠]", head)} <= {"Judge", "α", "κ"}
        assert len(set(heads)) == len(heads) == len(columns)
        page = sj.show_table(frame.head(1)).to_html()
        assert [name for name in columns if f'<span title="{name}">' not in page] == []
        with speaking("en"):
            assert set(heads_of(frame)) >= set(columns)
        seen |= {*columns, *(re.sub("_(low|high)$", "", name) for name in columns)}
    assert column_words().keys() - seen == {"low", "high"}


def test_a_column_of_a_persons_own_is_shown_by_its_name() -> None:
    assert heads_of(pd.DataFrame({"速さ": [1], "speed_low": [2], "<i>": [3], 7: [4]})) == [
        "速さ",
        "speed_low",
        "<i>",
        "7",
    ]
