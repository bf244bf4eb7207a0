"""Search the passages of an index by words (BM25) and by meaning (vectors), and rank them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from ..base.messages import say
from ..base.showing import one_line, shown_path
from ..base.texts import normalise_text
from ..constants import BACKGROUND_SECTIONS
from ..records import Passage
from . import bm25
from .asking import split_clauses
from .bm25 import Bm25, tokenise
from .companions import COMPANION_NAMES, ORGANISATION_NAME, PROHIBITIONS_NAME, hash_companions, load_organisation
from .embeddings import EMBEDDER, Vectors, embed_new, embed_query, hash_text, rounded
from .index_files import StoredIndex
from .reading import hash_runbooks, unnumbered

# How the mixed score is computed; see `get_bm25_weight` and `mix_scores`. benchmarks/assistant.md has the tuning.
BM25_WEIGHT = 0.8
BM25_RATIO_RANGE = (0.03, 0.15)
# If passages have questions of their own, BM25 knows people's words too. One weight for every query is then better
# than one by the ratio, whose share of queries with the right passage in five is lower by 0.05. 0.4 to 0.8 were tried on
# all labelled sets of benchmarks/assistant.md except "fresh".
BM25_WEIGHT_WITH_QUESTIONS = 0.65
SENTENCE_WEIGHT = 2 / 3

# Below this BM25 ratio, synonyms are added to the query.
SYNONYMS_BELOW = 0.15
# Reranking of the best passages; see `rerank`.
POOL = 25
RUNBOOK_WEIGHT = 0.7
NAMED_BONUS = 0.1
BACKGROUND_PENALTY = 0.2
COVERAGE_WEIGHT = 0.15
# If no passage has questions and the query's words are known: the weight of the best sentence's share of these words.
SHARE_WEIGHT = 0.6
# How the sections of one runbook are told apart; see `RunbookIndex.rate_sections`.
SECTION_BM25 = 0.6
CLAUSE_WEIGHT = 0.5

_SECTION_WORD = re.compile(r" > |[とのやへ・、（）()]")

_READ_LIVE = (PROHIBITIONS_NAME, ORGANISATION_NAME)

# Everything that decides a ranking besides passages and embedder. It is part of the fingerprint.
PARAMETERS = {
    "bm25_weight": [BM25_WEIGHT, BM25_WEIGHT_WITH_QUESTIONS],
    "bm25_ratio_range": BM25_RATIO_RANGE,
    "sentence_weight": SENTENCE_WEIGHT,
    "synonyms_below": SYNONYMS_BELOW,
    "rerank": [
        POOL,
        RUNBOOK_WEIGHT,
        NAMED_BONUS,
        BACKGROUND_PENALTY,
        BACKGROUND_SECTIONS,
        COVERAGE_WEIGHT,
        SHARE_WEIGHT,
    ],
    "k1": bm25.K1,
    "b": bm25.B,
    "tokens": bm25.TOKENS_VERSION,
}


@dataclass(frozen=True)
class Evidence:
    """Hold how much the runbooks know about the subject of a query.
    A question of a passage is a question that this passage answers, from `questions.json` beside the runbooks."""

    bm25_ratio: float  # the best BM25 score divided by the highest score that the query could reach, 0–1
    top_cosine: float  # similarity to the nearest passage or sentence, from -1 to 1
    unknown_tokens: tuple[str, ...]  # neither in a passage nor in a question of a passage
    question_cosine: float | None = None  # similarity to the nearest question of a passage; None if there are none


class RunbookIndex:
    """Hold passages that can be searched. `build_index` and `load_index` return it. Several threads can use it."""

    embedder = EMBEDDER  # its name, for the log of a run

    def __init__(self, stored: StoredIndex, known: dict[str, Vectors], index_dir: Path, *, n_embedded: int = 0) -> None:
        self.index_dir = index_dir
        # In file order, with score 0.
        self.passages = [Passage(chunk.text, chunk.source, chunk.heading) for chunk in stored.chunks]
        self.n_embedded = n_embedded  # texts that the build had to embed
        self.runbooks = stored.runbooks  # the folder that the passages came from
        self.synonyms = stored.synonyms  # {everyday word: words of the runbooks}
        # Files beside the runbooks are not part of the stored index. They are read once, for the life of this object.
        beside = hash_companions(stored.runbooks)
        self._read_live = {name: sha for name, sha in beside.items() if name in _READ_LIVE}
        self.organisation = load_organisation(stored.runbooks)
        self._stored = stored
        self._known = known  # {hash of text: vector}
        self._bm25 = Bm25([chunk.words_text for chunk in stored.chunks])
        self._faiss = faiss.IndexFlatIP(stored.vectors.shape[1])
        self._faiss.add(np.ascontiguousarray(stored.vectors, dtype=np.float32))
        self._sources = list(dict.fromkeys(passage.source for passage in self.passages))
        places = {source: n for n, source in enumerate(self._sources)}
        self._groups = np.array([places[passage.source] for passage in self.passages], dtype=np.int64)
        # The passage of each vector of a sentence or a question.
        numbers = np.arange(len(self))
        sentences = np.repeat(numbers, [len(chunk.sentences) for chunk in stored.chunks])
        questions = np.repeat(numbers, [len(chunk.questions) for chunk in stored.chunks])
        self._owners = np.concatenate([sentences, questions])
        self._first_question = len(self) + len(sentences)
        self._has_questions = len(questions) > 0
        self._cosines = lru_cache(maxsize=64)(self._compare)  # a question's sentences are searched for several times
        self._sentence_words = lru_cache(maxsize=4096)(
            lambda i: [frozenset(tokenise(text)) for text in stored.chunks[i].sentences or [stored.chunks[i].text]]
        )

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        runbooks = len(self._stored.files.keys() - {*COMPANION_NAMES})
        return (
            f"<RunbookIndex: {len(self)} passages of {runbooks} runbooks in {one_line(shown_path(self.runbooks), 120)}>"
        )

    @property
    def files(self) -> dict[str, str]:
        """Return {file name: SHA-256 in hex} of the runbooks and of the JSON files beside them."""
        indexed = {name: sha for name, sha in self._stored.files.items() if name not in _READ_LIVE}
        return indexed | self._read_live

    @cached_property
    def contents(self) -> dict[str, str]:
        """Return {file name: hash of its content} of the runbooks and of the JSON files beside them.
        The hash covers only what answers are made from. It does not depend on the layout of a file."""
        found: dict[str, list[str]] = {}
        for chunk in self._stored.chunks:
            found.setdefault(chunk.source, []).extend((chunk.title, chunk.heading, chunk.text))
        beside = {name: sha for name, sha in self.files.items() if name in COMPANION_NAMES}
        return {name: hash_text("\0".join(texts))[:12] for name, texts in found.items()} | beside

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 over passages, embedder, parameters and the JSON files beside the runbooks.
        It is the same on every machine."""
        stored = self._stored
        chunks = [asdict(chunk) for chunk in stored.chunks]
        content: list[Any] = [chunks, EMBEDDER, PARAMETERS, dict(stored.synonyms)]
        content += [self._read_live] if self._read_live else []
        return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode("utf-8")).hexdigest()

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """Return the k best passages, best first, with scores (0–1) that can be compared within one query only.
        Equal scores are in file order. A query without letters and digits is searched by meaning alone.
        An empty query finds nothing. Raises ValueError if k < 1."""
        if k < 1:
            raise ValueError(say("k is {k}; ask for at least 1 passage", k=k))
        if not query.strip():
            return []
        scores = self.mixed_scores(query)
        pool = _highest(scores, max(POOL, k))
        if not self._has_questions and self._bm25.match(query).ratio >= SYNONYMS_BELOW:
            scores[pool] = (scores[pool] + SHARE_WEIGHT * self._sentence_shares(query, pool)) / (1 + SHARE_WEIGHT)
            pool = pool[np.argsort(-scores[pool], kind="stable")]
        coverage = _spread(self._bm25.match_groups(query, self._groups))
        covered = dict(zip(self._sources, coverage.tolist(), strict=True))
        return rerank(query, [replace(self.passages[i], score=float(scores[i])) for i in pool], covered)[:k]

    def _sentence_shares(self, query: str, numbers: np.ndarray[Any, Any]) -> Vectors:
        rarities = self._bm25.rarities(query)
        shares = np.array(
            [
                max(sum(rarities[word] for word in rarities.keys() & words) for words in self._sentence_words(int(i)))
                for i in numbers
            ],
            dtype=np.float32,
        )
        return shares / max(float(shares.max()), 1e-9)

    def rate_sections(self, question: str, source: str) -> list[Passage]:
        """Return the passages of one runbook (file name), in its order, each with its score (0–1) for a question.
        Words that occur in most of the runbook count little."""
        numbers = np.flatnonzero(self._groups == self._sources.index(source))
        scores = self._rate_among(question, numbers)
        if len(clauses := split_clauses(question)) > 1:  # each sentence may ask for another section
            each = np.array([self._rate_among(clause, numbers) for clause in clauses])
            scores = _spread((1 - CLAUSE_WEIGHT) * scores + CLAUSE_WEIGHT * each.max(axis=0))
        return [replace(self.passages[i], score=float(score)) for i, score in zip(numbers, scores, strict=True)]

    def rate_sentences(self, question: str, passages: Sequence[Passage]) -> dict[str, float]:
        """Return {sentence: cosine similarity to a question, from -1 to 1} for the sentences of the given passages.
        The sentences are those of `Chunk.sentences`, which include title and headings."""
        wanted = {replace(passage, score=0.0) for passage in passages}
        cosines = self._cosines(question)[len(self) :]
        rated: dict[str, float] = {}
        for i in (i for i, passage in enumerate(self.passages) if passage in wanted):
            first, after = np.searchsorted(self._owners[: self._first_question - len(self)], [i, i + 1])
            rated |= zip(self._stored.chunks[i].sentences, cosines[first:after].tolist(), strict=True)
        return rated

    def _rate_among(self, query: str, numbers: np.ndarray[Any, Any]) -> Vectors:
        words = self._bm25.match_among(query, numbers)
        return mix_scores(words, self._similarities(query)[numbers], SECTION_BM25)

    def mixed_scores(self, query: str) -> Vectors:
        """Return the score of each passage for a query, 0–1, before reranking: `mix_scores` of BM25 and similarity."""
        match = self._bm25.match(query)
        if match.ratio < SYNONYMS_BELOW:
            query = self.add_synonyms(query)
            match = self._bm25.match(query)
        weight = BM25_WEIGHT_WITH_QUESTIONS if self._has_questions else get_bm25_weight(match.ratio)
        return mix_scores(match.scores, self._similarities(query), weight)

    def add_synonyms(self, query: str) -> str:
        """Return a query with the words of the runbooks that `synonyms.json` lists for its everyday words."""
        text = normalise_text(query)
        words = [word for word in self.synonyms if word in text]
        # ウイルス inside ウイルス対策ソフト says nothing by itself.
        words = [word for word in words if not any(word != other and word in other for other in words)]
        terms = dict.fromkeys(term for word in words for term in self.synonyms[word] if term not in text)
        return " ".join([query, *terms])

    def evidence(self, query: str) -> Evidence:
        """Measure how much the runbooks know about the subject of a query.
        For an empty query, the numbers are 0, no token is unknown, and question_cosine is None."""
        if not query.strip():
            return Evidence(0.0, 0.0, ())
        match = self._bm25.match(query)
        said, asked = np.split(self._cosines(query), [self._first_question])
        return Evidence(match.ratio, float(said.max()), match.unknown, float(asked.max()) if len(asked) else None)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, as (len(texts), 512) float32.
        Each distinct text is embedded once per index object, and none that was embedded for the index."""
        return embed_new(texts, self._known)

    def stale_files(self) -> list[str]:
        """Return the names of the files that were changed, added or removed since the index was built, sorted."""
        now, then = hash_runbooks(self.runbooks), self._stored.files
        return sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))

    def _compare(self, query: str) -> Vectors:
        """Callers must not change the array, because it is cached."""
        found, order = self._faiss.search(rounded(embed_query(query))[None, :], self._faiss.ntotal)
        cosines = np.zeros(self._faiss.ntotal, dtype=np.float32)
        cosines[order[0]] = found[0]
        return cosines

    def _similarities(self, query: str) -> Vectors:
        cosines = self._cosines(query)
        return blend_sentences(cosines[: len(self)], cosines[len(self) :], self._owners)


def _highest(scores: Vectors, n: int) -> np.ndarray[Any, Any]:
    least = np.partition(scores, -n)[-n] if n < len(scores) else -np.inf
    among = np.flatnonzero(scores >= least)
    return among[np.argsort(-scores[among], kind="stable")][:n]


def blend_sentences(passages: Vectors, sentences: Vectors, owners: np.ndarray[Any, Any]) -> Vectors:
    """Return each passage's similarity to a query, by its best sentence or question, and by its whole text."""
    best = np.full(len(passages), -np.inf, dtype=np.float32)
    np.maximum.at(best, owners, sentences)
    best = np.where(np.isinf(best), passages, best)  # no sentences: a block of commands, for example
    return (SENTENCE_WEIGHT * best + (1 - SENTENCE_WEIGHT) * passages).astype(np.float32)


