"""How long a run over somebody's own assistant takes beside a bare `asyncio.gather` of the same calls.

    python benchmarks/own_assistant.py                     # 100 questions, 4 and 16 at once; about 2 minutes
    python benchmarks/own_assistant.py --seconds 2 1       # a bot and a judge as slow as language models are

The bot and the judge are services on loopback in processes of their own. The bare loop asks the bot, has the answer judged
(over aiohttp, or with the SDK of OpenAI, as most people would) and forgets it; socjudge also maps, checks, journals and
logs. A call to warm up goes before, in both; to socjudge the bot is a new one all the same."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from throughput import measured, service

LOOPS = ["bare", "sdk", "socjudge"]
ANSWER = "choices[0].message.content"


def run_bare(bot: str, judge: str, at_once: int, count: int, *, sdk: bool) -> None:
    import aiohttp
    import openai

    client = openai.AsyncOpenAI(max_retries=0, http_client=openai.DefaultAioHttpClient())

    async def main() -> None:
        async with aiohttp.ClientSession() as session:

            async def call(url: str, text: str) -> str:
                async with session.post(url, json={"messages": [{"role": "user", "content": text}]}) as response:
                    return str((await response.json())["choices"][0]["message"]["content"])

            async def judged(text: str) -> str:
                if not sdk:
                    return await call(judge, text)
                messages: Any = [{"role": "user", "content": text}]
                reply = await client.chat.completions.create(model="gpt-4o-mini", messages=messages)
                return reply.choices[0].message.content or ""

            places = asyncio.Semaphore(at_once)

            async def one(i: int) -> None:
                async with places:
                    await judged(await call(bot, f"質問{i}の初動は。"))

            await one(0)
            with measured() as found:
                await asyncio.gather(*map(one, range(count)))
            print(json.dumps(found))

    asyncio.run(main())


def run_socjudge(bot: str, at_once: int, count: int) -> None:
    import socjudge as sj

    table = {"url": bot, "body": {"messages": [{"role": "user", "content": "{question}"}]}, "answer": ANSWER}
    questions = [sj.EvalQuestion(i, "正常系", f"質問{i}の初動は。", ("隔離",)) for i in range(count)]
    how: dict[str, Any] = {"options": sj.RunOptions(max_concurrency=at_once), "progress": False}
    with tempfile.TemporaryDirectory() as logs:
        for part in ([sj.EvalQuestion("warm", "正常系", "準備は。", ("隔離",))], questions):
            assistant = sj.Assistant(table, name="bot", concurrency=at_once)
            with measured() as found:
                run = sj.run_evaluation_suite(part, answers=assistant, judge_model="gpt-4o-mini", logs_dir=logs, **how)
    found["scored"] = sum(result.evaluation.status == "ok" for result in run.results)
    print(json.dumps(found))


def measure(loop: str, bot: str, judge: str, at_once: int, count: int) -> dict[str, Any]:
    command = [
        sys.executable,
        __file__,
        "--loop",
        loop,
        "--at-once",
        str(at_once),
        "--questions",
        str(count),
        "--bot",
        bot,
    ]
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "sk-benchmark",
        "OPENAI_BASE_URL": f"{judge}/v1",
        "SOCJUDGE_LANG": "en",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(levels: list[int], count: int, rounds: int, seconds: list[float]) -> None:
    load = os.getloadavg()[0]
    print(f"{count} questions, bot {seconds[0]} s, judge {seconds[1]} s, median of {rounds} rounds, load {load:.0f}\n")
    print(
        "| at once | bare s | with the SDK s | socjudge s | ÷ bare | ÷ with the SDK | CPU ms per question, bare | SDK | socjudge |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with service(seconds[0], "bot") as bot, service(seconds[1]) as judge:
        for at_once in levels:
            rounds_of = [[measure(loop, bot, judge, at_once, count) for loop in LOOPS] for _ in range(rounds)]
            found = [
                {name: statistics.median(each[k][name] for each in rounds_of) for name in rounds_of[0][k]}
                for k in range(len(LOOPS))
            ]
            assert found[2]["scored"] == count
            spans = [each["span s"] for each in found]
            cells = [
                *spans,
                spans[2] / spans[0],
                spans[2] / spans[1],
                *(each["cpu s"] / count * 1000 for each in found),
            ]
            print(f"| {at_once} | {' | '.join(f'{cell:.2f}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    parser.add_argument("--bot", default="", help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, nargs=2, default=[0.4, 0.2], help="of the bot and of the judge")
    chosen = parser.parse_args()
    if chosen.loop in LOOPS[:2]:
        judge = os.environ["OPENAI_BASE_URL"]
        run_bare(chosen.bot, judge, chosen.at_once[0], chosen.questions, sdk=chosen.loop == "sdk")
    elif chosen.loop:
        run_socjudge(chosen.bot, chosen.at_once[0], chosen.questions)
    else:
        main(chosen.at_once, chosen.questions, chosen.rounds, chosen.seconds)
