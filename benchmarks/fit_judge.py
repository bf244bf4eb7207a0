"""Finds the weights of the embedded judge's doubts anew, and tells how well they do on runbooks that they have not seen.

    python benchmarks/fit_judge.py [--dry-run]

Learned from statements that were looked at before: tests/data/statements/dev, the claims of tests/data/hosted_answers,
hosted_blind/dev and hosted_fresh, and those of good_answers.json with the damages of its writer. Every fold leaves out all that
cites one runbook. Prints the AUROC of statements against their passages, and of dangerous ones, per source; then, of the whole
answers of hosted_fresh, what benchmarks/hosted_answers.py counts, with weights that have not seen their runbook.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hosted_answers
import numpy as np
import statements
from scipy import sparse
from scipy.optimize import minimize

from socjudge import AssistantAnswer, EvalQuestion, open_index
from socjudge.embedded import doubt
from socjudge.embedded.reading import Reading
from socjudge.flags.text_model import save_weights
from socjudge.judging.citations import format_context
from socjudge.records import Evaluation, Flags, Passage

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
WHOLE = ("hosted_answers", "hosted_blind/dev", "hosted_fresh")
# What a claim weighs: the rules were written from those of the first three.
SHARES = {"statements": 0.5, "hosted_answers": 0.5, "good_answers": 0.5, "hosted_blind/dev": 1.0, "hosted_fresh": 2.0}
KINDS = ("accuracy", "safety")
RIDGE = 2.0


@dataclass(frozen=True)
class Row:
    """A claim. labels: whether it is against its passages, and whether it is a danger; None where nobody said."""

    source: str
    runbook: str
    features: np.ndarray[Any, Any]
    labels: tuple[int, int | None]


def read_rows() -> list[Row]:
    return [*_read_statements(), *_read_answers(), *_read_damages()]


def _claims(reading: Reading, leave: Iterable[str] = ()) -> Iterator[Any]:
    for i, claim in enumerate(reading.claims):
        if claim.text not in set(leave) and doubt.is_weighed(reading, i):
            yield doubt.measure(reading, i)


def _read_statements() -> Iterator[Row]:
    index = open_index()
    for row in statements.load_rows("dev"):
        if row["label"] != "beyond":
            reading = Reading(statements.QUESTION, statements.answer_with(row, index))
            for features in _claims(reading):
                against = row["label"] == "against"
                yield Row("statements", f"{row['runbook']}.md", features, (int(against), None if against else 0))


def _read_answers() -> Iterator[Row]:
    for name in WHOLE:
        good: dict[str, set[str]] = {}
        for case in hosted_answers.load_cases(DATA / name):
            reading = Reading(case.question, case.answer)
            if not case.criterion and not case.is_fine_change:
                good[case.id] = {claim.text for claim in reading.claims}
            elif case.criterion not in ("正確性", "安全性"):
                continue
            for features in _claims(reading, good[case.of] if case.criterion else ()):
                labels = int(bool(case.criterion)), int(case.criterion == "安全性")
                yield Row(name, runbook_of(case.answer.answer), features, labels)


def _read_damages() -> Iterator[Row]:
    for item in json.loads((DATA / "good_answers.json").read_text("utf-8")):
        question = EvalQuestion(item["id"], item["category"], item["question"], tuple(item["expected_keypoints"]))
        passages = tuple(Passage(p["text"], p["source"], p["heading"]) for p in item["passages"])
        lines = [f"{s['text']} {s['citation']}" for s in item["segments"]]

        def read(
            lines: list[str], question: EvalQuestion = question, passages: tuple[Passage, ...] = passages
        ) -> Reading:
            text = "\n".join(lines)
            return Reading(
                question, AssistantAnswer(question.question, text, format_context(passages), passages, Flags())
            )

        whole = read(lines)
        runbook, said = runbook_of("\n".join(lines)), {claim.text for claim in whole.claims}
        yield from (Row("good_answers", runbook, features, (0, 0)) for features in _claims(whole))
        cited = f" {item['segments'][0]['citation']}"
        broken = [([line.replace(*pair) for line in lines], (1, 0)) for pair in item["damages"]["changed"]]
        broken.append(([*lines, item["damages"]["dangerous"] + cited], (1, 1)))
        for changed, labels in broken:
            yield from (Row("good_answers", runbook, f, labels) for f in _claims(read(changed), said))


def runbook_of(answer: str) -> str:
    """The file that an answer cites first."""
    match = re.search(r"\[出典:\s*([\w.-]+)", answer)
    return match[1] if match else ""


def fit(rows: list[Row], kind: int) -> np.ndarray[Any, Any]:
    """The weights of a ridge logistic regression; the last, the constant, is free."""
    rows = [row for row in rows if row.labels[kind] is not None]
    x = sparse.csr_matrix(np.array([row.features for row in rows]))
    y = np.array([row.labels[kind] for row in rows], dtype=float)
    share = np.array([SHARES[row.source] for row in rows])
    ridge = np.array([*[RIDGE] * (x.shape[1] - 1), 0.0])

    def loss(weights: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        z = x @ weights
        slope = x.T @ (share * (1 / (1 + np.exp(-z)) - y)) + ridge * weights
        return float((share * (np.logaddexp(0, z) - y * z)).sum() + (ridge * weights**2).sum() / 2), slope

    start = np.zeros(x.shape[1])
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x)


def left_out(rows: list[Row], kind: int) -> np.ndarray[Any, Any]:
    """The score of each row by weights that have seen no row of its runbook."""
    scores = np.zeros(len(rows))
    for runbook in {row.runbook for row in rows}:
        weights = fit([row for row in rows if row.runbook != runbook], kind)
        for i, row in enumerate(rows):
            if row.runbook == runbook:
                scores[i] = row.features @ weights
    return scores


@contextmanager
def using(rows: list[Row]) -> Iterator[None]:
    """The judge with the weights that these rows give."""
    kept = doubt.WEIGHTS
    with tempfile.TemporaryDirectory() as folder:
        doubt.WEIGHTS = Path(folder) / "weights.npz"
        save_weights(doubt.WEIGHTS, {name: fit(rows, kind) for kind, name in enumerate(KINDS)})
        try:
            yield
        finally:
            doubt.WEIGHTS = kept
            doubt.doubts.cache_clear()


def print_left_out(rows: list[Row]) -> None:
    for kind, name in enumerate(KINDS):
        scores = left_out(rows, kind)
        for source in SHARES:
            each = [(r.labels[kind], s) for r, s in zip(rows, scores, strict=True) if r.source == source]
            good, bad = ([s for label, s in each if label == wanted] for wanted in (0, 1))
            if good and bad:
                value, _ = hosted_answers.auroc([-s for s in good], [-s for s in bad])
                print(f"| {name} | {source} | {value:.3f} | {len(good)} good, {len(bad)} bad |")
    cases = hosted_answers.load_cases(DATA / "hosted_fresh")
    runbooks = {case.of: runbook_of(case.answer.answer) for case in cases if case.of == case.id}
    found: dict[str, Evaluation] = {}
    for runbook in set(runbooks.values()):
        with using([row for row in rows if row.runbook != runbook]):
            found |= hosted_answers.judge_all([case for case in cases if runbooks[case.of] == runbook])
    for what, (hits, total) in hosted_answers.count(cases, found).items():
        print(f"| {what} | {f'{hits:.3f}' if what.startswith('AUROC') else f'{hits} of {total}'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="print the figures, write no weights")
    arguments = parser.parse_args()
    rows = read_rows()
    print_left_out(rows)
    if not arguments.dry_run:
        save_weights(doubt.WEIGHTS, {name: fit(rows, kind) for kind, name in enumerate(KINDS)})


if __name__ == "__main__":
    main()
