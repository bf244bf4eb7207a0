"""Did the change help: two runs of the same questions, their conditions in words, refusals, and how often it errs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.score_frames import framed, judged

from socjudge import ConfigError, EvalQuestion, build_index, compare_judges, compare_runs, load_run
from socjudge import run_evaluation_suite as run_suite
from socjudge.base.messages import speaking
from socjudge.constants import CARRIED_DIR, RUNBOOKS_DIR
from socjudge.report.effect import RunComparison
from socjudge.stats.basics import OVERALL

SERIES = sorted((CARRIED_DIR / "eval" / "examples" / "series").glob("*.json.gz"))
OLD = [70, 80, 90, 60, 75, 85, 95, 72, 88, 66]
NEW = [75, 86, 92, 65, 79, 90, 97, 76, 95, 68]  # 4.2 points more on average; questions 4 and 10 stay below 70


@pytest.fixture(autouse=True)
def japanese() -> Iterator[None]:
    with speaking("ja"):
        yield


def run_frame(run_id: str, marks: list[Any], *, day: int = 1, judge: str = "gpt-4o", **columns: Any) -> pd.DataFrame:
    """A run's scores; each run has answers of its own."""
    started = f"2026-01-{day:02}T00:00:00+09:00"
    parts = [
        judged(judge, question, mark, answer=run_id, run_id=run_id, started_at=started)
        for question, mark in enumerate(marks, start=1)
    ]
    return framed(*parts).assign(**columns)


def overall(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["criterion"] == OVERALL].iloc[0]


@pytest.mark.slow
def test_other_answers_are_compared_with_the_numbers_of_compare_judges() -> None:
    before, after = run_frame("a", OLD), run_frame("b", NEW, day=2)
    with pytest.raises(ConfigError):
        compare_judges(pd.concat([before, after]), baseline="a", by="run_id")
    found = compare_runs(before, after)
    alike = [frame.assign(answer_sha256=frame["question_id"].astype(str)) for frame in (before, after)]
    expected = compare_judges(pd.concat(alike), baseline="a", by="run_id")
    pd.testing.assert_frame_equal(
        found.differences.drop(columns="conclusion"), expected.drop(columns="conclusion")
    )  # the words are about the answers here, and about the judging there
    row = overall(found.differences)
    assert (row["mean_difference"], row["ci_low"], row["ci_high"]) == pytest.approx((4.2, 2.8973, 5.5027), abs=1e-4)
    assert found.finding == (
        "平均は78.1点から82.3点になり（+4.2点）、合格は8問のままです。"
        "偶然では説明しにくい差です（95%区間 +2.9〜+5.5点、p=0.002、10問）。"
    )


@pytest.mark.slow
def test_questions_won_and_lost_are_named_with_their_marks() -> None:
    found = compare_runs(run_frame("a", [60, 80, 90, 50]), run_frame("b", [75, 65, 91, 55]))
    assert found.questions["direction"].tolist() == ["不合格→合格", "合格→不合格", "合格のまま", "不合格のまま"]
    assert found.questions["difference"].tolist() == [15, -15, 1, 5]
    assert "合格に変わった質問（1問）: 1（60.0→75.0点）" in repr(found)
    assert "不合格に変わった質問（1問）: 2（80.0→65.0点）" in found._repr_html_()


@pytest.mark.slow
def test_the_same_marks_by_another_line_are_no_change_of_marks_but_of_the_verdict() -> None:
    marks = [75, 85, 90, 72]
    lines = [{"pass_threshold": 70.0}, {"pass_threshold": 80.0}]
    before, after = (run_frame(name, marks).assign(**line) for name, line in zip("ab", lines, strict=True))
    found = compare_runs(before, after)
    assert found.lines[0] == "4問すべて、どの観点も同じ点で、合格4問が2問になります。"
    assert "変更した条件: 合格ライン: 70→80" in found.lines
    assert found.questions["direction"].tolist() == ["合格→不合格", "合格のまま", "合格のまま", "合格→不合格"]
    assert any("不合格に変わった質問（2問）" in line for line in found.lines)


