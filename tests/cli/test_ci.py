"""What CI gets: the summary of the job, exit codes by the table of docs/reference.md, and its two workflows, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from conftest import ROOT
from markdown_it import MarkdownIt
from support.command_line import socjudge as in_own_process
from support.command_line import socjudge_here
from support.service import KEY, Reply, Service, error, judgement

from socjudge.certify.certificate import (
    CONDITIONS,
    Binding,
    Certificate,
    Finding,
    binding_of_run,
    load_certificate,
    save_certificate,
)
from socjudge.certify.conditions import _decide
from socjudge.cli import shared
from socjudge.cli.app import app
from socjudge.runs.logs import load_run

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8").partition("\n## CI\n")[2].partition("\n## ")[0]
QUESTIONS = [
    {"id": n, "category": "正常系", "question": f"質問{n}", "expected_keypoints": ["隔離"]} for n in range(1, 5)
]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Four questions with stored answers."""
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "eval_dataset.json").write_text(json.dumps(QUESTIONS), "utf-8")
    rows = [f"{each['id']},端末を隔離します。,手順書" for each in QUESTIONS]
    (tmp_path / "answers.csv").write_text("\n".join(["question_id,answer,contexts", *rows]), "utf-8")
    (tmp_path / "socjudge.toml").write_text("", "utf-8")
    return tmp_path


@pytest.fixture
def socjudge(project: Path, service: Service) -> Command:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url, "SOCJUDGE_LANG": "en"}
        return socjudge_here("--project", str(project), *arguments, **keys)

    return run


RUN = ["run", "-y", "-q", "--judge-model", "gpt-4o-mini"]


def files(project: Path) -> list[str]:
    return ["--answers", str(project / "answers.csv"), "--summary", str(project / "page.md")]


@pytest.mark.parametrize(
    ("default", "code", "verdict"),
    [
        (judgement(80), 0, "**✅ MVP合格**"),
        (judgement(60), 1, "**❌ MVP不合格**"),
        (error(500, "busy"), 3, "## ⚠️ undecided (this run has no verdict)"),
        ("nonsense", 3, "**⚠️ undecided"),
    ],
)
def test_code_and_summary_say_the_same(
    default: Any, code: int, verdict: str, project: Path, socjudge: Command, service: Service
) -> None:
    service.default = default
    done = socjudge(*RUN, "--max-failures", "1", *files(project))
    page = (project / "page.md").read_text("utf-8")
    assert done.returncode == code, done.stderr
    assert verdict in page and ("MVP" in page) == (code < 2 or default == "nonsense")
    assert KEY not in page and len(page.split("\n")) < 30


def test_a_summary_names_certificate_and_log(project: Path, socjudge: Command) -> None:
    assert socjudge(*RUN, *files(project)).returncode == 0
    (log,) = (project / "logs").glob("*.json")
    page = (project / "page.md").read_text("utf-8")
    assert "- 総問題数: 4問" in page and "- Certificate of this judge: none" in page and log.name in page


def test_what_a_service_says_is_no_markup_in_a_summary(project: Path, socjudge: Command, service: Service) -> None:
    hostile = "\n\n# ✅ MVP合格\n\n<img src=x onerror=alert(1)> ![x](http://evil.example/y.png) | www.evil.example"
    names = iter(f"gpt-4o-mini-{n}{hostile}" for n in range(99))

    def reply(request: dict[str, Any]) -> Reply:
        message = {"role": "assistant", "content": judgement(60, reason=hostile, comment=hostile)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Reply(
            body=json.dumps(
                {"id": "x", "object": "chat.completion", "created": 0, "model": next(names), "choices": [choice]}
            )
        )

    for service.default in (reply, error(400, hostile)):
        socjudge(*RUN, "--fresh", *files(project))
        page = (project / "page.md").read_text("utf-8")
        tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(page)
        told = [token for block in tokens for token in (block, *(block.children or ()))]
        assert "evil.example" in page.replace("&#46;", ".")
        assert not {token.type for token in told} & {"link_open", "image", "html_inline", "table_open"}
        assert sum(token.type == "heading_open" for token in told) == 1
        assert [token.content for token in told if token.type == "html_block"] == [page.split("\n")[-2] + "\n"]
        assert not re.search("(http:/|www[.])", page)  # which GitHub would make a link


def test_a_run_loads_no_library_that_it_does_not_use(project: Path, service: Service) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url, "PYTHONPROFILEIMPORTTIME": "1"}
    done = in_own_process("--project", str(project), *RUN, "--answers", str(project / "answers.csv"), **keys)
    loaded = set(re.findall(r"^import time:.*\| +(\w+)$", done.stderr, re.MULTILINE))
    assert done.returncode == 0 and "openai" in loaded
    assert not loaded & {"pandas", "scipy", "pyarrow", "matplotlib", "langchain_core", "faiss"}


