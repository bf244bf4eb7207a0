"""Run a whole evaluation: answer and judge every question, apply the pass rule, and write the log."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answering.own_assistant import Assistant
from ..base.conditions import rubric_changes
from ..base.messages import say
from ..errors import ConfigError, RunNote
from ..models.opening import Model
from ..prompts.saved import foreign_prompt_note
from ..prompts.templates import Prompt
from ..records import EvalQuestion, EvaluationRun, Rubric, RunOptions
from ..settings import open_project
from .forecast import RunPlan, foresee
from .given_answers import Given, open_answers
from .plan import plan_answers, plan_failed, plan_rejudging

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from ..runbooks.index import RunbookIndex


def plan_run(
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
    logs_dir: Path | str | None = None,
    options: RunOptions | None = None,
) -> RunPlan:
    """Plan a run without sending a request: what it would ask, what that costs, and what an interrupted run has already.

    The arguments are those of `run_evaluation_suite`, which is `plan_run(…).run(…)`. The estimate (`left`) is rough: it
    leaves out hidden reasoning tokens and retries. Calls of the embedded default model are not counted.

    Returns
    -------
    RunPlan
        `left` (calls, input_tokens, output_tokens, cost_usd in US dollars, None if a price is unknown), `already`,
        `total`, `note`, `problem`, and `run()`, which starts it.

    Raises
    ------
    ConfigError
        If an argument is unfit, such as answers that do not match the questions, or a model without a key.

    Examples
    --------
    >>> import socjudge as sj
    >>> plan = sj.plan_run(sj.load_eval_dataset(), assistant_model="offline", judge_model="offline")
    >>> plan.total, plan.left.calls
    (10, 0)
    """
    options = options or RunOptions()
    opened = open_answers(answers, questions)
    own = [opened] if isinstance(opened, Assistant) else []
    _check_names(options.executor, judge_model, assistant_model, *own)
    if index is None and opened is None:
        from ..runbooks.index import open_index

        index = open_index()
    plan = plan_answers(
        questions,
        answers=opened,
        index=index,
        assistant_model=assistant_model,
        assistant_prompt=assistant_prompt,
        k=k,
        judge_model=judge_model,
        judge_prompt=judge_prompt,
        rubric=rubric or open_project().rubric,
        answer_repeats=answer_repeats,
        judge_repeats=judge_repeats,
    )
    return foresee(plan, options, logs_dir)


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
        JSON or Excel file (see `load_answers`). Or they come from your own assistant, which is asked once per question
        and repeat: a function, a LangChain Runnable, an `Assistant`, "mybot.py:ask", or the name of a table in
        socjudge.toml. A question that your assistant does not answer gets a row without scores.
    index
        The runbooks; the index in INDEX_DIR if left out.
    assistant_model, judge_model
        "auto", "offline", a name, or a chat model object. To have further judges score the same answers, use `rejudge`.
    assistant_prompt, judge_prompt
        As for `load_prompt`.
    k
        The number of passages per question; the project's number if left out.
    rubric
        The criteria and the pass rule; the project's current rubric if left out.
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
        `RunOptions`: concurrency, waits, executor.

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
    plan = plan_run(
        questions,
        answers=answers,
        index=index,
        assistant_model=assistant_model,
        assistant_prompt=assistant_prompt,
        k=k,
        judge_model=judge_model,
        judge_prompt=judge_prompt,
        rubric=rubric,
        answer_repeats=answer_repeats,
        judge_repeats=judge_repeats,
        logs_dir=logs_dir,
        options=options,
    )
    return _start(plan, max_cost_usd, progress)


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
    plan = plan_rejudge(
        run,
        judge_model=judge_model,
        judge_prompt=judge_prompt,
        rubric=rubric,
        judge_repeats=judge_repeats,
        only_failed=only_failed,
        logs_dir=logs_dir,
        options=options,
    )
    return _start(plan, max_cost_usd, progress)


def plan_rejudge(
    run: EvaluationRun,
    *,
    only_failed: bool = False,
    logs_dir: Path | str | None = None,
    options: RunOptions | None = None,
    **judging: Any,
) -> RunPlan:
    """Return what `rejudge` with these arguments would do and cost. No request is sent."""
    options = options or RunOptions()
    _check_names(options.executor, judging["judge_model"])
    plan = plan_failed(run, **judging) if only_failed else plan_rejudging(run, **judging)
    notes = [] if judging["judge_prompt"] else [foreign_prompt_note(run.run)]
    if told := rubric_changes(run.rubric, plan.rubric):
        notes.append(say("other than in the original run: {told}", told=told))
    planned = foresee(plan, options, logs_dir)
    return replace(planned, note="\n".join(filter(None, [planned.note, *notes])))


def _start(plan: RunPlan, max_cost_usd: float | None, progress: bool) -> EvaluationRun:
    """Start a run, after telling what the user did not see, because they did not look at the plan."""
    if plan.note:
        warnings.warn(plan.note, RunNote, stacklevel=3)
    return plan.run(max_cost_usd=max_cost_usd, progress=progress)


def _check_names(executor: object, *models: str | BaseChatModel | Model | Assistant) -> None:
    if executor is not None and not isinstance(executor, Executor):
        raise ConfigError(
            "executor= is a {kind}; of a Dask client, pass client.get_executor()", kind=type(executor).__name__
        )
    for model in models if executor is not None else ():
        if not isinstance(model, str):
            raise ConfigError(
                "with executor=, name the models by strings, and let an assistant of your own answer before: {kind} "
                "may hold a key, and keys are not sent to other processes; workers open models with the keys of their "
                "own environment",
                kind=type(model).__name__,
            )
