"""The explorer without a page: its rows are those of the frames, its numbers those of the statistics."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.history_logs import make_history
from support.report_logs import bare_log, save_log, words

from socjudge import ConfigError, compare_judges, load_results, load_runs, load_scores, summarise_scores
from socjudge.history import cache as history_cache
from socjudge.history.tables import read_logs
from socjudge.panels.state.explorer import Explorer, Filters, pair_runs, run_table
from socjudge.panels.views.history import pair_html
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, index: RunbookIndex) -> Path:
    folder = tmp_path_factory.mktemp("explorer") / "logs"
    make_history(folder, index)
    return folder


@pytest.fixture
def explorer(logs: Path) -> Explorer:
    return Explorer(logs)


def ids(explorer: Explorer) -> list[str]:
    return explorer.history.runs["run_id"].tolist()


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the categories of columns, which differ between a part that was loaded and one that was filtered."""
    return frame.astype({name: object for name in frame.columns}).reset_index(drop=True)


@pytest.mark.slow
def test_the_explorer_needs_no_charts_until_a_report_is_written() -> None:
    code = "import sys, socjudge.panels.state.explorer; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("filters", "options"),
    [
        (Filters(), {}),
        (Filters(judges=("gpt-4o",)), {"judge_model": "gpt-4o"}),
        (Filters(categories=("危険操作系",)), {"category": "危険操作系"}),
        (
            Filters(judges=("gpt-4o-mini",), categories=("正常系",), prompts=("guide-1",)),
            {"judge_model": "gpt-4o-mini", "category": "正常系"},
        ),
        (Filters(judges=("gpt-4o-mini",), prompts=("strict-1",)), {"judge_model": "nobody"}),
        (
            Filters(judges=("offline", "gpt-4o"), categories=("曖昧質問系", "正常系"), prompts=("guide-1", "strict-1")),
            {"judge_model": ["gpt-4o", "offline"], "category": ["正常系", "曖昧質問系"]},
        ),
    ],
)
def test_a_selection_is_what_the_loaders_give(
    explorer: Explorer, logs: Path, filters: Filters, options: dict[str, Any]
) -> None:
    chosen = explorer.select(filters)
    pd.testing.assert_frame_equal(plain(chosen.results), plain(load_results(logs, **options)))
    pd.testing.assert_frame_equal(plain(chosen.scores), plain(load_scores(logs, **options)))
    options.pop("category", None)
    pd.testing.assert_frame_equal(plain(chosen.runs), plain(load_runs(logs, **options)))


def test_there_is_to_choose_from_what_occurs(explorer: Explorer) -> None:
    assert explorer.judges == ["gpt-4o-mini", "gpt-4o", "offline"]
    assert explorer.prompts == ["guide-1", "strict-1"]
    assert explorer.categories == ["正常系", "危険操作系", "根拠不足系", "曖昧質問系"]


def test_days_are_whole_and_of_this_machine(tmp_path: Path) -> None:
    for stamp in ("20260101_235959", "20260102_000000", "20260102_235959", "20260103_000000"):
        save_log(tmp_path / "logs", bare_log([80]), f"judge_eval_{stamp}.json")
    save_log(tmp_path / "logs", bare_log([80]), "judge_eval_sometime.json")
    explorer, second = Explorer(tmp_path / "logs"), date(2026, 1, 2)

    def found(**days: date) -> list[str]:
        return [log[11:-5] for log in explorer.select(Filters(**days)).runs["log"]]

    assert found(since=second, until=second) == ["20260102_000000", "20260102_235959"]
    assert found(until=second) == ["20260101_235959", "20260102_000000", "20260102_235959"]
    assert found(since=second) == ["20260102_000000", "20260102_235959", "20260103_000000"]
    assert len(found()) == 5
    with pytest.raises(ConfigError, match="2026-01-03, after its end on 2026-01-02"):
        found(since=date(2026, 1, 3), until=second)


def test_the_table_says_what_the_logs_and_the_statistics_say(explorer: Explorer, logs: Path) -> None:
    table = run_table(explorer.select(Filters())).set_index("run_id")
    runs = load_runs(logs).set_index("run_id").iloc[::-1]
    means = summarise_scores(load_scores(logs), by="run_id").set_index("run_id")
    assert table.index.tolist() == runs.index.tolist()  # the newest first
    for mine, theirs in (
        ("passed", "passed_questions"),
        ("questions", "total_questions"),
        ("mvp_passed", "mvp_passed"),
    ):
        assert table[mine].tolist() == runs[theirs].tolist()
    assert table["mean"].tolist() == pytest.approx(runs["mean_score"].tolist())
    for name in ("n", "mean", "ci_low", "ci_high"):
        assert table[name].tolist() == pytest.approx(means.loc[table.index, name].tolist(), nan_ok=True)
    # gpt-4o: 60, 61, … 69.
    again = table[table["judge_model"] == "gpt-4o"].iloc[0]
    assert (again["mean"], again["passed"], again["questions"], again["n_unscored"]) == (pytest.approx(64.5), 0, 10, 0)


