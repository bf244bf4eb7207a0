"""Fixtures: the bundled runbooks' index, built once, and a model service on loopback."""

from __future__ import annotations

import functools
import gc
import os
import re
import ssl
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from support.service import KEY, Service, is_judge_call, judgement, sell_on_loopback, serving

from socjudge import AssistantAnswer, EvalQuestion, build_index, constants, load_eval_dataset, settings
from socjudge.embedded import judge as embedded_judge
from socjudge.models import gate, pacing, prices
from socjudge.runbooks import embeddings
from socjudge.runbooks.index import BUNDLED_INDEX_DIR, RunbookIndex

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
OTHERS = DATA / "others"  # of other projects: see its SOURCE.md
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["SOCJUDGE_LANG"] = (
    "en"  # most tests match the English of a message; tests/base/test_messages.py holds the Japanese to it
)
ssl.create_default_context = functools.cache(ssl.create_default_context)  # 20 ms, for each of 400 models
# No test depends on the machine's speed, or on luck; `make fuzz` looks further each time.
hypothesis_settings.register_profile("socjudge", deadline=None, derandomize="SOCJUDGE_EXAMPLES" not in os.environ)
hypothesis_settings.load_profile("socjudge")
ANSWER = "1. SOC当番は端末を隔離します。 [出典: malware_response.md > 初動対応]"


# About how many seconds of a processor a test with such a mark takes.
SECONDS = {"browser": 12, "cluster": 4, "kernel": 6, "slow": 2}


EVERY_CASE = "SOCJUDGE_EXAMPLES" in os.environ  # as `make fuzz` does


def pytest_sessionstart(session: pytest.Session) -> None:
    """Embed the bundled runbooks once, where `make setup` has not, before any worker asks for them."""
    if not BUNDLED_INDEX_DIR.is_dir():
        build_index(ROOT / "eval" / "runbooks", index_dir=BUNDLED_INDEX_DIR)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not EVERY_CASE:
        _take_few(config, items)
    _longest_first(items)


