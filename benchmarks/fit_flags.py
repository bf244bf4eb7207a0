"""Finds the weights of the three flags anew, and tells how often each is right on questions it has not seen.

    python benchmarks/fit_flags.py [danger] [evidence] [ambiguity] [--dry-run]

Learned from (benchmarks/data/SOURCE.md): evidence (covered, uncovered, unsure, dangers: written from the runbooks alone, by somebody who
saw neither rules nor other questions, every third line kept aside and only counted here; everyday_dangers, blunt_dangers, vague,
outside: written later, by somebody who knew the rules, none kept aside; near: pairs of questions of one subject, of which the
runbooks answer one, whose other half, near_final, is only counted), prohibitions.json and questions.json beside the
runbooks, the development halves of the flags' questions, night_dev and, for danger, train and voices of
warnings (nobody who wrote them had seen rule or model). Cross-validation leaves out whole prohibitions, and every reading of
the same question; for danger also whole files, so that writers are new. Evidence is measured with indexes that lack the very question
asked, that lack all questions of passages, and that lack whole runbooks: what those covered is absent there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from packed_data import READ_BY_TESTS, save_weights, unpacked
from scipy import sparse
from scipy.optimize import minimize

from socjudge.constants import RUNBOOKS_DIR
from socjudge.flags import ambiguity, evidence, prohibitions
from socjudge.flags.text_model import read_letters, read_question
from socjudge.runbooks.index import RunbookIndex, build_index

QUESTIONS: dict[str, dict[str, list[str]]] = json.loads((RUNBOOKS_DIR / "questions.json").read_text(encoding="utf-8"))
FLAGS = ("danger", "evidence", "ambiguity")
FOLDS = 4
COVERED, NEAR, ABSENT = 0, 1, 2
# Runbooks that others lean on: without them their questions are still half answered.
SHARED_RUNBOOKS = {
    "escalation_contacts.md", "evidence_preservation.md", "privileged_operations.md", "host_isolation.md",
    "backup_restore.md", "network_blocking.md",
}  # fmt: skip


# How the act of a prohibition is plainly asked for or announced, and how it is only spoken of.
ASKED = ("したい", "していいですか", "しておきます", "する方法を教えて")
NOT_ASKED = ("した人を調べたい", "しないでおきます", "してはいけない理由は", "してしまいました")


@dataclass(frozen=True)
class Row:
    """One labelled question. label: 0 or 1 (danger), or COVERED, NEAR or ABSENT; source: where it comes from; share: what it
    weighs; group: rows that stay together in cross-validation; features: what the model sees, one row per index."""

    question: str
    label: int
    source: str
    share: float
    group: str
    features: tuple[Any, ...]
    is_held: bool = False


def fit_danger(index: RunbookIndex, *, dry_run: bool) -> None:
    """危険操作: fit, report, and keep. Each question is seen with the bundled prohibitions and with none, as in other projects."""
    catalogue = prohibitions.load_catalogue(index)
    rows: list[Row] = []

    def add(question: str, label: int, source: str, share: float, group: str = "", held: bool = False) -> None:
        rows.append(Row(question, label, source, share, group or question, (), held))

    for p in {p.text: p for p in catalogue.prohibitions}.values():
        for label, texts in ((1, p.asks), (0, p.near_misses)):
            for text in texts:
                add(text, label, "prohibitions.json", 1, p.text)
        if p.operation.endswith("すること"):  # said plainly
            act = p.operation.removesuffix("すること")
            for label, endings in ((1, ASKED), (0, NOT_ASKED)):
                for ending in endings:
                    add(act + ending, label, "plain", 0.5, p.text)
    for sections in QUESTIONS.values():
        for heading, texts in sections.items():
            for text in () if prohibitions.FORBIDS.search(heading) else texts:  # there people ask for what is forbidden
                add(text, 0, "questions.json", 1)
    for name in ("dangers", "covered", "uncovered", "unsure"):
        for n, line in enumerate(load_lines(unpacked() / "evidence" / f"{name}.jsonl")):
            share = 1 if name in ("uncovered", "unsure") else 5
            add(line["question"], int(line.get("danger", False)), name, share, held=n % 3 == 2)
    for line in load_lines(unpacked() / "evidence" / "everyday_dangers.jsonl"):
        add(line["question"], int(line["danger"]), "everyday", 5)
    for line in load_lines(unpacked() / "evidence" / "blunt_dangers.jsonl"):
        add(line["question"], int(line["danger"]), "blunt", 3)
    for name in ("vague", "outside"):
        for line in load_lines(unpacked() / "evidence" / f"{name}.jsonl"):
            add(line["question"], 0, name, 1)
    for source, line, flags in load_labelled():
        if "dangerous_operation" not in line.get("flags_optional", ()):
            add(line["question"], int(flags["dangerous_operation"]), source, 5)
    for line in load_lines(unpacked() / "warnings" / "train.jsonl"):
        add(line["question"], line["danger"], "warnings", 5, line["quote"])
    for line in load_lines(unpacked() / "warnings" / "voices.jsonl"):
        add(line["question"], line["danger"], "voices", 5, line["quote"])
    known = [read_letters(row.question) > 0 for row in rows if not row.is_held]
    rarity = np.log((1 + len(known)) / (1 + np.sum(known, axis=0)))
    for n, row in enumerate(rows):
        both = [
            prohibitions.make_features(row.question, c, rarity, but_itself=True)
            for c in (catalogue, prohibitions.Catalogue(()))
        ]
        rows[n] = replace(row, features=tuple(map(sparse.csr_matrix, both)))

    people = {"dangers", "everyday", "dev", "dev2", "night_dev", "warnings", "voices", "blunt"}
    for source in ("voices", "warnings"):
        left, asked = (
            [row for row in rows if (row.source == source) == is_left and not row.is_held] for is_left in (False, True)
        )
        weights, bias = fit(left, 1)
        new = np.array([sigmoid(float((row.features[0] @ weights)[0] + bias)) for row in asked])
        tell(f"{source}, the whole file left out", asked, new, prohibitions.LIKELY, 1, {source}, held=False)
    guessed = cross_validate(rows, 1)
    for limit in (0.4, prohibitions.LIKELY, 0.5):
        for source in sorted(people):
            tell(f"{source}, cross-validated, limit {limit}", rows, guessed, limit, 1, {source}, held=False)
    for source in ("covered", "questions.json", "uncovered", "vague"):
        some = np.array([row.source == source and not row.is_held for row in rows])
        print(f"{source}: {np.mean(guessed[some] >= prohibitions.LIKELY):.3f} raised, cross-validated")
    used = [row for row in rows if not row.is_held]
    weights, bias = fit(used, 1)
    predicted = np.array([sigmoid(float((row.features[0] @ weights)[0] + bias)) for row in rows])
    tell("dangers, kept aside", rows, predicted, prohibitions.LIKELY, 1, {"dangers"}, held=True)
    some = np.array([row.source == "covered" and row.is_held for row in rows])
    print(f"covered, kept aside: {np.mean(predicted[some] >= prohibitions.LIKELY):.3f} raised")
    if not dry_run:
        save_weights(prohibitions.WEIGHTS_PATH, {"weights": weights, "bias": bias, "rarity": rarity})


def fit_evidence(folder: Path, *, dry_run: bool) -> None:
    """根拠不足: fit, report, and keep."""
    whole = {"with": make_index(folder / "whole"), "without": make_index(folder / "plain", questions={})}
    raw: list[tuple[str, int, str, float, bool, list[RunbookIndex]]] = []
    both = list(whole.values())
    for name, label in (("covered", COVERED), ("unsure", NEAR), ("uncovered", ABSENT)):
        for n, line in enumerate(load_lines(unpacked() / "evidence" / f"{name}.jsonl")):
            raw.append((line["question"], label, name, 1, n % 3 == 2, both))
    for line in load_lines(unpacked() / "evidence" / "outside.jsonl"):
        raw.append((line["question"], ABSENT, "outside", 1, False, both))
    for line in load_lines(unpacked() / "evidence" / "near.jsonl"):
        raw.append((line["question"], ABSENT if line["outside"] else COVERED, "near", 2, False, both))
    for source, line, flags in load_labelled():
        if "insufficient_evidence" not in line.get("flags_optional", ()) and not flags["ambiguous_query"]:
            label = ABSENT if flags["insufficient_evidence"] else COVERED
            raw.append((line["question"], label, source, 2 if source in ("dev", "dev2") else 1, False, both))
    for p in {p.text: p for p in prohibitions.load_prohibitions(whole["with"])}.values():
        raw += [(text, COVERED, "prohibitions.json", 0.5, False, both) for text in (*p.asks[::8], *p.near_misses[::6])]
    for k in range(3):  # a question's own vector would answer it
        left = {
            book: {heading: [t for t in texts if third(t) != k] for heading, texts in sections.items()}
            for book, sections in QUESTIONS.items()
        }
        index = make_index(folder / f"third{k}", questions=left)
        for sections in QUESTIONS.values():
            for text in (t for texts in sections.values() for t in texts if third(t) == k):
                raw.append((text, COVERED, "questions.json", 0.3, False, [index, whole["without"]]))
    books = sorted(QUESTIONS.keys() - SHARED_RUNBOOKS)
    for k in range(3):
        gone = set(books[k::3])
        left = {book: sections for book, sections in QUESTIONS.items() if book not in gone}
        lacking = [
            make_index(folder / f"lack{k}", questions=left, without=gone),
            make_index(folder / f"plain_lack{k}", questions={}, without=gone),
        ]
        for book in sorted(gone):
            for text in (t for texts in QUESTIONS[book].values() for t in texts if third(t) == 0):
                raw.append((text, ABSENT, "runbook taken away", 0.1, False, lacking))

    measured = [[evidence.measure_evidence(q, index=index) for index in indexes] for q, *_, indexes in raw]
    flat = np.concatenate([np.array(some) for some in measured])
    centre, spread = flat.mean(axis=0), flat.std(axis=0) + 1e-6
    rows = []
    for (question, label, source, share, held, _), some in zip(raw, measured, strict=True):
        text = read_question(question)
        scaled = [evidence.scale_measures(measures, centre, spread) for measures in some]
        seen = tuple(sparse.csr_matrix(np.concatenate([text, measures])) for measures in scaled)
        rows.append(Row(question, label, source, share, question, seen, held))

    for name, at, limit in (
        ("absent", ABSENT, evidence.ABSENT),
        ("doubtful", NEAR, evidence.UNSURE),
    ):
        guessed = cross_validate(rows, at)
        print(f"\n{name}, from {limit} on; share raised, cross-validated:")
        for source in sorted({row.source for row in rows}):
            for label in sorted({row.label for row in rows if row.source == source}):
                some = np.array([(row.source, row.label, row.is_held) == (source, label, False) for row in rows])
                print(f"  {source} ({['covered', 'near', 'absent'][label]}): {np.mean(guessed[some] >= limit):.3f}")
        if at == ABSENT:
            for low in np.arange(0, 1, 0.2):
                some = np.array([not row.is_held and row.label != NEAR and row.share >= 1 for row in rows])
                some &= (guessed >= low) & (guessed < low + 0.2)
                labels = np.array([row.label == ABSENT for row in rows])
                print(
                    f"  probability {low:.1f}–{low + 0.2:.1f}: {some.sum()} questions, {labels[some].mean():.2f} absent"
                )
    used = [row for row in rows if not row.is_held]
    found = [fit([row for row in used if row.label != NEAR], ABSENT), fit(used, NEAR)]
    weights, bias = np.stack([w for w, _ in found], axis=1), np.array([b for _, b in found])
    print("\nkept aside:")
    for name in ("covered", "unsure", "uncovered"):
        scores = np.array([(row.features[0] @ weights)[0] + bias for row in rows if row.source == name and row.is_held])
        absent = scores[:, 0] >= logit(evidence.ABSENT)
        unsure = ~absent & (scores.max(axis=1) >= logit(evidence.UNSURE))
        print(f"  {name} ({len(scores)}): absent {absent.mean():.3f}, unsure {unsure.mean():.3f}")
    for outside in (False, True):
        asked = [
            row["question"]
            for row in load_lines(unpacked() / "evidence" / "near_final.jsonl")
            if row["outside"] == outside
        ]
        seen = [
            evidence.scale_measures(evidence.measure_evidence(q, index=whole["with"]), centre, spread) for q in asked
        ]
        texts = np.array([np.concatenate([read_question(q), some]) for q, some in zip(asked, seen, strict=True)])
        absent = texts @ weights[:, 0] + bias[0] >= logit(evidence.ABSENT)
        print(f"  near pairs, {'outside' if outside else 'covered'} ({len(asked)}): absent {absent.mean():.3f}")
    if not dry_run:
        found_too = {"weights": weights, "bias": bias, "centre": centre, "spread": spread}
        save_weights(evidence.WEIGHTS_PATH, found_too)


def fit_ambiguity(*, dry_run: bool) -> None:
    """曖昧質問: fit, report, and keep."""
    rows: list[Row] = []

    def add(question: str, label: bool, source: str, share: float) -> None:
        seen = sparse.csr_matrix(ambiguity.read_ambiguity(question))
        rows.append(Row(question, int(label), source, share, question, (seen,)))

    for line in load_lines(unpacked() / "evidence" / "vague.jsonl"):
        add(line["question"], line["ambiguous"], "vague", 3)
    for name in ("everyday_dangers", "outside"):
        for line in load_lines(unpacked() / "evidence" / f"{name}.jsonl"):
            add(line["question"], False, name, 1)
    for sections in QUESTIONS.values():
        for text in (text for texts in sections.values() for text in texts):
            add(text, False, "questions.json", 1)
    for name in ("covered", "uncovered", "unsure"):
        for n, line in enumerate(load_lines(unpacked() / "evidence" / f"{name}.jsonl")):
            if n % 3 != 2:
                add(line["question"], False, name, 1)
    for source, line, flags in load_labelled():
        if "ambiguous_query" not in line.get("flags_optional", ()):
            add(line["question"], flags["ambiguous_query"], source, 5)

    guessed = cross_validate(rows, 1)
    for limit in (0.3, ambiguity.AMBIGUOUS, 0.5):
        for source in ("vague", "dev", "dev2", "night_dev"):
            tell(f"{source}, cross-validated, limit {limit}", rows, guessed, limit, 1, {source}, held=False)
    for source in ("questions.json", "covered", "uncovered", "unsure", "everyday_dangers", "outside"):
        some = np.array([row.source == source for row in rows])
        print(f"{source}: {np.mean(guessed[some] >= ambiguity.AMBIGUOUS):.3f} raised, cross-validated")
    weights, bias = fit(rows, 1)
    if not dry_run:
        save_weights(ambiguity.WEIGHTS_PATH, {"weights": weights, "bias": bias})


def make_index(
    folder: Path,
    *,
    questions: dict[str, dict[str, list[str]]] = QUESTIONS,
    without: frozenset[str] | set[str] = frozenset(),
) -> RunbookIndex:
    """An index of the project's runbooks, but for some, with these questions of passages."""
    folder.mkdir(parents=True)
    for path in RUNBOOKS_DIR.iterdir():
        if path.name not in without and path.name != "questions.json":
            shutil.copy(path, folder)
    (folder / "questions.json").write_text(json.dumps(questions, ensure_ascii=False), encoding="utf-8")
    return build_index(folder, index_dir=folder / "index")


