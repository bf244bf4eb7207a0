"""How fast a run goes beside a bare loop over the OpenAI SDK, what it costs in CPU and memory, and what faults do to it.

    python benchmarks/throughput.py                    # speed at 64 and 256 at once, then faults; about 3 minutes
    python benchmarks/throughput.py --faults          # what faults do to a run, beside one without any
    python benchmarks/throughput.py --queues          # a server that works on one call at a time; 1 minute
    python benchmarks/throughput.py --limits          # token buckets, beside the SDK's own retries; about 6 minutes
    python benchmarks/throughput.py --caps            # what a cap on the cost takes; 1 minute
    python benchmarks/throughput.py --first           # the first run of a process beside its second
    python benchmarks/throughput.py --memory 10000     # memory after 1,000 and after so many calls
    python benchmarks/throughput.py --calls 4000 --rounds 3

Every measurement is a process of its own, against a service on loopback that answers after 200 ms. All loops send
the same requests. Rounds alternate; the table has the medians."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DELAY_S = 0.2
LOOPS = ["sdk-aiohttp", "sdk-httpx", "sdk-threads", "socjudge"]
RETRIES = 1000  # that the SDK may make, so that it loses no call to a limiter


class Repeated(Sequence):
    """Ten records as if they were many, made as they are asked for: the benchmark's own memory stays out of it."""

    def __init__(self, records: list[Any], count: int, numbered: bool) -> None:
        self.records, self.count, self.numbered = records, count, numbered

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        if i >= self.count:
            raise IndexError(i)
        record = self.records[i % len(self.records)]
        return replace(record, id=i) if self.numbered else record


def material(count: int) -> tuple[Repeated, Repeated]:
    """Questions and stored answers: the ten of the dataset and what the embedded assistant says, over and over."""
    import socjudge as sj

    questions = sj.load_eval_dataset()
    kept = HERE.parent / ".socjudge" / "benchmark_answers.json"
    if not kept.exists():
        index = sj.build_index()
        answers = [sj.handle_query(q.question, index=index, model="offline") for q in questions]
        kept.write_text(json.dumps([[a.question, a.answer, a.context] for a in answers], ensure_ascii=False), "utf-8")
    answers = [sj.AssistantAnswer(*texts) for texts in json.loads(kept.read_text("utf-8"))]
    return Repeated(questions, count, True), Repeated(answers, count, False)


def judge_requests(questions: Sequence[Any], answers: Sequence[Any]) -> list[Any]:
    """What a judge is asked for the first ten answers."""
    from socjudge.errors import RequestRefused
    from socjudge.judging.judge import judge_answer
    from socjudge.prompts.templates import load_prompt
    from socjudge.records import Rubric

    requests = []

    async def take(request: Any) -> Any:
        requests.append(request)
        raise RequestRefused("")

    for i in range(10):
        with suppress(RequestRefused):
            asyncio.run(judge_answer(questions[i], answers[i], prompt=load_prompt(None), rubric=Rubric(), ask=take))
    return requests


def run_bare(loop: str, at_once: int, count: int, retries: int = 0) -> None:
    """The same requests through the SDK and nothing else; the reply's text is taken out, and that is all."""
    import openai

    requests = judge_requests(*material(count))

    def parameters(i: int) -> dict[str, Any]:
        request = requests[i % 10]
        schema = {"name": "judgement", "strict": True, "schema": request.schema}
        return {
            "model": "gpt-4o-mini", "messages": list(request.messages), "temperature": 0,
            "max_completion_tokens": 4000, "response_format": {"type": "json_schema", "json_schema": schema},
        }  # fmt: skip

    if loop == "sdk-threads":
        client = openai.OpenAI(max_retries=0)
        client.chat.completions.create(**parameters(0))
        with measured() as found, ThreadPoolExecutor(at_once) as pool:
            for _ in pool.map(lambda i: client.chat.completions.create(**parameters(i)).choices[0], range(count)):
                pass
        print(json.dumps(found))
        return

    async def main() -> None:
        kind = openai.DefaultAioHttpClient if loop == "sdk-aiohttp" else openai.DefaultAsyncHttpxClient
        async with openai.AsyncOpenAI(max_retries=retries, http_client=kind()) as client:
            await client.chat.completions.create(**parameters(0))
            todo = iter(range(count))

            async def work() -> None:
                for i in todo:
                    (await client.chat.completions.create(**parameters(i))).choices[0]

            with measured() as found:
                await asyncio.gather(*(work() for _ in range(at_once)))
            print(json.dumps(found))

    asyncio.run(main())


