"""Counts, on questions kept aside, how the embedded assistant answers, and what a hosted one would be given. Prints totals only.

    python benchmarks/blind_assistant.py [foreign] [hard] [panic]

foreign: twelve projects on other matters: rules that are there quoted, and words of another matter;
hard, panic: questions and fragments on the bundled runbooks. Both are foreign and shift of benchmarks/data/SOURCE.md. No
question and no answer is shown.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import unicodedata
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from packed_data import unpacked

from socjudge import AssistantAnswer, handle_query
from socjudge.constants import RUNBOOKS_DIR
from socjudge.records import Completion, ModelRequest, Usage
from socjudge.runbooks.index import RunbookIndex, build_index

_CITED = re.compile(r"\[出典: (?P<source>[^\]>]+?)(?: > (?P<heading>[^\]]+))?\]")
_CLAIMS = re.compile("手順書の定め: ")


class Silent:
    """A hosted model that says next to nothing: what it was given is in the answer's context."""

    name = "silent"

    def complete(self, request: ModelRequest) -> Completion:
        return Completion("確認します。", self.name, Usage(calls=1), "stop")


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def fold(text: str) -> str:
    return re.sub(r"[\s*`]+", "", unicodedata.normalize("NFKC", text))


def holds(text: str, choices: list[str]) -> bool:
    return any(fold(choice) in fold(text) for choice in choices)


def body_of(answer: AssistantAnswer) -> str:
    """What the answer says, without the warnings above it and the related citations below it."""
    lines = [line for line in answer.answer.splitlines() if not line.startswith("⚠️")]
    return "\n".join(lines).partition("\n関連:")[0]


def in_sections(citation: re.Match[str], sections: list[list[str]]) -> bool:
    return any(
        citation["source"].strip() == name and (not part or fold(part) in fold(citation["heading"] or ""))
        for name, part in sections
    )


def count_foreign(folder: Path, found: Counter[str]) -> None:
    with tempfile.TemporaryDirectory() as index_dir:
        index = build_index(folder / "runbooks", index_dir=index_dir)
        for row in load(folder / "questions.jsonl"):
            answer = handle_query(row["question"], index=index, model="offline")
            kind = row["kind"] if row["kind"] == "ordinary" else "ruled" if row["rule"] else "unruled"
            found[kind] += 1
            body = body_of(answer)
            found[f"{kind}, of another matter"] += any(
                fold(word) in fold(answer.answer) for word in row["foreign_words"]
            )
            found[f"{kind}, danger raised"] += answer.flags.dangerous_operation
            if kind == "ordinary":
                cited = list(_CITED.finditer(body))
                sections = [section if isinstance(section, list) else list(section) for section in row["sections"]]
                sections = [[*section, ""][:2] for section in sections]
                found["ordinary, right section first"] += bool(cited) and in_sections(cited[0], sections)
                found["ordinary, right section quoted"] += any(in_sections(one, sections) for one in cited)
                found["ordinary, all facts"] += all(holds(body, fact) for fact in row["facts"])
                found["ordinary, called short of evidence"] += answer.flags.insufficient_evidence
            else:
                found[f"{kind}, claims a rule"] += bool(_CLAIMS.search(body))
                if kind == "ruled":
                    found["ruled, quoted"] += holds(answer.answer, [row["rule"]])
                    found["ruled, in a hosted context"] += holds(
                        handle_query(row["question"], index=index, model=Silent()).context, [row["rule"]]
                    )


def count_hard(index: RunbookIndex, found: Counter[str]) -> None:
    for row in load(unpacked() / "shift" / "hard_final.jsonl"):
        answer = handle_query(row["question"], index=index, model="offline")
        hosted = handle_query(row["question"], index=index, model=Silent())
        found["hard"] += 1
        found["facts"] += len(row["facts"])
        found["facts in the answer"] += sum(holds(answer.answer, fact) for fact in row["facts"])
        found["facts in a hosted context"] += sum(holds(hosted.context, fact) for fact in row["facts"])
        first = _CITED.search(body_of(answer))
        found["hard, right runbook first"] += first is not None and named(first["source"], row)
        found["hard, denied"] += "該当する記載がありません" in answer.answer
        found["hard, danger"] += row["danger"]
        found["hard, danger seen"] += row["danger"] and answer.flags.dangerous_operation
        found["hard, danger wrongly"] += not row["danger"] and answer.flags.dangerous_operation
        found["hard, characters"] += len(answer.answer)
        found["hard, characters of a hosted context"] += len(hosted.context)


def count_panic(index: RunbookIndex, found: Counter[str]) -> None:
    for row in load(unpacked() / "shift" / "panic_final.jsonl"):
        answer = handle_query(row["fragment"], index=index, model="offline")
        asked_back = "次の情報を教えてください" in answer.answer
        cited = list(_CITED.finditer(body_of(answer)))
        found["panic"] += 1
        if asked_back:
            fits = row["vague"] or any(named(one["source"], row) for one in cited)
            found[
                "panic, asked back, right among the candidates" if fits else "panic, asked back without the right"
            ] += 1
        else:
            found["panic, right runbook first" if cited and named(cited[0]["source"], row) else "panic, wrong"] += 1


def named(source: str, row: dict[str, Any]) -> bool:
    return source.strip().removesuffix(".md") in {name.removesuffix(".md") for name in row["runbooks"]}


def main() -> None:
    wanted = sys.argv[1:] or ["foreign", "hard", "panic"]
    found: Counter[str] = Counter()
    warnings.simplefilter("ignore")
    if "foreign" in wanted:
        for folder in sorted(p for p in (unpacked() / "foreign" / "final").iterdir() if p.is_dir()):
            count_foreign(folder, found)
    with tempfile.TemporaryDirectory() as index_dir:
        index = build_index(RUNBOOKS_DIR, index_dir=index_dir)
        for name, count in (("hard", count_hard), ("panic", count_panic)):
            if name in wanted:
                count(index, found)
    for name, n in found.items():
        print(f"{n:6d}  {name}")


if __name__ == "__main__":
    main()
