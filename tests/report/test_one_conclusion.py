"""One sentence on two judges, the same in every place that says it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import socjudge_here
from support.report_logs import save_log, words

from socjudge import compare_judges, compare_runs, load_run, load_scores, write_report
from socjudge.base.messages import speaking
from socjudge.constants import CARRIED_DIR
from socjudge.panels.history import HistoryExplorer
from socjudge.stats.basics import OVERALL

LOG = sorted((CARRIED_DIR / "eval" / "examples" / "series").glob("*.json.gz"))[4]
PLAIN = [[95, 86, 85, 80, 90, 85], [80, 70, 75, 85, 80, 80], [75, 80, 85, 80, 70, 75], [70, 75, 80, 75, 80, 85],
         [60, 65, 70, 60, 65, 60], [50, 55, 60, 50, 55, 60]]  # fmt: skip
# The question's mean is lower by 15, 13, 12, 14, 13 and 14.5 points; noise of 14 points leaves every mean as it is.
STRICT = [[score - by for score in own] for own, by in zip(PLAIN, (15, 13, 12, 14, 13, 14.5), strict=True)]
NOISY = [[score + (14 if (place + row) % 2 else -14) for place, score in enumerate(own)]
         for row, own in enumerate(PLAIN)]  # fmt: skip
ONE = [[*own[:5], own[5] - 40 - row] for row, own in enumerate(PLAIN)]
TEN = PLAIN + [[80, 75, 70, 85, 90, 80]] * 4
STRICT_TEN = [[score - 13 + row % 3 for score in own] for row, own in enumerate(TEN)]
FEW = "10問未満では区間を出しません"


@pytest.fixture(autouse=True)
def japanese() -> Iterator[None]:
    with speaking("ja"):
        yield


def judged_by(folder: Path, judge: str, day: int, marks: list[list[float]]) -> Path:
    """A stored run of these scores: real answers, real texts, another judge."""
    log = json.loads(gzip.decompress(LOG.read_bytes()))
    del log["results"][len(marks) :]
    for result, scores in zip(log["results"], marks, strict=True):
        own: dict[str, Any] = result["evaluation"]
        own["scores"] = dict(zip(own["scores"], scores, strict=True))
        own["average_score"] = sum(scores) / len(scores)
        own["passed"], own["model"] = own["average_score"] >= 70, judge
    passed = sum(result["evaluation"]["passed"] for result in log["results"])
    mean = sum(result["evaluation"]["average_score"] for result in log["results"]) / len(marks)
    log["summary"] |= {"total_questions": len(marks), "passed_questions": passed, "average_score": mean}
    log["summary"] |= {"pass_rate": passed / len(marks), "mvp_passed": passed / len(marks) >= 0.7 and mean >= 70}
    stamp = f"2026-01-0{day}T00:00:00+00:00"
    log["run"] |= {"run_id": judge, "judge_model": judge, "judge_model_resolved": judge, "started_at": stamp}
    log["run"]["asked"] = len(marks)
    name = f"judge_eval_2026010{day}_000000.json"
    return save_log(folder, log, name) / name


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plain", "other", "says"),
    [
        (PLAIN, STRICT, ["同じ回答に13.6点低く付け、合格4問が1問になります。", "偶然では説明しにくい差です", FEW, "6問の差は-15.0〜-12.0点"]),
        (PLAIN, NOISY, ["平均ではplain-judgeと同じ", "質問ごとの点は±15点ばらつきます", "偶然の差かもしれません", FEW]),
        (PLAIN, ONE, ["いちばん動いた観点は簡潔性です（-42.5点", "観点の数で補正したp="]),
        (PLAIN, PLAIN, ["6問すべて、どの観点も同じ点で、合格は4問のままです。"]),
        (TEN, STRICT_TEN, ["同じ回答に12.1点低く付け", "偶然では説明しにくい差です（95%区間 -12.8〜-11.4点、p=0.002、10問）"]),
    ],
)  # fmt: skip
def test_two_judges_are_spoken_of_in_one_sentence_everywhere(
    tmp_path: Path, plain: list[list[float]], other: list[list[float]], says: list[str]
) -> None:
    folder = tmp_path / "logs"
    first = judged_by(folder, "plain-judge", 1, plain)
    second = judged_by(folder, "other-judge", 2, other)
    sentence = compare_runs(first, second).finding
    for part in says:
        assert part in sentence
    scores = load_scores(folder)
    table = compare_judges(scores, baseline="plain-judge")
    assert table.loc[table["criterion"] == OVERALL, "conclusion"].tolist() == [sentence]
    # In a table of many, the sentence about a pair stays as it is; the note tells of the adjustment.
    judged_by(tmp_path / "logs", "third-judge", 3, plain)
    many = compare_judges(load_scores(folder), baseline="plain-judge").set_index(["judge_model", "criterion"])
    assert many.loc[("other-judge", OVERALL), "conclusion"] == sentence
    page = write_report(tmp_path / "page.html", load_run(second), baseline=first, lang="ja").read_text("utf-8")
    assert sentence in words(page)
    panel = HistoryExplorer(folder)
    panel.matrix.picked = [0, 1]
    panel.compare_button.click()
    assert sentence in words(panel.told.value)
    done = socjudge_here("compare", first.name, second.name, "--logs-dir", str(folder), SOCJUDGE_LANG="ja")
    assert done.stdout.splitlines()[0] == sentence


@pytest.mark.slow
def test_what_chance_alone_may_do_among_many_is_noted(tmp_path: Path) -> None:
    for day, (judge, marks) in enumerate((("plain-judge", PLAIN), ("strict", STRICT), ("third", STRICT)), start=1):
        judged_by(tmp_path, judge, day, marks)
    table = compare_judges(load_scores(tmp_path), baseline="plain-judge")
    row = table[table["criterion"] == OVERALL].iloc[0]
    assert "偶然では説明しにくい差です" in row["conclusion"] and "p=0.031" in row["conclusion"]
    assert "2組を一度に比べる表としては、差とは言えません（補正後 p=0.062）。" in row["note"]
