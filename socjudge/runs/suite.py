"""Run a whole evaluation: answer and judge every question, apply the pass rule, and write the log."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answering.own_assistant import Assistant
from ..base.conditions import rubric_changes
from ..base.messages import aside, say
from ..errors import ConfigError
from ..models.opening import Model
from ..prompts.saved import foreign_prompt_note, judge_prompt_of
from ..prompts.templates import Prompt
from ..records import EvalQuestion, EvaluationResult, EvaluationRun, Rubric, RunOptions, Usage
from ..settings import project_rubric
from .assignment import assign_failed, assign_rejudging, assign_suite
from .given_answers import Given, open_answers
from .running import run_assignment, terms_of
from .unfinished import journal_info

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..runbooks.index import RunbookIndex


def run_evaluation_suite(
    questions: Sequence[EvalQuestion],
    *,
    answers: Given = None,
    index: RunbookIndex | None = None,
    assistant_model: str | BaseChatModel | Model = "auto",
    assistant_prompt: Prompt | str | Path | None = None,
    k: int | None = None,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    answer_repeats: int = 1,
    judge_repeats: int = 1,
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> EvaluationRun:
    """Answer and judge every question, apply the pass rule, and write the log. The log's path is `run.log_path`.

    Everything paid for is written at once to the journal, `logs_dir/judge_eval_….partial.jsonl`. The folder is
    tested before the first call, and if it takes no more later, the run ends at once. To resume an interrupted run,
    start it again with the same questions, runbooks, models, prompts and repeats. Nothing in the journal is requested
    again.

    Parameters
    ----------
    questions
        From `load_eval_dataset`.
    answers
        Answers to judge instead of those of socjudge's assistant. They may be stored: a list in the order of the
        questions (texts, dicts as an `Assistant` returns, or AssistantAnswers), a DataFrame, the path of a CSV, JSONL,
        JSON or Excel file (see `load_answers`), or the path of a run's journal. Or they come from your own assistant,
        which is asked once per question and repeat: a function, a LangChain Runnable, an `Assistant`, "mybot.py:ask",
        or the name of a table in socjudge.toml. A question that your assistant does not answer gets a row without
        scores.
    index
        The runbooks; the index in INDEX_DIR if left out.
    assistant_model, judge_model
        "auto", "offline", a name, or a chat model object. To have further judges score the same answers, use `rejudge`.
    assistant_prompt, judge_prompt
        As for `load_prompt`.
    k
        The number of passages per question; the project's number if left out.
    rubric
        The criteria and the pass rule; the project's current rubric if left out. With `options.resume`, the journal's
        rubric and judge prompt are used.
    answer_repeats, judge_repeats
        The number of answers per question, and of judgements per answer.
    max_cost_usd
        A hard cap on the whole run in US dollars, repeated calls included. Prices must be known. The project's cap if
        left out; infinity for no cap.
    logs_dir
        A folder, as in `save_evaluation_results`.
    progress
        Whether to show a progress bar.
    options
        `RunOptions`: concurrency, waits, executor, resuming.

    Returns
    -------
    EvaluationRun
        A question that the service refuses gets a row with status "failed".

    Raises
    ------
    ConfigError
        If the folder cannot be written, the key is wrong, the quota is used up, an argument is unfit, or another
        process is making the same run.
    ProviderError
        If the service is down or too slow. The replies that it did not deliver are no results. The journal is kept, and
        the same evaluation, started again, requests only those replies.
    RunStopped
        If `options.stop` was set. (Ctrl-C raises KeyboardInterrupt.)
    BudgetReached
        If the next call might have gone beyond max_cost_usd.

    Notes
    -----
    If socjudge's assistant answers, the first question is sent alone. A wrong key or an unreachable service then costs
    one call. Stored answers are judged concurrently as soon as the first replies have shown how fast the service is.
    Errors are raised after the calls in flight are in the journal.

    Examples
    --------
    >>> import socjudge as sj
    >>> questions = sj.load_eval_dataset()[:1]
    >>> answers = [sj.AssistantAnswer(questions[0].question, "端末を隔離します。[出典: malware_response.md > 初動対応]")]
    >>> offline = {"judge_model": "offline", "logs_dir": "logs", "progress": False}
    >>> run = sj.run_evaluation_suite(questions, answers=answers, **offline)
    >>> run.summary.total_questions
    1
    """
    answers = open_answers(answers, questions)
    terms = terms_of(options, max_cost_usd=max_cost_usd, logs_dir=logs_dir, progress=progress)
    _check_names(terms.executor, judge_model, assistant_model)
    if isinstance(answers, Assistant):
        if terms.executor is not None:
            raise ConfigError(
                "executor= cannot ask an assistant of your own; let it answer without one, or give a file of "
                "its answers as answers="
            )
        print(answers.told_before, file=aside())
    if terms.resume is not None:
        there = journal_info(Path(terms.resume))
        judge_prompt = judge_prompt or judge_prompt_of(there)
        if rubric is None and there.rubric is not None:
            rubric = there.rubric
            if told := rubric_changes(project_rubric(), rubric):
                print(
                    say(
                        "The run keeps the rubric it began with; other than the present settings: {told}. Start "
                        "anew with fresh (--fresh) to use those",
                        panel=(
                            "The run keeps the rubric it began with; other than the present settings: {told}. "
                            "Tick 「最初からやり直す」 to use those"
                        ),
                        told=told,
                    ),
                    file=aside(),
                )
    assignment = assign_suite(
        questions, answers=answers, index=index, assistant_model=assistant_model, assistant_prompt=assistant_prompt, k=k,
        judge_model=judge_model, judge_prompt=judge_prompt, rubric=rubric or project_rubric(),
        answer_repeats=answer_repeats, judge_repeats=judge_repeats,
    )  # fmt: skip
    return run_assignment(assignment, terms)


def rejudge(
    run: EvaluationRun,
    *,
    judge_model: str | BaseChatModel | Model = "auto",
    judge_prompt: Prompt | str | Path | None = None,
    rubric: Rubric | None = None,
    judge_repeats: int = 1,
    only_failed: bool = False,
    max_cost_usd: float | None = None,
    logs_dir: Path | str | None = None,
    progress: bool = True,
    options: RunOptions | None = None,
) -> EvaluationRun:
    """Judge the stored answers of a run again, with another judge or prompt. The assistant is not asked.

    The new log keeps how the answers were made. Its `run.rejudged_from` names the run that the answers come from.

    Parameters
    ----------
    run
        From `load_run` or `run_evaluation_suite`.
    judge_prompt, rubric
        The run's own if left out. If the log does not have its prompt, the project's prompt is used. If the new rubric
        differs from the run's own, the differences are shown before the first call.
    only_failed
        Judge only the unscored answers, whose judgement failed or could not be parsed. All other rows are copied into
        the new log without their cost. So that the log has one judge, the judge, prompt, rubric and repeats are those
        of the run; another one is an error. Give the judge as `judge_model` if it is an object of your own.
    judge_model, judge_repeats, max_cost_usd, logs_dir, progress, options
        As in `run_evaluation_suite`.

    Returns
    -------
    EvaluationRun
        A question that got no answer in the old run stays a row with status "failed". To ask the assistant again, start
        the evaluation again.

    Raises
    ------
    SocJudgeError
        As in `run_evaluation_suite`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import socjudge as sj
    >>> run = sj.load_run(min(Path("logs").glob("*.json")))
    >>> again = sj.rejudge(run, judge_model="offline", logs_dir="logs", progress=False)
    >>> again.info.rejudged_from == run.info.run_id
    True
    """
    terms = terms_of(options, max_cost_usd=max_cost_usd, logs_dir=logs_dir, progress=progress)
    _check_names(terms.executor, judge_model)
    judging: dict[str, Any] = {
        "judge_model": judge_model, "judge_prompt": judge_prompt, "rubric": rubric, "judge_repeats": judge_repeats,
    }  # fmt: skip
    if judge_prompt is None and (told := foreign_prompt_note(run.run)):
        print(told, file=aside())
    if only_failed:
        kept = [_paid(row) for row in run.results if row.evaluation.status == "ok"]
        return run_assignment(assign_failed(run, **judging), terms, known=kept)
    assignment = assign_rejudging(run, **judging)
    if told := rubric_changes(run.rubric, assignment.plan.rubric):
        print(say("other than in the original run: {told}", told=told), file=aside())
    return run_assignment(assignment, terms)


def _paid(result: EvaluationResult) -> EvaluationResult:
    """Return a copy of the result with zero usage, because the old log already counts its cost."""
    answer, evaluation = replace(result.answer, usage=Usage()), replace(result.evaluation, usage=Usage())
    return replace(result, answer=answer, evaluation=evaluation)


def _check_names(executor: Executor | None, *models: str | BaseChatModel | Model) -> None:
    if executor is None:
        return
    if not isinstance(executor, Executor):
        raise ConfigError(
            "executor= is a {kind}; of a Dask client, pass client.get_executor()", kind=type(executor).__name__
        )
    for model in models:
        if not isinstance(model, str):
            raise ConfigError(
                "with executor=, name the models by strings: {kind} may hold a key, and keys are not sent to "
                "other processes; workers open models with the keys of their own environment",
                kind=type(model).__name__,
            )
