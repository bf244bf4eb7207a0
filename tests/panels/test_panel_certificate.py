"""The panel that certifies a judge, driven by its controls: nothing is asked without a click and a tick."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from certify_judge import ScriptedJudge, good_pairs
from conftest import text
from service import Service

from socjudge import CertificatePanel, run_evaluation_suite

PAIRS = good_pairs()[:3]


@pytest.fixture
def panel(tmp_path: Path, makes_runs: None) -> CertificatePanel:
    questions, answers = zip(*PAIRS, strict=True)
    run_evaluation_suite(questions, answers=answers, judge_model="offline", logs_dir=tmp_path / "logs", progress=False)
    made = CertificatePanel(
        logs_dir=tmp_path / "logs", labels_dir=tmp_path / "labels", certificates_dir=tmp_path / "certificates"
    )
    made.quick.value = True
    return made


@pytest.mark.slow
def test_a_hosted_judge_is_asked_only_after_a_tick_and_its_certificate_is_kept(
    service: Service, panel: CertificatePanel, tmp_path: Path
) -> None:
    service.default = ScriptedJudge(PAIRS)
    panel.judge_model.value = "gpt-4o-mini"
    told = text(panel.cost.value)
    assert "This costs money: " in told and "These answers have no labels" in told
    panel.certify_button.click()
    assert "tick the box" in panel.status.value and service.requests == []
    panel.allow_cost.value = True
    panel.certify_button.click()
    panel.wait(60)
    assert panel.certificate is not None and service.judge_calls == panel.certificate.basis["calls"]
    assert not panel.allow_cost.value and not panel.certify_button.disabled
    assert "安全性" in text(panel.result.value)
    assert {path.suffix for path in (tmp_path / "certificates").iterdir()} == {".json", ".html"}


@pytest.mark.slow
def test_answers_that_somebody_broke_are_in_the_estimate_and_their_faults_are_said(
    service: Service, panel: CertificatePanel, tmp_path: Path
) -> None:
    panel.judge_model.value = "gpt-4o-mini"
    without = int(text(panel.cost.value).split(": ")[1].split()[0])
    assert "10: 0%, 40: 30%, 70: 83%" in text(panel.cost.value)  # the plan, before anybody labels
    broken = {"question_id": PAIRS[0][0].id, "broken_answer": "電源を切る。", "criterion": "安全性"}
    (tmp_path / "own.jsonl").write_text(json.dumps(broken), "utf-8")
    panel.damaged.value = str(tmp_path / "own.jsonl")
    assert int(text(panel.cost.value).split(": ")[1].split()[0]) == without + 1
    panel.damaged.value = str(tmp_path / "none.jsonl")
    assert "none.jsonl: the damaged answers cannot be read" in panel.cost.value and panel.certify_button.disabled


@pytest.mark.slow
def test_the_embedded_judge_costs_nothing(panel: CertificatePanel) -> None:
    panel.judge_model.value = "offline"
    assert "no cost" in text(panel.cost.value) and panel.allow_cost.layout.display == "none"
    panel.certify_button.click()
    panel.wait(60)
    assert panel.certificate is not None and "信頼できる" not in panel.certificate.words.values()


@pytest.mark.slow
def test_what_is_wrong_is_said_where_one_looks(service: Service, panel: CertificatePanel, tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "x.csv").write_text("a,b\n1,2\n", "utf-8")
    panel.labels.value = str(tmp_path / "labels" / "x.csv")
    assert "lack the columns" in panel.status.value
    service.default = "良い回答です。"
    panel.judge_model.value, panel.allow_cost.value = "gpt-4o-mini", True
    panel.certify_button.click()
    panel.wait(60)
    assert "none of its first" in panel.status.value and panel.certificate is None


def test_a_folder_without_logs_says_so(tmp_path: Path) -> None:
    panel = CertificatePanel(logs_dir=tmp_path)
    assert "has no log" in panel.status.value and panel.certify_button.disabled


@pytest.mark.slow
def test_one_experiment_can_be_tried_without_a_certificate(panel: CertificatePanel, tmp_path: Path) -> None:
    panel.judge_model.value = "offline"
    panel.only.value = "probes"
    panel.certify_button.click()
    panel.wait(60)
    assert panel.outcome is not None and "安全性" in text(panel.result.value)
    assert not panel.certify_button.disabled
    assert panel.certificate is None and not (tmp_path / "certificates").exists()
