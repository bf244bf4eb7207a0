"""List the problems of the logs in a folder, and what to do about them. Nothing here changes a log."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from .. import constants
from ..base.messages import listed, os_reason, say
from ..base.missing_marks import average, frame_spans, outcome_of, span_of
from ..base.pass_rule import PassRule, frame_rule, reaches, run_rule
from ..base.verdict import summarise_results
from ..errors import ConfigError
from ..records import UNKNOWN, EvaluationResult, EvaluationRun, RunSummary
from ..runs.log_json import answer_sha256
from ..runs.logs import from_json, load_log, parse_log
from ..runs.unfinished import journal_folder, stubs, unfinished_runs
from .cache import find_logs, with_progress

# error: the loaders leave the log out, some only when texts are asked for. warning: doubtful numbers. note: a remark.
LEVELS = ["error", "warning", "note"]
ROUNDING = 0.051  # an average may be rounded to one digit
SHOWN = 10  # questions with the same problem that are named


def check_logs(logs_dir: Path | str | None = None) -> pd.DataFrame:
    """Return the problems of the logs in a folder or under a URL: one row per problem, errors first.

    Parameters
    ----------
    logs_dir
        The folder or URL; the project's logs unless given.

    Returns
    -------
    DataFrame
        - level: "error": `load_runs`, `load_results` and `load_scores` leave the log out, for some errors only with
          `text=True`. "warning": do not rely on the numbers of the log. "note": for information only
        - log: the log's file name
        - where: the place in the log, "" for the whole log
        - problem: a short name
        - what: what was found
        - remedy: what to do

    Raises
    ------
    ConfigError
        If there is no such folder.

    Notes
    -----
    These are the problems:

    - files that are truncated or cannot be read, and unfinished journals
    - scores that are missing, null or out of range, and averages and summaries that do not follow from the scores
    - six zeros without a reason, which older programs wrote when a judge's reply could not be parsed
    - ids that occur twice in a log, and two logs of one run
    - answers that were changed after they were judged
    - a judge that replied under several model names
    - a log that does not say who judged or when the run started

    Examples
    --------
    >>> import socjudge as sj
    >>> len(sj.history.check_logs("logs"))
    0
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    rows: list[tuple[str, ...]] = []
    owners: dict[str, str] = {}
    files = find_logs(logs_dir)
    for file in with_progress(files, say("history.checking")):
        try:
            raw = load_log(file.path)
            run = parse_log(raw, file.path)
        except ConfigError as error:
            remedy = say("history.mend_or_remove")
            rows.append(("error", file.name, "", "unreadable", str(error).removeprefix(f"{file.path}: "), remedy))
            continue
        except OSError as error:
            what, remedy = say("history.not_readable", reason=os_reason(error)), say("history.check_permissions")
            rows.append(("error", file.name, "", "unreadable", what, remedy))
            continue
        hashes = [row.get("answer_sha256") for row in from_json(raw)["results"]]
        rows += [(level, file.name, *rest) for level, *rest in _problems(run, file.name, hashes)]
        owner = owners.setdefault(run.run.run_id, file.name)
        if owner != file.name:
            what = say("history.same_run", run=run.run.run_id, owner=owner)
            rows.append(("error", file.name, "run", "duplicate run", what, say("history.remove_one")))
    rows += _journals(logs_dir)
    frame = pd.DataFrame(rows, columns=["level", "log", "where", "problem", "what", "remedy"])
    frame = frame.assign(level=pd.Categorical(frame["level"], categories=LEVELS, ordered=True))
    return frame.sort_values(["level", "log"], kind="stable", ignore_index=True)