def get_bm25_weight(ratio: float) -> float:
    """Return the weight of BM25 for a query, which rises from 0 to BM25_WEIGHT while `ratio` crosses BM25_RATIO_RANGE.
    Min–max scaling turns the best BM25 score into 1, even if a passage shares only a particle with the query."""
    low, high = BM25_RATIO_RANGE
    return BM25_WEIGHT * min(1.0, max(0.0, (ratio - low) / (high - low)))


def mix_scores(bm25: Vectors, similarities: Vectors, weight: float) -> Vectors:
    """Return weight * BM25 + (1 - weight) * similarity for each passage, each of the two scaled to 0–1 (min–max)."""
    return (weight * _spread(bm25) + (1 - weight) * _spread(similarities)).astype(np.float32)


def rerank(query: str, passages: Sequence[Passage], coverage: Mapping[str, float] | None = None) -> list[Passage]:
    """Sort passages by what people look for in a runbook, and give them new scores (0–1). See benchmarks/assistant.md.
    `coverage`: {runbook: how much of the query it covers, 0–1}."""
    by_runbook: dict[str, list[float]] = {}
    for passage in passages:
        by_runbook.setdefault(passage.source, []).append(passage.score)
    subject = {source: sum(sorted(scores)[-3:]) / 3 for source, scores in by_runbook.items()}
    asks_background = any(name in query for name in BACKGROUND_SECTIONS)

    def score(passage: Passage) -> float:
        # A passage gains if its whole runbook is about the query, or if the query names its section (封じ込め, 復旧).
        gained = passage.score + RUNBOOK_WEIGHT * subject[passage.source]
        gained += COVERAGE_WEIGHT * (coverage or {}).get(passage.source, 0.0)
        gained += NAMED_BONUS * any(len(word) > 1 and word in query for word in _SECTION_WORD.split(passage.heading))
        lost = BACKGROUND_PENALTY * (
            unnumbered(passage.heading).startswith(BACKGROUND_SECTIONS) and not asks_background
        )
        return max(0.0, gained - lost) / (1 + RUNBOOK_WEIGHT + NAMED_BONUS + COVERAGE_WEIGHT)

    return sorted((replace(p, score=score(p)) for p in passages), key=lambda p: -p.score)


def _spread(scores: Vectors) -> Vectors:
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)