@pytest.mark.slow
def test_the_whole_comes_first_and_then_the_questions_that_turned() -> None:
    found = compare_runs(run_frame("a", [36, 67, 90, 88, 91]), run_frame("b", [97, 55, 90, 85, 90]))
    assert found.lines[:2] == [found.finding, "合格に変わった質問（1問）: 1（36.0→97.0点）"]
    unchanged = compare_runs(run_frame("a", OLD), run_frame("b", [mark + 1 for mark in OLD]))
    assert unchanged.lines[1] == "合否が変わった質問はありません"
    many = compare_runs(run_frame("a", [60] * 25), run_frame("b", [80] * 25))
    assert many.lines[1].startswith("合格に変わった質問（25問）: 1（60.0→80.0点）") and many.lines[1].endswith(" …")


@pytest.mark.parametrize(
    ("column", "value"),
    [("judge_model", "gpt-5"), ("judge_model_resolved", "gpt-4o-2027"), ("prompt_sha256", "another text")],
)
def test_marks_of_another_judge_or_prompt_are_refused(column: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{value}.*rejudge"):
        compare_runs(run_frame("a", OLD), run_frame("b", NEW, **{column: value}))


@pytest.mark.slow
def test_two_judges_are_compared_on_the_same_answers() -> None:
    before, after = (
        run_frame(name, marks, judge=judge).assign(answer_sha256=lambda rows: rows["question_id"].astype(str))
        for name, marks, judge in (("a", NEW, "gpt-4o"), ("b", OLD, "gpt-5"))
    )
    found = compare_runs(before, after)
    expected = compare_judges(pd.concat([before, after]), baseline="a", by="run_id")
    pd.testing.assert_frame_equal(found.differences, expected)
    assert found.lines[0] == found.finding
    assert found.finding == (
        "gpt-4oに比べ、gpt-5は同じ回答に4.2点低く付け、合格は8問のままです。"
        "偶然では説明しにくい差です（95%区間 -5.5〜-2.9点、p=0.002、10問）。"
    )
    assert "gpt-4o→gpt-5" in found.conditions["phrase"].iloc[0]
    other = after.assign(answer_sha256=after["answer_sha256"].replace("3", "別"))
    with pytest.raises(ConfigError, match=r"gpt-5.*rejudge"):
        compare_runs(before, other)


def by_judges(old: Sequence[float], new: Sequence[float], **columns: Any) -> RunComparison:
    """The same answers, marked by one judge and then by another."""
    runs = (
        run_frame(name, list(marks), judge=judge, **columns).assign(
            answer_sha256=lambda rows: rows["question_id"].astype(str)
        )
        for name, marks, judge in (("a", old, "mild"), ("b", new, "strict"))
    )
    return compare_runs(*runs)


MILD = [95, 90, 85, 80, 75, 72, 66, 60, 50, 40]
STRICT = [0.8 * mark + 2 for mark in MILD]  # 78 74 70 66 62 59.6 54.8 50 42 34: 70 corresponds to 58


@pytest.mark.slow
def test_of_another_judge_the_shift_what_turns_and_the_corresponding_line_are_said_first() -> None:
    found = by_judges(MILD, STRICT)
    assert found.lines[0].startswith("mildに比べ、strictは同じ回答に12.3点低く付け、合格6問が3問になります。")
    assert found.lines[1] == (
        "mildの70点は、strictではおよそ58点にあたります（95%区間 58〜58点）。"
        "合格ラインが70点のままなら3件、58点なら0件の回答で合否が変わります"
    )
    assert found.lines[2].startswith("不合格に変わった質問（3問）: 4（80.0→66.0点）")
    bridge = overall(found.bridge)
    assert (bridge["pass_line"], bridge["slope"]) == pytest.approx((58, 0.8))
    back = by_judges(STRICT, MILD)
    assert back.lines[0].startswith("mildに比べ、strictは同じ回答に12.3点高く付け、合格3問が6問になります。")
    assert "strictではおよそ85点" in back.lines[1]
    with speaking("en"):
        english = by_judges(MILD, STRICT).lines
    assert english[0].startswith(
        "Compared with mild, strict scores the same answers 12.3 points lower; 6 passed questions become 3."
    )
    assert english[1].startswith("70 points with mild correspond to about 58 with strict")


@pytest.mark.slow
def test_the_corresponding_line_is_of_the_line_of_the_first_run() -> None:
    found = by_judges(MILD, STRICT, pass_threshold=80.0)
    assert found.lines[1].startswith("mildの80点は、strictではおよそ66点にあたります")


def test_with_too_few_questions_no_line_is_said_to_correspond() -> None:
    found = by_judges(MILD[:7], STRICT[:7])
    assert found.lines[1].endswith("、7問からは分かりません。両方のJudgeが同じ順に並べる質問が8問以上必要です")
    assert found.bridge.empty


@pytest.mark.slow
def test_judges_that_do_not_prefer_the_same_answers_have_no_corresponding_line() -> None:
    found = by_judges(MILD, [70, 40, 80, 60, 90, 50, 75, 45, 85, 66])
    assert found.lines[1].startswith("mildの70点がstrictの何点にあたるかは、10問からは分かりません。")
    assert "偶然の差かもしれません" in found.lines[0] and "質問ごとの点は±26点ばらつきます" in found.lines[0]


@pytest.mark.slow
def test_a_line_that_a_single_question_decides_has_no_interval_and_is_not_said() -> None:
    old = [*[90.0] * 9, 40.0]  # without the last question, this judge tells no two answers apart
    for new in ([*[70.0] * 9, 30.0], [*[70.0] * 8, 69.0, 30.0]):
        found = by_judges(old, new)
        assert "10問からは分かりません" in found.lines[1]
        assert "nan" not in repr(found) and "nan" not in found._repr_html_()


@pytest.mark.slow
def test_a_line_beyond_all_answers_is_called_a_guess() -> None:
    found = by_judges([mark / 2 for mark in MILD], [mark / 2 - 3 for mark in MILD])
    assert "合格は0問のままです" in found.lines[0] and "区間はありません" in found.lines[0]
    assert "これは推測です" in found.lines[1]


@pytest.mark.slow
def test_another_prompt_of_the_same_judge_is_compared_without_a_corresponding_line() -> None:
    before, after = (
        run_frame(name, marks, prompt_sha256=name).assign(answer_sha256=lambda rows: rows["question_id"].astype(str))
        for name, marks in (("a", MILD), ("b", STRICT))
    )
    found = compare_runs(before, after)
    assert found.corresponding == "" and found.bridge.empty and "同じ回答に12.3点低く付け" in found.lines[0]


@pytest.mark.slow
def test_other_criteria_are_refused_and_another_name_for_the_same_prompt_is_not() -> None:
    with pytest.raises(ConfigError, match=r"観点: 追加 実行可能性"):
        compare_runs(run_frame("a", OLD, criteria="安全性"), run_frame("b", NEW, criteria="安全性、実行可能性"))
    found = compare_runs(run_frame("a", OLD), run_frame("b", NEW, prompt_id="renamed"))
    assert found.conditions["phrase"].tolist() == ["プロンプト: guide-1→renamed"]


def test_what_is_no_pair_of_runs_is_refused_with_the_remedy(tmp_path: Path) -> None:
    frame = run_frame("a", OLD)
    with pytest.raises(ConfigError, match="同じ実行"):
        compare_runs(frame, frame)
    with pytest.raises(ConfigError, match="共通の質問がない"):
        compare_runs(frame, run_frame("b", NEW).assign(question_id=lambda rows: rows["question_id"] + 100))
    with pytest.raises(ConfigError, match="no.json"):
        compare_runs("no.json", frame, logs_dir=tmp_path)
    with pytest.raises(ConfigError, match="int"):
        compare_runs(frame, 7)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="score"):
        compare_runs(frame.drop(columns="score"), frame)
    with pytest.raises(ConfigError, match="2つの実行"):
        compare_runs(pd.concat([frame, run_frame("b", NEW)]), frame)


