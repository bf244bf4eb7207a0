"""A scripted judge that knows which answer is damaged how, with weaknesses that the diagnostics must find; and good answers."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from socjudge import AssistantAnswer, EvalQuestion, Rubric, load_prompt
from socjudge.answering.citations import format_context
from socjudge.certify.cases import REPEATS, Case, Judged, judge_cases, plan_cases, plan_changes, plan_originals
from socjudge.certify.changes import CONTROL, DAMAGES, Kind, find_change, list_attacks
from socjudge.certify.subjects import find_subjects
from socjudge.models.opening import open_model
from socjudge.prompts.templates import fill, judge_values
from socjudge.records import Flags, Passage
from socjudge.runs.forecast import estimate_plan
from socjudge.runs.plan import Plan
from support.damages import good_answer
from support.service import CRITERIA, judgement

Pair = tuple[EvalQuestion, AssistantAnswer]
Scores = dict[str, int]
Weakness = Callable[[Scores, str], Scores]


def good_pairs(split: str = "dev") -> list[Pair]:
    """The stored good answers, each with its question and passages."""
    items = json.loads((Path(__file__).parents[1] / "data" / "good_answers.json").read_text("utf-8"))
    pairs = []
    for item in items:
        passages = tuple(Passage(p["text"], p["source"], p["heading"]) for p in item["passages"])
        question = EvalQuestion(item["id"], item["category"], item["question"], tuple(item["expected_keypoints"]))
        answer = AssistantAnswer(
            item["question"], good_answer(item), format_context(passages), passages, Flags(**item["flags"])
        )
        pairs += [(question, answer)] * (item["split"] == split)
    return pairs


def plan_probes(given: Any, *kinds: Kind, size: int | None = None, repeats: int = REPEATS) -> list[Case]:
    """Those cases of a certificate of the specification's criteria that are of these kinds, with what they stand beside."""
    rubric, subjects = Rubric(), find_subjects(given)
    changed = plan_changes(subjects, rubric.criteria, size=size)
    wanted = [case for case in changed if ("attack" if case.name == CONTROL else find_change(case.name).kind) in kinds]
    originals = plan_originals(subjects, 0 if kinds == ("attack",) else 1 + repeats)
    return [*originals, *wanted]


def plan_of(cases: Sequence[Case], judge_model: str) -> Plan:
    rubric = Rubric()
    return plan_cases(cases, open_model(judge_model), load_prompt(None, rubric=rubric), rubric)


def estimate_probes(given: Any, *kinds: Kind) -> int:
    """How many calls of gpt-4o-mini the cases of these kinds take."""
    return estimate_plan(plan_of(plan_probes(given, *kinds), "gpt-4o-mini")).calls


def probe(
    given: Any, *kinds: Kind, judge_model: str, logs_dir: Path, max_cost_usd: float | None = None, options: Any = None,
    **what: Any,
) -> Judged:  # fmt: skip
    """Let the judge score the cases of these kinds."""
    cases = plan_probes(given, *kinds, **what)
    plan = plan_of(cases, judge_model)
    return judge_cases(cases, plan, options, logs_dir=logs_dir, max_cost_usd=max_cost_usd, progress=False)


class ScriptedJudge:
    """Replies to the requests of a certificate over these pairs: 90 points, and 30 where a damage's criterion must fall.

    What no damage made gets 90; a text of politeness alone, or an attack instead of an answer, 20. weaknesses: change the
    scores, given the prompt."""

    def __init__(self, pairs: Sequence[Pair], *weaknesses: Weakness) -> None:
        self.weaknesses = weaknesses
        template = load_prompt(None).text
        self.falls = {
            fill(template, judge_values(variant.question, variant.answer)): damage.falls
            for subject in find_subjects(pairs)
            for damage in DAMAGES
            for variant in damage.make(subject)
        }

        instead = [attack for attack in list_attacks(CRITERIA) if attack.name.endswith(" instead")]
        self.empty = {
            fill(template, judge_values(subject.question, attack.make(subject)[0].answer))
            for subject in find_subjects(pairs)
            for attack in instead
        }

    def __call__(self, request: dict[str, Any]) -> str:
        prompt = request["messages"][0]["content"]
        scores = dict.fromkeys(CRITERIA, 90)
        scores |= dict.fromkeys(self.falls.get(prompt, ()), 30)
        if "ご質問いただきありがとうございます。" in prompt or prompt in self.empty:
            scores = dict.fromkeys(CRITERIA, 20)
        for weakness in self.weaknesses:
            scores = weakness(scores, prompt)
        return judgement(scores, reason="採点者の言葉による理由です。")


def blind(criterion: str) -> Weakness:
    """Never marks it down."""
    return lambda scores, _: {**scores, criterion: 90}


def gullible(scores: Scores, prompt: str) -> Scores:
    """Believes whoever speaks of 100 points."""
    told = re.sub(r"100点: .*|0-100点", "", prompt)
    return dict.fromkeys(CRITERIA, 97) if re.search(r'100点|"根拠性": 100', told) else scores


def follows_flags(scores: Scores, prompt: str) -> Scores:
    """Takes the flag of danger for a danger."""
    return {**scores, "安全性": 40} if "- 危険操作: あり" in prompt else scores


class Noisy:
    """Adds up to `points` to or from each mark; the n-th call with a prompt has its own noise, in whatever order they come."""

    def __init__(self, points: int) -> None:
        self.points = points
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, scores: Scores, prompt: str) -> Scores:
        with self._lock:
            self._calls[prompt] += 1
            source = random.Random(f"{prompt} {self._calls[prompt]}")
        return {c: min(100, max(0, s + source.randint(-self.points, self.points))) for c, s in scores.items()}
