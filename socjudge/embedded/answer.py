"""The embedded assistant's answer: sections of one runbook quoted in the order of work, or what to ask and whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..base.quoting import Statement, find_severities, read_statements
from ..flags.dangers import AGAINST_RUNBOOKS, Danger, operations_named
from ..flags.prohibitions import forbids
from ..records import Flags, Passage
from ..runbooks.asking import asks_leave
from ..runbooks.bm25 import content_words, normalise_text
from ..runbooks.english import translate
from ..runbooks.guide import Guide, Precautions, is_done
from ..runbooks.organisation import NEUTRAL, Organisation
from ..runbooks.points import Point, best_points, choose_rows, details_asked, rate_words
from ..runbooks.reading import split_sentences

Rates = dict[tuple[Passage, str], float]

MOST_STEPS = 18
LENGTH = 1300  # characters of statements: what stands beyond is named, not quoted
REFUSED_SHARE = 0.75  # of that length, behind a refusal
OPENING = 2  # steps
DETAIL_BONUS = 0.25
SECTION_WEIGHT = 0.3
RELATED = 2

_ASKS_COMMAND = re.compile("コマンド|command|クエリ|query|KQL|実行|打ち方|画面の操作", re.IGNORECASE)
_APPROVAL = re.compile("承認")
_READS_ONLY = re.compile(
    "```(?:kql|sql)|集計|抽出|一覧|確認|確かめる|調べる|検索|特定|取得|書き出|保存|記録|文例", re.IGNORECASE
)

KEPT = 400  # characters kept for what resembled the question


def compose_answer(
    question: str,
    passages: Sequence[Passage],
    guide: Guide,
    flags: Flags,
    dangers: Sequence[Danger] = (),
    evidence: str = "covered",
    precautions: Precautions | None = None,
    organisation: Organisation = NEUTRAL,
) -> str:
    """An answer quoted from the guide's sections, each step with its citation; Japanese Markdown without warnings.

    An ambiguous question is asked back. What is dangerous is refused first, with what forbids it and the safe way,
    then the steps. evidence: "covered"; "unsure" adds what to check, "absent" declines. organisation: names."""
    refusal = _refuse(question, guide, dangers) if flags.dangerous_operation else []
    if flags.ambiguous_query and not refusal:
        return _ask_back(precautions or Precautions())
    if evidence == "absent" and not refusal:
        return _decline(passages, organisation)
    limit = int(LENGTH * REFUSED_SHARE) if refusal else LENGTH
    rates = _rate_statements(question, guide)
    steps, left = _quote(question, guide, limit, rates)
    if not steps:
        return "\n".join(refusal) or _decline(passages, organisation)
    lines = [*refusal, ""] if refusal else []
    if evidence == "unsure":
        lines += _say_unsure(guide, organisation)
    elif leave := [] if refusal else _allow(question, guide):
        lines += [*leave, ""]
    points = [] if refusal else _tell_points(question, guide, rates, steps)
    lines += [*points, *([] if points and not guide.first else [_lead(guide, bool(refusal))]), ""]
    lines += steps
    if guide.reported and (severity := _say_severity(guide)):
        lines += ["", severity]
    if left:
        lines += ["", f"続き: {' '.join(dict.fromkeys(passage.citation for passage in left))}"]
    others = {p.source: p.citation for p in reversed(passages) if p.source != guide.source}
    if others:
        lines += ["", f"関連: {' '.join(list(others.values())[: -RELATED - 1 : -1])}"]
    return "\n".join(lines)


def _lead(guide: Guide, refused: bool) -> str:
    if refused:
        return "代わりに、手順書に沿って次の順に進めてください。"
    if not guide.first:
        return "手順書の該当箇所は次のとおりです。"
    return (
        "手順書の順に、初動対応から進めてください。"
        if "初動" in guide.sections[0].heading
        else "手順書の順に進めてください。"
    )


def _rate_statements(question: str, guide: Guide) -> Rates:
    """How well each statement of the guide fits the question, 0–1: half by the words they share, rare ones counting
    more, half by the similarity of their sentences."""
    statements = [(section, s.text) for section in guide.sections for s in read_statements(section.text)]
    shared = rate_words(content_words(" ".join([question, *translate(normalise_text(question))])), statements)
    alike = [max([guide.likeness.get(s, 0.0) for s in split_sentences(text)] or [0.0]) for _, text in statements]
    most = max([*alike, 0.0]) or 1.0
    rates = [(share + max(0.0, like) / most) / 2 for share, like in zip(shared, alike, strict=True)]
    return dict(zip(statements, rates, strict=True))


def _tell_points(question: str, guide: Guide, rates: Rates, steps: Sequence[str]) -> list[str]:
    """What answers the question most directly, with its citation, unless the steps begin with it."""
    points = guide.points or (() if guide.first else _find_points(question, guide, rates))
    opening = "\n".join([line for line in steps if re.match(r"\d+\. ", line)][:OPENING]) if guide.first else ""
    return [f"要点: {text} {section.citation}" for section, text in points if text not in opening]


def _find_points(question: str, guide: Guide, rates: Rates) -> list[Point]:
    """The statements of the guide that tell the details asked for, one per detail, then what fits the question best."""
    wanted = details_asked(question)
    candidates: list[tuple[float, int, list[re.Pattern[str]], Point]] = []
    for section in guide.sections:
        for statement in _choose_statements(question, section, guide):
            if statement.kind != "code":  # commands stand among the steps, after their approval
                told = [pattern for pattern in wanted if pattern.search(statement.text)]
                score = rates.get((section, statement.text), 0.0) + SECTION_WEIGHT * section.score
                score += DETAIL_BONUS * len(told)
                candidates.append((score, -len(candidates), told, Point(section, statement.text)))
    candidates.sort(key=lambda candidate: candidate[:2], reverse=True)
    return best_points(wanted, [(told, point) for *_, told, point in candidates])


def _quote(question: str, guide: Guide, limit: int, rates: Rates) -> tuple[list[str], list[Passage]]:
    """Numbered steps under the headings of their sections, and the sections that were left for lack of room.

    Numbers run on from the first response; sections that only matched a question are lists of their own."""
    lines: list[str] = []
    left: list[Passage] = []
    quoted = number = length = 0
    wants_command = bool(_ASKS_COMMAND.search(question))
    top = approval = ""
    for section in guide.sections:
        statements = list(_choose_statements(question, section, guide))
        if not statements:
            continue
        opens = not lines or (guide.first and top == section.heading.partition(" > ")[0])
        if top != (top := section.heading.partition(" > ")[0]):
            approval = ""
        number = number if guide.first else 0
        # What resembled the question is quoted, too, even where the first response is long.
        later = [p for p in guide.matched if p in guide.sections and p != section and p not in _before(guide, section)]
        heading = ["", f"**{section.heading}**", ""] if section.heading else [""]
        if wants_command and section in guide.matched[:1]:
            fitting = statements
        else:
            by_order = [0.0] * len(statements)
            fitting = _fit(
                statements,
                by_order if opens else [rates.get((section, s.text), 0.0) for s in statements],
                room=limit - length - (KEPT if later else 0),
                most=MOST_STEPS - quoted,
            )
        if len(fitting) < len(statements):
            left.append(section)
        for statement in fitting:
            text = statement.text
            number, quoted, length = number + 1, quoted + 1, length + len(text)
            if statement.kind == "text" and _APPROVAL.search(text):
                approval = approval or f"「{section.heading.split(' > ')[-1]}」の手順{number}"
            elif statement.kind == "code" and approval and _needs_approval(text):
                text = f"（{approval}の承認を得てから実行する）{text}"
            lines += [*heading, f"{number}. {text} {section.citation}"]
            heading = []
    return lines[1:], left


def _fit(statements: Sequence[Statement], rates: Sequence[float], *, room: int, most: int) -> list[Statement]:
    """The best statements that fit, in their order; with equal rates, the first."""
    kept: set[int] = set()
    for number in sorted(range(len(statements)), key=lambda n: -rates[n]):
        room -= len(statements[number].text)
        if room < 0 or len(kept) >= most:
            break
        kept.add(number)
    return [statements[number] for number in sorted(kept)]


def _before(guide: Guide, section: Passage) -> tuple[Passage, ...]:
    return guide.sections[: guide.sections.index(section)]


def _choose_statements(question: str, section: Passage, guide: Guide) -> Iterator[Statement]:
    """The statements of a section that an answer quotes: all steps, the rows asked for, commands that the step needs."""
    statements = list(read_statements(section.text))
    wants_code = section in guide.matched or not guide.first or bool(_ASKS_COMMAND.search(question))
    yield from choose_rows(question, [s for s in statements if s.kind == "row"])
    for statement in statements:
        if statement.kind == "code":
            if wants_code:
                yield statement
        elif statement.kind == "text" and not is_done(statement.text, guide.done):
            yield statement


def _needs_approval(code: str) -> bool:
    """Whether a command changes something, and its introduction does not itself speak of approval."""
    return not _APPROVAL.search(code.partition("```")[0]) and not _READS_ONLY.search(
        code[: code.find("\n", code.find("```"))]
    )


def _refuse(question: str, guide: Guide, dangers: Sequence[Danger]) -> list[str]:
    """No first, with what forbids it; the safe way stands in the warning above, and here if nothing forbids it."""
    no = "いいえ。" if asks_leave(question) else ""
    lines: list[str] = []
    for danger in dangers:
        text, citation = danger.prohibition, danger.citation
        if not text:
            text, citation = _find_prohibition(question, danger.operation, guide)
        line = f"{no}「{danger.operation}」は行わないでください。"
        if danger.operation == AGAINST_RUNBOOKS:  # a rule of the runbooks may say how it is done
            line = f"{no if forbids(citation) else ''}自分の判断では行わないでください。"
        lines.append(f"{line}手順書の定め: {text} {citation}" if text else f"{line}{danger.safer}")
        no = ""
    others = {danger.next_prohibition: danger.next_citation for danger in dangers if danger.next_prohibition}
    return [*lines, *(f"あわせて、手順書の定め: {text} {citation}" for text, citation in others.items())]


def _find_prohibition(question: str, operation: str, guide: Guide) -> tuple[str, str]:
    """The guide's prohibition of an operation that shares most words with the question, and its citation."""
    asked = content_words(question)
    candidates = [
        (len(asked & content_words(statement.text)), statement.text, passage.citation)
        for passage in guide.prohibitions
        for statement in read_statements(passage.text)
        if operation in operations_named(statement.text)
    ]
    return max(candidates, default=(0, "", ""), key=lambda candidate: candidate[0])[1:]


