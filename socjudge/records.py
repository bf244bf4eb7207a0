"""Define the records of a run, such as questions, answers and evaluations. Their fields have the names that the log
uses (`runs/log_shape.py`).

A method that needs a higher layer imports it when it is called (pyproject.toml lists these exceptions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from .errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

# ok: six scores were parsed. unparsable: the judge replied, but not in the format. failed: there was no reply.
# suspect_zero: six zeros without a reason in an old log, which is how a parse failure was written.
Status = Literal["ok", "unparsable", "failed", "suspect_zero"]
SCHEMA_VERSION = 1
BARE = 0  # the schema version of a log of the specification, which states none
UNKNOWN = "unknown"
EXAMPLE_MODE = "example"  # the mode in the run block of an example's log, so that every view of it can say so
MOST_ID = 2**63  # no log reader and no table can hold larger numbers
# The providers' reasons for a withheld reply: OpenAI and Azure, Anthropic, Google, Bedrock.
WITHHELD = {
    "content_filter", "refusal", "safety", "prohibited_content", "blocklist", "spii", "recitation", "content_filtered",
    "guardrail_intervened", "sensitive",
}  # fmt: skip
# Our own words for a reply without any text besides hidden reasoning, and for one that the service rejected.
REASONING, REJECTED = "reasoning", "rejected"
NO_REPLY = "（モデルの応答が空でした。回答はありません。）"  # it stands below the warnings, if there are any


def is_embedded(model: object) -> bool:
    """Whether this is the name of an embedded default model, which is no LLM. Of names with ", ", all must be."""
    return all(re.fullmatch(r"offline(-rubric|-extract)?(-\d+)?", name) for name in str(model).split(", "))


MOST_CRITERIA = 50  # a report has a chart and columns for each
OVERALL = "総合"  # the name of the overall mean in tables and charts
# The specification's criteria, in the order of all tables and charts, and its pass rule.
SPECIFIED_CRITERIA = ("根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性")


@dataclass(frozen=True)
class Rubric:
    """Hold the criteria by which answers are scored, and the rule by which a run passes.

    `Rubric()` is the specification's rubric. Raises ConfigError if no judge can use the rubric or no run can pass it.
    """

    criteria: tuple[str, ...] = SPECIFIED_CRITERIA  # their names, in the order of tables and charts
    # {criterion: what it asks of an answer}, for criteria that the judge prompt does not describe
    descriptions: Mapping[str, str] = field(default_factory=dict)
    # The points (0–100) that a question needs to pass. The mean over all questions must reach them too.
    pass_threshold: int | float = 70.0  # written as it was given
    pass_rate: int | float = 0.7  # the share of the questions that must pass, 0–1

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        object.__setattr__(self, "descriptions", dict(self.descriptions))
        names = self.criteria
        are_names = all(isinstance(name, str) and name and name == name.strip() and name != OVERALL for name in names)
        if not are_names or not 1 <= len({*names}) == len(names) <= MOST_CRITERIA:
            raise ConfigError(
                "the criteria {names} will not do: list 1 to {most} names, each once, not empty, without blanks around them, "
                "and none of them {total}, which is the overall mean",
                names=f"{names!r:.300}",
                most=MOST_CRITERIA,
                total=OVERALL,
            )
        for name, text in self.descriptions.items():
            if name not in names or not isinstance(text, str) or not text.strip():
                raise ConfigError(
                    "the description of {name} will not do: describe in a sentence what is looked at, and only criteria "
                    "({known})",
                    name=name,
                    known=", ".join(names),
                )
        for field_name, value, most in (("pass_threshold", self.pass_threshold, 100), ("pass_rate", self.pass_rate, 1)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= most:
                raise ConfigError(
                    "{field} is {value}; set it to a number from 0 to {most} (pass_threshold is in points, "
                    "pass_rate a share: 0.7 for 70 %)",
                    field=field_name,
                    value=value,
                    most=most,
                )


@dataclass(frozen=True)
class EvalQuestion:
    """Hold one question of the dataset."""

    id: int | str  # no other question of the dataset has it
    category: str  # one of the project's categories
    question: str
    expected_keypoints: tuple[str, ...]


@dataclass(frozen=True)
class Flags:
    """Hold the assistant's three warnings for one question. A warning that was given is True."""

    insufficient_evidence: bool = False  # users see it as 根拠不足
    dangerous_operation: bool = False  # users see it as 危険操作
    ambiguous_query: bool = False  # users see it as 曖昧質問


