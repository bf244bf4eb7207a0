"""Runs over assistants of somebody's own: asked once, kept at once, told apart, and never marked down for being broken."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import socjudge_here
from support.own_bot import Bot, Said, azure, chat, dify, page_tables, plain, running
from support.runs import with_options
from support.service import Service, judgement, serving

import socjudge as sj
from socjudge import constants, settings
from socjudge.errors import ConfigError, ProviderError, RunStopped
from socjudge.records import EvalQuestion
from socjudge.runs.given_answers import open_answers
from socjudge.runs.identity import Identity
from socjudge.runs.journal import open_journal
from socjudge.runs.plan import plan_answers
from socjudge.runs.unfinished import UnfinishedRun, find_journal

QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}の初動は。", ("隔離",)) for i in range(1, 13)]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    with serving(judgement(80)) as service:
        monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
        yield service


def run(answers: Any, logs: Path, questions: Any = QUESTIONS, **options: Any) -> Any:
    return sj.run_evaluation_suite(
        questions, answers=answers, judge_model="judge-1", logs_dir=logs, progress=False, **with_options(**options)
    )


def bot_1(question: str) -> dict[str, Any]:
    return {"answer": f"{question}隔離します[1]。", "contexts": ["端末を隔離する。"], "model": "m-1"}


def bot_2(question: str) -> dict[str, Any]:
    return {"answer": f"{question}隔離します[1]。", "contexts": ["端末を隔離する。"], "model": "m-1"}


def test_a_function_is_judged_under_its_own_name(judge: Service, tmp_path: Path) -> None:
    found = run(sj.Assistant(bot_1, name="our-bot", version="3.2"), tmp_path)
    info = sj.load_run(found.log_path).info
    assert (info.assistant_model, info.assistant_version, info.assistant_model_resolved) == ("our-bot", "3.2", "m-1")
    assert info.assistant_usage.calls == len(QUESTIONS)
    assert info.judge_usage.calls == len(QUESTIONS) == len(judge.requests)
    assert found.results[0].answer.answer.endswith("隔離します[1]。")  # as it was given; the judge saw our form
    assert "隔離します[出典: 資料1]" in judge.requests[0]["messages"][0]["content"]


@pytest.mark.slow
def test_two_assistants_of_equal_answers_are_told_apart(judge: Service, tmp_path: Path) -> None:
    runs = [run(bot, tmp_path / str(i)) for i, bot in enumerate((bot_1, bot_2))]
    frames = [sj.load_runs(tmp_path / str(i)) for i in range(2)]
    assert runs[0].info.assistant_settings != runs[1].info.assistant_settings
    assert [frame.assistant_model[0] for frame in frames] == ["bot_1", "bot_2"]
    assert "bot_1" in str(sj.compare_runs(*runs))


def test_stored_answers_of_all_forms_are_judged(judge: Service, tmp_path: Path) -> None:
    two = QUESTIONS[:2]
    file = tmp_path / "answers.csv"
    file.write_text("question_id,answer\n1,隔離します。\n2,報告します。\n", encoding="cp932")
    given = ["隔離します。", {"answer": "報告します。"}]
    for answers in (given, str(file), file):
        found = run(answers, tmp_path / "logs", two)
        assert [result.answer.answer for result in found.results] == ["隔離します。", "報告します。"]
    with pytest.raises(ConfigError, match="number 2"):
        run(["x", 3], tmp_path, two)
    with pytest.raises(ConfigError, match="no-such"):
        run("no-such.csv", tmp_path, two)


def test_other_stored_answers_are_another_assistant(judge: Service, tmp_path: Path) -> None:
    first, second = (run([text], tmp_path, QUESTIONS[:1]) for text in ("隔離します。", "放置します。"))
    assert first.info.assistant_settings != second.info.assistant_settings


@pytest.mark.parametrize("asked", [1, 3])
def test_what_an_assistant_does_not_answer_is_no_mark(judge: Service, tmp_path: Path, asked: int) -> None:
    def broken(question: str) -> str:
        if question.startswith(("質問3", "質問7")):
            raise ValueError("no such index")
        return "隔離します。"

    found = run(sj.Assistant(broken, name="b", version="1"), tmp_path, judge_repeats=asked)
    failed = [result for result in found.results if result.evaluation.status == "failed"]
    assert {result.question.id for result in failed} == {3, 7}
    assert all("no such index" in result.evaluation.error for result in failed)
    assert len(judge.requests) == 10 * asked
    assert found.summary.n_unscored == 2 * asked


def test_a_dead_assistant_ends_the_run_which_is_taken_up(judge: Service, tmp_path: Path) -> None:
    calls: list[str] = []
    dead = threading.Event()
    dead.set()

    def moody(question: str) -> str:
        calls.append(question)
        if dead.is_set():
            raise ConnectionError("down")
        return "隔離します。"

    bot = sj.Assistant(moody, name="b", version="1")
    with pytest.raises(ProviderError, match="down"):
        run(bot, tmp_path, max_failures=10)
    assert len(calls) == 10
    assert not judge.requests
    dead.clear()
    found = run(bot, tmp_path)
    assert found.summary.n_unscored == 0
    assert found.info.sessions == 2


def test_an_assistant_that_never_answers_leaves_no_log(judge: Service, tmp_path: Path) -> None:
    with pytest.raises(ProviderError):
        run(lambda question: "", tmp_path, QUESTIONS[:2])
    assert not list(tmp_path.glob("judge_eval_*.json"))


def test_answers_are_kept_before_they_are_judged_and_never_asked_for_twice(judge: Service, tmp_path: Path) -> None:
    calls: list[str] = []
    stop = threading.Event()

    def counting(question: str) -> str:
        calls.append(question)
        if len(calls) == 5:
            stop.set()
        return "隔離します。"

    bot = sj.Assistant(counting, name="b", version="1")
    with pytest.raises(RunStopped):
        run(bot, tmp_path, stop=stop)
    found = run(bot, tmp_path)
    assert sorted(calls) == sorted(question.question for question in QUESTIONS)
    assert found.summary.n_unscored == 0


def test_a_version_that_changes_stops_the_run_and_leaves_its_answers(judge: Service, tmp_path: Path) -> None:
    def reply(asked: Any) -> Said:
        return Said({"text": "隔離します。", "v": "1.0" if len(bot.asked) < 6 else "2.0"})

    bot: Bot
    with running(reply) as bot:
        table = {"url": bot.url, "body": {"q": "{question}"}, "answer": "text", "version": "path:v"}
        with pytest.raises(ConfigError, match=r"1\.0.*2\.0"):
            run(sj.Assistant(table, name="b"), tmp_path)
    (journal,) = tmp_path.glob("*.partial.jsonl")
    assert {answer.version for answer in UnfinishedRun(journal).answers.values()} == {"1.0"}


def test_a_run_of_a_version_is_not_gone_on_with_by_another(judge: Service, tmp_path: Path) -> None:
    """Also where the assistant tells it only with its answers."""
    stop = threading.Event()
    version = ["1"]

    def telling(question: str) -> dict[str, Any]:
        if question == QUESTIONS[4].question:
            stop.set()
        return {"answer": "隔離します。", "version": version[0]}

    bot = sj.Assistant(telling, name="b", version="declared")
    with pytest.raises(RunStopped):
        run(bot, tmp_path, stop=stop)
    version[0] = "2"
    with pytest.raises(ConfigError, match="from 1 to 2"):
        run(bot, tmp_path)


@pytest.mark.parametrize(("concurrency", "at_first"), [(None, 1), (3, 3)])
def test_an_assistant_is_asked_one_by_one_until_it_has_answered_unless_told_what_it_takes(
    judge: Service, tmp_path: Path, concurrency: int | None, at_first: int
) -> None:
    now, most_before, most = [0], [0], [0]
    answered = [False]

    async def slow(question: str) -> str:
        now[0] += 1
        most[0] = max(most[0], now[0])
        if not answered[0]:
            most_before[0] = max(most_before[0], now[0])
        await asyncio.sleep(0.2)  # calls begin at least 2 ms apart
        answered[0] = True
        now[0] -= 1
        return "隔離します。"

    run(sj.Assistant(slow, name="b", version="1", concurrency=concurrency), tmp_path)
    assert (most_before[0], most[0]) == (at_first, concurrency or 8)  # a run makes 8 at once


def test_another_judge_marks_the_answers_of_one_asking(judge: Service, tmp_path: Path) -> None:
    calls: list[str] = []

    def counting(question: str) -> str:
        calls.append(question)
        return "隔離します。"

    found = sj.run_evaluation_suite(
        QUESTIONS[:3], answers=counting, judge_model="judge-1", logs_dir=tmp_path, progress=False
    )
    again = sj.rejudge(found, judge_model="judge-2", logs_dir=tmp_path, progress=False)
    assert len(calls) == 3
    assert again.info.assistant_model == found.info.assistant_model == "counting"


CODE = "def ask(q, style='short'):\n    return q + '隔離します。'\n"
TOML = """[assistants.web]
url = "http://127.0.0.1:9/${BOT_ROOM}/ask?lang=ja"
headers = { Authorization = "Bearer ${BOT_KEY}", X-Mode = "fast", X-Tenant = "${BOT_TENANT}", X-Call = "${BOT_TOKEN}" }
body = { q = "{question}", index = "${BOT_INDEX}" }
answer = "reply.text"
contexts = "sources[*].body"
version = "1"
"""
HOW = '{"ask": "mybot.py:ask", "name": "code", "version": "1"}'
VARIABLES = {
    "BOT_ROOM": "soc",
    "BOT_INDEX": "runbooks-1",
    "BOT_TENANT": "a",
    "BOT_KEY": "key-0123456789",
    "BOT_TOKEN": "t-0123456789",
}
# What is changed, into what, and which word names it. "": the code of the bot; in capitals: a variable.
CHANGES = [
    ("web", "/ask", "/v2/ask", "url"),
    ("web", "127.0.0.1:9", "127.0.0.1:8", "url"),
    ("web", "?lang=ja", "?lang=en", "query"),
    ("web", "BOT_ROOM", "noc", "url"),
    ("web", "BOT_INDEX", "runbooks-2", "body"),
    ("web", 'q = "{question}"', 'query = "{question}"', "body"),
    ("web", 'q = "{question}"', 'q = "{question}", k = 5', "body"),
    ("web", 'q = "{question}"', 'q = "{question} 日本語で。"', "body"),
    ("web", '"fast"', '"slow"', "headers"),
    ("web", "BOT_TENANT", "b", "headers"),
    ("web", '"reply.text"', '"reply.short"', "answer"),
    ("web", "sources[*].body", "sources[*].text", "contexts"),
    ("web", 'body"\nversion', 'body"\nsources = "sources[*].name"\nversion', "sources"),
    ("web", 'version = "1"', 'version = "2"', "version of the assistant"),
    ("web", 'version = "1"', 'version = "1"\nmethod = "PUT"', "method"),
    ("code", "隔離します", "報告します", "code"),
    ("code", "return q", "q = q.strip()\n    return q", "code"),
    ("code", "style='short'", "style='long'", "code"),
    ("code", "mybot.py:ask", "mybot.py:other", "function"),
    ("code", '"version": "1"', '"version": "2"', "version of the assistant"),
    ("code", '"name": "code"', '"name": "bot"', "assistant is code there and bot here"),
]


@pytest.fixture
def own_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mybot.py").write_text(CODE + CODE.replace("ask", "other"), encoding="utf-8")
    (tmp_path / "socjudge.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "how.json").write_text(HOW, encoding="utf-8")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    before = settings.open_project().folder
    constants.use_project(tmp_path)
    yield tmp_path
    constants.use_project(before)


def _interrupted(name: str, logs: Path) -> Path:
    """The journal of a run that was stopped before its first call."""
    own = assign(name)
    open_journal(logs, own.info, total=1, fresh=True).close()
    (journal,) = logs.glob("*.partial.jsonl")
    return journal


def assign(name: str) -> Any:
    how = json.loads((constants.PROJECT_DIR / "how.json").read_text("utf-8"))
    own = sj.Assistant(**how) if name == "code" else name
    return plan_answers(
        QUESTIONS, index=None, answers=open_answers(own, QUESTIONS), assistant_model="auto", judge_model="judge-1", judge_prompt=None,
        assistant_prompt=None, rubric=sj.Rubric(), answer_repeats=1, judge_repeats=1, k=5,
    )  # fmt: skip


@pytest.mark.parametrize(("bot", "before", "after", "named"), CHANGES)
def test_whatever_changes_its_answers_takes_up_no_old_journal_and_is_named(
    judge: Service, own_project: Path, monkeypatch: pytest.MonkeyPatch, bot: str, before: str, after: str, named: str
) -> None:
    logs = own_project / "logs"
    logs.mkdir()
    journal = _interrupted(bot, logs)
    if before in VARIABLES:
        monkeypatch.setenv(before, after)
    for file in () if before in VARIABLES else map(own_project.joinpath, ("socjudge.toml", "mybot.py", "how.json")):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(before, after), encoding="utf-8")
        os.utime(file, ns=(1, 1))  # an editor's save within the clock's tick
    assert find_journal(logs, assign(bot).identity) is None
    said = "; ".join(assign(bot).identity.differences(Identity.of(UnfinishedRun(journal).run)))
    assert named in said
    # Nothing is named that is as it was.
    parts = ("url", "query", "body", "headers", "answer", "contexts", "sources", "method", "code", "function")
    assert not [part for part in parts if f"{part}=" in said and part != named]
    assert not judge.requests


def test_a_file_written_anew_another_key_and_how_it_is_called_take_the_journal_up(
    judge: Service, own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = own_project / "logs"
    logs.mkdir()
    journal = _interrupted("web", logs)
    for name in ("BOT_KEY", "BOT_TOKEN"):
        monkeypatch.setenv(name, "another-0123456789")
    lines = TOML.splitlines()
    text = "\n".join(["# mine", lines[0], "timeout_s = 9", "concurrency = 3", *reversed(lines[1:7]), "", *lines[7:]])
    text = text.replace('{ q = "{question}", index = "${BOT_INDEX}" }', '{ index="${BOT_INDEX}",q="{question}" }')
    (own_project / "socjudge.toml").write_text(text, encoding="utf-8")
    assert find_journal(logs, assign("web").identity) == journal


def _asked_question(asked: Any) -> str:
    """The question in the body that a service of any of the shapes was sent."""
    return asked.get("question") or asked.get("query") or asked["messages"][0]["content"]


# The last two are read as the page's: from a stream of events.
SHAPES = {"bot": plain, "dify": dify, "azure": azure, "dify-stream": dify, "chat-stream": chat}
STREAM = """[assistants.chat-stream]
url = "https://HOST"
headers = { Authorization = "Bearer ${BOT_KEY}" }
body = { messages = [{ role = "user", content = "{question}" }], stream = true }
answer = "choices[0].delta.content"
"""
KEYS = {
    "BOT_KEY": "bot-key-0123456789", "DIFY_API_KEY": "dify-key-0123456789",
    "AZURE_OPENAI_API_KEY": "azure-key-0123456789", "AZURE_SEARCH_KEY": "search-key-0123456789",
}  # fmt: skip


def table_of(shape: str, url: str) -> str:
    tables = page_tables(url) | {"chat-stream": STREAM.replace("https://HOST", url)}
    tables["dify-stream"] = tables["dify"].replace("blocking", "streaming")
    return re.sub(r"\bassistants\.[\w-]+", "assistants.bot", tables[shape])


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_killed_run_over_a_shaky_service_asks_for_each_answer_once(
    judge: Service, tmp_path: Path, shape: str
) -> None:
    """100 questions, 20 % HTTP 503, 5 % broken JSON, SIGKILL after 50 requests: counted at the service."""
    questions = [EvalQuestion(i, "正常系", f"質問{i}の初動は。", ("隔離",)) for i in range(100)]
    (tmp_path / "eval").mkdir()
    rows = [
        {"id": q.id, "category": q.category, "question": q.question, "expected_keypoints": list(q.expected_keypoints)}
        for q in questions
    ]
    (tmp_path / "eval" / "eval_dataset.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    answered: Counter[str] = Counter()
    fiftieth = threading.Event()
    said = SHAPES[shape]

    def reply(asked: Any) -> Said:
        question = _asked_question(asked)
        i = int(question.removeprefix("質問").partition("の")[0])
        if len(bot.asked) >= 50:
            fiftieth.set()
        if i % 5 == 0:
            return Said(f"busy {' '.join(KEYS.values())}", status=503)
        if i % 20 == 1:
            return Said('{"answer": ')
        answered[question] += 1
        return said(asked)

    with running(reply) as bot:
        (tmp_path / "socjudge.toml").write_text(table_of(shape, bot.url), encoding="utf-8")
        command = [
            sys.executable, "-m", "socjudge", "--project", str(tmp_path), "run", "--answers", "bot", "--judge-model",
            "judge-1", "--yes", "--quiet",
        ]  # fmt: skip
        environment = {**os.environ, **KEYS}
        first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert fiftieth.wait(60)
        first.kill()
        first.wait()
        (journal,) = (tmp_path / "logs").glob("*.partial.jsonl")
        kept = journal.read_text(encoding="utf-8")
        before = Counter(answered)
        done = socjudge_here(*command[3:], OPENAI_BASE_URL=judge.base_url, **KEYS)
    assert 0 < sum(before.values()) < 75, done.stderr
    (log,) = (tmp_path / "logs").glob("judge_eval_*.json")
    found = sj.load_run(log)
    failed = {r.question.id for r in found.results if r.evaluation.status == "failed"}
    assert failed == {i for i in range(100) if i % 5 == 0 or i % 20 == 1}
    causes = [r.evaluation.error for r in found.results if r.question.id in failed]
    assert (sum("503" in cause for cause in causes), sum("JSON" in cause for cause in causes)) == (20, 5)
    assert len(answered) == 75
    # Only what was on its way when the process was killed was asked for again: nobody was there to keep it.
    again = {question for question, count in answered.items() if count > 1}
    answers_kept = {question for question in answered if f'"question":"{question}"' in kept}
    assert len(again) <= 8
    assert len(answers_kept) >= 20
    assert not again & answers_kept
    assert found.info.sessions == 2
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert not [name for name, key in KEYS.items() if key in file.read_text("utf-8")], file
    assert not [key for key in KEYS.values() if key in done.stdout + done.stderr]