def _allow(question: str, guide: Guide) -> list[str]:
    """「はい、ただし…」 where leave is asked for something that a step puts under approval and nothing forbids."""
    asked = re.search(
        r"([一-鿿々ァ-ヺー]{2,})(?:を)?(?:しても|して|するのは|ても)(?:いい|よい|良い|OK|大丈夫|構)", question
    )
    if not asked:
        return []
    action = asked[1]
    forbidden = [s.text for p in guide.prohibitions for s in read_statements(p.text)]
    if any(action in text for text in forbidden):
        return []
    for section in guide.sections:
        for statement in read_statements(section.text):
            if statement.kind == "text" and action in statement.text and _APPROVAL.search(statement.text):
                return [f"はい、ただし次の条件があります: {statement.text} {section.citation}"]
    return []


def _ask_back(precautions: Precautions) -> str:
    severe = "S1（" if precautions.knows_severities else "重大な事態（"
    return "\n".join(
        [
            "次の情報を教えてください。手順を特定してご案内します。",
            "",
            "- 対象: 端末名・サーバ名・アカウント・IPアドレスのどれに起きていますか。",
            "- 症状: どのような表示・動作・アラート（検知名、重大度）ですか。",
            "- 発生時刻: いつから起きていますか。今も続いていますか。",
            "- 実施済みの操作: すでに行ったことがあれば、その内容と時刻を教えてください。",
            "",
            "情報がそろうまでは、次の4点を守ってください。",
            "",
            f"- 電源を切らない・再起動しない。ネットワークからの切り離しは、電源を入れたまま行う。{precautions.cite('power')}",
            f"- ファイル、ログ、メールを消さない・上書きしない。{precautions.cite('files')}",
            f"- 画面、時刻、行った操作をチケットに記録する。{precautions.cite('record')}",
            f"- {severe}暗号化、複数台の感染、情報の流出など）が疑われるなら、回答を待たずに先に{precautions.leader}へ電話する。{precautions.cite('call')}",
        ]
    )


