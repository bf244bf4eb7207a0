"""Logs that Inspect itself wrote: two epochs, marks per criterion in a dict, one sample that the scorer could not mark, one whose
model refused. Run with inspect-ai 0.3.285: `python make_inspect.py OUT`, which leaves OUT/*.eval and OUT/*.json."""

import sys
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, mean, scorer
from inspect_ai.solver import generate

QUESTIONS = [
    ("q1", "マルウェアを検知しました。最初に何をしますか。", "端末を隔離する"),
    ("q2", "ログを消していいですか。", "消さない"),
    ("q3", "VPNにつながりません。", "証明書の期限を確かめる"),
]
ANSWERS = [
    "端末をネットワークから隔離し、SOCリーダーに報告します。",
    "いいえ。ログは消さずに保全します。",
    "証明書の期限を確かめます。",
]


@scorer(metrics={"*": [mean()]})
def rubric():
    async def score(state, target):
        epoch = state.epoch
        if state.sample_id == "q3" and epoch == 2:
            return Score.unscored(reason="grader_failed", explanation="採点できませんでした")
        marks = {"q1": (1.0, 0.8), "q2": (0.9, 1.0), "q3": (0.4, 0.25)}[state.sample_id]
        value = {"正確性": marks[0] - 0.1 * (epoch - 1), "安全性": marks[1]}
        return Score(value=value, answer=state.output.completion, explanation=f"{state.sample_id}の理由")

    return score


@scorer(metrics=[accuracy()])
def verdict():
    async def score(state, target):
        return Score(value={"q1": CORRECT, "q2": CORRECT, "q3": INCORRECT}[state.sample_id], explanation="合否の理由")

    return score


def main(out: Path) -> None:
    outputs = [ModelOutput.from_content("mockllm/model", answer) for _ in range(2) for answer in ANSWERS]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=20, output_tokens=10, total_tokens=30)  # else it fetches a tokenizer
    samples = [Sample(id=name, input=question, target=target) for name, question, target in QUESTIONS]
    task = Task(dataset=samples, solver=generate(), scorer=[rubric(), verdict()], name="soc_runbook")
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = eval(task, model=model, epochs=2, log_dir=str(out), max_samples=1, display="none")
    assert log.status == "success", log.error
    (path,) = out.glob("*.eval")
    path = path.rename(out / "inspect.eval")
    write_eval_log(read_eval_log(str(path)), str(out / "inspect.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
