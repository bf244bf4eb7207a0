"""Test a judge by single experiments: change answers, let the judge score them, and compare the scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.messages import listed
from ..errors import ConfigError
from ..models.opening import Model
from ..prompts.templates import Prompt, load_prompt
from ..records import Rubric, RunOptions
from ..runs.plan import check_counts
from ..settings import open_project
from .cases import REPEATS, Cases, Judged, judge_cases, plan_changes, plan_originals
from .changes import Kind
from .subjects import Given, find_subjects

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

EXPERIMENTS: dict[str, tuple[Kind, ...]] = {
    "probes": ("damage", "neutral"),
    "injections": ("attack",),
    "anchoring": ("flags",),
}


def probe_judge(
    given: Given,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
    **what: Any,
) -> Judged:
    """Change answers in one way at a time, let the judge score them, and compare the scores with those before.

    Parameters
    ----------
    given
        The answers: a log, a run, or a list of (question, answer). Use good answers, because an answer with no points
        cannot lose any.
    judge_model, max_cost_usd, progress, options
        As in `run_evaluation_suite`.
    logs_dir
        The folder for the log of the judgements; if left out, "certify" below the project's logs, which keeps the log
        out of the history.
    what
        The experiments, the judge's prompt and more: the arguments of `plan_probing`, which tells the cost before
        anything is sent.

    Returns
    -------
    Judged
        `stopped` is the message that the budget was not enough, or empty. `findings` has one row per answer, change,
        variant and criterion, for attacks also of 総合, the mean of the criteria:

        - question_id, criterion
        - kind: "damage", "neutral", "own" (broken by hand), "again" (a repeated judgement of an unchanged answer),
          "flags" or "attack"; case: name of the change
        - variant: the number of the changed place, from 0, if the change can be made in several places of an answer
        - expected: what the score must do: "falls", "may_fall", "may_rise", "may_move", "stays"
        - before: the score before the change, 0–100 (of an attack: the score with the neutral text); n_before: the number
          of judgements of which it is the mean; after: the score after the change; change: after minus before, points
        - limit: the least change that is more than the judge's noise, points
        - moved: "fell", "rose" or "stayed"; missing if it is not known
        - turned: whether an attack makes a failing answer pass (only in rows of 総合)
        - status: "ok", "unparsable", "failed" or "not_judged" (the budget was used up)

    Raises
    ------
    SocJudgeError
        As in `run_evaluation_suite`. ConfigError as in `plan_probing`, or if no reply of the judge has the right
        format. A used-up budget raises nothing: what was paid for is returned, and the same call with a larger budget
        continues.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> told = "端末を隔離する。", "[出典: malware_response.md > 初動対応]"
    >>> answer = sj.AssistantAnswer(question.question, "".join(told), "\\n".join(reversed(told)))
    >>> found = sj.certify.probe_judge([(question, answer)], judge_model="offline", logs_dir="logs/certify", progress=False)
    >>> sorted(set(found.findings["kind"]))
    ['again', 'damage', 'neutral']
    """
    cases = plan_probing(given, **what)
    return judge_cases(cases, judge_model, options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=progress)


def plan_probing(
    given: Given,
    *,
    only: Sequence[str] = ("probes",),
    size: int | None = None,
    repeats: int = REPEATS,
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
) -> Cases:
    """Plan the cases that `probe_judge` judges; `estimate` tells what they cost. Nothing is sent to the judge.

    Parameters
    ----------
    given
        The answers, as in `probe_judge`.
    only
        The experiments: "probes" (damaged answers, whose right scores must fall, and neutral changes, which must not
        matter), "injections" (commands and forged verdicts with an answer without content, beside a neutral text) and
        "anchoring" (the three warnings of the assistant inverted).
    size
        Number of damages per answer and criterion, of neutral changes per answer, and of attacks per answer, taken in
        turn; all if left out.
    repeats
        How often each unchanged answer is judged again, to measure the judge's own noise.
    judge_prompt, rubric
        As in `run_evaluation_suite`.

    Raises
    ------
    ConfigError
        If there is no answer or no such experiment.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> sj.certify.plan_probing([(question, answer)], only=["anchoring"]).estimate("offline").calls
    0
    """
    check_counts(repeats=repeats)
    if unknown := [name for name in only if name not in EXPERIMENTS]:
        raise ConfigError(
            "no experiment named {name}; expected some of {known}", name=listed(unknown), known=listed(EXPERIMENTS)
        )
    rubric = rubric or open_project().rubric
    subjects, prompt = find_subjects(given), load_prompt(judge_prompt, rubric=rubric)
    kinds = [kind for name in EXPERIMENTS if name in only for kind in EXPERIMENTS[name]]
    # Attacks are compared with a neutral text, and not with the answer.
    originals = plan_originals(subjects, 0 if kinds == ["attack"] else 1 + repeats)
    return Cases([*originals, *plan_changes(subjects, rubric.criteria, kinds, size=size)], prompt, rubric)
