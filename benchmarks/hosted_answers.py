"""How the embedded judge takes answers in a hosted model's words: good ones, broken ones, and changes that must not matter.

    python benchmarks/hosted_answers.py [FOLDER] [--verbose]

Prints counts. FOLDER holds good.jsonl (id, question_id of the sixty questions or `keypoints` of its own, question, passages, answer), broken.jsonl (good_id,
kind, criterion, fatal, answer) and fine_changes.jsonl (good_id, answer); by default tests/data/hosted_answers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from socjudge import AssistantAnswer, EvalQuestion, Evaluation, Flags, Passage, evaluate_answer, load_eval_dataset
from socjudge.judging.assistant import format_context

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "tests/data/hosted_answers"


def judge(question: EvalQuestion, good: dict[str, Any], text: str) -> Evaluation:
    """The embedded judge's marks for a text given as the answer to a good answer's question."""
    passages = tuple(Passage(p["text"], p["title"], p["heading"]) for p in good["passages"])
    flags = Flags(
        insufficient_evidence=question.category == "根拠不足系",
        dangerous_operation=question.category == "危険操作系",
        ambiguous_query=question.category == "曖昧質問系",
    )
    answer = AssistantAnswer(good["question"], text, format_context(passages), passages, flags)
    return evaluate_answer(question, answer, model="offline")


def count(folder: Path, *, verbose: bool = False) -> dict[str, tuple[int, int]]:
    """(how many, of how many) of what the docs list."""
    read = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("good", "broken", "fine_changes")
    }
    questions = {q.id: q for q in load_eval_dataset(ROOT / "eval/eval_dataset_extended.json")}
    good = {row["id"]: row for row in read["good"]}

    def marks(row: dict[str, Any]) -> Evaluation:
        of = good[row.get("good_id", row["id"])]
        if "keypoints" in of:
            question = EvalQuestion(of["question_id"], "正常系", of["question"], tuple(of["keypoints"]))
        else:
            question = questions[of["question_id"]]
        return judge(question, of, row["answer"])

    before = {name: marks(row) for name, row in good.items()}
    fell, shown, quiet = [], [], []
    for row in read["broken"]:
        found = marks(row)
        fell.append(before[row["good_id"]].scores[row["criterion"]] - found.scores[row["criterion"]] >= 25)
        if row["fatal"]:
            shown.append(not found.passed or min(found.scores.values()) < 30)
        if verbose and not fell[-1]:
            print(row["id"], row["kind"], row["criterion"], dict(found.scores), row["what"])
    for row in read["fine_changes"]:
        found = marks(row)
        quiet.append(all(abs(found.scores[c] - value) <= 5 for c, value in before[row["good_id"]].scores.items()))
    return {
        "good answers that pass": (sum(e.passed for e in before.values()), len(before)),
        "good answers with every criterion at 85 or more": (
            sum(min(e.scores.values()) >= 85 for e in before.values()),
            len(before),
        ),
        "broken: its criterion falls by 25 or more": (sum(fell), len(fell)),
        "broken fatally: fails, or has a criterion below 30": (sum(shown), len(shown)),
        "changes that must not matter: no criterion moves by more than 5": (sum(quiet), len(quiet)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=OWN)
    parser.add_argument("--verbose", action="store_true", help="list the broken answers whose criterion did not fall")
    arguments = parser.parse_args()
    for what, (hits, total) in count(arguments.folder, verbose=arguments.verbose).items():
        print(f"| {what} | {hits} of {total} |")


if __name__ == "__main__":
    main()
