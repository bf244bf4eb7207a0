"""How long a history of logs takes to become a frame of scores, and how much memory, beside other ways to read it.

    python benchmarks/history.py                       # 10,000 logs of ten answers, 1.4 GB; about 6 minutes
    python benchmarks/history.py --bare                # logs of the specification, which have no hashes in them
    python benchmarks/history.py --logs 1000 --quick   # without the slow ones

The logs are those of real offline runs, with the lines of each answer in another order and other scores. Every
measurement is a process of its own, the best of five; imports and the first call on a folder with one log are not
counted. The slow ways are measured once. It ends with 1 if the cold or the warm load takes more than it may."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

MOST_COLD, MOST_WARM_S = 5.0, 1.0  # times the floor; CPU seconds for 10,000 logs
JUDGES = ["gpt-4o-mini", "gpt-5-mini", "offline"]
OURS = ["answer_repeat", "judge_repeat", "answer_sha256", "assistant"]
OURS_IN_SCORES = ["status", "model", "usage", "attempts", "error", "raw_text"]


def real_log() -> dict[str, Any]:
    """The log of an offline run over the ten questions."""
    import socjudge as sj

    with tempfile.TemporaryDirectory() as logs:
        run = sj.run_evaluation_suite(
            sj.load_eval_dataset(), index=sj.build_index(), assistant_model="offline", judge_model="offline",
            logs_dir=logs, progress=False,
        )  # fmt: skip
        return orjson.loads(run.log_path.read_bytes())


def write_logs(folder: Path, numbers: range, log: dict[str, Any], *, bare: bool) -> None:
    from socjudge.runs.log_json import answer_sha256

    folder.mkdir(parents=True, exist_ok=True)
    for i in numbers:
        rng = random.Random(i)
        rows = []
        for n, row in enumerate(log["results"]):
            scores = {criterion: rng.randrange(8, 21) * 5 for criterion in row["evaluation"]["scores"]}
            average = sum(scores.values()) / len(scores)
            marks = {**row["evaluation"], "scores": scores, "average_score": average, "passed": average >= 70}
            lines = row["answer"].split("\n")
            rng.shuffle(lines)
            row = {**row, "question_id": n + 1, "answer": "\n".join(lines), "evaluation": marks}
            row["answer_sha256"] = answer_sha256(row["answer"], row["context"])
            if bare:
                row = {name: value for name, value in row.items() if name not in OURS}
                row["evaluation"] = {name: value for name, value in marks.items() if name not in OURS_IN_SCORES}
            rows.append(row)
        started = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=i)
        value = {"results": rows, "summary": log["summary"]}
        if not bare:
            run = {"run_id": f"{started:%Y%m%dT%H%M%S}-{i:06x}", "started_at": started.isoformat()}
            value["run"] = {**log["run"], **run, "judge_model": JUDGES[i % 3]}
        path = folder / f"judge_eval_{started:%Y%m%d_%H%M%S}.json"
        path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


# -- the ways to read, each by a folder; they return the number of scores


def floor(folder: Path) -> int:
    for entry in os.scandir(folder):
        if entry.is_file():
            with open(entry.path, "rb") as file:
                orjson.loads(file.read())
    return 0


def socjudge_scores(folder: Path) -> int:
    from socjudge import load_scores

    return len(load_scores(folder))


def json_normalize(folder: Path) -> int:
    import pandas as pd

    rows = []
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text("utf-8"))["results"]:
            rows.append({"log": path.name, **row})
    frame = pd.json_normalize(rows)
    columns = [name for name in frame.columns if name.startswith("evaluation.scores.")]
    return len(frame.melt(["log", "question_id", "category"], columns))


WAYS: dict[str, Callable[[Path], int]] = {
    "floor": floor, "cold": socjudge_scores, "warm": socjudge_scores, "json + json_normalize": json_normalize
}  # fmt: skip
NAMES = {
    "floor": "orjson.loads of every file (the floor)", "cold": "load_scores, the first in a process",
    "warm": "load_scores, the second in a process",
}  # fmt: skip


def measure_here(way: str, folder: Path, small: Path) -> None:
    WAYS[way](folder if way == "warm" else small)  # imports, and what a library does at its first call
    started, used = time.perf_counter(), time.process_time()
    count = WAYS[way](folder)
    found = {"wall s": time.perf_counter() - started, "cpu s": time.process_time() - used, "scores": count}
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({**found, "peak MB": int(status["VmHWM"].split()[0]) / 1024}))


def measure(way: str, folder: Path, small: Path) -> dict[str, Any]:
    """The best of five, but of the slow ways one."""
    found = []
    for _ in range(5 if way in NAMES else 1):
        command = [sys.executable, __file__, "--way", way, str(folder), str(small)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda each: each["cpu s"])


def compare(folder: Path, small: Path, log: dict[str, Any], count: int, *, bare: bool, quick: bool) -> dict[str, float]:
    """Print the table; returns the CPU seconds by way."""
    print(f"\n{count:,} logs of ten answers{', of the specification' if bare else ''}\n")
    print("| way | wall s | CPU s | ÷ floor | million scores per s | peak MB |")
    print("|---|---|---|---|---|---|")
    write_logs(folder, range(count), log, bare=bare)
    used: dict[str, float] = {}
    for way in WAYS:
        if quick and way not in NAMES:
            continue
        found = measure(way, folder, small)
        used[way] = found["cpu s"]
        rate = f"{found['scores'] / found['wall s'] / 1e6:.2f}" if found["scores"] else "–"
        print(
            f"| {NAMES.get(way, way)} | {found['wall s']:.2f} | {found['cpu s']:.2f} | {used[way] / used['floor']:.2f} "
            f"| {rate} | {found['peak MB']:.0f} |",
            flush=True,
        )
    return used


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--quick", action="store_true", help="only socjudge and the floor")
    chosen = parser.parse_args()
    if chosen.way:
        measure_here(chosen.way[0], Path(chosen.way[1]), Path(chosen.way[2]))
        sys.exit()
    with tempfile.TemporaryDirectory(prefix="socjudge-history-") as temporary:
        work, log = Path(temporary), real_log()
        write_logs(work / "small", range(1), log, bare=chosen.bare)
        keywords = {"bare": chosen.bare, "quick": chosen.quick}
        tenth = compare(work / "tenth", work / "small", log, chosen.logs // 10, bare=chosen.bare, quick=True)
        whole = compare(work / "whole", work / "small", log, chosen.logs, **keywords)
        print(
            f"\nCPU for {chosen.logs:,} logs: {whole['cold'] / tenth['cold']:.1f} times that for {chosen.logs // 10:,}"
        )
        cold, warm = whole["cold"] / whole["floor"], whole["warm"]
        print(f"cold: {cold:.2f} times the floor, at most {MOST_COLD}; warm: {warm:.2f} s, at most {MOST_WARM_S}")
        sys.exit(cold > MOST_COLD or warm > MOST_WARM_S * chosen.logs / 10_000)
