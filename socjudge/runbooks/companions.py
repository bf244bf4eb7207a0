"""Read the JSON files that may stand beside the runbooks: synonyms, typical questions, and the organisation's roles.

Answers and warnings name the leader, the approvers and the change form of `organisation.json`. Without the file, they use
the words 責任者 (person in charge) and 承認 (approval).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ..base.files import load_bytes, read_json
from ..base.messages import explained, say
from ..base.texts import normalise_text
from ..errors import ConfigError

if TYPE_CHECKING:
    from .reading import Chunk, Runbook

SYNONYMS_NAME = "synonyms.json"  # {"everyday word": ["runbook word", …]}
QUESTIONS_NAME = "questions.json"  # {"host_isolation.md": {"初動対応 > Windows端末": ["question", …]}}
PROHIBITIONS_NAME = "prohibitions.json"  # how people ask for what a runbook forbids (flags/prohibitions.py)
ORGANISATION_NAME = "organisation.json"  # who has which role
COMPANION_NAMES = (SYNONYMS_NAME, QUESTIONS_NAME, PROHIBITIONS_NAME, ORGANISATION_NAME)
MOST_NAMED = 5  # runbooks and headings that a warning names


def read_bytes(path: Path) -> bytes:
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
        return load_bytes(path)


def hash_companions(folder: Path | str) -> dict[str, str]:
    """Return {file name: SHA-256 of its content} of the JSON files beside the runbooks (COMPANION_NAMES)."""
    beside = {name: Path(folder) / name for name in COMPANION_NAMES}
    return {name: _hash_of_json(path) for name, path in beside.items() if path.is_file()}


def _hash_of_json(path: Path) -> str:
    raw = read_bytes(path)
    with contextlib.suppress(ValueError):  # a damaged file is reported by its own reader
        raw = json.dumps(read_json(raw), sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()


def load_synonyms(folder: Path | str) -> dict[str, list[str]]:
    """Load {everyday word, normalised: words of the runbooks} from `synonyms.json`; {} without it."""
    path = Path(folder) / SYNONYMS_NAME
    expected = say('{{"everyday word": ["runbook word", …]}}')
    entries = load_json_object(path, expected)
    for word, terms in entries.items():
        if not word.strip() or not _is_texts(terms):
            raise _unfit(path, word, terms, expected)
    return {normalise_text(word): terms for word, terms in entries.items()}


def load_questions(folder: Path | str) -> dict[str, dict[str, list[str]]]:
    """Load {runbook: {heading path: questions}} from `questions.json`; {} without it."""
    path = Path(folder) / QUESTIONS_NAME
    expected = say('{{"runbook.md": {{"heading > heading": ["question", …]}}}}')
    entries = load_json_object(path, expected)
    for source, sections in entries.items():
        if not isinstance(sections, dict):
            raise _unfit(path, source, sections, expected)
        for heading, questions in sections.items():
            if not _is_texts(questions):
                raise _unfit(path, f"{source} > {heading}", questions, expected)
    return entries


def add_questions(books: Sequence[Runbook], folder: Path | str) -> list[Runbook]:
    """Return the runbooks with their questions of `questions.json`. A UserWarning names places that are gone."""
    questions = load_questions(folder)
    path = Path(folder) / QUESTIONS_NAME
    headings = {book.source: {chunk.heading for chunk in book.chunks} for book in books}
    gone = [source for source in questions if source not in headings]
    for source in questions.keys() & headings.keys():
        gone += [f"{source} > {heading}" for heading in questions[source] if heading not in headings[source]]
    if gone:
        told = say(
            "{path}: {n} runbooks or headings are not in the folder (any more), so their questions are left out: {named}",
            path=path,
            n=len(gone),
            named=", ".join(sorted(gone)[:MOST_NAMED]) + (" …" if len(gone) > MOST_NAMED else ""),
        )
        warnings.warn(told, stacklevel=2)

    # Each of several passages of one section gets all the section's questions.
    def asked(chunk: Chunk) -> Chunk:
        return replace(chunk, questions=tuple(questions.get(chunk.source, {}).get(chunk.heading, ())))

    return [replace(book, chunks=tuple(map(asked, book.chunks))) for book in books]


def load_json_object(path: Path, expected: str) -> dict[str, Any]:
    """Load the object in a JSON file; {} without it. ConfigError, with what is `expected`, for anything else."""
    if not path.is_file():
        return {}
    try:
        entries = read_json(read_bytes(path))
    except ValueError as error:
        raise ConfigError("{path}: not valid JSON in UTF-8 ({reason})", path=path, reason=error) from error
    if not isinstance(entries, dict):
        raise ConfigError("{path}: expected an object {expected}", path=path, expected=expected)
    return entries


def _is_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) and value.strip() for value in values)


def _unfit(path: Path, name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(
        "{path}: {name!r} has {value!r}; write {expected}", path=path, name=name, value=value, expected=expected
    )


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold a role and its phone number. The number is "" if `organisation.json` has none."""

    role: Annotated[str, msgspec.Meta(pattern=r"\S")]
    phone: str = ""

    def __str__(self) -> str:
        return f"{self.role}（{self.phone}）" if self.phone else self.role


class Organisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the roles of an organisation, as `organisation.json` has them."""

    leader: Person = Person("責任者")  # whom to call first
    approvers: tuple[Person, ...] = ()  # who decides if the runbooks do not say
    change_form: str = ""  # what a dangerous operation needs besides an approval; "" if nothing
    about: Any = None  # a comment

    @property
    def deciding(self) -> str:
        """Return the roles of the approvers, or else of the leader, such as SOCリーダーまたはCSIRT責任者."""
        return "または".join(person.role for person in self.approvers or (self.leader,))

    @property
    def permission(self) -> str:
        """Return what a dangerous operation needs, such as 緊急変更申請と承認 (change request and approval)."""
        return f"{self.change_form}と承認" if self.change_form else "承認"


NEUTRAL = Organisation()


def load_organisation(folder: Path | str) -> Organisation:
    """Load `organisation.json` from the runbooks folder. What it does not say is as in `NEUTRAL`."""
    path = Path(folder) / ORGANISATION_NAME
    expected = say(
        '{{"leader": {{"role": "SOC leader", "phone": "ext. 7111"}}, "approvers": [{{"role": '
        '…}}, …], "change_form": "emergency change request"}}'
    )
    try:
        return msgspec.convert(load_json_object(path, expected), Organisation)
    except msgspec.ValidationError as error:
        raise ConfigError("{path}: {reason}; write {expected}", path=path, reason=error, expected=expected) from None
