"""Every reader of what others wrote, each as a function of bytes, and what must hold whatever these are.

A reader gives a result or one of our errors, in bounded time, and what it gave holds to the laws below. Used with the
inputs kept in tests/data/fuzz.zip (tests/project/test_files_of_others.py) and by the fuzzer (benchmarks/fuzz.py)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
import shutil
import tempfile
import threading
import unicodedata
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import orjson

from socjudge import (
    AssistantAnswer,
    EvalQuestion,
    EvaluationRun,
    RunOptions,
    RunStopped,
    SocJudgeError,
    build_index,
    load_eval_dataset,
    load_index,
    load_prompt,
    load_run,
    run_evaluation_suite,
    unfinished_runs,
)
from socjudge.answering.dataset import dataset_notes
from socjudge.certify import load_certificate, save_certificate
from socjudge.certify.certificate import Binding, _seal, certificate_of
from socjudge.certify.changes import find_change
from socjudge.certify.from_people import read_damaged
from socjudge.certify.subjects import find_subjects
from socjudge.flags.prohibitions import load_prohibitions
from socjudge.history import check_logs, load_labels
from socjudge.history.labels import Label, append_label, read_rater
from socjudge.history.reading import read_logs, run_rows
from socjudge.judging.replies import parse_judgement
from socjudge.prompts.templates import check_prompt, fill
from socjudge.records import Completion, ModelRequest, Rubric, Usage
from socjudge.runbooks.companions import COMPANION_NAMES, add_questions, load_organisation, load_synonyms
from socjudge.runbooks.reading import load_runbooks
from socjudge.runs.logs import save_evaluation_results, to_json
from support.service import CRITERIA, judgement

INPUTS = zipfile.Path(Path(__file__).parents[1] / "data" / "fuzz.zip")  # a folder for each reader
LOG = "judge_eval_20260101_090000.json"
QUESTIONS = [EvalQuestion(i, "正常系", f"質問{i}", ("要点",)) for i in range(2)]
ANSWERS = [AssistantAnswer(q.question, f"回答{q.id} [出典: a.md]", "文脈") for q in QUESTIONS]
SHA = "a" * 64


def read_reply(data: bytes) -> None:
    """A judge's reply and, behind a NUL, the answer that it was shown."""
    reply, _, answer = data.decode("utf-8", "replace").partition("\0")
    found = parse_judgement(reply, CRITERIA, quoted=[answer])
    assert list(found.scores) == CRITERIA
    # Nothing is made up: a score stands in the reply, in digits, as it is or before it was rounded down.
    spelt = {
        math.floor(float(number))
        for number in re.findall(r"\d{1,9}(?:\.\d{1,9})?", unicodedata.normalize("NFKC", reply))
    }
    spelt |= {math.floor(float(number)) for number in re.findall(r"\d+(?:\.\d+)?[eE][+-]?\d{1,2}", reply)}
    assert all(type(score) is int and 0 <= score <= 100 and score in spelt for score in found.scores.values())
    assert (
        parse_judgement(json.dumps({"scores": found.scores}), CRITERIA).scores == found.scores
        or max(found.scores.values()) <= 10
    )  # what was read is read again


def read_log(data: bytes) -> None:
    """A log, alone and in a history, which agree; and what is saved again is what was read."""
    with folder() as logs:
        path = logs / LOG
        path.write_bytes(data)
        found = [read_logs([path], text=text) for text in (False, True)]
        assert len(found[0]) == len(found[1])
        try:
            alone = run_rows(load_run(path))
        except SocJudgeError:
            assert not found[0] or b"\\u" in data or not data.isascii(), "the history takes what load_run refuses"
            return
        assert found[0], "the history refuses what load_run takes"
        for (mine,), without in zip(found, ({"texts", "rationale"}, set[str]()), strict=True):
            for one, other in [(mine, alone), *zip(mine.answers, alone.answers, strict=True)]:
                for column in {*one._fields} - {*without, "log", "answers"}:
                    # By their looks: NaN is no NaN.
                    assert repr(getattr(one, column)) == repr(getattr(other, column)), column
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_logs(logs)
        run = load_run(path)
        saved = load_run(save_evaluation_results(run, logs / "again"))
        assert [to_json(asdict(result)) for result in saved.results] == [to_json(asdict(r)) for r in run.results]


class Judge:
    """Gives 80 points and counts; stop: set at the first call."""

    name = "scripted"

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.calls, self.stop = 0, stop

    def complete(self, request: ModelRequest) -> Completion:
        self.calls += 1
        if self.stop is not None:
            self.stop.set()
        return Completion(judgement(80), self.name, Usage(1, 1000, 100, 0.001))


def judged(logs: Path, stop: threading.Event | None = None) -> tuple[EvaluationRun, int]:
    judge = Judge(stop)
    run = run_evaluation_suite(
        QUESTIONS,
        answers=ANSWERS,
        judge_model=judge,
        logs_dir=logs,
        progress=False,
        options=RunOptions(max_concurrency=1, stop=stop),
    )
    return run, judge.calls


