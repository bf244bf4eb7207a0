"""How the embedded judge takes single sentences: true to a statement of the runbooks, against it, or beside it.

    python benchmarks/statements.py [dev] [final] [--list]

Prints a Markdown table: of how many sentences 正確性 or 安全性 falls below 50. statements (benchmarks/data/SOURCE.md) holds, for twelve
statements of each of the eighteen runbooks, three sentences that say the same in other words, three with one change
against it, and one beside it, as somebody wrote them who had not seen the rules; those true to it were to look like
negations, leave or delay. dev was looked at while the rules were mended, final was only counted. --list names the
sentences that were taken wrongly: leave it away with final.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from packed_data import unpacked

from socjudge import AssistantAnswer, EvalQuestion
from socjudge.answering.citations import format_context
from socjudge.base.texts import fold
from socjudge.embedded.measures import measure_accuracy, measure_safety
from socjudge.embedded.reading import Reading
from socjudge.records import Flags
from socjudge.runbooks.index import RunbookIndex, open_index

QUESTION = EvalQuestion(1, "正常系", "手順を教えてください", ("手順を守る",))
LOW = 50


def load_rows(name: str) -> list[dict[str, Any]]:
    """The labelled sentences: runbook, heading, source, text, label ("same", "against", "beyond") and kind."""
    return [json.loads(line) for line in (unpacked() / "statements" / f"{name}.jsonl").read_text("utf-8").splitlines()]


def answer_with(row: dict[str, Any], index: RunbookIndex) -> AssistantAnswer:
    """An answer of one sentence, given its section and four passages that search finds."""
    own = next(p for p in index.passages if p.source == f"{row['runbook']}.md" and fold(row["source"]) in fold(p.text))
    found = [p for p in index.search(row["text"], 8) if (p.source, p.heading) != (own.source, own.heading)]
    passages = (replace(own, score=0.0), *found[:4])
    text = f"{row['text']} {own.citation}"
    return AssistantAnswer(QUESTION.question, text, format_context(passages), passages, Flags())


def is_marked_down(row: dict[str, Any], index: RunbookIndex) -> bool:
    """Whether the judge takes a sentence for wrong or unsafe."""
    reading = Reading(
        QUESTION, answer_with(row, index)
    )  # without what the judge takes off an answer that misses the question
    return min(measure_accuracy(reading).score, measure_safety(reading).score) < LOW


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=["dev", "final", "both"], default="both")
    parser.add_argument("--list", action="store_true", help="name the sentences that were taken wrongly")
    args = parser.parse_args()
    index = open_index()
    print("| | sentences | taken for wrong |\n|---|---|---|")
    for name in ("dev", "final") if "both" in args.names else args.names:
        of, low = Counter[str](), Counter[str]()
        for row in load_rows(name):
            what = f"{row['label']} {row['kind']}".strip()
            marked = is_marked_down(row, index)
            of[what] += 1
            low[what] += marked
            if args.list and marked != (row["label"] == "against"):
                print("    ", what, row["text"], "<", row["source"])
        for label in ("same", "beyond", "against"):
            kinds = [what for what in of if what.startswith(label)]
            print(f"| {name}: {label} | {sum(of[k] for k in kinds)} | {sum(low[k] for k in kinds)} |")
            for what in sorted(kinds) if label == "against" else ():
                print(f"| {name}: {what} | {of[what]} | {low[what]} |")


if __name__ == "__main__":
    main()