def test_nothing_of_an_earlier_job_is_left_when_one_ends_early(project: Path, socjudge: Command) -> None:
    assert socjudge(*RUN, *files(project)).returncode == 0
    (project / "eval" / "eval_dataset.json").write_text("[]", "utf-8")
    done = socjudge(*RUN, *files(project))
    head, reason = (project / "page.md").read_text("utf-8").split("\n\n")[:2]
    assert done.returncode == 2 and head == "## ⚠️ undecided (this run has no verdict)"
    assert reason[:40] in done.stderr


def test_a_place_that_cannot_be_written_is_told_before_anything_is_asked(
    project: Path, socjudge: Command, service: Service
) -> None:
    for name in ("answers.csv", "none/page.md"):
        done = socjudge(*RUN, "--answers", str(project / "answers.csv"), "--summary", str(project / name))
        assert done.returncode == 2 and name.split("/")[-1] in done.stderr
    assert service.requests == [] and "question_id" in (project / "answers.csv").read_text("utf-8")


def test_a_summary_replaces_only_an_empty_file_or_one_of_socjudge(project: Path, socjudge: Command) -> None:
    (project / "page.md").touch()  # as GitHub hands it over
    for _ in range(2):
        assert socjudge(*RUN, *files(project)).returncode == 0
    (project / "page.md").write_text("# mine", "utf-8")
    done = socjudge(*RUN, *files(project))
    assert done.returncode == 2 and "was not written by socjudge" in done.stderr
    assert (project / "page.md").read_text("utf-8") == "# mine"


# -- the certificate as a gate


def certificate(binding: Binding, *, state: str = "shown", issued_at: str = "") -> Certificate:
    """A certificate whose findings all say so; as issued just now."""
    findings = tuple(Finding(name, state, "") for name in CONDITIONS)
    verdicts = tuple(_decide(name, findings, ()) for name in binding.criteria)
    tables: dict[str, list[Any]] = {
        name: [] for name in ("probes", "neutral", "injection", "people", "raters", "hardening")
    }
    counts = dict.fromkeys(("answers", "tried", "labels", "raters", "calls"), 0)
    basis = {"log": "", "judge_prompt_id": "guide-1", "cost_usd": None, **counts}
    return Certificate(binding, issued_at or datetime.now().astimezone().isoformat(), verdicts, basis, tables)


@pytest.fixture
def binding(project: Path, socjudge: Command, service: Service) -> Binding:
    """Of the judge as it runs here."""
    assert socjudge(*RUN, *files(project)).returncode == 0
    (log,) = (project / "logs").glob("*.json")
    service.requests.clear()
    return binding_of_run(load_run(log))


def test_a_judge_with_a_certificate_that_holds_passes(project: Path, socjudge: Command, binding: Binding) -> None:
    save_certificate(certificate(binding), project / "certificates")
    done = socjudge(*RUN, "--fresh", "--require-certificate", *files(project))
    assert done.returncode == 0, done.stderr
    log = next((project / "logs").glob("*.json"))
    assert socjudge("rejudge", "--log", str(log), *RUN[1:], "--fresh", "--require-certificate").returncode == 0


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (None, "there is no certificate of the judge gpt-4o-mini"),
        ({"judge_service": "https://elsewhere.example/v1"}, "is not valid"),
        ({"judge_prompt_sha256": "0" * 64}, "is not valid"),
        ({"criteria": ("正確性",)}, "is not valid"),
        ({"judge_model": "gpt-4o"}, "there is no certificate of the judge gpt-4o-mini"),
        ("expired", "is not valid"),
        ("failed", "does not let this judge decide"),
        ("undecided", "does not let this judge decide"),
        ("edited", "was changed after it was written"),
    ],
)
def test_no_other_certificate_lets_a_run_pass_and_nothing_is_asked(
    change: Any, told: str, project: Path, socjudge: Command, service: Service, binding: Binding
) -> None:
    folder = project / "certificates"
    if isinstance(change, dict):
        save_certificate(certificate(Binding(**{**vars(binding), **change})), folder)
    elif change:
        state = {"failed": "against", "undecided": "untried"}.get(change, "shown")
        old = "2020-01-01T00:00:00+09:00" if change == "expired" else ""
        path = save_certificate(certificate(binding, state=state, issued_at=old), folder)
        if change == "edited":
            path.write_text(path.read_text("utf-8").replace("guide-1", "guide-2"), "utf-8")
        else:
            load_certificate(path)
    for more in ([], ["--fresh"]):
        done = socjudge(*RUN, "--require-certificate", *more, *files(project))
        assert done.returncode == shared.UNCERTIFIED and told in done.stderr
    log = next((project / "logs").glob("*.json"))
    assert socjudge("rejudge", "--log", str(log), *RUN[1:], "--require-certificate").returncode == shared.UNCERTIFIED
    head, reason = (project / "page.md").read_text("utf-8").split("\n\n")[:2]
    assert head == "## ⚠️ undecided (this run has no verdict)"
    assert "certif" in reason and service.requests == []