def run_socjudge(at_once: int, count: int, timeout_s: float | None = None, cap: float | None = None) -> None:
    """A run with everything on: journal, checks of every reply, prices, the log at the end."""
    import socjudge as sj
    from socjudge.models.endings import MAKER
    from socjudge.models.openai_model import OpenAIModel

    questions, answers = material(count)
    judge: Any = "gpt-4o-mini"
    if timeout_s is not None or cap is not None:
        base_url, key = (os.environ[f"OPENAI_{name}"] for name in ("BASE_URL", "API_KEY"))
        judge = OpenAIModel(judge, api_key=key, base_url=base_url)
        judge.address = MAKER  # at its list prices
    how: dict[str, Any] = {
        "judge_model": judge,
        "max_cost_usd": cap,
        "options": sj.RunOptions(max_concurrency=at_once, timeout_s=timeout_s),
        "progress": False,
    }
    with tempfile.TemporaryDirectory() as logs:
        # Imports and connections, as in the bare loops; a server that queues is met without having been seen.
        if timeout_s is None:
            sj.run_evaluation_suite([questions[0]], answers=[answers[0]], logs_dir=Path(logs) / "first", **how)
        with measured() as found:
            try:
                run = sj.run_evaluation_suite(questions, answers=answers, logs_dir=logs, **how)
            except sj.errors.ProviderError as error:
                found["ended"] = str(error)[:80]
                run = sj.load_run(sj.unfinished_runs(logs)[0].path)
        # Reading everything back is the benchmark's own check, not part of the run.
        found["scored"] = sum(result.evaluation.status == "ok" for result in run.results)
        found["accepted"] = run.summary.average_score  # 80.0 if no cut reply was taken
        if count <= 10_000:
            found["retries"] = sum(r.evaluation.error.count("HTTP ") for r in run.results)
            found["asked again"] = sum(r.evaluation.attempts - 1 for r in run.results)
        if run.log_path is not None:
            found["log MB"] = round(run.log_path.stat().st_size / 1e6, 1)
    print(json.dumps(found))


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    started, used = time.perf_counter(), time.process_time()
    yield found
    found["span s"], found["cpu s"] = time.perf_counter() - started, time.process_time() - used
    # Of this process alone; `getrusage` would count what its parent used before it was started.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    found["peak MB"] = int(status["VmHWM"].split()[0]) / 1024


