"""Write the output of a CI job about a run: a Markdown page, and a JUnit file for the job's list of tests.

The first three lines of the page are enough for a decision.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from .._version import __version__
from ..base.atomic_files import replacing
from ..base.messages import explained, listed, say
from ..base.missing_marks import Outcome
from ..base.pass_rule import run_rule
from ..base.showing import shown_path
from ..base.texts import visible
from ..base.verdict import (
    Verdict,
    answer_verdict,
    judge_verdict,
    judges_text,
    mark_text,
    mean_text,
    reason_text,
    run_verdict,
)
from ..certify.certificate import run_certificate_line
from ..errors import ConfigError
from ..history.frames import run_history
from ..records import EvaluationResult, EvaluationRun
from ..settings import yen_per_usd
from ..stats.gate import gate_confidence
from .contents import OUTCOMES, answers_of
from .effect import RunComparison
from .words import conclusion

_MOST_ROWS, _MOST_COMPARED = 20, 12  # answers, and lines about the earlier run
_LONGEST = 160  # characters of a cell
_MARK = f"<!-- socjudge {__version__} -->"
# JUnit's words
_KINDS: dict[Outcome, str] = {"passed": "", "failed": "failure", "open": "skipped", "unscored": "error"}
_OURS = (b"<!-- socjudge ", b'<testsuites name="socjudge"')

# Characters that Markdown or HTML could take for markup inside a line, and bare addresses, which GitHub would link.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~&$@]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NO_XML = re.compile("[\ufffe\uffff]")  # other characters that XML cannot hold are already replaced by `visible`


def job_page(run: EvaluationRun, *, against: RunComparison | str = "", uncertified: str = "") -> str:
    """Return a Markdown page of at most 60 lines about a run.

    The verdict, the reason, and what to do come first. The answers that did not pass or must be read follow.

    - against: the comparison with an earlier run, or a text that says why there is none; "" if none was asked for.
    - uncertified: why a judge lacks the required certificate. The page then gives no verdict. "" if no required
      certificate is missing.
    """
    runs = (run, *run.others)
    verdict, why, next_step = _head(run, uncertified)
    rows = [(*row, each.judge_model) for each in runs for row in _rows(each)]
    rows = [row for row in rows if row[0].outcome != "passed" or row[0].warning]
    rows.sort(key=lambda row: OUTCOMES.index(row[0].outcome))
    lines = ["", *filter(None, [verdict.warning and f"**⚠️ {_text(verdict.warning)}**", _text(verdict.note)])]
    if rows:
        heads = say("report.job_question"), say("report.job_verdict"), say("report.job_mean"), say("report.job_reason")
        lines += ["", f"| {' | '.join(heads)} |", "|---|---|---|---|"]
    for answered, result, reason, judge in rows[:_MOST_ROWS]:
        marks, question = result.evaluation, _text(f"{result.question.id} {result.question.question}", 60)
        mean = f"{marks.average_score:.1f}" if marks.status == "ok" else "–"
        cause = _text(f"{judge}: {reason}" if len(runs) > 1 else reason)
        lines.append(f"| {question} | {answered.said} | {mean} | {cause} |")
    if len(rows) > _MOST_ROWS:
        lines += ["", say("report.job_more_rows", count=len(rows) - _MOST_ROWS)]
    if against:
        told = [against] if isinstance(against, str) else against.lines
        lines += ["", f"### {say('report.job_against')}", ""]
        lines += [f"- {_text(line, 400)}" for line in told[:_MOST_COMPARED]]
    lines += ["", f"### {say('report.job_facts')}", ""]
    lines += [f"- {_text(line, 400)}" for line in _facts(run, [row[0].outcome for row in rows])]
    head = [f"## {_text(verdict.headline, 400)}", f"{_text(why, 400)}  ", _text(next_step, 400)]
    return "\n".join([*head, *lines, "", _MARK]) + "\n"


def _head(run: EvaluationRun, uncertified: str) -> tuple[Verdict, str, str]:
    """Return the verdict on a run, the reason for it, and what to do.

    uncertified: as for `job_page`.
    """
    verdict = run_verdict(run)
    if uncertified:
        return Verdict("open", say("report.job_uncertified")), uncertified, say("report.job_next_uncertified")
    own = run_history(run)
    scores, rule = own.scores, run_rule(run.run)
    answers = answers_of(scores, own.results, run.run.run_id)
    gate = gate_confidence(answers).iloc[0]
    found = conclusion(scores, answers, run.summary, verdict, judge_verdict(run), gate, rule)
    if verdict.outcome == "failed" and not verdict.is_reference:
        return verdict, found[0], say("report.job_next_failed")
    if verdict.outcome == "passed" and not verdict.is_reference:
        return verdict, found[0], say("report.job_next_passed")
    return verdict, found[0], found[-1]


def _rows(run: EvaluationRun) -> Iterator[tuple[Verdict, EvaluationResult, str]]:
    """Yield (verdict, result, reason) for each judged answer of a run.

    The reason says why the answer did not pass, or why a person must read it although it passed. It may be empty for a
    passed answer.
    """
    for result in run.results:
        verdict = answer_verdict(result.evaluation, run.rubric.pass_threshold)
        reason = verdict.warning if verdict.outcome == "passed" else _reason(result, verdict)
        yield verdict, result, reason


def _reason(result: EvaluationResult, verdict: Verdict) -> str:
    """Return why an answer did not pass.

    If the answer has no scores, the text says why. If missing scores leave the verdict open, it names the criteria
    without a score and the causes. Otherwise, it has the lowest score, with the judge's reason for it.
    """
    marks = result.evaluation
    if marks.status != "ok":
        return marks.error or say("report.job_unread")
    if verdict.reason:
        return verdict.reason
    known = {name: score for name, score in marks.scores.items() if score is not None}
    lowest = min(known, key=lambda name: known[name])
    return say("report.job_lowest", criterion=lowest, mark=known[lowest], reason=reason_text(marks, lowest))


def _facts(run: EvaluationRun, outcomes: list[Outcome]) -> list[str]:
    info, runs = run.run, (run, *run.others)
    costs = [each.cost_usd for each in runs]
    usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    cost = say("report.job_cost_unknown") if usd is None else say("report.job_cost", usd=usd, yen=usd * yen_per_usd())
    return [
        *([judges_text(run)] if run.judges_asked > 1 else []),
        say("report.job_counts", open=outcomes.count("open"), unscored=outcomes.count("unscored")),
        cost,
        *(run_certificate_line(each) for each in runs),
        say("report.job_made_by", judge=listed(each.judge_model for each in runs), assistant=info.assistant_model,
            prompt=info.judge_prompt_id),
        *([] if run.log_path is None else [say("report.job_log", path=shown_path(run.log_path))]),
    ]  # fmt: skip


def stopped_page(reason: str, *, is_uncertified: bool = False) -> str:
    """Return the Markdown page of a CI job that ended before there was a run. It has the reason.

    is_uncertified: whether the reason is that a judge lacks the required certificate.
    """
    verdict = Verdict("open", say("report.job_uncertified" if is_uncertified else "report.job_stopped"))
    next_step = say("report.job_next_uncertified" if is_uncertified else "report.job_next_stopped")
    return f"## {verdict.headline}\n{_text(reason, 1000)}  \n{next_step}\n\n{_MARK}\n"


def _text(text: str, most: int = _LONGEST) -> str:
    """Return a text as one line, cut after `most` characters. Characters that Markdown takes for markup are escaped."""
    line = " ".join(visible(text).split())
    line = line if len(line) <= most else f"{line[:most]}…"
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", line)


# -- JUnit


def job_junit(run: EvaluationRun, *, uncertified: str = "") -> bytes:
    """Return a run as JUnit's XML.

    There is a suite for the verdict on the run, and a suite per judge with one case per judged answer. A case has one
    of these tags, or none if the answer passed:

    - failure: the answer did not pass.
    - error: there is no answer, or the judge's reply could not be parsed.
    - skipped: the verdict on the answer is left open (判定保留).

    uncertified: as for `job_page`.
    """
    verdict, why, next_step = _head(run, uncertified)
    kind, message = "failure" if uncertified else _KINDS[verdict.outcome], verdict.headline
    is_repeated = run.run.answer_repeats > 1 or run.run.judge_repeats > 1
    answers = [
        (each.judge_model, [_of_answer(*row, is_repeated) for row in _rows(each)]) for each in (run, *run.others)
    ]
    return _junit(_of_run(kind, message if verdict.outcome != "passed" else "", f"{why}\n{next_step}"), answers)


def stopped_junit(reason: str) -> bytes:
    """Return JUnit's XML of a CI job that ended before there was a run. It has one error."""
    return _junit(_of_run("error", say("report.job_stopped"), reason), [])


