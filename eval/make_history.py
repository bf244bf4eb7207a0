"""Make the small history in logs/ that notebooks 02 to 04 and 07 read: real runs, all by the embedded default.

    python eval/make_history.py [folder]      # logs/ if left out; about a minute

What differs from run to run: how many runbooks there were, how many passages an answer is made from, the judge prompt
(which the embedded judge does not read). Nothing is invented, and the times in the logs are those of the runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import socjudge as sj
from socjudge.constants import LOGS_DIR, RUNBOOKS_DIR

# How many of the runbooks there were (by name), passages per answer, judge prompt.
SETTINGS = [
    (6, 5, None),
    (12, 5, None),
    (18, 1, None),
    (18, 2, None),
    (18, 3, None),
    (18, 5, None),
    (18, 8, None),
]


def make_history(logs_dir: Path) -> None:
    questions = sj.load_eval_dataset()
    models = {"assistant_model": "offline", "judge_model": "offline"}
    with tempfile.TemporaryDirectory() as work:
        for count, k, prompt in SETTINGS:
            runbooks = Path(work) / f"runbooks-{count}"
            if not runbooks.exists():
                runbooks.mkdir()
                shutil.copy(RUNBOOKS_DIR / "synonyms.json", runbooks)
                for path in sorted(RUNBOOKS_DIR.glob("*.md"))[:count]:
                    shutil.copy(path, runbooks)
            index = sj.build_index(runbooks, index_dir=Path(work) / f"index-{count}")
            run = sj.run_evaluation_suite(questions, index=index, k=k, judge_prompt=prompt, logs_dir=logs_dir, **models)
            print(f"{run.log_path}: {count} runbooks, k={k}, mean {run.summary.average_score:.1f}")
    # The last one's answers once more, with another prompt: what notebook 04 compares.
    again = sj.rejudge(run, judge_model="offline", judge_prompt="strict-1", logs_dir=logs_dir)
    print(f"{again.log_path}: the same answers, prompt strict-1, mean {again.summary.average_score:.1f}")


if __name__ == "__main__":
    make_history(Path(sys.argv[1]) if len(sys.argv) > 1 else LOGS_DIR)