def check_verdicts(results: pd.DataFrame) -> pd.DataFrame:
    """Return the MVP verdict on each run: whether it passes by the specification's rule. There is one row per run.

    Judge replies that could not be parsed count as missing scores, not as zeros.

    Parameters
    ----------
    results
        One row per judged answer, from `load_results`.

    Returns
    -------
    DataFrame
        - run_id, log
        - n: number of questions
        - n_unscored: number of questions without any score
        - n_missing: number of judged answers without any score
        - passed: number of scored questions that reach the pass line
        - mvp_passed: the verdict over the scored questions alone; missing if no question is scored
        - worst_case, best_case: the verdict if every missing score were 0 points, or 100 points
        - note: whether the missing scores can change the verdict, in the language of the messages

    Raises
    ------
    ConfigError
        If `results` is not a frame. A folder of logs, for example, is not one.

    Notes
    -----
    The repeats of a question are averaged first, as in the specification's rule. Each run has its own pass line and
    required pass rate.

    Examples
    --------
    >>> import socjudge as sj
    >>> verdicts = sj.history.check_verdicts(sj.load_results("logs"))
    >>> int(verdicts["n_unscored"].sum())
    0
    """
    if not isinstance(results, pd.DataFrame):
        raise ConfigError(say("history.verdicts_need_results", found=f"{results!r:.80}"))
    rows = []
    for (run_id, log), part in results.groupby(["run_id", "log"], observed=True, sort=False):
        spans, rule = frame_spans(part), frame_rule(part)
        points, means = spans["mean"], spans.groupby(part["question_id"], sort=False).mean()
        scored = means["mean"].dropna()
        worst, best = _passes(means["low"], rule), _passes(means["high"], rule)
        counts = len(means), len(means) - len(scored), int(points.isna().sum()), int(reaches(scored, rule.line).sum())
        note = _open_note(int((spans["low"] < spans["high"]).sum()), worst, best)
        rows.append((run_id, log, *counts, _passes(scored, rule) if len(scored) else pd.NA, worst, best, note))
    names = ["run_id", "log", "n", "n_unscored", "n_missing", "passed", "mvp_passed", "worst_case", "best_case", "note"]
    kinds = dict.fromkeys(["mvp_passed", "worst_case", "best_case"], "boolean")
    return pd.DataFrame(rows, columns=names).astype(kinds)


def _passes(points: pd.Series, rule: PassRule) -> bool:
    return bool(rule.is_met(reaches(points, rule.line).sum(), len(points), points.mean()))


def _open_note(count: int, worst: bool, best: bool) -> str:
    """Return a note that says whether missing scores can change the verdict.

    count: the number of judged answers with missing scores. worst, best: the verdict if every missing score were 0
    points, or 100 points.
    """
    if not count:
        return say("history.all_scored")
    if worst == best:
        return say("history.stays_passed" if best else "history.stays_failed", count=count)
    return say("history.hangs", count=count)


