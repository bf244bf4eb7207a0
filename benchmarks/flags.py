"""Precision, recall and F1 of the three flags on labelled questions, as a Markdown table.

    python benchmarks/flags.py [--split dev|dev2|final|all] [--errors dev|dev2]

dev and final halve tests/data/flags.jsonl; the others are packed (benchmarks/data/SOURCE.md). final and flags_blind are for
checking only: their questions are counted here and never listed. benchmarks/fit_flags.py finds the weights.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from packed_data import READ_BY_TESTS, unpacked

from socjudge.constants import RUNBOOKS_DIR
from socjudge.flags.raising import raise_flags
from socjudge.records import Flags
from socjudge.runbooks.index import RunbookIndex, build_index

FLAGS = {
    "insufficient_evidence": "根拠不足",
    "dangerous_operation": "危険操作",
    "ambiguous_query": "曖昧質問",
}


def load_questions(split: str) -> list[dict[str, Any]]:
    """The labelled questions of one split: "dev" and "final" halve flags.jsonl, "dev2" is a file of its own."""
    path = unpacked() / "flags_dev2.jsonl" if split == "dev2" else READ_BY_TESTS / "flags.jsonl"
    with path.open(encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if row["split"] == split or split == "dev2"]


def count(rows: list[dict[str, Any]], raised: list[Flags], flag: str) -> str:
    """One line of the table: how often the flag was raised rightly, wrongly, and not raised where it should be."""
    pairs = [(getattr(flags, flag), row[flag]) for row, flags in zip(rows, raised, strict=True)]
    right, wrong, missed = (pairs.count(pair) for pair in ((True, True), (True, False), (False, True)))
    precision = right / (right + wrong) if right + wrong else float("nan")
    recall = right / (right + missed) if right + missed else float("nan")
    f1 = 2 * right / (2 * right + wrong + missed) if right + wrong + missed else float("nan")
    return (
        f"| {len(rows)} | {right + missed} | {right} | {wrong} | {missed} | {precision:.3f} | {recall:.3f} | {f1:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["dev", "dev2", "final", "all"], default="all")
    parser.add_argument("--errors", choices=["dev", "dev2"], help="list the wrong flags of a development split")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(RUNBOOKS_DIR, index_dir=folder)
    splits = ["dev", "dev2", "final"] if args.split == "all" else [args.split]
    print("| flag | half | questions | labelled | right | wrong | missed | precision | recall | F1 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    errors = []
    for split in splits:
        rows = load_questions(split)
        raised = [raise_flags(row["question"], index=index) for row in rows]
        for flag, name in FLAGS.items():
            print(f"| {name} | {split} {count(rows, raised, flag)}")
        if split == args.errors:
            errors = [
                f"- {name} {'missed' if row[flag] else 'wrong'}: {row['id']} {row['question']}"
                for row, flags in zip(rows, raised, strict=True)
                for flag, name in FLAGS.items()
                if getattr(flags, flag) != row[flag]
            ]
    if args.errors:
        print("", *(errors or ["- none"]), sep="\n")
    if args.split == "all":
        print_blind(index)
        for name in ("final", "sealed"):
            count_dangers(unpacked() / "warnings" / f"{name}.jsonl", index)


def count_dangers(path: Path, index: RunbookIndex) -> None:
    """How often 危険操作 is right on one file of warnings; its questions are not shown."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    labelled = [{"dangerous_operation": bool(row["danger"])} for row in rows]
    raised = [raise_flags(row["question"], index=index) for row in rows]
    print(f"| 危険操作 | {path.name} {count(labelled, raised, 'dangerous_operation')}")


def print_blind(index: RunbookIndex) -> None:
    """How often each flag is raised per kind of question, of those written by somebody who had seen no rule."""
    lines = (unpacked() / "flags_blind.jsonl").read_text(encoding="utf-8").splitlines()
    raised: dict[str, list[Flags]] = {}
    for row in map(json.loads, lines):
        raised.setdefault(row["kind"], []).append(raise_flags(row["question"], index=index))
    print("\n| blind | questions | " + " | ".join(FLAGS.values()) + " |\n|---|---|---|---|---|")
    for kind, some in raised.items():
        counts = " | ".join(str(sum(getattr(flags, flag) for flags in some)) for flag in FLAGS)
        print(f"| {kind} | {len(some)} | {counts} |")


if __name__ == "__main__":
    main()
