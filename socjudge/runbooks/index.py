"""Build, open and load the index of the runbooks."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import constants
from ..base.messages import aside, say
from ..constants import CARRIED_DIR
from ..errors import ConfigError
from .companions import MOST_NAMED, add_questions, hash_companions, load_organisation, load_synonyms
from .embeddings import DIMENSION, Vectors, embed_new, hash_text
from .index_files import StoredIndex, load_stored_index, save_stored_index, stamp_stored_index
from .reading import load_runbooks
from .search import RunbookIndex as RunbookIndex  # others take it from here

# Vectors of the bundled runbooks, made by `make setup` and carried by the wheel: an example project embeds nothing.
BUNDLED_INDEX_DIR = CARRIED_DIR / "eval" / "runbooks_index"

_building = threading.Lock()


# (folder of runbooks, folder of the index) that the callers of this process named together
_named: set[tuple[Path, Path]] = set()


def _chosen(runbooks: Path | str, index_dir: Path | str) -> Path:
    """Return the folder of the runbooks, which the caller named, or which is the project's own.
    ConfigError if the project's own is a link that leads out of the project, because somebody else may have made it."""
    runbooks = Path(runbooks)
    if runbooks != constants.RUNBOOKS_DIR:
        _named.add((runbooks.resolve(), Path(index_dir).resolve()))
    elif not _may_read(runbooks, Path(index_dir)):
        raise ConfigError(
            "{folder} leads out of the project, to {target}; if these are your runbooks, name that folder with "
            "--runbooks (runbooks=)",
            folder=runbooks,
            target=runbooks.resolve(),
        )
    return runbooks


def _may_read(runbooks: Path, index_dir: Path) -> bool:
    """Return whether a folder of runbooks is inside the project, or was chosen for this index by this process."""
    there, own = runbooks.resolve(), constants.RUNBOOKS_DIR
    is_assigned = not own.is_relative_to(constants.PROJECT_DIR) and there == own.resolve()
    return is_assigned or _is_inside(there) or (there, index_dir.resolve()) in _named


def _is_inside(folder: Path) -> bool:
    return folder.resolve().is_relative_to(constants.PROJECT_DIR.resolve())


def open_index(runbooks: Path | str | None = None, *, index_dir: Path | str | None = None) -> RunbookIndex:
    """Return the index of the runbooks. If it is up to date, it is loaded. Otherwise it is built or updated.

    If `runbooks` is left out, it is the folder that the stored index was made from, if that is inside the project or
    was named before in this process, and otherwise RUNBOOKS_DIR. If `index_dir` is left out, it is INDEX_DIR. As long
    as the files do not change, all callers in this process get the same object.

    Raises ConfigError if `build_index` does.
    """
    folder = Path(constants.INDEX_DIR if index_dir is None else index_dir)
    runbooks = runbooks and _chosen(runbooks, folder)
    with _building:  # of several threads, one builds
        if (index := find_index(runbooks, index_dir=folder)) is not None:
            return index
        if runbooks is None:
            with contextlib.suppress(ConfigError):
                runbooks = _load_once(folder).runbooks
                if not _is_inside(runbooks):
                    print(say("reading the runbooks in {folder} again", folder=runbooks), file=aside())
        build_index(runbooks, index_dir=folder)
        return _load_once(folder)


def find_index(runbooks: Path | str | None = None, *, index_dir: Path | str | None = None) -> RunbookIndex | None:
    """Return the index that `open_index` would load. Return None if `open_index` would have to build or update one."""
    folder = Path(constants.INDEX_DIR if index_dir is None else index_dir)
    try:
        runbooks = runbooks and _chosen(runbooks, folder)
        index = _load_once(folder)
    except ConfigError:
        return None
    is_theirs = runbooks is None or Path(runbooks).resolve() == index.runbooks.resolve()
    return index if is_theirs and not index.stale_files() else None


def outdated_files(runbooks: Path, *, index_dir: Path) -> list[str]:
    """Return the files that changed since the index was built; [] if it is none of these runbooks."""
    with contextlib.suppress(ConfigError):
        index = _load_once(index_dir)
        if runbooks.resolve() == index.runbooks.resolve():
            return index.stale_files()
    return []


