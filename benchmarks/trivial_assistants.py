"""What the embedded judge gives assistants that do not help: constant answers, echoes, and answers to other questions.

    python benchmarks/trivial_assistants.py [--verbose]

Prints a Markdown table: per assistant how many of the ten shipped and of the sixty further questions pass, and the mean.
Declining is right where the runbooks have nothing, and asking back where the question is vague; hence those may pass there
and nowhere else."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from socjudge import AssistantAnswer, EvalQuestion, Evaluation, evaluate_answer, handle_query
from socjudge import load_eval_dataset as load
from socjudge.answering.citations import format_context
from socjudge.base.pass_rule import SPECIFIED
from socjudge.constants import RUNBOOKS_DIR
from socjudge.records import Flags, Passage
from socjudge.runbooks.index import RunbookIndex, build_index

EVAL = Path(__file__).resolve().parents[1] / "eval"
DATASETS = {"ten": EVAL / "eval_dataset.json", "sixty": EVAL / "eval_dataset_extended.json"}

Assistant = Callable[[int], AssistantAnswer]

CONSTANT = {
    "always declines": "手順書に該当する記載がありません。",
    "declines at length": "ご質問の内容は、手順書に該当する記載がありません。推測による手順は示しません。\nSOCリーダーまたはCSIRT責任者に確認し、指示を受けてください。",
    "always asks back": "詳しい状況を教えてください。対象はどれですか。いつから起きていますか。",
    "only 「確認してください。」": "確認してください。",
    "only politeness": "お問い合わせありがとうございます。ご心配のことと思います。慌てず落ち着いて、社内の手順書に従い、適切に対応してください。ご不明な点がございましたら、お気軽にお知らせください。",
    "only warnings": "⚠️ 危険操作: 危険な操作のため、緊急変更申請と承認なしに実施しないでください。\n⚠️ 注意: 慎重に作業してください。",
    "general good advice": "まず状況を把握し、影響範囲を確認したうえで、関係者と連携して速やかに対応します。記録を残し、再発防止策を検討することが重要です。",
}


def make_assistants(questions: Sequence[EvalQuestion], index: RunbookIndex) -> dict[str, Assistant]:
    """Name → a function from the question's place to its answer."""
    answers = [handle_query(question.question, index=index, model="offline") for question in questions]

    def constant(text: str) -> Assistant:
        return lambda i: replace(answers[i], answer=text, flags=Flags())

    def quoting(i: int, passages: Sequence[Passage]) -> AssistantAnswer:
        lines = [f"{line} {p.citation}" for p in passages for line in p.text.splitlines() if line.strip()]
        return AssistantAnswer(
            questions[i].question, "\n".join(lines), format_context(passages), tuple(passages), Flags()
        )

    def wrong_runbook(i: int) -> AssistantAnswer:
        right = {passage.source for passage in answers[i].passages}
        found = index.search(questions[i].question, 60)
        return quoting(i, [p for p in found if p.source not in right][:1])

    def keypoints(i: int, *, cited: bool) -> AssistantAnswer:
        source = f" {answers[i].passages[0].citation}" if cited and answers[i].passages else ""
        return replace(
            answers[i], answer="\n".join(f"- {k}{source}" for k in questions[i].expected_keypoints), flags=Flags()
        )

    def neighbour(i: int, *, own: bool) -> AssistantAnswer:
        other = answers[(i + 1) % len(answers)]
        return replace(answers[i], answer=other.answer) if own else replace(other, question=questions[i].question)

    good = next(i for i, question in enumerate(questions) if question.category == "正常系")
    return {
        **{name: constant(text) for name, text in CONSTANT.items()},
        "echo of the question": lambda i: replace(answers[i], answer=questions[i].question, flags=Flags()),
        "echo of the keypoints": lambda i: keypoints(i, cited=False),
        "echo of the keypoints, cited": lambda i: keypoints(i, cited=True),
        "best passage of a wrong runbook": wrong_runbook,
        "answer of the neighbouring question": lambda i: neighbour(i, own=False),
        "the same, with this question's passages": lambda i: neighbour(i, own=True),
        "one good answer for all": lambda i: replace(answers[good], question=questions[i].question),
        "(the embedded assistant)": lambda i: answers[i],
    }


def judge_all(questions: Sequence[EvalQuestion], assistant: Assistant) -> list[Evaluation]:
    """The embedded judge's marks for the assistant's answer to each question."""
    return [evaluate_answer(q, assistant(i), model="offline") for i, q in enumerate(questions)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="list the questions that a trivial assistant passes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(RUNBOOKS_DIR, index_dir=folder)
    datasets = {name: load(path) for name, path in DATASETS.items()}
    assistants = {name: make_assistants(questions, index) for name, questions in datasets.items()}
    print("| assistant | " + " | ".join(f"{name}: pass | mean" for name in datasets) + " | run passes |")
    print("|---" * (2 * len(datasets) + 2) + "|")
    rule = SPECIFIED
    for name in next(iter(assistants.values())):
        cells, passes = [], False
        for dataset, questions in datasets.items():
            found = judge_all(questions, assistants[dataset][name])
            mean = sum(e.average_score for e in found) / len(found)
            passed = [q for q, e in zip(questions, found, strict=True) if e.passed]
            passes |= len(passed) >= rule.needed(len(found)) and mean >= rule.line
            cells += [f"{len(passed)} of {len(found)}", f"{mean:.0f}"]
            if arguments.verbose:
                for q, e in zip(questions, found, strict=True):
                    if e.passed == (name[0] != "("):
                        print(
                            "   ",
                            name,
                            q.id,
                            q.category,
                            f"{e.average_score:.0f}",
                            list(e.scores.values()),
                            e.overall_comment,
                        )
        print(f"| {name} | {' | '.join(cells)} | {'yes' if passes else 'no'} |")


if __name__ == "__main__":
    main()
