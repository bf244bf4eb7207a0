"""Measure retrieval: R@1, R@5, MRR@10 and milliseconds per query for BM25, dense and their mixes.

    python benchmarks/retrieval.py [--split tune|final|fresh|all] > table.md
    python benchmarks/retrieval.py --grow 100000    # milliseconds and memory with so many made-up passages

Two sets: 587 questions on 167 Japanese paragraphs (JGLUE's JSQuAD; ../shared/data, skipped where absent)
and the project's own questions on its runbooks (tests/data/retrieval_questions*.jsonl). A question is
answered at the rank of the first right passage. Prints Markdown; benchmarks/assistant.md holds the result.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from socjudge.constants import PROJECT_DIR, RUNBOOKS_DIR
from socjudge.runbooks.companions import add_questions, load_synonyms
from socjudge.runbooks.embeddings import embed_new, embed_query
from socjudge.runbooks.index import BUNDLED_INDEX_DIR, known_vectors
from socjudge.runbooks.index_files import StoredIndex
from socjudge.runbooks.reading import Chunk, load_runbooks
from socjudge.runbooks.search import RunbookIndex, get_bm25_weight, mix_scores

JGLUE_DIR = Path(__file__).parents[2] / "shared" / "data" / "jglue_sample"
QUESTION_PATHS = sorted((PROJECT_DIR / "tests" / "data").glob("retrieval_questions*.jsonl"))
FIXED_WEIGHTS = (0.3, 0.5, 0.7, 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=["tune", "final", "fresh", "all"], default="all")
    parser.add_argument("--grow", type=int, metavar="PASSAGES")
    options = parser.parse_args()
    if options.grow:
        grow(options.grow)
        return

    if (JGLUE_DIR / "jsquad_test_paragraphs.jsonl").is_file():
        chunks, questions = load_jglue()
        index = make_index(chunks)
        print_table("JSQuAD sample", rank_all(index, questions, [{q["pid"]} for q in questions]))
    else:
        print(f"skipped: {JGLUE_DIR} is not there", file=sys.stderr)

    chunks = [chunk for book in add_questions(load_runbooks(RUNBOOKS_DIR), RUNBOOKS_DIR) for chunk in book.chunks]
    index = make_index(chunks, load_synonyms(RUNBOOKS_DIR))
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


def make_index(chunks: list[Chunk], synonyms: Mapping[str, Sequence[str]] | None = None) -> RunbookIndex:
    """An index that is not saved."""
    known = known_vectors(BUNDLED_INDEX_DIR)
    empty = StoredIndex(tuple(chunks), np.zeros((0, 512), np.float32), {}, Path(), synonyms or {})
    return RunbookIndex(replace(empty, vectors=embed_new(empty.texts, known)), known, Path())


def rank_all(
    index: RunbookIndex, questions: list[dict[str, str]], right: list[set[str]]
) -> dict[str, tuple[np.ndarray, float]]:
    """{method: (rank of the first right passage for each question, median ms per query)}.

    right: for each question, the texts or the sources of the passages that answer it."""
    index.search("warm up")
    embed_query.cache_clear()  # a second run over the same questions must embed them again
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
        scores["mix as built"] = index.mixed_scores(question["question"])
        orders = {
            method: [index.passages[i] for i in np.argsort(-values, kind="stable")] for method, values in scores.items()
        }
        embed_query.cache_clear()
        index._cosines.cache_clear()
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


def grow(n_passages: int) -> None:
    """Print how long opening and a query take, and the memory, with passages of made-up sentences and vectors."""
    rng = np.random.default_rng(0)
    sentences = [s for book in load_runbooks(RUNBOOKS_DIR) for chunk in book.chunks for s in chunk.sentences]
    picked = rng.integers(0, len(sentences), (n_passages, 5)).tolist()
    bodies = ["\n".join(f"{sentences[i][:60]} {n}" for i in row) for n, row in enumerate(picked)]
    chunks = tuple(Chunk(body, f"{n // 20}.md", f"節{n}", f"手順書{n // 20}") for n, body in enumerate(bodies))
    n_vectors = n_passages + sum(len(chunk.sentences) for chunk in chunks)
    centres = rng.standard_normal((3000, 512)).astype(np.float32)  # vectors in clouds, as those of real texts are
    vectors = np.empty((n_vectors, 512), np.float16)
    for start in range(0, n_vectors, 50_000):
        part = vectors[start : start + 50_000]
        cloud = centres[rng.integers(0, len(centres), len(part))]
        cloud += 0.8 * rng.standard_normal(cloud.shape).astype(np.float32)
        part[:] = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
    start_time = time.perf_counter()
    index = RunbookIndex(StoredIndex(chunks, vectors, {}, Path()), {}, Path())
    opened = time.perf_counter() - start_time
    index.search("warm up")
    milliseconds = []
    for query in rng.choice(sentences, 50).tolist():
        start_time = time.perf_counter()
        index.search(f"{query} どうすればよいですか")
        milliseconds.append(1000 * (time.perf_counter() - start_time))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{n_passages} passages, {n_vectors} vectors: opened in {opened:.0f} s; a query takes "
        f"{np.median(milliseconds):.0f} ms (slowest of 50: {max(milliseconds):.0f} ms); {peak:.1f} GB at most"
    )


def load_json_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
