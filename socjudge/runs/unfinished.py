"""Read the journals of runs that were interrupted or are under way. journal.py writes them, and has their form."""

from __future__ import annotations

import contextlib
import os
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson

from .. import constants
from ..base.files import as_path
from ..base.messages import explained, say
from ..base.pass_rule import run_rule, summarise_results
from ..base.showing import dollars, money, one_line
from ..errors import ConfigError
from ..records import AssistantAnswer, Completion, EvaluationResult, EvaluationRun, RunInfo, Usage, total_usage
from .identity import Identity
from .log_json import checked_info, result_of, settle
from .log_shape import Row, fit

SUFFIX = ".partial.jsonl"
FORMAT = 3  # of the journals that this version writes and resumes; earlier ones are named
MOST_DIFFERENCES = 3  # a run that differs in more is another one, and nobody expects it to be resumed
Kept = AssistantAnswer | Completion | EvaluationResult  # what a journal keeps
Place = tuple[int, int]  # of a judgement: the numbers of its answer and of its repeat, from 0
_Number = Annotated[int, msgspec.Meta(ge=0)]


class Line(msgspec.Struct, kw_only=True):
    journal: int = 0
    run: RunInfo | None = None
    total: _Number = 0
    session: dict[str, Any] | None = None
    answer: AssistantAnswer | None = None
    reply: Completion | None = None
    row: Row | None = None
    sample: _Number = 0
    repeat: _Number = 0
    t: float = 0.0
    spent_usd: float = 0.0
    open_usd: float | None = None


class UnfinishedRun:
    """A run without a log: what its journal says. ConfigError if a line of the journal is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run, self.total = RunInfo("", ""), 0  # how the run is made, and the number of its judgements
        self.rows: dict[Place, EvaluationResult] = {}  # the last row of each judgement
        self.answers: dict[int, AssistantAnswer] = {}
        # Replies that could not be parsed since the last row of their judgement, whose usage has those before it.
        self.unparsable: dict[Place, list[Completion]] = {}
        self.models = {"judge": set[str](), "answer": set[str]()}  # that have answered, by task
        self.answer_usd: float | None = None  # the most that an answer has cost
        self.sessions = 0
        self.wall_time_s = self._in_session_s = 0.0  # of all earlier sessions, and of the last one
        # What the run had cost, and the most that the calls in flight could cost, when this was last noted.
        self.noted_usd = self.open_usd = 0.0
        self.size, self.is_ended = 0, True  # in bytes, and whether the last line has its end
        for number, raw in enumerate(_whole_lines(path), start=1):
            line = _parsed(path, number, raw)
            if line.run is not None:
                self.run, self.total = line.run, line.total
            if line.sample * self.run.judge_repeats + line.repeat >= self.total:
                raise _damaged(path, number)
            if line.session is not None:
                self._begin_session()
            if what := line.answer or line.reply or (line.row and result_of(line.row)):
                self._keep(what, line.sample, line.repeat)
            self._note(line.t, line.spent_usd, self.open_usd if line.open_usd is None else line.open_usd)
            self.size, self.is_ended = self.size + len(raw), raw.endswith(b"\n")

    def _begin_session(self) -> None:
        self.sessions += 1
        self.wall_time_s, self._in_session_s = self.wall_time_s + self._in_session_s, 0.0

    def _keep(self, what: Kept, sample: int, repeat: int) -> None:
        if isinstance(what, AssistantAnswer):
            self.answers[sample] = what
            self.models["answer"].add(what.model)
            self.answer_usd = max(self.answer_usd or 0.0, what.usage.cost_usd or 0.0)
        elif isinstance(what, Completion):
            self.unparsable.setdefault((sample, repeat), []).append(what)
            self.models["judge"].add(what.model)
        else:
            self.rows[sample, repeat] = what
            self.unparsable.pop((sample, repeat), None)
            self.models["judge"].add(what.evaluation.model)

    def _note(self, t: float, spent_usd: float, open_usd: float) -> None:
        self._in_session_s = max(self._in_session_s, t)
        self.noted_usd, self.open_usd = max(self.noted_usd, spent_usd), open_usd

    @property
    def results(self) -> tuple[EvaluationResult, ...]:
        return tuple(self.rows[place] for place in sorted(self.rows))

    @property
    def done(self) -> int:
        """Return the number of judgements that have scores and will not be requested again."""
        return sum(row.evaluation.status == "ok" for row in self.rows.values())

    @property
    def cost_usd(self) -> float | None:
        """Return what the replies have cost in US dollars. None if it is unknown."""
        return total_usage(self._usages()).cost_usd

    @property
    def spent_usd(self) -> float:
        """Return the most that the run has cost. What was in flight when it was killed may have been billed."""
        return max(self.noted_usd, sum(usage.cost_usd or 0.0 for usage in self._usages())) + self.open_usd

    def _usages(self) -> list[Usage]:
        usages = [row.evaluation.usage for row in self.rows.values()] + [each.usage for each in self.answers.values()]
        return usages + [reply.usage for replies in self.unparsable.values() for reply in replies]

    def __repr__(self) -> str:
        how_far = f"{self.done} of {self.total} judged, {dollars(self.cost_usd)}"
        return f"<UnfinishedRun: {how_far}, judge {one_line(self.run.judge_model)}, {one_line(self.path, 120)}>"


def unfinished_runs(logs_dir: Path | str | None = None) -> list[UnfinishedRun]:
    """List the runs of a log folder that were interrupted or are still running, the oldest first.

    The folder is that of the project's logs if left out. To resume a run, start the same run again. To drop a run,
    delete its journal (`path`). If a journal is damaged, or of an earlier version, the ConfigError names it.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.unfinished_runs("logs")
    []
    """
    return [UnfinishedRun(path) for path, _ in _journals(as_path(logs_dir or constants.LOGS_DIR))]


def load_unfinished(path: Path) -> EvaluationRun:
    """Load the judged answers of an unfinished run. ConfigError if the file is another user's, or no journal."""
    if path.exists() and not _is_ours(path.resolve()):
        raise ConfigError(_OTHERS, path=path)
    if not path.name.endswith(SUFFIX) or _first_line(path) is None:
        raise ConfigError(
            "{path}: no journal of an unfinished run, or one that holds nothing yet; they are named judge_eval_…{suffix}",
            path=path,
            suffix=SUFFIX,
        )
    there = UnfinishedRun(path)
    return EvaluationRun(there.results, summarise_results(there.results, run_rule(there.run)), there.run)


