"""A decisions endpoint on loopback: what comes in must fit the SDK's parameter types, and replies are its response models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openai.types.decision import Decision
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter

from support.service import Reply

_REQUEST: TypeAdapter[Any] = TypeAdapter(DecisionCreateParams)
INPUT_TOKENS, OUTPUT_TOKENS = 2000, 12
SURE = (0.0, 0.2, 0.8)  # 90 points


def scored(question: Mapping[str, Any], probabilities: Sequence[float]) -> dict[str, Any]:
    """The answer to one score question, of a service that adds up."""
    rows = [
        {"label": level["label"], "value": i, "probability": each}
        for i, (level, each) in enumerate(zip(question["levels"], probabilities, strict=True))
    ]
    mean = sum(row["value"] * row["probability"] for row in rows)
    return {"type": "score", "name": question["name"], "score": mean, "confidence": 0.5, "probabilities": rows}


def refused(question: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "refusal", "name": question["name"]}


def deciding(
    answer: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda question: scored(question, SURE),
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list,
) -> Callable[[dict[str, Any]], Reply]:
    """What a `Service` replies to decisions. answer: to one question; spoil: what is wrong with all of them together."""

    def reply(request: dict[str, Any]) -> Reply:
        # Iterables of the types are checked as they are gone through.
        checked = _REQUEST.validate_python(request)
        for message in list(checked["input"]):
            _ = message["content"] if isinstance(message["content"], str) else list(message["content"])
        for question in list(checked["questions"]):
            assert 2 <= len(list(question["levels"])) <= 10
        assert set(request) == {"model", "input", "questions"}, "the endpoint knows no other parameters"
        body = Decision(
            answers=spoil([answer(question) for question in request["questions"]]),
            model=f"{request['model']}-2026-10-01",
            usage={
                "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
        )  # fmt: skip
        return Reply(body=json.dumps(body.model_dump()))

    return reply
