"""Three first evenings, in lines and seconds: a bot behind HTTP, a function and a CSV, by socjudge, promptfoo and Inspect.

    python benchmarks/newcomer.py [--promptfoo node_modules/.bin/promptfoo] [--inspect venv/bin/inspect]

Ten questions; bot and judge are one loopback service that answers after 0.2 s. All three tools ask the same judge model once
for each answer, eight calls at once. Lines are those that a person writes or types for the case; questions, answers.csv and
mybot.py are there before. Seconds are of the whole command, the median of the rounds. promptfoo's cache is off."""

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
from pathlib import Path
from typing import Any

N, DELAY_S = 10, 0.2
ANSWER = "感染の疑いがある端末をネットワークから隔離し、SOCリーダーへ報告する。"
CRITERIA = ["根拠性", "正確性", "網羅性", "安全性", "引用明示", "簡潔性"]
JUDGEMENT = {
    "scores": dict.fromkeys(CRITERIA, 80),
    "rationale": dict.fromkeys(CRITERIA, "手順書のとおり。"),
    "overall_comment": "良い。",
}
MYBOT = f"def ask(question):\n    return {ANSWER!r}\n"

# tool → case → ({file: what is written}, command). {url}: of the bot.
RUN = "{tool} run --judge-model gpt-4o-mini --yes --answers "
PF_END = """defaultTest: {{options: {{provider: 'openai:chat:gpt-4o-mini'}}, assert: [{{type: llm-rubric, value: 'covers: {{{{keypoints}}}}'}}]}}
tests: questions.csv
"""
PF_RUN = "{tool} eval --no-cache -j 8"
HTTP = """[assistants.bot]
url = "{url}"
body = {{ q = "{{question}}" }}
answer = "reply.text"
"""
PF_HTTP = """prompts: ['{{{{question}}}}']
providers: [{{id: '{url}', config: {{method: POST, headers: {{Content-Type: application/json}}, body: {{q: '{{{{prompt}}}}'}}, transformResponse: 'json.reply.text'}}}}]
"""
PF_FUNCTION = """prompts: ['{{{{question}}}}']
providers: ['file://provider.py']
"""
PF_PROVIDER = """from mybot import ask
def call_api(prompt, options, context):
    return {{"output": ask(prompt)}}
"""
PF_CSV = """prompts: ['{{{{answer}}}}']
providers: [echo]
"""
INSPECT_HEAD = """from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, csv_dataset
from inspect_ai.scorer import model_graded_fact
from inspect_ai.solver import solver
"""
INSPECT_SOLVER = """@solver
def bot():
    async def solve(state, generate):
        state.output.completion = {call}
        return state
    return solve
"""
INSPECT_TASK = """@task
def soc():
    data = csv_dataset("questions.csv", FieldSpec(input="question", target="keypoints", metadata=["answer"]))
    return Task(dataset=data, solver=bot(), scorer=model_graded_fact(model="openai/gpt-4o-mini"))
"""
INSPECT_RUN = "{tool} eval soc.py --model openai/gpt-4o-mini --max-samples 8 --display plain"


def _inspect(imports: str, call: str) -> tuple[dict[str, str], str]:
    return {"soc.py": imports + INSPECT_HEAD + INSPECT_SOLVER.replace("{call}", call) + INSPECT_TASK}, INSPECT_RUN


CASES: dict[str, dict[str, tuple[dict[str, str], str]]] = {
    "socjudge": {
        "HTTP": ({"socjudge.toml": HTTP}, RUN + "bot"),
        "function": ({}, RUN + "mybot.py:ask"),
        "CSV": ({}, RUN + "answers.csv"),
    },
    "promptfoo": {
        "HTTP": ({"promptfooconfig.yaml": PF_HTTP + PF_END}, PF_RUN),
        "function": ({"promptfooconfig.yaml": PF_FUNCTION + PF_END, "provider.py": PF_PROVIDER}, PF_RUN),
        "CSV": ({"promptfooconfig.yaml": PF_CSV + PF_END}, PF_RUN),
    },
    "Inspect": {
        "HTTP": _inspect(
            "import httpx\n",
            '(await httpx.AsyncClient().post("{url}", json={{"q": state.input_text}})).json()["reply"]["text"]',
        ),
        "function": _inspect("from mybot import ask\n", "ask(state.input_text)"),
        "CSV": _inspect("", 'state.metadata["answer"]'),
    },
}


