"""RunPanel and AskPanel over somebody's assistant behind HTTP, in a real JupyterLab and a real browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.browser import chromium, lab, open_notebook, run_all, write_notebook
from support.own_bot import Bot, Said, running

from socjudge import load_run

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.hacked = 1'>"
KEY = "bot-key-0123456789"
QUESTIONS = [
    ("マルウェアを検知しました。初動は。", ["端末の隔離", "SOCリーダーへの報告"]),
    ("不審なメールの報告先は。", ["SOCへの報告"]),
    ("ログの保全の手順は。", ["ログの保全"]),
]
DOCUMENTS = [
    {"body": "SOC当番は、感染の疑いがある端末を直ちにネットワークから隔離する。", "name": "malware.md"},
    {"body": "SOC当番は、隔離から15分以内にSOCリーダーへ報告する。", "name": "escalation.md"},
]


def reply(asked: Any) -> Said:
    """A good answer, one with something hostile in it, and none."""
    if "ログ" in asked["q"]:
        return Said("busy", status=503)
    text = (
        "1. 感染の疑いがある端末を直ちにネットワークから隔離する[1]。\n2. 隔離から15分以内にSOCリーダーへ報告する[2]。"
    )
    return Said({"reply": {"text": text + (HOSTILE if "メール" in asked["q"] else "")}, "sources": DOCUMENTS})


def project(folder: Path, bot: Bot) -> None:
    """Questions and a table, and no runbooks."""
    (folder / "eval").mkdir()
    rows = [
        {"id": i, "category": "正常系", "question": question, "expected_keypoints": keypoints}
        for i, (question, keypoints) in enumerate(QUESTIONS, 1)
    ]
    (folder / "eval" / "eval_dataset.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    (folder / "socjudge.toml").write_text(
        f'[defaults]\nanswers = "bot"\n[assistants.bot]\nurl = "{bot.url}/ask"\nheaders = {{ X-Key = "${{BOT_KEY}}" }}\n'
        'body = { q = "{question}" }\nanswer = "reply.text"\ncontexts = "sources[*].body"\nsources = "sources[*].name"\n'
        'version = "3.2"\n',
        encoding="utf-8",
    )


def test_a_person_judges_and_asks_an_assistant_of_their_own(tmp_path: Path) -> None:
    with running(reply) as bot, chromium() as browser:
        project(tmp_path, bot)
        environment = {"BOT_KEY": KEY, "SOCJUDGE_HOME": str(tmp_path), "OPENAI_API_KEY": ""}
        with lab(tmp_path, environment) as url:
            write_notebook(
                tmp_path / "own.ipynb",
                "import socjudge as sj\nsj.RunPanel()",
                "sj.AskPanel()",
            )
            page = browser.new_page(viewport={"width": 1280, "height": 1900})
            open_notebook(page, url, "own.ipynb")
            run_all(page)
            panel = page.locator(".socjudge-run-panel")
            panel.wait_for(timeout=60_000)
            panel.get_by_text("BOT_KEY").first.wait_for(timeout=20_000)
            assert not panel.get_by_text("インデックスが構築されていません").is_visible()  # it needs none
            assert not page.locator(".socjudge-ask-panel").get_by_label("アシスタント", exact=True).is_visible()
            _picture(page, "own_before")
            assert not bot.asked
            panel.get_by_role("button", name="評価を実行").click()
            panel.get_by_text("評価完了！結果を").wait_for(timeout=120_000)
            first, *others = (asked["q"] for asked in bot.asked)  # alone; the others at once, in whatever order
            assert (first, sorted(others)) == (QUESTIONS[0][0], sorted(question for question, _ in QUESTIONS[1:]))
            panel.get_by_text("📋 詳細結果を見る").click()
            panel.get_by_text("503").first.wait_for(timeout=10_000)
            assert HOSTILE in panel.inner_text()
            assert "Judgeはなし、アシスタントは不明" in panel.inner_text()
            _picture(page, "own_after")
            (log,) = (tmp_path / "logs").glob("judge_eval_*.json")
            found = load_run(log)
            assert (found.info.assistant_model, found.info.assistant_version) == ("bot", "3.2")
            assert [result.evaluation.status for result in found.results] == ["ok", "ok", "failed"]

            asked = page.locator(".socjudge-ask-panel")
            asked.get_by_label("質問", exact=True).fill(QUESTIONS[1][0])
            asked.get_by_label("質問", exact=True).press("Tab")
            asked.get_by_role("button", name="質問する").click()
            asked.locator("summary", has_text="escalation.md").first.click(timeout=60_000)
            assert HOSTILE in asked.inner_text()
            assert "[prices]" not in asked.inner_text()  # whose price it is nobody there can tell
            _picture(page, "own_asked")
            asked.get_by_label("質問", exact=True).fill(QUESTIONS[2][0])
            asked.get_by_label("質問", exact=True).press("Tab")
            asked.get_by_role("button", name="質問する").click()
            asked.get_by_text("503").wait_for(timeout=60_000)
            _picture(page, "own_refused")
            assert page.evaluate("window.hacked") is None
            assert KEY not in page.inner_text("body")


def _picture(page: Any, name: str) -> None:
    if pictures := os.environ.get("SOCJUDGE_PICTURES"):
        page.screenshot(path=f"{pictures}/{name}.png")
