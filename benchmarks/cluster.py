"""How many judgements a second go through a Dask cluster on this machine, and what each costs in CPU there.

    python benchmarks/cluster.py                              # 1 and 2 workers beside one process; two minutes
    python benchmarks/cluster.py --apart                      # the scheduler in a process of its own, too
    python benchmarks/cluster.py --model offline --threads 1 --calls 40

The service answers after 200 ms. All share the cores of this machine. The table has the best of the rounds."""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from throughput import DELAY_S, material, service

Cpu = Callable[[], dict[str, float]]


def measure(model: str, count: int, at_once: int, executor: Any, cpu: Cpu) -> dict[str, float]:
    """One run of `count` judgements: judgements per second, and CPU milliseconds per judgement by process."""
    import socjudge as sj

    questions, answers = material(count)
    with tempfile.TemporaryDirectory() as logs:
        started, before = time.perf_counter(), cpu()
        run = sj.run_evaluation_suite(
            questions, answers=answers, judge_model=model, logs_dir=logs, progress=False,
            options=sj.RunOptions(max_concurrency=at_once, executor=executor),
        )  # fmt: skip
        span, after = time.perf_counter() - started, cpu()
    assert run.summary.n_unscored == 0
    return {"per_s": count / span} | {name: (after[name] - before[name]) / count * 1000 for name in after}


def measure_here(model: str, count: int, at_once: int, rounds: int) -> list[dict[str, float]]:
    def cpu() -> dict[str, float]:
        return {"here": time.process_time()}

    measure(model, 2 * at_once, at_once, None, cpu)  # imports and connections
    return [measure(model, count, at_once, None, cpu) for _ in range(rounds)]


def measure_cluster(
    model: str, count: int, workers: int, threads: int, rounds: int, apart: bool
) -> list[dict[str, float]]:
    from distributed import Client, LocalCluster
    from distributed.deploy.subprocess import SubprocessCluster

    options = {"n_workers": workers, "threads_per_worker": threads, "silence_logs": logging.ERROR}
    if not apart:
        options["dashboard_address"] = None
    with (SubprocessCluster if apart else LocalCluster)(**options) as cluster, Client(cluster) as client:

        def cpu() -> dict[str, float]:
            used = {"here": time.process_time(), "workers": sum(client.run(time.process_time).values())}
            return used | ({"scheduler": client.run_on_scheduler(time.process_time)} if apart else {})

        measure(model, 4 * workers * threads, workers * threads, client.get_executor(), cpu)
        return [measure(model, count, workers * threads, client.get_executor(), cpu) for _ in range(rounds)]


def print_row(name: str, at_once: int, runs: list[dict[str, float]]) -> None:
    best = max(runs, key=lambda run: run["per_s"])
    spent = [f"{best[place]:.1f}" if place in best else "–" for place in ("here", "scheduler", "workers")]
    print(f"| {name} | {at_once} | {best['per_s']:.3g} | {' | '.join(spent)} |", flush=True)


def main(model: str, count: int, workers: list[int], threads: int, rounds: int, apart: bool) -> None:
    print(f"{count} judgements by {model}, best of {rounds} rounds, {os.cpu_count()} cores\n")
    print("| what | at once | judgements per s | CPU ms each: this process | scheduler | workers |")
    print("|---|---|---|---|---|---|")
    with service(DELAY_S) as url:
        os.environ |= {"OPENAI_API_KEY": "sk-benchmark", "OPENAI_BASE_URL": f"{url}/v1"}
        print_row("one process, no cluster", threads, measure_here(model, count, threads, rounds))
        for number in workers:
            runs = measure_cluster(model, count, number, threads, rounds, apart)
            print_row(f"{number} worker{'s' * (number > 1)}", number * threads, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--threads", type=int, default=32, help="of each worker: its calls at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--apart", action="store_true", help="run Dask's scheduler in a process of its own")
    chosen = parser.parse_args()
    main(chosen.model, chosen.calls, chosen.workers, chosen.threads, chosen.rounds, chosen.apart)
