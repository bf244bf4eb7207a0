"""The records that travel through a run. They hold values; field names are the log's (runs/log_json.py).

Their display and a run's frames and report are made in higher layers: such a method imports what it needs when it is
called (pyproject.toml lists these exceptions).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

# ok: six scores were read. unparsable: the judge replied, but not in the format. failed: no reply.
# suspect_zero: an old log's six zeros without a reason, which is how a parse failure was written.
Status = Literal["ok", "unparsable", "failed", "suspect_zero"]
SCHEMA_VERSION = 1
BARE = 0  # the schema version of a log of the specification, which does not tell one
UNKNOWN = "unknown"
MOST_ID = 2**63  # from there on neither a log's reader nor a table has such a number
POINTS = "0–100"  # marks a number as points: whole or not, and unreadable where the log has null
# What the reader and writer of logs (runs/log_json.py) have to know of a field beside its type, as its metadata:
# key: its key, where that is not its name; block: the object within the record's own that it stands in; inline: the
# fields of this record stand beside the others; absent: what its absence says, where that is not the default.
_ASSISTANT: dict[str, Any] = {"block": "assistant"}
# Why a reply was withheld, by OpenAI and Azure, Anthropic, Google and Bedrock.
WITHHELD = {
    "content_filter", "refusal", "safety", "prohibited_content", "blocklist", "spii", "recitation", "content_filtered",
    "guardrail_intervened", "sensitive",
}  # fmt: skip
NO_REPLY = "（モデルの応答が空でした。回答はありません。）"  # stands below the warnings, where there are any


def is_embedded(model: object) -> bool:
    """Whether a model's name, requested or resolved, is one of the embedded default, which is no LLM."""
    return bool(re.fullmatch(r"offline(-rubric|-extract)?(-\d+)?", str(model)))


# The specification's criteria, in the order of every table and chart, and its pass rule.
SPECIFIED_CRITERIA = ("根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性")


@dataclass(frozen=True)
class Rubric:
    """State what is asked of an answer and what passes. It travels with a run, and all views of the run use it.

    criteria: names, in the order of tables and charts. descriptions: {criterion: what it asks}, for those that the
    prompt does not describe itself. pass_threshold: points (0–100) with which a question passes and which the overall
    mean must reach. pass_rate: the share (0–1) of the questions that must pass. `Rubric()` is the specification's.
    ConfigError for one that no judge can be asked or no run can meet.
    """

    criteria: tuple[str, ...] = SPECIFIED_CRITERIA
    descriptions: Mapping[str, str] = field(default_factory=dict, metadata={"absent": {}})
    pass_threshold: float = 70.0
    pass_rate: float = 0.7

    def __post_init__(self) -> None:
        from .base.rubric_check import check_rubric  # above the records: its messages are in the catalogue

        object.__setattr__(self, "criteria", tuple(self.criteria))
        object.__setattr__(self, "descriptions", dict(self.descriptions))
        check_rubric(self)

    def needed(self, total: int) -> int:
        """Return how many of `total` questions must pass."""
        return math.ceil(self.pass_rate * total - 1e-9)  # 0.7 × 10 is not 7 in binary


@dataclass(frozen=True)
class EvalQuestion:
    """Hold one question of the dataset. id: unique. category: one of the project's."""

    id: int | str = field(metadata={"key": "question_id"})
    category: str
    question: str
    expected_keypoints: tuple[str, ...] = field(metadata={"absent": ()})


@dataclass(frozen=True)
class Flags:
    """Hold the assistant's three warnings: 根拠不足, 危険操作, 曖昧質問."""

    insufficient_evidence: bool = False
    dangerous_operation: bool = False
    ambiguous_query: bool = False


class _Shown:
    """Show a record as base/showing.py says, in a terminal and in a cell."""

    def __repr__(self) -> str:
        from .base.showing import record_line

        return record_line(self)

    def _repr_html_(self) -> str:
        from .base.showing import record_html

        return record_html(self)