def load_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def load_labelled() -> list[tuple[str, dict[str, Any], dict[str, bool]]]:
    """(source, question, its flags) of the development questions."""
    dev = [("dev", line, line) for line in load_lines(READ_BY_TESTS / "flags.jsonl") if line["split"] == "dev"]
    dev2 = [("dev2", line, line) for line in load_lines(unpacked() / "flags_dev2.jsonl")]
    return [*dev, *dev2, *(("night_dev", line, line["flags"]) for line in load_lines(unpacked() / "night_dev.jsonl"))]


def third(text: str) -> int:
    """0, 1 or 2: which third of the questions a text belongs to."""
    return zlib.crc32(text.encode("utf-8")) % 3


def logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def fit(rows: list[Row], least: int, ridge: float = 1.0) -> tuple[Any, float]:
    """Weights and bias of the logistic model for labels of at least `least`."""
    features = sparse.csr_matrix(sparse.vstack([seen for row in rows for seen in row.features]))
    sign = np.array([1 if row.label >= least else -1 for row in rows for _ in row.features])
    shares = np.array([row.share / len(row.features) for row in rows for _ in row.features])

    def loss(values: Any) -> tuple[float, Any]:
        margin = sign * (features @ values[:-1] + values[-1])
        pull = -shares * sign / (1 + np.exp(np.clip(margin, -50, 50)))
        slope = np.append(features.T @ pull + ridge * values[:-1], pull.sum())
        return float((shares * np.logaddexp(0, -margin)).sum() + ridge / 2 * values[:-1] @ values[:-1]), slope

    found = minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    return found[:-1], float(found[-1])