def _junit(of_run: ET.Element, answers: list[tuple[str, list[ET.Element]]]) -> bytes:
    """Return JUnit's XML, with the counts of cases that JUnit requires.

    - of_run: the case for the verdict on the run.
    - answers: for each judge, its name and its cases.
    """
    root = ET.Element("testsuites", {"name": "socjudge"})
    for name, own in [(say("report.job_verdict"), [of_run]), *answers]:
        ET.SubElement(root, "testsuite", {"name": _xml_text(name)}).extend(own)
    for suite in (*root, root):
        cases = list(suite.iter("testcase"))
        tags = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        counts = {name: sum(case.find(tag) is not None for case in cases) for name, tag in tags.items()}
        suite.attrib |= {name: str(count) for name, count in (counts | {"tests": len(cases)}).items()}
        suite.set("time", f"{sum(float(case.attrib['time']) for case in cases):.3f}")
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _of_run(kind: str, message: str, body: str) -> ET.Element:
    return _case("socjudge", say("report.job_of_run"), 0.0, kind, message, body)


def _of_answer(verdict: Verdict, result: EvaluationResult, reason: str, is_repeated: bool) -> ET.Element:
    marks, question = result.evaluation, result.question
    name = f"{question.id}. {question.question}"
    name += f" #{result.answer_repeat + 1}.{result.judge_repeat + 1}" if is_repeated else ""
    told = [f"{name} {mark_text(mark)}: {reason_text(marks, name)}" for name, mark in marks.scores.items()]
    body = "\n".join([mean_text(marks), *told]) if marks.status == "ok" else marks.raw_text
    seconds = result.answer.processing_time + marks.processing_time
    return _case(f"socjudge.{question.category}", name, seconds, _KINDS[verdict.outcome], reason, body)