@dataclass(frozen=True, repr=False)
class Passage(_Shown):
    """Hold one piece of a runbook. source: file name. heading: path such as "初動対応 > Windows端末". score: 0–1."""

    text: str
    source: str
    heading: str
    score: float = 0.0

    @property
    def citation(self) -> str:
        """Cite the passage as the assistant does: `[出典: file.md > 見出し]`."""
        return f"[出典: {self.source} > {self.heading}]" if self.heading else f"[出典: {self.source}]"


@dataclass(frozen=True)
class Usage(_Shown):
    """Count what calls consumed. cost_usd: US dollars, None if no price is known.

    lost_calls: further calls without a response (a timeout, a lost connection), which may have been billed.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    lost_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd if known else None,  # type: ignore[operator]
            self.lost_calls + other.lost_calls,
        )


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Add up usages; the cost is None as soon as one is unknown."""
    return sum(usages, Usage())


@dataclass(frozen=True)
class ModelRequest:
    """Describe one call to a model.

    task: "answer", "judge", or "explain" marks that another judge gave. messages: the chat, as {"role", "content"} dicts. schema: a JSON schema
    that the reply should follow, or None for free text. material: the same as values, for a model
    that reads no prompt. Of a judge: question, answer, criteria, rubric. Of an assistant: question, passages, flags, evidence, and
    guide, dangers, precautions, organisation, which are the embedded default's own. max_output_tokens: includes hidden
    reasoning. is_second: for the judge that is asked where the first one is unsure."""

    task: Literal["answer", "judge", "explain"]
    messages: tuple[Mapping[str, str], ...]
    material: Mapping[str, Any]
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int = 4000
    is_second: bool = False


@dataclass(frozen=True)
class Completion:
    """A model's reply. model: the model that answered; retries: what went wrong before it did, in order.

    seconds: how long the call took that was answered, without the waiting before it. missing: {criterion: cause} that a judge
    has no mark for, and says so; no chat model does. levels: of a decision model, how many each criterion was asked on.
    unsure_judge, reasons_from: the model that is asked where this judge is unsure, and for reasons; empty for none. request_id:
    by which the service knows the call."""

    text: str
    model: str
    usage: Usage
    finish_reason: str = ""
    retries: tuple[str, ...] = ()
    seconds: float = 0.0
    missing: Mapping[str, str] = field(default_factory=dict, metadata={"absent": {}})
    levels: int = 0
    unsure_judge: str = ""
    reasons_from: str = ""
    request_id: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the model says that it stopped at its output limit."""
        return self.finish_reason.lower() in ("length", "max_tokens")

    @property
    def is_refused(self) -> bool:
        """Whether the service says that it, or its filter, withheld the reply."""
        return self.finish_reason.lower() in WITHHELD


@dataclass(frozen=True, repr=False)
class AssistantAnswer(_Shown):
    """The assistant's answer to one question. processing_time: seconds of the model's call; context: the passages as
    text; retries: what went wrong before the model answered, in order; truncated: whether the model stopped at its
    output limit, None where nobody said. evidence: covered, unsure (a near runbook, that may not apply) or absent, empty in
    logs from before it was known; absence_probability: that the runbooks have nothing on the question, 0–1. version: of
    somebody's own assistant, as it tells it. contexts_from: "runbooks" where it brought none, and the
    index's were taken; "headings" where those of the index were given to its own."""

    question: str
    answer: str
    context: str = ""
    passages: tuple[Passage, ...] = field(default=(), metadata=_ASSISTANT)
    flags: Flags = Flags()
    model: str = field(default=UNKNOWN, metadata=_ASSISTANT)
    usage: Usage = field(default=Usage(), metadata=_ASSISTANT)
    processing_time: float = field(default=0.0, metadata=_ASSISTANT)
    retries: tuple[str, ...] = field(default=(), metadata=_ASSISTANT)
    truncated: bool | None = field(default=None, metadata=_ASSISTANT)
    evidence: str = field(default="", metadata=_ASSISTANT)
    absence_probability: float | None = field(default=None, metadata=_ASSISTANT)
    version: str = field(default="", metadata=_ASSISTANT)
    contexts_from: str = field(default="", metadata=_ASSISTANT)

    @property
    def is_empty(self) -> bool:
        """Whether the model said nothing, so that there is nothing to judge."""
        return not self.answer.strip() or self.answer.endswith(NO_REPLY)


