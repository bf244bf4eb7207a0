"""The report as a text: what it says, in which order, what it escapes, and what it refuses. No browser."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.report_logs import HOSTILE, Page, bare_log, save_log, words
from support.score_frames import CRITERIA, framed, judged
from typer.testing import CliRunner

from socjudge import ConfigError, EvaluationRun, load_run, summary_text
from socjudge.base.pass_rule import PassRule
from socjudge.base.verdict import Verdict
from socjudge.certify.certificate import TRUSTED, UNDECIDED, UNTRUSTED, Binding, Certificate
from socjudge.certify.certificate import Verdict as Word
from socjudge.cli.app import app
from socjudge.records import SPECIFIED_CRITERIA, RunInfo, is_embedded
from socjudge.report import page as page_module
from socjudge.report.page import write_report
from socjudge.report.words import suggestion

SECTIONS = ["verdict", "questions", "scores", "answers", "cautions", "run", "terms"]
FLAGS = ("insufficient_evidence", "dangerous_operation", "ambiguous_query")


def report(folder: Path, logs: Path | str, **options: Any) -> str:
    return write_report(folder / "report.html", logs, **{"lang": "ja"} | options).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _drawn_where_charts_are_looked_at(request: pytest.FixtureRequest) -> None:
    if not request.node.name.startswith(("test_texts_are_escaped", "test_no_address_leaves")):
        request.getfixturevalue("undrawn")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten questions, eight with 80 points, one with 50, one reply that could not be read."""
    return save_log(tmp_path_factory.mktemp("report") / "logs", bare_log([80] * 8 + [50, None]))


@pytest.fixture(scope="module")
def page(logs: Path) -> str:
    """The report of `logs`."""
    return report(logs.parent, logs)


def test_sections_come_in_order_with_the_verdict_first(page: str) -> None:
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS
    assert page.index("⚠️ 判定保留（採点不能 1 件）</h2>") < page.index('<section id="run"')


@pytest.mark.usefixtures("in_japanese")
def test_terms_that_a_page_uses_are_explained_on_it(logs: Path, tmp_path: Path) -> None:
    shown = words(report(tmp_path, logs).partition('<section id="terms"')[2].partition("</section>")[0])
    for term in ("MVP", "Judge", "LLM", "区間", "四分位", "合格ライン", "証明書", *SPECIFIED_CRITERIA):
        assert re.search(rf"(?:^|[。\s]){term}\s", shown), term


@pytest.mark.parametrize(
    ("verdict", "words_of_certificate", "low", "expected"),
    [
        (Verdict("failed"), [TRUSTED], 0.9, "Not to be used"),
        (Verdict("open"), [TRUSTED], 0.9, "Too early to decide"),
        (Verdict("passed", is_reference=True), [TRUSTED], 0.9, "Too early to decide"),
        (Verdict("passed"), [TRUSTED, UNTRUSTED], 0.9, "Too early to decide"),
        (Verdict("passed"), None, 0.9, "With conditions"),
        (Verdict("passed"), [TRUSTED, UNDECIDED], 0.9, "With conditions"),
        (Verdict("passed", warning="read it"), [TRUSTED], 0.9, "With conditions"),
        (Verdict("passed"), [TRUSTED], 0.6, "With conditions"),
        (Verdict("passed"), [TRUSTED], 0.9, "May be used"),
    ],
)
def test_the_suggestion_is_never_more_than_verdict_and_certificate_allow(
    verdict: Verdict, words_of_certificate: list[str] | None, low: float, expected: str
) -> None:
    gate = pd.Series({"p_rerun": None, "verdict": "合格", "pass_rate_low": low})
    certificate = None
    if words_of_certificate:
        marked = tuple(Word(f"観点{n}", word, "", ()) for n, word in enumerate(words_of_certificate))
        binding = Binding("judge", "", "", tuple(each.criterion for each in marked), "", "judge", "")
        certificate = Certificate(binding, "2026-01-01T00:00:00+00:00", marked, {}, {}, ())
    box, why = suggestion(verdict, certificate, gate, PassRule(70, 0.7))
    assert box == expected and why