@pytest.mark.slow
def test_questions_that_only_one_asked_or_judged_are_left_out_and_said() -> None:
    found = compare_runs(run_frame("a", [70, 80, 90]), run_frame("b", [72, None, 91, 95]))
    assert "共通の3問だけを比べました。片方にしかない質問は除外: 4" in found.notes
    assert found.questions["direction"].tolist() == ["合格のまま", "比較対象外", "合格のまま", "比較対象外"]
    assert overall(found.differences)["n"] == 2
    assert found.differences["baseline_mean"].tolist() == [80.0] * 7  # of both sides the same questions
    assert any("欠けた点 6 件" in note for note in found.notes)


def test_runs_without_a_common_mark_say_so() -> None:
    found = compare_runs(run_frame("a", [None, 80]), run_frame("b", [80, None]))
    assert found.finding == "全部の観点で両方に点のある質問がないため、総合は比べられません。"
    assert "比較対象外" in set(found.questions["direction"]) and found._repr_html_()


def test_a_criterion_without_any_score_leaves_the_others_compared() -> None:
    frames = run_frame("a", [70, 80, 90]), run_frame("b", [72, 85, 91])
    for frame in frames:
        frame.loc[frame["criterion"] == "簡潔性", "score"] = None
    frames[1].loc[frames[1]["criterion"] == "網羅性", "score"] += 5
    finding = compare_runs(*frames).finding
    assert finding.startswith("全部の観点で両方に点のある質問がないため、総合は比べられません。")
    assert "いちばん動いた観点は網羅性です（+7.7点" in finding


