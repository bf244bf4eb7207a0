"""The command line as a user runs it: real processes where they matter, exit codes, and what is printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import ROOT
from support.command_line import socjudge, socjudge_here
from support.runs import log_of, one_run
from support.service import KEY, Service, error, is_judge_call, judgement
from typer.testing import CliRunner

from socjudge.cli.app import app
from socjudge.runbooks.index import RunbookIndex

pytestmark = pytest.mark.slow


@pytest.fixture
def built(index: RunbookIndex, tmp_path: Path) -> str:
    """A copy of the bundled runbooks' index, as deep as it, because it names the runbooks from where it is."""
    return str(shutil.copytree(index.index_dir, tmp_path.with_name(f"{tmp_path.name}-index")))


@pytest.fixture
def places(built: str, tmp_path: Path) -> list[str]:
    return ["--index-dir", built, "--logs-dir", str(tmp_path / "logs")]


def logs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "logs").glob("judge_eval_*.json"))


def test_run_offline_prints_the_verdict_and_leaves_a_log(tmp_path: Path) -> None:
    done = socjudge("run", "--index-dir", str(tmp_path / "index"), "--logs-dir", str(tmp_path / "logs"))
    assert done.returncode == 0, done.stderr
    assert "'auto' is 'offline'" in done.stderr
    assert "## 評価結果サマリー\n\n**✅ MVP合格**" in done.stdout
    assert "**MVP合格基準**: 10問中7問以上が平均70点以上" in done.stdout
    assert "for reference (not scored by an LLM)" in done.stdout
    (log,) = logs(tmp_path)
    assert f"評価完了！結果を {log} に保存しました" in done.stdout
    assert len(json.loads(log.read_text("utf-8"))["results"]) == 10


def test_a_paid_run_asks_first_and_a_script_must_say_yes(service: Service, tmp_path: Path, places: list[str]) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    refused = socjudge_here("run", *places, **keys)
    assert refused.returncode == 5
    assert "コストがかかります: 20 calls" in refused.stderr
    assert "--yes" in refused.stderr
    assert service.requests == []
    done = socjudge_here("run", "--yes", "--quiet", *places, **keys)
    assert done.returncode == 0, done.stderr
    assert service.judge_calls == 10
    assert KEY not in done.stdout + done.stderr + logs(tmp_path)[0].read_text("utf-8")


def test_a_prompt_of_ones_own_for_the_assistant_reaches_the_service_and_the_log(
    service: Service, tmp_path: Path, places: list[str]
) -> None:
    prompt = tmp_path / "terse-1.txt"
    prompt.write_text(
        "三行で答えること。\n{question}\n{context}\n{insufficient_evidence} {dangerous_operation} {ambiguous_query}\n",
        encoding="utf-8",
    )
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    done = socjudge_here("run", "-y", "-q", "--assistant-prompt", str(prompt), *places, **keys)
    assert done.returncode == 0, done.stderr
    assert sum("三行で答えること。" in json.dumps(r, ensure_ascii=False) for r in service.requests) == 10
    assert json.loads(logs(tmp_path)[0].read_text("utf-8"))["run"]["assistant_prompt_id"] == "terse-1"


@pytest.mark.parametrize(("said", "calls"), [("はい", 10), ("y", 10), ("いいえ", 0), ("", 0)])
def test_a_run_is_agreed_to_in_japanese_too(service: Service, places: list[str], said: str, calls: int) -> None:
    ours, theirs = os.openpty()
    environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url, "SOCJUDGE_LANG": "ja"}
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        os.write(ours, f"{said}\n".encode())
        told = socjudge_here(
            "run", "--quiet", "--assistant-model", "offline", *places, stdin=terminal, **environment
        ).stderr
    os.close(ours)
    assert "実行しますか? [y/N]:" in told
    assert service.judge_calls == calls
    assert ("何も実行していません" in told) == (calls == 0)


