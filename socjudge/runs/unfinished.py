"""Find the runs that were interrupted or are under way, by their journals (journal.py), and read these journals."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from .. import constants
from ..base.messages import os_reason, say
from ..base.pass_rule import run_rule
from ..base.showing import dollars, facts_html, money, one_line, shown_path
from ..base.storage import as_path
from ..base.verdict import summarise_results
from ..errors import ConfigError
from ..records import AssistantAnswer, EvaluationRun, RunInfo, Usage
from .identity import Identity
from .log_json import answer_from_dict, results_from_dicts, run_info_from_dict
from .logs import is_ours

SUFFIX = ".partial.jsonl"
FORMAT = 2  # of the journals that this version writes and resumes; those of 0.1 to 0.3 have 1
MOST_DIFFERENCES = 3  # a run that differs in more is another one, and nobody expects it to be resumed


@dataclass(frozen=True)
class UnfinishedRun:
    """Describe a journal whose run has no log yet."""

    path: Path
    run: RunInfo
    done: int  # judgements that have scores and will not be requested again
    total: int
    cost_usd: float | None  # of the replies; None if unknown
    unread: int = 0  # judgements whose replies could not be parsed, and that will be requested again
    spent_usd: float = 0.0  # the most that the run can have cost, as far as prices are known
    is_resumable: bool = True  # False: an earlier version wrote it; `load_run` reads it, to be saved as a log

    @property
    def identity(self) -> Identity:
        return Identity.of(self.run)

    def __repr__(self) -> str:
        unread = f" ({self.unread} unread)" if self.unread else ""
        unread += "" if self.is_resumable else " by an earlier version"
        how_far = f"{self.done} of {self.total} judged{unread}, {dollars(self.cost_usd)}"
        return f"<UnfinishedRun: {how_far}, judge {one_line(self.run.judge_model)}, {one_line(self.path, 120)}>"

    @property
    def unread_text(self) -> str:
        """Return how many replies could not be parsed, to be shown after a number of judgements such as "3 / 10"."""
        return say(" ({count} more could not be read)", count=self.unread) if self.unread else ""

    def _repr_html_(self) -> str:
        facts = {
            say("Judged"): f"{self.done} / {self.total}" + self.unread_text,
            "Judge": self.run.judge_model,
            say("Cost"): money(self.cost_usd),
            say("Started"): self.run.started_at,
            say("Record"): shown_path(self.path),
        }
        return facts_html(
            say(
                "Stopped run (begun again with the same settings it goes on)"
                if self.is_resumable
                else "Stopped run of an earlier version (this version cannot resume it)"
            ),
            facts,
        )


def unfinished_runs(logs_dir: Path | str | None = None) -> list[UnfinishedRun]:
    """List the runs of a log folder that were interrupted or are still running, the oldest first.

    The folder is that of the project's logs if left out. To resume a run, start the same run again; a run of an earlier
    version cannot be resumed (`is_resumable`). To drop a run, delete its journal (`path`). If a journal is damaged, the
    ConfigError names the journal and the line.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.unfinished_runs("logs")
    []
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    return [describe_journal(path) for path, _ in _journals(as_path(logs_dir))]


def describe_journal(path: Path) -> UnfinishedRun:
    """Describe the unfinished run that a journal belongs to: its info, its number of judgements, and its cost."""
    status: dict[tuple[int, int], str] = {}
    info, total, spending, written_as = RunInfo("", ""), 0, Spending(), FORMAT
    for _, line in read_lines(path):
        spending.add(line)
        if "row" in line:
            status[line["sample"], line["repeat"]] = line["row"]["evaluation"]["status"]
        elif "journal" in line:
            info, total = run_info_from_dict(line["run"], where=str(path)), line["total"]
            written_as = line["journal"]
    done, unread = (list(status.values()).count(each) for each in ("ok", "unparsable"))
    cost_usd = None if None in spending.paid else spending.known_usd
    return UnfinishedRun(path, info, done, total, cost_usd, unread, spending.spent_usd, written_as == FORMAT)