def serve() -> None:
    """The bot at /ask, and at /v1/chat/completions a judge that replies as whoever asks wants it."""
    from aiohttp import web

    async def ask(_: web.Request) -> web.Response:
        await asyncio.sleep(DELAY_S)
        return web.json_response({"reply": {"text": ANSWER}})

    async def judge(request: web.Request) -> web.Response:
        await asyncio.sleep(DELAY_S)
        asked = json.dumps(await request.json(), ensure_ascii=False)
        reply = json.dumps(JUDGEMENT, ensure_ascii=False)
        if "GRADE" in asked:
            reply = "All there.\n\nGRADE: C"
        elif "rubric" in asked.lower() and "scores" not in asked:
            reply = json.dumps({"reason": "All there.", "pass": True, "score": 1})
        choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        head = {"id": "x", "object": "chat.completion", "created": 0, "model": "gpt-4o-mini"}
        return web.json_response({**head, "choices": [choice], "usage": usage})

    app = web.Application()
    app.add_routes([web.post("/ask", ask), web.post("/v1/chat/completions", judge)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None)


def prepare(folder: Path, url: str, files: dict[str, str]) -> None:
    questions = [f"質問{i}: 感染の疑いがある端末の初動は。" for i in range(N)]
    rows = [
        {"id": i, "category": "正常系", "question": q, "expected_keypoints": ["隔離", "報告"]}
        for i, q in enumerate(questions)
    ]
    (folder / "eval").mkdir()
    (folder / "eval" / "eval_dataset.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    (folder / "socjudge.toml").touch()
    lines = [f"{i},{q},隔離、報告,{ANSWER}" for i, q in enumerate(questions)]
    for name in ("questions.csv", "answers.csv"):
        (folder / name).write_text("\n".join(["question_id,question,keypoints,answer", *lines]) + "\n", "utf-8")
    (folder / "mybot.py").write_text(MYBOT, "utf-8")
    for name, text in files.items():
        (folder / name).write_text(text.format(url=url), "utf-8")


def measure(tool: str, program: str, case: str, port: int) -> float:
    files, command = CASES[tool][case]
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place), f"http://127.0.0.1:{port}/ask", files)
        base = f"http://127.0.0.1:{port}/v1"
        quiet = {
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
            "PROMPTFOO_CONFIG_DIR": f"{place}/pf",
        }
        environment = {
            **os.environ, **quiet, "OPENAI_API_KEY": "sk-benchmark", "OPENAI_BASE_URL": base, "SOCJUDGE_HOME": place,
            "PROMPTFOO_PYTHON": sys.executable, "PYTHONPATH": f"{place}:{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        if tool == "Inspect":
            environment["PYTHONPATH"] = place
        started = time.perf_counter()
        done = subprocess.run(
            command.format(tool=program).split(), cwd=place, env=environment, capture_output=True, text=True
        )
        took = time.perf_counter() - started
    # socjudge's 1 and 2 are verdicts (docs/reference.md), and 100 of promptfoo is "some failed".
    if done.returncode not in {"socjudge": (0, 1, 2)}.get(tool, (0,)):
        sys.exit(f"{tool} {case}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return took


def n_lines(tool: str, case: str) -> int:
    files, _ = CASES[tool][case]
    return 1 + sum(len(text.strip().splitlines()) for text in files.values())


def main(programs: dict[str, str], rounds: int) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, __file__, "--serve", str(port)]) as service:
        time.sleep(2)
        try:
            print("| case | " + " | ".join(f"{tool}: lines | s" for tool in programs) + " |")
            print("|---|" + "---|---|" * len(programs))
            for case in ("HTTP", "function", "CSV"):
                cells: list[Any] = []
                for tool, program in programs.items():
                    seconds = statistics.median(measure(tool, program, case, port) for _ in range(rounds))
                    cells += [n_lines(tool, case), f"{seconds:.1f}"]
                print(f"| {case} | " + " | ".join(map(str, cells)) + " |", flush=True)
        finally:
            service.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve()
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--promptfoo", help="its program; left out without")
        parser.add_argument("--inspect", help="likewise")
        parser.add_argument("--rounds", type=int, default=3)
        chosen = parser.parse_args()
        given = {
            "socjudge": f"{sys.executable} -m socjudge", "promptfoo": chosen.promptfoo, "Inspect": chosen.inspect,
        }  # fmt: skip
        main({tool: program for tool, program in given.items() if program}, chosen.rounds)