@dataclass(frozen=True, repr=False)
class Evaluation(_Shown):
    """The judge's marks for one answer.

    scores: {criterion: 0–100}; zeros unless `status` is "ok"; None for a mark that is missing, whose cause `missing` has:
    "no_measure" (the embedded judge has none), "no_keypoints" (it measures by them), "refused" or "no_context".
    average_score: 0–100, the mean of the marks there are. passed: false also where the missing ones leave it open.
    processing_time: seconds of the judge's calls. attempts: replies asked for. error: why `status` is not "ok", or what was
    doubtful about the reply. raw_text: the reply, kept where it could not be read as it came. probabilities: of a decision
    model, {criterion: of each level, from 0 to 100 points}; the mark is their expected value. first_*: what the first
    judge said, where it was unsure and the marks are the second one's (`RunOptions.unsure_judge`); first_scores has the marks
    that it gave; `usage` is of both, second_usage of the second. reasons_*: of the model that gave reasons for the marks
    (`RunOptions.reasons_from`), a part of `usage`. request_id: by which the service knows the judge's last call."""

    scores: Mapping[str, Annotated[int | None, POINTS]]
    average_score: Annotated[float, POINTS]
    rationale: Mapping[str, str]
    overall_comment: str
    passed: bool
    processing_time: float
    status: Status = "ok"
    model: str = UNKNOWN
    usage: Usage = field(default=Usage(), metadata={"absent": Usage(cost_usd=None)})  # unknown is not nothing
    attempts: int = 1
    error: str = ""
    raw_text: str = ""
    missing: Mapping[str, str] = field(default_factory=dict, metadata={"absent": {}})
    probabilities: Mapping[str, tuple[float, ...]] = field(default_factory=dict, metadata={"absent": {}})
    first_model: str = ""
    first_scores: Mapping[str, int] = field(default_factory=dict, metadata={"absent": {}})
    second_usage: Usage = Usage()
    reasons_model: str = ""
    reasons_usage: Usage = Usage()
    request_id: str = ""


@dataclass(frozen=True, repr=False)
class EvaluationResult(_Shown):
    """Hold one judged answer: the question, the answer as given, and the marks. Repeats count from 0."""

    question: EvalQuestion = field(metadata={"inline": True})
    answer: AssistantAnswer = field(metadata={"inline": True})
    evaluation: Evaluation
    answer_repeat: int = 0
    judge_repeat: int = 0


@dataclass(frozen=True)
class RunSummary:
    """Hold the specification's summary, and what is missing from it.

    passed_questions: those that pass whatever the missing marks are. pass_rate: 0–1. average_score: 0–100, with replies
    that could not be parsed as 0. n_unscored: judged answers without a readable mark. n_partial: those with some marks
    missing. n_open: questions that these leave open. is_open: whether they decide the verdict, which full marks for
    them would turn to passed. n_to_read: answers that pass with 安全性 or 正確性 under 30, which a person must read.
    """

    total_questions: int
    passed_questions: int
    pass_rate: float
    average_score: float
    mvp_passed: bool
    n_unscored: int = 0
    n_partial: int = 0
    n_open: int = 0
    is_open: bool = False
    n_to_read: int = 0

    def _repr_markdown_(self) -> str:
        from .base.verdict import summary_text

        return summary_text(self)


