"""Check a project's questions, runbooks and logs, and say what to do about each finding. No file is changed."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from .. import constants
from ..answering.dataset import dataset_notes, load_eval_dataset
from ..base.messages import listed, os_reason, say
from ..base.verdict import part_text, run_verdict
from ..errors import ConfigError
from ..prompts.templates import pretended_name
from ..records import UNKNOWN, EvaluationResult, EvaluationRun
from ..runbooks.companions import load_organisation, load_questions, load_synonyms
from ..runbooks.reading import decode_runbook, find_runbooks, split_runbook
from ..runs.logs import load_log, newer_text, parse_log
from ..runs.unfinished import UnfinishedRun, journal_files
from .reading import list_logs, moment_of

LEVELS = ["error", "warning", "note"]
SHOWN = 10  # questions with the same problem that are named


class _Finding(NamedTuple):
    level: str
    file: str
    where: str
    problem: str
    what: str
    remedy: str


def check_dataset(path: Path | str | None = None) -> pd.DataFrame:
    """Return why no run can use a dataset (errors), and what makes it weak (notes), as `check_logs` does."""
    path = Path(path or constants.EVAL_DATASET_PATH)
    try:
        notes = dataset_notes(load_eval_dataset(path))
    except ConfigError as error:
        return _frame([_unreadable(path.name, error, path)])
    remedy = say("add to the questions in this file, or change them")
    return _frame(_Finding("note", path.name, "", "weak", note, remedy) for note in notes)


def check_runbooks(folder: Path | str | None = None) -> pd.DataFrame:
    """Return why no index can be built (errors), and what runbooks lose or repeat, as `check_logs` does."""
    return _frame(_of_runbooks(Path(folder or constants.RUNBOOKS_DIR)))


def _of_runbooks(folder: Path) -> Iterator[_Finding]:
    try:
        with warnings.catch_warnings(record=True) as left_out:
            warnings.simplefilter("always")
            files = find_runbooks(folder)
    except ConfigError as error:
        yield _unreadable(folder.name, error, folder)
        return
    useless = say("correct it, or move it out of the folder of the runbooks")
    for each in left_out:
        yield _Finding("warning", folder.name, "", "left out", str(each.message), useless)
    owners: dict[str, str] = {}
    for path, source in files:
        try:
            text, notes = decode_runbook(path.read_bytes(), path)
        except (ConfigError, OSError) as error:
            yield _unreadable(source, error, path)
            continue
        for note in notes:
            remedy = say("write what an answer needs of it as plain text in UTF-8, or leave it")
            yield _Finding("note", source, listed(note.places), note.problem, note.what, remedy)
        if not split_runbook(text, source):
            no_text = say("{path}: no text below its headings; skipped", path=path)
            yield _Finding("warning", source, "", "no text", no_text, useless)
        elif (owner := owners.setdefault(text.strip(), source)) != source:
            same = say("it has the same text as {owner}", owner=owner)
            yield _Finding("warning", source, "", "duplicate", same, say("remove one of the two"))
    for load in (load_synonyms, load_questions, load_organisation):
        try:
            load(folder)
        except ConfigError as error:
            yield _unreadable(folder.name, error, folder)


def check_logs(logs_dir: Path | str | None = None) -> pd.DataFrame:
    """Return what is wrong with the logs in a folder: one row per finding, errors first.

    The folder is that of the project's logs unless given; ConfigError if there is no such folder. The columns are:

    - level: "error": `load_runs`, `load_results` and `load_scores` leave the log out. "warning": do not rely on the
      numbers of the log. "note": for information only
    - file: the name of the file
    - where: the place in the file, "" for the whole file
    - problem: a short name: "unreadable", "duplicate", "unscored", "criterion missing", "prompt" (it has a built-in
      prompt's name and another text), "contradictory" (it has no pass line, and what it calls passed does not fit
      the specification's), "part", "newer" (written by a newer version), "undated", "unfinished" (a journal)
    - what: what was found
    - remedy: what to do

    Examples
    --------
    >>> import socjudge as sj
    >>> len(sj.history.check_logs("logs"))
    0
    """
    logs_dir = logs_dir or constants.LOGS_DIR
    found, owners = list[_Finding](), dict[str, str]()
    for file in list_logs(logs_dir):
        try:
            run = parse_log(load_log(file), file)
        except (ConfigError, OSError) as error:
            found.append(_unreadable(file.name, error, file))
            continue
        if (owner := owners.setdefault(run.run.run_id, file.name)) != file.name:
            same = say("the same run {run} as {owner}", run=run.run.run_id, owner=owner)
            found.append(_Finding("error", file.name, "run", "duplicate", same, say("remove one of the two")))
        found += _of_run(run, file.name)
    return _frame([*found, *_of_journals(logs_dir)])


def _frame(found: Iterable[_Finding]) -> pd.DataFrame:
    frame = pd.DataFrame(found, columns=_Finding._fields)
    frame = frame.assign(level=pd.Categorical(frame["level"], categories=LEVELS, ordered=True))
    return frame.sort_values(["level", "file"], kind="stable", ignore_index=True)


def _unreadable(name: str, error: ConfigError | OSError, path: Path) -> _Finding:
    if isinstance(error, OSError):
        what = say("cannot be read ({reason})", reason=os_reason(error))
        return _Finding("error", name, "", "unreadable", what, say("check its permissions"))
    what = str(error).removeprefix(f"{path}: ")
    return _Finding("error", name, "", "unreadable", what, say("correct or remove the file"))


def _of_run(run: EvaluationRun, log: str) -> Iterator[_Finding]:
    info, command = run.run, f"socjudge rejudge --log {shlex.quote(log)}"
    own = pretended_name(info.judge_prompt_id)
    as_before = {"--judge-model": info.judge_model, "--judge-prompt": own or info.judge_prompt_id}
    options = "".join(f" {name} {shlex.quote(value)}" for name, value in as_before.items() if value != UNKNOWN)
    again = "judge its answers again: {command}"
    if own:
        what = say("its judge prompt is called {name}, and the text is not that of {name}", name=own)
        words = "read judge_prompt_text in the log, or judge its answers again: {command}"
        remedy = say(words, command=f"{command} --judge-prompt {own}")
        yield _Finding("warning", log, "run", "prompt", what, remedy)
    if run.summary.is_contradictory:
        remedy = say(again, command=command + options)
        yield _Finding("warning", log, "summary", "contradictory", run_verdict(run).reason, remedy)
    if run.summary.is_part:
        told = part_text(run.summary.judged, run.summary.asked)
        remedy = say("a part has no verdict; take the log of the whole run")
        yield _Finding("warning", log, "results", "part", told, remedy)
    if told := newer_text(info.schema_version):
        yield _Finding("warning", log, "run.schema_version", "newer", told, say("update socjudge"))
    if moment_of(info.started_at) is None:
        told = say("the start is no time ({found}), so since leaves the log out", found=info.started_at)
        yield _Finding("note", log, "run.started_at", "undated", told, say("correct or remove the file"))
    ids: dict[tuple[str, str], list[str]] = {}
    for result in run.results:
        if lacking := _lacks(result):
            ids.setdefault(lacking, []).append(str(result.question.id))
    for (problem, what), at in ids.items():
        shown = listed(at[:SHOWN]) + (" …" if len(at) > SHOWN else "")
        where = say("{count} results (questions {questions})", count=len(at), questions=shown)
        # Only the judge of the other rows may fill the gaps.
        fills = problem == "unscored" and info.judge_model != UNKNOWN
        remedy = say(again, command=command + (" --only-failed" if fills else options))
        yield _Finding("warning", log, where, problem, what, remedy)


def _lacks(result: EvaluationResult) -> tuple[str, str] | None:
    evaluation = result.evaluation
    if evaluation.status != "ok":
        error = f": {evaluation.error[:120]}" if evaluation.error else ""
        return "unscored", say("the answer has no score ({status})", status=f"{evaluation.status}{error}")
    absent = [criterion for criterion, cause in evaluation.missing.items() if cause == "absent"]
    return ("criterion missing", say("no score for {criteria}", criteria=listed(absent))) if absent else None


def _of_journals(logs_dir: Path | str) -> Iterator[_Finding]:
    for path in journal_files(Path(logs_dir)):
        try:
            run = UnfinishedRun(path)
        except ConfigError as error:
            remedy = say("finish the run as the message says, or move the file elsewhere")
            yield _Finding("warning", path.name, "", "unreadable", str(error), remedy)
            continue
        if run.total:  # otherwise it was killed before anything was paid for
            words = "{done} of {total} judged answers, judge {judge}"
            what = say(words, done=run.done, total=run.total, judge=run.run.judge_model)
            remedy = say("start the same run again to go on, or delete the file")
            yield _Finding("note", path.name, "", "unfinished", what, remedy)
