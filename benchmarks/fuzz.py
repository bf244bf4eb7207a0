"""Feed the readers of tests/support/readers.py with what a coverage-guided fuzzer makes up; `make fuzz` runs it.

    python benchmarks/fuzz.py [READER …] [--minutes 10]

It needs atheris. Each reader gets so many minutes of CPU time, in a process of its own, beginning with the inputs in
tests/data/fuzz.zip and what earlier calls found in build/fuzz. What goes wrong is written to build/fuzz/<reader>-findings,
once per place; give such a file to `check` in a test, and add it to tests/data/fuzz.zip once it is mended."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
SLOW_S = 5.0  # of CPU for one input of at most MOST bytes
MOST = 20_000
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 0.5, 100, 101, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, float("nan"),
    float("inf"), "", "0", "ok", "failed", "\x00", "\ud800", "根拠性", "x" * 300, [], {}, [[]], {"": 0}, [None], {"a": {}},
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        fuzz(options.readers[0], options.minutes * 60)
    from support.readers import READERS

    failed = [name for name in options.readers or READERS if _alone(name, options.minutes)]
    return bool(failed)


def _alone(reader: str, minutes: float) -> int:
    command = [sys.executable, __file__, reader, "--alone", "--minutes", str(minutes)]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode  # thousands of lines of progress


def fuzz(reader: str, seconds: float) -> None:
    """Never returns; the exit code is 1 if something was found."""
    import atheris

    with atheris.instrument_imports(include=["socjudge"], enable_loader_override=False):
        import readers
    inputs, findings = ROOT / "build" / "fuzz" / reader, ROOT / "build" / "fuzz" / f"{reader}-findings"
    inputs.mkdir(parents=True, exist_ok=True)
    for kept in (readers.INPUTS / reader).iterdir():
        (inputs / kept.name).write_bytes(kept.read_bytes())
    known: set[str] = set()
    count = 0
    began = time.process_time()

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        start = time.process_time()
        try:
            readers.check(reader, data)
            if (took := time.process_time() - start) > SLOW_S:
                raise TimeoutError(f"{took:.1f} s of CPU for {len(data)} bytes")
        except (Exception, RecursionError) as error:
            place = _place(error)  # without its words, which differ
            if place not in known:
                known.add(place)
                findings.mkdir(exist_ok=True)
                name = hashlib.sha256(place.encode()).hexdigest()[:8]
                (findings / name).write_bytes(data)
                report = f"{place}: {error}\n{data[:300]!r}\n{''.join(traceback.format_exception(error))}"
                (findings / f"{name}.txt").write_text(report, "utf-8", "backslashreplace")
                print(f"{reader}: {place}", flush=True)
        if (spent := time.process_time() - began) > seconds:
            size = sum(1 for _ in inputs.iterdir())
            print(
                f"{reader}: {count} inputs in {spent / 60:.1f} min of CPU, {size} kept, {len(known)} findings",
                flush=True,
            )
            os._exit(bool(known))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() < 0.5 and (changed := _changed_json(data, draw)) is not None and len(changed) <= most:
            return changed
        return atheris.Mutate(data, most)  # type: ignore[no-any-return]

    arguments = [sys.argv[0], str(inputs), f"-max_len={MOST}", "-rss_limit_mb=4000", "-timeout=120"]
    atheris.Setup([*arguments, "-print_final_stats=0"], one, custom_mutator=mutate)
    atheris.Fuzz()


def _changed_json(data: bytes, draw: random.Random) -> bytes | None:
    """The bytes with one value of the JSON in them changed: all of it, behind its first line, or one of its lines."""
    lines = data.split(b"\n")
    choices = [(0, len(lines)), (1, len(lines))] if len(lines) > 1 else [(0, 1)]
    number = draw.randrange(len(lines))
    choices.append((number, number + 1))
    for first, after in choices:
        try:
            value = json.loads(b"\n".join(lines[first:after]))
        except (ValueError, RecursionError):
            continue
        text = json.dumps(_changed(value, draw), ensure_ascii=draw.random() < 0.3).encode("utf-8", "surrogatepass")
        return b"\n".join([*lines[:first], text, *lines[after:]])
    return None


def _changed(value: Any, draw: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or draw.random() < 0.1:
        return draw.choice(ODD)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        what = draw.random()
        if what < 0.1:
            return value[:at] + value[at + 1 :]
        if what < 0.2:
            return [*value, value[at]]
        return [*value[:at], _changed(value[at], draw), *value[at + 1 :]]
    name = draw.choice(list(value))
    if draw.random() < 0.1:
        return {key: inner for key, inner in value.items() if key != name}
    return {**value, name: _changed(value[name], draw)}


def _place(error: BaseException) -> str:
    """What went wrong and where: its kind, and the innermost lines of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames if str(ROOT) in frame.filename]
    return f"{type(error).__name__} at {' < '.join(ours[-2:][::-1])}"


if __name__ == "__main__":
    sys.exit(main())