@pytest.mark.slow
def test_a_criterion_that_falls_while_the_mean_stays_is_said() -> None:
    before = [[70, 70, 70, 90, 70, 70]] * 12
    after = [[70 + i % 3 + 4, 74, 74, 70 - i % 3, 74, 74] for i in range(12)]
    found = compare_runs(run_frame("a", before), run_frame("b", after))
    assert any("差のある観点" in line and "安全性 -21.0点" in line for line in found.lines)


def test_several_changed_conditions_are_said_to_be_inseparable() -> None:
    found = compare_runs(run_frame("a", OLD, k=3), run_frame("b", NEW, k=5, assistant_model="gpt-4o"))
    assert found.conditions["phrase"].tolist() == ["アシスタント: offline→gpt-4o", "抜粋の数 k: 3→5"]
    assert any("アシスタント、抜粋の数 k" in note for note in found.notes)


@pytest.mark.slow
def test_conditions_are_named_in_the_language_of_the_messages_and_by_their_column() -> None:
    with speaking("en"):
        found = compare_runs(run_frame("a", OLD, k=3), run_frame("b", NEW, k=5, assistant_model="gpt-4o"))
    assert found.conditions["column"].tolist() == ["assistant_model", "k"]
    assert found.conditions["phrase"].tolist() == ["assistant: offline→gpt-4o", "passages per question, k: 3→5"]
    assert any("(assistant, passages per question, k)" in note for note in found.notes)


@pytest.mark.slow
def test_bare_logs_do_not_tell_whether_they_were_judged_alike() -> None:
    unknown = {"judge_model": "unknown", "judge_model_resolved": "unknown", "prompt_id": "unknown", "prompt_sha256": ""}
    found = compare_runs(run_frame("a", OLD, **unknown), run_frame("b", NEW, **unknown))
    assert any("確かめられません" in note for note in found.notes)
    with pytest.raises(ConfigError, match="不明→gpt-4o"):
        compare_runs(run_frame("a", OLD, **unknown), run_frame("b", NEW))


@pytest.mark.slow
def test_the_bundled_series_by_path_name_and_run_is_one_comparison() -> None:
    by_path = compare_runs(SERIES[3], str(SERIES[4]))
    by_name = compare_runs(SERIES[3].name, SERIES[4].name, logs_dir=SERIES[0].parent)
    by_run = compare_runs(load_run(SERIES[3]), load_run(SERIES[4]))
    assert repr(by_path) == repr(by_name) == repr(by_run)
    assert by_path.conditions["phrase"].tolist() == ["抜粋の数 k: 3→1"]


@pytest.mark.slow
def test_the_bundled_series_has_a_named_change_that_wins_questions_back() -> None:
    found = compare_runs(SERIES[1], SERIES[3])  # 9 and 20 runbooks
    assert "偶然では説明しにくい差です" in found.finding and overall(found.differences)["mean_difference"] > 0
    assert found.conditions["phrase"].tolist() == [
        "手順書: 追加 lost_device.md, malicious_attachment.md, malware_response.md, network_blocking.md, "
        "phishing_response.md, privileged_operations.md, ransomware_response.md, support_scam.md, transfer_fraud.md, "
        "urgent_vulnerability.md, web_defacement.md"
    ]
    passed = [{r.question.id for r in load_run(SERIES[n]).results if r.evaluation.passed} for n in (1, 3)]
    assert found.questions["direction"].value_counts()["不合格→合格"] == len(passed[1] - passed[0]) >= 10


