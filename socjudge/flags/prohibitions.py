"""Find what the runbooks forbid, and how likely it is that a question asks for it or announces it.

The prohibitions are the statements under a heading such as 禁止事項, and other sentences and table cells that forbid
something. `prohibitions.json` beside the runbooks may add to each prohibition two lists of everyday questions. "asks"
are questions that ask for the forbidden operation. "near_misses" are questions about how to detect, explain or clean up
the same thing. A logistic model weighs a question's sequences of letters, its sentence vector, and its likeness to the
prohibitions and to both lists. benchmarks/fit_flags.py computes the weights.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..base.texts import read_statements
from ..errors import ConfigError
from ..records import Passage
from ..runbooks.bm25 import tokenise
from ..runbooks.companions import PROHIBITIONS_NAME, load_json_object
from ..runbooks.reading import split_sentences
from .dangers import AGAINST_RUNBOOKS
from .text_model import (
    LONGEST,
    Numbers,
    compact,
    embed_text,
    hash_runs,
    load_weights,
    read_letters,
    sigmoid,
    weigh,
)

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

WEIGHTS_PATH = Path(__file__).with_name("danger_weights.npz")
LIKELY = 0.5  # from this probability on, a question asks for something forbidden
VAGUELY_LIKELY = 0.85  # the same for a question that is too vague
LETTERS_SCALE, VECTOR_SCALE, MEASURES_SCALE = 4.0, 1.4, 2.0
ENDING, ENDINGS = 14, 1 << 12  # letters at the end of a question (they show if it asks or reports); size of their hash


class Weights(NamedTuple):
    """Hold the weights, fitted on the questions of warnings, of what decides which rule forbids an operation."""

    alike: float  # of the similarity of the question to the rule
    shared: float  # of the share of the rule's words that the question has
    asked: float  # of the question's likeness to the rule's "asks" in `prohibitions.json`
    runbook: float  # of how well the rule's runbook fits the question
    least: float  # the lowest sum at which a rule is taken to forbid the operation


WITH_ASKS = Weights(6.4, 6.4, 29.7, 5.9, 9.8)
WITHOUT_ASKS = Weights(12.3, 9.2, 0.0, 0.0, 5.0)
MOST_SENTENCES = 8  # of a question, from its end
NEARLY = 1.0  # a second rule is returned if its sum is at most this much lower
FORBIDS = re.compile(
    r"禁止|してはいけない|してはならない|やってはいけない|prohibit|forbid|do ?n[o']t|never|must not", re.I
)
_IS_BAN = re.compile(r"(?:し|やっ|行っ)ては(?:なら|いけ)ない|(?:を|は)禁止(?:する|します|。|$)|must not", re.I)
_HIRAGANA = re.compile("[ぁ-ゖー]+")


@dataclass(frozen=True)
class Prohibition:
    text: str
    source: str  # file name of the runbook
    citation: str
    asks: tuple[str, ...] = ()  # everyday questions that ask for what it forbids, from `prohibitions.json`
    near_misses: tuple[str, ...] = ()  # how to detect, explain or clean up what it forbids, from the same file

    @property
    def operation(self) -> str:
        """Return the name of the forbidden operation, such as 検体を手動で削除すること; else AGAINST_RUNBOOKS."""
        if not FORBIDS.search(self.citation):  # not under 禁止事項 or the like: may say more than what is forbidden
            return AGAINST_RUNBOOKS
        act = re.split(r"(?<=。)|(?<=\.)\s", self.text, maxsplit=1)[0].rstrip("。. ")
        act = re.sub(r"(?<=ない)(?:こと|で(?:ください|下さい))$", "", act)
        for ending, positive in _POSITIVE:
            changed, n = re.subn(ending, positive, act)
            if n:  # a rule with two operations or a second negation gives no short name
                return AGAINST_RUNBOOKS if _STILL_NEGATIVE.search(changed) else f"{changed}こと"
        changed = re.sub(r"(?:こと)?を?(?:禁止|禁じ)(?:する|る|します)$", "", act)
        return AGAINST_RUNBOOKS if _STILL_NEGATIVE.search(changed) else changed

    @property
    def safer(self) -> str:
        """Return what the rule says after its first sentence, such as what to do instead, or else the whole rule."""
        return "".join(re.split(r"(?<=。)|(?<=\.)\s", self.text, maxsplit=1)[1:]).strip() or self.text


_STILL_NEGATIVE = re.compile(
    r"ない、|ず、|ません|も(?:する|行う)$|は(?:なる|いける)$|^(?:do not|don't|never|must not)\b", re.I
)
# The ending of a prohibition, and the ending of the forbidden operation.
_ROWS = dict(zip("かがさたなばまらわ", "くぐすつぬぶむるう", strict=True))
_POSITIVE = [
    (r"してはなら(?:ない|ず)$|してはいけない$|しない$|しません$", "する"),
    *[(rf"{a}ない$", u) for a, u in _ROWS.items()],
    (r"(?<=[えけせてねべめれげぜでいきちにびみり見出着寝得])ない$", "る"),
]


class Catalogue:
    """Hold the prohibitions of an index, and measure by short sequences of letters how alike a text is to them."""

    def __init__(self, prohibitions: Sequence[Prohibition]) -> None:
        self.prohibitions = tuple(prohibitions)
        # (kind, number of the prohibition, text). Kinds: asks, near misses, and the prohibitions (bans) themselves.
        rows = [("ask", i, text) for i, p in enumerate(prohibitions) for text in p.asks]
        rows += [("near", i, text) for i, p in enumerate(prohibitions) for text in p.near_misses]
        rows += [("ban", i, p.text) for i, p in enumerate(prohibitions)]
        self._owners = np.array([owner for _, owner, _ in rows], dtype=int)
        self._masks = [np.array([kind == name for kind, _, _ in rows], dtype=float) for name in ("ask", "near", "ban")]
        read = [_runs(text) for _, _, text in rows]
        owners = np.repeat(np.arange(len(rows)), [len(runs) for runs in read])
        self._known, numbers = np.unique(np.concatenate([*read, np.zeros(0, dtype=np.int64)]), return_inverse=True)
        # One entry for each sequence (run) of each text, sorted by sequence: the text, and the sequence's weight.
        entries, counts = np.unique(numbers * max(len(rows), 1) + owners, return_counts=True)
        numbers, self._texts = np.divmod(entries, max(len(rows), 1))
        spread = np.bincount(numbers, minlength=len(self._known))
        self._starts = np.concatenate([[0], np.cumsum(spread)])
        self._rarity = np.where(spread < 0.3 * len(rows), np.log(len(rows) / (spread + 0.5)), 0.0)
        weights = (1 + np.log(counts)) * self._rarity[numbers]
        lengths = np.sqrt(np.bincount(self._texts, weights * weights, minlength=len(rows)))
        self._weights = weights / np.where(lengths > 0, lengths, 1)[self._texts]

    @cached_property
    def words(self) -> list[set[str]]:
        """Return for each prohibition the words of its first sentence. Words in hiragana are left out."""
        return [_words(_act(p)) for p in self.prohibitions]

    def liken(self, text: str, *, but_itself: bool = False) -> tuple[Numbers, Numbers]:
        """Return seven measures of likeness to all prohibitions and their questions, and one value per prohibition.
        `but_itself` ignores a text of the catalogue that equals this text; the fit needs this."""
        scores = np.zeros(len(self._owners))
        runs, counts = np.unique(_runs(text), return_counts=True)
        is_known = np.isin(runs, self._known)
        numbers = np.searchsorted(self._known, runs[is_known])
        weights = (1 + np.log(counts[is_known])) * self._rarity[numbers]
        length = math.sqrt(float(np.sum(weights * weights))) or 1.0
        for number, weight in zip(numbers, weights / length, strict=True):
            entries = slice(self._starts[number], self._starts[number + 1])
            scores[self._texts[entries]] += weight * self._weights[entries]
        if but_itself:
            scores[scores > 0.999] = 0
        ask, near, ban = (scores * mask for mask in self._masks)
        # Likeness (0–1) of the nearest ask, near miss or prohibition, or the mean of the three nearest.
        best = [_best(ask, 1), _best(ask, 3), _best(near, 1), _best(near, 3), _best(ban, 1)]
        by_prohibition = np.zeros(len(self.prohibitions))
        counted: Counter[int] = Counter()
        for row in np.argsort(-ask)[:60]:  # per prohibition, the mean of its three nearest asks; a missing one is 0
            owner = int(self._owners[row])
            counted[owner] += 1
            by_prohibition[owner] += ask[row] / 3 if counted[owner] <= 3 else 0
        return np.array([*best, best[0] - best[2], best[1] - best[3]]), by_prohibition


def rate_danger(question: str, *, index: RunbookIndex) -> float:
    """Return the probability (0–1) that a question asks for something forbidden, or announces it."""
    kept = load_weights(WEIGHTS_PATH)
    features = make_features(question, load_catalogue(index), kept["rarity"])
    return sigmoid(float(weigh(features, kept["weights"]) + kept["bias"]))


def find_prohibitions(question: str, *, index: RunbookIndex) -> list[Prohibition]:
    """Return the rules that forbid the operation that a question asks for, best first: two at most, or []."""
    catalogue = load_catalogue(index)
    rules = catalogue.prohibitions
    if not rules:
        return []
    weights = WITH_ASKS if any(rule.asks for rule in rules) else WITHOUT_ASKS
    sentences = dict.fromkeys([question, *split_sentences(question)[-MOST_SENTENCES:]])
    acts = [_act(rule) for rule in rules]
    vectors = index.embed(acts).astype(float)
    said = _words(question)
    by_runbook: dict[str, list[float]] = {}
    for passage, score in zip(index.passages, index.mixed_scores(question), strict=True):
        by_runbook.setdefault(passage.source, []).append(float(score))
    scores = (
        weights.alike * np.max([weigh(embed_text(sentence), vectors.T) for sentence in sentences], axis=0)
        + weights.shared * np.array([len(words & said) / max(len(words), 1) for words in catalogue.words])
        + weights.asked * catalogue.liken(question)[1]
        + weights.runbook * np.array([sum(sorted(by_runbook[rule.source])[-2:]) / 2 for rule in rules])
    )
    least = max(weights.least, float(scores.max()) - NEARLY)
    found = {rules[n].text: rules[n] for n in np.argsort(-scores, kind="stable") if scores[n] >= least}
    return list(found.values())[:2]


def _act(rule: Prohibition) -> str:
    return re.split(r"(?<=。)|(?<=\.)\s", rule.text, maxsplit=1)[0]


def _words(text: str) -> set[str]:
    return {token for token in tokenise(text) if not _HIRAGANA.fullmatch(token)}


def make_features(question: str, catalogue: Catalogue, rarity: Numbers, *, but_itself: bool = False) -> Numbers:
    """Return the input of the logistic model of `rate_danger` for a question, of shape (LETTERS + 512 + 7 + ENDINGS,).
    `rarity`: a weight for each entry of the array from `read_letters`; the fit computes it."""
    measures, _ = catalogue.liken(question, but_itself=but_itself)
    letters = read_letters(question) * rarity
    letters *= LETTERS_SCALE / (math.sqrt(float(np.sum(letters * letters))) or 1.0)
    ending = hash_runs(re.sub(r"\W+$", "", compact(question))[-ENDING:] + "$", 6, ENDINGS)
    return np.concatenate([letters, VECTOR_SCALE * embed_text(question), MEASURES_SCALE * measures, ending])


def load_prohibitions(index: RunbookIndex) -> list[Prohibition]:
    """Return the prohibitions of the passages, and then those that only `prohibitions.json` lists."""
    path = index.runbooks / PROHIBITIONS_NAME
    expected = '{"手順書.md": [{"text": "…", "asks": ["…"], "near_misses": ["…"]}]}'
    try:
        entries = [entry for listed in load_json_object(path, expected).values() for entry in listed]
        known = {e["text"]: (tuple(e["asks"]), tuple(e["near_misses"])) for e in entries}
    except (KeyError, TypeError):
        raise ConfigError("{path}: expected an object {expected}", path=path, expected=expected) from None
    found = [
        Prohibition(text, passage.source, passage.citation, *known.pop(text, ()))
        for passage in index.passages
        for text in _read_rules(passage)
    ]
    # What `_read_rules` does not find is a prohibition, too, if the file has it.
    for text, asked in known.items():
        found += [Prohibition(text, p.source, p.citation, *asked) for p in index.passages if text in p.text][:1]
    return found


def _read_rules(passage: Passage) -> Iterator[str]:
    if FORBIDS.search(passage.heading):
        yield from (statement.text for statement in read_statements(passage.text) if statement.kind != "code")
        return
    titles: list[str] = []
    for line in passage.text.splitlines():
        if not line.startswith("|"):
            titles = []
            yield from (sentence for sentence in split_sentences(line) if _IS_BAN.search(sentence))
        elif not titles:
            titles = line.strip("| ").split("|")
        else:
            cells = zip(titles, line.strip("| ").split("|"), strict=False)
            yield from (c.strip() for title, c in cells if c.strip() and (FORBIDS.search(title) or _IS_BAN.search(c)))


_CATALOGUES: WeakKeyDictionary[RunbookIndex, Catalogue] = WeakKeyDictionary()


def load_catalogue(index: RunbookIndex) -> Catalogue:
    if index not in _CATALOGUES:
        _CATALOGUES[index] = Catalogue(load_prohibitions(index))
    return _CATALOGUES[index]


def _runs(text: str) -> Numbers:
    read = f"^{compact(text)[:LONGEST]}$".encode("utf-32-le", "surrogatepass")
    # Each sequence of one to three letters becomes one integer, 21 bits per letter. Repeats are kept.
    letters = np.frombuffer(read, dtype="<u4").astype(np.int64)
    pairs = letters[:-1] << 21 | letters[1:]
    return np.concatenate([letters, pairs, pairs[:-1] << 21 | letters[2:]])


def _best(scores: Numbers, n: int) -> float:
    return float(np.sort(scores)[-n:].sum() / n) if len(scores) else 0.0
