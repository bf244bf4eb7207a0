"""How the embedded judge reacts when a good answer is damaged in one way at a time.

    python benchmarks/offline_judge.py [--split dev|final|both] [--verbose]

Prints Markdown tables: the scores of the good answers, and for each damage on how many of the questions where it
applies its criterion fell while all others stayed within 10 points."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.damages import BREAKS, DAMAGES, Item, good_answer

from socjudge import AssistantAnswer, EvalQuestion, evaluate_answer
from socjudge.answering.citations import format_context
from socjudge.records import Flags, Passage

TOLERANCE = 10  # points that the other criteria may move


def load_items(split: str = "both") -> list[Item]:
    """The stored good answers: "dev" (the ten questions), "final" (ten others), or "both"."""
    items = json.loads((ROOT / "tests/data/good_answers.json").read_text("utf-8"))
    return [item for item in items if split in ("both", item["split"])]


def score(item: Item, answer: str) -> dict[str, int]:
    """The embedded judge's six scores for a text given as the item's answer."""
    passages = tuple(Passage(p["text"], p["source"], p["heading"]) for p in item["passages"])
    question = EvalQuestion(item["id"], item["category"], item["question"], tuple(item["expected_keypoints"]))
    given = AssistantAnswer(item["question"], answer, format_context(passages), passages, Flags(**item["flags"]))
    return dict(evaluate_answer(question, given, model="offline").scores)


def react(items: list[Item]) -> list[dict[str, Any]]:
    """One row per item and damage that applies: damage, id, criterion, changes {criterion: points}, held."""
    rows = []
    for item in items:
        before = score(item, good_answer(item))
        for name, (damage, criterion) in DAMAGES.items():
            damaged = damage(item)
            if damaged is None:
                continue
            after = score(item, damaged)
            changes = {c: after[c] - before[c] for c in before}
            others = max(abs(change) for c, change in changes.items() if c != criterion)
            held = changes[criterion] < 0 and others <= TOLERANCE
            rows.append({"damage": name, "id": item["id"], "criterion": criterion, "changes": changes, "held": held})
    return rows


def fall(items: list[Item]) -> list[dict[str, Any]]:
    """One row per item and break that applies: name, id, criterion, fall (points), mean (of the broken answer), lowest."""
    rows = []
    for item in items:
        before = score(item, good_answer(item))
        for name, (damage, criterion) in BREAKS.items():
            broken = damage(item)
            if broken is not None:
                after = score(item, broken)
                rows.append(
                    {
                        "break": name,
                        "id": item["id"],
                        "criterion": criterion,
                        "fall": before[criterion] - after[criterion],
                        "mean": sum(after.values()) / len(after),
                        "lowest": min(after.values()),
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["dev", "final", "both"], default="both")
    parser.add_argument("--verbose", action="store_true", help="show the changes of every case that did not hold")
    arguments = parser.parse_args()
    items = load_items(arguments.split)
    good = {item["id"]: score(item, good_answer(item)) for item in items}
    criteria = list(next(iter(good.values())))
    print(f"| question | {' | '.join(criteria)} |\n|---|{'---|' * len(criteria)}")
    for item_id, scores in good.items():
        print(f"| {item_id} | {' | '.join(str(scores[c]) for c in criteria)} |")
    rows = react(items)
    print(
        "\n| damage | its criterion | held | smallest fall | median fall | largest change elsewhere |\n|---|---|---|---|---|---|"
    )
    for name, (_, criterion) in DAMAGES.items():
        mine = [row for row in rows if row["damage"] == name]
        falls = sorted(-row["changes"][criterion] for row in mine)
        elsewhere = max(abs(v) for row in mine for c, v in row["changes"].items() if c != criterion)
        held = sum(row["held"] for row in mine)
        print(f"| {name} | {criterion} | {held} of {len(mine)} | {falls[0]} | {falls[len(falls) // 2]} | {elsewhere} |")
    falls = fall(items)
    print("\n| break | its criterion | falls by 25 or more | fails, or has a criterion below 30 |\n|---|---|---|---|")
    for name, (_, criterion) in BREAKS.items():
        mine = [row for row in falls if row["break"] == name]
        fell, shown = sum(r["fall"] >= 25 for r in mine), sum(r["mean"] < 70 or r["lowest"] < 30 for r in mine)
        print(f"| {name} | {criterion} | {fell} of {len(mine)} | {shown} of {len(mine)} |")
    fell, shown = sum(r["fall"] >= 25 for r in falls), sum(r["mean"] < 70 or r["lowest"] < 30 for r in falls)
    print(f"| all | | {fell} of {len(falls)} | {shown} of {len(falls)} |")
    if arguments.verbose:
        for row in falls:
            if row["fall"] < 25:
                print(row)
        for row in rows:
            if not row["held"]:
                print(row["damage"], row["id"], row["criterion"], row["changes"])


if __name__ == "__main__":
    main()