def find_journal(folder: Path, identity: Identity) -> Path | None:
    return next((path for path, info in reversed(_journals(folder)) if Identity.of(info) == identity), None)


def note_on_nearest(folder: Path, identity: Identity) -> str:
    """Say which interrupted run is not resumed by a new one, although it differs in little. "" if there is none."""
    for path, info in reversed(_journals(folder)):
        differences = identity.differences(Identity.of(info))
        with contextlib.suppress(ConfigError):  # damaged: `unfinished_runs` says so
            if len(differences) <= MOST_DIFFERENCES and (left := UnfinishedRun(path)).done:
                words = (
                    "{path}: an interrupted run ({done} of {total} judged, cost {cost}) is not resumed, because it "
                    "differs: {differences}. To resume it, start it with its own settings"
                )
                told, cost = "; ".join(differences), money(left.cost_usd)
                return say(words, path=path, done=left.done, total=left.total, cost=cost, differences=told)
    return ""


def _journals(folder: Path) -> list[tuple[Path, RunInfo]]:
    return [(path, info) for path in journal_files(folder) if (info := _first_line(path))]


def journal_files(folder: Path) -> Iterator[Path]:
    # A link is not read, because its target belongs to another folder and may be removed there. Another user's file is
    # not read, because its content would become part of the run.
    for path in sorted(folder.glob(f"judge_eval_*{SUFFIX}")):
        if _is_ours(path):
            yield path
        elif path.exists() and not path.is_symlink():
            warnings.warn(say(_OTHERS, path=path), stacklevel=4)


def _is_ours(path: Path) -> bool:
    """Return whether a file belongs to this user, or to the owner of its folder. A link or a pipe does not."""
    try:
        there, folder = os.lstat(path), path.parent.stat()
    except OSError:
        return False
    return stat.S_ISREG(there.st_mode) and (os.name == "nt" or there.st_uid in (os.geteuid(), folder.st_uid))


_OTHERS = "{path}: another user's file, so it is not read as a journal; to resume it, copy it to a file of your own"


def _first_line(path: Path) -> RunInfo | None:
    """Return the info in a journal's first line. None if the process was killed there, before anything was paid for."""
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path), path.open("rb") as file:
        raw = file.readline()
    return _parsed(path, 1, raw).run if raw.endswith(b"\n") else None


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a journal, but for a last one that was being written when the process was killed."""
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                try:
                    orjson.loads(raw)
                except orjson.JSONDecodeError:
                    return
            yield raw


def _damaged(path: Path, number: int, reason: str = "") -> ConfigError:
    words = "{path}: line {number} is damaged ({reason}); correct or remove the line, or start anew"
    return ConfigError(words, path=path, number=number, reason=reason or say("not a line of a journal"))


def _parsed(path: Path, number: int, raw: bytes) -> Line:
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _damaged(path, number, str(error)) from None
    is_first = number == 1
    if is_first and isinstance(data, dict) and data.get("journal") in range(1, FORMAT):
        raise ConfigError(
            "{path}: an earlier version wrote this journal, and this one cannot read it. Finish that run with the version "
            "that began it, or move the file elsewhere; with fresh, its answers are asked for, and paid for, again",
            path=path,
        )
    try:
        line = fit(data, Line, str(path))
        paid = [data[name] for name in ("answer", "reply") if name in data]
        paid += [data["row"][name] for name in ("evaluation", "assistant") if "row" in data]
        for told in paid:  # without this, what was paid for would be counted too low, or elsewhere
            Usage(**told["usage"])  # TypeError for a count that nobody knows
            if not ("model" in told and "sample" in data and "repeat" in data):
                raise LookupError("model")
        if line.run is not None:
            line.run = checked_info(line.run, where=str(path))
        if line.row is not None:
            settle(line.row.evaluation, str(path))
    except (ConfigError, LookupError, TypeError):
        raise _damaged(path, number) from None
    if is_first != (line.run is not None) or (is_first and (line.journal != FORMAT or "total" not in data)):
        raise _damaged(path, number)
    return line
