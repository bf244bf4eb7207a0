"""Turn the reply of a decision model into scores, or raise an error if that is impossible.

A decision model gives, for each criterion, the probability of each level. The score is the expected value over the
levels. If a reply contradicts itself, the model is asked again. The same is done if a chat model's reply could not be
parsed. If a decision model refuses to score a criterion, that score is missing, and the model is not asked again.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from ..base.messages import listed, say
from ..errors import UnparsableJudgement
from ..prompts.for_rubric import anchors_of
from ..records import Rubric
from .replies import Judgement, whole_points

TOLERANCE = 0.01  # tolerance for a sum of probabilities, and for an expected value as a share of its scale


def parse_decision(text: str, rubric: Rubric, levels: int) -> Judgement:
    """Return the scores in a decision model's reply, in whole points, with the probabilities behind them.
    UnparsableJudgement, with the reply, if it does not fit the rubric and its levels, or contradicts itself."""
    try:
        return _parse(orjson.loads(text), rubric, levels)
    except UnparsableJudgement as error:
        raise UnparsableJudgement(str(error), text) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnparsableJudgement(
            "the decision model's reply has not the agreed shape ({reason})", reason=str(error)[:80], raw_text=text
        ) from None


def _parse(answers: Any, rubric: Rubric, levels: int) -> Judgement:
    asked = anchors_of(rubric, levels)
    if len(answers) != len(asked):
        raise UnparsableJudgement("{found} answers to {asked} questions", found=len(answers), asked=len(asked))
    probabilities: dict[str, tuple[float, ...]] = {}
    for (name, (_, labels)), answer in zip(asked.items(), answers, strict=True):
        if answer.get("name") != name:
            raise UnparsableJudgement(
                "'{found}' stands where the answer on '{asked}' should", found=f"{answer.get('name')!s:.40}", asked=name
            )
        if answer["type"] != "refusal":
            probabilities[name] = _probabilities(name, answer, labels)
    means = {name: _mean(each) / (levels - 1) * 100 for name, each in probabilities.items()}
    scores = {name: whole_points(mean) for name, mean in means.items()}
    rationale = {name: say("the expected value of {told}", told=_told(each)) for name, each in probabilities.items()}
    missing = {name: "refused" for name in asked if name not in probabilities}
    comment = say(
        "A decision model gives the probability of each level and no reasons; a score is their expected value."
    )
    return Judgement(scores, rationale, comment, probabilities=probabilities, missing=missing)


def _probabilities(name: str, answer: Any, labels: tuple[str, ...]) -> tuple[float, ...]:
    if answer["type"] != "score":
        raise UnparsableJudgement(
            "the answer on '{criterion}' is neither a score nor a refusal ({found})",
            criterion=name,
            found=f"{answer['type']!s:.20}",
        )
    given = {(each["value"], each["label"]): each["probability"] for each in answer["probabilities"]}
    if len(answer["probabilities"]) != len(labels) or set(given) != set(enumerate(labels)):
        raise UnparsableJudgement("the levels of '{criterion}' are not those that were asked for", criterion=name)
    found = tuple(float(given[level]) for level in enumerate(labels))
    if not all(0 <= each <= 1 for each in found) or abs(math.fsum(found) - 1) > TOLERANCE:
        raise UnparsableJudgement(
            "the probabilities of '{criterion}' add up to {sum} instead of 1",
            criterion=name,
            sum=f"{math.fsum(found):.3f}",
        )
    told, follows = float(answer["score"]), math.fsum(i * each for i, each in enumerate(found))
    if not abs(told - follows) <= TOLERANCE * (len(labels) - 1):
        raise UnparsableJudgement(
            "'{criterion}' is given as {told}, but its probabilities have the expected value {follows}",
            criterion=name,
            told=f"{told:.3f}",
            follows=f"{follows:.3f}",
        )
    return found


def _mean(probabilities: tuple[float, ...]) -> float:
    return math.fsum(i * each for i, each in enumerate(probabilities)) / math.fsum(probabilities)


def _told(probabilities: tuple[float, ...]) -> str:
    step = 100 // (len(probabilities) - 1)
    return listed(
        say("{points} points {share:.0%}", points=i * step, share=each) for i, each in enumerate(probabilities)
    )