class _InCell:
    def _repr_html_(self) -> str:
        from .base.showing import record_html

        return record_html(self)


@dataclass(frozen=True)
class Passage:
    """Hold one piece of a runbook."""

    text: str
    source: str  # the file name
    heading: str  # the path of headings, such as "初動対応 > Windows端末"
    score: float = 0.0  # how well the passage fits the question, 0–1

    @property
    def citation(self) -> str:
        """Return its citation in the assistant's form, `[出典: file.md > 見出し]` (source: file > heading)."""
        return f"[出典: {self.source} > {self.heading}]" if self.heading else f"[出典: {self.source}]"


@dataclass(frozen=True)
class Usage:
    """Hold the number of calls to models, their tokens and their cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0  # in US dollars; None if it is unknown
    # The calls that got no response (a timeout, a lost connection) and may still have been billed. They are not part of
    # `calls`.
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
    """Return the sum of several usages. The total cost is None if the cost of one of them is unknown."""
    return sum(usages, Usage())


@dataclass(frozen=True)
class ModelRequest:
    """Describe one call to a model.

    A model that does not read the messages uses their contents as values, in `material`. For a judge: question, answer,
    criteria and rubric. For an assistant: question, passages, flags and evidence; also guide, dangers, precautions and
    organisation, which only the embedded assistant uses.
    """

    task: Literal["answer", "judge"]
    messages: tuple[Mapping[str, str], ...]  # the chat, as {"role", "content"} dicts
    material: Mapping[str, Any]
    schema: Mapping[str, Any] | None = None  # a JSON schema for the reply; None for free text
    max_output_tokens: int = 4000  # the limit for the reply, including hidden reasoning


@dataclass(frozen=True)
class Completion:
    """Hold a model's reply."""

    text: str
    model: str  # the model that answered
    usage: Usage
    finish_reason: str = ""
    retries: tuple[str, ...] = ()  # the causes of the failed tries before this reply, in order
    seconds: float = 0.0  # the duration of the successful call, without the tries and waits before it
    # {criterion: cause} for the scores that the judge reports it cannot give. It is empty for chat models.
    missing: Mapping[str, str] = field(default_factory=dict)
    is_computed: bool = False  # whether code computed the scores, so that they are surely on the scale 0-100
    problem: str = ""  # why the reply cannot be used, from a model that translates its replies itself
    request_id: str = ""  # the id that the service gave the call

    @property
    def is_cut(self) -> bool:
        return self.finish_reason.lower() in ("length", "max_tokens")

    @property
    def is_refused(self) -> bool:
        return self.finish_reason.lower() in WITHHELD


@dataclass(frozen=True)
class AssistantAnswer(_InCell):
    """Hold the assistant's answer to one question."""

    question: str
    answer: str
    context: str = field(default="", repr=False)  # the passages from which the answer was made, as text
    passages: tuple[Passage, ...] = field(default=(), repr=False)
    flags: Flags = Flags()
    model: str = UNKNOWN
    usage: Usage = Usage()
    processing_time: float = 0.0  # the duration of the model's call, in seconds
    retries: tuple[str, ...] = ()  # the causes of the failed tries before this answer, in order
    truncated: bool | None = None  # whether the model stopped at its output limit; None if unknown
    # Whether the runbooks cover the question: "covered", "absent" or "unsure". It is "unsure" if a passage is near the
    # question but may not apply to it. It is empty for your own assistant, and in old logs.
    evidence: str = ""
    absence_probability: float | None = None  # that the runbooks do not cover the question, 0–1; None if unknown
    version: str = ""  # what your own assistant reported with the answer

    @property
    def is_empty(self) -> bool:
        """Return whether the model returned no text. There is nothing to judge then."""
        return not self.answer.strip() or self.answer.endswith(NO_REPLY)


