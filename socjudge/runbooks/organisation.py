"""Read the roles of an organisation, such as the leader, from `organisation.json` beside the runbooks.

Answers and warnings name the leader, the approvers and the change form from this file. Without the file, they use the
words 責任者 (person in charge) and 承認 (approval).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.messages import say
from ..errors import ConfigError
from .reading import ORGANISATION_NAME, load_json_object

_FIELDS = ("leader", "approvers", "change_form")


@dataclass(frozen=True)
class Person:
    """Hold a role and its phone number. The number is "" if `organisation.json` has none."""

    role: str
    phone: str = ""

    def __str__(self) -> str:
        return f"{self.role}（{self.phone}）" if self.phone else self.role


@dataclass(frozen=True)
class Organisation:
    """Hold the roles of an organisation."""

    leader: Person = Person("責任者")  # whom to call first
    approvers: tuple[Person, ...] = ()  # who decides if the runbooks do not say
    change_form: str = ""  # what a dangerous operation needs besides an approval; "" if nothing

    @property
    def deciding(self) -> str:
        """Return the roles of the approvers, or else of the leader, as one text.
        An example is SOCリーダーまたはCSIRT責任者 (SOC leader or head of CSIRT)."""
        return "または".join(person.role for person in self.approvers or (self.leader,))

    @property
    def permission(self) -> str:
        """Return what a dangerous operation needs, as one text.
        An example is 緊急変更申請と承認 (emergency change request and approval)."""
        return f"{self.change_form}と承認" if self.change_form else "承認"


NEUTRAL = Organisation()


def load_organisation(folder: Path | str) -> Organisation:
    """Load `organisation.json` from the runbooks folder. What is missing, or all without the file, is as in `NEUTRAL`.
    If a field is wrong, the ConfigError names the file, the field and what to write there."""
    path = Path(folder) / ORGANISATION_NAME
    entries = load_json_object(
        path,
        say(
            '{{"leader": {{"role": "SOC leader", "phone": "ext. 7111"}}, "approvers": [{{"role": '
            '…}}, …], "change_form": "emergency change request"}}'
        ),
    )
    if strange := sorted(entries.keys() - {*_FIELDS, "about"}):
        raise ConfigError(
            "{path}: unknown field {field!r}; known are {known} (and about, a comment)",
            path=path,
            field=strange[0],
            known=", ".join(_FIELDS),
        )
    people = entries.get("approvers", [])
    if not isinstance(people, list):
        raise ConfigError(
            '{path}: field \'approvers\' is {found!r}; write a list: [{{"role": "head of the CSIRT"}}]',
            path=path,
            found=people,
        )
    form = entries.get("change_form", "")
    if not isinstance(form, str):
        raise ConfigError(
            "{path}: field 'change_form' is {found!r}; write the form's name as a text, or leave it out",
            path=path,
            found=form,
        )
    leader = _read_person(entries["leader"], "leader", path) if "leader" in entries else Organisation.leader
    approvers = tuple(_read_person(person, f"approvers[{n}]", path) for n, person in enumerate(people))
    return Organisation(leader, approvers, form.strip())


def _read_person(entry: Any, field: str, path: Path) -> Person:
    is_person = isinstance(entry, dict) and entry.keys() <= {"role", "phone"}
    role, phone = (entry.get("role"), entry.get("phone", "")) if is_person else (None, None)
    if not isinstance(role, str) or not role.strip() or not isinstance(phone, str):
        raise ConfigError(
            '{path}: field \'{field}\' is {found!r}; write {{"role": "SOC leader", "phone": "ext. '
            '7111"}} (phone may be left out)',
            path=path,
            field=field,
            found=entry,
        )
    return Person(role.strip(), phone.strip())
