"""Precision, recall and F1 of the three flags on tests/data/flags.jsonl and flags_dev2.jsonl, as a Markdown table.

    python benchmarks/flags.py [--split dev|dev2|final|all] [--errors dev|dev2]
    python benchmarks/flags.py --fit [--labelled more.jsonl ...]

The final half is for checking only: its questions are counted here and never listed. --fit finds the weights of
`socjudge.rules.prohibitions` anew (minutes): from the asks and near misses of prohibitions.json, the questions of
questions.json, the rows of dangers.json, the development splits, and labelled questions of your own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from socjudge.constants import RUNBOOKS_DIR
from socjudge.records import Flags
from socjudge.rules.dangers import find_dangerous, load_kinds
from socjudge.rules.flags import raise_flags
from socjudge.rules.prohibitions import load_catalogue, make_features, save_weights
from socjudge.runbooks.index import RunbookIndex, build_index

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
FLAGS = {
    "insufficient_evidence": "根拠不足",
    "dangerous_operation": "危険操作",
    "ambiguous_query": "曖昧質問",
}


def load_questions(split: str) -> list[dict[str, Any]]:
    """The labelled questions of one split: "dev" and "final" halve flags.jsonl, "dev2" is a file of its own."""
    path = DATA / ("flags_dev2.jsonl" if split == "dev2" else "flags.jsonl")
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


def fit(index: RunbookIndex, labelled: list[dict[str, Any]]) -> None:
    """Find and keep the weights; prints how well three folds of the labelled questions predict one another."""
    catalogue = load_catalogue(index)
    plain = {p.text: p for p in catalogue.prohibitions}.values()
    rows = [(text, 1, True) for p in plain for text in p.asks]
    rows += [(text, 0, True) for p in plain for text in p.near_misses]
    rows += [(row.example, 1, False) for kind in load_kinds() for row in kind.rows]
    rows += [(row.counter_example, 0, False) for kind in load_kinds() for row in kind.rows]
    asked = json.loads((RUNBOOKS_DIR / "questions.json").read_text(encoding="utf-8"))
    rows += [(text, 0, False) for sections in asked.values() for texts in sections.values() for text in texts]
    n = len(rows)
    rows += [(row["question"], int(row["dangerous_operation"]), False) for row in labelled]
    print(f"{n} texts of the runbooks and tables, {len(labelled)} labelled questions")
    features = sparse.csr_matrix(
        sparse.vstack(
            [
                sparse.csr_matrix(make_features(text, catalogue, find_dangerous(text), but_itself=inside)[0])
                for text, _, inside in rows
            ]
        )
    )
    wanted = np.array([label for _, label, _ in rows], dtype=float)
    shares = np.where(np.arange(len(rows)) < n, 1.0, 3.0)  # people's questions count for more than a writer's
    fold = np.random.default_rng(0).permutation(len(labelled)) % 3
    guessed = np.zeros(len(labelled))
    for k in range(3):
        held = np.flatnonzero(fold == k) + n
        used = np.setdiff1d(np.arange(len(rows)), held)
        weights, bias = _logistic(features[used], wanted[used], shares[used])
        guessed[fold == k] = 1 / (1 + np.exp(-(features[held] @ weights) - bias))
    for limit in (0.35, 0.4, 0.45, 0.5):
        raised, is_so = guessed > limit, wanted[n:] > 0
        right = (raised & is_so).sum()
        print(f"limit {limit}: precision {right / raised.sum():.3f}, recall {right / is_so.sum():.3f}")
    save_weights(*_logistic(features, wanted, shares))


def _logistic(features: Any, wanted: Any, shares: Any, ridge: float = 0.5) -> tuple[Any, float]:
    sign = 2 * wanted - 1

    def loss(values: Any) -> tuple[float, Any]:
        margin = sign * (features @ values[:-1] + values[-1])
        pull = -shares * sign / (1 + np.exp(margin))
        slope = np.append(features.T @ pull + ridge * values[:-1], pull.sum())
        return float((shares * np.logaddexp(0, -margin)).sum() + ridge / 2 * values[:-1] @ values[:-1]), slope

    found = minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return found[:-1], float(found[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["dev", "dev2", "final", "all"], default="all")
    parser.add_argument("--errors", choices=["dev", "dev2"], help="list the wrong flags of a development split")
    parser.add_argument("--fit", action="store_true", help="find the weights of the dangers anew")
    parser.add_argument("--labelled", nargs="*", default=[], type=Path, help="for --fit: more labelled questions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(RUNBOOKS_DIR, index_dir=folder)
    if args.fit:
        own = [json.loads(line) for path in args.labelled for line in path.read_text(encoding="utf-8").splitlines()]
        own = [row | row["flags"] for row in own if "dangerous_operation" not in row["flags_optional"]]
        return fit(index, [*load_questions("dev"), *load_questions("dev2"), *own])
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


if __name__ == "__main__":
    main()