def _load_once(index_dir: Path) -> RunbookIndex:
    return _load_stamped(index_dir.resolve(), stamp_stored_index(index_dir))


@lru_cache(maxsize=4)
def _load_stamped(index_dir: Path, stamp: tuple[tuple[int, ...], ...]) -> RunbookIndex:
    return _load(index_dir)


def build_index(
    runbooks: Path | str | None = None,
    *,
    index_dir: Path | str | None = None,
    on_progress: Callable[[int, int], Any] | None = None,
) -> RunbookIndex:
    """Build the index of all runbooks under `runbooks`, and save it to `index_dir`.

    The two folders are RUNBOOKS_DIR and INDEX_DIR if left out. `on_progress` gets the number of texts embedded so far, and
    of all texts to embed.

    Only new texts are embedded, and `index.n_embedded` is their number. The vectors of all other texts come from the
    index that is already in `index_dir`, and from the bundled vectors.

    Raises ConfigError if there is no runbook, a runbook cannot be read, or `index_dir` cannot be written.
    """
    index_dir = constants.INDEX_DIR if index_dir is None else index_dir
    runbooks = _chosen(constants.RUNBOOKS_DIR if runbooks is None else runbooks, index_dir)
    books = add_questions(load_runbooks(runbooks), runbooks)
    known = known_vectors(BUNDLED_INDEX_DIR) | known_vectors(Path(index_dir))
    n_known = len(known)
    files = {book.source: book.sha256 for book in books}
    chunks = tuple(chunk for book in books for chunk in book.chunks)
    synonyms = load_synonyms(runbooks)
    load_organisation(runbooks)  # report a damaged file now, not at the first question
    files |= hash_companions(runbooks)
    stored = StoredIndex(chunks, np.zeros((0, DIMENSION), dtype=np.float32), files, Path(runbooks), synonyms)
    stored = replace(stored, vectors=embed_new(stored.texts, known, on_progress))
    save_stored_index(stored, Path(index_dir))
    return RunbookIndex(stored, known, Path(index_dir), n_embedded=len(known) - n_known)


def load_index(index_dir: Path | str | None = None) -> RunbookIndex:
    """Load the index that `build_index` saved in `index_dir` (INDEX_DIR if left out), and check its checksums.

    Raises ConfigError if a file is missing or damaged. A UserWarning names the files that changed since the build.
    """
    index_dir = constants.INDEX_DIR if index_dir is None else index_dir
    index = _load(Path(index_dir))
    if index.runbooks.is_dir() and (stale := index.stale_files()):
        shown = ", ".join(stale[:MOST_NAMED]) + (" …" if len(stale) > MOST_NAMED else "")
        told = say("{folder}: older than its runbooks ({files}); run: socjudge index", folder=index_dir, files=shown)
        warnings.warn(told, stacklevel=2)
    return index


def _load(index_dir: Path) -> RunbookIndex:
    stored = load_stored_index(index_dir)
    if stored.runbooks.is_dir() and not _may_read(stored.runbooks, index_dir):
        warnings.warn(
            say(
                "{index}: made from runbooks outside the project ({folder}), and an index does not choose what is read. "
                "{own} is used; if the others are yours, name them with --runbooks (runbooks=)",
                index=index_dir,
                folder=stored.runbooks.resolve(),
                own=constants.RUNBOOKS_DIR,
            ),
            stacklevel=3,
        )
        stored = replace(stored, runbooks=_chosen(constants.RUNBOOKS_DIR, index_dir))
    return RunbookIndex(stored, _vectors_by_hash(stored), index_dir)


def known_vectors(index_dir: Path) -> dict[str, Vectors]:
    """Return {hash of text: vector} of the index in `index_dir`, for use in a new build; {} if it cannot be read."""
    try:
        return _vectors_by_hash(load_stored_index(index_dir))
    except ConfigError:
        return {}


def _vectors_by_hash(stored: StoredIndex) -> dict[str, Vectors]:
    return {hash_text(text): vector for text, vector in zip(stored.texts, stored.vectors, strict=True)}
