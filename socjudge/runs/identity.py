"""Say what makes two runs the same: their `Identity`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import orjson

from ..base.conditions import CONDITIONS, UNTOLD, parts_that_differ
from ..base.messages import say
from ..records import RunInfo

_NAMES = {each.field: each.name for each in CONDITIONS}


@dataclass(frozen=True)
class Identity:
    """What decides an answer or a score of a run. A journal is resumed only by a run with an equal identity."""

    values: Mapping[str, Any]

    @classmethod
    def of(cls, info: RunInfo) -> Identity:
        """Return the identity of a run from its info. The pass rule is not part of it: it decides no score."""
        found = {each.name: getattr(info, each.name) for each in fields(info) if each.metadata.get("decides")}
        found["socjudge_version"] = info.socjudge_version.rpartition(".")[0]  # without the patch number
        found["runbooks"] = dict(info.runbooks)
        rubric = found.pop("rubric")
        found["criteria"] = [] if rubric is None else list(rubric.criteria)
        found["descriptions"] = {} if rubric is None else dict(rubric.descriptions)
        return cls(found)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(orjson.dumps(dict(self.values), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def differences(self, there: Identity) -> list[str]:
        told = []
        sides = {name: (there.values.get(name), value) for name, value in self.values.items()}
        changed = {name: each for name, each in sides.items() if each[0] != each[1]}
        if {"runbooks", "embedder"} & {*changed}:
            changed.pop("index_fingerprint", None)  # it adds nothing to the names of the files
        for name, (before, after) in changed.items():
            called = say(_NAMES.get(name, name))
            if isinstance(before, dict) and isinstance(after, dict):
                files = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
                told.append(say("{name} differ in {files}", name=called, files=", ".join(files)))
                continue
            if name.endswith("_settings"):
                before, after = parts_that_differ(str(before or ""), str(after or ""))
            words = "{name} is {there} there and {here} here"
            told.append(say(words, name=called, there=_shown(before), here=_shown(after)))
        return told


def _shown(value: Any) -> str:
    text = "、".join(value) if isinstance(value, list) else str(value or "")
    text = say("not told (no settings)") if text.startswith(UNTOLD) else text or say("none")
    return f"{text[:12]}…" if len(text) == 64 else text  # shortened, because it is a hash