def test_exit_code_1_means_not_passed(service: Service, tmp_path: Path, places: list[str]) -> None:
    service.default = lambda request: judgement(60) if is_judge_call(request) else "答え"
    done = socjudge_here("run", "-y", "-q", *places, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert done.returncode == 1
    assert "**❌ MVP不合格**" in done.stdout
    assert len(logs(tmp_path)) == 1


def test_exit_code_3_means_that_there_is_no_verdict(service: Service, places: list[str]) -> None:
    service.default = lambda request: "採点できません" if is_judge_call(request) else "答え"
    done = socjudge_here("run", "-y", "-q", *places, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert done.returncode == 2, done  # another judge is to be chosen
    assert "none of its first 5 judgements could be read" in done.stderr
    readable = iter([judgement(80)])
    service.default = lambda request: next(readable, "採点できません") if is_judge_call(request) else "答え"
    again = socjudge_here("run", "-y", "-q", *places, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert again.returncode == 3
    assert "could not be scored: 9 (counted as 0 points" in again.stdout
    assert "undecided (could not be scored: 9)" in again.stdout


def test_a_wrong_key_is_one_clear_line(service: Service, places: list[str]) -> None:
    service.default = error(401, f"Incorrect API key provided: {KEY}")
    done = socjudge_here("run", "-y", "-q", *places, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert done.returncode == 2, done
    assert "check OPENAI_API_KEY" in done.stderr
    assert KEY not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["run"], ["rejudge", "--log", "log.json"]])
def test_a_second_judge_is_refused_with_what_to_do_instead(
    service: Service, tmp_path: Path, places: list[str], command: list[str]
) -> None:
    (tmp_path / "log.json").write_text(json.dumps(log_of(one_run())), "utf-8")
    given = [str(tmp_path / name) if name == "log.json" else name for name in command]
    two = ["--judge-model", "gpt-4o", "--judge-model", "gpt-4o-mini"]
    where = places if command == ["run"] else []
    done = socjudge_here(*given, "-y", "-q", *two, *where, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url)
    assert done.returncode == 2 and "--judge-model takes one judge" in done.stderr
    assert (
        "(gpt-4o-mini) judge the same answers: socjudge rejudge" in done.stderr
        and "Several judges under one cap" in done.stderr
    )
    assert service.requests == []


def test_the_estimate_is_of_what_an_interrupted_run_has_left(service: Service, places: list[str]) -> None:
    left = iter(range(3))
    refused = error(401, "no access")
    command = [
        "run",
        "-q",
        "--judge-model",
        "gpt-4o",
        "--assistant-model",
        "offline",
        "--max-concurrency",
        "1",
        *places,
    ]
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    assert "10 calls" in socjudge_here(*command, **keys).stderr
    service.default = lambda request: refused if next(left, None) is None else judgement(80)
    assert socjudge_here(*command, "-y", **keys).returncode == 2
    assert "コストがかかります: 7 calls" in socjudge_here(*command, **keys).stderr
    assert "10 calls" in socjudge_here(*command, "--fresh", **keys).stderr
    service.default = judgement(80)
    before = len(service.requests)
    assert socjudge_here(*command, "-y", **keys).returncode == 0
    assert len(service.requests) - before == 7


def test_rejudge_judges_stored_answers(service: Service, tmp_path: Path, places: list[str]) -> None:
    assert socjudge_here("run", "-q", *places).returncode == 0
    done = socjudge_here(
        "rejudge", "--log", str(logs(tmp_path)[0]), "--judge-model", "gpt-4o", "--logs-dir", str(tmp_path / "logs"), "-y", "-q",
        OPENAI_API_KEY=KEY, OPENAI_BASE_URL=service.base_url,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(service.requests) == service.judge_calls == 10
    assert len(logs(tmp_path)) == 2


def test_ask_answers_with_citations_and_never_calls_a_judge(service: Service, built: str) -> None:
    question = "マルウェア検知アラートの初動を教えてください"
    done = socjudge_here("ask", question, "--index-dir", built)
    assert done.returncode == 0, done.stderr
    assert "[出典: malware_response.md > 初動対応" in done.stdout
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": service.base_url}
    assert socjudge_here("ask", question, "--index-dir", built, **keys).returncode == 0
    assert (len(service.requests), service.judge_calls) == (1, 0)


def test_asking_needs_no_write_permission_once_the_index_is_built(tmp_path: Path) -> None:
    assert socjudge_here("index", "--index-dir", str(tmp_path / "index")).returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "index").iterdir()}
    assert socjudge_here("ask", "端末を隔離する手順は？", "--index-dir", str(tmp_path / "index")).returncode == 0
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "index").iterdir()} == before