@dataclass(frozen=True)
class Evaluation(_InCell):
    """Hold the judge's scores for one answer."""

    # {criterion: 0–100}. If `status` is not "ok", all scores are 0. A missing score is None.
    scores: Mapping[str, int | None]
    average_score: float  # the mean of the scores that are not missing, 0–100
    rationale: Mapping[str, str]
    overall_comment: str
    passed: bool  # whether the answer passes; False if this depends on missing scores
    processing_time: float  # the total duration of the judge's calls, in seconds
    status: Status = "ok"
    model: str = UNKNOWN
    usage: Usage = Usage()  # of all calls for this answer
    attempts: int = 1  # the number of replies that the judge gave
    error: str = ""  # why `status` is not "ok", or what was doubtful about the reply
    # the reply as received; empty if the whole reply could be used unchanged
    raw_text: str = field(default="", repr=False)
    # {criterion: why its score is missing}; base/verdict.py says each cause in words. The cause "absent" is that the log
    # has no score, although the run's rubric has the criterion.
    missing: Mapping[str, str] = field(default_factory=dict)
    request_id: str = ""  # the id that the service gave the judge's last call


@dataclass(frozen=True)
class EvaluationResult(_InCell):
    """Hold one judged answer: the question, the answer as given, and the evaluation."""

    question: EvalQuestion
    answer: AssistantAnswer
    evaluation: Evaluation
    answer_repeat: int = 0  # the position of this answer among the repeated answers to the question, from 0
    judge_repeat: int = 0  # the position of this evaluation among the repeated evaluations of the answer, from 0
    # The keys of its log that this version does not know, so that a loaded log can be saved whole.
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class RunSummary:
    """Hold the specification's summary of a run, and counts of what has no score."""

    total_questions: int
    passed_questions: int  # those that pass even if every missing score is 0
    pass_rate: float  # passed_questions divided by total_questions, 0–1
    # The mean score of all questions, 0–100. A judge's reply that could not be parsed counts as 0. A missing score of
    # another reply is left out.
    average_score: float
    # Whether the run passes even if every missing score is 0. It passes if enough questions pass and the mean score
    # reaches the pass line.
    mvp_passed: bool
    # The number of judged answers without any score, because the judge failed or its reply could not be parsed.
    n_unscored: int = 0
    n_partial: int = 0  # the number of answers with some scores, but not all
    n_open: int = 0  # the number of questions that pass only if the missing scores are high enough
    # whether the run has no verdict: it depends on the missing scores, or the next three say why there is none
    is_open: bool = False
    # The number of answers that pass although their score for 安全性 (safety) or 正確性 (accuracy) is below 30 or missing.
    # A person must read these answers.
    n_to_read: int = 0
    judged: int = 0  # the number of judged answers, which are the rows of the run
    asked: int = 0  # the number of judged answers that were asked for. If fewer are there, the verdict is open.
    # Whether a log without a pass line calls something passed or failed that is not by the specification's line. Nobody
    # can tell then by which line it was judged, so the verdict is open.
    is_contradictory: bool = False

    @property
    def is_part(self) -> bool:
        return self.judged < self.asked

    def counted(self, judged: int, asked: int) -> RunSummary:
        """This summary of `judged` answers out of `asked`. That of a part or of a contradictory log is open."""
        told = replace(self, judged=judged, asked=max(judged, asked))
        return replace(told, mvp_passed=False, is_open=True) if told.is_part or told.is_contradictory else told


def _condition(default: Any, name: str, group: str, *, decides: bool = True) -> Any:
    """Return a field that is a condition of a run (`base.conditions.Condition`).
    decides: whether it is part of the run's identity, because answers or scores depend on it."""
    return field(default=default, metadata={"condition": (name, group), "decides": decides})


def _decides() -> Any:
    """Return a field that is part of the identity and that nobody compares, because another one says the same in words."""
    return field(default="", metadata={"decides": True})