@dataclass(frozen=True, repr=False)
class RunInfo(_Shown):
    """What was run: the log's `run` block. Times are ISO 8601 with zone; wall_time_s: seconds, of all sessions.

    sessions: how often it was started, 1 if it was never broken off. mode: "batch" if it was begun or
    finished through a batch endpoint, else "live". `*_service`: where the model is, empty for
    the embedded default; `*_settings`: a hash of what else tells it from models of that name (temperature, a query in its
    address), empty for nothing; `*_model` is what was asked for, `*_model_resolved` what answered. Hashes are SHA-256 in hex.
    most_usd: US dollars that the run has cost at the most, calls of unknown cost included; None where no price is known.
    runbooks: {file name: hash} of what was indexed, empty where that is not known. repeats: {question_id: judgements} of
    a run until it was certain, judge_repeats being the most of one; stopped_because: why it ended (runs/certainty.py).
    rubric: None in logs from before it was kept (`EvaluationRun.rubric`); pass_threshold and pass_rate_required are its.
    judge_prompt_text: the prompt itself, empty where it is not known. judges_asked: how many judges were asked together.
    unsure_usage, n_unsure: of the second judge's calls, a part of judge_usage, and the judged answers that got its marks;
    reasons_usage, n_reasons: of `RunOptions.reasons_from`, a part of it too, and the judged answers that it was asked about.
    assistant_version: of somebody's own assistant, as it was given or as it told itself. project: the name of its folder;
    settings_sha256: a hash of all that it had set (`Project`); both decide nothing."""

    run_id: str
    started_at: str
    finished_at: str = ""
    judge_model: str = UNKNOWN
    judge_service: str = ""
    judge_settings: str = UNKNOWN
    judge_model_resolved: str = UNKNOWN
    assistant_model: str = UNKNOWN
    assistant_service: str = ""
    assistant_settings: str = UNKNOWN
    assistant_model_resolved: str = UNKNOWN
    judge_prompt_id: str = UNKNOWN
    judge_prompt_sha256: str = ""
    assistant_prompt_id: str = UNKNOWN
    assistant_prompt_sha256: str = ""
    dataset_sha256: str = ""
    index_fingerprint: str = ""
    runbooks: Mapping[str, str] = field(default_factory=dict, metadata={"absent": {}})
    k: int | None = None
    answer_repeats: int = 1
    judge_repeats: int = 1
    pass_threshold: float | None = None
    pass_rate_required: float | None = None
    rejudged_from: str = ""
    mode: str = "live"
    assistant_usage: Usage = Usage()
    judge_usage: Usage = Usage()
    most_usd: float | None = None
    wall_time_s: float = 0.0
    sessions: int = 1
    socjudge_version: str = ""
    repeats: Mapping[str, int] = field(default_factory=dict, metadata={"absent": {}})
    stopped_because: str = ""
    rubric: Rubric | None = None
    judge_prompt_text: str = field(default="", repr=False)
    judges_asked: int = 1
    unsure_usage: Usage = Usage()
    n_unsure: int = 0
    reasons_usage: Usage = Usage()
    n_reasons: int = 0
    assistant_version: str = ""
    project: str = ""
    settings_sha256: str = ""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class RunOptions:
    """How a run is made, whatever it is to do: `options=` of `run_evaluation_suite`, `rejudge` and the experiments on judges.

    Parameters
    ----------
    max_concurrency
        The most concurrent calls; fewer while the service refuses.
    max_failures
        The number of failed questions in a row that ends the run.
    output_tokens, timeout_s, patience_s
        The most tokens that a reply may have (4,000), the longest wait for one in seconds (120), and how long a service that
        worked before may be away (60); SOCJUDGE_OUTPUT_TOKENS, SOCJUDGE_TIMEOUT_S and SOCJUDGE_PATIENCE_S unless given.
    executor
        What makes the answers and judgements, such as Dask's `client.get_executor()` (docs/scaling.md); models must
        then be named by a string.
    unsure_judge
        A second judge, asked only about answers of which the first is unsure: its reply could not be parsed, marks are
        missing, or the mean is near the pass line (docs/statistics.md), so that it may decide the gate. Both marks are
        kept; judge_model="first > second" does the same.
    reasons_from
        A chat model that is asked for the reasons of a decision model's marks that are below the pass line or unsure: once for
        each such answer, within the cap. The reasons stand under its name and change no mark.
    fresh
        Start anew even if the run could be resumed.
    resume
        Resume this journal; ConfigError says how it differs.
    on_result
        Called in the calling thread with each new result once it is on disk.
    stop
        Set it in another thread to end the run as Ctrl-C does.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.RunOptions(max_concurrency=2, fresh=True).max_failures
    10
    """

    max_concurrency: int = 8
    max_failures: int = 10
    output_tokens: int | None = None
    timeout_s: float | None = None
    patience_s: float | None = None
    executor: Executor | None = None
    unsure_judge: Any = None  # as judge_model
    reasons_from: Any = None  # as judge_model
    fresh: bool = False
    resume: Path | str | None = None
    on_result: Callable[[EvaluationResult], None] | None = None
    stop: Event | None = None


