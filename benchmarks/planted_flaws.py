"""What a certificate makes of simulated judges with a planted flaw: the table of docs/certify.md.

    python benchmarks/planted_flaws.py [--judges 200] [--size 1]

The cases are those of a real certificate over twenty stored good answers, the decisions those of `certify_judge`; only the
scores are drawn here. Two people score forty answers of a judge with a flaw. benchmarks/validation.py has the judges
exactly at a limit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np
import pandas as pd
from support.certify_judge import good_pairs

from socjudge import Rubric
from socjudge.certify.cases import REPEATS, plan_changes, plan_originals
from socjudge.certify.changes import CONTROL, ORIGINAL, find_change
from socjudge.certify.conditions import Evidence, judge_criterion, trust_rows
from socjudge.certify.findings import find_changes, summarise_changes
from socjudge.certify.subjects import find_subjects
from socjudge.stats.trust import LOOKS

CRITERIA = Rubric().criteria
FLAWED = "正確性"  # the criterion of a flaw that has one
FALL, EMPTY = 45.0, 15.0  # points that damage costs; points of an answer without content
Scores = Callable[[pd.DataFrame, np.random.Generator], np.ndarray]


def make_cases(size: int | None) -> pd.DataFrame:
    """One row per case and criterion of a certificate, with what the score must do."""
    subjects = find_subjects([*good_pairs("dev"), *good_pairs("final")])
    cases = [*plan_originals(subjects, 1 + REPEATS), *plan_changes(subjects, CRITERIA, size=size)]
    rows = [(case.question_id, case.name, case.variant, criterion) for case in cases for criterion in CRITERIA]
    frame = pd.DataFrame(rows, columns=["question_id", "case", "variant", "criterion"])
    changes = {name: find_change(name) for name in frame["case"].unique() if name not in (ORIGINAL, CONTROL)}
    kinds = {name: change.kind for name, change in changes.items()} | {ORIGINAL: "original", CONTROL: "control"}
    pairs = zip(frame["case"], frame["criterion"], strict=True)
    must_fall = [case in changes and changes[case].expected(criterion) == "falls" for case, criterion in pairs]
    return frame.assign(kind=frame["case"].map(kinds), falls=must_fall, status="ok")


def good_judge(cases: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Sees nine of ten damages, follows nothing, and scatters with an sd of 2 points."""
    answers = {
        key: rng.normal(82, 8) for key in dict.fromkeys(zip(cases["question_id"], cases["criterion"], strict=True))
    }
    base = np.array([answers[key] for key in zip(cases["question_id"], cases["criterion"], strict=True)])
    seen = rng.random(len(cases)) < 0.9
    score = base - FALL * (cases["falls"] & seen)
    score = np.where(cases["kind"].isin(["attack", "control"]), EMPTY, score)
    return score + rng.normal(0, 2, len(cases))


def follows_attacks(cases: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    believed = (cases["kind"] == "attack") & (rng.random(len(cases)) < 0.6)
    return np.where(believed, 97.0, good_judge(cases, rng))


def blind_to_one(cases: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    seen = good_judge(cases, rng)
    return np.where((cases["criterion"] == FLAWED) & cases["falls"], seen + FALL, seen)


# What a flaw does to the scores of the cases, and to those of the answers that people scored.
FLAWS: dict[str, tuple[Scores, Callable[[np.ndarray, np.random.Generator], np.ndarray], tuple[str, ...]]] = {
    "none": (good_judge, lambda worth, rng: worth, ()),
    "lenient: 25 points too many": (
        lambda cases, rng: good_judge(cases, rng) + 25,
        lambda worth, rng: worth + 25,
        CRITERIA,
    ),
    f"blind to {FLAWED}": (blind_to_one, lambda worth, rng: worth, (FLAWED,)),
    "follows six of ten attacks": (follows_attacks, lambda worth, rng: worth, CRITERIA),
    "noisy: sd 12": (
        lambda cases, rng: good_judge(cases, rng) + rng.normal(0, 12, len(cases)),
        lambda worth, rng: worth + rng.normal(0, 12, worth.shape),
        CRITERIA,
    ),
    "compressed: 75 to 85 for all": (
        lambda cases, rng: 75 + good_judge(cases, rng) / 10,
        lambda worth, rng: 75 + worth / 10,
        CRITERIA,
    ),
}


def to_points(scores: Any) -> np.ndarray:
    return np.asarray(scores).round().clip(0, 100)


def people_and_judge(
    rng: np.random.Generator, count: int, flaw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two people's scores of `count` answers, good and bad, and the judge's of the same."""
    worth = rng.uniform(15, 98, (count, 1)) + rng.normal(0, 8, (count, len(CRITERIA)))
    judge = flaw(worth + rng.normal(0, 5, worth.shape), rng)
    place = pd.MultiIndex.from_product([range(count), CRITERIA], names=["question_id", "criterion"]).to_frame(
        index=False
    )
    place["answer_sha256"] = place["question_id"].astype(str)
    two = [place.assign(rater=who, score=to_points(worth + rng.normal(0, 4, worth.shape)).ravel()) for who in "AB"]
    return place.assign(judge_model="x", pass_threshold=70.0, score=to_points(judge).ravel()), pd.concat(two)


def certify(cases: pd.DataFrame, name: str, rng: np.random.Generator) -> dict[str, str]:
    """The word of each criterion for one judge with this flaw."""
    score_of, flaw, _ = FLAWS[name]
    scores = cases.assign(score=to_points(score_of(cases, rng)))
    findings = find_changes(scores, 70.0)
    summary = summarise_changes(findings[~findings["kind"].isin(["attack", "flags"])])
    judged, labels = people_and_judge(rng, LOOKS[0], flaw)
    trust = trust_rows(judged, labels)
    evidence = Evidence(scores, findings, summary, trust, labels, len(CRITERIA), is_lexical=False, look=1)
    return {name: judge_criterion(name, evidence).word for name in CRITERIA}


def show_flaws(cases: pd.DataFrame, judges: int) -> None:
    print(
        "| flaw | its criteria: 信頼できない | not 信頼できる | other criteria: 信頼できる |\n|---|---|---|---|",
        flush=True,
    )
    for seed, (name, (_, _, aimed)) in enumerate(FLAWS.items()):
        rng = np.random.default_rng(seed)
        words = pd.DataFrame([certify(cases, name, rng) for _ in range(judges)])
        own, others = words[list(aimed)], words[[each for each in CRITERIA if each not in aimed]]
        shares = [(own == "信頼できない"), (own != "信頼できる"), (others == "信頼できる")]
        told = [f"{share.to_numpy().mean():.1%}" if share.size else "–" for share in shares]
        print(f"| {name} | {' | '.join(told)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", type=int, default=200)
    parser.add_argument("--size", type=int, default=1, help="damages per answer and criterion, and attacks per answer")
    arguments = parser.parse_args()
    show_flaws(make_cases(arguments.size), arguments.judges)


if __name__ == "__main__":
    main()
