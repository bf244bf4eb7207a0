"""How long 100,000 answers of a table take to become a frame: `python benchmarks/imports.py`."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import socjudge as sj

ROWS = 100_000

rng = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "question": [f"質問{i}" for i in range(ROWS)],
        "answer": [f"回答{i}です。端末を隔離します。" for i in range(ROWS)],
        "正確性": rng.integers(1, 6, ROWS),
        "安全性": rng.integers(1, 6, ROWS),
    }
)
with tempfile.TemporaryDirectory() as folder:
    table.to_csv(Path(folder) / "table.csv", index=False)
    table.to_parquet(Path(folder) / "table.parquet")
    for name in ("table.csv", "table.parquet"):
        start = time.process_time()
        frame = sj.history.import_results(Path(folder) / name, columns={"marks": ["正確性", "安全性"]}, scale=(1, 5))
        print(f"{name}: {len(frame):,} marks in {time.process_time() - start:.1f} s of a processor")
