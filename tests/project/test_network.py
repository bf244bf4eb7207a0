"""Nothing but the configured service is contacted: each command in a process whose connections are written down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from support.service import KEY, Service

pytestmark = pytest.mark.slow

GUARDED = """
import json, sys
seen, found, report, commands = [], [], sys.argv[1], json.loads(sys.argv[2])

def write_down(event, values):
    if event == "socket.connect" and isinstance(values[1], tuple):
        seen.append(list(values[1][:2]))
    elif event == "socket.sendto" and isinstance(values[1], tuple):
        seen.append(list(values[1][:2]))
    elif event == "socket.getaddrinfo":
        seen.append([values[0], values[1]])
    elif event in ("socket.gethostbyname", "urllib.Request"):
        seen.append([str(values[0]), event])

sys.addaudithook(write_down)
from socjudge.cli.app import app
for arguments in commands:
    try:
        app(arguments, prog_name="socjudge")
    except SystemExit as ended:
        found.append([ended.code or 0, [*seen]])
    seen.clear()
open(report, "w").write(json.dumps(found))
"""


def contacted(project: Path, *commands: str, **environment: str) -> list[set[tuple[str, int]]]:
    """Each host and port that each of the commands, all in one process, looked up, connected to or sent to."""
    report = project.parent / "contacted.json"
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "LANGSMITH_"))}
    done = subprocess.run(
        [sys.executable, "-c", GUARDED, str(report), json.dumps([command.split() for command in commands])], capture_output=True, text=True, cwd=project,
        env={**keep, "PYTHONPATH": str(ROOT), **environment}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text("utf-8"))
    assert len(found) == len(commands) and {code for code, _ in found} <= {0, 1}, done.stderr
    return [{(host, port) for host, port in each} for _, each in found]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    assert contacted(tmp_path / "here", f"init {tmp_path / 'mine'}") == [set()]
    return tmp_path / "mine"


def test_offline_nothing_is_contacted(project: Path) -> None:
    commands = ("run --quiet", "ask 端末を隔離する手順は？", "report report.html", "doctor")
    assert contacted(project, *commands) == [set()] * 4


def test_a_hosted_run_contacts_the_configured_service_alone(project: Path, service: Service) -> None:
    port = int(service.base_url.split(":")[2].split("/")[0])
    hosted = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    assert contacted(project, "run --yes --quiet", **hosted) == [{("127.0.0.1", port)}]
    assert service.judge_calls == 10, "the guard saw what really was sent"
