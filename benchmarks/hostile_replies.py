"""How soon a reply that is made to keep the parser busy is refused, as a Markdown table: seconds of CPU time.

python benchmarks/hostile_replies.py
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from test_replies import HOSTILE, read

from socjudge.errors import UnparsableJudgement


def main() -> None:
    print("| reply | characters | s |\n|---|---|---|")
    for text in HOSTILE:
        began = time.process_time()
        with contextlib.suppress(UnparsableJudgement):
            read(text, quoted=[text])
        print(f"| {text[:12]!r}… | {len(text):,} | {time.process_time() - began:.2f} |")


if __name__ == "__main__":
    main()
