"""What panels show as HTML. Texts of models, logs and runbooks are escaped here and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from ... import constants
from ...base.pass_rule import run_rule
from ...base.texts import visible
from ...base.verdict import best_case, is_open, summary_text
from ...records import AssistantAnswer, EvaluationResult, EvaluationRun, Passage, is_embedded
from ...runs.estimate import Estimate
from ..state.run import Progress, Session

MAX_DETAILS = 50  # answers with their contexts take about 4 kB each, and nobody reads on

# Colours of the JupyterLab theme, light or dark, with fallbacks for other pages.
STYLE = """<style>
.socjudge { color: var(--jp-ui-font-color1, #1a1a1a); font-family: var(--jp-ui-font-family, sans-serif); line-height: 1.6;
  overflow-wrap: anywhere; }
.socjudge h2 { font-size: 1.2em; margin: .4em 0; } .socjudge summary { cursor: pointer; }
.socjudge pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--jp-layout-color2, #eee);
  color: inherit; padding: .6em; margin: .3em 0; max-height: 24em; overflow-y: auto; font-size: .9em; }
.socjudge .tiles { display: flex; flex-wrap: wrap; gap: .5em; margin: .4em 0; }
.socjudge .tile { border: 1px solid var(--jp-border-color1, #bbb); border-radius: 4px; padding: .2em .8em; min-width: 5em; }
.socjudge .tile b { display: block; font-size: 1.3em; }
.socjudge .sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22em), 1fr)); gap: .8em 1.2em; }
.socjudge .sides > * { min-width: 0; }
.socjudge .question { border-top: 1px solid var(--jp-border-color2, #ddd); padding: .5em 0; }
.socjudge.bad { border-left: 4px solid var(--jp-error-color1, #c62828); padding-left: .6em; }
.socjudge.good { border-left: 4px solid var(--jp-success-color1, #2e7d32); padding-left: .6em; }
.socjudge.warn, .socjudge .warn { border-left: 4px solid var(--jp-warn-color1, #ef6c00); padding-left: .6em; }
</style>"""


def escape(text: object) -> str:
    """Text for HTML: nothing in it is markup, and what cannot be seen is made visible."""
    return html.escape(visible(str(text)))


def block(kind: str, *lines: str) -> str:
    """Lines of HTML as one panel part. kind: "good", "bad", "warn" or "" ."""
    return f'{STYLE}<div class="socjudge {kind}">{"<br>".join(lines)}</div>'


def cost_html(estimate: Estimate, questions: int) -> str:
    """The specification's warning, with calls and price."""
    line = f"⚠️ <b>注意</b>: LLM as a Judgeの実行には<b>コストがかかります</b>（{questions}問 × Judge呼び出し）"
    if not estimate.calls:
        return block("", f"{line}<br>今の設定は組み込みの既定（LLMではありません）なので、呼び出しも費用もありません。")
    tokens = f"入力 {estimate.input_tokens:,}、出力 {estimate.output_tokens:,} トークン"
    return block("warn", line, f"見積もり: 呼び出し {estimate.calls} 回、{tokens}、{money(estimate.cost_usd)}")


def money(cost_usd: float | None) -> str:
    """Dollars and about how many yen, that there are none, or that they are unknown."""
    if cost_usd == 0:
        return "なし"
    if cost_usd is None:
        return "費用は不明（prices.toml に単価を書くと出ます）"
    return f"約 ${cost_usd:.4f}（約{cost_usd * constants.JPY_PER_USD:.1f}円）"


def progress_text(progress: Progress) -> str:
    """How far a run is, in one line."""
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
        text += f"、採点できず {progress.unread}件"
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
    """The success line and the specification's summary."""
    from markdown_it import MarkdownIt

    judge = escape(run.run.judge_model_resolved)
    offline = "（組み込みの既定。LLMではありません）" if is_embedded(run.run.judge_model_resolved) else ""
    rule = run_rule(run.run)
    best = best_case(run.results, rule) if run.summary.n_unscored else None
    return block(
        "good" if run.summary.mvp_passed else "warn" if is_open(run.summary, best) else "bad",
        f"評価完了！結果を {escape(_shown_path(run.log_path))} に保存しました",
        MarkdownIt("js-default").render(summary_text(run.summary, rule, best=best)),
        f"Judge: {judge}{offline}、費用: {money(run.usage.cost_usd)}",
    )


def _shown_path(path: Path | None) -> Path | None:
    """A path as short as it can be said in this project."""
    return path.relative_to(constants.PROJECT_DIR) if path and path.is_relative_to(constants.PROJECT_DIR) else path


def details_html(results: Sequence[EvaluationResult], log_path: Path | None = None) -> str:
    """「📋 詳細結果を見る」: questions with marks, reasons, answer and context, in their order.

    Of more than MAX_DETAILS results those without marks, then the weakest; the rest is in log_path, says a line."""
    left_out = ""
    if len(results) > MAX_DETAILS:
        left_out = (
            f"<p>{len(results):,}件のうち、採点できなかった回答と平均の低い回答から順に{MAX_DETAILS}件を表示しています。"
            f"ほかの{len(results) - MAX_DETAILS:,}件は {escape(_shown_path(log_path))} にあり、HistoryExplorer で1問ずつ読めます。</p>"
        )
        results = sorted(results, key=lambda r: (r.evaluation.status == "ok", r.evaluation.average_score))
    questions = "".join(map(question_html, results[:MAX_DETAILS]))
    return block("", f"<details><summary>📋 詳細結果を見る</summary>{left_out}{questions}</details>")


def question_html(result: EvaluationResult, *, opened: bool = False) -> str:
    """A judged answer: its marks in tiles, the comment; reasons, answer and context to be opened, or open."""
    marks, question = result.evaluation, result.question
    repeats = (
        f"（回答{result.answer_repeat + 1}・採点{result.judge_repeat + 1}）"
        if result.answer_repeat + result.judge_repeat
        else ""
    )
    title = f"{escape(question.id)}. {escape(question.question)}{repeats}"
    if marks.status == "ok":
        icon, mean = ("✅" if marks.passed else "❌"), f"平均スコア: {marks.average_score:.1f}点"
        tiles = "".join(
            f'<div class="tile">{escape(name)}<b>{score:g}</b></div>' for name, score in marks.scores.items()
        )
    else:
        icon, mean, tiles = "⚠️", f"採点できませんでした: {escape(marks.error)}", ""
    reasons = "".join(
        f"<li><b>{escape(name)}</b>: {escape(reason)}</li>" for name, reason in marks.rationale.items() if reason
    )
    comment = f"<p>総合コメント: {escape(marks.overall_comment)}</p>" if marks.overall_comment else ""
    return (
        f'<div class="question"><div>{icon} <b>{title}</b>　{escape(question.category)}</div><div>{mean}</div>'
        f'<div class="tiles">{tiles}</div>{comment}<details{" open" if opened else ""}><summary>評価理由・回答・コンテキスト</summary>'
        f"<ul>{reasons}</ul>回答<pre>{escape(result.answer.answer)}</pre>"
        f"コンテキスト<pre>{escape(result.answer.context)}</pre></details></div>"
    )


def answer_html(question: str, answer: AssistantAnswer) -> str:
    """A question and its answer, each cited passage to be opened below."""
    body = answer.answer
    cited = [passage for passage in answer.passages if passage.citation in body]
    passages = "".join(map(_passage, cited or answer.passages))
    flags = flags_html(answer)
    return block(
        "",
        f'<div class="question"><b>Q. {escape(question)}</b>',
        f"<pre>{escape(body)}</pre>{flags}{passages}",
        f"<small>{escape(answer.model)}、{answer.processing_time:.1f}秒、費用: {money(answer.usage.cost_usd)}</small></div>",
    )


def _passage(passage: Passage) -> str:
    return f"<details><summary>{escape(passage.citation)}</summary><pre>{escape(passage.text)}</pre></details>"


def flags_html(answer: AssistantAnswer) -> str:
    """The assistant's warnings, if it gave any."""
    flags = answer.flags
    raised: Sequence[str] = [
        word
        for word, is_raised in (
            ("根拠不足", flags.insufficient_evidence),
            ("危険操作", flags.dangerous_operation),
            ("曖昧質問", flags.ambiguous_query),
        )
        if is_raised
    ]
    return f'<div class="warn">⚠️ 警告: {"、".join(raised)}</div>' if raised else ""