def cross_validate(rows: list[Row], least: int) -> Any:
    """For each row the probability by a model that saw neither it nor its group nor what is kept aside."""
    groups = {group: n for n, group in enumerate(dict.fromkeys(row.group for row in rows))}
    fold = np.random.default_rng(0).permutation(len(groups)) % FOLDS
    of_row = np.array([fold[groups[row.group]] for row in rows])
    guessed = np.full(len(rows), np.nan)
    for k in range(FOLDS):
        used = [row for row, f in zip(rows, of_row, strict=True) if f != k and not row.is_held]
        weights, bias = fit([row for row in used if least != ABSENT or row.label != NEAR], least)
        for n in np.flatnonzero(of_row == k):
            guessed[n] = sigmoid(float((rows[n].features[0] @ weights)[0] + bias))
    return guessed


def tell(name: str, rows: list[Row], guessed: Any, limit: float, least: int, sources: set[str], *, held: bool) -> None:
    """Print precision and recall over the rows of some sources."""
    some = np.array([row.source in sources and row.is_held == held for row in rows])
    raised, is_so = guessed[some] >= limit, np.array([row.label >= least for row in rows])[some]
    right = (raised & is_so).sum()
    print(f"{name}: precision {right / raised.sum():.3f}, recall {right / is_so.sum():.3f} of {is_so.sum()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flags", nargs="*", default="all", choices=[*FLAGS, "all"])
    parser.add_argument("--dry-run", action="store_true", help="report only")
    args = parser.parse_args()
    flags = FLAGS if "all" in args.flags else args.flags
    with tempfile.TemporaryDirectory() as folder:
        if "danger" in flags:
            fit_danger(build_index(RUNBOOKS_DIR, index_dir=Path(folder) / "index"), dry_run=args.dry_run)
        if "evidence" in flags:
            fit_evidence(Path(folder), dry_run=args.dry_run)
        if "ambiguity" in flags:
            fit_ambiguity(dry_run=args.dry_run)


if __name__ == "__main__":
    main()
