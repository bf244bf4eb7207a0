"""The specification's contracts: prompt, log structure, dataset, summary text, constants."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA

from socjudge import EvalQuestion, constants, load_eval_dataset, load_prompt, load_run, run_evaluation_suite
from socjudge.base.verdict import summary_text
from socjudge.records import RunSummary
from socjudge.runbooks.index import RunbookIndex


@pytest.fixture(scope="module")
def guide() -> str:
    return (DATA / "EVAL_GUIDE.ja.md").read_text(encoding="utf-8")


def fenced(guide: str, heading: str) -> str:
    """The text in the first code fence below a heading."""
    return guide.split(heading, 1)[1].split("```", 2)[1].split("\n", 1)[1].removesuffix("\n")


def test_the_shipped_judge_prompt_is_the_specifications_byte_for_byte(guide: str) -> None:
    assert load_prompt("guide-1").text.encode() == fenced(guide, "## Judge評価プロンプト（全文）").encode()


def test_question_1_is_the_specifications_and_the_mix_of_categories_too(guide: str) -> None:
    example = json.loads(fenced(guide, "**スキーマ**").replace("  ...\n", "").replace("},\n]", "}\n]"))
    questions = load_eval_dataset()
    first = questions[0]
    assert {
        "id": first.id,
        "category": first.category,
        "question": first.question,
        "expected_keypoints": list(first.expected_keypoints),
    } == example[0]
    counts = {category: sum(q.category == category for q in questions) for category in constants.QUESTION_CATEGORIES}
    assert counts == {"正常系": 4, "危険操作系": 2, "根拠不足系": 2, "曖昧質問系": 2}
    assert all(3 <= len(q.expected_keypoints) <= 6 for q in questions)


def shape(value: Any) -> Any:
    """The keys of a JSON value, nested and in order; lists by their first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


def starts_with(ours: Any, theirs: Any, where: str = "log") -> None:
    """Every key of theirs is in ours, first and in order, with the same type of value."""
    if isinstance(theirs, dict):
        assert list(ours)[: len(theirs)] == list(theirs), where
        for key, inner in theirs.items():
            starts_with(ours[key], inner, f"{where}.{key}")
    elif isinstance(theirs, list):
        starts_with(ours[0], theirs[0], f"{where}[0]")
    else:
        assert ours == theirs, where


def test_a_runs_log_has_the_specifications_structure_key_for_key(
    guide: str, index: RunbookIndex, questions: list[EvalQuestion], tmp_path: Path
) -> None:
    text = fenced(guide, "**ファイル構造**").replace("    },\n    ...\n", "    }\n")
    run = run_evaluation_suite(
        questions[:2], index=index, assistant_model="offline", judge_model="offline", logs_dir=tmp_path, progress=False
    )
    assert run.log_path is not None
    log = json.loads(run.log_path.read_text(encoding="utf-8"))
    starts_with(shape(log), shape(json.loads(text)))
    assert list(log) == ["results", "summary", "run"]
    assert set(log["summary"]) - set(json.loads(text)["summary"]) == {
        "n_unscored",
        "n_partial",
        "n_open",
        "is_open",
        "n_to_read",
        "judged",
        "asked",
        "is_contradictory",
    }
    assert re.fullmatch(r"judge_eval_\d{8}_\d{6}\.json", run.log_path.name)


def test_the_specifications_own_log_loads(guide: str, tmp_path: Path) -> None:
    path = tmp_path / "judge_eval_20250102_030405.json"
    text = fenced(guide, "**ファイル構造**").replace("    },\n    ...\n", "    }\n")
    path.write_text(text, encoding="utf-8")
    run = load_run(path)
    assert run.run.started_at == "2025-01-02T03:04:05"
    assert run.run.judge_model == "unknown"
    assert run.results[0].evaluation.scores["安全性"] == 95
    assert run.results[0].evaluation.status == "ok"
    # One of its ten results is there, so nobody can say that they passed.
    assert run.summary == RunSummary(10, 8, 0.8, 75.5, False, is_open=True, judged=1, asked=10)


@pytest.mark.parametrize("passed", [True, False])
def test_the_summary_is_worded_as_specified(guide: str, passed: bool) -> None:
    block = guide.split("評価サマリーが表示されます:", 1)[1].split("```", 2)[1]
    expected = "\n".join(line.removeprefix("     ") for line in block.strip("\n").splitlines())
    verdict = "✅ MVP合格" if passed else "❌ MVP不合格"
    expected = expected.replace("**✅ MVP合格** または **❌ MVP不合格**", f"**{verdict}**").strip()
    assert summary_text(RunSummary(10, 8, 0.8, 75.5, passed)).strip() == expected


def test_the_constants_are_the_specifications(guide: str) -> None:
    source = Path(constants.__file__).read_text(encoding="utf-8")
    assert re.findall(r'"(.+?)"', fenced(guide, "### 評価観点の変更")) == constants.JUDGE_EVALUATION_CRITERIA
    for line in fenced(guide, "### 合格ラインの変更").splitlines():
        assert line in source
    assert constants.DEFAULT_JUDGE_MODEL == "gpt-4o-mini"
