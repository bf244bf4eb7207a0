"""List the conditions that can differ between two runs, such as the judge or the prompt, and find those that do.
Each is a field of `RunInfo`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import UNKNOWN, Rubric, RunInfo
from .messages import listed, say

if TYPE_CHECKING:
    import pandas as pd


UNTOLD = "unknown "  # begins the settings of a model that reports none; such settings differ each time


class Condition(NamedTuple):
    field: str  # of RunInfo
    name: str  # what the condition is called, in English
    group: str  # what changed, in English, if the condition differs between two runs

    @property
    def column(self) -> str:
        """Its column in the frame of runs, and perhaps in other frames (docs/frames.md)."""
        return "criteria" if self.field == "rubric" else self.field.replace("judge_prompt", "prompt")

    @property
    def moves_scores(self) -> bool:
        """Whether a stored answer can get other scores if the condition changes."""
        return self.group in ("judge", "judge prompt", "criteria", "dataset", "socjudge")


CONDITIONS = tuple(
    Condition(each.name, *each.metadata["condition"]) for each in fields(RunInfo) if "condition" in each.metadata
)


class Difference(NamedTuple):
    condition: Condition
    # The value in each group as text, in the form of `conditions_of`. An unknown value is "".
    before: str
    after: str

    def words(self) -> tuple[str, str, str]:
        """The name of the condition, its value before and its value after. Runbooks are counted, and named if they differ."""
        name = say(self.condition.name)
        if self.condition.column == "runbooks" and (changes := self._changes()):
            before, after = (say("{count} files", count=len(_files(side))) for side in (self.before, self.after))
            return name, before, f"{after} ({changes})"
        is_hash = self.condition.column.endswith(("sha256", "fingerprint"))
        both = parts_that_differ(self.before, self.after)
        sides = (say("not told (no settings)") if side.startswith(UNTOLD) else side for side in both)
        before, after = (side[: 12 if is_hash else None] or say("unknown") for side in sides)
        return name, before, after

    def phrase(self) -> str:
        """One line, such as 「抜粋の数 k: 3→5」; of runbooks and criteria it names those added, removed and changed."""
        name, before, after = self.words()
        return f"{name}: {self._changes() or f'{before}→{after}'}"

    def _changes(self) -> str:
        both = [self.before, self.after]
        if self.condition.column not in ("runbooks", "criteria") or not all(both):
            return ""
        is_files = self.condition.column == "runbooks"
        before, after = (_files(side) if is_files else dict.fromkeys(side.split("、"), "") for side in both)
        names = {
            "added": [name for name in after if name not in before],
            "removed": [name for name in before if name not in after],
            "changed": [name for name in before if name in after and before[name] != after[name]],
        }
        return " / ".join(f"{say(key)} {', '.join(found)}" for key, found in names.items() if found)


def parts_that_differ(before: str, after: str) -> tuple[str, str]:
    """The parts that differ between two fingerprints `body=… url=…`; texts of another form stay as they are."""
    sides = [dict(part.partition("=")[::2] for part in side.split()) for side in (before, after)]
    if not all(side and all(side.values()) for side in sides):
        return before, after
    names = [name for name in sides[0] | sides[1] if sides[0].get(name) != sides[1].get(name)]
    first, second = (" ".join(f"{name}={side.get(name, '-')}" for name in names) for side in sides)
    return first, second


def runbooks_text(files: Mapping[str, str]) -> str:
    """The {file name: hash} of a run's runbooks as in the column `runbooks` of the frame of runs: as JSON, or ""."""
    return json.dumps({name: files[name][:12] for name in sorted(files)}, ensure_ascii=False) if files else ""


def conditions_of_info(info: RunInfo, criteria: Sequence[str]) -> dict[str, str]:
    """As `conditions_of`, of one run: {column: text} without unknown ones. `criteria` are those that were scored."""
    own = {"criteria": "、".join(criteria), "runbooks": runbooks_text(info.runbooks)}
    told = {each.column: own.get(each.column, getattr(info, each.field)) for each in CONDITIONS}
    return {name: _told(value) for name, value in told.items() if value not in (None, "", UNKNOWN)}


def why_incomparable(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why the means of two runs cannot be compared, as 「Judge、採点プロンプト」 (judge, judge prompt); "" if they can be."""
    # If the judge of one run is unknown, the judges count as different.
    moved = [each.condition.group for each in differences(before, after) if each.condition.moves_scores]
    return listed(say(group) for group in dict.fromkeys(moved) if group != "socjudge")


def rubric_changes(before: Rubric, after: Rubric) -> str:
    """A text with the differences between two rubrics, but of their descriptions; "" if there are none."""
    sides = []
    for each in (before, after):
        info = RunInfo("", "", pass_threshold=each.pass_threshold, pass_rate_required=each.pass_rate)
        sides.append(conditions_of_info(info, each.criteria))
    return " / ".join(each.phrase() for each in differences(*sides))


def _told(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _files(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:  # "", or several texts that `conditions_of` joined
        return {}
    return found if isinstance(found, dict) else {}


def conditions_of(frame: pd.DataFrame, by: str = "run_id") -> dict[Any, dict[str, str]]:
    """The known conditions of each group of rows with one value in the column `by`: {group: {column: text}}. If a group
    has several values of a condition, such as two judge models, the text has all of them, sorted."""
    found: dict[Any, dict[str, set[str]]] = {cohort: {} for cohort in frame[by].dropna().unique()}
    for column in [condition.column for condition in CONDITIONS if condition.column in frame.columns]:
        pairs = frame[list({by, column})].drop_duplicates().dropna()
        for cohort, value in zip(pairs[by], pairs[column], strict=True):
            if value not in ("", UNKNOWN):
                found[cohort].setdefault(column, set()).add(_told(value))
    return {
        cohort: {column: "、".join(sorted(values)) for column, values in told.items()} for cohort, told in found.items()
    }


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """The conditions (of `conditions_of`) that differ, in the order of `CONDITIONS`."""
    found = [Difference(each, before.get(each.column, ""), after.get(each.column, "")) for each in CONDITIONS]
    same_index = before.get("index_fingerprint", "") == after.get("index_fingerprint")
    told = {each.condition.column for each in found if each.before != each.after and each.before and each.after}
    return [
        each
        for each in found
        if each.before != each.after
        # File names say more than the index's hash. If only one side has them, the hash is used. Older logs have hashes
        # of the files, which differ in line ends too.
        and (each.condition.column != "index_fingerprint" or "runbooks" not in told)
        and (each.condition.column != "runbooks" or (each.before and each.after and not same_index))
        # The embedded default has no service, and old logs have no settings. The name already shows another model.
        and (not each.condition.column.endswith(("_service", "_settings")) or (each.before and each.after))
    ]