class Spending:
    """Add up what the lines of a journal say that the run has cost."""

    def __init__(self) -> None:
        self.noted_usd = self.open_usd = 0.0  # what the lines note, and the most that the calls in flight can cost
        self._costs: dict[tuple[int, int], list[float | None]] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        place = (line.get("sample", -1), line.get("repeat", -1))
        self.noted_usd = max(self.noted_usd, line.get("spent_usd", 0.0))
        self.open_usd = line.get("open_usd", self.open_usd)
        if "row" in line:
            self._costs[place] = [line["row"]["evaluation"]["usage"]["cost_usd"]]  # its usage includes its replies
        elif "answer" in line:
            self._costs[place] = [line["answer"]["assistant"]["usage"]["cost_usd"]]
        elif "reply" in line:
            self._costs.setdefault(place, []).append(line["reply"]["usage"]["cost_usd"])

    @property
    def paid(self) -> list[float | None]:
        """Return the cost of each reply; None if it is unknown."""
        return [cost for each in self._costs.values() for cost in each]

    @property
    def known_usd(self) -> float:
        return sum(cost or 0.0 for cost in self.paid)

    @property
    def spent_usd(self) -> float:
        """Return the most that the run has cost. What was in flight when it was killed may have been billed."""
        return max(self.noted_usd, self.known_usd) + self.open_usd


def load_unfinished(path: Path) -> EvaluationRun:
    """Load the judged answers of an unfinished run from its journal, as a run with a summary but without a log."""
    rows: dict[tuple[int, int], dict[str, Any]] = {}
    header: dict[str, Any] = {}
    for _, line in read_lines(path):
        header = header or line
        if "row" in line:
            rows[line["sample"], line["repeat"]] = line["row"]
    if not header:
        raise ConfigError("{path}: the journal is empty; nothing was finished before the run was broken off", path=path)
    info = run_info_from_dict(header["run"], where=str(path))
    found = [(f"{path}: sample {place[0]}", rows[place]) for place in sorted(rows)]
    results = results_from_dicts(found, info, where=str(path))
    # of a part that is judged again, more than its rows
    info = replace(info, asked=max(header["total"], info.asked or 0))
    return EvaluationRun(results, summarise_results(results, run_rule(info)), info)


def load_unjudged(path: Path) -> dict[int, AssistantAnswer]:
    """Return all the assistant's answers in a journal, judged or not, as {number of the answer in the run: answer}."""
    found = {line["sample"]: line["answer"] for _, line in read_lines(path) if "answer" in line}
    return {sample: answer_from_dict(answer, str(path)) for sample, answer in found.items()}


def journal_info(path: Path) -> RunInfo:
    """Return the info of the run that a journal belongs to. Raises ConfigError if the file is no journal."""
    return run_info_from_dict(_named_header(path)["run"], where=str(path))


def journal_total(path: Path) -> int:
    """Return how many judged answers the finished run of a journal will have."""
    return int(_named_header(path)["total"])


def find_journal(folder: Path, identity: Identity) -> Path | None:
    """Return the newest journal in the folder whose run has this identity."""
    fits = [
        path
        for path, header in _journals(folder)
        if header["journal"] == FORMAT and _identity(path, header) == identity
    ]
    return fits[-1] if fits else None


def find_earlier_journals(folder: Path, identity: Identity) -> list[UnfinishedRun]:
    """Return the runs with this identity that an earlier version began, and that therefore cannot be resumed."""
    found = []
    for path, header in _journals(folder):
        if header["journal"] in range(1, FORMAT) and identity.agrees(_identity(path, header)):
            with contextlib.suppress(ConfigError):  # damaged: `unfinished_runs` says so
                found.append(describe_journal(path))
    return found


def find_similar_journal(folder: Path, identity: Identity) -> tuple[UnfinishedRun, list[str]] | None:
    """Return the newest interrupted run that differs from this identity in little, and what differs."""
    for path, header in reversed(_journals(folder)):
        if header["journal"] == FORMAT:
            differences = identity.differences(_identity(path, header))
            with contextlib.suppress(ConfigError):  # damaged: `unfinished_runs` says so
                if 0 < len(differences) <= MOST_DIFFERENCES and (run := describe_journal(path)).done:
                    return run, differences
    return None


def _identity(path: Path, header: Mapping[str, Any]) -> Identity:
    return Identity.of(run_info_from_dict(header["run"], where=str(path)))


