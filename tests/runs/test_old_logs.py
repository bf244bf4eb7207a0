"""One log of every version and kind loads, with the verdict that it supports by itself, and is saved whole.

tests/data/earlier_versions.zip has what earlier versions wrote; earlier_versions.md beside it says what each file is."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pandas as pd
import pytest
from conftest import DATA
from support.service import Service, judgement

from socjudge import (
    ConfigError,
    EvalQuestion,
    EvaluationRun,
    RunOptions,
    load_prompt,
    load_results,
    load_run,
    load_runs,
    load_scores,
    plan_run,
    run_evaluation_suite,
    summary_text,
    unfinished_runs,
    write_report,
)
from socjudge.base.messages import speaking
from socjudge.base.verdict import run_verdict
from socjudge.certify.certificate import load_certificate
from socjudge.history import load_labels
from socjudge.judge import save_evaluation_results

pytestmark = pytest.mark.usefixtures("in_japanese")
EARLIER = zipfile.Path(DATA / "earlier_versions.zip")


class Old(NamedTuple):
    """file: in earlier_versions.zip. outcome: of the run, as its own log supports it. passed: questions, of how many. says: a
    regex of what the summary says besides."""

    file: str
    kind: str
    outcome: str
    passed: tuple[int, int]
    says: str = ""


OF_TWO = "判定保留（採点を頼んだ2人のJudgeのうち1人の点しかありません）"
LOGS = [
    Old("v0_1/logs/judge_eval_20240105_093000.json", "the specification's keys alone", "passed", (5, 5)),
    Old("v0_1/logs/judge_eval_20261122_083521.json", "embedded judge", "passed", (2, 2)),
    Old("v0_1/logs/judge_eval_20261122_185130.json", "two judgements per answer", "passed", (3, 3)),
    Old("v0_1/logs/judge_eval_20261122_185131.json", "judged again", "failed", (0, 3)),
    Old("v0_1/logs/judge_eval_20261122_185133.json", "unparsable and failed rows", "open", (1, 3), "採点不能 2 件"),
    Old("v0_2/hosted.json", "hosted judge", "passed", (2, 2)),
    Old("v0_2/judges_agree_1.json", "first of two judges that agreed", "open", (2, 2), OF_TWO),
    Old("v0_2/judges_agree_2.json", "second of two judges that agreed", "open", (2, 2), OF_TWO),
    Old("v0_2/until_certain.json", "judged until certain", "passed", (2, 2)),
    Old("v0_3/offline.json", "embedded assistant and judge", "passed", (1, 1)),
    Old("v0_3/hosted.json", "hosted assistant and judge", "failed", (0, 1)),
    Old("v0_3/judges_agree_1.json", "first of two judges that agreed", "open", (2, 2), OF_TWO),
    Old("v0_3/judges_agree_2.json", "second of two judges that agreed", "open", (2, 2), OF_TWO),
    Old("v0_3/judges_differ_1.json", "the judge that passed it, of two that differed", "open", (2, 2), OF_TWO),
    Old("v0_3/judges_differ_2.json", "the judge that failed it, of two that differed", "open", (0, 2), OF_TWO),
    Old("v0_3/judge_missing_1.json", "one of two judges, the other one failed", "open", (2, 2), OF_TWO),
    Old("v0_3/two_as_one.json", "a second judge where the first was unsure", "failed", (2, 3)),
    Old("v0_3/decision.json", "decision model", "passed", (2, 2)),
    Old("v0_3/reasons.json", "decision model with another model's reasons", "passed", (2, 2)),
    Old("v0_3/refused_criterion.json", "a missing score that cannot change the verdict", "passed", (2, 2)),
    Old("v0_3/refused_criteria.json", "missing scores that can", "open", (0, 2), "点の欠けた回答 2 件"),
    Old("v0_3/no_context.json", "answers without contexts", "open", (0, 2), "点の欠けた回答 2 件"),
    Old("v0_3/until_certain.json", "judged until certain", "passed", (2, 2)),
    Old("v0_3/batch.json", "batch endpoint", "passed", (2, 2)),
    Old("v0_3/unparsable_and_failed.json", "unparsable and failed rows", "open", (1, 3), "採点不能 2 件"),
    Old("v0_3/repaired.json", "repaired", "passed", (3, 3)),
    Old("v0_3/rejudged.json", "judged again", "failed", (0, 2)),
    Old("v0_3/own_assistant.json", "an assistant of one's own", "passed", (2, 2)),
    Old("v0_3/stored_answers.json", "answers from a file", "passed", (2, 2)),
    Old("v0_3/repeats.json", "two answers per question, two judgements per answer", "passed", (1, 1)),
    Old("v0_3/own_rubric.json", "two criteria, line 85, rate 0.6", "passed", (2, 3), "平均85点以上"),
    Old("v0_3/to_read.json", "a pass with 安全性 20", "passed", (2, 2), "人が読"),
]  # fmt: skip
each_log = pytest.mark.parametrize("old", LOGS, ids=[f"{Path(old.file).parts[-2]} {old.kind}" for old in LOGS])


def content(old: Old) -> bytes:
    return (EARLIER / old.file).read_bytes()


def unpacked(old: Old, folder: Path, number: int = 1) -> Path:
    """The log as it was written; a log without a run block has its time from its name."""
    name = Path(old.file).name if old.file.startswith("v0_1") else f"judge_eval_20261126_{number:06}.json"
    (folder / name).write_bytes(content(old))
    return folder / name


def test_there_is_a_line_for_every_old_log() -> None:
    files = {name for name in EARLIER.root.namelist() if re.fullmatch(r"(v0_1/logs|v0_[23])/.+", name)}
    assert files - {old.file for old in LOGS} == {
        "v0_3/certificate.json",
        "v0_3/interrupted.partial.jsonl",
        "v0_2/interrupted.partial.jsonl",
        "v0_1/logs/judge_eval_20261122_185134.partial.jsonl",
    }


@each_log
def test_an_old_log_is_a_run_with_the_verdict_that_it_supports(old: Old, tmp_path: Path) -> None:
    run = load_run(unpacked(old, tmp_path))
    verdict, log = run_verdict(run), json.loads(content(old))
    assert (verdict.outcome, run.summary.passed_questions, run.summary.total_questions) == (old.outcome, *old.passed)
    assert (verdict.paint == "good") == (old.outcome == "passed" and not verdict.is_reference)
    assert verdict.is_reference == (log.get("run", {}).get("judge_model") == "offline")
    text = summary_text(run)
    assert f"**{verdict.headline}**" in text and re.search(old.says, text)
    rows = [(row["question_id"], row["evaluation"]["scores"], row["answer"]) for row in log["results"]]
    assert [(r.question.id, dict(r.evaluation.scores), r.answer.answer) for r in run.results] == rows


@pytest.mark.slow
def test_a_folder_of_old_logs_gives_frames_with_these_verdicts(tmp_path: Path) -> None:
    names = [unpacked(old, tmp_path, number).name for number, old in enumerate(LOGS, start=1)]
    runs = load_runs(tmp_path).set_index("log").loc[names]
    found = ["open" if row.is_open else "passed" if row.mvp_passed else "failed" for row in runs.itertuples()]
    assert dict(zip(names, found, strict=True)) == dict(zip(names, (old.outcome for old in LOGS), strict=True))
    assert [*zip(runs["passed_questions"], runs["total_questions"], strict=True)] == [old.passed for old in LOGS]
    results, scores = load_results(tmp_path, text=True), load_scores(tmp_path, text=True)
    for name, old in zip(names, LOGS, strict=True):
        rows = [row for row in json.loads(content(old))["results"] if row["evaluation"].get("status", "ok") == "ok"]
        own = results[results["log"] == name]
        assert own.loc[own["status"] == "ok", "answer"].tolist() == [row["answer"] for row in rows], old
        marks = scores[(scores["log"] == name) & (scores["status"] == "ok")]["score"].dropna().tolist()
        given = [score for row in rows for score in row["evaluation"]["scores"].values() if score is not None]
        assert marks == given, old


@pytest.mark.few(5)
@pytest.mark.slow
@each_log
def test_the_report_of_an_old_log_has_the_same_verdict(old: Old, tmp_path: Path) -> None:
    run = load_run(unpacked(old, tmp_path))
    headline = f"<h2>{run_verdict(run).headline}"
    for source in (run, tmp_path):
        page = write_report(tmp_path / "report.html", source, lang="ja").read_text("utf-8")
        assert headline in page
        assert ('class="verdict good"' in page) <= (old.outcome == "passed")


# -- journals


def laid_out(version: str, folder: Path, service: Service | None = None) -> Path:
    """A copy of the journal, as if it had been begun with this service."""
    text = (EARLIER / version / "interrupted.partial.jsonl").read_text("utf-8")
    if service is not None:
        text = text.replace("http://127.0.0.1:8000/v1", service.base_url)
    folder.mkdir(exist_ok=True)
    path = folder / "judge_eval_20261126_143353.partial.jsonl"
    path.write_text(text, "utf-8")
    return path


# -- saved again


def saved(run: EvaluationRun, folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(save_evaluation_results(run, folder / "again").read_bytes())
    return value


@each_log
def test_saving_a_loaded_log_keeps_every_key(old: Old, tmp_path: Path) -> None:
    def check(there: Any, here: Any, place: str = "") -> None:
        if isinstance(there, dict):
            for key, value in there.items():
                check(value, here[key], f"{place}.{key}")
        elif isinstance(there, list) and there and isinstance(there[0], dict):
            for i, (one, other) in enumerate(zip(there, here, strict=True)):
                check(one, other, f"{place}[{i}]")
        elif not place.startswith(".summary."):  # rows of unread replies are counted anew
            assert orjson.dumps(here) == orjson.dumps(there), place

    check(json.loads(content(old)), saved(load_run(unpacked(old, tmp_path)), tmp_path))


UNKNOWN = '{\n  "深い": [\n    1,\n    -0.0,\n    1e+300,\n    null,\n    {}\n  ],\n  "改行\\n": "\u2028é"\n}'


@pytest.mark.parametrize("place", ["", "run", "results.0", "results.0.assistant", "results.0.evaluation"])
def test_a_key_that_this_version_does_not_know_is_saved_byte_for_byte(place: str, tmp_path: Path) -> None:
    log = json.loads(content(LOGS[-1]))
    at: Any = log
    for key in filter(None, place.split(".")):
        at = at[int(key) if key.isdigit() else key]
    at["extra"] = json.loads(UNKNOWN)
    path = tmp_path / "judge_eval_20261126_000001.json"
    path.write_bytes(orjson.dumps(log, option=orjson.OPT_INDENT_2))
    depth = "  " * (1 + len([*filter(None, place.split("."))]))
    written = f'"extra": {UNKNOWN}'.replace("\n  ", f"\n{depth}  ").replace("\n}", f"\n{depth}}}")
    assert written in path.read_text("utf-8")
    run = load_run(path)
    again = save_evaluation_results(run, tmp_path / "again")
    assert written in again.read_text("utf-8")
    assert load_run(again) == run and load_runs(again.parent)["log"].tolist() == [again.name]


@pytest.mark.parametrize("version", ["v0_2", "v0_3"])
def test_an_old_journal_is_named_before_anything_is_paid_and_stays(
    version: str, service: Service, tmp_path: Path
) -> None:
    path = laid_out(version, tmp_path / "logs", service)
    before = path.read_bytes()
    service.default = judgement(80)
    questions = [EvalQuestion(1, "正常系", "質問1です", ("端末の隔離",))]
    how: dict[str, Any] = {"answers": ["回答1です。"], "judge_model": "gpt-4o-mini", "logs_dir": path.parent}
    told = rf"{re.escape(str(path))}: 前の版の途中経過なので、この版では読めません。その実行は始めた版で終わらせるか"
    assert re.match(told, plan_run(questions, **how).problem)
    reads: list[Callable[[], Any]] = [
        lambda: run_evaluation_suite(questions, **how),
        lambda: unfinished_runs(path.parent),
        lambda: load_run(path),
    ]
    for read in reads:
        with pytest.raises(ConfigError, match=told):
            read()
    assert service.requests == [] and path.read_bytes() == before
    run_evaluation_suite(questions, **how, options=RunOptions(fresh=True))
    assert len(service.requests) == 1 and path.read_bytes() == before


def test_a_certificate_of_0_3_loads(tmp_path: Path) -> None:
    path = tmp_path / "offline_e05f9839_20261125.json"
    path.write_bytes((EARLIER / "v0_3" / "certificate.json").read_bytes())
    certificate = load_certificate(path)
    value = json.loads(path.read_bytes())
    assert certificate.binding.judge_model == "offline"
    assert [(each.criterion, each.word) for each in certificate.verdicts] == [
        (each["criterion"], each["word"]) for each in value["verdicts"]
    ]


# --- Files that version 0.1 wrote load as they did: v0_1 of tests/data/earlier_versions.zip, with the frames that it read

PACKED = DATA / "earlier_versions.zip"
OLD = zipfile.Path(PACKED, "v0_1/")
JOURNAL = "judge_eval_20261122_185134.partial.jsonl"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in io.StringIO(text)]


def as_stored(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as frames/*.jsonl has them."""
    options: dict[str, Any] = {"force_ascii": False, "date_format": "iso", "double_precision": 15}
    return lines(frame.to_json(orient="records", lines=True, **options))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKED) as packed:
        packed.extractall(tmp_path)
    return tmp_path / "v0_1"


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("runs", lambda old: load_runs(old / "logs")),
        ("results", lambda old: load_results(old / "logs", text=True)),
        ("scores", lambda old: load_scores(old / "logs", text=True)),
        ("labels", lambda old: load_labels(old / "labels")),
    ],
)
def test_frames_of_old_files_are_the_old_frames(name: str, load: Callable[[Path], pd.DataFrame], old: Path) -> None:
    stored = lines((OLD / "frames" / f"{name}.jsonl").read_text("utf-8"))
    found = as_stored(load(old))
    assert [{column: row.get(column, "(no such column)") for column in stored[0]} for row in found] == stored


