"""Read the roles of an organisation, such as the leader, from `organisation.json` beside the runbooks.

Answers and warnings name the leader, the approvers and the change form from this file. Without the file, they use the
words 責任者 (person in charge) and 承認 (approval).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..base.messages import say
from ..errors import ConfigError
from .reading import ORGANISATION_NAME, load_json_object


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
    If a field is wrong, the ConfigError names the file, the field and what to write."""
    path = Path(folder) / ORGANISATION_NAME
    expected = say(
        '{{"leader": {{"role": "SOC leader", "phone": "ext. 7111"}}, "approvers": [{{"role": '
        '…}}, …], "change_form": "emergency change request"}}'
    )
    try:
        return msgspec.convert(load_json_object(path, expected), Organisation)
    except msgspec.ValidationError as error:
        raise ConfigError("{path}: {reason}; write {expected}", path=path, reason=error, expected=expected) from None
