"""What the runbooks forbid, and how likely a question asks for it or announces it.

The bullets under a heading such as 禁止事項 are the prohibitions, whoever wrote them. `prohibitions.json` beside the
runbooks may add how people ask for each in everyday words, and near misses: questions about how to detect, explain or
clear up the same thing. A logistic model weighs the letters of the question, its sentence vector, its likeness to those
texts, and whether a row of `dangers.json` finds it; benchmarks/fit_flags.py fits it.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from ..base.messages import say
from ..errors import ConfigError
from ..runbooks.reading import PROHIBITIONS_NAME, load_json_object
from .dangers import AGAINST_RUNBOOKS, Danger, compact, operations_named
from .text_model import LONGEST, Numbers, embed_text, load_weights, read_question, sigmoid, weigh

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

WEIGHTS_PATH = Path(__file__).with_name("danger_weights.npz")
LIKELY = 0.4  # a question at least this likely to ask for something forbidden is a danger
BLUNTLY_LIKELY = 0.3  # the same where a row of `dangers.json` finds it
MEASURES_SCALE = 2.0
# What the likeness of letters is mixed with to find the nearest prohibition.
VECTOR_WEIGHT = 0.3
RUNBOOK_WEIGHT = 0.4
ELSEWHERE = 0.85  # what a rule of another section counts beside a ban
ABOUT_WEIGHT = 1.0  # of the whole of a question, beside its sentence that wants something forbidden
NEARLY = 0.85  # of the likeness of the nearest prohibition: another one is quoted, too
_FORBIDS = re.compile(
    r"禁止|してはいけない|してはならない|やってはいけない|prohibit|forbid|do ?n[o']t|never|must not", re.I
)
_BULLET = re.compile(r"^\s*(?:[-*・•]|\d+[.)])\s+(.+)$", re.M)


@dataclass(frozen=True)
class Prohibition:
    """A bullet of 禁止事項. source: its runbook. asks, near_misses: questions in everyday words, from `prohibitions.json`."""

    text: str
    source: str
    citation: str
    asks: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """The forbidden act: 検体を手動で削除しない。… -> 検体を手動で削除すること.

        A sentence of another section says more than the ban: its act is not cut out of it."""
        if not _FORBIDS.search(self.citation):
            return AGAINST_RUNBOOKS
        act = re.split(r"(?<=。)|(?<=\.)\s", self.text, maxsplit=1)[0].rstrip("。. ")
        act = re.sub(r"(?<=ない)(?:こと|で(?:ください|下さい))$", "", act)
        for ending, positive in _POSITIVE:
            changed, n = re.subn(ending, positive, act)
            if n:  # two acts in one, or what else would be said twice over, is not cut out
                return AGAINST_RUNBOOKS if _STILL_NEGATIVE.search(changed) else f"{changed}こと"
        changed = re.sub(r"(?:こと)?を?(?:禁止|禁じ)(?:する|る|します)$", "", act)
        return AGAINST_RUNBOOKS if _STILL_NEGATIVE.search(changed) else changed

    @property
    def safer(self) -> str:
        """What the runbook says after the ban: why, and what to do instead."""
        return "".join(re.split(r"(?<=。)|(?<=\.)\s", self.text, maxsplit=1)[1:]).strip() or self.text


_STILL_NEGATIVE = re.compile(
    r"ない、|ず、|ません|も(?:する|行う)$|は(?:なる|いける)$|^(?:do not|don't|never|must not)\b", re.I
)
# Endings of a ban and of the act itself.
_ROWS = dict(zip("かがさたなばまらわ", "くぐすつぬぶむるう", strict=True))
_POSITIVE = [
    (r"してはなら(?:ない|ず)$|してはいけない$|しない$|しません$", "する"),
    *[(rf"{a}ない$", u) for a, u in _ROWS.items()],
    (r"(?<=[えけせてねべめれげぜでいきちにびみり見出着寝得])ない$", "る"),
]


def forbids(heading: str) -> bool:
    """Whether a section under this heading lists what must not be done."""
    return bool(_FORBIDS.search(heading))


class Catalogue:
    """The prohibitions of an index, and the likeness of a text to them by runs of one to three letters."""

    def __init__(self, prohibitions: Sequence[Prohibition]) -> None:
        self.prohibitions = tuple(prohibitions)
        # Three kinds of text: what asks for a ban (with its number), what only comes near, and the bans themselves.
        rows = [("ask", i, text) for i, p in enumerate(prohibitions) for text in p.asks]
        rows += [("near", i, text) for i, p in enumerate(prohibitions) for text in p.near_misses]
        rows += [("ban", i, p.text) for i, p in enumerate(prohibitions)]
        self._owners = np.array([owner for _, owner, _ in rows], dtype=int)
        self._masks = [np.array([kind == name for kind, _, _ in rows], dtype=float) for name in ("ask", "near", "ban")]
        counted = [_runs(text) for _, _, text in rows]
        spread = Counter(run for counts in counted for run in counts)
        self._rarity = {run: math.log(len(rows) / (n + 0.5)) for run, n in spread.items() if n < 0.3 * len(rows)}
        found: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        for row, counts in enumerate(counted):
            for run, weight in self._weigh(counts).items():
                found[run][0].append(row)
                found[run][1].append(weight)
        self._found = {run: (np.array(at), np.array(weights)) for run, (at, weights) in found.items()}

    @cached_property
    def vectors(self) -> Numbers:
        """The sentence vector of each prohibition, (prohibitions, 512)."""
        return np.array([embed_text(p.text) for p in self.prohibitions])

    def liken(self, text: str, *, but_itself: bool = False) -> tuple[Numbers, Numbers]:
        """(seven measures of likeness to asks, near misses and bans; likeness to each prohibition).

        but_itself: the same text in the catalogue does not count, for fitting."""
        scores = np.zeros(len(self._owners))
        for run, weight in self._weigh(_runs(text)).items():
            if run in self._found:
                at, weights = self._found[run]
                scores[at] += weight * weights
        if but_itself:
            scores[scores > 0.999] = 0
        ask, near, ban = (scores * mask for mask in self._masks)
        best = [_best(ask, 1), _best(ask, 3), _best(near, 1), _best(near, 3), _best(ban, 1)]
        by_prohibition = np.bincount(self._owners, ban / 2, len(self.prohibitions)).astype(float)
        counted: Counter[int] = Counter()
        for row in np.argsort(-ask)[:60]:  # the mean of the three nearest asks of each
            owner = int(self._owners[row])
            counted[owner] += 1
            by_prohibition[owner] += ask[row] / 3 if counted[owner] <= 3 else 0
        return np.array([*best, best[0] - best[2], best[1] - best[3]]), by_prohibition

    def _weigh(self, counts: Counter[str]) -> dict[str, float]:
        weights = {run: (1 + math.log(n)) * self._rarity[run] for run, n in counts.items() if run in self._rarity}
        length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        return {run: weight / length for run, weight in weights.items()}


def rate_danger(question: str, blunt: Sequence[Danger], *, index: RunbookIndex) -> float:
    """The probability that the question wants something forbidden. blunt: what `find_dangerous` found in it."""
    kept = load_weights(WEIGHTS_PATH)
    features = make_features(question, load_catalogue(index), blunt)
    return sigmoid(float(weigh(features, kept["weights"]) + kept["bias"]))


def find_prohibitions(
    question: str, *, index: RunbookIndex, operation: str | None = None, about: str | None = None
) -> list[Prohibition]:
    """The prohibition that is nearest to a question, and the next if it is nearly as near; none where the runbooks have none.

    operation: of `dangers.json`; only what names it counts. about: the whole of it, where `question` is one of its sentences. By its letters, its sentence vector, and how well its runbook as a whole fits (docs/flags.md)."""
    catalogue = load_catalogue(index)
    prohibitions = catalogue.prohibitions
    if not prohibitions:
        return []
    likeness = catalogue.liken(question)[1]
    if about:
        likeness += ABOUT_WEIGHT * catalogue.liken(about)[1]
    likeness += VECTOR_WEIGHT * weigh(embed_text(question), catalogue.vectors.T)
    by_runbook: dict[str, list[float]] = {}
    for passage, score in zip(index.passages, index.mixed_scores(about or question), strict=True):
        by_runbook.setdefault(passage.source, []).append(float(score))
    fit = {source: sum(sorted(scores)[-2:]) / 2 for source, scores in by_runbook.items()}
    likeness += RUNBOOK_WEIGHT * np.array([fit[p.source] for p in prohibitions])
    likeness *= np.array([1.0 if forbids(p.citation) else ELSEWHERE for p in prohibitions])
    if operation is not None:
        names_it = np.array([operation in operations_named(p.text) for p in prohibitions])
        if not names_it.any():
            return []
        likeness = np.where(names_it, likeness, 0.0)
    first, *others = np.argsort(-likeness, kind="stable")
    near = [n for n in others if prohibitions[n].text != prohibitions[first].text][:1]
    found = [prohibitions[n] for n in (first, *near) if likeness[n] >= NEARLY * likeness[first]]
    return sorted(found, key=lambda ban: not forbids(ban.citation))  # of two as near, what is under 禁止事項 says no


def make_features(question: str, catalogue: Catalogue, blunt: Sequence[Danger], *, but_itself: bool = False) -> Numbers:
    """What the model weighs. but_itself: as for `Catalogue.liken`."""
    measures, _ = catalogue.liken(question, but_itself=but_itself)
    row = float(bool(blunt))
    return np.concatenate([read_question(question), MEASURES_SCALE * np.array([*measures, row, row * measures[0]])])


def load_prohibitions(index: RunbookIndex) -> list[Prohibition]:
    """The prohibitions of the index's runbooks, in their order. ConfigError when `prohibitions.json` is damaged."""
    path = index.runbooks / PROHIBITIONS_NAME
    expected = '{"手順書.md": [{"text": "…", "asks": ["…"], "near_misses": ["…"]}]}'
    try:
        entries = [entry for listed in load_json_object(path, expected).values() for entry in listed]
        known = {e["text"]: (tuple(e["asks"]), tuple(e["near_misses"])) for e in entries}
    except (KeyError, TypeError):
        raise ConfigError(say("runbooks.no_object", path=path, expected=expected)) from None
    found = []
    for passage in index.passages:
        for text in _BULLET.findall(passage.text) if _FORBIDS.search(passage.heading) else ():
            found.append(Prohibition(text.strip(), passage.source, passage.citation, *known.pop(text.strip(), ())))
    # Bans that stand elsewhere than under such a heading are prohibitions if the file says so.
    for text, asked in known.items():
        found += [Prohibition(text, p.source, p.citation, *asked) for p in index.passages if text in p.text][:1]
    return found


_CATALOGUES: WeakKeyDictionary[RunbookIndex, Catalogue] = WeakKeyDictionary()


def load_catalogue(index: RunbookIndex) -> Catalogue:
    """The catalogue of an index, made once in its life."""
    if index not in _CATALOGUES:
        _CATALOGUES[index] = _catalogue(tuple(load_prohibitions(index)))
    return _CATALOGUES[index]


@lru_cache(maxsize=4)  # most indexes in a process are of the same runbooks
def _catalogue(prohibitions: tuple[Prohibition, ...]) -> Catalogue:
    return Catalogue(prohibitions)


def _runs(text: str) -> Counter[str]:
    read = f"^{compact(text)[:LONGEST]}$"
    return Counter(read[i : i + n] for n in (1, 2, 3) for i in range(len(read) - n + 1))


def _best(scores: Numbers, n: int) -> float:
    return float(np.sort(scores)[-n:].sum() / n) if len(scores) else 0.0
