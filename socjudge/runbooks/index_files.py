"""Save and load the index: `passages.jsonl`, `vectors.npy` (float16), and `manifest.json` with the checksums of both.

The files hold plain data only. Nothing is pickled, and no binary index is parsed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..base.files import load_bytes, make_folder, replacing
from ..base.messages import explained, say
from ..errors import ConfigError
from .embeddings import EMBEDDER, Vectors
from .reading import Chunk

FORMAT_VERSION = 3


@dataclass(frozen=True)
class StoredIndex:
    chunks: tuple[Chunk, ...]
    # (rows, dimension), float32 from a build or float16 from a file: one row per passage, then per sentence, then per
    # question of a passage.
    vectors: Vectors
    files: Mapping[str, str]  # {file name: SHA-256} of the runbooks and of the JSON files beside them
    runbooks: Path  # their folder
    # {everyday word: words of the runbooks}
    synonyms: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """Return the texts from which the rows of `vectors` were made, in the same order."""
        passages = [chunk.search_text for chunk in self.chunks]
        sentences = [sentence for chunk in self.chunks for sentence in chunk.sentences]
        return passages + sentences + [question for chunk in self.chunks for question in chunk.questions]


def save_stored_index(stored: StoredIndex, index_dir: Path) -> None:
    """Write the three files of an index, each in one step. ConfigError if they cannot be written."""
    buffer = io.BytesIO()
    np.save(buffer, stored.vectors.astype(np.float16), allow_pickle=False)
    vectors = buffer.getvalue()
    lines = [json.dumps(asdict(c), ensure_ascii=False, allow_nan=False) + "\n" for c in stored.chunks]
    passages = "".join(lines).encode("utf-8")
    manifest: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "embedder": EMBEDDER,
        "runbooks": _relative(stored.runbooks, index_dir),
        "files": dict(stored.files),
        "synonyms": dict(stored.synonyms),
        "sha256": {"passages.jsonl": _sha256(passages), "vectors.npy": _sha256(vectors)},
    }
    manifest["sha256_of_this"] = _manifest_checksum(manifest)
    manifest_text = json.dumps(manifest, ensure_ascii=False, allow_nan=False, indent=2)
    with explained(
        "{folder}: the index cannot be written ({reason}); free space, or change the permissions", folder=index_dir
    ):
        make_folder(index_dir)
        # The manifest is written last. Until then, the checksums do not fit and the index does not load.
        written = {"vectors.npy": vectors, "passages.jsonl": passages, "manifest.json": manifest_text.encode("utf-8")}
        for name, content in written.items():
            with replacing(index_dir / name) as file:
                file.write(content)


def stamp_stored_index(index_dir: Path) -> tuple[tuple[int, ...], ...]:
    """Return a value that stays the same until a file of an index changes. ConfigError if one is missing."""
    stamps = []
    for name in ("manifest.json", "passages.jsonl", "vectors.npy"):
        with _reading(index_dir / name):
            stat = (index_dir / name).stat()
        stamps.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))  # each build creates new files
    return tuple(stamps)


def load_stored_index(index_dir: Path) -> StoredIndex:
    """Load what `save_stored_index` wrote. The ConfigError names the first file that is missing or damaged."""
    manifest = _load_manifest(index_dir / "manifest.json")
    passages, vectors_path = index_dir / "passages.jsonl", index_dir / "vectors.npy"
    try:
        chunks = tuple(msgspec.json.decode(line, type=Chunk) for line in _checked(passages, manifest).splitlines())
    except (ValueError, RecursionError) as error:
        raise _damaged(passages, str(error)) from error
    try:
        vectors = np.load(io.BytesIO(_checked(vectors_path, manifest)), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _damaged(vectors_path, str(error)) from error
    if vectors.dtype != np.float16 or vectors.ndim != 2 or not np.isfinite(vectors).all():
        why = say("{dtype} {shape}, not a float16 table", dtype=vectors.dtype, shape=vectors.shape)
        raise _damaged(vectors_path, why)
    # Not resolved, because a link to the runbooks may point elsewhere later.
    runbooks = Path(os.path.normpath(index_dir.absolute() / manifest.runbooks))
    stored = StoredIndex(chunks, vectors, manifest.files, runbooks, manifest.synonyms)
    if len(vectors) != len(stored.texts):
        why = say(
            "{vectors} vectors for {texts} passages, sentences and questions",
            vectors=len(vectors),
            texts=len(stored.texts),
        )
        raise _damaged(vectors_path, why)
    return stored


class _Manifest(msgspec.Struct):
    embedder: str
    runbooks: str
    files: dict[str, str]
    synonyms: dict[str, list[str]]
    sha256: dict[str, str]


def _load_manifest(path: Path) -> _Manifest:
    try:
        manifest = msgspec.json.decode(_read(path), type=dict[str, Any])
        checksum, found = manifest.pop("sha256_of_this"), manifest["format_version"]
        known = msgspec.convert(manifest, _Manifest) if found == FORMAT_VERSION else None
    except (ValueError, KeyError, RecursionError) as error:
        raise _damaged(path, say("not a manifest: {reason}", reason=error)) from error
    if checksum != _manifest_checksum(manifest):
        raise _damaged(path, say("its checksum does not fit"))
    if known is None:
        raise ConfigError(
            "{path}: index format {found}, but this socjudge reads format {known}; run: socjudge index",
            path=path,
            found=found,
            known=FORMAT_VERSION,
        )
    if known.embedder != EMBEDDER:
        raise ConfigError(
            "{path}: made by another embedder, {found}; run: socjudge index", path=path, found=known.embedder
        )
    return known


def _checked(path: Path, manifest: _Manifest) -> bytes:
    content = _read(path)
    if _sha256(content) != manifest.sha256.get(path.name):
        raise _damaged(path, say("its checksum does not fit the manifest"))
    return content


def _reading(path: Path) -> AbstractContextManager[None]:
    return explained(
        "{path}: no index there ({reason}); run: socjudge index",
        path=path,
    )


def _read(path: Path) -> bytes:
    with _reading(path):
        return load_bytes(path)


def _relative(folder: Path, index_dir: Path) -> str:
    """The path between the two folders stays right when the whole project is moved."""
    try:
        return Path(os.path.relpath(folder, index_dir)).as_posix()
    except ValueError:  # the folders are on different drives (Windows)
        return folder.absolute().as_posix()


def _manifest_checksum(manifest: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(manifest, ensure_ascii=False, sort_keys=True).encode("utf-8"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _damaged(path: Path, why: str) -> ConfigError:
    return ConfigError(
        "{path}: the index is damaged ({reason}); run: socjudge index",
        path=path,
        reason=why,
    )
