"""What the runbooks say: one deadline, approver and extension for the same thing in all of them; one house style.

`find_faults` reads every runbook as an analyst would: tables with their headings, then sentence by sentence. The
tests break a runbook in one place each and expect the fault to be named, so that a silent checker is noticed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from socjudge.constants import RUNBOOKS_DIR

SECTIONS = ["目的", "発動条件", "報告とエスカレーション", "事後対応", "禁止事項", "チェックリスト", "関連手順書"]
PROHIBITION = re.compile(r"- [^。]+ない。[^。]+ため、[^。]+。(?:例外は、[^。]+に限る。)?")
OTHER_STYLES = ["てはならない", "を禁止する", "を禁じる", "代替として", "本手順書", "本書を発動"]

NAME = r"[A-Z一-鿿ァ-ヶー・]*(?:者|当番|担当|リーダー|室|部|CISO)"  # ends where hiragana begins
ROLE = r"(?P<role>SOCリーダー|CSIRT責任者|CISO)"
REPORT = re.compile(rf"S(?P<severity>[1-4])|(?P<time>\d+(?:分|時間)以内|当日中)|{ROLE}(?=へ)")
OTHER_CLOCK = re.compile(r"(?<!または)(?:検知|申告|着手)から\d+(?:分|時間)以内に[^、]*へ[^、]*報告")
APPROVED_BY = [re.compile(rf"{ROLE}の承認"), re.compile(rf"{ROLE}は、.*承認(?:し|する)")]
# Acts that need somebody's word, as tables and sentences name them.
ACTS = {
    "一般端末の隔離": r"^一般端末",
    "サーバの隔離": r"^サーバ$|サーバの隔離|サーバ1台の通信遮断|サーバの場合.*隔離|サーバを隔離",
    "基幹系の停止": r"基幹系の停止",
    "社外向けサービスの停止": r"社外向けサービスの停止|公開停止",
    "全社的な通信遮断": r"全社的な(?:通信)?遮断",
    "電源断": r"電源断を指示|承認した電源断",
    "公開されたアクセスキーの無効化": r"アクセスキーの無効化|公開または悪用を確認したキーを、",
}
NOBODY_ANSWERS = re.compile("応答しない|事前承認")

Claim = tuple[str, str, str]  # what it is about, what is said of it, the runbook


def load_texts() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(RUNBOOKS_DIR.glob("*.md"))}


def find_faults(texts: dict[str, str]) -> list[str]:
    """What is wrong, one line each: disagreements between runbooks, then each runbook's own."""
    said: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, text in texts.items():
        for about, value, source in [*_deadlines(name, text), *_approvals(name, text), *_names(name, text)]:
            said[about][value].add(source)
    faults = [
        f"{about}: " + " / ".join(f"{value} ({', '.join(sorted(who))})" for value, who in values.items())
        for about, values in said.items()
        if len(values) > 1
    ]
    for name, text in texts.items():
        faults += [f"{name}: {fault}" for fault in (*_style_faults(text), *_clock_faults(text))]
    return faults