def _case(group: str, name: str, seconds: float, kind: str, message: str, body: str) -> ET.Element:
    """Build a JUnit case.

    - group: the class name of the case. Programs that show JUnit files group the cases by it.
    - kind: the tag of the case, which is failure, error or skipped; empty if the case passed.
    - message, body: the short and the long text of the case.
    """
    names = {"classname": _xml_text(group), "name": _xml_text(" ".join(name.split())), "time": f"{seconds:.3f}"}
    case = ET.Element("testcase", names)
    if kind:
        told = ET.SubElement(case, kind, {"message": _xml_text(message)})
        if kind != "skipped":
            told.set("type", kind)
            told.text = _xml_text(body)
    elif message:
        ET.SubElement(case, "system-out").text = _xml_text(message)
    return case


def _xml_text(text: str) -> str:
    return _NO_XML.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", visible(text))


# -- files


def write_job_file(path: Path, content: bytes) -> None:
    """Write the Markdown page or the JUnit file as a whole or not at all.

    Raises ConfigError if the file cannot be written, or if it already exists and socjudge did not write it.
    """
    with explained("report.cannot_write", path=path):
        if path.is_file() and (old := path.read_bytes()) and not any(mark in old for mark in _OURS):
            raise ConfigError(say("report.job_not_ours", path=path))
        with replacing(path) as file:
            file.write(content)
