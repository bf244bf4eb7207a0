"""Bring an answer's text into one form, so that its scores do not depend on its formatting.

List markers, character widths, line breaks, bold and tables are formatting. Only what the answer says is scored.
"""

from __future__ import annotations

import re
import unicodedata

from ..base.texts import change_citations, cited_sources, fold

_JAPANESE = "ぁ-んァ-ヶー一-龠々"
# Full-width letters and digits become half-width, half-width punctuation full-width. ① and full-width brackets stay.
_WIDTHS = {code: code - 0xFEE0 for start, end in ("０９", "ＡＺ", "ａｚ") for code in range(ord(start), ord(end) + 1)}
_WIDTHS |= str.maketrans("｡､｢｣", "。、「」")
_COMMA = re.compile(rf"(?<=[{_JAPANESE}」）)])[，,](?!\d)[ \u3000]*")
_STOP = re.compile(rf"(?<=[{_JAPANESE}」）)])(?:．|\.(?=\s|$))[ \u3000]*")
_GAP = re.compile(
    rf"(?<=[{_JAPANESE}])[ \u3000]+(?=[A-Za-z0-9（(])|(?<=[A-Za-z0-9）)])[ \u3000]+(?=[{_JAPANESE}])"
    r"|(?<=[、。（「])[ \u3000]+|[ \u3000]+(?=[、。）」])"
)
_BOLD = re.compile(r"\*\*(.+?)\*\*|__(?=\S)(.+?)(?<=\S)__|(?<![\w*])\*(?=[^\s*.])([^*\n]+)(?<=\S)\*(?![\w*])")
_FENCE = re.compile(r"^\s*(?:(?:\d+[.)]|[-*+・])\s+)?(?=```)")
_QUOTED = re.compile(r"^\s*(?:>\s?)+")
_NUMBER = r"(?:\d{1,2}|[一二三四五六七八九十]|[A-Za-z])"
_MARK = re.compile(
    rf"""^\s*(?:
    [-+*・•●■□◆◇○◎▪‣▶►\u27a4\u2713\u2714✅\u2611※→](?:\s*\[[ xX]\])?\s+ | [・•●■□◆◇○◎▪‣▶►\u27a4\u2713\u2714✅\u2611※→]
    | [①-⑳\u2776-\u2789⑴-⒇] | \d\ufe0f?\u20e3
    | [(（【［]\s*(?:手順|ステップ)?{_NUMBER}\s*[)）】］]
    | {_NUMBER}\s*(?:[)）．、.](?!\d)|[:：](?=[\s{_JAPANESE}]))
    | (?:手順|ステップ|[Ss][Tt][Ee][Pp])\s*{_NUMBER}(?:\s*[:：.．、)）]|\s+)
    )\s*""",
    re.VERBOSE,
)
_RULE = re.compile(r"^\s*\|[\s|:-]+$")
_BREAK = re.compile(r"<br\s*/?>")
_COUNTER = re.compile(rf"(?:手順|ステップ)?\s*{_NUMBER}[.)]?|[①-⑳]")
# Polite verbs. Before ます is one of three stems: one that takes る and ない, one of する, or one of a godan verb.
_POLITE = re.compile(rf"(?<=[{_JAPANESE}A-Za-z])(ませんでした|ません|ました|ます)(?![かよね])")
_KEEPS_STEM = re.compile(
    r"(?:[えけげせぜてでねべめれ見得着似居出来]|でき|起き|尽き|過ぎ|[落満]ち|[閉感存信生講命応準通論転演禁]じ|[伸浴帯]び|[省試顧てで]み"
    r"|[借降足]り|[てでにがはも、。]い|[用強率老悔報]い)$"
)
_OF_SURU = re.compile(r"(?:[一-龠々]{2}|[ァ-ヶーA-Za-z」）)いきちりみえけ]|(?<!落)[とにをはがも])し$")
_LEFT = re.compile(r"(?:ござい|すみ|てき)$")
_ROWS = {  # godan: last letter of the stem: (end of the plain form, letter before ない, letter before た)
    "い": ("う", "わ", "っ"), "き": ("く", "か", "い"), "ぎ": ("ぐ", "が", "い"), "し": ("す", "さ", "し"), "ち": ("つ", "た", "っ"),
    "に": ("ぬ", "な", "ん"), "び": ("ぶ", "ば", "ん"), "み": ("む", "ま", "ん"), "り": ("る", "ら", "っ"),
}  # fmt: skip
_WRAPPED = 30  # a line without punctuation at its end goes on if it is this long; a shorter one may be a title
_GOES_ON = re.compile(r"[、をにがはでとのもへや]$")
_ENDS = re.compile(r"[。！？!?：:」』）)\]】]$")


