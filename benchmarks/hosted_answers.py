"""How the embedded judge takes answers in a hosted model's words: good ones, broken ones, and changes that must not matter.

    python benchmarks/hosted_answers.py [PLACE] [--verbose]

Prints counts, the false alarms on good answers beside the faults seen. PLACE is a folder or a file, one of benchmarks/data
(SOURCE.md there) by its name. A folder, by default tests/data/hosted_answers, has good.jsonl (id, question_id of the sixty questions or `keypoints` of its own, question,
passages, answer), broken.jsonl (good_id, kind, criterion, fatal, answer) and fine_changes.jsonl (good_id, answer). A file
has whole lines, as shift/answers_final.jsonl (`A01-good` is the good answer that `A01-d1` damages), or edits of a good answer,
as those of voices/answers and voices/sealed.
--verbose lists what was not seen: leave it away with what is kept aside."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any

from packed_data import READ_BY_TESTS, find, unpacked

from socjudge import AssistantAnswer, EvalQuestion, Evaluation, evaluate_answer, load_eval_dataset
from socjudge.answering.citations import format_context
from socjudge.records import Flags, Passage

ROOT = Path(__file__).resolve().parents[1]
OWN = READ_BY_TESTS / "hosted_answers"
LOW = 30  # a criterion below this accuses an answer
FELL = 25  # points


@dataclass(frozen=True)
class Case:
    """An answer to be judged. criterion: what is broken in it, "" for a good one; of: the id of the good one that it breaks."""

    id: str
    of: str
    question: EvalQuestion
    answer: AssistantAnswer
    criterion: str = ""
    fatal: bool = False
    is_fine_change: bool = False


def load_cases(place: Path) -> list[Case]:
    """The answers of a folder or a file."""
    return _load_file(place) if place.is_file() else _load_folder(place)


def judge_all(cases: list[Case]) -> dict[str, Evaluation]:
    """What the embedded judge says to each case, by its id."""
    return {case.id: evaluate_answer(case.question, case.answer, model="offline") for case in cases}


def count(cases: list[Case], found: dict[str, Evaluation], *, verbose: bool = False) -> dict[str, tuple[float, int]]:
    """(how many, of how many) of what docs/offline.md lists; an AUROC as (value, pairs). found: as from `judge_all`."""
    good = [case for case in cases if not case.criterion and not case.is_fine_change]
    broken = [case for case in cases if case.criterion]
    fatal = [case for case in broken if case.fatal]

    def fell(case: Case) -> bool:
        return found[case.of].scores[case.criterion] - found[case.id].scores[case.criterion] >= FELL

    def is_accused(case: Case) -> bool:
        return min(found[case.id].scores.values()) < LOW

    def is_quiet(case: Case) -> bool:
        return all(abs(found[case.id].scores[c] - value) <= 5 for c, value in found[case.of].scores.items())

    if verbose:
        for case in broken:
            if not fell(case):
                print(case.id, case.criterion, dict(found[case.id].scores))
        for case in filter(is_accused, good):
            print(case.id, dict(found[case.id].scores), dict(found[case.id].rationale))
    counts: dict[str, tuple[float, int]] = {
        "good answers that pass": (sum(found[c.id].passed for c in good), len(good)),
        "good answers with every criterion at 85 or more": (
            sum(min(found[c.id].scores.values()) >= 85 for c in good),
            len(good),
        ),
        f"good answers accused: a criterion below {LOW}": (sum(map(is_accused, good)), len(good)),
        f"broken: its criterion falls by {FELL} or more": (sum(map(fell, broken)), len(broken)),
        f"broken fatally: fails, or has a criterion below {LOW}": (
            sum(not found[c.id].passed or is_accused(c) for c in fatal),
            len(fatal),
        ),
        "AUROC of fatally broken against good, by the lowest criterion": auroc(
            [min(found[c.id].scores.values()) for c in good], [min(found[c.id].scores.values()) for c in fatal]
        ),
        "AUROC of fatally broken against good, by the mean": auroc(
            [_mean(found[c.id]) for c in good], [_mean(found[c.id]) for c in fatal]
        ),
    }
    if changes := [case for case in cases if case.is_fine_change]:
        quiet = sum(map(is_quiet, changes))
        counts["changes that must not matter: no criterion moves by more than 5"] = (quiet, len(changes))
    return counts


def _mean(evaluation: Evaluation) -> float:
    return mean(evaluation.scores.values())


def auroc(good: list[float], bad: list[float]) -> tuple[float, int]:
    """How often a good answer's value is above a bad one's, ties by half; and the number of pairs."""
    pairs = [(a > b) + 0.5 * (a == b) for a in good for b in bad]
    return mean(pairs), len(pairs)


def _load_folder(folder: Path) -> list[Case]:
    read = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("good", "broken", "fine_changes")
    }
    questions = {q.id: q for q in load_eval_dataset(ROOT / "eval/eval_dataset_extended.json")}
    good = {row["id"]: row for row in read["good"]}

    def make(row: dict[str, Any], n: int, **more: Any) -> Case:
        of = good[row.get("good_id", row["id"])]
        question = questions.get(of["question_id"])
        if "keypoints" in of:
            question = EvalQuestion(of["question_id"], "正常系", of["question"], tuple(of["keypoints"]))
        assert question
        passages = tuple(Passage(p["text"], p["title"], p["heading"]) for p in of["passages"])
        flags = Flags(
            insufficient_evidence=question.category == "根拠不足系",
            dangerous_operation=question.category == "危険操作系",
            ambiguous_query=question.category == "曖昧質問系",
        )
        answer = AssistantAnswer(of["question"], row["answer"], format_context(passages), passages, flags)
        return Case(f"{row['id']}" if not more else f"{of['id']} {n} {more}", of["id"], question, answer, **more)

    return [
        *(make(row, n) for n, row in enumerate(read["good"])),
        *(make(row, n, criterion=row["criterion"], fatal=row["fatal"]) for n, row in enumerate(read["broken"])),
        *(make(row, n, is_fine_change=True) for n, row in enumerate(read["fine_changes"])),
    ]


def _load_file(path: Path) -> list[Case]:
    """The answers of a file: whole lines, or lines of voices, which name their sections and tell edits."""
    cases: list[Case] = []
    good: dict[str, dict[str, Any]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        of = row.get("of", row["id"])
        if "criterion" in row and "of" not in row:
            of = f"{row['id'].partition('-')[0]}-good" if row["criterion"] else row["id"]
        good.setdefault(of, row)
        whole = good[of] | row
        for old, new in row.get("edits", ()):
            whole["answer"] = whole["answer"].replace(old, new)
        question = EvalQuestion(whole["id"], whole["category"], whole["question"], tuple(whole["expected_keypoints"]))
        context = whole.get("context") or context_of(whole["runbooks"], whole["sections"])
        answer = AssistantAnswer(whole["question"], whole["answer"], context, (), Flags(**whole["flags"]))
        cases.append(Case(row["id"], of, question, answer, row.get("criterion", ""), row.get("fatal", False)))
    return cases


def context_of(runbooks: str, names: Sequence[str]) -> str:
    """What an assistant is given of some sections (`file.md > heading`); runbooks: a folder of voices/runbooks, "" for the
    bundled ones."""
    known = sections_of(runbooks)
    return "\n\n".join(f"[出典: {name}]\n{known[name]}" for name in names)


@cache
def sections_of(runbooks: str) -> dict[str, str]:
    """{file.md > heading: its text} of the runbooks in a folder; of a `##` without text, that of the `###` below it."""
    folder = unpacked() / "voices/runbooks" / runbooks if runbooks else ROOT / "eval/runbooks"
    found = {}
    for path in sorted(folder.glob("*.md")):
        parts = re.split(r"^(#{1,3}) +(.*)$", path.read_text("utf-8"), flags=re.MULTILINE)
        read = list(zip(["", *parts[1::3]], [path.stem, *parts[2::3]], parts[::3], strict=True))
        for n, (level, heading, text) in enumerate(read):
            below = takewhile(lambda row, level=level: len(row[0]) > len(level), read[n + 1 :])
            if text := text.strip() or "\n".join(f"{row[1]}\n{row[2].strip()}" for row in below if level == "##"):
                found[f"{path.name} > {heading.strip()}"] = text
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, default=OWN)
    parser.add_argument("--verbose", action="store_true", help="list what was not seen, and the good answers accused")
    arguments = parser.parse_args()
    cases = load_cases(find(arguments.place))
    for what, (hits, total) in count(cases, judge_all(cases), verbose=arguments.verbose).items():
        print(f"| {what} | {f'{hits:.3f}' if what.startswith('AUROC') else f'{hits} of {total}'} |")


if __name__ == "__main__":
    main()