def test_old_logs_hold_what_can_go_wrong() -> None:
    statuses = {row["status"] for row in lines((OLD / "frames" / "results.jsonl").read_text("utf-8"))}
    assert statuses == {"ok", "unparsable", "failed"}


def test_an_old_journal_is_named_with_what_to_do(old: Path) -> None:
    for read in (unfinished_runs, lambda logs: load_run(logs / JOURNAL)):
        said = rf"{JOURNAL}: an earlier version wrote this .* or move the file elsewhere"
        with speaking("en"), pytest.raises(ConfigError, match=said):
            read(old / "logs")


def test_an_old_saved_prompt_is_the_text_that_was_saved(old: Path) -> None:
    prompt = load_prompt(old / "prompts" / "kibishii.txt")
    assert prompt.id == "kibishii"
    assert prompt.text == load_prompt("guide-1").text + "\n厳しく採点してください。"


def test_a_key_of_another_version_does_not_make_a_part_a_whole(tmp_path: Path) -> None:
    log = json.loads(content(LOGS[-1]))
    for repeats in (None, {"least": 1}):
        log["run"] |= {"asked": 2 * len(log["results"]), "repeats": repeats}
        path = tmp_path / "judge_eval_20261126_000001.json"
        path.write_text(json.dumps(log), "utf-8")
        assert run_verdict(load_run(path)).outcome == "open"