def test_doctor_names_what_to_mend_in_a_dataset_and_what_is_weak(tmp_path: Path) -> None:
    fine = socjudge_here("doctor", SOCJUDGE_LANG="ja")
    assert fine.returncode == 0
    path = tmp_path / "own.json"
    question = {"id": 1, "category": "正常系", "question": "端末の隔離は？", "expected_keypoints": ["隔離"]}
    path.write_text(json.dumps([question], ensure_ascii=False), encoding="utf-8")
    weak = socjudge_here("doctor", "--dataset", str(path), SOCJUDGE_LANG="ja")
    assert (weak.returncode, "参考: own.json\n    id 1: 期待されるキーポイントが1個です" in weak.stdout) == (0, True)
    path.write_text(json.dumps([question, {**question, "id": 2, "question": ""}]), encoding="utf-8")
    wrong = socjudge_here("doctor", "--dataset", str(path), SOCJUDGE_LANG="ja")
    assert wrong.returncode == 1
    assert "2番目: question が '' です" in wrong.stdout


def test_compare_says_whether_a_change_helped_and_what_it_was() -> None:
    folder = ROOT / "eval" / "examples" / "series"
    names = [path.name for path in sorted(folder.glob("*.json.gz"))[2:5]]
    more, less = (
        socjudge_here("compare", *pair, "--logs-dir", str(folder), SOCJUDGE_LANG="ja")
        for pair in (names[:2], names[1:])
    )
    assert more.returncode == less.returncode == 0, more.stderr + less.stderr
    told = more.stdout.splitlines()
    assert told[0].startswith("平均は") and "偶然では説明しにくい差です" in told[0]
    assert told[1].startswith("合格に変わった質問") and told[2].startswith("不合格に変わった質問")
    assert "手順書: 追加 network_blocking.md" in more.stdout
    told = less.stdout.splitlines()
    assert told[1] == "合否が変わった質問はありません" and "偶然の差かもしれません" in told[0]
    assert "変更した条件: 抜粋の数 k: 3→1" in less.stdout
    wrong = socjudge_here("compare", names[0], "no.json", "--logs-dir", str(folder), SOCJUDGE_LANG="ja")
    assert wrong.returncode == 2 and "no.json: そのような評価ログはありません" in wrong.stderr