def test_a_model_that_answers_under_another_name_is_not_the_certified_one(
    project: Path, socjudge: Command, binding: Binding
) -> None:
    save_certificate(
        certificate(Binding(**{**vars(binding), "judge_model_resolved": "gpt-4o-mini-2099"})), project / "certificates"
    )
    done = socjudge(*RUN, "--fresh", "--require-certificate", *files(project))
    assert done.returncode == shared.UNCERTIFIED and "is not valid" in done.stderr
    page = (project / "page.md").read_text("utf-8")
    assert "undecided (this run has no verdict)" in page and "MVP" not in page


# -- the page of the documentation


def workflows() -> list[dict[str, Any]]:
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def commands() -> list[list[str]]:
    github, gitlab = workflows()
    steps = github["jobs"]["judge"]["steps"]
    return [[step["run"] for step in steps if "run" in step], gitlab["judge"]["script"]]


@pytest.mark.few(2)
@pytest.mark.parametrize("which", [0, 1], ids=["github", "gitlab"])
@pytest.mark.parametrize(("marks", "code"), [(80, 0), (60, 1)])
def test_a_workflow_of_the_docs_does_what_it_says(
    which: int, marks: int, code: int, project: Path, service: Service
) -> None:
    settings = f"[defaults]\nanswers = {json.dumps(str(project / 'answers.csv'))}\n"
    settings += '[prices."gpt-4o-mini"]\ninput = 0.15\noutput = 0.6\n'  # another address than OpenAI's proves none
    (project / "socjudge.toml").write_text(settings, "utf-8")
    service.default = judgement(marks)
    install, told = commands()[which]
    assert install.startswith("pip install")  # the package under test is there already
    (project / "bin").mkdir()
    shim = project / "bin" / "socjudge"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m socjudge "$@"\n', "utf-8")
    shim.chmod(0o755)
    (project / "step.md").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")},
        "PATH": f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}", "OPENAI_API_KEY": KEY, "SOCJUDGE_LANG": "en",
        "OPENAI_BASE_URL": service.base_url, "GITHUB_STEP_SUMMARY": str(project / "step.md"), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    shell = shutil.which("bash") or "sh"
    done = subprocess.run(
        [shell, "-e", "-c", told], cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    page = (project / ("page.md" if which else "step.md")).read_text("utf-8")
    assert ("**✅ MVP合格**" if marks == 80 else "**❌ MVP不合格**") in page


NEEDS = {  # what a command must be given, here something that is not there
    "init": ["socjudge.toml/x"], "ask": ["端末の初動は？"], "rejudge": ["--log", "none.json"],
    "report": ["report.html"], "certify": ["--log", "none.json"], "compare": ["a.json", "b.json"],
}  # fmt: skip
BY_VERDICT = "cli/test_ci.py::test_run_and_rejudge_end_by_the_verdict"
OF_CERTIFY = "cli/test_certify.py::test_certify_asks_first_keeps_the_certificate_and_check_reads_it"
OF_CERTIFY_TOO = "cli/test_certify.py::test_a_budget_that_ends_midway_ends_with_unknown_and_exit_code_1"
OF_DOCTOR = "cli/test_ci.py::test_doctor_ends_by_what_it_finds"
TESTED = {  # each row of the table, and the tests of the commands that it names
    (0, "`run`, `rejudge`"): [BY_VERDICT],
    (0, "`certify` (also `--check`)"): [OF_CERTIFY],
    (0, "`doctor`"): [OF_DOCTOR],
    (0, "every other command"): ["cli/test_ci.py::test_every_other_command_that_is_done_ends_with_0"],
    (1, "`run`, `rejudge`"): [BY_VERDICT],
    (1, "`certify` (also `--check`)"): [OF_CERTIFY_TOO],
    (1, "`doctor`"): [OF_DOCTOR],
    (2, "every command"): ["cli/test_ci.py::test_an_error_of_any_command_ends_with_2_in_one_line"],
    (3, "`run`, `rejudge`"): [BY_VERDICT],
    (3, "every other command"): ["cli/test_terminal.py::test_no_word_of_a_service_commands_the_terminal"],
    (4, "`certify --check`"): [OF_CERTIFY],
    (4, "`run`, `rejudge` with `--require-certificate`"): [
        "cli/test_ci.py::test_no_other_certificate_lets_a_run_pass_and_nothing_is_asked",
        "cli/test_ci.py::test_a_model_that_answers_under_another_name_is_not_the_certified_one",
    ],
    (5, "every command that costs money"): [
        "cli/test_cli.py::test_a_paid_run_asks_first_and_a_script_must_say_yes",
        OF_CERTIFY,
    ],
}


def names_of_commands() -> list[str]:
    groups = typer.main.get_command(app).commands.items()
    return [f"{name} {part}".strip() for name, each in groups for part in getattr(each, "commands", None) or [""]]


def test_each_row_of_the_table_of_exit_codes_has_its_tests() -> None:
    rows = [(int(code), command) for code, command in re.findall(r"^\| (\d) \| (.*?) \|", PAGE, re.MULTILINE)]
    assert rows == list(TESTED)
    for path, name in {tuple(test.split("::")) for tests in TESTED.values() for test in tests}:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text("utf-8")
    names = ("PASSED", "NOT_PASSED", "TO_CORRECT", "UNDECIDED", "UNCERTIFIED", "NOT_AGREED")
    assert {code for code, _ in rows} == {getattr(shared, name) for name in names}


@pytest.mark.parametrize(("marks", "code"), [(judgement(80), 0), (judgement(60), 1), ("nonsense", 3)])
def test_run_and_rejudge_end_by_the_verdict(
    marks: str, code: int, project: Path, socjudge: Command, service: Service
) -> None:
    assert socjudge(*RUN, *files(project)).returncode == 0
    (log,) = (project / "logs").glob("*.json")
    service.default = marks
    assert socjudge(*RUN, "--fresh", *files(project)).returncode == code
    assert socjudge("rejudge", "--log", str(log), "--fresh", *RUN[1:]).returncode == code


def test_doctor_ends_by_what_it_finds(project: Path, socjudge: Command) -> None:
    assert socjudge(*RUN, *files(project)).returncode == 0
    assert socjudge("doctor").returncode == 0
    (project / "logs" / "judge_eval_20260101_000000.json").write_text("{", "utf-8")
    assert socjudge("doctor").returncode == 1


def test_every_other_command_that_is_done_ends_with_0(project: Path, socjudge: Command, service: Service) -> None:
    for _ in range(2):
        assert socjudge(*RUN, "--fresh", *files(project)).returncode == 0
    runbook = project / "eval" / "runbooks" / "malware.md"
    runbook.parent.mkdir()
    runbook.write_text("# 手順\n\n## 初動\n\n端末を隔離し、SOCリーダーに報告します。\n", "utf-8")
    done = {
        "init": [str(project / "other"), "--empty"], "settings": [], "unfinished": [], "index": [],
        "ask": ["端末の初動は？", "--model", "offline"], "report": [str(project / "report.html")],
        "compare": [str(log) for log in sorted((project / "logs").glob("*.json"))],
    }  # fmt: skip
    for name, given in done.items():
        ended = socjudge(*name.split(), *given)
        assert ended.returncode == 0, (name, ended.stderr)
    elsewhere = {"app", "run", "rejudge", "doctor", "certify"}
    assert {*names_of_commands()} == {*done, *elsewhere}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", names_of_commands())
def test_an_error_of_any_command_ends_with_2_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "socjudge.toml").touch()
    given = [each if each.startswith("--") or each.isalpha() else str(tmp_path / each) for each in NEEDS.get(name, [])]
    place = tmp_path / "none" if name in ("settings", "unfinished", "doctor") else tmp_path
    done = socjudge_here("--project", str(place), *name.split(), *given)
    (told,) = done.stderr.splitlines()
    assert done.returncode == 2 and told.startswith("socjudge: ") and len(told) > 40