@functools.cache
def journal_parts() -> tuple[bytes, dict[str, object]]:
    """A journal of the run above with its first judgement, and the run in its header."""
    with folder() as logs:
        with contextlib.suppress(RunStopped):
            judged(logs, threading.Event())
        (path,) = logs.glob("*.partial.jsonl")
        lines = path.read_bytes()
        return lines, json.loads(lines.splitlines()[0])["run"]


def read_journal(data: bytes) -> None:
    """A journal, of a run that is started then if its key is the word KEY: listed, read, checked and taken up."""
    with folder() as logs:
        path = logs / "judge_eval_20260101_090000.partial.jsonl"
        first, end, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError):
            header = json.loads(first)
            if isinstance(header, dict) and header.get("key") == "KEY" and isinstance(header.get("run"), dict):
                first = json.dumps(header | {"run": journal_parts()[1]}, ensure_ascii=False).encode()
        path.write_bytes(first + end + rest)
        refused: list[SocJudgeError] = []
        for read in (unfinished_runs, check_logs, lambda logs: load_run(path)):
            try:
                read(logs)
            except SocJudgeError as error:
                refused.append(error)
        run, calls = judged(logs)
        assert [result.evaluation.status for result in run.results] == ["ok"] * 2 or calls < 2
        assert run.log_path is not None
        assert len(load_run(run.log_path).results) == 2
        if refused:
            raise refused[0]


def read_dataset(data: bytes) -> None:
    """A dataset: what is written again is what was read."""
    with folder() as work:
        (work / "dataset.json").write_bytes(data)
        questions = load_eval_dataset(work / "dataset.json")
        dataset_notes(questions)
        (work / "again.json").write_text(json.dumps(list(map(asdict, questions))), "utf-8")
        assert load_eval_dataset(work / "again.json") == questions
        assert len({str(question.id) for question in questions}) == len(questions) > 0


def read_labels(data: bytes) -> None:
    """A file of somebody's marks: a new mark stands behind the others, which stay."""
    with folder() as labels:
        path = labels / "sato.jsonl"
        path.write_bytes(data)
        before = read_rater(path).scores
        frame = load_labels(labels)
        assert len(frame) == sum(len(mark.scores) for mark in before.values())
        assert frame["score"].between(0, 100).all()
        mark = Label(7, SHA, "run", dict.fromkeys(CRITERIA, 75), "", True, "2026-01-31T09:00:00+09:00", 1.0)
        append_label("sato", mark, labels)
        after = dict(read_rater(path).scores)
        assert after.pop(mark.key) == mark
        assert after == {key: value for key, value in before.items() if key != mark.key}


def read_label_table(data: bytes) -> None:
    """People's marks from a spreadsheet: scores within 0 and 100, and saved again they are the same."""
    with folder() as work:
        (work / "marks.csv").write_bytes(data)
        frame = load_labels(work / "marks.csv")
        assert frame["score"].between(0, 100).all()
        frame.to_csv(work / "again.csv", index=False)
        again = load_labels(work / "again.csv")
        assert (
            again[["rater", "criterion", "score"]]
            .astype(str)
            .equals(frame[["rater", "criterion", "score"]].astype(str))
        )


def read_certificate(data: bytes) -> None:
    """A certificate, sealed anew where it can be: its words are ours and one for each criterion; saved it is the same."""
    with contextlib.suppress(ValueError, TypeError, RecursionError, AttributeError):
        value = orjson.loads(data)
        value.pop("sha256", None)
        data = orjson.dumps({**value, "sha256": _seal(value)})
    with folder() as work:
        path = work / "c.json"
        path.write_bytes(data)
        binding = Binding("offline", "", "0" * 64, tuple(CRITERIA), "0.1.0")
        assert certificate_of(binding, "2026-11-24T09:00:00+09:00", folder=work)
        made = load_certificate(path)
        assert tuple(made.words) == made.binding.criteria != ()
        assert set(made.words.values()) <= {"信頼できる", "条件つき", "信頼できない", "分からない"}
        assert repr(made)
        saved = load_certificate(save_certificate(made, work / "again"))
        assert (saved.binding, saved.verdicts, saved.tables) == (made.binding, made.verdicts, made.tables)
        assert saved.path is not None and saved.path.parent == work / "again"


def read_damages(data: bytes) -> None:
    """A file of answers that somebody broke: each has a good one beside it and another text, and may fall in one criterion."""
    with folder() as work:
        (work / "own.jsonl").write_bytes(data)
        good, cases = read_damaged(
            work / "own.jsonl", find_subjects(list(zip(QUESTIONS, ANSWERS, strict=True))), Rubric().criteria
        )
        whole = {subject.question.id: subject.answer.answer for subject in good}
        assert len(whole) == len(good) <= len(cases) == len({case.id for case in cases})
        assert {case.question_id for case in cases} == set(whole)
        for case in cases:
            assert case.subject.answer.answer != whole[case.question_id]
            assert sum(find_change(case.name).expected(criterion) == "falls" for criterion in CRITERIA) == 1