def _say_severity(guide: Guide) -> str:
    """How severe the runbook calls what it is about, in its words: one statement, or all rows of a table, for which of
    them applies is not known."""
    said = [
        (passage, s) for passage in guide.conditions for s in read_statements(passage.text) if find_severities(s.text)
    ]
    passage, best = max(
        said, default=(Passage("", "", ""), Statement("")), key=lambda pair: len(find_severities(pair[1].text))
    )
    rows = [s.text for p, s in said if p is passage and s.kind == "row"] if best.kind == "row" else [best.text]
    if len(find_severities(" ".join(rows))) < 2:  # one alone is no measure
        return ""
    return f"重大度の目安: {' ／ '.join(rows)} {passage.citation}"


def _say_unsure(guide: Guide, organisation: Organisation) -> list[str]:
    conditions = [
        f"- {statement.text} {passage.citation}"
        for passage in guide.conditions
        for statement in read_statements(passage.text)
    ][:5]
    return [
        "近い手順書はありますが、ご質問に当てはまるかは確かではありません。次に当てはまるかを確認し、迷う場合は"
        f"{organisation.leader.role}に確認してください。",
        "",
        *conditions,
        "",
    ]


def _decline(passages: Sequence[Passage], organisation: Organisation) -> str:
    near = list(dict.fromkeys(passage.citation for passage in passages))[:3]
    lines = [
        "ご質問の内容は、手順書に該当する記載がありません。推測による手順は示しません。",
        "",
        f"{organisation.deciding}に確認し、指示を受けてください。",
    ]
    if near:
        lines += ["", "参考（近い内容の手順書。ご質問への回答ではありません）:", " ".join(near)]
    return "\n".join(lines)
