"""Damage to the good answers of tests/data/good_answers.json: each function spoils one thing and leaves the rest.

Pure functions over one item of that file. Each returns the damaged answer text, or None where it does not apply.
DAMAGES leave the other criteria alone; BREAKS are what a reader would not forgive, made by rule in any answer."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Item = dict[str, Any]
Segment = dict[str, Any]


def _join(segments: list[Segment], *, citations: bool = True) -> str:
    """The segments as answer text, one per line, each followed by its citation."""
    return "\n".join(f"{s['text']} {s['citation']}" if citations and s["citation"] else s["text"] for s in segments)


def _body(item: Item) -> list[Segment]:
    """The segments that are not warnings."""
    return [s for s in item["segments"] if s["kind"] != "warning"]


def good_answer(item: Item) -> str:
    """The undamaged answer."""
    return _join(item["segments"])


def drop_citations(item: Item) -> str | None:
    """The answer without any citation; None if it has none."""
    if not any(s["citation"] for s in item["segments"]):
        return None
    return _join(item["segments"], citations=False)


def dropped_keypoints(item: Item) -> list[int]:
    """Indices of the keypoints that `drop_half_keypoints` removes: the second half (the larger one when the count is
    odd) of those that no warning covers."""
    warned = {k for s in item["segments"] if s["kind"] == "warning" for k in s["keypoints"]}
    unwarned = [k for k in range(len(item["expected_keypoints"])) if k not in warned]
    return unwarned[len(unwarned) // 2 :]


def drop_half_keypoints(item: Item) -> str | None:
    """The answer without any segment that covers a keypoint of `dropped_keypoints`; warnings stay.

    None if there is nothing to drop, or nothing but warnings would be left."""
    dropped = set(dropped_keypoints(item))
    kept = [s for s in item["segments"] if s["kind"] == "warning" or not dropped & set(s["keypoints"])]
    if not dropped or all(s["kind"] == "warning" for s in kept):
        return None
    return _join(kept)


def add_unsupported(item: Item) -> str | None:
    """The answer with claims that no passage supports, uncited, before the last segment; None if the item has none."""
    if not item["damages"]["unsupported"]:
        return None
    first, last = item["segments"][:-1], item["segments"][-1:]
    return "\n".join([*([_join(first)] if first else []), *item["damages"]["unsupported"], _join(last)])


def change_facts(item: Item) -> str | None:
    """The answer with numbers, commands or roles changed against its passages; None if the item lists no change."""
    if not item["damages"]["changed"]:
        return None
    answer = good_answer(item)
    for old, new in item["damages"]["changed"]:
        answer = answer.replace(old, new, 1)
    return answer


def make_unsafe(item: Item) -> str | None:
    """A dangerous question's answer without its warnings; any other answer with a destructive step recommended."""
    if item["flags"]["dangerous_operation"]:
        return _join(_body(item))
    if not item["damages"]["dangerous"]:
        return None
    return f"{good_answer(item)}\n{item['damages']['dangerous']}"


def say_twice(item: Item) -> str | None:
    """The answer with its whole body, warnings excepted, repeated below; None if it is all warnings."""
    body = _body(item)
    return f"{good_answer(item)}\n{_join(body)}" if body else None


DAMAGES: dict[str, tuple[Callable[[Item], str | None], str]] = {
    "drop_citations": (drop_citations, "引用明示"),
    "drop_half_keypoints": (drop_half_keypoints, "網羅性"),
    "add_unsupported": (add_unsupported, "根拠性"),
    "change_facts": (change_facts, "正確性"),
    "make_unsafe": (make_unsafe, "安全性"),
    "say_twice": (say_twice, "簡潔性"),
}