_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def seen_text(answer: str) -> str:
    """Return what a reader sees of an answer: no comments, no invisible letters, and single spaces and empty lines."""
    shown = "".join(c for c in _HIDDEN.sub("", answer) if c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc"))
    lines = [re.sub(r"\s+", " ", line).rstrip() for line in shown.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def one_form(answer: str) -> str:
    """Return a text in one form: one list marker, no tables, bold or broken lines, verbs in the plain style."""
    lines: list[str] = []
    in_code = False
    raw = answer.splitlines()
    for i, line in enumerate(raw):
        if _FENCE.match(line) or in_code:
            in_code ^= bool(_FENCE.match(line))
            lines.append(_FENCE.sub("", line))
        elif _RULE.match(line):
            continue
        elif line.lstrip().startswith("|"):
            if i + 1 == len(raw) or not _RULE.match(raw[i + 1]):  # a row, not the head of the table
                lines.append(_row(plain_style(one_width(line))))
        else:
            _add(lines, _plain_line(plain_style(one_width(line))))
    return "\n".join(lines)


def plain_style(text: str) -> str:
    """Return the text with polite verbs in the plain style: 隔離する for 隔離します. Questions and requests stay."""
    parts = _POLITE.split(text)
    plain = parts[0]
    for ending, rest in zip(parts[1::2], parts[2::2], strict=True):
        plain = _end_plainly(plain, ending) + rest
    return plain


def _end_plainly(stem: str, ending: str) -> str:
    negative, past = "せん" in ending, ending.endswith("た")
    tail = ("なかった" if past else "ない") if negative else ("た" if past else "る")
    if negative and stem.endswith("あり"):
        return stem.removesuffix("あり") + tail
    if _LEFT.search(stem[-3:]):
        return stem + ending
    if _KEEPS_STEM.search(stem[-3:]):
        return stem + tail
    if _OF_SURU.search(stem[-3:]):
        return stem + tail if negative or past else f"{stem[:-1]}する"
    if stem[-1] not in _ROWS:  # the plain form is not known
        return stem + ending
    now, denied, joined = _ROWS[stem[-1]]
    if negative:
        return stem[:-1] + denied + tail
    if past:
        return stem[:-1] + joined + ("だ" if stem[-1] in "ぎにびみ" else "た")
    return stem[:-1] + now


def one_width(text: str) -> str:
    """Return the text with letters and digits in half width, with Japanese punctuation, and no spaces beside it."""
    return _GAP.sub("", _STOP.sub("。", _COMMA.sub("、", text.translate(_WIDTHS))))


def _row(line: str) -> str:
    cells = [_BOLD.sub(r"\1\2\3", cell).strip() for cell in _BREAK.sub(" ", line).strip(" |").split("|")]
    # A cell that only numbers the row says nothing.
    return "- " + " ".join(cell for cell in cells if not _COUNTER.fullmatch(cell))


def _plain_line(line: str) -> str:
    line = _QUOTED.sub("", line)
    bare = _BOLD.sub(r"\1\2\3", line).rstrip()
    is_title = bare.lstrip().startswith("#") or _BOLD.fullmatch(line.strip())
    text = bare.lstrip(" \t#")
    while mark := _MARK.match(text):
        if mark.end() == len(text):
            break
        text = text[mark.end() :]
        bare = f"- {text}"
    if is_title:  # one that is a sentence, or has a citation, makes a claim
        return f"- {text}" if cited_sources(text) or re.search("[。？?]$", text) else f"## {text}"
    return bare


def _add(lines: list[str], line: str) -> None:
    before = lines[-1] if lines else ""
    begins = line.lstrip().startswith(("- ", "#", "⚠"))
    if not before.strip() or before.startswith(("#", "```")) or not line.strip():
        lines.append(line)
    elif cited_sources(line) and not fold(change_citations(line, lambda _: "")):
        lines.append(line.strip("- "))  # a citation on a line of its own holds for the whole list
    elif begins or cited_sources(before):
        lines.append(line)
    elif _GOES_ON.search(before) or (len(before) >= _WRAPPED and not _ENDS.search(before)):
        lines[-1] += line.strip()
    else:
        lines.append(line)
