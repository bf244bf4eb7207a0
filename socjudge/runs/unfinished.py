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
from ..base.messages import explained, say
from ..base.pass_rule import run_rule
from ..base.showing import dollars, facts_html, money, one_line, shown_path
from ..base.storage import as_path
from ..base.verdict import summarise_results
from ..errors import ConfigError
from ..records import AssistantAnswer, EvaluationResult, EvaluationRun, RunInfo, Usage
from .identity import Identity
from .log_json import answer_from_dict, results_from_dicts, run_info_from_dict
from .logs import is_ours

SUFFIX = ".partial.jsonl"
FORMAT = 2  # of the journals that this version writes and resumes; those of 0.1 to 0.3 have 1
MOST_DIFFERENCES = 3  # a run that differs in more is another one, and nobody expects it to be resumed
Place = tuple[int, int]  # of a judgement: the numbers of its answer and of its repeat, from 0
_PLACES = {"journal": ("total",), "row": ("sample", "repeat"), "reply": ("sample", "repeat"), "answer": ("sample",)}


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
    return [describe_journal(path) for path, _ in _journals(as_path(logs_dir or constants.LOGS_DIR))]


class Contents:
    """What a journal says of its run, taken line by line."""

    def __init__(self) -> None:
        self.info, self.total, self.format = RunInfo("", ""), 0, FORMAT
        self.rows: dict[Place, tuple[str, Usage]] = {}  # the status and usage in the last row of each judgement
        self.answers: dict[int, Mapping[str, Any]] = {}
        # Replies that could not be parsed since the last row of their judgement, whose usage has those before it.
        self.unread: dict[Place, list[Mapping[str, Any]]] = {}
        self.models = {"judge": set[str](), "answer": set[str]()}  # that have answered, by task
        self.answer_usd: float | None = None  # the most that an answer has cost
        self.sessions = 0
        self.wall_time_s = self._in_session_s = 0.0  # of all earlier sessions, and of the last one
        # What the run had cost, and the most that the calls in flight could cost, when this was last noted.
        self.noted_usd = self.open_usd = 0.0

    def take(self, line: Mapping[str, Any]) -> None:
        place = line.get("sample", 0), line.get("repeat", 0)
        if "journal" in line:
            self.info, self.total = run_info_from_dict(line["run"], where="run"), line["total"]
            self.format = line["journal"]
        elif "session" in line:
            self.sessions += 1
            self.wall_time_s, self._in_session_s = self.wall_time_s + self._in_session_s, 0.0
        elif "answer" in line:
            self.answers[place[0]] = line["answer"]
            assistant = line["answer"]["assistant"]
            self.models["answer"].add(assistant["model"])
            self.answer_usd = max(self.answer_usd or 0.0, assistant["usage"]["cost_usd"] or 0.0)
        elif "reply" in line:
            self.unread.setdefault(place, []).append(line["reply"])
            self.models["judge"].add(line["reply"]["model"])
        elif "row" in line:
            evaluation = line["row"]["evaluation"]
            self.rows[place] = evaluation["status"], Usage(**evaluation["usage"])
            self.unread.pop(place, None)
            self.models["judge"].add(evaluation["model"])
        self._in_session_s = max(self._in_session_s, line.get("t", 0.0))
        self.noted_usd = max(self.noted_usd, line.get("spent_usd", 0.0))
        self.open_usd = line.get("open_usd", self.open_usd)

    def usages(self) -> list[Usage]:
        """Return what each answer, and each judgement so far, has consumed."""
        told = [answer["assistant"] for answer in self.answers.values()]
        told += [reply for replies in self.unread.values() for reply in replies]
        return [usage for _, usage in self.rows.values()] + [Usage(**each["usage"]) for each in told]

    @property
    def spent_usd(self) -> float:
        """Return the most that the run has cost. What was in flight when it was killed may have been billed."""
        return max(self.noted_usd, sum(usage.cost_usd or 0.0 for usage in self.usages())) + self.open_usd


def describe_journal(path: Path) -> UnfinishedRun:
    """Describe the unfinished run that a journal belongs to: its info, its number of judgements, and its cost."""
    there = Contents()
    for _, line in read_lines(path):
        there.take(line)
    done, unread = ([status for status, _ in there.rows.values()].count(each) for each in ("ok", "unparsable"))
    cost_usd = sum(there.usages(), Usage()).cost_usd
    return UnfinishedRun(path, there.info, done, there.total, cost_usd, unread, there.spent_usd, there.format == FORMAT)


def load_unfinished(path: Path) -> EvaluationRun:
    """Load the judged answers of an unfinished run from its journal, as a run with a summary but without a log."""
    if not (header := _read_header(path)):
        raise ConfigError("{path}: the journal is empty; nothing was finished before the run was broken off", path=path)
    info = run_info_from_dict(header["run"], where=str(path))
    results = read_results(path, info)
    # of a part that is judged again, more than its rows
    info = replace(info, asked=max(header["total"], info.asked or 0))
    return EvaluationRun(results, summarise_results(results, run_rule(info)), info)


