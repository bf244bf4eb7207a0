"""Read logs of Inspect: `.json` (version 2) and `.eval`.

An `.eval` file is a zip file. Its members may be compressed with zstd, which Python 3.11 alone cannot read. A score is
a number, one of Inspect's letters (C, I, P, N), or a dict of these with one entry per criterion. If the score of a
sample is NaN and has a reason, the sample could not be scored. Inspect's epochs become repeats.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...base.messages import say
from .rows import MOST_BYTES, Imported, Row, Scale, points_of, text_of, unfit

_VERSION = 2
# Inspect's own letters and values; N is a refusal to answer, which counts 0 there
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ZSTD = 93
_HEADER = struct.Struct("<4s5H3I2H")  # the head of a zip member: signature … lengths of name and extra field


def is_log(value: Any) -> bool:
    """Return whether an object is a log of Inspect, or the header of one."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value


def read_archive(path: Path, scale: Scale) -> Imported:
    """Read an `.eval` log.

    `left_out` of the result names the samples that cannot be read. If the log has no final header, its run was
    interrupted, and `left_out` says so.
    """
    left_out: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if sum(info.file_size for info in archive.infolist()) > MOST_BYTES:
                raise unfit(path, say("history.import_too_large", most=MOST_BYTES // 2**20))
            if any(name.endswith(".shards/") or ".shards/" in name for name in names):
                left_out.append(say("history.import_shards"))
            head = "header.json" if "header.json" in names else "_journal/start.json"
            if head not in names:
                raise unfit(path, say("history.import_no_header"))
            header = _member(archive, path, head)
            header = {**header, "samples": list(_samples(archive, path, names, left_out))}
    except (zipfile.BadZipFile, OSError) as error:
        raise unfit(path, say("history.import_cut_zip", reason=error)) from None
    if head != "header.json":
        left_out.append(say("history.import_interrupted"))
    found = read_log(header, path, scale)
    return Imported(found.tool, found.rows, (*left_out, *found.left_out), found.started_at)


def _samples(
    archive: zipfile.ZipFile, path: Path, names: list[str], left_out: list[str]
) -> Iterator[Mapping[str, Any]]:
    for name in sorted(name for name in names if name.startswith("samples/") and name.endswith(".json")):
        try:
            yield _member(archive, path, name)
        except (ValueError, zlib.error, EOFError, OSError, zipfile.BadZipFile) as error:
            left_out.append(say("history.import_sample", name=name, reason=error))


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> Mapping[str, Any]:
    """Return a member of an `.eval` file, parsed as JSON. The JSON may contain NaN."""
    info = archive.getinfo(name)
    if info.compress_type != _ZSTD:
        raw = archive.read(name)
    else:
        try:
            import zstandard
        except ModuleNotFoundError:
            raise unfit(path, say("history.import_zstd")) from None
        with path.open("rb") as file:
            file.seek(info.header_offset)
            *_, name_length, extra_length = _HEADER.unpack(file.read(_HEADER.size))
            file.seek(name_length + extra_length, 1)
            packed = file.read(info.compress_size)
        try:
            raw = zstandard.ZstdDecompressor().decompress(packed, max_output_size=max(info.file_size, 1))
        except zstandard.ZstdError as error:
            raise ValueError(error) from None
    found = json.loads(raw)
    if not isinstance(found, dict):
        raise ValueError(say("history.import_no_object"))
    return found


def read_log(header: Mapping[str, Any], path: Path, scale: Scale) -> Imported:
    """Read a `.json` log.

    header: the whole log, parsed. path: the file, for messages.
    """
    version = header.get("version", _VERSION)
    if not isinstance(version, int) or version > _VERSION:
        raise unfit(path, say("history.import_version", tool="Inspect", version=version, known=_VERSION), "version")
    about = header["eval"]
    told = (about.get("packages") or {}).get("inspect_ai", "")
    judge = _judge(about)
    samples = list(header.get("samples") or ())
    criteria = _criteria(samples)
    rows = [_row(sample, path, scale, criteria, about.get("model") or "", judge) for sample in samples]
    rows.sort(key=lambda row: (row.answer_repeat, str(row.question_id)))
    left_out = (say("history.import_invalidated"),) if header.get("invalidated") else ()
    return Imported(f"Inspect {told}".strip(), tuple(rows), left_out, started_at=about.get("created", ""))


def _judge(about: Mapping[str, Any]) -> str:
    """Return the model that scored the answers. If the log does not name it, return the names of the scorers."""
    roles = about.get("model_roles") or {}
    grader = next((role for name, role in roles.items() if "grad" in name or "judge" in name), None)
    if isinstance(grader, list):
        grader = grader[0] if grader else None
    if isinstance(grader, dict) and grader.get("model"):
        return str(grader["model"])
    return ", ".join(str(each.get("name")) for each in about.get("scorers") or ()) or "Inspect"


def _criteria(samples: list[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the criteria of each scorer, as {scorer: criteria}.

    If the scores of a scorer are dicts, its criteria are the keys of these dicts. Otherwise, its only criterion is its
    own name. If a scorer gives dicts for some samples and NaN for another sample, that sample lacks the scores of all
    its criteria.
    """
    found: dict[str, dict[str, None]] = {}
    for sample in samples:
        for scorer, score in (sample.get("scores") or {}).items():
            value = score.get("value")
            found.setdefault(scorer, {}).update(dict.fromkeys(value if isinstance(value, dict) else ()))
    return {scorer: tuple(names) or (scorer,) for scorer, names in found.items()}


def _row(
    sample: Mapping[str, Any], path: Path, scale: Scale, criteria: Mapping[str, tuple[str, ...]], assistant: str, judge: str
) -> Row:  # fmt: skip
    place = f"{path}: {sample.get('id')}, epoch {sample.get('epoch')}"
    marks: dict[str, float | None] = {}
    reasons, causes = {}, {}
    scores = sample.get("scores") or {}
    for scorer, score in scores.items():
        value = score.get("value")
        parts = value if isinstance(value, dict) else dict.fromkeys(criteria[scorer], value)
        for name, part in parts.items():
            name = name if name not in marks else f"{scorer}/{name}"
            letter = _LETTERS.get(part) if isinstance(part, str) else None
            marks[name] = points_of(part, f"{place}.{name}", scale) if letter is None else 100 * letter
            reasons[name] = text_of(score.get("explanation"))
            if marks[name] is None:
                causes[name] = text_of(score.get("reason")) or say("history.import_unmarked")
    error, target = sample.get("error") or {}, sample.get("target")
    return Row(
        question_id=sample.get("id", place),
        question=_text(sample.get("input")),
        answer=_answer(sample),
        keypoints=tuple(filter(None, map(text_of, target if isinstance(target, list) else [target]))),
        context=text_of((sample.get("metadata") or {}).get("context")),
        category=text_of((sample.get("metadata") or {}).get("category")),
        marks=marks,
        reasons=reasons,
        causes=causes,
        answer_repeat=int(sample.get("epoch") or 1) - 1,
        judge=judge,
        assistant=assistant,
        error=text_of(error.get("message")) if not scores else "",
        place=place,
    )


def _text(messages: Any) -> str:
    """Return the text of a sample's input. For a list of messages, it is the user's last message."""
    if isinstance(messages, str):
        return messages
    told = [message for message in messages or () if message.get("role") == "user"]
    content = told[-1].get("content") if told else ""
    if isinstance(content, list):
        return "\n".join(text_of(part.get("text")) for part in content if part.get("type") == "text")
    return text_of(content)


def _answer(sample: Mapping[str, Any]) -> str:
    output = sample.get("output") or {}
    choices = output.get("choices") or ()
    if output.get("completion"):
        return text_of(output["completion"])
    if not choices:
        return ""
    return _text([{"role": "user", "content": (choices[0].get("message") or {}).get("content")}])