@contextmanager
def service(delay_s: float, *options: str) -> Iterator[str]:
    command = [sys.executable, str(HERE / "chat_service.py"), str(delay_s), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def measure(url: str, loop: str, at_once: int, count: int, *options: str) -> dict[str, Any]:
    """One loop in a process of its own, and what the service saw of it."""
    command = [sys.executable, __file__, "--loop", loop, "--at-once", str(at_once), "--calls", str(count), *options]
    environment = {**os.environ, "OPENAI_API_KEY": "sk-benchmark", "OPENAI_BASE_URL": f"{url}/v1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    with urllib.request.urlopen(f"{url}/stats") as seen:
        return {**json.loads(done.stdout.splitlines()[-1]), **json.load(seen)}


def speed(levels: list[int], count: int, rounds: int) -> None:
    print(f"{count} calls of {DELAY_S * 1000:.0f} ms, median of {rounds} rounds\n")
    print(
        "| at once | loop | span s | ÷ ideal | ÷ best bare | CPU ms per call | ÷ that bare | seen at once | peak MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with service(DELAY_S) as url:
        for at_once in levels:
            found: dict[str, list[dict[str, Any]]] = {loop: [] for loop in LOOPS}
            for _ in range(rounds):
                for loop in LOOPS:
                    found[loop].append(measure(url, loop, at_once, count))
            rows = {
                loop: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
                for loop, runs in found.items()
            }
            best = min(LOOPS[:-1], key=lambda loop: rows[loop]["span s"])
            for loop, row in rows.items():
                ideal = DELAY_S * count / at_once
                print(
                    f"| {at_once} | {loop} | {row['span s']:.2f} | {row['span s'] / ideal:.2f} "
                    f"| {row['span s'] / rows[best]['span s']:.2f} | {row['cpu s'] / count * 1000:.2f} "
                    f"| {row['cpu s'] / rows[best]['cpu s']:.2f} | {row['max_at_once']:.0f} | {row['peak MB']:.0f} |",
                    flush=True,
                )


def faults(count: int, at_once: int, rounds: int) -> None:
    said = "5 % 429 with Retry-After: 1, 2 % 500 and 3 % cut replies"
    print(f"\n{count} questions, {at_once} at once: clean, and with {said}\n")
    spans: dict[str, list[float]] = {"clean": [], "faults": []}
    with service(DELAY_S) as clean, service(DELAY_S, "faults") as faulty:
        for _ in range(rounds):
            for url, kind in ((clean, "clean"), (faulty, "faults")):
                found = measure(url, "socjudge", at_once, count)
                spans[kind].append(found["span s"])
                print(kind, json.dumps(found), flush=True)
    medians = {kind: statistics.median(told) for kind, told in spans.items()}
    print(f"\nspan, medians: {medians}, faults / clean {medians['faults'] / medians['clean']:.2f}")


def first_runs(rounds: int) -> None:
    """What the first run of a process costs beside its second, and what of that is the SDK's import."""
    print("\nCPU s of a process: ten stored answers judged, three times over\n")
    with service(0.02) as url:
        for _ in range(rounds):
            found = measure(url, "first", 8, 10)
            print({name: round(found[name], 2) for name in ("SDK import", "first run", "second run", "third run")})


def run_first() -> None:
    questions, answers = material(10)
    questions, answers = list(questions), list(answers)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("socjudge", "langchain_core", "faiss")]:
        del sys.modules[name]  # of the material
    used = time.process_time()
    import openai  # noqa: F401

    found = {"SDK import": time.process_time() - used}
    for name in ("first run", "second run", "third run"):
        used = time.process_time()
        import socjudge as sj

        questions = [sj.EvalQuestion(q.id, q.category, q.question, q.expected_keypoints) for q in questions]
        answers = [sj.AssistantAnswer(a.question, a.answer, a.context) for a in answers]
        with tempfile.TemporaryDirectory() as logs:
            sj.run_evaluation_suite(
                questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=logs, progress=False
            )
        found[name] = time.process_time() - used
    print(json.dumps(found))


def queues() -> None:
    print("\n10 judgements, a server that works on one call of 0.5 s after the other, given up after 2 s\n")
    for at_once in (1, 2, 4, 8, 64):
        with service(0.5, "one") as url:  # a new one each time: what was given up is still worked on
            print(at_once, json.dumps(measure(url, "socjudge", at_once, 10, "--timeout", "2")), flush=True)


def caps(count: int, rounds: int) -> None:
    """What a cap costs: before each call the journal notes what is in flight, so that a killed run counts it."""
    print(f"\n{count} calls, 64 at once, without a cap and under one that is never reached\n")
    found: dict[str, list[dict[str, Any]]] = {"free": [], "capped": []}
    with service(DELAY_S) as url:
        for _ in range(rounds):
            found["free"].append(measure(url, "socjudge", 64, count))
            found["capped"].append(measure(url, "socjudge", 64, count, "--cap", "1000"))
    for name in ("span s", "cpu s"):
        free, capped = (statistics.median(run[name] for run in runs) for runs in found.values())
        print(f"{name}: {free:.2f} and {capped:.2f}, ratio {capped / free:.2f}")


def limits() -> None:
    """How long token buckets make a run, and how many calls they refuse, beside the SDK's own retries."""
    print(f"\n8 s of calls of {DELAY_S * 1000:.0f} ms, 64 at once, against token buckets\n")
    print("| calls a second | burst | Retry-After | span ÷ ideal | SDK's | refused | SDK's |")
    print("|---|---|---|---|---|---|---|")
    for rate in (20, 50, 100):
        for burst in (5, 20):
            for told in ("s", "ms", "no"):
                count = 8 * rate + burst
                spans, refused = [], []
                for loop in ("socjudge", "sdk-aiohttp"):
                    with service(DELAY_S, f"bucket:{rate}:{burst}:{told}") as url:
                        found = measure(url, loop, 64, count, "--retries", str(RETRIES))
                    spans.append(found["span s"] / (8 + DELAY_S))
                    refused.append(found["refused"] / found["calls"])
                print(
                    f"| {rate} | {burst} | {told} | {spans[0]:.2f} | {spans[1]:.2f} "
                    f"| {refused[0]:.0%} | {refused[1]:.0%} |",
                    flush=True,
                )


def memory(count: int) -> None:
    print("\nPeak memory of socjudge, 64 at once, answers after 20 ms\n")
    with service(0.02) as url:
        for calls in (1000, count):
            print(calls, json.dumps(measure(url, "socjudge", 64, calls)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first", action="store_true", help="the first run of a process beside its second")
    parser.add_argument("--faults", action="store_true", help="only what faults do to a run")
    parser.add_argument("--queues", action="store_true", help="a server that works on one call at a time")
    parser.add_argument("--limits", action="store_true", help="token buckets, beside the SDK's own retries")
    parser.add_argument("--caps", action="store_true", help="what a cap on the cost takes")
    parser.add_argument("--cap", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--retries", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--timeout", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, help="compare the memory after 1,000 and after so many calls")
    chosen = parser.parse_args()
    if chosen.loop == "first":
        run_first()
    elif chosen.loop == "socjudge":
        run_socjudge(chosen.at_once[0], chosen.calls, chosen.timeout, chosen.cap)
    elif chosen.loop:
        run_bare(chosen.loop, chosen.at_once[0], chosen.calls, chosen.retries)
    elif chosen.first:
        material(1)
        first_runs(chosen.rounds)
    elif chosen.queues:
        material(1)
        queues()
    elif chosen.caps:
        material(1)
        caps(chosen.calls, chosen.rounds)
    elif chosen.limits:
        material(1)
        limits()
    elif chosen.faults:
        material(1)
        faults(1000, 64, chosen.rounds)
    elif chosen.memory:
        memory(chosen.memory)
    else:
        material(1)
        speed(chosen.at_once, chosen.calls, chosen.rounds)
        faults(1000, 64, chosen.rounds)
