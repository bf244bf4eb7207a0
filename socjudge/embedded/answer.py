"""Write the embedded assistant's answer: quotes from one runbook as steps in order, or questions back to the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from ..base.texts import read_statements
from ..flags.dangers import AGAINST_RUNBOOKS, Danger
from ..records import Flags, Passage
from ..runbooks.asking import asks_leave, wants_leave
from ..runbooks.companions import NEUTRAL, Organisation
from ..runbooks.guide import Guide, Precautions
from ..runbooks.points import Point

RELATED = 2


def compose_answer(
    question: str,
    passages: Sequence[Passage],
    guide: Guide,
    flags: Flags,
    dangers: Sequence[Danger] = (),
    evidence: str = "covered",  # `Coverage.outcome`
    precautions: Precautions | None = None,  # given if the question is too vague: the answer asks back
    organisation: Organisation = NEUTRAL,
) -> str:
    """Write an answer of quotes from the guide's runbook, in Japanese Markdown, without the warnings."""
    if precautions is not None:
        return _ask_back(precautions, organisation)
    rules = _quote_rules(question, dangers, refuses=flags.dangerous_operation)
    lines = [*rules, ""] if rules else []
    if flags.dangerous_operation and not rules:  # the safe steps follow only if the runbooks cover the question
        lines = [_refuse_without_rule(question, evidence, organisation), ""]
        if evidence != "covered":
            return lines[0]
    # "unsure" declines only a question that asks for permission. Others are told first what to check.
    elif not rules and (evidence == "absent" or (evidence == "unsure" and wants_leave(question))):
        return _decline(passages, organisation)
    if not guide.steps and not guide.points:
        return "\n".join(rules) or _decline(passages, organisation)
    if not lines and evidence == "unsure":
        lines = _say_unsure(guide, organisation)
    lines += [f"要点: {point.text} {point.section.citation}" for point in guide.points]
    if guide.steps:
        lines += ["", _lead(guide, bool(rules)), *_list_steps(guide.steps)]
    others = {p.source: p.citation for p in reversed(passages) if p.source != guide.source}
    if others:
        lines += ["", f"関連: {' '.join(list(others.values())[: -RELATED - 1 : -1])}"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip())


def _lead(guide: Guide, refused: bool) -> str:
    if refused:
        return "代わりに、手順書に沿って次の順に進めてください。"
    return "手順書の順に、初動対応から進めてください。" if guide.first else "手順書の該当箇所は次のとおりです。"


def _list_steps(steps: Sequence[Point]) -> list[str]:
    lines: list[str] = []
    number = 0  # runs on through all sections
    for (heading, citation), group in groupby(steps, key=lambda step: (step.section.heading, step.section.citation)):
        lines += ["", f"**{heading}**", ""] if heading else [""]
        for step in group:
            text = step.text.rstrip()
            if not text.startswith("```"):  # a command belongs to the step before it
                number += 1
                text = f"{number}. {text}"
            lines.append(text)
        lines.append(citation)
    return lines


def _refuse_without_rule(question: str, evidence: str, organisation: Organisation) -> str:
    no = "いいえ。" if asks_leave(question) else ""
    known = "手順書に定めがありません" if evidence == "absent" else "手順書の定めを特定できませんでした"
    return (
        f"{no}自分の判断では行わないでください。この操作については、{known}。{organisation.leader}に確認してください。"
        "確認が済むまで、電源を切らず、ログやファイルを消さないでください。"
    )


def _quote_rules(question: str, dangers: Sequence[Danger], *, refuses: bool) -> list[str]:
    """Quote the rules against the dangers. The assistant's warning tells the safe way, so it is not told here."""
    no = "いいえ。" if asks_leave(question) else ""
    lines: list[str] = []
    for danger in dangers:
        if not danger.prohibition:
            continue
        line = f"{no}「{danger.operation}」は行わないでください。"
        if danger.operation == AGAINST_RUNBOOKS:  # the rule gives no short name for the operation
            line = "自分の判断では行わないでください。"
        line = line if refuses else ""
        lines.append(f"{line}手順書の定め: {danger.prohibition} {danger.citation}")
        no = ""
        if danger.next_prohibition:
            lines.append(f"あわせて、手順書の定め: {danger.next_prohibition} {danger.next_citation}")
    return list(dict.fromkeys(lines))


def _ask_back(precautions: Precautions, organisation: Organisation) -> str:
    def cite(precaution: str) -> str:
        return f" {precautions.said[precaution].citation}" if precaution in precautions.said else ""

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
            f"- 電源を切らない・再起動しない。ネットワークからの切り離しは、電源を入れたまま行う。{cite('power')}",
            f"- ファイル、ログ、メールを消さない・上書きしない。{cite('files')}",
            f"- 画面、時刻、行った操作をチケットに記録する。{cite('record')}",
            f"- {severe}暗号化、複数台の感染、情報の流出など）が疑われるなら、回答を待たずに先に{organisation.leader}へ電話する。{cite('call')}",
        ]
    )


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