@dataclass(frozen=True)
class RunInfo:
    """Describe how a run was made. The log has this record as its block `run`. Times are ISO 8601 with a time zone.
    Hashes are SHA-256 in hex."""

    run_id: str
    started_at: str
    finished_at: str = ""
    # the model that was asked for, and the one that answered
    judge_model: str = _condition(UNKNOWN, "judge", "judge")
    judge_model_resolved: str = _condition(UNKNOWN, "judge that answered", "judge", decides=False)
    # the address of the service that runs the model; empty for the embedded default
    judge_service: str = _condition("", "service of the judge", "judge")
    # A fingerprint of everything else that distinguishes models of the same name, such as the temperature or a query in
    # the address. It is empty if there is nothing else.
    judge_settings: str = _condition(UNKNOWN, "settings of the judge (temperature, address …)", "judge")
    embedded_judge: str = _decides()  # its version, if the embedded default judges
    judge_prompt_id: str = _condition(UNKNOWN, "judge prompt", "judge prompt", decides=False)
    judge_prompt_sha256: str = _condition("", "text of the judge prompt", "judge prompt")
    judge_prompt_text: str = field(default="", repr=False)  # empty if unknown
    # None in older logs; `EvaluationRun.rubric` is never None
    rubric: Rubric | None = _condition(  # noqa: RUF009
        None, "criteria", "criteria"
    )
    dataset_sha256: str = _condition("", "dataset", "dataset", decides=False)  # with the keypoints
    questions_sha256: str = _decides()  # of ids, questions and keypoints alone
    assistant_model: str = _condition(UNKNOWN, "assistant", "assistant")
    assistant_model_resolved: str = _condition(UNKNOWN, "assistant that answered", "assistant", decides=False)
    # of your own assistant, as you gave it or as the assistant reported it
    assistant_version: str = _condition("", "version of the assistant", "assistant")
    assistant_service: str = _condition("", "service of the assistant", "assistant")
    assistant_settings: str = _condition(
        UNKNOWN, "settings of the assistant (temperature, address, code …)", "assistant"
    )
    embedded_assistant: str = _decides()  # its version, if the embedded default answers
    assistant_prompt_id: str = _condition(UNKNOWN, "assistant's prompt", "assistant's prompt", decides=False)
    assistant_prompt_sha256: str = _condition("", "text of the assistant's prompt", "assistant's prompt")
    answers_sha256: str = _decides()  # of stored answers; empty if an assistant was asked
    # {file name: hash of its content} of the runbooks in the index; empty if unknown.
    runbooks: Mapping[str, str] = field(
        default_factory=dict, metadata={"condition": ("runbooks", "runbooks"), "decides": True}
    )
    index_fingerprint: str = _condition("", "runbook index", "runbooks")
    embedder: str = _decides()  # of the index
    # from how many passages an answer is made; None if unknown, or if no index was used
    k: int | None = _condition(None, "passages per question, k", "passages per question, k")
    answer_repeats: int = _condition(1, "answers per question", "repeats")
    judge_repeats: int = _condition(1, "judgements per answer", "repeats")
    # How many judged answers were asked for: questions × repeats. It stays with every part of the run. None in older logs.
    asked: int | None = None
    # The rubric's pass_threshold and pass_rate; None if the log does not state them.
    pass_threshold: int | float | None = _condition(None, "pass line", "pass line", decides=False)
    pass_rate_required: int | float | None = _condition(None, "pass rate required", "pass rate required", decides=False)
    # the id of the run whose answers were judged again; empty if the run made its own answers
    rejudged_from: str = ""
    only_failed_of: str = _decides()  # the id of the run of which only failed rows were asked
    # "example" for the bundled examples; logs of other programs and older versions have more words
    mode: str = _condition("live", "mode", "mode", decides=False)
    assistant_usage: Usage = Usage()
    judge_usage: Usage = Usage()
    # The most that the run can have cost, in US dollars, including calls of unknown cost. None if no price is known.
    most_usd: float | None = None
    wall_time_s: float = 0.0  # the duration of all sessions together, in seconds
    sessions: int = 1  # how many times the run was started or resumed; 1 if it was never interrupted
    socjudge_version: str = _condition("", "version of socjudge", "socjudge")
    # The number of judges that were asked together about the same answers. It is 1, except in logs of older versions.
    # The log of one of several judges leaves the verdict open.
    judges_asked: int = 1
    project: str = ""  # the name of its folder, which no comparison and no verdict uses
    schema_version: int = SCHEMA_VERSION


def asked_of(info: RunInfo, summary: RunSummary) -> int:
    """Return how many judged answers were asked for in a run. Older logs state only the number of questions."""
    each = 1 if info.asked is not None else info.answer_repeats * info.judge_repeats
    return max(info.asked or 0, summary.total_questions * each)


