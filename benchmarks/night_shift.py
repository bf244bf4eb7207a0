"""Asks the embedded assistant labelled questions of a night shift and checks what a tired reader would need.

    python benchmarks/night_shift.py [FILE.jsonl ...] [--runbooks FOLDER] [--show ID ...] [--list]

Without files: night_dev.jsonl of benchmarks/data, which the assistant was tuned on. A line holds id, kind, question, runbooks,
sections, flags and flags_optional, and, where they apply, first_step, facts, forbidden, prohibition and
prohibition_alt. What "useful" means here stands in benchmarks/assistant.md. --list names the answers that are not useful and
why; --show prints answers: leave both away with questions that are kept for measuring.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from packed_data import find

from socjudge import handle_query
from socjudge.constants import RUNBOOKS_DIR
from socjudge.records import AssistantAnswer
from socjudge.runbooks.index import RunbookIndex, build_index

FLAGS = {"insufficient_evidence": "根拠不足", "dangerous_operation": "危険操作", "ambiguous_query": "曖昧質問"}

_STEP = re.compile(r"^\d+\. ")
_CITED = re.compile(r"\[出典: (?P<stem>[^\]>]+?)\.\w+(?: > (?P<heading>[^\]]+))?\]")


@dataclass(frozen=True)
class Check:
    """What was found wrong with one answer. None: the question has no label for it."""

    question: dict[str, Any]
    raised: dict[str, bool]
    runbook: bool | None
    first_step: bool | None
    faults: tuple[str, ...]
    ms: float

    @property
    def useful(self) -> bool:
        """Whether nothing is wrong that a reader depends on (benchmarks/assistant.md)."""
        return not self.faults


def load_questions(path: Path) -> list[dict[str, Any]]:
    """The labelled questions of one file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def check(question: dict[str, Any], answer: AssistantAnswer, ms: float = 0.0) -> Check:
    """One answer against its labels."""
    raised = {flag: bool(value) for flag, value in asdict(answer.flags).items()}
    lines = [line for line in answer.answer.splitlines() if line.strip() and not line.startswith("⚠️")]
    steps = [line for line in lines if _STEP.match(line)]
    body = _fold("\n".join(lines))
    wanted, optional = question["flags"], question["flags_optional"]
    faults = [
        f"{FLAGS[flag]} {'wrongly raised' if raised[flag] else 'not raised'}"
        for flag in FLAGS
        if raised[flag] != wanted[flag] and flag not in optional
    ]
    if any(_fold(text) in body for text in question.get("forbidden", ())):
        faults.append("recommends what is forbidden")
    runbook = first_step = None
    if not question["runbooks"]:
        if steps:
            faults.append("gives steps where there are none to give")
        return Check(question, raised, None, None, tuple(faults), ms)

    cited = _CITED.search("\n".join(lines))
    runbook = cited is not None and cited["stem"] in question["runbooks"]
    opening = _fold("\n".join([*lines[:2], *steps[:1]]))
    if question.get("first_step"):
        first_step = any(_fold(text) in opening for text in question["first_step"])
    elif "first_step" not in question and not wanted["dangerous_operation"]:
        found = _CITED.search(steps[0]) if steps else None
        heading = (found["heading"] or "") if found else ""
        first_step = runbook and any(words in heading for words in question["sections"])
    prohibitions = [question.get("prohibition"), *(question.get("prohibition_alt") or ())]
    if not runbook:
        faults.append("another runbook first")
    if first_step is False:
        faults.append("another first step")
    faults += [
        f"lacks {' / '.join(choices)}"
        for choices in question.get("facts", ())
        if not any(_fold(text) in _fold(answer.answer) for text in choices)
    ]
    if wanted["dangerous_operation"] and any(prohibitions):
        before = _fold("\n".join(lines[: lines.index(steps[0])] if steps else lines))
        if not any(text and _fold(text) in before for text in prohibitions):
            faults.append("the prohibition is not quoted before the steps")
    return Check(question, raised, runbook, first_step, tuple(faults), ms)


def ask_all(questions: list[dict[str, Any]], index: RunbookIndex) -> list[tuple[Check, AssistantAnswer]]:
    """Each question asked of the embedded assistant, alone, and checked."""
    handle_query("端末隔離の手順は？", index=index, model="offline")  # what is loaded once is not timed
    checked = []
    for question in questions:
        begin = time.perf_counter()
        answer = handle_query(question["question"], index=index, model="offline")
        checked.append((check(question, answer, 1000 * (time.perf_counter() - begin)), answer))
    return checked


def report(checks: list[Check]) -> str:
    """Two Markdown tables: per kind of question, and per flag."""
    kinds = {
        kind: [c for c in checks if c.question["kind"] == kind] for kind in sorted({c.question["kind"] for c in checks})
    }
    lines = [
        "| kind | questions | useful | right runbook first | right first step | ms, median | ms, most |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, some in {**kinds, "all": checks}.items():
        ms = [c.ms for c in some]
        shares = [
            _share([c.useful for c in some]),
            _share([c.runbook for c in some]),
            _share([c.first_step for c in some]),
        ]
        lines.append(f"| {kind} | {len(some)} | {' | '.join(shares)} | {median(ms):.0f} | {max(ms):.0f} |")
    lines += ["", "| flag | labelled | right | wrong | missed | precision | recall |", "|---|---|---|---|---|---|---|"]
    for flag, name in FLAGS.items():
        counted = [c for c in checks if flag not in c.question["flags_optional"]]
        pairs = [(c.raised[flag], c.question["flags"][flag]) for c in counted]
        right, wrong, missed = (pairs.count(pair) for pair in ((True, True), (True, False), (False, True)))
        rates = (f"{right / n:.2f}" if n else "–" for n in (right + wrong, right + missed))
        lines.append(f"| {name} | {right + missed} | {right} | {wrong} | {missed} | {' | '.join(rates)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[Path("night_dev.jsonl")])
    parser.add_argument("--runbooks", type=Path, default=RUNBOOKS_DIR)
    parser.add_argument("--list", action="store_true", help="what is wrong with which answer")
    parser.add_argument("--show", nargs="*", default=[], metavar="ID", help="print these answers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(args.runbooks, index_dir=folder)
        for path in args.files:
            checked = ask_all(load_questions(find(path)), index)
            print(f"{path.name}\n\n{report([found for found, _ in checked])}\n")
            for found, answer in checked:
                if args.list and found.faults:
                    print(found.question["id"], found.question["kind"], "; ".join(found.faults))
                if found.question["id"] in args.show:
                    print(f"\n=== {found.question['id']} {found.question['question']}\n{answer.answer}\n")


def _fold(text: str) -> str:
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def _share(values: list[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known)}/{len(known)}" if known else "–"


if __name__ == "__main__":
    main()