def test_only_the_terms_of_the_page_are_explained_and_hashes_are_at_its_end(page: str) -> None:
    terms = page[page.index('<section id="terms"') :]
    assert "<dt>MVP</dt>" in terms and "<dt>証明書</dt>" in terms and "<dt>参考判定</dt>" not in terms
    assert not re.search("[0-9a-f]{12}", words(page).partition("何を実行したか")[0])


@pytest.mark.usefixtures("in_japanese")
def test_verdict_is_in_the_words_of_the_specification(page: str, logs: Path) -> None:
    text = words(page).replace(" ", "")
    run = load_run(logs / "judge_eval_20260101_090000.json")
    # 8 of 10 pass; (8 × 80 + 50 + 0) / 10 = 69: not passed, although enough questions did; with the one read it could.
    assert "⚠️判定保留（採点不能1件）" in text
    for line in summary_text(run.summary).splitlines():
        if (
            "評価結果サマリー" in line or "採点できなかった" in line or "欠けた点" in line or not line
        ):  # of those the page says more
            continue
        assert re.sub(r"[-*: ]", "", line) in re.sub(r"[-*: ]", "", text), line


def test_interval_of_the_pass_rate_is_wilsons(page: str) -> None:
    # 8 of the 9 that were scored: Wilson 0.565 to 0.980.
    assert "合格率の95%区間: 57%〜98%（採点できた9問中8問合格、Wilson）" in words(page)


def test_unread_replies_are_told_with_their_best_case(page: str) -> None:
    text = words(page)
    # With full marks for the one: 9 of 10, (640 + 50 + 100) / 10 = 79.
    assert "採点できなかった回答: 1件" in text and "✅ MVP合格 (9/10, 79.0点)" in text
    assert "判定は欠けた点しだいで変わります" in text and "判定保留（採点不能 1 件）" in text


def test_unread_replies_are_not_in_the_means(page: str) -> None:
    # (8 × 80 + 50) / 9 = 76.7 in each criterion, and in all.
    assert page.count('<td data-label="平均">76.7</td>') == 7


def test_bare_log_says_unknown_and_not_zero(page: str) -> None:
    text = words(page)
    assert "費用 不明" in text and "呼び出し 不明" in text and "Judge（採点モデル）: 不明" in text
    assert "$0" not in text


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["ja", "en"])
def test_texts_are_escaped_and_stay_text(tmp_path: Path, lang: str) -> None:
    log = bare_log([80] * 3, HOSTILE)
    log["results"][0]["category"] = HOSTILE
    log["results"][0]["question_id"] = '"><script>alert(5)</script>'
    log["results"][1]["evaluation"]["scores"] = dict.fromkeys([HOSTILE, *CRITERIA[1:]], 80)
    page = report(tmp_path, save_log(tmp_path / "logs", log), lang=lang)
    found = Page(page)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert all(attrs["src"].startswith("data:image/svg+xml;base64,") for tag, attrs in found.tags if tag == "img")
    assert not {"svg", "iframe", "object", "link", "form", "base", "textarea"} & {tag for tag, _ in found.tags}
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on") or name == "style"]
    assert [attrs["href"] for _, attrs in found.tags if "href" in attrs] == [f"#answer-{n}" for n in (1, 2, 3)]
    assert html.escape("<script>alert(1)</script></textarea>") in page
    assert "⟦U+001B⟧[31mred ⟦U+202E⟧gnirts ⟦U+FEFF⟧" in page and not re.search("[\x1b\u202e\ufeff]", page)
    assert "{{ 7*7 }}" in page
    assert (
        "区間は、同じような質問すべて" not in page and "Intervals are about all" not in page
    )  # so few questions have none


def test_no_address_leaves_the_page(page: str) -> None:
    for svg in re.findall(r"image/svg\+xml;base64,([\w+/=]+)", page):
        picture = base64.b64decode(svg).decode()
        assert not re.search(r'(href|src)="(?!#|data:image/png;)', picture) and "url(" not in picture.replace(
            "url(#", ""
        )
        assert "<script" not in picture
    assert not re.search(r'(src|href|action)\s*=\s*["\']?\s*(https?:)?//', page)
    assert re.findall(r"url\(.{11}", page) == ["url(data:font/w"] and "@import" not in page  # the drawn symbols


