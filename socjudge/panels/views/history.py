"""What the history panel shows as HTML: the table of runs, two runs side by side, charts, where a report went."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.pass_rule import frame_rule
from ...base.showing import block, escape, question_html
from ...base.texts import local_time
from ...base.verdict import REFERENCE_NOTE
from ...history.examples import EXAMPLE_MODE
from ...records import EvaluationResult, is_embedded
from ..state.explorer import RunPair

DOWNLOAD_BYTES = 20 * 2**20  # a larger report is not put into the page

# Wide things scroll within themselves, not the page. Charts are drawn for white paper.
_STYLE = """<style>
.socjudge-history-explorer .widget-html-content { min-width: 0; }
.socjudge-history-explorer option:checked { background: #1565c0 linear-gradient(#1565c0, #1565c0);
  -webkit-text-fill-color: #fff; }
[data-jp-theme-light="false"] .socjudge-history-explorer input { color-scheme: dark; }
.socjudge .wide { overflow-x: auto; } .socjudge .wide:focus-visible { outline: 2px solid var(--jp-brand-color1, #1976d2); }
.socjudge table { border-collapse: collapse; margin: .4em 0; font-size: inherit; color: inherit; }
.socjudge th, .socjudge td { padding: .25em .7em; text-align: left; vertical-align: top; overflow-wrap: break-word;
  max-width: 22em; border-bottom: 1px solid var(--jp-border-color2, #ddd); }
.socjudge th, .socjudge .number, .socjudge .short { white-space: nowrap; } .socjudge .number { text-align: right; }
.socjudge .name { min-width: 8em; } .socjudge .reason { min-width: 20em; }
.socjudge .chart { background: #fff; padding: .8em; border: 1px solid var(--jp-border-color2, #ddd); max-width: 64em; }
.socjudge .chart img { display: block; width: 100%; min-width: 48em; }
.socjudge h3, .socjudge h4 { font-size: 1.05em; margin: .6em 0 .2em; }
.socjudge a { color: var(--jp-content-link-color, #1565c0); }
</style>"""


def started(moment: Any) -> str:
    """A run's start on this machine's clock."""
    return "開始不明" if pd.isna(moment) else local_time(pd.Timestamp(moment).to_pydatetime())


def run_label(run: Mapping[Any, Any]) -> str:
    """A run in one line of plain text, not yet escaped."""
    again = "（採点し直し）" if run["rejudged_from"] else ""
    example = "【例】" if run["mode"] == EXAMPLE_MODE else ""
    time = run["log"] if pd.isna(run["started_at"]) else started(run["started_at"])
    return f"{example}{time}  {run['judge_model']} / {run['prompt_id']}{again}"


def chart_html(url: str, alt: str, note: str) -> str:
    """A chart on white paper with what it shows in words."""
    picture = f'<img src="{url}" alt="{escape(alt)}">'
    return block("", _STYLE + _wide(picture, "図", "chart") + f"<small>{escape(note)}</small>")


def table_html(runs: pd.DataFrame, total: int) -> str:
    """The runs as a table. runs: rows of `run_table`; total: how many there are, of which these are shown."""
    head = ("開始", "Judge", "プロンプト", "アシスタント", "平均と95%区間", "合格", "判定（全問）", "未採点", "ログ")
    rows = [
        (
            (started(run["started_at"]), "short"), (run["judge_model"], "name"),
            (run["prompt_id"] + ("（採点し直し）" if run["rejudged_from"] else ""), "name"), (run["assistant_model"], "name"),
            (_mean(run), "number"), (f"{run['passed']}/{run['questions']}問", "number"),
            (_verdict(run["mvp_passed"]) + (f" {REFERENCE_NOTE}" if is_embedded(run["judge_model"]) else ""), "short"), (f"{run['n_unscored']}件", "number"), (run["log"], "short"),
        )
        for run in runs.to_dict("records")
    ]  # fmt: skip
    shown = "" if total == len(runs) else f"{total}回のうち{len(runs)}回を表示しています。絞り込むと残りも見られます。"
    return block("", _STYLE + _table("実行の一覧", head, rows), shown)


def pair_html(pair: RunPair, chart: str) -> str:
    """Two runs side by side. chart: the HTML of the chart of differences, or ""."""
    conditions = [((name, "short"), (one, "name"), (other, "name")) for name, one, other in pair.conditions]
    parts = [
        f"基準: {escape(run_label(pair.first))}<br>比較: {escape(run_label(pair.second))}",
        _table("条件の違い", ("違う条件", "基準", "比較"), conditions)
        if conditions
        else "<p>記録されている条件に違いはありません。</p>",
    ]
    if pair.paired is None:
        if pair.effect is not None:
            parts.append(pair.effect._repr_html_())
        parts += [f'<p class="warn">⚠️ {escape(pair.reason)}</p>', _means(pair)]
    else:
        parts += ["<h3>同じ回答への採点の差</h3>", _differences(pair.paired), chart]
    return block("", _STYLE + "".join(parts))


def answers_html(pair: RunPair, question: str, sides: Iterable[Sequence[EvaluationResult]]) -> str:
    """What two runs have on one question: answers, contexts, marks, reasons, comments."""
    columns = ""
    for word, run, results in zip(("基準", "比較"), (pair.first, pair.second), sides, strict=True):
        line = frame_rule(pd.DataFrame([run])).line
        found = "".join(question_html(result, line=line, opened=True) for result in results)
        columns += (
            f"<section><h4>{word}: {escape(run_label(run))}</h4>{found or 'この質問は実行されていません。'}</section>"
        )
    return block("", f'{_STYLE}<h3>質問 {escape(question)}</h3><div class="sides">{columns}</div>')


def report_html(path: Path, *, replaced: bool, part: str) -> str:
    """Where the report is, and a link that downloads it, for those whose browser is on another machine.

    part: the only categories it is about, or ""."""
    lines = [f"📄 レポートを保存しました: {escape(path)}"]
    if replaced:
        lines.append("前に書き出したレポートを置き換えました。")
    if part:
        lines.append(f"カテゴリ「{escape(part)}」の質問だけの報告です。判定もその質問だけのものです。")
    if path.stat().st_size <= DOWNLOAD_BYTES:
        data = base64.b64encode(path.read_bytes()).decode()
        name = escape(path.name)
        lines.append(f'<a download="{name}" href="data:text/html;base64,{data}">ダウンロード（{name}）</a>')
    return block("good", _STYLE + lines[0], *lines[1:])


def _differences(paired: pd.DataFrame) -> str:
    head = ("観点", "問数", "基準", "比較", "差", "95%区間", "補正後 p", "読み方")
    rows = [
        (
            (row["criterion"], "short"), (row["n"], "number"), (_points(row["baseline_mean"]), "number"),
            (_points(row["mean"]), "number"), (_points(row["mean_difference"], "+.1f"), "number"),
            (_range(row["ci_low"], row["ci_high"], "+.1f"), "number"), (_points(row["p_holm"], ".3f"), "number"),
            (row["note"], "reason"),
        )
        for row in paired.to_dict("records")
    ]  # fmt: skip
    return _table("観点別の差", head, rows)


def _means(pair: RunPair) -> str:
    sides = [
        {row["criterion"]: row for row in pair.means[pair.means["run_id"] == run["run_id"]].to_dict("records")}
        for run in (pair.first, pair.second)
    ]
    rows = [
        ((name, "short"), *((_mean(side[name]) if name in side else "–", "number") for side in sides))
        for name in dict.fromkeys([*sides[0], *sides[1]])
    ]
    return _table("観点別の平均", ("観点", "基準（平均と95%区間）", "比較（平均と95%区間）"), rows)


def question_text(row: Mapping[Any, Any]) -> str:
    """A row of `RunPair.questions` as one line of plain text to be chosen."""
    same = "" if row["same_answer"] else "（回答は別）"
    return f"{row['question_id']}  {row['category']}  {_points(row['first'])} → {_points(row['second'])}{same}"


def _table(caption: str, head: Iterable[str], rows: Iterable[Iterable[tuple[Any, str]]]) -> str:
    """A table. rows: (text, CSS class) per cell; a column has the class of its cells in its head too."""
    rows = [list(row) for row in rows]
    classes = [kind for _, kind in rows[0]] if rows else []
    heads = "".join(
        f'<th scope="col" class="{kind}">{escape(word)}</th>' for word, kind in zip(head, classes, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in row) + "</tr>" for row in rows
    )
    return _wide(f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>", caption)


def _wide(inner: str, name: str, kind: str = "") -> str:
    """Something that scrolls sideways in a narrow window, also by keyboard."""
    return f'<div class="wide {kind}" role="region" aria-label="{escape(name)}" tabindex="0">{inner}</div>'


def _mean(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["mean"]):
        return "採点なし"
    return f"{row['mean']:.1f}（{_range(row['ci_low'], row['ci_high'])}、{row['n']}問）"


def _range(low: Any, high: Any, form: str = ".1f") -> str:
    return "区間なし" if pd.isna(low) or pd.isna(high) else f"{low:{form}}〜{high:{form}}"


def _points(value: Any, form: str = ".1f") -> str:
    return "–" if pd.isna(value) else f"{value:{form}}"


def _verdict(passed: Any) -> str:
    return "不明" if pd.isna(passed) else "✅ 合格" if passed else "❌ 不合格"
