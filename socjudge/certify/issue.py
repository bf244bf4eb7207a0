"""Issue a certificate: collect the evidence that a budget allows, and decide from it the verdict on each criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .._version import __version__
from ..base.messages import listed, say
from ..models.opening import Model, open_model
from ..prompts.templates import Prompt, check_prompt, load_prompt
from ..records import UNKNOWN, EvaluationRun, Rubric, RunOptions, Usage, is_embedded
from ..runs.forecast import cost_notes, estimate_plan
from ..runs.logs import load_run
from ..runs.plan import Plan
from ..settings import open_project
from ..stats.agreement import judge_agreement
from ..stats.correction import corrected_pass_rate
from .cases import REPEATS, Case, Judged, judge_cases, plan_cases, plan_changes, plan_originals
from .certificate import Binding, Certificate, binding_of_run, earlier_looks
from .changes import DAMAGES, LABELLED, NEUTRAL, ORIGINAL, title_of
from .conditions import Evidence, judge_criterion, plan_told, trust_rows, unscored_told
from .findings import summarise_attacks, summarise_changes
from .from_people import hash_labels, labels_of, read_damaged, read_labels, scored_by_two
from .subjects import Given, Subject, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# columns of `judge_trust`
_APART = ("bias", "bias_low", "bias_high", "correlation", "correlation_low", "correlation_high")
# damaged answers; a judge that sees nine of ten damages shows it with twenty answers, seldom with ten
MOST_ANSWERS = 20
LEAST_ANSWERS = 9  # with fewer, even a judge that sees everything has not shown that it sees more than half
_HEADROOM = 1.1  # an estimate is a list price, without repeated calls
BUDGET_USD = 0.25  # enough for twenty answers with gpt-4o-mini; with ten, a judge seldom shows that it sees the damage


@dataclass(frozen=True)
class CertificatePlan:
    """Hold what is to be certified, and everything that the certification needs. `run` judges the cases."""

    subjects: Sequence[Subject]
    source: EvaluationRun | None  # from which the answers come
    cases: Sequence[Case]
    plan: Plan  # of the run in which the judge scores the cases; it has the judge, its prompt and the rubric
    estimate: Usage  # the calls, tokens and list price of what `run` asks the judge
    tried: int  # answers that are damaged
    size: int | None  # damages per criterion and answer; None for all
    labels: pd.DataFrame | None  # people's scores of these answers
    labelled: Sequence[Subject]  # the answers that have labels
    stored: pd.DataFrame  # scores that this judge gave in the run itself
    cap_usd: float  # the most that it may cost, in US dollars

    @property
    def note(self) -> str:
        """Return in words what so many answers and labels can show, and what they cannot. Read it before anybody labels."""
        return plan_told(self.tried, len(self.plan.rubric.criteria))

    @property
    def cost_note(self) -> str:
        """Return what to know beside `estimate`, such as that a price is unknown."""
        return cost_notes(self.plan)

    @property
    def is_lexical(self) -> bool:
        """Return whether the judge measures by rules, as the damages are made."""
        return is_embedded(self.plan.judge.name) or self.plan.judge.is_lexical

    def run(
        self, *, logs_dir: Path | str | None = None, progress: bool = True, options: RunOptions | None = None
    ) -> Certificate:
        """Let the judge score the cases, and decide from its scores. The arguments are as in `certify_judge`."""
        judged = judge_cases(
            self.cases, self.plan, options, logs_dir=logs_dir, max_cost_usd=self.cap_usd, progress=progress
        )
        return _certificate(self, judged)


def certify_judge(
    given: Given,
    *,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
    **what: Any,
) -> Certificate:
    """Test a judge with its prompt. Return a certificate that says for each criterion whether the judge can be trusted.

    The certificate is not stored. `save_certificate` stores it.

    Parameters
    ----------
    given
        The answers: a log, a run, or a list of (question, answer). They should be good: copies of the first twenty are
        damaged, or of fewer if the budget is small. The answers that people scored must be in `given` too.
    logs_dir
        The folder for the log of the judgements; "certify" below the project's logs if left out.
    progress, options
        As in `run_evaluation_suite`.
    what
        The judge, people's scores, the budget and more: the arguments of `plan_certificate`, which tells the cost
        before anything is sent.

    Returns
    -------
    Certificate
        `words` has one verdict per criterion. `save_certificate` stores the certificate so that runs find it, and
        `write_certificate_page` makes a page of it. It is valid for 90 days, for this judge with its settings, service,
        prompt and criteria. It is bound to the first two numbers of socjudge's version (1.0 of 1.0.1).

    Raises
    ------
    SocJudgeError
        As in `run_evaluation_suite`. ConfigError as in `plan_certificate`, or if no reply of the judge has the right
        format. A used-up budget raises nothing.

    Notes
    -----
    The rules are in docs/certify.md and on the page of the certificate. The chance that any criterion is wrongly called
    信頼できる is at most 0.05, over all planned certifications (`LOOKS`).

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> sj.certify.plan_certificate([(question, answer)], judge_model="offline").estimate.calls
    0
    >>> certificate = sj.certify.certify_judge(
    ...     [(question, answer)], judge_model="offline", size=1, logs_dir="logs/certify", progress=False
    ... )
    >>> certificate.words["根拠性"]
    '分からない'
    """
    return plan_certificate(given, **what).run(logs_dir=logs_dir, progress=progress, options=options)


def binding_of_judge(
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    *,
    rubric: Rubric | None = None,
) -> Binding:
    """Return what a certificate must be tied to so that it applies today to this judge with this prompt and rubric."""
    return _binding(open_model(judge_model), load_prompt(judge_prompt, rubric=rubric), rubric or open_project().rubric)


def _binding(judge: Model, prompt: Prompt, rubric: Rubric) -> Binding:
    return Binding(judge.name, judge.service, prompt.sha256, rubric.criteria, __version__, UNKNOWN, judge.settings)


def plan_certificate(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    labels: pd.DataFrame | Path | str | None = None,
    damaged: pd.DataFrame | Path | str | None = None,
    budget_usd: float | None = None,
    size: int | None = None,
) -> CertificatePlan:
    """Plan a certificate: which changes of which answers a judge is to score. Nothing is sent to the judge.
    `certify_judge` has an example.

    Parameters
    ----------
    given
        The answers, as in `certify_judge`.
    judge_model, judge_prompt, rubric
        As in `run_evaluation_suite`.
    labels
        People's scores of these answers: a frame of `load_labels`, the folder that it reads, or a CSV file with the
        columns rater, question_id, answer_sha256, criterion and score. Without labels, no criterion is 信頼できる
        (trusted).
    damaged
        Answers of `given` that you broke: a file (JSONL, CSV, Excel) or a frame with question_id, broken_answer and
        criterion (the one whose score must fall). Every broken answer is judged. A judge that measures by rules (the
        embedded judge, or an object whose `is_lexical` is true) can be 信頼できる only with such answers.
    budget_usd
        A hard cap on the cost in US dollars, which needs known prices; infinity for no cap. The default is 0.25, or the
        project's max_cost_usd if that is less. With a smaller budget, fewer damages are tried. If it runs out midway,
        the judgements that were paid for are kept.
    size
        Number of damages per criterion and answer, of attacks per answer (texts that tell the judge to give higher
        scores), and of neutral changes per answer (which must not change a score). If left out, as many as the
        budget allows.

    Returns
    -------
    CertificatePlan
        `estimate` is what it costs, `note` what so many answers and labels can show and what they cannot, and `run`
        carries it out.

    Raises
    ------
    ConfigError
        For every error in the arguments: if there is no answer, or if all labels are of other answers than these.
    """
    rubric = rubric or open_project().rubric
    given = load_run(given) if isinstance(given, Path | str) else given
    run = given if isinstance(given, EvaluationRun) else None
    subjects, prompt = find_subjects(given), load_prompt(judge_prompt, rubric=rubric)
    check_prompt(prompt, "judge", rubric)
    judge = open_model(judge_model)
    scored: list[Subject] = []
    if labels is not None:
        labels, scored = labels_of(subjects, read_labels(labels))
    own = read_damaged(damaged, subjects, rubric.criteria) if damaged is not None else []
    broken = {case.question_id for case in own}
    stored = _scores_in(run, _binding(judge, prompt, rubric))
    known = set(stored["answer_sha256"])
    missing = [subject for subject in scored if subject.answer_sha256 not in known]
    cap = open_project().cost_cap(budget_usd)
    if budget_usd is None:
        cap = BUDGET_USD if cap is None else min(cap, BUDGET_USD)

    def plan(count: int, each: int | None) -> CertificatePlan:
        tried = subjects[:count]
        unchanged = {s.question.id: s for n, s in enumerate(subjects) if n < count or s.question.id in broken}
        every = [
            *plan_originals(list(unchanged.values()), 1 + REPEATS),
            *(Case(s.question.id, LABELLED, 0, s) for s in missing if s.question.id not in unchanged),
            *own,
            *plan_changes(tried, rubric.criteria, size=each),
        ]
        planned = plan_cases(every, judge, prompt, rubric)
        return CertificatePlan(
            subjects, run, every, planned, estimate_plan(planned), count, each, labels, scored, stored,
            math.inf if cap is None else cap,
        )  # fmt: skip

    most, sizes = min(len(subjects), MOST_ANSWERS), [None, 4, 2, 1] if size is None else [size]
    plans = [(most, each) for each in sizes]
    plans += [(count, sizes[-1]) for count in range(most - 1, LEAST_ANSWERS - 1, -1)]
    # the most cases that fit the budget, or else the smallest plan
    for count, each in plans:
        planned = plan(count, each)
        usd = planned.estimate.cost_usd
        if cap is None or (usd is not None and usd * _HEADROOM <= cap):
            break
    return planned


def _scores_in(run: EvaluationRun | None, binding: Binding) -> pd.DataFrame:
    """Return the scores that the judge to be certified gave in the run. They need not be paid for again."""
    same = run is not None and not binding_of_run(run).differences(binding)
    rows = [
        {"question_id": r.question.id, "answer_sha256": Subject(r.question, r.answer).answer_sha256,
         "criterion": criterion, "score": float(score)}
        for r in (run.results if run is not None and same else ()) if r.evaluation.status == "ok"
        for criterion, score in r.evaluation.scores.items() if score is not None
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["question_id", "answer_sha256", "criterion", "score"])


def _certificate(work: CertificatePlan, judged: Judged) -> Certificate:
    rubric, labels, source = work.plan.rubric, work.labels, work.source
    binding = _binding(work.plan.judge, work.plan.judge_prompt, rubric)
    findings = judged.findings
    summary = summarise_changes(findings[~findings["kind"].isin(["attack", "flags"])])
    scores = _beside_people(work, judged.scores)
    trust = trust_rows(scores, labels)
    labels_sha256 = "" if labels is None else hash_labels(labels)
    look = 1 + (earlier_looks(binding, labels_sha256) if labels_sha256 else 0)
    evidence = Evidence(judged.scores, findings, summary, trust, labels, len(rubric.criteria), work.is_lexical, look)
    aimed = summary["expected"] == "falls"
    neutral = ~summary["case"].isin(set(summary.loc[aimed, "case"])) & (summary["n_forbidden"] > 0)
    tables: dict[str, list[dict[str, Any]]] = {
        "probes": _rows(summary[aimed]),
        "neutral": _rows(summary[neutral]),
        "injection": _rows(summarise_attacks(findings[findings["kind"] == "attack"])),
        "rates": _rates_table(scores, labels, trust),
        "raters": _rows(judge_agreement(labels, by="rater")) if labels is not None and scored_by_two(labels) else [],
    }
    basis = {
        "log": str(source.log_path.name) if source and source.log_path else "",
        "run_id": source.run.run_id if source else "",
        "judge_prompt_id": work.plan.judge_prompt.id,
        "dataset_sha256": source.run.dataset_sha256 if source else "",
        "answers": len(work.subjects),
        "tried": work.tried,
        "size": work.size,
        "labels": len(work.labelled),
        "labels_sha256": labels_sha256,
        "look": look,
        "raters": 0 if labels is None else labels["rater"].nunique(),
        "calls": judged.usage.calls,
        "cost_usd": judged.usage.cost_usd,
    }
    return Certificate(
        replace(binding, judge_model_resolved=judged.info.judge_model_resolved),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        tuple(judge_criterion(criterion, evidence) for criterion in rubric.criteria),
        basis,
        tables,
        _not_tried(work, judged.scores),
        judged.stopped,
    )


def _beside_people(work: CertificatePlan, case_scores: pd.DataFrame) -> pd.DataFrame:
    """Return the judge's scores of the unchanged answers, in the form that `judge_trust` takes."""
    own = case_scores[case_scores["case"].isin([ORIGINAL, LABELLED])]
    hashes = {subject.question.id: subject.answer_sha256 for subject in work.subjects}
    own = own.assign(answer_sha256=own["question_id"].map(hashes)).dropna(subset=["answer_sha256"])
    asked = set(own.loc[own["score"].notna(), "answer_sha256"])
    # An answer without such a score has its score in the certified run.
    kept = work.stored[~work.stored["answer_sha256"].isin(asked)]
    columns = ["question_id", "answer_sha256", "criterion", "score"]
    parts = [part[columns].astype({"question_id": object}) for part in (own, kept) if len(part)]
    scores = pd.concat(parts, ignore_index=True)
    return scores.assign(judge_model=work.plan.judge.name, pass_threshold=work.plan.rubric.pass_threshold)


