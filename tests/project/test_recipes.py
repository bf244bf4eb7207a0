"""The recipes of docs/reference.md: each does offline what it says, in at most ten lines."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ROOT
from support.own_bot import azure, dify, page_tables, running
from support.service import KEY, Service, error, judgement_of, serving

import socjudge as sj
from socjudge import constants, settings
from socjudge.errors import BudgetReached

SECTION = (ROOT / "docs" / "reference.md").read_text("utf-8").partition("\n## Recipes\n")[2].partition("\n## ")[0]
RECIPES = dict(re.findall(r"^### ([^\n]+)\n.*?```python\n(.*?)```", SECTION, re.DOTALL | re.MULTILINE))


def cook(title: str, **given: Any) -> dict[str, Any]:
    """Run a recipe, and return what its names stand for then."""
    names = {**given}
    exec(compile(RECIPES[title], title, "exec"), names)
    return names


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_at_most_ten_lines(title: str) -> None:
    assert len(RECIPES[title].strip().splitlines()) <= 10


def test_every_recipe_is_run_here() -> None:
    assert RECIPES.keys() == set(re.findall(r'\bcook\(\s*"(.+?)"', Path(__file__).read_text("utf-8")))
    assert SECTION.count("```python") == len(RECIPES)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the logs of two runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "LOGS_DIR", tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    for log in sorted((ROOT / "eval" / "examples" / "judges").glob("judge_eval_*.json.gz"))[:2]:
        shutil.copy(log, tmp_path / "logs")
    return tmp_path


def test_the_scores_of_another_tool_are_compared_with_those_of_a_judge(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = sj.load_eval_dataset()[:3]
    monkeypatch.setattr(sj, "load_eval_dataset", lambda: questions)
    scores: list[dict[str, float | None]] = [
        {"安全性": 0.9, "簡潔性": 1},
        {"安全性": None, "簡潔性": 0.5},
        {"簡潔性": 0},
    ]
    theirs = [
        {"id": question.id, "answer": answer, "scores": marks, "latency": 1.5}
        for question, answer, marks in zip(
            questions, ["端末を隔離します。", *["分かりません。"] * 2], scores, strict=True
        )
    ]
    (project / "theirs.json").write_text(json.dumps(theirs, ensure_ascii=False), encoding="utf-8")
    made = cook("Another tool's scores as a frame")
    mine = made["theirs"].set_index(["question_id", "criterion"])["score"]
    assert mine.dropna().to_dict() == {(1, "安全性"): 90, (1, "簡潔性"): 100, (2, "簡潔性"): 50, (3, "簡潔性"): 0}
    compared = made["compared"].set_index("criterion")
    # The embedded judge scores 安全性 alone where the contexts are not there.
    assert compared["n"].to_dict()["簡潔性"] == 0 and compared["n"].to_dict()["安全性"] == 1
    assert compared["baseline_mean"]["安全性"] == 90


def test_answers_go_to_a_spreadsheet_and_come_back_as_labels(project: Path) -> None:
    cook("Answers for people to score in a spreadsheet")
    rows = pd.read_csv(project / "marks.csv", dtype=str)
    scores = sj.load_scores(project / "logs")
    assert rows[["answer_sha256", "criterion"]].nunique().tolist() == [scores["answer_sha256"].nunique(), 1]
    rows.assign(rater="佐藤", score=40).to_csv(project / "marks.csv", index=False, encoding="cp932", errors="replace")
    labels = sj.history.load_labels(project / "marks.csv")
    assert labels["score"].eq(40).all() and len(labels) == len(rows)
    assert set(sj.stats.judge_vs_people(scores, labels)["judge_model"]) == set(scores["judge_model"])


def test_a_text_that_a_spreadsheet_would_run_is_kept_from_it(project: Path) -> None:
    (path, *_) = (project / "logs").glob("judge_eval_*.json.gz")
    log = json.loads(gzip.decompress(path.read_bytes()))
    log["results"][0] |= {"answer": "=1+1", "answer_sha256": "0" * 64}
    path.write_bytes(gzip.compress(json.dumps(log).encode()))
    cook("Answers for people to score in a spreadsheet")
    assert (pd.read_csv(project / "marks.csv")["answer"] == "'=1+1").sum() == 1


def test_frames_are_saved_for_other_programs(project: Path) -> None:
    cook("Frames for other programs")
    scores = sj.load_scores(project / "logs")
    frame = pd.read_csv(project / "scores.csv")
    assert frame["score"].astype(float).tolist() == scores["score"].astype(float).tolist()
    assert list(frame.columns) == list(scores.columns)


# Recipes on a run, with two judges behind HTTP.

# US dollars per million tokens, so that the three calls of a judge cost about $0.15 and $0.30.
PRICES = {"gpt-4o-mini": (50, 1), "gpt-4o": (100, 1)}
SCORES = {"one.": {"gpt-4o-mini": 95}, "two.": {"gpt-4o-mini": 72, "gpt-4o": 60}, "three.": {"gpt-4o-mini": 20}}


def scores(request: dict[str, Any]) -> str:
    """A judgement by the model and by the answer that it is shown."""
    prompt = request["messages"][0]["content"]
    (answer,) = [name for name in SCORES if name in prompt]
    return judgement_of(request, SCORES[answer].get(request["model"], 80))


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with serving(scores) as service:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
        yield service


@pytest.fixture
def priced_project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "eval").mkdir()
    rows = [
        {"id": i, "category": "正常系", "question": f"質問{i}の初動は。", "expected_keypoints": ["隔離"]}
        for i in range(1, 4)
    ]
    (tmp_path / "eval" / "eval_dataset.json").write_text(json.dumps(rows), encoding="utf-8")
    prices = [f'[prices."{name}"]\ninput = {paid}\noutput = {back}\n' for name, (paid, back) in PRICES.items()]
    (tmp_path / "socjudge.toml").write_text("\n".join(prices), encoding="utf-8")
    before = settings.open_project().folder
    constants.use_project(tmp_path)
    yield tmp_path
    constants.use_project(before)


def judged(judges: Service) -> sj.EvaluationRun:
    """A finished run, as the recipes load it. Its judge is the cheap one."""
    answers = [{"answer": f"{text}[1]", "contexts": ["端末を隔離する。"]} for text in SCORES]
    done = sj.run_evaluation_suite(
        sj.load_eval_dataset(), answers=answers, judge_model="gpt-4o-mini", max_cost_usd=float("inf"), progress=False
    )
    judges.requests.clear()
    assert done.log_path is not None
    return sj.load_run(done.log_path)


@pytest.fixture
def run(priced_project: Path, judges: Service) -> sj.EvaluationRun:
    return judged(judges)


def paid(service: Service) -> float:
    """What the service's calls have cost, in US dollars, by the tokens that its replies tell."""
    total = 0.0
    for request in service.requests:
        prompt = max(1000, sum(len(each["content"].encode()) for each in request["messages"]) // 16 + 1)
        price, price_back = PRICES[request["model"]]
        total += (prompt * price + 200 * price_back) / 1e6
    return total


@pytest.mark.parametrize(("cap", "is_enough"), [(0.8, True), (0.44, False), (0.26, False)])
def test_several_judges_stay_below_one_cap(
    run: sj.EvaluationRun, judges: Service, monkeypatch: pytest.MonkeyPatch, cap: float, is_enough: bool
) -> None:
    title = "Several judges under one cap"
    monkeypatch.setitem(RECIPES, title, RECIPES[title].replace("0.50", str(cap)))
    if is_enough:
        left = cook("Several judges under one cap", run=run)
        assert left["left"] == pytest.approx(cap - paid(judges))
        assert len(judges.requests) == 6
    else:
        with pytest.raises(BudgetReached):
            cook(title, run=run)
    assert 0 < paid(judges) <= cap


def test_the_answers_near_the_line_get_the_second_judges_scores(run: sj.EvaluationRun, judges: Service) -> None:
    found = cook("Judge again near the line", run=run)["scores"]
    assert [request["model"] for request in judges.requests] == ["gpt-4o"]
    judged = found.groupby("question_id")[["judge_model", "score"]].agg(["min", "max", "size"])
    assert judged.to_numpy().tolist() == [
        ["gpt-4o-mini", "gpt-4o-mini", 6, 95, 95, 6],
        ["gpt-4o", "gpt-4o", 6, 60, 60, 6],
        ["gpt-4o-mini", "gpt-4o-mini", 6, 20, 20, 6],
    ]


def test_only_the_answers_without_scores_are_judged_again(priced_project: Path, judges: Service) -> None:
    refused = error(400, "The response was filtered", code="content_filter")
    judges.default = lambda request: refused if "two." in request["messages"][0]["content"] else scores(request)
    torn = judged(judges)
    assert [result.evaluation.status for result in torn.results] == ["ok", "failed", "ok"]
    judges.default = scores
    corrected = cook("Judge again only what failed", run=torn)["corrected"]
    assert [request["model"] for request in judges.requests] == ["gpt-4o-mini"]
    assert [result.evaluation.average_score for result in corrected.results] == [95, 72, 20]


def test_several_looks_show_which_verdicts_the_judge_changes(run: sj.EvaluationRun, judges: Service) -> None:
    looks = iter(range(99))

    def moody(request: dict[str, Any]) -> str:
        is_near = "two." in request["messages"][0]["content"]
        return judgement_of(request, 60 + 20 * (next(looks) % 2)) if is_near else scores(request)

    judges.default = moody
    found = cook("Look several times instead of once", run=run)
    assert len(judges.requests) == 5 * 3
    assert found["unsure"].to_dict("index") == {2: {"mean": 68.0, "min": 60.0, "max": 80.0}}
    assert list(found["means"].index) == [1, 2, 3]


@pytest.mark.slow
def test_another_judge_is_compared_and_the_line_that_corresponds_is_told(
    judges: Service, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {f"number {number}.": 100 - 6 * number for number in range(10)}  # the new one gives 0.8 of it and 4 more

    def marks(request: dict[str, Any]) -> str:
        (mark,) = [old[name] for name in old if name in request["messages"][0]["content"]]
        return judgement_of(request, mark if request["model"] == "gpt-4o-mini" else round(0.8 * mark + 4))

    judges.default = marks
    questions = [sj.EvalQuestion(number, "正常系", f"質問{number}の初動は。", ("隔離",)) for number in range(10)]
    answers = [{"answer": f"{text}[1]", "contexts": ["端末を隔離する。"]} for text in old]
    run = sj.run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=project, progress=False
    )
    found = cook("Another judge", run=run)
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(
        "Compared with gpt-4o-mini, gpt-5-mini scores the same answers 10.6 points lower; 6 passed questions become 4."
    )
    assert told[1].startswith("70 points with gpt-4o-mini correspond to about 60 with gpt-5-mini (95 % interval ")
    assert list(found["corresponding"]["criterion"]) == [*run.rubric.criteria, "総合"]


@pytest.mark.parametrize(("name", "reply"), [("dify", dify), ("azure", azure)])
def test_an_assistant_of_a_page_table_is_judged(
    priced_project: Path, judges: Service, monkeypatch: pytest.MonkeyPatch, name: str, reply: Any
) -> None:
    for variable in ("DIFY_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_SEARCH_KEY"):
        monkeypatch.setenv(variable, KEY)
    judges.default = lambda request: judgement_of(request, 80)
    title = "An assistant of Dify or of Azure OpenAI"
    monkeypatch.setitem(RECIPES, title, RECIPES[title].replace("dify", name))
    with running(reply) as bot:
        with (priced_project / "socjudge.toml").open("a", encoding="utf-8") as file:
            file.write(page_tables(bot.url)[name])
        done = cook("An assistant of Dify or of Azure OpenAI")["run"]
    assert len(bot.asked) == len(judges.requests) == 3
    assert done.info.assistant_model == name
    assert done.summary.passed_questions == 3