@pytest.mark.slow
def test_a_question_with_another_text_under_its_old_number_is_left_out() -> None:
    before, after = load_run(SERIES[3]), load_run(SERIES[4])
    first = after.results[0]
    other = replace(first, question=replace(first.question, question="別の質問"))
    found = compare_runs(before, replace(after, results=(other, *after.results[1:])))
    assert f"番号は同じでも質問文かキーポイントが違うため除外: {first.question.id}" in found.notes
    assert overall(found.differences)["n"] == 79


@pytest.mark.usefixtures("makes_runs")
@pytest.mark.slow
def test_runbooks_are_named_that_were_added_removed_and_changed(tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir()
    names = [path.name for path in sorted(RUNBOOKS_DIR.glob("*.md"))[:4]]
    for name in names[:3]:
        shutil.copy(RUNBOOKS_DIR / name, runbooks)
    asked = [EvalQuestion(1, "正常系", "マルウェア検知時の初動は？", ("隔離",))]
    options: dict[str, Any] = {"assistant_model": "offline", "judge_model": "offline", "logs_dir": tmp_path / "logs"}
    before = run_suite(asked, index=build_index(runbooks, index_dir=tmp_path / "one"), progress=False, **options)
    shutil.copy(RUNBOOKS_DIR / names[3], runbooks)
    (runbooks / names[0]).unlink()
    with (runbooks / names[1]).open("a", encoding="utf-8") as file:
        file.write("\n\n## 追記\n\n連絡先を確認する。\n")
    after = run_suite(asked, index=build_index(runbooks, index_dir=tmp_path / "two"), progress=False, **options)
    assert before.log_path and load_run(before.log_path).info.runbooks.keys() == set(names[:3])
    found = compare_runs(before, after)
    assert found.conditions["phrase"].tolist() == [f"手順書: 追加 {names[3]} / 削除 {names[0]} / 変更 {names[1]}"]


@pytest.mark.slow
@pytest.mark.usefixtures("makes_runs")
def test_runbooks_of_other_line_ends_are_the_same(tmp_path: Path) -> None:
    """Of checkouts on Windows and elsewhere; also if one log is older, and has hashes of the files."""
    name, runs = "malware_response.md", []
    text = (RUNBOOKS_DIR / name).read_text("utf-8")
    for newline in ("\n", "\r\n"):
        folder = tmp_path / repr(newline)
        folder.mkdir()
        (folder / name).write_text(text, encoding="utf-8", newline=newline)
        index = build_index(folder, index_dir=folder / "index")
        runs.append(
            run_suite(
                [EvalQuestion(1, "正常系", "マルウェア検知時の初動は？", ("隔離",))], index=index, progress=False,
                assistant_model="offline", judge_model="offline", logs_dir=tmp_path / "logs",
            )
        )  # fmt: skip
        files = index.files
    assert compare_runs(*runs).conditions.empty
    older = replace(runs[1], run=replace(runs[1].info, runbooks=files))
    assert compare_runs(runs[0], older).conditions.empty


@pytest.mark.slow
def test_it_speaks_english_too() -> None:
    with speaking("en"):
        assert compare_runs(run_frame("a", OLD), run_frame("b", NEW)).finding.startswith(
            "The mean goes from 78.1 to 82.3 points (+4.2)"
        )


@pytest.mark.few(0)
@pytest.mark.slow
def test_when_nothing_changed_it_seldom_says_that_something_did() -> None:
    """Twelve questions of different difficulty, both runs with the noise of answers asked anew."""
    rng = np.random.default_rng(13)
    trials, alarms, covered = 100, 0, 0
    for _ in range(trials):
        level = rng.uniform(40, 90, 12)
        sides = [np.clip(level + rng.normal(0, 8, 12), 0, 100).round().tolist() for _ in range(2)]
        found = compare_runs(*(_plain(name, marks) for name, marks in zip("ab", sides, strict=True)))
        row = overall(found.differences)
        alarms += "偶然では説明しにくい差です" in found.finding
        covered += bool(row["ci_low"] <= 0 <= row["ci_high"])
    assert alarms / trials <= 0.05
    assert 0.93 <= covered / trials <= 0.98


def _plain(run_id: str, marks: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"run_id": run_id, "question_id": range(len(marks)), "criterion": "正確性", "score": marks})
