"""Have several judges score the same answers. Each answer is made once and scored by every judge.

Each judge has its own run, journal and log. The first judge's run makes the answers. The other runs judge these
answers, and their `rejudged_from` names the first run. So a log has one judge, as in the specification. Readers, frames
and charts can show the scores without knowing that there are several judges. If a judge fails or is stopped, the
results of the other judges are kept. If the same function call is made again, it requests only what is missing
(finished_parts.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import constants
from ..base.messages import aside, say
from ..base.storage import as_path
from ..errors import ConfigError, ProviderError, RunStopped, SocJudgeError
from ..judging.judge import failed_evaluation
from ..models.opening import OFFLINE
from ..prompts.templates import load_prompt
from ..records import EvalQuestion, EvaluationResult, EvaluationRun
from .assignment import Assignment, assign_rejudging, assign_suite
from .estimate import Estimate, estimate_run
from .finished_parts import FinishedParts
from .running import RunTerms, run_assignment, shared_budget
from .unfinished import count, load_unfinished, load_unjudged, newest, note_handed_on

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..models.opening import Model
    from ..runbooks.index import RunbookIndex

# a function (run, index of a judge) -> the assignment of this judge to judge the run's answers
Over = Callable[[EvaluationRun, int], Assignment]


def assign_judges(
    questions: Sequence[EvalQuestion],
    judges: Sequence[str | BaseChatModel | Model],
    *,
    index: RunbookIndex | None,
    judging: dict[str, Any],
    answering: dict[str, Any],
) -> tuple[list[Assignment], Over]:
    """Return (assignments, over), which together say what each judge may have to do.

    - assignments: for each judge, the assignment to make the answers and judge them.
    - over: a function that takes a finished run and the index of a judge in `judges`. It returns this judge's
      assignment to judge the run's answers.

    judging: judge_prompt, rubric and judge_repeats. answering: the other arguments of `assign_suite`.

    Raises ConfigError as `assign_suite` does.
    """
    # The prompt's text is read once for all, even if its file changes.
    judging |= {"judge_prompt": load_prompt(judging["judge_prompt"], rubric=judging["rubric"])}
    assignments: list[Assignment] = []
    for judge in judges:
        each = assign_suite(questions, index=index, judge_model=judge, **judging, **answering)
        index = each.plan.index  # opened once for all judges
        assignments.append(each)
    # The opened models, because an object without settings counts as another one each time.
    return assignments, lambda run, place: assign_rejudging(run, judge_model=assignments[place].plan.judge, **judging)


def check_judges(assignments: Sequence[Assignment]) -> None:
    """Raise ConfigError if there is no judge, or if one judge is given twice."""
    if not assignments:
        raise ConfigError(say("runs.judges_none"))
    for place, assignment in enumerate(assignments):
        if assignment.key in [other.key for other in assignments[:place]]:
            raise ConfigError(say("runs.judges_twice", judge=assignment.info.judge_model))


def judged_already(assignments: Sequence[Assignment], over: Over, logs_dir: Path | str | None) -> list[int]:
    """Return, for each judge, how many judgements it has in its log or in a journal that would be resumed.

    assignments, over: from `assign_judges`.

    Raises ConfigError for a damaged journal.
    """
    folder = as_path(logs_dir or constants.LOGS_DIR)
    runs = dict(FinishedParts(folder, assignments, fresh=False).load())
    found = []
    for place, assignment in enumerate(assignments):
        own, old = _left_to_do(place, assignment, over, runs, folder)
        # The judge's run may have failed while it judged these answers, or while it made them.
        journals = [old, newest(folder, own.key)] if runs or place == 0 else []
        done = [count(journal).done for journal in journals if journal is not None]
        found.append(assignment.total if place in runs else max(done, default=0))
    return found


def estimate_judges_left(
    questions: Sequence[EvalQuestion],
    judges: Sequence[str | BaseChatModel | Model],
    already: Sequence[int],
    total: int,
    *,
    judging: dict[str, Any],
    answering: dict[str, Any],
) -> Estimate:
    """Estimate what these judges still have to do. No request is sent.

    These are the judgements that each judge has not made yet and, if no judge has finished, the answers.

    - already: from `judged_already`, how many judgements each judge has made.
    - total: how many judgements each judge's finished run has.
    - questions, judges, judging, answering: as for `assign_judges`.
    """
    left = Estimate(0, 0, 0, 0.0)
    for place, (judge, done) in enumerate(zip(judges, already, strict=True)):
        makes_answers = place == 0 and total not in already  # a judge that finished has the answers
        whole = estimate_run(
            questions, judge_model=judge, **judging,
            **(answering if makes_answers else answering | {"assistant_model": OFFLINE}),
        )  # fmt: skip
        left += whole.after(done, total)
    return left


def run_judges(assignments: Sequence[Assignment], over: Over, terms: RunTerms) -> EvaluationRun:
    """Have several judges score the same answers. Return the run that made the answers.

    The other judges' runs are in its `others`. A judge that fails is left out with a warning. `terms.max_cost_usd` is
    the cap for all judges together.

    assignments, over: from `assign_judges`.

    Raises SocJudgeError if all judges fail.
    """
    if terms.resume is not None:
        raise ConfigError(say("runs.judges_resume"))
    check_judges(assignments)
    folder = as_path(terms.logs_dir or constants.LOGS_DIR)
    finished = FinishedParts(folder, assignments, fresh=terms.fresh)
    runs: dict[int, EvaluationRun] = dict(finished.load())
    if runs:
        names = ", ".join(run.judge_model for run in runs.values())
        print(say("runs.judges_taken_over", judges=names), file=aside())
    problems: dict[int, SocJudgeError] = {}
    given: list[EvaluationResult] = []  # the answers of a judge that failed, and its journal
    giver: Path | None = None
    waiting = [] if terms.fresh else [place for place in range(len(assignments)) if place not in runs]
    interrupted = [assignments[place] for place in waiting]
    if runs:
        interrupted += [over(next(iter(runs.values())), place) for place in waiting]
    terms = replace(terms, max_cost_usd=shared_budget(terms.max_cost_usd, runs.values(), folder, interrupted))
    for place, assignment in enumerate(assignments):
        if place in runs:
            continue
        own, old = _left_to_do(place, assignment, over, runs, folder)
        try:
            own = replace(own, info=replace(own.info, judges_asked=len(assignments)))
            run = run_assignment(own, terms, known=[] if runs else given, old=None if terms.fresh else old)
        except (SocJudgeError, KeyboardInterrupt) as problem:
            journal = newest(folder, own.key)
            if giver is not None and journal is not None:
                note_handed_on(giver)
            if not isinstance(problem, SocJudgeError) or isinstance(problem, RunStopped):
                raise
            problems[place] = problem
            if not runs and journal is not None:
                given, giver = list(_answers(journal, own)), journal
            continue
        if giver is not None:
            note_handed_on(giver)
            giver = None
        runs[place] = run
        finished.note(place, run)
    if not runs:
        raise next(iter(problems.values()))
    for place, cause in problems.items():
        judge = assignments[place].info.judge_model
        warnings.warn(say("runs.judge_failed", judge=judge, problem=cause), stacklevel=3)
    if not problems:
        finished.forget()
    first = next(iter(runs.values()))
    others = tuple(run for run in runs.values() if run is not first)
    return replace(first, others=others, judges_asked=len(assignments))


def _left_to_do(
    place: int, assignment: Assignment, over: Over, runs: Mapping[int, EvaluationRun], folder: Path
) -> tuple[Assignment, Path | None]:
    """Return (own, journal): what the judge must do now, and a journal to copy from, or None.

    If no run is finished yet, or this judge's own run is finished, `own` is `assignment`: make the answers and judge
    them. Otherwise, `own` is the assignment to judge the answers of the first finished run. If the judge's run made
    equal answers and judged them in an earlier attempt, `journal` is the journal of that attempt. Otherwise, it is
    None.

    place: the judge's index. runs: {index of a judge: its finished run}.
    """
    if not runs or place in runs:
        return assignment, None
    own = over(next(iter(runs.values())), place)
    # Over answers that were stored already, it is the same run.
    old = None if own.key == assignment.key else newest(folder, assignment.key)
    return own, old if old is not None and _has_answers_of(old, assignment, own) else None


def _has_answers_of(journal: Path, first: Assignment, over: Assignment) -> bool:
    """Return whether a journal has the questions of `over`, and only answers that `over` says to judge.

    The journal is from an earlier attempt in which the judge's run made the answers. If they differ from the answers in
    `over`, the journal's judgements are not of the answers to judge now.

    first: the assignment of that attempt. over: the judge's assignment now.
    """
    samples = [over.sample_at(i) for i in range(over.n_samples)]
    if [s.question.id for s in samples] != [first.sample_at(i).question.id for i in range(first.n_samples)]:
        return False
    stored = {(sample.question.id, sample.answer_repeat): sample.stored for sample in samples}
    for there in (*load_unfinished(journal).results, *_answers(journal, first)):
        here = stored.get((there.question.id, there.answer_repeat))
        if here is None or (here.answer, here.context) != (there.answer.answer, there.answer.context):
            return False
    return True


def _answers(journal: Path, assignment: Assignment) -> Iterator[EvaluationResult]:
    """Yield the answers in a journal as results without scores, for the argument `known` of `run_assignment`."""
    unmarked = failed_evaluation(ProviderError(""), model="", criteria=())
    for place, answer in load_unjudged(journal).items():
        sample = assignment.sample_at(place)
        yield EvaluationResult(sample.question, answer, unmarked, sample.answer_repeat)