def test_policy_allows_the_very_script_and_style_and_nothing_else(page: str) -> None:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert found is not None and found.start() < page.index("<style>") < page.index("<script>")
    policy = dict(part.strip().split(" ", 1) for part in html.unescape(found[1]).split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["img-src"] == policy["font-src"] == "data:"
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"


def concluded(page: str) -> str:
    """What the block at the top of a page says."""
    found = re.search(r'<div id="conclusion">(.*?)</div>', page, re.DOTALL)
    assert found is not None and page.index("<h2>") < found.start() < page.index('<dl class="numbers">')
    return words(found[1])


def test_unread_replies_that_decide_are_the_conclusion_and_are_judged_again(page: str) -> None:
    text = concluded(page)
    assert text.startswith("結論と次にすること 判定保留です。採点不能 1 件。")
    assert "いちばん低い観点は根拠性（平均76.7点）です。" in text and "質問9" not in text
    assert text.endswith("次にすること: 判定に使うJudge1つで、回答を採点し直してください（socjudge rejudge）。")


@pytest.mark.slow
def test_a_failed_run_says_by_how_much_and_which_questions_are_weak_in_what(tmp_path: Path) -> None:
    # 5 of 8 pass, 6 are needed; means: (5 × 90 + 50 + 60 + 66) / 8 = 78.25.
    marks = [90, 90, 90, [80, 80, 80, 40, 40, 40], [66] * 6, [40, 50, 50, 50, 50, 60], 90, 90]
    page = page_of(tmp_path, framed(*(judged("j", q, mark) for q, mark in enumerate(marks, start=1))))
    text = concluded(page)
    assert (
        "<h2>❌ MVP不合格</h2>" in page
        and "不合格です。8問中5問が合格し（必要なのは6問）、全体平均は78.25点（必要なのは70点）でした。" in text
    )
    assert re.findall(r"<small>▼ (\w+): ", page) == ["安全性", "根拠性", "根拠性"]  # of questions 4, 5 and 6
    assert "次にすること: 下の「詳細結果」で評価理由を読み" in text
    english = concluded(page_of(tmp_path, framed(*(judged("j", q, 60) for q in range(1, 8))), lang="en"))
    assert "Not passed: 0 of 7 questions (5 needed)" in english and "weakest criterion is 根拠性 (mean 60.0)" in english


@pytest.mark.slow
def test_a_passed_run_asks_for_the_certificate_and_one_in_doubt_says_so(tmp_path: Path) -> None:
    text = concluded(page_of(tmp_path, framed(*(judged("j", q, 90) for q in range(1, 11)))))
    assert "合格です。10問中10問が合格し" in text and "不合格の質問" not in text and "証明書" in text
    shaky = [judged("j", q, 55 + 40 * (r % 2), answer=str(r), answer_repeat=r) for q in range(1, 11) for r in range(4)]
    assert "点の揺れを考えると判定保留です" in concluded(page_of(tmp_path, framed(*shaky)))
    assert "点の揺れを考えると" not in text


@pytest.mark.slow
def test_the_embedded_judges_conclusion_is_for_reference_and_asks_for_an_llm(tmp_path: Path) -> None:
    page = page_of(tmp_path, framed(*(judged("offline", q, 90) for q in range(1, 11))))
    text = concluded(page)
    assert text.startswith("結論と次にすること 参考判定では、合格です。")
    assert "判断に使う前に、LLMのJudgeで採点し直し（socjudge rejudge）" in text and "socjudge certify" in text
    assert text.count("次にすること:") == 1 and 'class="card good"' not in page


def test_what_failed_is_told_once_with_its_weakest_criterion_and_reason_cut_short_and_escaped(tmp_path: Path) -> None:
    log = bare_log([80] * 8 + [50, None], "<script>x</script>" + "長" * 200)
    page = report(tmp_path, save_log(tmp_path / "logs", log))
    rows = page.partition('<section id="questions"')[2].partition("</section>")[0]
    (shown,) = re.findall(r"<small>▼ (.*?)</small>", rows)
    assert shown == "根拠性: 理由 &lt;script&gt;x&lt;/script&gt;" + "長" * 68 + "…"
    assert page.partition('<section id="scores"')[0].count(">9</a>") == 1


def test_rows_have_texts_scores_reasons_and_warnings(page: str) -> None:
    assert page.count('class="answer') == 10
    assert re.findall(r'<tr data-outcome="(\w+)"', page) == ["failed", "unscored"] + ["passed"] * 8
    text = words(page)
    for part in ("回答3 二行目 文章", "手順書3 文章", "質問3 文章", "理由 文章", "総評 文章", "警告: 根拠不足", "▼50"):
        assert part in text
    assert text.count("警告: 根拠不足") == 1
    assert "回答3\n二行目" in page  # the style keeps line ends


@pytest.mark.slow
def test_english_has_no_japanese_but_names_and_texts(tmp_path: Path, logs: Path) -> None:
    page = report(tmp_path, logs, lang="en")
    assert '<html lang="en">' in page
    shown = words(page)
    for name in [
        *CRITERIA,
        "総合",
        "正常系",
        "MVP合格",
        "MVP不合格",
        "文章",
        "質問",
        "回答",
        "二行目",
        "手順書",
        "理由",
        "総評",
    ]:
        shown = shown.replace(name, "")
    assert re.findall("[\u3040-\u30ff\u3400-\u9fff]+", shown) == []
    assert "95 % interval of the pass rate: 57 % to 98 %" in shown


@pytest.mark.slow
def test_a_run_is_reported_as_its_log_is(tmp_path: Path, logs: Path, page: str) -> None:
    def told(page: str) -> str:
        return words(page).partition("作成: socjudge")[0]

    (log,) = logs.glob("*.json")
    of_log = told(page)
    assert told(report(tmp_path, log)) == of_log
    assert told(page_of(tmp_path, load_run(log))) in (of_log, of_log.replace(log.name, "不明"))


def test_language_is_known_or_refused(tmp_path: Path, logs: Path) -> None:
    with pytest.raises(ConfigError, match="lang is 'fr', expected 'ja' or 'en'"):
        report(tmp_path, logs, lang="fr")


# -- several runs


def three_runs() -> pd.DataFrame:
    """Two judges on the same answers (ten points apart), and a later run with other answers."""
    days = [f"2026-01-0{day}T00:00:00+09:00" for day in (1, 2, 3)]
    rows = []
    for question in range(1, 11):
        rows += [
            judged("old", question, 60 + question, started_at=days[0], run_id="r1"),
            judged("new", question, 70 + question, started_at=days[1], run_id="r2"),
            judged("new", question, 90, answer="b", started_at=days[2], run_id="r3"),
        ]
    return framed(*rows)


def logs_of(folder: Path, scores: pd.DataFrame) -> dict[str, Path]:
    """The runs of a frame, oldest first, as logs in a new folder; equal answers of two runs have equal texts."""
    folder, paths = Path(tempfile.mkdtemp(dir=folder)), {}
    for place, run_id in enumerate(dict.fromkeys(scores.sort_values("started_at", kind="stable")["run_id"])):
        own, results = scores[scores["run_id"] == run_id], []
        for _, rows in own.groupby(["question_id", "answer_repeat", "judge_repeat"], observed=True, sort=False):
            row, read = rows.iloc[0], rows["score"].notna().all()
            marks = {
                name: float(mark) if read else 0 for name, mark in zip(rows["criterion"], rows["score"], strict=True)
            }
            mean = sum(marks.values()) / len(marks)
            results.append(
                {
                    "question_id": row["question_id"], "category": row["category"], "question": f"質問{row['question_id']}",
                    "answer": row["answer_sha256"], "context": "", "expected_keypoints": [],
                    "flags": dict.fromkeys(FLAGS, False), "answer_repeat": int(row["answer_repeat"]),
                    "judge_repeat": int(row["judge_repeat"]),
                    "evaluation": {
                        "scores": marks, "average_score": mean, "passed": bool(read and mean >= 70),
                        "rationale": dict.fromkeys(marks, ""), "overall_comment": "", "processing_time": 1.0,
                        "status": "ok" if read else "unparsable", "model": row["judge_model_resolved"],
                    },
                }
            )  # fmt: skip
        row = own.iloc[0]
        info = RunInfo(
            run_id, row["started_at"].isoformat(), judge_model=row["judge_model"],
            judge_model_resolved=row["judge_model_resolved"], assistant_model=row["assistant_model"],
            judge_prompt_id=row["prompt_id"], judge_prompt_sha256=row["prompt_sha256"],
            dataset_sha256=row["dataset_sha256"], answer_repeats=own["answer_repeat"].max() + 1,
            judge_repeats=own["judge_repeat"].max() + 1, asked=len(results), pass_threshold=70, pass_rate_required=0.7,
        )  # fmt: skip
        log = {"results": results, "summary": bare_log([80])["summary"], "run": asdict(info)}
        name = f"judge_eval_2026010{place + 1}_000000.json"
        paths[run_id] = save_log(folder, json.loads(json.dumps(log, default=int)), name) / name  # no numpy integers
    return paths


def page_of(
    path: Path, scores: pd.DataFrame | EvaluationRun, *, run_id: str = "", baseline: str = "", **options: str
) -> str:
    options = {"lang": "ja"} | options
    if isinstance(scores, EvaluationRun):
        return write_report(path / "page.html", scores, **options).read_text(encoding="utf-8")
    logs = logs_of(path, scores)
    log = logs[run_id] if run_id else list(logs.values())[-1]
    page = write_report(path / "page.html", log, baseline=logs[baseline] if baseline else None, **options)
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_of_three(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The page of `three_runs`, written once for each choice of runs."""
    folder = tmp_path_factory.mktemp("three")
    return functools.cache(lambda **options: page_of(folder, three_runs(), **options))


@pytest.mark.slow
def test_same_answers_are_compared_question_by_question(page_of_three: Callable[..., str]) -> None:
    page = page_of_three(run_id="r2", baseline="r1")
    text = words(page)
    assert (
        "oldに比べ、newは同じ回答に10.0点高く付け" in text
        and "変更した条件: Judge: old→new ／ 応答した採点モデル" in text
    )
    # Old 65.5, new 75.5: all ten differ by 10, so every sign pattern but two is closer: p = 2 / 1024 × 6 = 0.012.
    assert re.search(r"総合 \d+ 65.5 75.5 \+10.0", text) and "0.012" in text
    assert "合格に変わった質問（9問）: 1（61.0→71.0点）" in text


@pytest.mark.slow
def test_other_answers_by_the_same_judge_say_whether_the_change_helped(
    tmp_path: Path, page_of_three: Callable[..., str]
) -> None:
    text = words(page_of_three())
    # 71 … 80 before and 90 after: 19 down to 10 points each, 14.5 in the mean.
    assert "平均は75.5点から90.0点になり（+14.5点）" in text and re.search(r"総合 \d+ 75.5 90.0 \+14.5", text)
    english = words(page_of(tmp_path, three_runs(), lang="en"))
    assert "The mean goes from 75.5 to 90.0 points (+14.5)" in english and "平均は" not in english


@pytest.mark.slow
def test_other_answers_by_another_judge_are_not_compared_and_the_reason_is_said(
    page_of_three: Callable[..., str],
) -> None:
    text = words(page_of_three(run_id="r3", baseline="r1"))
    assert "点数の差がアシスタントの変更によるものか分かりません" in text
    assert "補正後 p" not in text


@pytest.mark.slow
def test_what_many_answers_take_is_bounded_and_what_failed_comes_first(tmp_path: Path) -> None:
    most = page_module.MOST_ANSWERS
    rows = [
        judged("j", q, 40 if q == most + 50 else 90, started_at="2026-01-01T00:00:00Z") for q in range(1, most + 101)
    ]
    page = page_of(tmp_path, framed(*rows))
    assert re.findall(r'<tr data-outcome="(\w+)"', page) == ["failed"] + ["passed"] * (most - 1)
    assert f"全{most + 100}件のうち" in words(page) and "残りはログにあります" in words(page)
    assert len(page.encode()) < 3_000_000


@pytest.mark.slow
def test_the_mean_is_of_as_many_criteria_as_the_log_has(tmp_path: Path) -> None:
    scores = three_runs()
    five = scores[scores["criterion"] != CRITERIA[0]]
    assert "平均は5観点の平均" in words(page_of(tmp_path, five)) and "6観点" not in words(page_of(tmp_path, five))


@pytest.mark.slow
def test_latest_run_is_reported_and_others_are_its_trend(tmp_path: Path, page_of_three: Callable[..., str]) -> None:
    page = page_of(tmp_path, three_runs())
    assert "実行ID</dt><dd>r3" in page and '<section id="trend"' in page
    later_left_out = page_of_three(run_id="r2")
    assert "judge_eval_20260103" not in later_left_out and "2回の実行の推移" in later_left_out


@pytest.mark.slow
def test_baseline_can_be_chosen(tmp_path: Path, page_of_three: Callable[..., str]) -> None:
    text = words(page_of_three(run_id="r3", baseline="r2"))
    assert "指定した実行との比較" in text and re.search(r"総合 \d+ 75.5 90.0", text)
    with pytest.raises(ConfigError, match="r9.json: no such log"):
        write_report(tmp_path / "page.html", list(logs_of(tmp_path, three_runs()).values())[-1], baseline="r9.json")
    same = words(page_of(tmp_path, three_runs(), run_id="r3", baseline="r3"))
    assert "前後とも同じ実行" in same


@pytest.mark.slow
@pytest.mark.parametrize("column", ["judge_model", "prompt_sha256", "assistant_model", "dataset_sha256"])
def test_only_a_run_with_the_same_judge_prompt_assistant_and_questions_is_the_previous_one(
    tmp_path: Path, column: str
) -> None:
    """Of three runs, the one before differs in one of them; by itself, nothing is compared with it."""
    rows = [
        judged("j", q, 80 + q, answer=str(day), started_at=f"2026-01-0{day}T00:00:00+09:00", run_id=f"r{day}")
        for q in range(1, 5) for day in (1, 2, 3)
    ]  # fmt: skip
    scores = framed(*rows).astype({column: object, "run_id": object})
    scores.loc[scores["run_id"] == "r2", column] = "another"
    assert re.search("比較相手: [^·]* · j-2026 · judge_eval_20260101_000000.json", words(page_of(tmp_path, scores)))
    assert '<section id="comparison"' not in page_of(tmp_path, scores, run_id="r2")


@pytest.mark.slow
def test_repeats_tell_how_sure_the_verdict_is(tmp_path: Path) -> None:
    rows = [judged("j", q, 90 + 2 * r, answer=str(r), answer_repeat=r) for q in range(1, 11) for r in range(3)]
    page = page_of(tmp_path, framed(*rows))
    assert "揺れを考えた判定: 合格" in words(page) and "再実行しても合格する確率 >0.99" in words(page)
    assert "総問題数 10問" in words(page)


def test_the_name_of_the_embedded_judge_is_known_from_others() -> None:
    embedded = ["offline", "offline-rubric-1", "offline-extract-1"]
    assert [name for name in [*embedded, "offline-llama", "gpt-4o", "unknown", ""] if is_embedded(name)] == embedded


@pytest.mark.slow
def test_offline_judge_is_called_no_llm(tmp_path: Path, page_of_three: Callable[..., str]) -> None:
    rows = [judged("offline", question, 90) for question in range(1, 11)]
    text = words(page_of(tmp_path, framed(*rows)))
    assert "参考判定（LLMによる採点ではありません）" in text
    assert '<section id="verdict" class="card grey">' in page_of(tmp_path, framed(*rows))
    assert "LLMによる採点ではありません" not in words(page_of_three())


def test_nothing_scored_is_a_page_without_charts(tmp_path: Path) -> None:
    page = page_of(tmp_path, framed(*(judged("j", question, None) for question in (1, 2))))
    assert "採点できた質問がないため" in page and "<img" not in page and "⚠️ 判定保留（採点不能 2 件）" in page


@pytest.mark.slow
def test_charts_have_their_captions_as_alternative_texts(page_of_three: Callable[..., str]) -> None:
    page = page_of_three()
    found = [str(attrs["alt"]) for tag, attrs in Page(page).tags if tag == "img"]
    assert len(found) == 4 and found == re.findall("<figcaption>(.*?)</figcaption>", page)


# -- what the frames lack


@pytest.mark.slow
def test_summary_in_the_log_that_does_not_fit_is_told(tmp_path: Path) -> None:
    log = bare_log([80] * 10)
    log["summary"]["passed_questions"] = 3
    text = words(report(tmp_path, save_log(tmp_path / "logs", log)))
    assert "ログに記録された集計（10問中3問合格）と、この報告の集計（10問中10問合格）が違います" in text
    assert "区間は、同じような質問すべて" in text


# -- logs and files


@pytest.mark.slow
def test_log_can_be_chosen_by_name(tmp_path: Path) -> None:
    logs = save_log(tmp_path / "logs", bare_log([80] * 10))
    save_log(logs, bare_log([90] * 10), "judge_eval_20260102_090000.json")
    assert "judge_eval_20260102_090000</dd>" in report(tmp_path, logs)
    earlier = report(tmp_path, logs / "judge_eval_20260101_090000.json")
    assert "judge_eval_20260101_090000</dd>" in earlier and "20260102" not in earlier
    with pytest.raises(ConfigError, match=r"x\.json: no such log; give a path, or the name of a log in "):
        report(tmp_path, "x.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="there are no logs yet"):
        report(tmp_path, tmp_path / "empty")


def test_the_newest_run_of_a_folder_is_the_one_that_began_last_whatever_its_name(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    begun = {"20260101_090000": "2026-01-01T09:00:00+09:00", "20260101_010000": "2026-01-01T01:00:00+00:00"}
    for (name, moment), points in zip(begun.items(), (80, 40), strict=True):
        log = bare_log([points] * 10) | {"run": {"run_id": name, "started_at": moment}}
        save_log(logs, log, f"judge_eval_{name}.json")
    assert "❌" in report(tmp_path, logs) and "20260101_010000</dd>" in report(tmp_path, logs)


def test_folder_must_exist(tmp_path: Path, logs: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder .*nowhere"):
        write_report(tmp_path / "nowhere" / "r.html", logs)
    with pytest.raises(ConfigError, match="is a folder; give the report a name"):
        write_report(tmp_path, logs)


@pytest.mark.slow
def test_what_is_no_report_of_ours_is_not_replaced(tmp_path: Path, logs: Path, page: str) -> None:
    mine = tmp_path / "handover.html"
    mine.write_text("<h1>my own page</h1>")
    said = "handover.html: is there already and was not written by socjudge; give another name, or remove it"
    with pytest.raises(ConfigError, match=said):
        write_report(mine, logs)
    with pytest.raises(ConfigError, match=said):
        write_report(mine, load_run(next(logs.glob("*.json"))))
    result = CliRunner().invoke(app, ["report", str(mine), "--logs-dir", str(logs)])
    assert result.exit_code == 2 and said in result.stderr
    assert mine.read_text() == "<h1>my own page</h1>"
    ours = tmp_path / "ours.html"
    ours.write_text(page.replace("MVP", "old"), encoding="utf-8")
    assert write_report(ours, logs) == ours and "MVP" in ours.read_text("utf-8")


@pytest.mark.slow
def test_a_log_under_a_much_older_name_is_reported(tmp_path: Path) -> None:
    info = RunInfo("the-run", "2026-01-01T09:00:00+09:00")
    logs = save_log(tmp_path / "logs", bare_log([80]) | {"run": asdict(info)}, "judge_eval_20200101_000000.json")
    assert "実行ID</dt><dd>the-run" in report(tmp_path, logs)


@pytest.mark.slow
def test_file_is_written_whole_or_not_at_all(
    tmp_path: Path, logs: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text(page, encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ConfigError, match="cannot be written .No space left"):
        write_report(target, logs, lang="en")
    assert target.read_text("utf-8") == page and [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_of_ten_answers_is_small(page: str) -> None:
    assert len(page.encode()) < 1_000_000


@pytest.mark.slow
def test_same_frames_give_the_same_page(tmp_path: Path, page_of_three: Callable[..., str]) -> None:
    pages = page_of_three(), page_of(tmp_path, three_runs())
    first, second = (re.sub(r"<footer>.*", "", page) for page in pages)
    assert first == second