def test_an_unread_reply_does_not_pass_and_is_not_averaged(tmp_path: Path) -> None:
    explorer = Explorer(save_log(tmp_path / "logs", bare_log([80, 60, None])))
    (row,) = run_table(explorer.select(Filters())).to_dict("records")
    # The mean is of 80 and 60; of three questions one passes.
    assert (row["mean"], row["n"], row["passed"], row["questions"], row["n_unscored"]) == (70, 2, 1, 3, 1)


def test_two_judges_of_the_same_answers_are_paired(explorer: Explorer, logs: Path) -> None:
    first, second, _ = ids(explorer)
    pair = pair_runs(explorer.select(Filters()), first, second)
    scores = load_scores(logs)
    both = scores[scores["run_id"].isin([first, second])].astype({"run_id": object})
    assert pair.paired is not None
    pd.testing.assert_frame_equal(pair.paired, compare_judges(both, baseline=first, by="run_id"))
    overall = pair.paired.set_index("criterion").loc["総合"]
    assert (overall["n"], overall["mean_difference"], overall["flips_to_fail"]) == (10, pytest.approx(-15.5), 10)
    names = ["judge", "judge that answered", "judge prompt", "text of the judge prompt"]
    assert [name for name, *_ in pair.conditions] == names
    assert pair.questions["same_answer"].all()
    assert pair.questions["first"].tolist() == pytest.approx([80] * 10)
    assert pair.questions["second"].tolist() == pytest.approx(range(60, 70))


def test_a_comparison_keeps_to_the_selected_category(explorer: Explorer) -> None:
    first, second, _ = ids(explorer)
    pair = pair_runs(explorer.select(Filters(categories=("危険操作系",))), first, second)
    assert pair.questions["question_id"].tolist() == [5, 6]
    assert pair.paired is not None
    assert set(pair.paired["n"]) == {2}


def test_other_answers_stand_side_by_side_and_are_not_paired(explorer: Explorer) -> None:
    first, _, own = ids(explorer)
    pair = pair_runs(explorer.select(Filters()), first, own)
    assert pair.paired is None
    assert "For 10 of the 10 common questions the judged answers differ" in pair.reason
    assert pair.comparison is None  # another judge: what moved is not the assistant's doing
    assert not pair.questions["same_answer"].any()
    assert set(pair.means["run_id"]) == {first, own}


def test_one_other_answer_is_enough_not_to_pair(tmp_path: Path) -> None:
    folder = save_log(tmp_path / "logs", bare_log([80] * 8))
    changed = bare_log([70] * 9)
    changed["results"][2]["answer"] = "別の回答"
    save_log(folder, changed, "judge_eval_20260102_090000.json")
    explorer = Explorer(folder)
    pair = pair_runs(explorer.select(Filters()), *ids(explorer))
    assert pair.paired is None
    assert "For 1 of the 8 common questions" in pair.reason
    assert pair.comparison is not None and pair.comparison.finding in html.unescape(pair_html(pair, ""))
    assert pair.comparison.differences["mean_difference"].tolist() == [-10.0] * 7
    assert pair.questions["same_answer"].tolist() == [True, True, False, True, True, True, True, True, False]
    assert pd.isna(pair.questions["first"].iloc[8])  # not asked


def test_runs_of_other_questions_have_nothing_in_common(tmp_path: Path) -> None:
    folder, other = save_log(tmp_path / "logs", bare_log([80])), bare_log([80])
    other["results"][0]["question_id"] = "x1"
    save_log(folder, other, "judge_eval_20260102_090000.json")
    explorer = Explorer(folder)
    pair = pair_runs(explorer.select(Filters()), *ids(explorer))
    assert pair.paired is None
    assert "share no question" in pair.reason
    with pytest.raises(ConfigError, match="the same run is chosen twice"):
        pair_runs(explorer.select(Filters()), ids(explorer)[0], ids(explorer)[0])


