"""A model service that plays a script drawn from a seed, and its own record of every call: for the random runs."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from socjudge.records import Completion, ModelRequest, Usage
from support.service import CRITERIA, Reply, error, is_judge_call

PRICES = {"mine-a": (1.0, 4.0), "mine-b": (2.0, 3.0), "mine-c": (0.5, 8.0), "mine-z": (1.0, 2.0)}  # dollars per million
ASSISTANT = "mine-z"
CHEAPER = "gpt-4.1-nano"  # a public list price, far below those of PRICES
FILTERED = "The response was filtered due to the prompt triggering the content management policy."
DELIVERED = ("mark", "unread", "answer")
UNREADABLE = ("読めません", '{"scores": {"根拠性": 80', '{"scores": {"根拠性": 80}}', '{"scores": {"根拠性": 105}}')


@dataclass
class Call:
    """One call as the service saw it. most_usd: the most that it can have cost; start: of which start of the program."""

    model: str
    question: int
    serial: int
    start: int
    most_usd: float
    got: str = ""  # one of DELIVERED, or: refused, fault (nothing was processed), lost (nobody knows)
    marks: tuple[int, ...] = ()
    tokens: tuple[int, int] = (0, 0)
    is_counted: bool = True  # whether the reply has a usage

    @property
    def usd(self) -> float | None:
        prices = PRICES[self.model]
        return sum(n * price for n, price in zip(self.tokens, prices, strict=True)) / 1e6 if self.is_counted else None

    @property
    def against_cap(self) -> float:
        if self.got not in (*DELIVERED, "lost"):
            return 0.0
        return self.most_usd if self.got == "lost" or self.usd is None else self.usd


class Refusal(Exception):
    """What an object's service says no with."""

    def __init__(self, status: int, text: str = "no") -> None:
        super().__init__(text)
        self.status_code = status