def _rates_table(
    scores: pd.DataFrame, labels: pd.DataFrame | None, trust: dict[str, dict[str, Any]] | str
) -> list[dict[str, Any]]:
    """Estimate the share of answers that people would pass: they scored only some, and the judge all."""
    if labels is None or isinstance(trust, str):
        return []
    kept = ["criterion", "n", "n_judged", "judge_rate", "rate", "ci_low", "ci_high"]
    rows = _rows(corrected_pass_rate(scores, labels)[kept].astype({"criterion": str}))
    return [row | {name: trust[row["criterion"]][name] for name in _APART} for row in rows if row["criterion"] in trust]


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _not_tried(work: CertificatePlan, case_scores: pd.DataFrame) -> tuple[str, ...]:
    told = [unscored_told(case_scores)] if case_scores["status"].isin(["unparsable", "failed"]).any() else []
    tried = {case.name for case in work.cases}
    if work.is_lexical:
        told.append(
            say(
                "How it sees what people break: it measures by rules, so damages made by rules like them flatter "
                "it; answers that you broke are the remedy (socjudge certify --damaged FILE)"
            )
        )
    unfit = [title_of(change.name) for change in (*DAMAGES, *NEUTRAL) if change.name not in tried]
    if unfit:
        told.append(say("Changes not tried: {probes} (no answer fits, or the budget did not)", probes=listed(unfit)))
    if work.size is not None:
        told.append(
            say("To fit the budget, {size} damages per answer and criterion, and as many attacks", size=work.size)
        )
    if further := len(work.subjects) - work.tried:
        told.append(say("{count} further answers were not damaged", count=further))
    if work.labels is None:
        told.append(say("Comparison with people (there are no labels)"))
    told.append(
        say("Damage and attacks of other kinds, other questions and runbooks, and what the model will be tomorrow")
    )
    return tuple(told)