def _take_few(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked few(n), n of its cases, evenly over all of them; `make fuzz` runs the others too."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    left_out = set[pytest.Item]()
    for same in cases.values():
        mark = same[0].get_closest_marker("few")
        assert mark is not None
        kept = {round(n * (len(same) - 1) / max(mark.args[0] - 1, 1)) for n in range(mark.args[0])}
        left_out |= {item for n, item in enumerate(same) if n not in kept}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _longest_first(items: list[pytest.Item]) -> None:
    """The files that take longest begin first, and in each its long tests, so that the workers end together (make test
    hands out file by file)."""
    seconds = [max((SECONDS.get(mark.name, 0.0) for mark in item.iter_markers()), default=0.0) for item in items]
    files = Counter[Path]()
    for item, each in zip(items, seconds, strict=True):
        files[item.path] += each or (0.5 if item.path.suffix == ".ipynb" else 0.05)  # a cell, or a quick test
    order = sorted(range(len(items)), key=lambda n: (-files[items[n].path], items[n].path, -seconds[n]))
    items[:] = [items[n] for n in order]


def pytest_collection_finish() -> None:
    """The garbage collector leaves out what the libraries made when they were imported: a seventh of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_service_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees a key of the machine, and no test waits for a backoff."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pacing, "BACKOFF_S", 0.001)
    monkeypatch.setattr(gate, "PATIENCE_S", 0.0)


@pytest.fixture
def real_addresses() -> None:
    """The service on loopback is what it is: an address that proves no price."""


@pytest.fixture(autouse=True)
def _loopback_sells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service on loopback stands in for OpenAI's own, at its list prices."""
    if "real_addresses" not in request.fixturenames:
        monkeypatch.setattr(prices, "door_of", sell_on_loopback)


VIEWS = (
    "base", "charts", "history", "report", "stats", "certify/test_certificate", "panels/test_explorer",
    "panels/test_panel_history", "panels/test_panel_labels", "panels/test_history_browser", "panels/test_labels_browser",
)  # fmt: skip


BEGIN_RUNS = (
    "answering.dataset",
    "certify.issue",
    "prompts.templates",
    "runs.suite",
)


@pytest.fixture(autouse=True)
def _nonsense_today(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at runs, or at their frames, is tested while the project has set what fits none of them. Where the test makes
    a run too, what begins one still sees the project as it was, and nothing else does."""
    if not request.path.relative_to(ROOT / "tests").as_posix().startswith(VIEWS):
        return
    if {"service", "questions", "makes_runs"} & {*request.fixturenames}:
        project = settings.open_project()
        for module in BEGIN_RUNS:
            monkeypatch.setattr(f"socjudge.{module}.open_project", lambda: project)
    confuse_settings(monkeypatch)


# An option, an argument or a command: what is typed, and nobody can click.
TYPED = re.compile(
    r"--[a-z]|\b(?!src=|href=|on\w+=)[a-z_]{2,}=|\bsocjudge [a-z]+|\b(fresh|judge_model|judge_prompt|judge_repeats|answer_repeats|max_cost_usd|index_dir)\b"
)


@pytest.fixture(autouse=True)
def _a_panel_speaks_of_what_is_clicked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No panel shows what only somebody at a command line, or who writes Python, can follow."""
    if request.path.parent.name != "panels":
        yield
        return
    import ipywidgets as widgets

    shown = list[str]()
    make = widgets.HTML.__init__

    def watched(self: Any, *args: Any, **values: Any) -> None:
        make(self, *args, **values)
        shown.append(self.value)
        self.observe(lambda change: shown.append(change["new"]), "value")

    monkeypatch.setattr(widgets.HTML, "__init__", watched)
    yield
    folded = re.compile("<style>.*?</style>|<details.*</details>", re.S)  # styles, and what a model or a person wrote
    assert not [found for html in shown if (found := TYPED.search(text(folded.sub("", html))))]


@pytest.fixture
def makes_runs() -> None:
    """The test makes a run, or names its judge."""


def confuse_settings(patch: pytest.MonkeyPatch) -> None:
    """Set what a project may set of its rubric and its categories to what fits no run."""
    patch.setattr(constants, "JUDGE_EVALUATION_CRITERIA", ["でたらめ"])
    patch.setattr(constants, "JUDGE_PASS_THRESHOLD", 3.0)
    patch.setattr(constants, "JUDGE_PASS_RATE", 0.01)
    patch.setattr(constants, "QUESTION_CATEGORIES", ["でたらめ系"])


@pytest.fixture
def in_japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested as an analyst reads it."""
    monkeypatch.setenv("SOCJUDGE_LANG", "ja")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have their charts' places and texts, but nothing is drawn: that takes four fifths of a report."""
    monkeypatch.setattr("socjudge.report.contents.chart_url", lambda plot, frame: "data:,")


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> RunbookIndex:
    return build_index(index_dir=tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def questions() -> list[EvalQuestion]:
    return load_eval_dataset()


class _Remembering:
    """The default embedder's model, but each text embedded once: runs of the same questions share nearly all of theirs."""

    _vectors: ClassVar[dict[str, Any]] = {}

    def encode(self, texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, _load_use().encode(new), strict=True))
        return np.array([self._vectors[text] for text in texts])


_load_use = embeddings._load_use
embeddings._load_use = functools.cache(_Remembering)


_judge = embedded_judge.judge


@functools.cache
def _judge_once(question: EvalQuestion, criteria: tuple[str, ...], *read: Any) -> dict[str, Any]:
    return _judge(question, AssistantAnswer(question.question, *read), criteria)


def _remembering_judge(question: EvalQuestion, answer: AssistantAnswer, criteria: Sequence[str]) -> dict[str, Any]:
    """The embedded judge, but what it reads of an answer is marked once: most runs are of the same ten answers."""
    return _judge_once(question, tuple(criteria), answer.answer, answer.context, answer.passages, answer.flags)


embedded_judge.judge = _remembering_judge


def unpack_series(folder: Path) -> Path:
    """Make a folder with the eight logs of v0_1/series in earlier_versions.zip."""
    folder.mkdir()
    for log in zipfile.Path(DATA / "earlier_versions.zip", "v0_1/series/").iterdir():
        (folder / log.name).write_bytes(log.read_bytes())
    return folder


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A folder `logs` with eight runs of version 0.1: seven settings, and the last one's answers judged again."""
    return unpack_series(tmp_path / "logs")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that answers questions and gives 80 points, with the environment pointing to it."""
    with serving(lambda request: judgement(80) if is_judge_call(request) else ANSWER) as running:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


def text(markup: str) -> str:
    """What HTML shows."""
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", markup, flags=re.DOTALL)