def _problems(run: EvaluationRun, log: str, hashes: list[str | None]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (level, where, problem, what, remedy) for each problem of a log that can be read.

    log: the log's file name. hashes: for each result, the answer hash that the log holds, or None.
    """
    info, rejudge = run.run, _rejudging(run, log)
    if not run.results:
        yield "warning", "results", "no results", say("history.no_results"), say("history.remove_or_run")
    if info.judge_model == UNKNOWN:
        remedy = say("history.note_judge", rejudge=rejudge)
        yield "note", "run", "judge unknown", say("history.judge_unknown"), remedy
    models = Counter(marks.model for marks in (result.evaluation for result in run.results) if marks.status == "ok")
    if len(models) > 1:
        told = listed(say("history.model_answers", model=model, count=count) for model, count in models.items())
        yield "warning", "results", "several models", say("history.several_models", models=told), rejudge
    if not info.started_at:
        yield "note", "run", "time unknown", say("history.time_unknown"), say("history.rename")
    ids = Counter((result.question.id, result.answer_repeat, result.judge_repeat) for result in run.results)
    for (question, _, _), count in ids.items():
        if count > 1:
            what = say("history.id_twice", question=question, count=count)
            yield "warning", "results", "duplicate id", what, say("history.ids_of_their_own")
    usual = Counter(criterion for result in run.results for criterion in result.evaluation.scores)
    places: dict[tuple[str, str, str, str], list[int]] = {}
    for place, (result, sha256) in enumerate(zip(run.results, hashes, strict=True)):
        for found in _row_problems(result, usual, run_rule(info).line, log, rejudge):
            places.setdefault(found, []).append(place)
        if sha256 and sha256 != answer_sha256(result.answer.answer, result.answer.context):
            remedy = say("history.put_back", rejudge=rejudge)
            places.setdefault(("warning", "answer changed", say("history.answer_changed"), remedy), []).append(place)
    for (level, problem, what, remedy), at in places.items():
        yield level, _where(run, at), problem, what, remedy
    yield from _summary_problems(run)


def _rejudging(run: EvaluationRun, log: str) -> str:
    """Return the command that judges a log's answers again. It names the log's judge and judge prompt if they are
    known.
    """
    said = {"--judge-model": run.run.judge_model, "--judge-prompt": run.run.judge_prompt_id}
    options = [f" {name} {shlex.quote(value)}" for name, value in said.items() if value != UNKNOWN]
    return say("history.rejudge", log=log, options="".join(options))


def _where(run: EvaluationRun, places: list[int]) -> str:
    ids = [str(run.results[place].question.id) for place in places]
    if len(places) == 1:
        return say("history.at_result", place=places[0], question=ids[0])
    more = say("history.at_more", count=len(ids) - SHOWN) if len(ids) > SHOWN else ""
    return say("history.at_results", count=len(ids), questions=listed(ids[:SHOWN]) + more)


def _row_problems(
    result: EvaluationResult, usual: Iterable[str], line: float, log: str, rejudge: str
) -> Iterator[tuple[str, str, str, str]]:
    marks = result.evaluation
    if marks.status == "suspect_zero":
        yield "warning", "suspect zero", say("history.suspect_zero"), rejudge
        return
    if marks.status != "ok":
        what = say("history.unscored", status=marks.status)
        if marks.error:
            what = say("history.unscored_because", status=marks.status, error=marks.error[:120])
        yield "warning", "unscored", what, say("history.repair", log=log) if marks.status == "failed" else rejudge
        return
    if absent := [criterion for criterion in usual if criterion not in marks.scores]:
        yield "warning", "criterion missing", say("history.criterion_missing", criteria=listed(absent)), rejudge
    mean = average(marks.scores)
    if abs(mean - marks.average_score) > ROUNDING:
        what = say("history.average_wrong", there=marks.average_score, here=mean)
        yield "warning", "average", what, say("history.correct_average", rejudge=rejudge)
    span = span_of(marks.scores, marks.average_score, marks.status)
    if marks.passed != (outcome_of(span, marks.status, line) == "passed"):
        what = say("history.passed_wrong", passed=_said(marks.passed), points=marks.average_score, line=line)
        yield "warning", "passed", what, say("history.correct_passed")


def _summary_problems(run: EvaluationRun) -> Iterator[tuple[str, str, str, str, str]]:
    right = summarise_results(run.results, run_rule(run.run))
    found = []
    for name in [field.name for field in fields(RunSummary)]:
        there, here = getattr(run.summary, name), getattr(right, name)
        if name == "n_unscored" and not there:
            continue  # the specification does not have this number
        room = {"average_score": ROUNDING, "pass_rate": 0.00051}.get(name, 0)
        if abs(there - here) > room or there != there:
            found.append(say("history.summary_differs", name=name, there=_said(there), here=_said(here)))
    if found:
        yield "warning", "summary", "summary", "; ".join(found), say("history.believe_results")


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _journals(logs_dir: Path | str) -> Iterator[tuple[str, ...]]:
    try:
        runs = unfinished_runs(logs_dir)
    except ConfigError as error:
        yield "warning", "", "", "damaged journal", str(error), say("history.mend_journal")
        return
    for run in runs:
        what = say("history.unfinished", done=run.done, total=run.total, judge=run.run.judge_model)
        yield "note", run.path.name, "", "unfinished run", what, say("history.go_on")
    for path in stubs(journal_folder(logs_dir)):
        yield "note", path.name, "", "unfinished run", say("history.stub"), say("history.remove_stub")