def read_results(path: Path, info: RunInfo, handle: int | None = None) -> tuple[EvaluationResult, ...]:
    """Read the judged answers in a journal of the run with this info, in the order of the questions.
    `handle`: of the open file, which may have gone from `path`."""
    rows = {(line["sample"], line["repeat"]): line["row"] for _, line in read_lines(path, handle) if "row" in line}
    found = [(f"{path}: sample {place[0]}", rows[place]) for place in sorted(rows)]
    return results_from_dicts(found, info, where=str(path))


def load_unjudged(path: Path) -> dict[int, AssistantAnswer]:
    """Return all the assistant's answers in a journal, judged or not, as {number of the answer in the run: answer}."""
    found = {line["sample"]: line["answer"] for _, line in read_lines(path) if "answer" in line}
    return {sample: answer_from_dict(answer, str(path)) for sample, answer in found.items()}


def read_beginning(path: Path) -> Contents:
    """Return what the first line of a journal says of its run. Raises ConfigError if the file is no journal."""
    there = Contents()
    there.take(_named_header(path))
    return there


def find_journal(folder: Path, identity: Identity) -> Path | None:
    """Return the newest journal in the folder whose run has this identity."""
    found = [(path, _identity(path, header)) for path, header in _journals(folder) if header["journal"] == FORMAT]
    return next((path for path, there in reversed(found) if there == identity), None)


def notes_on_others(folder: Path, identity: Identity, *, is_new: bool) -> list[str]:
    """Say which interrupted runs are not resumed: the same run of an earlier version and, of a new run, the newest one
    that differs in little."""
    notes, nearest = list[str](), ""
    for path, header in _journals(folder):
        there, can_resume = _identity(path, header), header["journal"] == FORMAT
        differences = identity.differences(there) if is_new and can_resume else []
        if 0 < len(differences) <= MOST_DIFFERENCES:
            why = say(
                "it differs: {differences}. To resume it, start it with its own settings",
                differences="; ".join(differences),
            )
        elif not can_resume and identity.agrees(there):
            why = say("an earlier version wrote it. load_run reads what is there, to be saved as a log")
        else:
            continue
        with contextlib.suppress(ConfigError):  # damaged: `unfinished_runs` says so
            left = describe_journal(path)
            note = say(
                "{path}: an interrupted run ({done} of {total} judged, cost {cost}) is not resumed, because {why}",
                path=path,
                done=left.done,
                total=left.total,
                cost=money(left.cost_usd),
                why=why,
            )
            if not can_resume:
                notes.append(note)
            elif left.done:
                nearest = note
    return [*notes, nearest] if nearest else notes


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
    if header["journal"] != FORMAT:
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
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path), path.open("rb") as file:
        raw = file.readline()
    return _line(path, 1, raw) if raw.endswith(b"\n") else {}


def read_lines(path: Path, handle: int | None = None) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each complete line of a journal, in bytes and parsed. ConfigError if one is damaged. `handle`: of the open
    file."""
    with open(path if handle is None else handle, "rb", closefd=handle is None) as file:
        file.seek(0)
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                try:
                    orjson.loads(raw)
                except orjson.JSONDecodeError:
                    return  # it was being written when the process was killed
            yield raw, _line(path, number, raw)


def damaged(path: Path, number: int, reason: str = "") -> ConfigError:
    """Return the error for a line of a journal that is damaged. Without a reason, it is not one of a journal."""
    return ConfigError(
        "{path}: line {number} is damaged ({reason}); correct or remove the line, or start anew",
        path=path,
        number=number,
        reason=reason or say("not a line of a journal"),
    )


def _line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    """Parse a line. It is damaged if it is no JSON, if a value that the totals of a run need is missing or of a wrong
    type, or if a header is not the first line."""
    try:
        line: dict[str, Any] = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise damaged(path, number, str(error)) from None
    try:
        kind = next((each for each in _PLACES if each in line), "")
        fits, used = (number == 1) == (kind == "journal"), []
        places = [line[name] for name in _PLACES.get(kind, ())]
        numbers = [line.get(name, 0) for name in ("t", "spent_usd", "open_usd")]
        if kind == "journal":
            run_info_from_dict(line["run"], where="run")
            fits = fits and line["journal"] in range(1, FORMAT + 1)
        elif kind == "row":
            row, evaluation, assistant = line["row"], line["row"]["evaluation"], line["row"]["assistant"]
            used = [evaluation["usage"], assistant["usage"]]
            numbers += [row["answer_repeat"], evaluation["average_score"], evaluation["attempts"]]
            numbers += [each for each in evaluation["scores"].values() if each is not None]
            texts = evaluation["status"], evaluation["model"], assistant["model"]
            fits = fits and {*map(type, texts)} == {str} and type(row["question_id"]) in (int, str)
        elif kind:
            used = [(line["reply"] if kind == "reply" else line["answer"]["assistant"])["usage"]]
        numbers += [Usage(**each).cost_usd or 0 for each in used]
        fits = fits and {*map(type, numbers)} <= {int, float} and all(type(n) is int and n >= 0 for n in places)
    except (LookupError, TypeError, AttributeError, ConfigError):
        fits = False
    if not fits:
        raise damaged(path, number)
    return line
