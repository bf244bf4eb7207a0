"""Make eval/examples/judges: real LLM judges on the same Japanese answers, as logs.

    python eval/examples/make_judges.py scores_wide.csv.gz      # a few seconds

The scores are those of shisa-ai/shaberi (Apache-2.0), see README.md: two systems of different strength answered the
first forty tasks of ELYZA-tasks-100, and five judges of different generations scored each answer with one number, 1 to
5. They become one criterion, 品質, as 0, 25, 50, 75, 100. Questions and answers are under another licence and are not in
here: a placeholder stands for each. gpt-4-turbo-preview is left out: its scores of these answers correlate at 0.3 to 0.7
with the others, which correlate at 0.6 to 0.9, so whether it was shown the same answers is not sure."""

from __future__ import annotations

import gzip
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd

from socjudge.base.pass_rule import PassRule
from socjudge.base.verdict import summarise_results
from socjudge.records import AssistantAnswer, EvalQuestion, Evaluation, EvaluationResult, EvaluationRun, RunInfo, Usage
from socjudge.runs.logs import save_evaluation_results

FOLDER = Path(__file__).parent / "judges"
BENCHMARK, TASKS = "ELYZA-tasks-100", 40
JUDGES = [
    "gpt-4.1-2025-04-14",
    "gpt-5.1-2025-11-13",
    "llmjudge-athenev2",
    "llmjudge-llama33",
    "llmjudge-tulu405",
]
CRITERION, LINE, RATE = "品質", 70.0, 0.7
NOBODY_KNOWS = Usage(cost_usd=None)
SYSTEMS = ["augmxnt__shisa-7b-v1", "meta-llama__Llama-3.3-70B-Instruct"]  # the two that every judge marked
PUBLISHED = datetime(2025, 11, 28, tzinfo=UTC)  # of the scores; nobody recorded when the judges ran


def make_judges(scores: Path, folder: Path = FOLDER) -> None:
    table = pd.read_csv(scores, dtype=str)
    table = table[(table["benchmark"] == BENCHMARK) & (table["item"].astype(int) < TASKS)]
    table["item"] = table["item"].astype(int)
    for number, system in enumerate(SYSTEMS):
        rows = table[table["model"] == system].sort_values("item")
        first = ""
        for place, judge in enumerate(JUDGES):
            at = (PUBLISHED + timedelta(hours=number, minutes=place)).isoformat()
            results = [_result(system, judge, row["item"], row[judge]) for row in rows.to_dict("records")]
            run_id = f"shaberi-{number + 1}-{judge}"
            info = RunInfo(
                run_id=run_id,
                started_at=at,
                finished_at=at,
                judge_model=judge,
                judge_model_resolved=judge,
                assistant_model=system,
                assistant_model_resolved=system,
                judge_prompt_id="shaberi",
                pass_threshold=LINE,
                pass_rate_required=RATE,
                rejudged_from=first,
                mode="example",
                assistant_usage=NOBODY_KNOWS,
                judge_usage=NOBODY_KNOWS,
            )
            first = first or run_id
            summary = summarise_results(results, PassRule(LINE, RATE))
            with tempfile.TemporaryDirectory() as work:
                log = save_evaluation_results(EvaluationRun(results, summary, info), work)
                path = folder / f"{log.name}.gz"
                path.write_bytes(gzip.compress(log.read_bytes(), 9, mtime=0))
            print(f"{path}: {system} by {judge}, mean {summary.average_score:.1f}, {summary.n_unscored} unscored")


def _result(system: str, judge: str, item: int, mark: str) -> EvaluationResult:
    told = f"{BENCHMARK} 第{item + 1}問（本文は別のライセンスのため収録していません）"
    question = EvalQuestion(item + 1, BENCHMARK, told, ())
    answer = AssistantAnswer(
        told, f"{system} の第{item + 1}問への回答（本文は収録していません）", model=system, usage=NOBODY_KNOWS
    )
    points = pd.to_numeric(mark, errors="coerce")  # "4" or "4.0"; "null" where the reply could not be read
    read = points in (1, 2, 3, 4, 5)
    score = int(points - 1) * 25 if read else 0
    return EvaluationResult(
        question,
        answer,
        Evaluation(
            scores={CRITERION: score},
            average_score=float(score),
            rationale={CRITERION: ""},
            overall_comment="",
            passed=read and score >= LINE,
            processing_time=0.0,
            status="ok" if read else "unparsable",
            model=judge,
            usage=NOBODY_KNOWS,
            error="" if read else "採点を読み取れなかったと、元のデータに記録されています",
        ),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    make_judges(Path(sys.argv[1]))