def read_prompt(data: bytes) -> None:
    """A prompt file, as both kinds; it is filled in one pass."""
    with folder() as work:
        path = work / "own.txt"
        path.write_bytes(data)
        prompt = load_prompt(path)
        refused: list[SocJudgeError] = []
        for kind in ("judge", "assistant"):
            try:
                check_prompt(prompt, kind, Rubric())  # type: ignore[arg-type]
            except SocJudgeError as error:
                refused.append(error)
        names = ["question", "answer", "context", "flags", "expected_keypoints"]
        assert fill(prompt.text, {name: f"{{{name}}}" for name in names}) == prompt.text
        if refused:
            raise refused[0]


@functools.cache
def small_index() -> dict[str, bytes]:
    """The three files of an index of one runbook."""
    with folder() as work:
        (work / "runbooks").mkdir()
        (work / "runbooks" / "a.md").write_text(
            "# 隔離\n\n## 初動\n\n端末を隔離し、当番に連絡する。\n", encoding="utf-8"
        )
        (work / "runbooks" / "synonyms.json").write_text('{"切り離す": ["隔離"]}', encoding="utf-8")
        build_index(work / "runbooks", index_dir=work / "index")
        return {path.name: path.read_bytes() for path in sorted((work / "index").iterdir())}


def read_index(data: bytes) -> None:
    """A line that names one of the three files of an index, and what stands in it; its checksums are made to fit."""
    name, _, content = data.partition(b"\n")
    files = dict(small_index())
    which = sorted(files)[name[0] % 3 if name else 0]
    files[which] = content
    try:
        manifest = json.loads(files["manifest.json"])
        for other in ("passages.jsonl", "vectors.npy"):
            if manifest["sha256"][other] is not None:
                manifest["sha256"][other] = hashlib.sha256(files[other]).hexdigest()
        del manifest["sha256_of_this"]
        text = json.dumps(manifest, ensure_ascii=False, sort_keys=True).encode()
        manifest["sha256_of_this"] = hashlib.sha256(text).hexdigest()
        files["manifest.json"] = json.dumps(manifest, ensure_ascii=False).encode()
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        pass
    with folder() as work:
        for each, raw in files.items():
            (work / each).write_bytes(raw)
        index = load_index(work)
        found = index.search("端末を切り離すには", k=3)
        assert len(found) <= min(3, len(index))
        assert all(isinstance(passage.text, str) for passage in found)


def read_runbook(data: bytes) -> None:
    """A line with the name of a runbook or of a file beside them, and what stands in it; no text is lost."""
    name, _, content = data.partition(b"\n")
    names = ("a.md", "a.txt", "a.html", *COMPANION_NAMES)
    which = names[name[0] % len(names) if name else 0]
    with folder() as work:
        (work / "b.md").write_text("# 隔離\n\n## 初動\n\n端末を隔離し、当番に連絡する。\n", encoding="utf-8")
        (work / which).write_bytes(content)
        books = load_runbooks(work)
        add_questions(books, work)
        load_synonyms(work)
        load_organisation(work)
        load_prohibitions(SimpleNamespace(runbooks=work, passages=[]))  # type: ignore[arg-type]
        if which == "a.txt":
            try:
                text = content.decode("utf-8-sig")
            except UnicodeDecodeError:
                return
            if not text.startswith("---") and "\0" not in text and "\x1b" not in text:
                kept = "".join(chunk.text for book in books for chunk in book.chunks)
                body = [line for line in re.split(r"\r\n?|\n", text) if not re.match(r"\s*[■◆●【]", line)]
                assert set("".join(body).split()) == set() or set("".join("".join(body).split())) <= set(kept)


@functools.cache
def _root() -> Path:
    fast = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="socjudge-readers-", dir=fast if fast.is_dir() else None))


class folder:
    """An empty folder that goes away."""

    def __enter__(self) -> Path:
        self.path = Path(tempfile.mkdtemp(dir=_root()))
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


READERS: dict[str, Callable[[bytes], None]] = {
    "log": read_log,
    "runbook": read_runbook,
    "index": read_index,
    "journal": read_journal,
    "reply": read_reply,
    "dataset": read_dataset,
    "labels": read_labels,
    "label_table": read_label_table,
    "prompt": read_prompt,
    "certificate": read_certificate,
    "damages": read_damages,
}


def check(reader: str, data: bytes) -> None:
    """AssertionError, or whatever else it was, if the reader does not take the input as it should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(SocJudgeError):
            READERS[reader](data)
