"""What the prompt panel shows as HTML: the diff, what a trial takes, and what it changed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.showing import block, escape
from ...records import EvaluationResult
from ..state.trial_effect import Effect, QuestionChange
from ..state.trial_store import Trial, TrialSettings
from ..state.trials import TrialCost
from .common import cost_html

_CONTEXT = 2  # unchanged lines around a change

# Half-transparent colours lie on a light theme as well as on a dark one.
STYLE = """<style>
.socjudge .diff { font-family: var(--jp-code-font-family, monospace); font-size: .85em; line-height: 1.5;
  border: 1px solid var(--jp-border-color1, #bbb); border-radius: 2px; max-height: 40em; overflow-y: auto; }
.socjudge .diff div { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .4em 0 1.6em; text-indent: -1.2em; }
.socjudge .diff ins, .socjudge .diff del { display: block; text-decoration: none; }
.socjudge .diff .new { background: rgba(46, 160, 67, .2); } .socjudge .diff .old { background: rgba(229, 57, 53, .2); }
.socjudge .diff .gap { color: var(--jp-ui-font-color2, #666); }
.socjudge table.effect { border-collapse: collapse; width: 100%; margin: .4em 0; color: inherit; }
.socjudge table.effect th, .socjudge table.effect td { text-align: right; padding: .2em .4em; vertical-align: top;
  border-bottom: 1px solid var(--jp-border-color2, #ddd); background: none; white-space: normal; }
.socjudge table.effect td { overflow-wrap: normal; } .socjudge table.effect td.note { overflow-wrap: anywhere; }
.socjudge table.effect th:first-child, .socjudge table.effect td.note { text-align: left; }
.socjudge .sides > div { border-top: 2px solid var(--jp-border-color1, #bbb); }
.socjudge .sides ul { padding-left: 1.2em; margin: .2em 0; }
</style>"""


def diff_html(before: str, after: str) -> str:
    """What changed from one text to the other, line by line."""
    old, new = before.split("\n"), after.split("\n")
    rows: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        if group[0][1]:
            rows.append(f'<div class="gap">… {group[0][1] + 1}行目から</div>')
        for kind, i, j, k, m in group:
            if kind == "equal":
                rows += [f"<div>  {escape(line)}</div>" for line in old[i:j]]
            else:
                rows += [f'<del><div class="old">- {escape(line)}</div></del>' for line in old[i:j]]
                rows += [f'<ins><div class="new">+ {escape(line)}</div></ins>' for line in new[k:m]]
    shown = f'<div class="diff" tabindex="0" role="region" aria-label="変更箇所">{"".join(rows)}</div>'
    return STYLE + block("", "<b>変更箇所</b>（- 元、+ 新）", shown if rows else "元のプロンプトと同じです")


def text_html(problem: str, placeholders: set[str]) -> str:
    """Whether the text can be used as it stands."""
    if problem:
        return block("bad", "⚠️ このプロンプトは使えません", escape(problem))
    return block("good", f"✅ プレースホルダー: {escape('、'.join(f'{{{name}}}' for name in sorted(placeholders)))}")


def work_html(work: TrialCost, choice: TrialSettings) -> str:
    """What a trial takes, and what to know before it is started."""
    lines = []
    if work.base_calls:
        lines.append(
            f"うち {work.base_calls} 回は元のプロンプトの分です（ログの点は別のJudgeか別のプロンプトによるものなので、比較に使えません）"
        )
    if choice.kind == "assistant":
        lines.append(
            "アシスタントが回答し直すので、回答の呼び出しもかかります。差には回答の違いと採点のゆれの両方が含まれます"
        )
    if work.is_unread:
        who = "Judge" if choice.kind == "judge" else "アシスタント"
        lines.append(
            f"内蔵の簡易{who}はプロンプトを読みません。変更しても結果は変わらないので、試すには{who}にLLMを選んでください"
        )
    return cost_html(work.estimate, work.answers) + (block("warn", *lines) if lines else "")


def trial_label(trial: Trial) -> str:
    """One line that tells a trial from the others."""
    choice = trial.choice
    moved = "中断" if not trial.after else "差は不明" if trial.difference is None else f"総合 {trial.difference:+.1f}点"
    words = [trial.id[5:16].replace("T", " "), choice.base, moved, trial.note]
    return " ".join(word for word in words if word)


def effect_html(effect: Effect, trial: Trial) -> str:
    """What the edited prompt changed: the paired differences, the verdicts that flip, and both sides of each question."""
    same = (
        "保存済みの同じ回答を採点しました"
        if effect.same_answers
        else "回答そのものが違います。差は質問ごとに対にしたものです"
    )
    flips = "".join(
        f"<li>{escape(row['question_id'])}: {escape(row['direction'])}"
        f"（{row['baseline_mean']:.1f} → {row['mean']:.1f}点）</li>"
        for row in effect.flips.to_dict("records")
    )
    return STYLE + block(
        "",
        f"<h2>結果: 元のプロンプト {escape(trial.choice.base)} との差</h2>{escape(trial_label(trial))}<br>{same}。",
        _table(effect.comparison.to_dict("records"))
        + f"<b>合否が変わる質問</b>: {len(effect.flips)}件<ul>{flips}</ul>"
        + f"<b>質問ごとの点と評価理由</b>{''.join(_question(both, effect) for both in effect.questions)}",
    )


def _table(rows: Sequence[Mapping[Any, Any]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in ("観点", "元", "新", "差", "95%区間", "見える最小の差"))
    body = "".join(
        f'<tr><th scope="row">{escape(row["criterion"])}</th><td>{_number(row["baseline_mean"])}</td>'
        f"<td>{_number(row['mean'])}</td><td><b>{_number(row['mean_difference'], '+')}</b></td>"
        f"<td>{_interval(row)}</td><td>{_number(row['detectable_difference'], '±')}</td></tr>"
        f'<tr><td class="note" colspan="6"><small>{escape(row["note"])}</small></td></tr>'
        for row in rows
    )
    return f'<table class="effect"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _interval(row: Mapping[Any, Any]) -> str:
    ends = row["ci_low"], row["ci_high"]
    return "–" if any(map(math.isnan, ends)) else f"{ends[0]:+.1f}〜<wbr>{ends[1]:+.1f}"


def _number(value: float, sign: str = "") -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:+.1f}" if sign == "+" else f"{sign}{value:.1f}"


def _question(both: QuestionChange, effect: Effect) -> str:
    question = both.after[0].question
    means = [_mean(side) for side in (both.before, both.after)]
    flip = f"<b>{escape(both.direction)}</b> " if both.direction else ""
    title = f"{flip}{escape(question.id)}. {escape(question.question)}（{means[0]} → {means[1]}）"
    answers = f"保存済みの回答<pre>{escape(both.after[0].answer.answer)}</pre>" if effect.same_answers else ""
    sides = "".join(
        f"<div><b>{name}</b> 平均 {mean}{_reasons(side)}{'' if effect.same_answers else _answers(side)}</div>"
        for name, mean, side in zip(("元", "新"), means, (both.before, both.after), strict=True)
    )
    is_open = " open" if both.direction else ""
    return f'<details{is_open}><summary>{title}</summary><div class="sides">{sides}</div>{answers}</details>'


def _mean(results: Sequence[EvaluationResult]) -> str:
    marks = [result.evaluation.average_score for result in results if result.evaluation.status == "ok"]
    return f"{sum(marks) / len(marks):.1f}点" if marks else "未採点"


def _reasons(results: Sequence[EvaluationResult]) -> str:
    """The marks and reasons of one side; of repeats one list each."""
    lists = []
    for result in results:
        marks = result.evaluation
        if marks.status != "ok":
            lists.append(f"<p>採点できませんでした: {escape(marks.error)}</p>")
            continue
        reasons = "".join(
            f"<li><b>{escape(name)} {score:g}</b> {escape(marks.rationale.get(name, ''))}</li>"
            for name, score in marks.scores.items()
        )
        lists.append(f"<ul>{reasons}</ul>{escape(marks.overall_comment)}")
    return "".join(lists)


def _answers(results: Sequence[EvaluationResult]) -> str:
    answers = dict.fromkeys(result.answer.answer for result in results)
    return "".join(f"回答<pre>{escape(answer)}</pre>" for answer in answers)