@dataclass(frozen=True)
class RunOptions:
    """Hold the options that say how a run calls the models. `run_evaluation_suite`, `rejudge` and `certify_judge`
    take this object as `options=`.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.RunOptions(max_concurrency=2, fresh=True).max_failures
    10
    """

    max_concurrency: int = 8  # the most calls at the same time; fewer are made while the service refuses some
    max_failures: int = 10  # the number of failed questions in a row after which the run ends
    output_tokens: int | None = None  # the most tokens of a reply; None: SOCJUDGE_OUTPUT_TOKENS, or else 4,000
    timeout_s: float | None = None  # the longest wait for a reply, in seconds; None: SOCJUDGE_TIMEOUT_S, or else 120
    # How long a service that worked before may be unavailable, in seconds. None: SOCJUDGE_PATIENCE_S, or else 60.
    patience_s: float | None = None
    # An executor that makes the calls to models, such as Dask's `client.get_executor()`
    # (docs/reference.md#many-machines). Models must then be given by name.
    executor: Executor | None = None
    fresh: bool = False  # start a new run even if an interrupted one could be resumed
    # A function that is called with each new result after the result is on the disk, in the thread that started the run.
    on_result: Callable[[EvaluationResult], None] | None = None
    stop: Event | None = None  # if another thread sets it, the run ends as it does after Ctrl-C


@dataclass(frozen=True, repr=False)
class EvaluationRun:
    """Hold a finished run."""

    results: Sequence[EvaluationResult]
    summary: RunSummary
    run: RunInfo
    log_path: Path | None = field(default=None, compare=False)  # None before the run is saved
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # as for a result

    def __post_init__(self) -> None:
        # Here, because a part of a run comes from many places: a journal, a filter, a log that was cut.
        asked = asked_of(self.run, self.summary)
        object.__setattr__(self, "run", replace(self.run, asked=asked))
        object.__setattr__(self, "summary", self.summary.counted(len(self.results), asked))

    @property
    def usage(self) -> Usage:
        """Return the calls, tokens and cost of the whole run: the assistant's and the judge's together."""
        return self.run.assistant_usage + self.run.judge_usage

    @property
    def info(self) -> RunInfo:
        """Return how the run was made, the log's block `run`: another name for `run.run`."""
        return self.run

    @cached_property
    def rubric(self) -> Rubric:
        """Return the rubric by which the run was judged.

        Older logs have no rubric. It is then made from the criteria that have scores, and from the pass line and pass
        rate in the log. What the log does not have is taken from the specification.
        """
        if self.run.rubric is not None:
            return self.run.rubric
        told: dict[str, Any] = {"pass_threshold": self.run.pass_threshold, "pass_rate": self.run.pass_rate_required}
        marked = tuple(dict.fromkeys(name for result in self.results for name in result.evaluation.scores))
        return Rubric(
            marked or SPECIFIED_CRITERIA, **{name: value for name, value in told.items() if value is not None}
        )

    @property
    def cost_usd(self) -> float | None:
        """Return the cost of the whole run in US dollars. Return None if it is unknown."""
        return self.usage.cost_usd

    def results_frame(self) -> pd.DataFrame:
        """Return a frame with one row per judged answer, and with the columns of `load_results(text=True)`."""
        from .history.frames import run_results

        return run_results(self)

    def scores_frame(self) -> pd.DataFrame:
        """Return a frame with a row per score (an answer, a criterion) and the columns of `load_scores(text=True)`."""
        from .history.frames import run_scores

        return run_scores(self)

    def wide_frame(self) -> pd.DataFrame:
        """Return a frame with one row per question and one column per criterion.

        The index is question_id, in the order of the run. The columns are category and question as in the dataset, n
        (judged answers), n_unscored (those without scores: the judgement failed or is unparsable), average_score, and a
        column per criterion. Scores are means over the judged answers with scores, 0–100, and missing if there are none.
        """
        from .history.frames import run_wide

        return run_wide(self)

    def __repr__(self) -> str:
        from .base.showing import run_line

        return run_line(self)

    def _repr_html_(self) -> str:
        from .base.showing import log_text, run_html
        from .certify.certificate import run_certificate

        return run_html(self, run_certificate(self)[1], log_text(self))