class World:
    """The script of one seed, the service that plays it, and the record of all calls."""

    def __init__(self, seed: int) -> None:
        self.seed, draw = seed, random.Random(seed)
        self.calls: list[Call] = []
        self.asked: Counter[tuple[str, int]] = Counter()
        self.lock = threading.Lock()
        self.start = self.in_start = self.number = 0
        self.stop = threading.Event()
        self.fate, self.fate_at, self.is_calm = "whole", 0, False
        self.n, self.line = min(draw.randint(2, 12), draw.randint(2, 12)), draw.choice([50, 60, 70, 80])
        self.rate = draw.choice([0.5, 0.7, 0.8, 1.0])
        self.stored = draw.random() < 0.5
        self.answer_repeats = 1 if self.stored else draw.choice([1, 1, 2, 3])
        self.judge_repeats = draw.choice([1, 1, 2, 3])
        self.names = draw.sample(["mine-a", "mine-b"], k=2)[: draw.choice([1, 1, 2])] + ["mine-c"] * (
            draw.random() < 0.25
        )
        self.own = {name for name in self.names if draw.random() < 0.2}
        self.cli = not self.stored and not self.own and draw.random() < 0.6
        self.capped, self.at_once = draw.random() < 0.4, draw.choice([1, 1, 1, 3])
        self.p_fault, self.p_uncounted = draw.choice([0, 0.03, 0.1]), draw.choice([0, 0, 0, 0.1])
        self.renames = draw.choice(["{}", "{}", "{}-2026-01-01", "{}-2026-01-01", "", CHEAPER])
        self.blind = draw.random() < 0.15  # no judgement can be read at first
        level = self.line + draw.choice([-8, 0, 3, 8, 15])
        self.levels = [self.line if draw.random() < 0.1 else round(draw.gauss(level, 10)) for _ in range(self.n)]
        p_refused, p_unread = draw.choice([0, 0, 0.15, 0.5]), draw.choice([0, 0, 0.2])
        pairs = [(name, i) for name in ("mine-a", "mine-b", "mine-c", ASSISTANT) for i in range(self.n)]
        self.refused = {pair for pair in pairs if draw.random() < (0.1 if pair[0] == ASSISTANT else 1) * p_refused}
        self.unread = {pair: draw.choice([0.5, 0.8, 1.0]) if draw.random() < p_unread else 0.03 for pair in pairs}
        self.draw = draw

    def begin(self, number: int, spent: float, *, by_command: bool) -> float | None:
        """The next start of the program, which ends in some way; gives its cap."""
        self.start, self.in_start, self.stop = self.start + 1, 0, threading.Event()
        self.number, self.is_calm = number, number > 2
        ways = ["whole", "down", *["stop", "ctrl-c"] * (not by_command), *["budget"] * (2 * self.capped)]
        self.fate, self.fate_at = "whole" if self.is_calm else self.draw.choice(ways), self.draw.randint(1, 12)
        if not self.capped:
            return None
        return spent + self.draw.uniform(0, 0.15) if self.fate == "budget" else 1000.0

    def call(self, model: str, text: str, given: int, room: int, *, again: bool) -> Call:
        """Take a call, decide what it gets, and note both."""
        question, prices = int(re.search(r"問い#(\d+)#", text)[1]), PRICES[model]  # type: ignore[index]
        with self.lock:
            self.asked[model, question] += 1
            chance = random.Random(f"{self.seed} {model} {question} {self.asked[model, question]}")
            most = (given * prices[0] + room * prices[1]) / 1e6
            call = Call(model, question, len(self.calls), self.start, most)
            self.calls.append(call)
            self.in_start += 1
            reached = self.in_start >= self.fate_at
        if self.fate == "stop" and reached:
            self.stop.set()
        call.tokens = given // 10 + chance.randint(0, 800), chance.randint(50, 300)  # fewer would not be believed
        call.is_counted = chance.random() >= self.p_uncounted
        is_blind = (self.blind and self.start == 1) or chance.random() < self.unread[model, question]
        if self.fate == "down" and reached:
            call.got = chance.choice(["fault", "fault", "lost"])
        elif not self.is_calm and chance.random() < self.p_fault:
            call.got = chance.choice(["fault", "lost"])
        elif (model, question) in self.refused or (again and chance.random() < 0.1):
            call.got = "refused"
        elif model == ASSISTANT:
            call.got = "answer"
        else:
            call.got = "unread" if is_blind and self.number < 5 else "mark"
            base = self.levels[question] + (0 if self.levels[question] == self.line else chance.randint(-5, 5))
            spread = 0 if base == self.line else 8
            # From 20 on: marks of 10 and less may be of another scale, and are asked for again.
            call.marks = tuple(min(max(base + chance.randint(-spread, spread), 20), 100) for _ in CRITERIA)
        return call

    def said(self, call: Call) -> tuple[str, str]:
        """The text of a reply, and why it ended."""
        if call.got == "answer":
            return f"端末を隔離します。回答#{call.serial}# [出典: malware_response.md > 初動対応]", "stop"
        if call.got == "unread":
            kind = call.serial % len(UNREADABLE)
            return f"{UNREADABLE[kind]} 採点#{call.serial}#", "length" if kind == 1 else "stop"
        marks = dict(zip(CRITERIA, call.marks, strict=True))
        told = {
            "scores": marks,
            "rationale": dict.fromkeys(CRITERIA, "理由"),
            "overall_comment": f"採点#{call.serial}#",
        }
        return json.dumps(told, ensure_ascii=False), "stop"

    def http(self, request: dict[str, Any]) -> Reply:
        given = sum(len(message["content"].encode()) + 20 for message in request["messages"])
        room = next(request[name] for name in ("max_tokens", "max_completion_tokens") if name in request)
        again = is_judge_call(request) and len(request["messages"]) > 1
        call = self.call(
            request["model"], json.dumps(request["messages"], ensure_ascii=False), given, room, again=again
        )
        if call.got == "refused":
            return error(400, FILTERED, code="content_filter")
        if call.got == "fault":
            status = (429, 500, 503)[call.serial % 3]
            return error(status, "later")
        if call.got == "lost":
            return Reply(drop=True) if call.serial % 2 else Reply(body='{"choices": [')
        text, reason = self.said(call)
        message = {"role": "assistant", "content": text}
        body: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
        if name := self.renames.format(call.model):
            body["model"] = name
        if call.is_counted:
            body["usage"] = {"prompt_tokens": call.tokens[0], "completion_tokens": call.tokens[1]}
        return Reply(body=json.dumps(body, ensure_ascii=False))


class Own:
    """A judge object of the user's own, which plays the same script."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.settings, self._world = name, f"object of seed {world.seed}", world

    def complete(self, request: ModelRequest) -> Completion:
        given = sum(len(message["content"].encode()) + 20 for message in request.messages)
        text, again = request.messages[0]["content"], len(request.messages) > 1
        call = self._world.call(self.name, text, given, request.max_output_tokens, again=again)
        if call.got == "refused":
            raise Refusal(400, f"content_filter: {FILTERED}")
        if call.got == "fault":
            raise Refusal((429, 500, 503)[call.serial % 3])
        if call.got == "lost":
            raise TimeoutError("no reply") if call.serial % 2 else ConnectionError("lost")
        tokens = call.tokens if call.is_counted else (0, 0)
        return Completion(
            *(self._world.said(call)[:1]), self.name, Usage(1, *tokens, call.usd), self._world.said(call)[1]
        )


def paid(calls: Sequence[Call]) -> dict[str, float | None]:
    """What the delivered replies of these calls consumed; the cost is unknown as soon as one does not say."""
    found = [call for call in calls if call.got in DELIVERED]
    costs = [call.usd for call in found]
    known = [call for call in found if call.is_counted]
    return {
        "calls": len(found),
        "input_tokens": sum(call.tokens[0] for call in known),
        "output_tokens": sum(call.tokens[1] for call in known),
        "cost_usd": None if None in costs else sum(cost or 0 for cost in costs),
    }
