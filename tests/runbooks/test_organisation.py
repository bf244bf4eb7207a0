"""`organisation.json`: names in warnings, neutral words without it, and what a damaged one says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from socjudge import handle_query
from socjudge.answering.assistant import warning_lines
from socjudge.constants import RUNBOOKS_DIR
from socjudge.errors import ConfigError
from socjudge.records import Flags
from socjudge.runbooks.companions import Organisation, Person, load_organisation
from socjudge.runbooks.index import build_index, find_index

DEMO_NAMES = ("SOCリーダー", "CSIRT", "緊急変更申請", "内線")
FOREIGN = """# Laptop loss

## Trigger
A staff member reports a lost or stolen laptop.

## First response
1. Ask when and where the laptop was last seen, and record it in the ticket.
2. The duty engineer locks the device in the management console within 30 minutes.

## Do not
- Do not wipe the device before the duty manager approves. The audit trail would be lost.
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "laptop.md").write_text(FOREIGN, encoding="utf-8")
    return folder


def write(folder: Path, organisation: Any) -> None:
    (folder / "organisation.json").write_text(json.dumps(organisation, ensure_ascii=False), encoding="utf-8")


def test_the_shipped_file_names_the_leader_with_the_extension() -> None:
    organisation = load_organisation(RUNBOOKS_DIR)
    assert (str(organisation.leader), organisation.deciding, organisation.permission) == (
        "SOCリーダー（内線7111）",
        "SOCリーダーまたはCSIRT責任者",
        "緊急変更申請と承認",
    )
    for person in (organisation.leader, *organisation.approvers):
        assert any(str(person) in path.read_text(encoding="utf-8") for path in RUNBOOKS_DIR.glob("*.md"))


@pytest.mark.parametrize(
    "question",
    [
        "カフェテリアの今週のメニューを教えてください",  # nothing there
        "どうすればいいですか",  # too vague
        "監査ログを全部消してから返却していいですか",  # dangerous
        "A laptop was stolen, what do I do first?",
    ],
)
def test_foreign_runbooks_hear_no_name_of_the_demo_company(question: str, foreign: Path, tmp_path: Path) -> None:
    index = build_index(foreign, index_dir=tmp_path / "index")
    answer = handle_query(question, index=index, model="offline").answer
    assert [name for name in DEMO_NAMES if name in answer] == []


def test_names_come_from_the_file_beside_the_runbooks(foreign: Path, tmp_path: Path) -> None:
    write(
        foreign,
        {
            "leader": {"role": "当直長", "phone": "090-0000-0000"},
            "approvers": [{"role": "情シス部長"}],
            "change_form": "変更票",
        },
    )
    index = build_index(foreign, index_dir=tmp_path / "index")
    assert "当直長（090-0000-0000）" in handle_query("どうすればいいですか", index=index, model="offline").answer
    assert "情シス部長に確認" in handle_query("今日の昼ごはんの献立は？", index=index, model="offline").answer


def test_warnings_name_the_form_and_the_approvers() -> None:
    flags = Flags(insufficient_evidence=True, dangerous_operation=True)
    assert warning_lines(flags, (), Organisation(approvers=(Person("部長"),), change_form="変更票")) == [
        "⚠️ 危険操作: 危険な操作の疑いがあります。変更票と承認なしに実施しないでください。",
        "⚠️ 根拠不足: 手順書のどこに当たるかを確かめられませんでした。推測で作業せず、部長に確認してください。",
    ]
    assert not any(name in line for name in DEMO_NAMES for line in warning_lines(flags))


@pytest.mark.parametrize(
    ("organisation", "told"),
    [
        ([], "expected an object"),
        ({"lead": {}}, "unknown field `lead`"),
        ({"leader": "SOCリーダー"}, r"\$\.leader"),
        ({"leader": {"role": " "}}, r"\$\.leader\.role"),
        ({"leader": {"role": "長", "phone": 7111}}, r"\$\.leader\.phone"),
        ({"approvers": {"role": "部長"}}, r"\$\.approvers"),
        ({"approvers": [{"role": "部長"}, {"name": "課長"}]}, r"\$\.approvers\[1\]"),
        ({"change_form": 1}, r"\$\.change_form"),
    ],
)
def test_a_bad_file_is_told_with_field_and_fix_when_the_index_is_built(
    organisation: Any, told: str, foreign: Path, tmp_path: Path
) -> None:
    write(foreign, organisation)
    with pytest.raises(ConfigError, match=rf"organisation\.json: .*{told}"):
        build_index(foreign, index_dir=tmp_path / "index")


@pytest.mark.parametrize("name", ["organisation.json", "prohibitions.json", "questions.json", "synonyms.json"])
def test_a_changed_file_beside_the_runbooks_makes_the_index_stale(name: str, foreign: Path, tmp_path: Path) -> None:
    index = build_index(foreign, index_dir=tmp_path / "index")
    assert find_index(foreign, index_dir=tmp_path / "index") is not None
    (foreign / name).write_text("{}", encoding="utf-8")
    assert index.stale_files() == [name]
    assert find_index(foreign, index_dir=tmp_path / "index") is None
    assert build_index(foreign, index_dir=tmp_path / "index").stale_files() == []
