"""What can differ between two runs: the one table that charts, comparisons, report and explorer go by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import UNKNOWN
from .messages import Language, say

if TYPE_CHECKING:
    import pandas as pd


class Condition(NamedTuple):
    """One thing that a run was made with.

    column: of the frames (docs/frames.md), of runs at least. ja, en: its name. group: what changes when it does
    (Japanese). moves_marks: whether it can change the marks of one stored answer."""

    column: str
    ja: str
    en: str
    group: str
    moves_marks: bool = False


CONDITIONS = (
    Condition("judge_model", "Judge", "judge", "Judge", True),
    Condition("judge_model_resolved", "応答した採点モデル", "judge that answered", "Judge", True),
    Condition("judge_service", "Judgeの接続先", "service of the judge", "Judge", True),
    Condition("prompt_id", "プロンプト", "judge prompt", "プロンプト", True),
    Condition("prompt_sha256", "プロンプトの文面", "text of the judge prompt", "プロンプト", True),
    Condition("criteria", "観点", "criteria", "観点", True),
    Condition("dataset_sha256", "データセット", "dataset", "データセット", True),  # the judge sees its key points
    Condition("assistant_model", "アシスタント", "assistant", "アシスタント"),
    Condition("assistant_model_resolved", "応答したアシスタント", "assistant that answered", "アシスタント"),
    Condition("assistant_service", "アシスタントの接続先", "service of the assistant", "アシスタント"),
    Condition("assistant_prompt_id", "回答プロンプト", "assistant's prompt", "回答プロンプト"),
    Condition("assistant_prompt_sha256", "回答プロンプトの文面", "text of the assistant's prompt", "回答プロンプト"),
    Condition("runbooks", "手順書", "runbooks", "手順書"),
    Condition("index_fingerprint", "検索インデックス", "runbook index", "手順書"),
    Condition("k", "抜粋の数 k", "passages per question, k", "抜粋の数k"),
    Condition("answer_repeats", "回答の反復", "answers per question", "反復回数"),
    Condition("judge_repeats", "採点の反復", "judgements per answer", "反復回数"),
    Condition("pass_threshold", "合格ライン", "pass line", "合格ライン"),
    Condition("pass_rate_required", "合格に必要な割合", "pass rate required", "合格ライン"),
    Condition("mode", "実行方法", "mode", "実行方法"),
    Condition("socjudge_version", "socjudgeの版", "version of socjudge", "socjudge", True),
)


class Difference(NamedTuple):
    """A condition that differs between two cohorts; before, after: as `conditions_of` has them, "" where it is not known."""

    condition: Condition
    before: str
    after: str

    def words(self, lang: str = "ja") -> tuple[str, str, str]:
        """Its name and the two sides, in Japanese or English; of a hash the first twelve digits, of runbooks how many
        and which were added, removed and changed."""
        if changes := self._runbook_changes(lang):
            tongue: Language = "ja" if lang == "ja" else "en"
            before, after = (
                say("base.files", lang=tongue, count=len(_files(side))) for side in (self.before, self.after)
            )
            return self.condition.ja if lang == "ja" else self.condition.en, before, f"{after} ({changes})"
        is_hash = self.condition.column.endswith(("sha256", "fingerprint"))
        unknown = "不明" if lang == "ja" else "unknown"
        before, after = (side[: 12 if is_hash else None] or unknown for side in (self.before, self.after))
        return self.condition.ja if lang == "ja" else self.condition.en, before, after

    def phrase(self, lang: str = "ja") -> str:
        """What changed, on one line: 「抜粋の数 k: 3→5」, or the names of the runbooks that were added."""
        name, before, after = self.words(lang)
        return f"{name}: {self._runbook_changes(lang) or f'{before}→{after}'}"

    def _runbook_changes(self, lang: str) -> str:
        """Which runbooks were added, removed and changed; "" for other conditions, and where a side does not say."""
        before, after = _files(self.before), _files(self.after)
        if self.condition.column != "runbooks" or not before or not after:
            return ""
        names = {
            "base.added": sorted(after.keys() - before.keys()),
            "base.removed": sorted(before.keys() - after.keys()),
            "base.changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name]),
        }
        tongue: Language = "ja" if lang == "ja" else "en"
        return " / ".join(f"{say(key, lang=tongue)} {', '.join(found)}" for key, found in names.items() if found)


def runbooks_text(files: Mapping[str, str]) -> str:
    """The runbooks of a run as frames have them: JSON of {file name: first twelve digits of its hash}, "" for none."""
    return json.dumps({name: files[name][:12] for name in sorted(files)}, ensure_ascii=False) if files else ""


def _files(text: str) -> dict[str, str]:
    """What `runbooks_text` made; nothing of anything else, as where a cohort has runs with several."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def conditions_of(frame: pd.DataFrame, by: str = "run_id") -> dict[Any, dict[str, str]]:
    """What each run, or other cohort, in a frame was made with: {value of `by`: {column: value as text}}.

    Several values (such as judges that answered) stand side by side, sorted. What a log does not say is in none."""
    found: dict[Any, dict[str, set[str]]] = {cohort: {} for cohort in frame[by].dropna().unique()}
    for column in [condition.column for condition in CONDITIONS if condition.column in frame.columns]:
        pairs = frame[list({by, column})].drop_duplicates().dropna()
        for cohort, value in zip(pairs[by], pairs[column], strict=True):
            if value not in ("", UNKNOWN):
                found[cohort].setdefault(column, set()).add(f"{value:g}" if isinstance(value, float) else str(value))
    return {
        cohort: {column: "、".join(sorted(values)) for column, values in told.items()} for cohort, told in found.items()
    }


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """Which conditions differ between two cohorts of `conditions_of`, in the order of the table."""
    found = [Difference(each, before.get(each.column, ""), after.get(each.column, "")) for each in CONDITIONS]
    told = {each.condition.column for each in found if each.before != each.after and each.before and each.after}
    return [
        each
        for each in found
        if each.before != each.after
        # Where the names are known they say more than the index's hash; where only one side has them the hash tells.
        and (each.condition.column != "index_fingerprint" or "runbooks" not in told)
        and (each.condition.column != "runbooks" or (each.before and each.after))
        # The embedded default has no service; that the model is another one is said by its name.
        and (not each.condition.column.endswith("_service") or (each.before and each.after))
    ]