def _journals(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    found = []
    # A link is not read, because its target belongs to another folder and may be removed there. Another user's file is
    # not read, because its content would become part of the run.
    for path in sorted(folder.glob(f"judge_eval_*{SUFFIX}")):  # the oldest first
        if is_ours(path, beside=folder):
            if header := _read_header(path):
                found.append((path, header))
        elif path.exists() and not path.is_symlink():
            warnings.warn(
                say(
                    "{path}: another user's file, so it is not read as a journal; to resume it, copy it to a file "
                    "of your own",
                    path=path,
                ),
                stacklevel=3,
            )
    return found


def find_stubs(folder: Path) -> list[Path]:
    """List the journals in the folder that have no complete first line. They hold nothing that was paid for."""
    files = filter(is_ours, sorted(folder.glob(f"judge_eval_*{SUFFIX}")))
    return [path for path in files if b"\n" not in path.read_bytes()]


def check_same_run(path: Path, identity: Identity) -> Path:
    """Return `path` if its journal is of the run with this identity. Otherwise, the ConfigError says what differs."""
    header = _named_header(path)
    if header["journal"] in range(1, FORMAT):
        raise ConfigError(
            "{path}: an earlier version wrote this journal, so this version cannot resume it. Read it with "
            "load_run and save it as a log, or leave resume out to start anew",
            path=path,
        )
    if said := identity.differences(_identity(path, header)):
        raise ConfigError(
            "{path}: the journal is of another run: {differences}. Start that run again with its own settings, "
            "or leave resume out to start this one",
            path=path,
            differences="; ".join(said),
        )
    return path


def _named_header(path: Path) -> dict[str, Any]:
    """Read a header whose path the user gave. ConfigError if the file is another user's, or no journal."""
    if path.exists() and not is_ours(path.resolve(), beside=path.resolve().parent):
        raise ConfigError(
            "{path}: another user's file, so it is not read as a journal; to resume it, copy it to a file of your own",
            path=path,
        )
    if not path.name.endswith(SUFFIX) or not (header := _read_header(path)):
        raise ConfigError(
            "{path}: no journal of an unfinished run; they are named judge_eval_…{suffix}", path=path, suffix=SUFFIX
        )
    return header


def _read_header(path: Path) -> dict[str, Any]:
    """Return the first line of a journal. It is empty if the process was killed while it was written: nothing was paid
    for then. ConfigError if it is damaged, because what was paid for would be asked for again."""
    try:
        with path.open("rb") as file:
            raw = file.readline()
    except OSError as error:
        raise ConfigError("{path}: the journal cannot be read ({reason})", path=path, reason=os_reason(error)) from None
    return _line(path, 1, raw) if raw.endswith(b"\n") else {}


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (position, line) for each complete line of a journal. `line` also has its own bytes under "raw".
    ConfigError if a line is damaged."""
    start = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                try:
                    orjson.loads(raw)
                except orjson.JSONDecodeError:
                    return  # it was being written when the process was killed
            yield start, {**_line(path, number, raw), "raw": raw}
            start += len(raw)


def _line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    try:
        return _parsed(raw, is_first=number == 1)
    except ValueError as error:
        raise damaged(path, number, str(error)) from None


def damaged(path: Path, number: int, reason: str = "") -> ConfigError:
    """Return the error for a line of a journal that is damaged. Without a reason, it is not one of a journal."""
    return ConfigError(
        "{path}: line {number} is damaged ({reason}); correct or remove the line, or start anew with fresh",
        panel=(
            "{path}: line {number} is damaged ({reason}); correct or remove the line, or tick the box to start anew"
        ),
        path=path,
        number=number,
        reason=reason or say("not a line of a journal"),
    )


def _parsed(raw: bytes, *, is_first: bool) -> dict[str, Any]:
    line: dict[str, Any] = orjson.loads(raw)
    # Damaged: a value that the totals of a run need is missing or of a wrong type, or a header is not the first line.
    try:
        fits = is_first == ("journal" in line)
        numbers, places = [line.get(name, 0) for name in ("t", "spent_usd", "open_usd")], []
        if is_first:
            run_info_from_dict(line["run"], where="run")
            fits, places = fits and line["journal"] in range(1, FORMAT + 1), [line["total"]]
        elif "row" in line:
            row, places = line["row"], [line["sample"], line["repeat"]]
            evaluation, assistant = row["evaluation"], row["assistant"]
            Usage(**evaluation["usage"]) + Usage(**assistant["usage"])
            numbers += [evaluation["usage"]["cost_usd"] or 0, row["answer_repeat"], evaluation["average_score"]]
            numbers += [evaluation["attempts"], *(each for each in evaluation["scores"].values() if each is not None)]
            texts = evaluation["status"], evaluation["model"], assistant["model"]
            fits = fits and {*map(type, texts)} == {str} and type(row["question_id"]) in (int, str)
        elif "answer" in line:
            places = [line["sample"]]
            numbers.append(line["answer"]["assistant"]["usage"]["cost_usd"] or 0)
        elif "reply" in line:
            places = [line["sample"], line["repeat"]]
            numbers.append(line["reply"]["usage"]["cost_usd"] or 0)
        fits = fits and {*map(type, numbers)} <= {int, float} and all(type(n) is int and n >= 0 for n in places)
    except (LookupError, TypeError, AttributeError, ConfigError):
        fits = False
    if not fits:
        raise ValueError(say("not a line of a journal"))
    return line
