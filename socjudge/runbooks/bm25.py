"""Words: Japanese and English text as BM25 tokens, and the BM25 index over them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# BM25's usual values: others between 0.9 and 2, and 0.3 and 0.75, moved R@5 by 0.01 at most.
K1 = 1.5
B = 0.75
TOKENS_VERSION = 1  # raise it when `tokenise` changes: index fingerprints depend on it

# One alternative per script. \w is last: letters of any other script, such as é or 한.
_KANJI = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_RUNS = re.compile(
    f"(?P<kanji>[{_KANJI}]+)|(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)"
    r"|(?P<latin>[a-z0-9]+(?:[-_.][a-z0-9]+)*)"
    f"|(?P<other>(?:(?![{_KANJI}{_HIRAGANA}{_KATAKANA}a-z0-9])\\w)+)"
)


def normalise_text(text: str) -> str:
    """Text in the one spelling that is compared: NFKC (ＥＤＲ and ｴﾗｰ become EDR and エラー), lower case."""
    return unicodedata.normalize("NFKC", text).lower()


def tokenise(text: str) -> list[str]:
    """The BM25 tokens of a text, in order, repeats kept.

    Kanji runs give single characters and pairs, hiragana runs pairs, katakana runs themselves and their
    pieces of four letters (フィッシングメール must find フィッシング); Latin words and numbers give
    themselves and, where joined by - _ or ., also their parts."""
    tokens: list[str] = []
    for match in _RUNS.finditer(normalise_text(text)):
        run, script = match[0], match.lastgroup
        pairs = [run[i : i + 2] for i in range(len(run) - 1)]
        if script == "kanji":
            tokens += [*run, *pairs]
        elif script == "hiragana":
            tokens += pairs
        elif script == "katakana":
            tokens.append(run)
            if len(run) > 4:
                tokens += [run[i : i + 4] for i in range(len(run) - 3)]
        else:
            tokens.append(run)
            parts = re.split(r"[-_.]", run)
            if len(parts) > 1:
                tokens += parts
    return tokens


def content_words(text: str) -> set[str]:
    """The tokens that carry meaning: kanji pairs, katakana words, Latin words and numbers."""
    return {t for t in tokenise(text) if len(t) > 1 and not re.fullmatch(f"[{_HIRAGANA}]+", t)}


@dataclass(frozen=True)
class LexicalMatch:
    """scores: (passages,) BM25 score of each. ratio: 0–1, see `Bm25.match`. unknown: tokens never indexed."""

    scores: np.ndarray[Any, np.dtype[np.float32]]
    ratio: float
    unknown: tuple[str, ...]


class Bm25:
    """BM25 (Lucene's variant, by bm25s) over texts. Safe to use from several threads."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._n = len(texts)
        self._bm25 = bm25s.BM25(k1=K1, b=B, method="lucene")
        self._bm25.index([tokenise(text) or [""] for text in texts], show_progress=False)
        self._ids: dict[str, int] = self._bm25.vocab_dict
        frequency = np.diff(self._bm25.scores["indptr"])  # passages that hold each token
        self._idf = np.log1p((self._n - frequency + 0.5) / (frequency + 0.5))
        self._idf_unknown = float(np.log1p((self._n + 0.5) / 0.5))

    def match(self, query: str) -> LexicalMatch:
        """Scores of a query against every text.

        The score of a text is the sum, over the query's distinct tokens t, of
        idf(t) * tf / (tf + k1 * (1 - b + b * length / mean length)). A term's last factor stays below 1,
        so no text can score more than the sum of idf(t): `ratio` is the best score divided by that sum.
        A token that no text holds counts with idf = ln(1 + (N + 0.5) / 0.5), the highest there is, and so
        lowers the ratio. 0 for a query without tokens."""
        tokens = list(dict.fromkeys(tokenise(query)))
        known = [self._ids[token] for token in tokens if token in self._ids]
        unknown = tuple(token for token in tokens if token not in self._ids)
        if not known:
            return LexicalMatch(np.zeros(self._n, dtype=np.float32), 0.0, unknown)
        scores = self._bm25.get_scores_from_ids(known)
        highest = float(self._idf[known].sum()) + self._idf_unknown * len(unknown)
        return LexicalMatch(scores, float(scores.max()) / highest, unknown)