def test_texts_are_read_from_the_two_logs_only(tmp_path: Path) -> None:
    for day, text in enumerate(("前", "後", "壊れる"), start=1):
        save_log(tmp_path / "logs", bare_log([80, 60], text), f"judge_eval_2026010{day}_090000.json")
    explorer = Explorer(tmp_path / "logs")
    (tmp_path / "logs" / "judge_eval_20260103_090000.json").write_text("broken")
    first, second, third = ids(explorer)
    (before,), (after,) = explorer.answers(first, second, 2)
    assert (before.answer.answer, after.answer.answer) == ("回答2\n二行目 前", "回答2\n二行目 後")
    assert (after.evaluation.overall_comment, after.evaluation.average_score) == ("総評 後", 60)
    assert explorer.answers(first, second, 99) == ([], [])
    with pytest.raises(ConfigError, match="judge_eval_20260103_090000.json"):
        explorer.answers(first, third, 2)


def test_reloading_reads_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_log(tmp_path / "logs", bare_log([80]))
    explorer, parsed = Explorer(folder), []
    monkeypatch.setattr(
        history_cache, "read_logs", lambda files: read_logs(parsed.append(file.name) or file for file in files)
    )
    save_log(folder, bare_log([90]), "judge_eval_20260102_090000.json")
    assert len(explorer.history.runs) == 1
    explorer.reload()
    assert len(explorer.history.runs) == 2
    assert parsed == ["judge_eval_20260102_090000.json"]


def test_what_is_left_out_is_counted_without_a_warning(logs: Path, tmp_path: Path) -> None:
    for log in logs.glob("judge_eval_*.json"):
        (tmp_path / log.name).write_bytes(log.read_bytes())
    (tmp_path / "judge_eval_20250101_000000.json").write_text("{")
    (tmp_path / "judge_eval_20250102_000000.json").write_bytes(min(logs.glob("*.json")).read_bytes())
    explorer = Explorer(tmp_path)
    assert explorer.history.n_left_out == 2
    assert len(explorer.select(Filters()).runs) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
def test_a_selection_is_written_as_a_report(explorer: Explorer, logs: Path) -> None:
    first, second, _ = ids(explorer)
    path = explorer.report_path(second)
    assert path == logs / "reports" / f"{explorer.history.runs['log'].iloc[1][:-5]}.html"
    assert explorer.export(explorer.select(Filters()), second, baseline=first, path=path) == path
    page = path.read_text(encoding="utf-8")
    assert "&lt;script&gt;window.hacked" in page
    assert "<script>window" not in page
    assert "全体平均スコア 64.5点" in words(page)
    assert "同じ回答に15.5点低く付け" in words(page)
    assert explorer.report_path(second) == path  # a report of ours may be written again
    Explorer(logs)  # and is no log


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese")
def test_a_report_of_one_category_has_its_questions_only(explorer: Explorer, tmp_path: Path) -> None:
    run_id = ids(explorer)[1]
    chosen = explorer.select(Filters(categories=("危険操作系",)))
    page = words(explorer.export(chosen, run_id, path=tmp_path / "part.html").read_text(encoding="utf-8"))
    assert "総問題数 2問" in page
    assert "全体平均スコア 64.5点" in page  # (64 + 65) / 2
    assert "一部だけを読み込んだか" in page


def test_what_is_no_report_of_ours_is_not_overwritten(explorer: Explorer, logs: Path, tmp_path: Path) -> None:
    run_id = ids(explorer)[0]
    foreign = tmp_path / "minutes.html"
    foreign.write_text("議事録", encoding="utf-8")
    for taken in (foreign, tmp_path):
        with pytest.raises(ConfigError, match="HTML file" if taken is tmp_path else "no report of socjudge"):
            explorer.report_path(run_id, str(taken))
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ConfigError, match="no report of socjudge"):
        explorer.report_path(run_id, str(tmp_path / "folder.html"))
    with pytest.raises(ConfigError, match=r"ends in \.html"):
        explorer.report_path(run_id, str(next(logs.glob("*.json"))))
    with pytest.raises(ConfigError, match="make it first"):
        explorer.export(explorer.select(Filters()), run_id, path=tmp_path / "nowhere" / "report.html")
    assert foreign.read_text(encoding="utf-8") == "議事録"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        Explorer(tmp_path / "nowhere")


def test_a_folder_without_logs_is_an_empty_history(tmp_path: Path) -> None:
    explorer = Explorer(tmp_path)
    assert run_table(explorer.select(Filters())).empty
    assert explorer.judges == explorer.prompts == explorer.categories == []


def test_a_log_without_a_result_is_a_row_without_a_mean(tmp_path: Path) -> None:
    log = {**json.loads(json.dumps(bare_log([80]))), "results": []}
    explorer = Explorer(save_log(tmp_path / "logs", log))
    (row,) = run_table(explorer.select(Filters())).to_dict("records")
    assert pd.isna(row["mean"])
    assert (row["n"], row["questions"], row["passed"]) == (0, 0, 0)