def test_ask_on_a_console_that_lacks_a_symbol_loads_only_what_it_uses(built: str) -> None:
    asked = ["ask", "端末を今すぐ再起動してよいですか", "--model", "offline", "--index-dir", built]
    done = subprocess.run(
        [sys.executable, "-m", "socjudge", *asked], capture_output=True, cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "cp932", "PYTHONPROFILEIMPORTTIME": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "?? 危険操作" in done.stdout.decode("cp932")
    loaded = set(re.findall(rb"^import time:.*\| +(\w+)\r?$", done.stderr, re.MULTILINE))
    assert b"faiss" in loaded
    assert not loaded & {b"genai_prices", b"openai", b"pandas", b"scipy", b"matplotlib", b"langchain_core"}


def test_index_says_what_it_embedded(tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir()
    (runbooks / "a.md").write_text("# 手順\n## 初動\n端末を隔離する。\n", encoding="utf-8")
    arguments = ["index", "--runbooks", str(runbooks), "--index-dir", str(tmp_path / "index")]
    assert "embedded now: 0" not in socjudge_here(*arguments).stdout
    assert re.match("1 passages of runbooks in .*; embedded now: 0\n", socjudge_here(*arguments).stdout)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["run", "--dataset", "nothing.json"], "nothing.json: there is no such file"),
        (["run", "--runbooks", "nowhere"], "nowhere: no such runbooks folder"),
        (["run", "--judge-model", "gpt-4o-mini", "-y"], "OPENAI_API_KEY is not set"),
        (["run", "--judge-model", "offlin", "-y"], "or use the model 'offline'"),
        (["run", "--judge-prompt", "nothing"], "no prompt 'nothing'"),
        (["run", "--assistant-prompt", "nothing"], "no prompt 'nothing'"),
        (["ask", "隔離の手順は？", "--assistant-prompt", "nothing"], "no prompt 'nothing'"),
        (["rejudge", "--log", "nothing.json"], "nothing.json: no such log"),
        (["ask", "  "], "the question is empty"),
    ],
)
def test_errors_say_what_to_do_and_exit_with_2(tmp_path: Path, arguments: list[str], why: str) -> None:
    place = [] if arguments[0] == "rejudge" else ["--index-dir", str(tmp_path / "index")]
    done = socjudge_here(*arguments, *place)
    assert done.returncode == 2, done
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [[], ["index"], ["ask"], ["run"], ["rejudge"]])
def test_help_teaches(command: list[str]) -> None:
    done = socjudge(*command, "--help")
    assert done.returncode == 0
    assert "--help" in done.stdout
    assert len(done.stdout) > 300


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("ask", "Missing argument 'question'."),
        ("runn", "No such command 'runn'. Did you mean 'run'?"),
        ("run --freshly", "No such option: --freshly (Possible options: --fresh)"),
        ("ask a b c", "Got unexpected extra argument(s) (b c)"),
        ("run --k 0", "Invalid value for '--k': Input should be greater than or equal to 1"),
    ],
)
def test_what_was_typed_wrong_is_said_with_the_nearest_that_exists(typed: str, told: str) -> None:
    done = socjudge_here(*typed.split())
    assert done.returncode == 2
    assert f"Error: {told}\n" in done.stderr


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (
            "ask 初動は？ --answers bot.py:answer --model offline",
            "--model: without effect on the answers of bot.py:answer",
        ),
        ("run --answers {bot}:answer --k 3 --assistant-prompt assistant-3", "--assistant-prompt, --k: "),
        ("certify --check --labels labels --budget 0.1", "--labels, --budget: "),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused_by_its_name(tmp_path: Path, typed: str, named: str) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text("def answer(question):\n    return '端末を隔離する。'\n", encoding="utf-8")
    done = CliRunner().invoke(app, typed.format(bot=bot).split())
    assert done.exit_code == 2 and f"socjudge: {named}" in done.stderr


@pytest.mark.parametrize("lang", ["ja", "en"])
def test_what_each_command_and_option_does_is_said_whole_and_in_the_language_asked_for(lang: str) -> None:
    def commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        yield names
        for name, below in getattr(command, "commands", {}).items():
            yield from commands(below, (*names, name))

    code = (
        "import sys; from socjudge.cli import app; "
        "c = app.typer.main.get_command(app.app); "
        "[print(c(names.split(), prog_name='socjudge', standalone_mode=False) or '') for names in sys.argv[1:]]"
    )
    pages = [" ".join((*names, "--help")) for names in commands(typer.main.get_command(app))]
    told = subprocess.run(
        [sys.executable, "-c", code, *pages], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True,
        env={**os.environ, "SOCJUDGE_LANG": lang},
    ).stdout  # fmt: skip
    assert told.count("Usage: ") == told.count("Options:") == len(pages)
    japanese = re.compile("[ぁ-んァ-ヶ一-龠]")
    ours = re.compile(
        r"  (?!--help |--install-completion|--show-completion)\S.*\S  +\S"
    )  # an option or a command, its text
    texts = [line for line in told.splitlines() if ours.match(line)]
    assert len(texts) > 60 and "..." not in told.replace("[ARGS]...", "")
    assert [line for line in texts if bool(japanese.search(line)) != (lang == "ja")] == []
