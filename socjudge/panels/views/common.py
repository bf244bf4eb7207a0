"""What panels show as HTML of a run. How a single record looks, in a panel or a cell, is in base/showing.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...base.showing import block, escape, money, question_html, shown_path, verdict_kind
from ...base.verdict import REFERENCE_NOTE, certainty_text, summary_text
from ...certify.certificate import run_certificate_line
from ...records import EvaluationResult, EvaluationRun, is_embedded
from ...runs.estimate import Estimate
from ...runs.logs import fallback_folder
from ..state.run import Progress, Session

MAX_DETAILS = 50  # answers with their contexts take about 4 kB each, and nobody reads on


def cost_html(estimate: Estimate, questions: int, left: Estimate | None = None) -> str:
    """The specification's warning, with calls and price. left: what is still to be paid of a run that is taken up."""
    line = f"⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）"
    if not estimate.calls:
        return block(
            "", f"{line}<br>今の設定は内蔵の簡易モデル（LLMではありません）なので、呼び出しも費用もありません。"
        )
    name, due = ("見積もり", estimate) if left is None else ("見積もり（残りの分）", left)
    tokens = f"入力 {due.input_tokens:,}、出力 {due.output_tokens:,} トークン"
    least = (
        "" if due.lowest is None else f"最小で呼び出し {due.lowest.calls} 回、費用 {money(due.lowest.cost_usd)}。最大で"
    )
    return block("warn", line, f"{name}: {least}呼び出し {due.calls} 回、{tokens}、費用 {money(due.cost_usd)}")


def progress_text(progress: Progress) -> str:
    """How far a run is, in one line."""
    if not progress.total:
        return "準備中"
    text = f"{progress.done}/{progress.total}"
    if progress.before:
        text += f"（{progress.before}件は前回まで、以下は今回分）"
    if progress.mean is not None:
        text += f"、平均 {progress.mean:.1f}点"
    if progress.cost_usd is None or progress.cost_usd:
        text += f"、費用 {money(progress.cost_usd)}"
    if progress.retries:
        text += f"、再試行 {progress.retries}回"
    if progress.unread:
        text += f"、未採点 {progress.unread}件"
    return text


def stopped_html(session: Session, button: str) -> str:
    """Why what a button started was stopped, or is being stopped, and how to go on."""
    numbers = progress_text(session.progress)
    if session.state == "stopping":
        return block("warn", "中断します。実行中の呼び出しの完了を待っています", numbers)
    if session.problem:
        words = f"費用の上限に達したため中断しました（{numbers}）。上限を上げて「{button}」で続きから再開します"
        return block("warn", words, escape(session.problem))
    if session.changed_late:
        words = f"設定の変更が「{button}」のクリックより遅れて届いたため中断しました（{numbers}）"
        return block("warn", f"{words}。設定を確かめて、もう一度押してください")
    return block("warn", f"中断しました（{numbers}）。もう一度「{button}」で続きから再開します")


def summary_html(run: EvaluationRun) -> str:
    """The success line, green whatever the verdict but not where the log had to be rescued, and the specification's summary."""
    from markdown_it import MarkdownIt

    judge, embedded = escape(run.run.judge_model_resolved), is_embedded(run.run.judge_model_resolved)
    offline = "（内蔵の簡易モデル。LLMではありません）" if embedded else ""
    saved = [f"評価完了！結果を {escape(shown_path(run.log_path))} に保存しました"]
    rescued = run.log_path is not None and run.log_path.parent == fallback_folder()
    if rescued:
        saved.append(
            "⚠️ 指定のログフォルダーに書き込めなかったため、一時フォルダーに保存しました。消える前に移してください"
        )
    return block("warn" if rescued else "good", *saved) + block(
        verdict_kind(run),
        MarkdownIt("js-default").render(summary_text(run))
        + certainty_text(run.run)
        + (reference_html() if embedded else ""),
        f"Judge: {judge}{offline}、費用: {money(run.usage.cost_usd)}",
        escape(run_certificate_line(run)),
    )


def reference_html() -> str:
    """That a verdict is the embedded judge's, in grey."""
    return f'<span style="color: var(--jp-ui-font-color2, #666)">{REFERENCE_NOTE}</span>'


def details_html(
    results: Sequence[EvaluationResult], log_path: Path | None = None, *, line: float | None = None
) -> str:
    """「📋 詳細結果を見る」: questions with marks, reasons, answer and context, in their order.

    Of more than MAX_DETAILS results those without marks, then the weakest; the rest is in log_path, says a line."""
    left_out = ""
    if len(results) > MAX_DETAILS:
        left_out = (
            f"<p>{len(results):,}件のうち、採点できなかった回答と平均の低い回答から順に{MAX_DETAILS}件を表示しています。"
            f"ほかの{len(results) - MAX_DETAILS:,}件は {escape(shown_path(log_path))} にあり、HistoryExplorer で1問ずつ読めます。</p>"
        )
        results = sorted(results, key=lambda r: (r.evaluation.status == "ok", r.evaluation.average_score))
    questions = "".join(question_html(result, line=line) for result in results[:MAX_DETAILS])
    return block("", f"<details><summary>📋 詳細結果を見る</summary>{left_out}{questions}</details>")
