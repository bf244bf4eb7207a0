"""Split Japanese and English texts into BM25 tokens, and search texts by these tokens."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.texts import normalise_text

# BM25's usual values. Other values (0.9 to 2, and 0.3 to 0.75) moved R@5 by at most 0.01.
K1 = 1.5
B = 0.75
# A word in kanji gives several tokens. A Latin word or number gives one, and is often the subject: benchmarks/assistant.md.
LATIN_WEIGHT = 2
TOKENS_VERSION = 3  # raise it when `tokenise` or LATIN_WEIGHT changes: index fingerprints depend on it

# One alternative per script. \w is last: letters of any other script, such as é or 한.
_KANJI = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_RUNS = re.compile(
    f"(?P<kanji>[{_KANJI}]+)|(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)"
    r"|(?P<latin>[a-z0-9]+(?:[-_.][a-z0-9]+)*)"
    f"|(?P<other>(?:(?![{_KANJI}{_HIRAGANA}{_KATAKANA}a-z0-9_])\\w)+)"
)

_ONLY_HIRAGANA = re.compile(f"[{_HIRAGANA}]+")


def tokenise(text: str) -> list[str]:
    """Return the BM25 tokens of a text, in order and with repeats. No token is empty.
    Where two scripts meet, the two characters there are also a token, such as を切 in 電源を切る."""
    normal = normalise_text(text)
    tokens: list[str] = []
    end = -1
    for match in _RUNS.finditer(normal):
        if match.start() == end:
            tokens.append(normal[end - 1 : end + 1])
        end = match.end()
        tokens += _split_run(match)
    return tokens


def content_words(text: str) -> set[str]:
    """Return the words of two characters or more that carry meaning: kanji pairs, katakana, Latin words, numbers."""
    return set(_content_words(text))


# The judge and the flags ask for the words of the same statements again and again.
@lru_cache(4_000)
def _content_words(text: str) -> frozenset[str]:
    words = {word for match in _RUNS.finditer(normalise_text(text)) for word in _split_run(match)}
    return frozenset(word for word in words if len(word) > 1 and not _ONLY_HIRAGANA.fullmatch(word))


def _split_run(match: re.Match[str]) -> list[str]:
    run, script = match[0], match.lastgroup
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    if script == "kanji":
        return [*run, *pairs]
    if script == "hiragana":
        return pairs
    if script == "katakana":  # フィッシングメール has pieces in common with フィッシング
        return [run] + [run[i : i + 4] for i in range(len(run) - 3) if len(run) > 4]
    parts = re.split(r"[-_.]", run)
    return [run] + (parts if len(parts) > 1 else [])


Scores = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class LexicalMatch:
    """Hold the result of a BM25 query."""

    scores: Scores  # of each text
    ratio: float  # the best score divided by the highest score that the query could reach, 0–1
    unknown: tuple[str, ...]  # the tokens of the query that no text contains


def _query_tokens(query: str) -> list[str]:
    return list(dict.fromkeys(tokenise(query)))


def _weight(token: str) -> int:
    return LATIN_WEIGHT if token.isascii() else 1


class Bm25:
    """Search texts by BM25, in Lucene's variant. Several threads can use this object."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._n = len(texts)
        self._ids: dict[str, int] = {}
        # One posting for each distinct token of a text. Numbers instead of words, because 100,000 passages have 60
        # million tokens.
        tokens, counts = array("i"), array("i")
        distinct, lengths = np.zeros(self._n, dtype=np.int32), np.ones(self._n, dtype=np.float32)
        for n, text in enumerate(texts):
            if found := Counter(tokenise(text)):
                tokens.extend([self._ids.setdefault(token, len(self._ids)) for token in found])
                counts.extend(found.values())
                distinct[n], lengths[n] = len(found), found.total()
        of, tf = np.asarray(tokens), np.asarray(counts)
        frequency = np.bincount(of, minlength=len(self._ids))  # number of texts that contain each token
        self._weights = np.array([_weight(token) for token in self._ids], dtype=np.float32)
        self._idf = self._weights * np.log1p((self._n - frequency + 0.5) / (frequency + 0.5))
        # The highest idf that a token can have, ln(1 + (N + 0.5) / 0.5) for N texts.
        self._idf_unknown = float(np.log1p((self._n + 0.5) / 0.5))
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        scores = self._idf.astype(np.float32)[of] * (tf / (tf + np.repeat(norm, distinct))).astype(np.float32)
        # Sorted by token: the postings of token t are those from self._starts[t] to self._starts[t + 1].
        order = np.argsort(of, kind="stable")
        self._starts = np.concatenate([[0], frequency.cumsum()])
        self._texts = np.repeat(np.arange(self._n, dtype=np.int32), distinct)[order]
        self._scores = scores[order]

    def match(self, query: str) -> LexicalMatch:
        """Score every text for a query: the sum over the query's distinct tokens (Latin ones times LATIN_WEIGHT) of
        idf * tf / (tf + K1 * (1 - B + B * length / mean length)).
        `ratio` is the best score over the sum of idf, which no text can exceed. A token that no text has lowers it."""
        tokens = _query_tokens(query)
        unknown = tuple(token for token in tokens if token not in self._ids)
        scores, highest = np.zeros(self._n, dtype=np.float32), self._idf_unknown * sum(map(_weight, unknown))
        for token, texts, points in self._postings(tokens):
            np.add.at(scores, texts, points)
            highest += float(self._idf[token])
        return LexicalMatch(scores, float(scores.max()) / highest if highest else 0.0, unknown)

    def match_among(self, query: str, texts: Sequence[int] | np.ndarray[Any, Any]) -> Scores:
        """Return the score of each text at the positions `texts`, with the idf of tokens from these texts alone.
        If all of them are about phishing, the word "phishing" does not distinguish them."""
        place = np.full(self._n, -1)
        place[texts] = np.arange(len(texts))
        found = np.zeros(len(texts), dtype=np.float32)
        for token, numbers, scores in self._postings(_query_tokens(query)):
            among = place[numbers] >= 0
            if n := int(among.sum()):
                idf = np.log1p((len(texts) - n + 0.5) / (n + 0.5)) * self._weights[token]
                found[place[numbers[among]]] += scores[among] * idf / self._idf[token]
        return found

    def match_groups(self, query: str, groups: np.ndarray[Any, Any]) -> Scores:
        """Return how much of a query each group of texts covers. `groups`: the number of each text's group.
        For each token, the best score in the group counts: together, texts can cover what no single one covers."""
        found = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.float32)
        for _, numbers, scores in self._postings(_query_tokens(query)):
            best = np.zeros_like(found)
            np.maximum.at(best, groups[numbers], scores)
            found += best
        return found

    def rarities(self, query: str) -> dict[str, float]:
        """Return {token: idf} for the query's tokens that some text has; Latin ones count LATIN_WEIGHT times."""
        return {token: float(self._idf[self._ids[token]]) for token in _query_tokens(query) if token in self._ids}

    def _postings(self, tokens: Sequence[str]) -> Iterator[tuple[int, np.ndarray[Any, Any], Scores]]:
        for token in (self._ids[token] for token in tokens if token in self._ids):
            part = slice(self._starts[token], self._starts[token + 1])
            yield token, self._texts[part], self._scores[part]
