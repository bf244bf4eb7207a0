"""Make eval/examples/series: eight real runs over the eighty questions, as a team changes its assistant step by step.

    python eval/examples/make_series.py      # two minutes

Assistant and judge are the embedded ones, so every mark is real but none is an LLM's. What differs from run to run: how
many runbooks there were, and how many passages an answer is made from. Times are those of the runs."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path

import socjudge as sj
from socjudge.constants import EVAL_DIR, RUNBOOKS_DIR

FOLDER = Path(__file__).parent / "series"
# How many of the runbooks there were (by name), and passages per answer.
SETTINGS = [(6, 3), (9, 3), (12, 3), (20, 3), (20, 1), (20, 2), (20, 5), (20, 8)]


def make_series(folder: Path = FOLDER) -> None:
    questions = sj.load_eval_dataset(EVAL_DIR / "eval_dataset_extended.json")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for count, k in SETTINGS:
            runbooks = Path(work) / f"runbooks-{count}"
            if not runbooks.exists():
                runbooks.mkdir()
                for path in [*sorted(RUNBOOKS_DIR.glob("*.md"))[:count], *RUNBOOKS_DIR.glob("*.json")]:
                    shutil.copy(path, runbooks)
            index = sj.build_index(runbooks, index_dir=Path(work) / f"index-{count}")
            models = {"assistant_model": "offline", "judge_model": "offline"}
            run = sj.run_evaluation_suite(questions, index=index, k=k, logs_dir=work, **models)
            assert run.log_path is not None
            log = json.loads(run.log_path.read_text("utf-8"))
            log["run"]["mode"] = "example"
            text = json.dumps(log, ensure_ascii=False, indent=1).encode("utf-8")
            path = folder / f"{run.log_path.name}.gz"
            path.write_bytes(gzip.compress(text, 9, mtime=0))
            print(
                f"{path}: {count} runbooks, k={k}, {run.summary.passed_questions} passed, {path.stat().st_size:,} bytes"
            )


if __name__ == "__main__":
    make_series()
