"""A project of one's own on an installed package: its settings in one file, no line of Python, and every command agrees."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.installed import SETTINGS, install, judging
from support.report_logs import words

import socjudge as sj

pytestmark = pytest.mark.slow


def test_a_rubric_of_ones_own_holds_in_every_command_without_a_line_of_python(tmp_path: Path) -> None:
    installed = install(tmp_path)
    project, socjudge = installed.project, installed.socjudge
    assert "エラー0件" in socjudge("doctor")
    assert re.search(r"rubric.pass_threshold +80 ", socjudge("settings"))

    socjudge("run", "--yes", "--quiet", code=2)  # no key: the judge that the file names is not replaced
    with judging() as judge:
        # (6 × 75 + 96) / 7 = 78: passed at the specification's 70 points, not at this project's 80.
        ran = socjudge("run", "--yes", "--quiet", code=1, judge=judge)
        again = socjudge("rejudge", "--log", str(installed.logs[0]), "--yes", "--quiet", code=1, judge=judge)
        for told in (ran, again):
            assert "❌ MVP不合格" in told and "2問中1問以上が平均80点以上" in told and "78.0" in told
        prompts = {request["messages"][0]["content"] for request in judge.requests if request["model"] == "my-judge"}
        assert len(prompts) == 2 and all("7つの観点" in text and "7. **迅速性**" in text for text in prompts)

        first, second = installed.logs
        for log in (first, second):
            run = json.loads(log.read_text("utf-8"))
            assert list(run["results"][0]["evaluation"]["scores"])[-1] == "迅速性"
            assert (run["run"]["pass_threshold"], run["run"]["judge_prompt_id"], run["run"]["k"]) == (80, "rubric-1", 7)
            assert run["run"]["rubric"]["descriptions"] == {"迅速性": "着手までの時間が示されているか"}
            assert run["run"]["project"] == "mine"

        # A changed mind: the runs keep what they were judged by, in every view.
        (project / "socjudge.toml").write_text(SETTINGS.replace("80.0", "60.0").replace("0.5\n", "0.9\n", 1), "utf-8")
        socjudge("doctor")
        socjudge("report", "page.html", code=0)
        page = words((project / "page.html").read_text("utf-8"))
        assert "❌ MVP不合格" in page and "平均80点以上" in page and "わが社のボット" in page and "迅速性" in page
        assert "平均60点" not in page
        compared = socjudge("compare", first.name, second.name)
        assert "どの観点も同じ点" in compared and "60" not in compared
        runs = sj.load_runs(project / "logs")
        assert runs["pass_threshold"].tolist() == [80, 80] and not runs["mvp_passed"].any()
        kept = socjudge("rejudge", "--log", str(first), "--yes", "--quiet", code=1, judge=judge)
        assert "平均80点以上" in kept
