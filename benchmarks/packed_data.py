"""The questions, statements and answers that the weights are fitted on, and those that are only counted.

    python benchmarks/packed_data.py FOLDER      # writes them there as files

benchmarks/data/SOURCE.md says what they are. Each line of benchmarks/data/*.jsonl.xz is a file: its name, and its text or,
of Word and Excel, its bytes in base64. SHA256SUMS has the sum of each pack, and of each file in it.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import hashlib
import json
import lzma
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

PACKS = Path(__file__).with_name("data")
READ_BY_TESTS = Path(__file__).resolve().parents[1] / "tests" / "data"


def unpack(folder: Path, packs: Path = PACKS) -> None:
    """Write every file below a folder. ValueError for a pack or a file that is not as SHA256SUMS has it."""
    table = (packs / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: value for value, name in (line.split("  ") for line in table)}

    def check(name: str, data: bytes) -> None:
        if hashlib.sha256(data).hexdigest() != sums.pop(name, None):
            raise ValueError(f"{packs}: {name} is not as SHA256SUMS has it; restore both from version control")

    for pack in sorted(packs.glob("*.jsonl.xz")):
        check(pack.name, pack.read_bytes())
        with lzma.open(pack, "rt", encoding="utf-8") as lines:
            for line in lines:
                file = json.loads(line)
                data = file["text"].encode("utf-8") if "text" in file else base64.b64decode(file["base64"])
                check(file["name"], data)
                path = folder / file["name"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    if sums:
        raise ValueError(f"{packs}: SHA256SUMS names {', '.join(sorted(sums))}, which is in no pack")


@cache
def unpacked() -> Path:
    """A folder with every file, until this process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    unpack(Path(folder.name))
    return Path(folder.name)


def find(name: str | Path) -> Path:
    """A file or folder: the caller's own, else of tests/data, else a packed one."""
    own = [path for path in (Path(name), READ_BY_TESTS / name) if path.exists()]
    return own[0] if own else unpacked() / name


def save_weights(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays, such as the weights of a fit, to a compressed file, as float16."""
    small: dict[str, Any] = {name: np.asarray(array, dtype=np.float16) for name, array in arrays.items()}
    np.savez_compressed(path, **small)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    unpack(parser.parse_args().folder)