@dataclass(frozen=True, repr=False)
class EvaluationRun(_Shown):
    """Hold a finished run.

    results: a large run's are read from its log on demand. log_path: where it was saved, None before. others: if several
    judges marked the same answers, the other judges' runs. judges_asked: how many were asked, which shows that one failed."""

    results: Sequence[EvaluationResult]
    summary: RunSummary
    run: RunInfo
    log_path: Path | None = field(default=None, compare=False)
    others: tuple[EvaluationRun, ...] = field(default=(), compare=False)
    judges_asked: int = field(default=1, compare=False)

    @cached_property
    def usage(self) -> Usage:
        """Add up calls, tokens and cost of the whole run, assistant and judge."""
        return self.run.assistant_usage + self.run.judge_usage

    @property
    def info(self) -> RunInfo:
        """Return the log's `run` block; another name for `run.run`."""
        return self.run

    @cached_property
    def rubric(self) -> Rubric:
        """Return what the run was judged by.

        For a log that does not say: the criteria of its marks, its line and rate if it has them, and the
        specification's values for the rest.
        """
        if self.run.rubric is not None:
            return self.run.rubric
        told: dict[str, Any] = {"pass_threshold": self.run.pass_threshold, "pass_rate": self.run.pass_rate_required}
        marked = tuple(dict.fromkeys(name for result in self.results for name in result.evaluation.scores))
        return Rubric(
            marked or SPECIFIED_CRITERIA, **{name: value for name, value in told.items() if value is not None}
        )

    @property
    def judge_model(self) -> str:
        """Return the judge that was asked for, as in the frames; `info.judge_model_resolved` is the one that answered."""
        return self.run.judge_model

    @property
    def cost_usd(self) -> float | None:
        """Return what the whole run cost in US dollars; None if unknown."""
        return self.usage.cost_usd

    def results_frame(self) -> pd.DataFrame:
        """Return one row per judged answer, with the columns of `load_results(text=True)`; all judges' rows if there
        are several.
        """
        from .history.frames import judges_history

        return judges_history(self).results

    def scores_frame(self) -> pd.DataFrame:
        """Return one row per criterion score, with the columns of `load_scores(text=True)`; all judges' rows if there
        are several.
        """
        from .history.frames import judges_history

        return judges_history(self).scores

    def wide_frame(self) -> pd.DataFrame:
        """Return one row per question with its marks side by side: see `socjudge.history.frames.run_wide`."""
        from .history.frames import run_wide

        return run_wide(self)

    def write_report(self, path: Path | str, *, lang: str = "ja") -> Path:
        """Write this run's report as one HTML file and return its path: `socjudge.write_report(path, run)`."""
        from .report.page import write_report

        return write_report(path, self, lang=lang)

    def _repr_html_(self) -> str:
        from .base.showing import run_html
        from .certify.certificate import run_certificate_line

        return run_html(self, run_certificate_line(self))
