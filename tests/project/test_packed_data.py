"""What the weights are fitted on, and what is only counted, is as its writers left it (benchmarks/data/SOURCE.md)."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import packed_data

# As it stood when the sealed sets were committed, before any model was fitted or counted on them.
SEALED = {
    "voices/sealed/bundled.jsonl": "7b65d3360935d67c1d2b0ab1fd2549750bcd1b5c23de0f0a25e2a1a395e4d930",
    "voices/sealed/bundled_2.jsonl": "42fa6bbed1672af8d60e5e8ffe3e0fccb34a3fe0f3b2c50a93668f5500cf95b5",
    "voices/sealed/hospital.jsonl": "3329ed0ac2904bf1989870adafbf5a820df3e1941fdd5b417cb4a49cacd3ad76",
    "voices/sealed/logistics.jsonl": "0fc13e9d3002cdc0f7e5ab4af0ff3012f1d3dfba4910cb9b51272c7f243fc890",
    "warnings/sealed.jsonl": "a182f11db0a18a70eaa3e9757030f52ff75f9f6242114d43626c6dd435d68f0b",
}


@pytest.mark.slow
def test_the_sealed_answers_are_as_their_writers_left_them(tmp_path: Path) -> None:
    packed_data.unpack(tmp_path)
    sealed = [*(tmp_path / "voices" / "sealed").iterdir(), tmp_path / "warnings" / "sealed.jsonl"]
    found = {path.relative_to(tmp_path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sealed}
    assert found == SEALED


@pytest.mark.slow
def test_every_packed_file_is_written_and_has_its_sum_in_the_table(tmp_path: Path) -> None:
    packed_data.unpack(tmp_path)
    table = (packed_data.PACKS / "SHA256SUMS").read_text("utf-8").splitlines()
    told = {name: value for value, name in (line.split("  ") for line in table) if not name.endswith(".xz")}
    files = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == told
    assert len(told) > 100


@pytest.mark.slow
def test_a_changed_pack_file_or_table_is_refused_by_name(tmp_path: Path) -> None:
    packs = Path(shutil.copytree(packed_data.PACKS, tmp_path / "packs"))
    pack, table = packs / "questions.jsonl.xz", packs / "SHA256SUMS"
    whole, sums = pack.read_bytes(), table.read_text("utf-8")

    pack.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"questions\.jsonl\.xz is not as SHA256SUMS has it"):
        packed_data.unpack(tmp_path / "a", packs)

    # The pack's own sum made anew: the sum of the file is still its writer's.
    other = lzma.compress(lzma.decompress(whole).replace(b"question", b"questiom", 1))
    pack.write_bytes(other)
    old, new = (hashlib.sha256(data).hexdigest() for data in (whole, other))
    table.write_text(sums.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=r"evidence/blunt_dangers\.jsonl is not as SHA256SUMS has it"):
        packed_data.unpack(tmp_path / "b", packs)

    pack.write_bytes(whole)
    table.write_text(f"{sums}{'0' * 64}  evidence/lost.jsonl\n", "utf-8")
    with pytest.raises(ValueError, match=r"names evidence/lost\.jsonl, which is in no pack"):
        packed_data.unpack(tmp_path / "c", packs)


@pytest.mark.slow
def test_a_file_of_ones_own_is_found_before_a_packed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    packed = packed_data.find("night_dev.jsonl")
    assert packed == packed_data.unpacked() / "night_dev.jsonl" and packed.is_file()
    (tmp_path / "night_dev.jsonl").write_text("", "utf-8")
    assert packed_data.find("night_dev.jsonl").read_bytes() == b""
    assert packed_data.find("hosted_answers") == ROOT / "tests" / "data" / "hosted_answers"
