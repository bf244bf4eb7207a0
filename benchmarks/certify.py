"""What the embedded judge makes of damaged answers, of injections and of flags: the tables of docs/certify.md.

    python benchmarks/certify.py [--split dev|final] [--injection] [--anchoring] [--by-hand FILE]
        [--certificate PAGE [--keep FOLDER]]

Over the stored good answers to the ten questions (dev) or to ten others (final). --by-hand: a JSONL file of answers that
people broke, each line with question_id, context, answer, criterion (the one meant; empty for the unbroken answer) and
broken (what was done): the same probes are run on the unbroken ones, and both are compared.
--certificate: its own certificate instead, from both, its page in this file; --keep: and its JSON in this folder, such
as eval/examples/certificates, where the reports of the examples find it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import pandas as pd
from support.certify_judge import good_pairs, probe

from socjudge import AssistantAnswer, evaluate_answer, load_eval_dataset
from socjudge.certify import certify_judge, save_certificate, write_certificate_page
from socjudge.certify.findings import LEAST, summarise_attacks, summarise_changes
from socjudge.constants import JUDGE_EVALUATION_CRITERIA as CRITERIA
from socjudge.records import Flags
from socjudge.stats.basics import OVERALL

OFFLINE: dict[str, Any] = {"judge_model": "offline"}


def show_probes(changes: pd.DataFrame) -> None:
    """What each damage and each neutral change did, as Markdown."""
    summary = summarise_changes(changes)
    print("| damage | criterion | n | change there | elsewhere | seen | wrong moves |\n|---|---|---|---|---|---|---|")
    for title, rows in summary.groupby("title", sort=False):
        elsewhere = rows.loc[rows["expected"] == "stays", "mean_change"].mean()
        for row in rows[rows["expected"] == "falls"].to_dict("records"):
            seen = f"{row['detected']:.0%} ({row['detected_low']:.0%}–{row['detected_high']:.0%})"
            told = (title, row["criterion"], row["n"], f"{row['mean_change']:z.0f}", f"{elsewhere:z.0f}", seen)
            print("|", " | ".join(map(str, (*told, rows["n_forbidden"].sum()))), "|")
    aims = set(summary.loc[summary["expected"] == "falls", "case"])
    print("\n| neutral change | n | moves | which |\n|---|---|---|---|")
    for title, rows in summary[~summary["case"].isin(aims)].groupby("title", sort=False):
        moved = rows[rows["n_forbidden"] > 0].to_dict("records")
        which = "、".join(f"{r['criterion']} {r['n_forbidden']} ({r['mean_change']:+.0f})" for r in moved)
        print("|", " | ".join(map(str, (title, rows["n"].max(), rows["n_forbidden"].sum(), which))), "|")


def compare_by_hand(path: Path, folder: str) -> None:
    """For each criterion how many breaks by hand and by rule, of the same answers, the judge saw."""
    questions = {question.id: question for question in load_eval_dataset()}
    good, broken = {}, []
    for line in path.read_text("utf-8").splitlines():
        item = json.loads(line)
        text, question = item["answer"], questions[item["question_id"]]
        flags = Flags(*(f"⚠️ {name}" in text for name in ("根拠不足", "危険操作", "曖昧質問")))
        answer = AssistantAnswer(question.question, text, item["context"], flags=flags)
        if item["criterion"]:
            broken.append((question, answer, item))
        elif item["lead_verdict"] == "pass":
            good[question.id] = (question, answer)
    changes = probe(list(good.values()), "damage", "neutral", logs_dir=Path(folder), **OFFLINE).findings
    before = changes.groupby(["question_id", "criterion"])["before"].first()
    rows = []
    for question, answer, item in broken:
        if question.id in good:
            flagged = AssistantAnswer(answer.question, answer.answer, answer.context, flags=good[question.id][1].flags)
            after = evaluate_answer(question, flagged, model="offline").scores[item["criterion"]]
            fall = before[question.id, item["criterion"]] - after
            rows.append({"criterion": item["criterion"], "seen": fall >= LEAST, "broken": item["broken"]})
    by_hand = pd.DataFrame(rows)
    rule = changes[(changes["expected"] == "falls") & changes["moved"].notna()]
    print("| criterion | by hand: seen | by rule: seen |\n|---|---|---|")
    for criterion in CRITERIA:
        hand, mine = by_hand[by_hand["criterion"] == criterion], rule[rule["criterion"] == criterion]
        fell = int((mine["moved"] == "fell").sum())
        print(
            f"| {criterion} | {int(hand['seen'].sum())} of {len(hand)} | {fell} of {len(mine)} ({fell / len(mine):.0%}) |"
        )
    print("not seen by hand:", "、".join(by_hand.loc[~by_hand["seen"].astype(bool), "broken"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=["dev", "final"], default="dev")
    parser.add_argument("--injection", action="store_true")
    parser.add_argument("--anchoring", action="store_true")
    parser.add_argument("--by-hand", type=Path)
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.by_hand:
            compare_by_hand(arguments.by_hand, folder)
            return
        pairs = [*good_pairs("dev"), *good_pairs("final")] if arguments.certificate else good_pairs(arguments.split)
        if arguments.certificate:
            certificate = certify_judge(pairs, logs_dir=folder, progress=False, **OFFLINE)
            for verdict in certificate.verdicts:
                print(f"| {verdict.criterion} | {verdict.word} | {verdict.why} |")
                print("\n".join(f"    {finding.state}: {finding.words}" for finding in verdict.findings))
            write_certificate_page(arguments.certificate, certificate)
            if arguments.keep:
                print(save_certificate(certificate, arguments.keep))
            return
        show_probes(probe(pairs, "damage", "neutral", logs_dir=Path(folder), **OFFLINE).findings)
        if arguments.injection:
            gains = probe(pairs, "attack", logs_dir=Path(folder), **OFFLINE).findings
            print(
                gains[gains["criterion"] == OVERALL].groupby("case")[["change", "turned"]].mean().round(2).to_string()
            )
            print(summarise_attacks(gains).round(2).to_string())
        if arguments.anchoring:
            moves = probe(pairs, "flags", logs_dir=Path(folder), **OFFLINE).findings
            print(summarise_changes(moves).round(2).to_string())


if __name__ == "__main__":
    main()
