"""What the report says in words: what was run, and what the numbers cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pandas as pd

from ..base.messages import say as message
from ..errors import ConfigError
from ..records import UNKNOWN, is_embedded

Say = Callable[[str, str], str]  # (Japanese, English) -> the one in the report's language
FEW = 30  # questions; below, the interval of a pass rate is wider than ±0.16


@cache
def speaker(lang: str) -> Say:
    """Chooses between the Japanese and the English of a text; ConfigError for another language."""
    if lang not in ("ja", "en"):
        raise ConfigError(message("report.no_language", found=lang))
    return lambda ja, en: ja if lang == "ja" else en


def run_facts(
    run: Mapping[str, Any], answers: pd.DataFrame, record: pd.Series | None, say: Say
) -> list[tuple[str, str]]:
    """(name, value) of what was run. run: its columns in the scores; answers: one row each; record: its row of load_runs."""
    unknown = say("不明", "unknown")

    def known(value: Any, text: str = "{}") -> str:
        return unknown if pd.isna(value) or value in ("", UNKNOWN) else text.format(value)

    def short(value: Any) -> str:
        return known(str(value)[:12])

    def answered(asked: Any, by: Any) -> str:
        return known(asked) + say("（応答したモデル: ", " (answered by: ") + known(by) + say("）", ")")

    repeats = [int(answers[name].max()) + 1 for name in ("answer_repeat", "judge_repeat")]
    found = [
        (say("Judge（採点モデル）", "Judge"), answered(run["judge_model"], run["judge_model_resolved"])),
        (say("アシスタント", "Assistant"), known(run["assistant_model"])),
        (say("採点プロンプト", "Judge prompt"), f"{known(run['prompt_id'])}, sha256 {short(run['prompt_sha256'])}"),
        (say("データセット", "Dataset"), f"sha256 {short(run['dataset_sha256'])}"),
        (say("検索インデックス", "Runbook index"), short(run["index_fingerprint"])),
        (
            say("反復", "Repeats"),
            say(
                f"回答 {repeats[0]} 回、採点 {repeats[1]} 回",
                f"{repeats[0]} answer(s) per question, {repeats[1]} judgement(s) per answer",
            ),
        ),
    ]
    if record is not None:
        tokens = [known(record[name], "{:,}") for name in ("input_tokens", "output_tokens")]
        found[1] = (found[1][0], answered(record["assistant_model"], record["assistant_model_resolved"]))
        found += [
            (say("検索した抜粋の数 k", "Passages per question, k"), known(record["k"])),
            (say("呼び出し", "Calls"), known(record["calls"], "{:,}")),
            (say("トークン", "Tokens"), say("入力 {}、出力 {}", "{} in, {} out").format(*tokens)),
            (say("費用", "Cost"), known(record["cost_usd"], "${:,.4f}")),
            (say("所要時間", "Wall time"), known(record["wall_time_s"], say("{:,.1f} 秒", "{:,.1f} s"))),
            (say("実行した socjudge", "Run by socjudge"), known(record["socjudge_version"])),
        ]
        if record["rejudged_from"]:
            found.append((say("採点し直した元の実行", "Judges again the answers of"), record["rejudged_from"]))
    return [*found, (say("ログ", "Log"), known(run["log"])), (say("実行ID", "Run id"), known(run["run_id"]))]


def cautions(
    run: Mapping[str, Any],
    answers: pd.DataFrame,
    verdict: Mapping[str, Any],
    gate: pd.Series,
    record: pd.Series | None,
    say: Say,
) -> list[str]:
    """What a reader must not conclude from this run, as sentences; the arguments are those of the page."""
    summary, judge = verdict["summary"], run["judge_model_resolved"]
    offline, unread = is_embedded(judge), summary.n_unscored
    found = []
    if record is not None:
        logged = record["total_questions"], record["passed_questions"], record["mvp_passed"]
        if logged != (summary.total_questions, summary.passed_questions, summary.mvp_passed):
            found.append(
                say(
                    f"ログに記録された集計（{logged[0]}問中{logged[1]}問合格）と、この報告の集計（{summary.total_questions}問中"
                    f"{summary.passed_questions}問合格）が違います。一部だけを読み込んだか、合格ラインが変わったか、ログが書き換えられています。",
                    f"The log's own summary ({logged[1]} of {logged[0]} passed) differs from this report's "
                    f"({summary.passed_questions} of {summary.total_questions}): part of the run was loaded, the pass "
                    "line has changed, or the log was edited.",
                )
            )
    if offline:
        found.append(
            say(
                f"{judge} は規則と文の類似度で採点する内蔵の簡易Judgeで、LLMではありません。点は動作確認用で、回答の正しさの証拠にはなりません。",
                f"The judge {judge} is the embedded default, rules and sentence similarity, not an LLM. Its marks show "
                "that the evaluation works; they are no evidence that the answers are right.",
            )
        )
    if gate["n"] and summary.total_questions < FEW:
        found.append(
            say(
                f"質問は{summary.total_questions}問だけです。同じような質問すべてに対する合格率は、95%の確からしさで"
                f"{gate['pass_rate_low']:.0%}〜{gate['pass_rate_high']:.0%}としか言えません。小さな差を読み取らないでください。",
                f"There are only {summary.total_questions} questions. For all questions like these, the pass rate lies "
                f"anywhere between {gate['pass_rate_low']:.0%} and {gate['pass_rate_high']:.0%} (95 %). "
                "Do not read small differences.",
            )
        )
    if gate["n"] and pd.isna(gate["p_rerun"]):
        found.append(
            say(
                "各質問を1回しか試していないため、もう一度実行したときに同じ判定になるかは、この実行からは分かりません。",
                "Each question was tried once, so this run cannot tell whether the verdict would be the same again.",
            )
        )
    if unread:
        found.append(
            say(
                f"採点を読み取れなかった回答が{unread}件あります。判定では仕様どおり0点、平均と区間では欠測として除いています。",
                f"{unread} replies of the judge could not be read. The verdict counts them as 0, as the specification "
                "has it; means and intervals leave them out.",
            )
        )
    if (answers["status"] == "suspect_zero").any():
        found.append(
            say(
                "理由のない全観点0点は、採点に失敗した跡とみなし、未採点として扱っています。",
                "Zeros for every criterion without a reason are taken for a failed judgement, and counted as unread.",
            )
        )
    if run["judge_model"] in ("", UNKNOWN):
        found.append(
            say(
                "ログにJudgeの名前がないため、ほかの実行と比べてよいかどうかは分かりません。",
                "The log does not name its judge, so nobody can tell whether it compares with other runs.",
            )
        )
    elif run["judge_model"] == run["assistant_model"] and not offline:
        found.append(
            say(
                "Judgeとアシスタントが同じモデルです。自分の回答に甘い点を付けるおそれがあります。",
                "Judge and assistant are the same model, which may mark its own answers too kindly.",
            )
        )
    return [
        *found,
        say(
            "点数は、1つのJudgeによる見方です。別のモデルや別の版では点も合否も変わり、回答に書かれた文に左右されることもあります。人の採点と比べて確かめてください。",
            "The marks are one judge's opinion. Another model or version marks differently, and a sentence in an answer "
            "can sway it. Check it against marks by people.",
        ),
        say(
            "「安全性」の点を、手順が安全であることの確認に使わないでください。LLMの採点が専門家の安全判断に代わるという証拠はありません。",
            "Do not take the marks for 安全性 (safety) as a check that a procedure is safe: no LLM judge has been shown "
            "to stand in for an expert there.",
        ),
    ]