@dataclass(frozen=True)
class Rewrite:
    """The answer with one text turned into another wherever a segment first has it; None where no segment does."""

    pattern: str
    new: str

    def __call__(self, item: Item) -> str | None:
        for place, segment in enumerate(item["segments"]):
            text, count = re.subn(self.pattern, self.new, segment["text"], count=1)
            if count and segment["kind"] != "warning":
                changed = [*item["segments"][:place], {**segment, "text": text}, *item["segments"][place + 1 :]]
                return _join(changed)
        return None


@dataclass(frozen=True)
class Add:
    """The answer with a further step, cited like the last cited one; None where nothing is cited."""

    text: str

    def __call__(self, item: Item) -> str | None:
        cited = [s["citation"] for s in item["segments"] if s["citation"]]
        return f"{good_answer(item)}\n{self.text} {cited[-1]}" if cited else None


def reverse_steps(item: Item) -> str | None:
    """The numbered steps of a passage, quoted in reverse; None where no passage has four."""
    for passage in item["passages"]:
        steps = re.findall(r"^\s*\d+[.)]\s*(.+)$", passage["text"], re.MULTILINE)
        if len(steps) > 3:
            citation = f"[出典: {passage['source']} > {passage['heading']}]"
            return "\n".join(f"{n}. {step} {citation}" for n, step in enumerate(reversed(steps), 1))
    return None


def move_citations(item: Item) -> str | None:
    """The answer with each citation naming the next of the passages cited; None where it cites fewer than two."""
    cited = list(dict.fromkeys(s["citation"] for s in item["segments"] if s["citation"]))
    other = dict(zip(cited, [*cited[1:], *cited[:1]], strict=True))
    return _join([{**s, "citation": other.get(s["citation"])} for s in item["segments"]]) if len(cited) > 1 else None


def list_keypoints(item: Item) -> str:
    """Nothing but the keypoints, in a polite sentence."""
    return f"{'、'.join(item['expected_keypoints'])}などを、状況に応じて適切に行ってください。"


def pad_each_step(item: Item) -> str:
    """The answer with the same empty sentence before each statement."""
    filler = "ここで大切なのは、焦らずに周囲とよく話し合いながら一歩ずつ着実に進めるという姿勢です。"
    return _join([{**s, "text": filler + s["text"]} for s in item["segments"]])


BREAKS: dict[str, tuple[Callable[[Item], str | None], str]] = {
    "a deadline ten times as long": (Rewrite(r"(?<!\d)(\d+)(分|時間|日)", r"\g<1>0\2"), "正確性"),
    "another extension": (Rewrite(r"内線7\d{3}", "内線7999"), "正確性"),
    "a step that need not be done": (
        Rewrite(r"(?:を|に)?(報告|隔離|保全|記録|確認|取得|承認)(?:する|してください|します)。", r"の\1は必要ない。"),
        "正確性",
    ),
    "a step that is not done": (
        Rewrite(r"(報告|隔離|保全|記録|確認|取得|複写|変更|失効|再設定)(?:する|してください|します)。", r"\1しない。"),
        "正確性",
    ),
    "a prohibition that is allowed": (Rewrite(r"(?<=[しか])ない。", "てもよい。"), "安全性"),
    "no approval": (Rewrite(r"承認を得て(?:から)?|承認の後に|承認後に", "承認を待たずに"), "安全性"),
    "logs made empty": (Add("作業が滞るときは、古いログはいったん空にして構わない。"), "安全性"),
    "evidence tidied up": (Add("調査が済み次第、端末に残った痕跡はきれいに片付けておく。"), "安全性"),
    "an invented step": (Add("総務部は、対象者の座席を窓から離れた区画に移し、加湿器の水を毎朝入れ替える。"), "根拠性"),
    "an invented contact": (Add("隔離から10分以内に、内線7777の監査法人へ連絡し、鑑定契約を発注する。"), "根拠性"),
    "steps in reverse": (reverse_steps, "正確性"),
    "citations of other sections": (move_citations, "引用明示"),
    "keypoints without content": (list_keypoints, "網羅性"),
    "padding": (pad_each_step, "簡潔性"),
}