def _without_commands(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def _tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Each table as rows of {heading: cell}."""
    for block in re.findall(r"(?:^\|.*\n)+", _without_commands(text), re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        yield [dict(zip(head, row, strict=True)) for row in rows]


def _sentences(text: str) -> list[str]:
    """Sentences without commands, tables, list numbers and extensions."""
    prose = re.sub(r"^\|.*$|^(?:\d+\.|-) ", "", _without_commands(text), flags=re.MULTILINE)
    return [s for s in re.split(r"[。\n]", re.sub(r"（内線\d{4}）", "", prose)) if s.strip()]


def _deadlines(name: str, text: str) -> Iterator[Claim]:
    for table in _tables(text):
        for row in table:
            severity = re.search(r"S[1-4]", " ".join(row.values()))
            for head, cell in row.items():
                role = re.search(rf"(?:(?P<who>.+)から)?{ROLE}へ$", head)
                if role and severity:
                    yield f"{role['role']}への報告者", role["who"] or "", name
                    yield f"{severity[0]}の{role['role']}への報告期限", cell, name
    for sentence in _sentences(text):
        severity, pending = "", []
        for match in REPORT.finditer(sentence):
            if match["severity"]:
                severity = f"S{match['severity']}"
            elif match["time"] and severity and not re.search("後$|前$", sentence[: match.start()]):
                pending.append((severity, match["time"]))
            elif match["role"]:
                yield from ((f"{s}の{match['role']}への報告期限", time, name) for s, time in pending)
                pending = []
    for sentence in _sentences(text):
        if "速報" in sentence or "確報" in sentence:
            yield from (("速報の期限", days, name) for days in re.findall(r"概ね\S+?日", sentence))
            spans = set(re.findall(r"(?<![〜\d])(\d+)日以内", sentence))
            if spans - {"30", "60"}:
                yield "確報の期限", "、".join(sorted(spans)), name
            elif spans:
                yield "確報の期限", "30日、不正の目的は60日", name


def _approvals(name: str, text: str) -> Iterator[Claim]:
    for table in _tables(text):
        for row in table:
            if approval := row.get("承認"):
                who = re.match(r"SOC当番の判断|SOCリーダー(?!と)|CSIRT責任者|事前承認", approval)
                for act in _acts(next(iter(row.values()))):
                    yield f"{act}の承認", who[0] if who else approval, name
    for sentence in _sentences(text):
        for pair in re.findall(rf"({NAME})と({NAME})(?:の|から\w*の)2名承認", sentence):
            yield "2名承認", "と".join(pair), name
        approvers = {match["role"] for pattern in APPROVED_BY if (match := pattern.search(sentence))}
        acts = _acts(sentence)
        if "キー" in sentence and "事前承認により" in sentence:
            approvers = {"事前承認"}
        elif NOBODY_ANSWERS.search(sentence):
            continue
        if len(acts) == 1 and len(approvers) == 1:
            yield f"{acts[0]}の承認", approvers.pop(), name


def _acts(said: str) -> list[str]:
    if re.search("応答しないサーバ", said):
        return ["応答がないときのサーバの隔離"]
    return [act for act, pattern in ACTS.items() if re.search(pattern, said)]


def _names(name: str, text: str) -> Iterator[Claim]:
    """Extensions of contacts, and the scope in which a named AWS WAF resource is addressed."""
    for contact, extension in re.findall(rf"({NAME})（内線(\d{{4}})）", text):
        yield f"{contact}の内線", extension, name
    for table in _tables(text):
        for row in table:
            if "内線" in row:
                yield f"{re.sub('（.*', '', row['連絡先'])}の内線", row["内線"], name
    for resource, scope in re.findall(r"wafv2 .*--name (\S+).*--scope (\S+)", text):
        yield f"WAFの{resource}の--scope", scope, name


def _style_faults(text: str) -> Iterator[str]:
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    yield from (f"no section {section}" for section in SECTIONS if section not in headings)
    bans = re.search(r"^## 禁止事項\n(.*?)(?=\n## )", text, re.DOTALL | re.MULTILINE)
    lines = bans[1].strip().splitlines() if bans else []
    yield from (
        f"not the house's prohibition (…ない。…ため、…。): {line}" for line in lines if not PROHIBITION.fullmatch(line)
    )
    yield from (f"not the house's wording: {word}" for word in OTHER_STYLES if word in text)
    lessons = re.search(r"^## 事後対応\n(.*?)(?=\n## )", text, re.DOTALL | re.MULTILINE)
    if lessons and "教訓" not in lessons[1]:
        yield "事後対応 names no lesson (教訓)"
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        if re.search("winpmem|avml", block) and "evidence01" in block:
            yield "memory is written from the suspect host to the evidence server"


def _clock_faults(text: str) -> Iterator[str]:
    """A deadline counts from 検知または申告, in every table; one in a sentence names its severity."""
    for before, head in re.findall(r"((?:.*\n){2})(\|.*CISOへ \|)\n", text):
        if "検知または申告の時刻から" not in before:
            yield f"the table does not say when the clock starts: {head}"
    for sentence in _sentences(text):
        if OTHER_CLOCK.search(sentence):
            yield f"another clock: {sentence}"
        reports = re.search(rf"(?:\d+(?:分|時間)以内|当日中)に.*{ROLE}へ.*報告", sentence)
        if reports and not re.search(r"S[1-4]|後|隔離したら", sentence):
            yield f"a deadline without a severity: {sentence}"


def test_the_runbooks_agree_and_keep_the_house_style() -> None:
    assert find_faults(load_texts()) == []


def test_enough_is_read_to_compare() -> None:
    texts = load_texts()
    deadlines = [claim for name, text in texts.items() for claim in _deadlines(name, text)]
    approvals = [claim for name, text in texts.items() for claim in _approvals(name, text)]
    names = [claim for name, text in texts.items() for claim in _names(name, text)]
    assert len({about for about, _, _ in deadlines}) == 4 * 3 + 3 + 2  # severities by roles; who reports; 速報 and 確報
    assert {f"{act}の承認" for act in ACTS} <= {about for about, _, _ in approvals}
    assert len({about for about, _, _ in names if about.endswith("内線")}) == 12
    for claims in (deadlines, approvals, names):
        assert len({source for _, _, source in claims}) >= 8


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("data_leak.md", "| S1（漏えい確定） | 15分以内", "| S1（漏えい確定） | 20分以内", "S1のSOCリーダーへの報告期限"),
        ("malware_response.md", "S2は30分以内", "S2は45分以内", "S2のSOCリーダーへの報告期限"),
        ("backup_restore.md", "CSIRT責任者は60分以内にCISO", "CSIRT責任者は90分以内にCISO", "S1のCISOへの報告期限"),
        ("ransomware_response.md", "CSIRT責任者からCISOへ", "SOCリーダーからCISOへ", "CISOへの報告者"),
        ("lost_device.md", "確認後に見直す。", "確認後に見直す。検知から30分以内にSOCリーダーへ報告する。", "another clock"),
        ("web_defacement.md", "報告期限は、検知または申告の時刻から数える。", "", "when the clock starts"),
        ("insider_threat.md", "概ね3〜5日以内に速報", "概ね7日以内に速報", "速報の期限"),
        ("lost_device.md", "30日以内に確報", "45日以内に確報", "確報の期限"),
        ("host_isolation.md", "| サーバ | SOCリーダーの承認", "| サーバ | CSIRT責任者の承認", "サーバの隔離の承認"),
        ("network_blocking.md", "| 全社的な通信遮断 | CSIRT責任者", "| 全社的な通信遮断 | SOCリーダー", "全社的な通信遮断の承認"),
        ("web_defacement.md", "公開停止についてCSIRT責任者", "公開停止についてSOCリーダー", "社外向けサービスの停止の承認"),
        ("cloud_key_leak.md", "の事前承認により着手から", "に従いSOCリーダーの承認を得て着手から", "公開されたアクセスキーの無効化の承認"),
        ("urgent_vulnerability.md", "SOCリーダーとシステム責任者の2名承認", "SOCリーダーとCISOの2名承認", "2名承認"),
        ("phishing_response.md", "個人情報保護管理者（内線7415）", "個人情報保護管理者（内線7451）", "個人情報保護管理者の内線"),
        ("network_blocking.md", "--scope CLOUDFRONT", "--scope REGIONAL", "WAFのir-blockの--scope"),
        ("ransomware_response.md", "## 事後対応", "## おわりに", "no section 事後対応"),
        ("malware_response.md", "初期化をしない。", "初期化を禁止する。", "not the house's prohibition"),
        ("evidence_preservation.md", "C=/media/evidence/", "C=/mnt/evidence01/", "memory is written"),
    ],
)  # fmt: skip
def test_a_broken_runbook_is_noticed(name: str, old: str, new: str, fault: str) -> None:
    texts = load_texts()
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new, 1)
    found = find_faults(texts)
    assert any(fault in line and name in line for line in found), found
