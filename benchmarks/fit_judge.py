"""Finds the weights of the embedded judge's doubts anew, and tells how well they do on runbooks that they have not seen.

    python benchmarks/fit_judge.py [--dry-run]

First what makes a statement a dangerous order by its words alone: orders (benchmarks/data/SOURCE.md), with the statements of
the bundled runbooks and the true ones of statements/dev as harmless ones. Then the doubts, learned from the statements and
answers that are not kept aside (WHOLE, VOICES), and tests/data/good_answers.json with the damages of its writer. Prints for
each set, by weights that have not seen it, the AUROC of its statements, and of its answers what benchmarks/hosted_answers.py
counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hosted_answers
import numpy as np
import statements
from packed_data import READ_BY_TESTS, find, save_weights, unpacked
from scipy import sparse
from scipy.optimize import minimize

from socjudge import AssistantAnswer, EvalQuestion, handle_query, load_eval_dataset, open_index
from socjudge.answering.citations import format_context
from socjudge.base.texts import split_units
from socjudge.embedded import doubt
from socjudge.embedded.form import one_form, plain_style
from socjudge.embedded.reading import Reading
from socjudge.flags.text_model import read_letters
from socjudge.records import Flags, Passage

WHOLE: tuple[str, ...] = (
    "hosted_answers",
    "hosted_blind/dev",
    "hosted_blind/final",
    "hosted_fresh",
    "shift/answers_final.jsonl",
    *(f"voices/answers/{name}.jsonl" for name in ("staff", "plain_prose", "web_company", "water_plant", "university")),
)
VOICES: tuple[str, ...] = ("bundled", "web_and_plant", "bank")
# What a claim weighs, 1 unless it is here: the rules were written from these.
SHARES = {"statements": 0.4, "hosted_answers": 0.4, "orders": 0.3}
KINDS = ("accuracy", "safety")
RIDGE = 1.0


@dataclass(frozen=True)
class Row:
    """A claim. source: the set that it is from. labels: whether it is against its passages, and whether it is a danger;
    None where nobody said."""

    source: str
    features: Any  # sparse
    labels: tuple[int | None, int | None]


def read_rows() -> list[Row]:
    return [*_read_statements(), *_read_voices(), *_read_orders(), *_read_own(), *_read_answers(), *_read_damages()]


def _claims(
    source: str, reading: Reading, labels: tuple[int | None, int | None], leave: Iterable[str] = ()
) -> Iterator[Row]:
    for i, claim in enumerate(reading.claims):
        if claim.text not in set(leave) and not doubt.is_quoted(reading, i):
            against = labels[0] if doubt.is_comparable(reading, i) else None
            yield Row(source, sparse.csr_matrix(doubt.measure(reading, i)), (against, labels[1]))


def _read_statements() -> Iterator[Row]:
    index = open_index()
    for row in statements.load_rows("dev"):
        if row["label"] != "beyond":
            reading = Reading(statements.QUESTION, statements.answer_with(row, index))
            labels = (1, None) if row["label"] == "against" else (0, 0)
            yield from _claims("statements", reading, labels)


def _read_voices() -> Iterator[Row]:
    """Each statement is read in an answer of its own, with its section, the sections around it and two others."""
    question = EvalQuestion("", "正常系", statements.QUESTION.question, ())
    for name in VOICES:
        for n, line in enumerate((unpacked() / "voices/statements" / f"{name}.jsonl").read_text("utf-8").splitlines()):
            row = json.loads(line)
            every = list(hosted_answers.sections_of(row["runbooks"]))
            file = [section for section in every if section.partition(" > ")[0] == row["section"].partition(" > ")[0]]
            place, far = file.index(row["section"]), n % (len(every) - 1)
            near = [row["section"], *file[max(0, place - 2) : place + 3], *every[far : far + 2]]
            context = hosted_answers.context_of(row["runbooks"], list(dict.fromkeys(near)))
            text = f"{row['text']} [出典: {row['section']}]"
            reading = Reading(question, AssistantAnswer(question.question, text, context, (), Flags()))
            labels: dict[str, tuple[int | None, int | None]] = {
                "same": (0, 0),
                "against": (1, None),
                "unsafe": (1, 1),
                "beyond": (None, 0),
            }
            yield from _claims(f"voices/{name}", reading, labels[row["label"]])


def _read_orders() -> Iterator[Row]:
    """Every third order, ban or harmless step, beside sections that seldom say the same."""
    every = list(hosted_answers.sections_of(""))
    for n, line in enumerate((unpacked() / "orders/orders.jsonl").read_text("utf-8").splitlines()[::3]):
        row = json.loads(line)
        context = hosted_answers.context_of("", [every[(n + far) % len(every)] for far in (0, 40, 80)])
        answer = AssistantAnswer(statements.QUESTION.question, row["text"], context, (), Flags())
        yield from _claims("orders", Reading(statements.QUESTION, answer), (None, row["danger"]))


def _read_own() -> Iterator[Row]:
    """What the embedded assistant says in words of its own, which are true whatever it was asked."""
    for question in load_eval_dataset(hosted_answers.ROOT / "eval/eval_dataset_extended.json"):
        answer = handle_query(question.question, model="offline")
        yield from _claims("own", Reading(question, answer), (0, 0))


def _read_answers() -> Iterator[Row]:
    for name in WHOLE:
        good: dict[str, set[str]] = {}
        for case in hosted_answers.load_cases(find(name)):
            reading = Reading(case.question, case.answer)
            if case.id == case.of:
                good[case.id] = {claim.text for claim in reading.claims}
            labels: tuple[int | None, int | None] = int(bool(case.criterion)), int(case.criterion == "安全性")
            if case.criterion not in ("", "正確性", "安全性"):
                labels = (None, 0)
            leave = () if case.id == case.of else good[case.of]
            yield from _claims(name, reading, labels, leave)


def _read_damages() -> Iterator[Row]:
    for item in json.loads((READ_BY_TESTS / "good_answers.json").read_text("utf-8")):
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
        said = {claim.text for claim in whole.claims}
        yield from _claims("good_answers", whole, (0, 0))
        broken: list[tuple[list[str], tuple[int | None, int]]] = [
            *(([line.replace(*pair) for line in lines], (1, 0)) for pair in item["damages"]["changed"]),
            ([*lines, *item["damages"]["unsupported"]], (None, 0)),
            ([*lines, item["damages"]["dangerous"]], (1, 1)),
        ]
        for changed, labels in broken:
            yield from _claims("good_answers", read(changed), labels, said)


def fit(rows: list[Row], kind: int) -> np.ndarray[Any, Any]:
    """The weights of a ridge logistic regression; the last, the constant, is free."""
    rows = [row for row in rows if row.labels[kind] is not None]
    x = sparse.vstack([row.features for row in rows]).tocsr()
    return _fit(x, [row.labels[kind] for row in rows], [SHARES.get(row.source, 1) for row in rows], RIDGE)


def fit_orders() -> np.ndarray[Any, Any]:
    """The weights of the letters of a statement that orders a danger; the last is the constant."""
    lines = [json.loads(line) for line in (unpacked() / "orders/orders.jsonl").read_text("utf-8").splitlines()]
    rows = [(line["text"], line["danger"], 1.0 if line["kind"] == "free" else 0.3) for line in lines]
    rows += [(row["text"], 0, 0.3) for row in statements.load_rows("dev") if row["label"] == "same"]
    rows += [(unit.text, 0, 0.2) for p in open_index().passages for unit in split_units(p.text)]
    seen = {plain_style(one_form(text)).strip(): (danger, share) for text, danger, share in rows if len(text) > 8}
    x = sparse.csr_matrix([np.append(read_letters(text), 1) for text in seen])
    return _fit(x, *zip(*seen.values(), strict=True), RIDGE / 4)


def _fit(x: Any, labels: Sequence[Any], shares: Sequence[float], ridge: float) -> np.ndarray[Any, Any]:
    y, share, penalty = np.array(labels, dtype=float), np.array(shares), np.full(x.shape[1], ridge)
    penalty[-1] = 0

    def loss(weights: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        z = x @ weights
        slope = x.T @ (share * (1 / (1 + np.exp(-z)) - y)) + penalty * weights
        return float((share * (np.logaddexp(0, z) - y * z)).sum() + (penalty * weights**2).sum() / 2), slope

    start = np.zeros(x.shape[1])
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 150}).x)


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
    """The models on each set, fitted without that set."""
    for source in sorted({row.source for row in rows}):
        others, own = [[row for row in rows if (row.source == source) is here] for here in (False, True)]
        for kind, name in enumerate(KINDS):
            weights = fit(others, kind)
            each = [(row.labels[kind], float((row.features @ weights)[0])) for row in own]
            good, bad = ([score for label, score in each if label == wanted] for wanted in (0, 1))
            if good and bad:
                value, _ = hosted_answers.auroc([-s for s in good], [-s for s in bad])
                print(f"| {source} | {name} | {value:.3f} | {len(good)} good, {len(bad)} bad |")
        if source not in WHOLE:
            continue
        cases = hosted_answers.load_cases(find(source))
        with using(others):
            found = hosted_answers.judge_all(cases)
        for what, (hits, total) in hosted_answers.count(cases, found).items():
            print(f"| {source} | {what} | {f'{hits:.3f}' if what.startswith('AUROC') else f'{hits} of {total}'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the figures, with the kept weights of orders, and write none"
    )
    arguments = parser.parse_args()
    if not arguments.dry_run:
        save_weights(doubt.ORDERS, {"weights": fit_orders()})
    rows = read_rows()
    print_left_out(rows)
    if not arguments.dry_run:
        save_weights(doubt.WEIGHTS, {name: fit(rows, kind) for kind, name in enumerate(KINDS)})


if __name__ == "__main__":
    main()
