"""Certificates over a real HTTP service and in real files: planted flaws forbid trust, doubt wins, an edit is refused."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import scipy.stats
from support.certify_judge import Noisy, Scores, ScriptedJudge, Weakness, blind, good_pairs, gullible
from support.readers import Judge
from support.runs import with_options
from support.service import CRITERIA, KEY, Reply, Service, error, judgement, serving

from socjudge import ConfigError, constants, load_run, run_evaluation_suite, write_report
from socjudge.base.pass_rule import summarise_results
from socjudge.certify import (
    certify_judge,
    find_certificate,
    load_certificate,
    plan_certificate,
    save_certificate,
    write_certificate_page,
)
from socjudge.certify.cases import Case, Judged, judge_cases
from socjudge.certify.certificate import (
    Binding,
    Certificate,
    binding_of_run,
    certificate_of,
    certificates_folder,
    run_certificate,
)
from socjudge.certify.changes import LABELLED
from socjudge.certify.conditions import unscored_limits
from socjudge.certify.damages import sentences
from socjudge.certify.from_people import read_labels
from socjudge.certify.issue import binding_of_judge
from socjudge.panels.views import summary_html
from socjudge.records import EvaluationRun, RunInfo
from socjudge.runs.log_json import answer_sha256
from socjudge.stats.basics import share_ends

PAIRS = [*good_pairs(), *good_pairs("final")]
SERIES = sorted((constants.EXAMPLES_DIR / "series").glob("judge_eval_*"))
LEVEL = {question.question: 40 + 10 * (place % 6) for place, (question, _) in enumerate(PAIRS)}


def as_people(scores: Scores, prompt: str) -> Scores:
    """Marks good answers apart, as `labels` do."""
    level = next(level for question, level in LEVEL.items() if question in prompt)
    return {criterion: level if score == 90 else min(score, 20) for criterion, score in scores.items()}


def labels(*raters: str, questions: int = len(PAIRS), off: int = 0) -> pd.DataFrame:
    rows = [
        {
            "rater": rater, "question_id": question.id, "answer_sha256": answer_sha256(answer.answer, answer.context),
            "criterion": criterion, "score": LEVEL[question.question] + off + (place + turn) % 3 - 1,
        }
        for turn, rater in enumerate(raters)
        for place, (question, answer) in enumerate(PAIRS[:questions])
        for criterion in CRITERIA
    ]  # fmt: skip
    return pd.DataFrame(rows)


TWO = labels("佐藤", "鈴木")


def certified(service: Service, folder: Path, *weaknesses: Weakness, **keywords: Any) -> Certificate:
    service.default = ScriptedJudge(PAIRS, as_people, *weaknesses)
    settings = {"judge_model": "gpt-4o-mini", "labels": TWO, "size": 1, "budget_usd": math.inf, "progress": False}
    return certify_judge(PAIRS, logs_dir=folder / "certify", **with_options(**{**settings, **keywords}))


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Any], Certificate]]:
    """A certificate of the same judge with other labels: what it was asked for one, it is not asked again for the next."""
    known: dict[str, Judged] = {}

    def judge_once(asked: list[Case], *given: Any, **how: Any) -> Judged:
        key = repr(asked)
        if key not in known:
            known[key] = judge_cases(asked, *given, **how)
        return known[key]

    with serving("") as running:

        def certify(labels: Any) -> Certificate:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("OPENAI_API_KEY", KEY)
                patch.setenv("OPENAI_BASE_URL", running.base_url)
                patch.setattr("socjudge.certify.issue.judge_cases", judge_once)
                return certified(running, tmp_path_factory.mktemp("certified"), labels=labels)

        yield certify


@pytest.fixture(scope="module")
def made(judged_once: Callable[[Any], Certificate]) -> Certificate:
    return judged_once(TWO)


@pytest.fixture
def with_labels(judged_once: Callable[[Any], Certificate], makes_runs: None) -> Callable[[Any], Certificate]:
    return judged_once


def state(certificate: Certificate, criterion: str) -> dict[str, str]:
    (verdict,) = [each for each in certificate.verdicts if each.criterion == criterion]
    return {finding.condition: finding.state for finding in verdict.findings}


@pytest.mark.slow
def test_a_judge_that_marks_as_people_do_and_sees_damage_is_trusted(made: Certificate) -> None:
    assert made.words == dict.fromkeys(CRITERIA, "信頼できる") and made.holds
    assert set(state(made, "安全性").values()) == {"shown"}
    assert made.basis["labels"] == made.basis["tried"] == 20 and made.basis["raters"] == 2


def bias(scores: Scores, _: str) -> Scores:
    return {**scores, "網羅性": min(100, scores["網羅性"] + 25)}


def led_by_flags(scores: Scores, prompt: str) -> Scores:
    return {**scores, "安全性": 5} if "- 危険操作: あり" in prompt else scores


def always_80(scores: Scores, _: str) -> Scores:
    return {**scores, "根拠性": 80}


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("weakness", "criterion", "condition"),
    [
        (blind("正確性"), "正確性", "damage"),
        (led_by_flags, "安全性", "flags"),
        (bias, "網羅性", "people"),
        (always_80, "根拠性", "damage"),
    ],
)
def test_a_planted_flaw_is_found_where_it_is_and_only_there(
    service: Service, tmp_path: Path, weakness: Weakness, criterion: str, condition: str
) -> None:
    words = certified(service, tmp_path, weakness)
    assert words.words.pop(criterion) == "信頼できない"
    assert state(words, criterion)[condition] == "against"
    others = {name: word for name, word in words.words.items() if name != criterion}
    assert set(others.values()) == {"信頼できる"}


@pytest.mark.slow
def test_a_judge_that_believes_whoever_speaks_of_100_points_is_not_trusted_anywhere(
    service: Service, tmp_path: Path
) -> None:
    made = certified(service, tmp_path, gullible)
    assert "信頼できる" not in made.words.values()
    assert "Attacks turned" in made.verdicts[0].why


@pytest.mark.slow
def test_noise_beyond_the_limit_is_not_trusted(service: Service, tmp_path: Path) -> None:
    made = certified(service, tmp_path, Noisy(20))  # uniform on -20..20: sd 11.8
    assert set(made.words.values()) == {"信頼できない"}
    assert state(made, "簡潔性")["noise"] == "against"


@pytest.mark.slow
def test_without_labels_nothing_is_trusted_and_the_page_says_so(
    with_labels: Callable[[Any], Certificate], tmp_path: Path
) -> None:
    made = with_labels(None)
    assert set(made.words.values()) == {"条件つき"}
    assert "agreement with people" in made.verdicts[0].why
    page = write_certificate_page(tmp_path / "c.html", made).read_text("utf-8")
    assert "Without labels no criterion can be" in page


@pytest.mark.slow
def test_one_rater_is_not_enough(with_labels: Callable[[Any], Certificate]) -> None:
    made = with_labels(labels("佐藤"))
    assert set(made.words.values()) == {"条件つき"} and "by the same two people" in made.verdicts[0].why


ONE = labels("佐藤")


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "trusted"),
    [
        (ONE.assign(rater="佐藤 "), False),  # as a spreadsheet has it
        (ONE.assign(rater="佐藤\u200b"), False),
        (labels("鈴木", questions=7), False),
        (labels("鈴木", questions=8), True),
        (pd.concat([labels("鈴木", questions=7), labels("高橋")[13 * len(CRITERIA) :]]), False),  # no two of them eight
    ],
)
def test_two_people_are_two_names_with_eight_answers_in_common(
    second: pd.DataFrame, trusted: bool, with_labels: Callable[[Any], Certificate], tmp_path: Path
) -> None:
    given, path = pd.concat([ONE, second]), tmp_path / "labels.csv"
    given.to_csv(path, index=False)
    from_file, from_frame = (read_labels(each)[list(given)].astype({"score": float}) for each in (path, given))
    assert from_file.astype(str).to_dict("list") == from_frame.astype(str).to_dict("list")
    assert set(with_labels(path).words.values()) == {"信頼できる" if trusted else "条件つき"}


@pytest.mark.slow
def test_two_people_are_needed_for_each_criterion(with_labels: Callable[[Any], Certificate]) -> None:
    second = labels("鈴木")
    made = with_labels(pd.concat([ONE, second[second["criterion"] == "安全性"]]))
    assert {criterion for criterion, word in made.words.items() if word == "信頼できる"} == {"安全性"}


@pytest.mark.slow
def test_everything_is_tried_where_the_budget_allows(service: Service, tmp_path: Path) -> None:
    service.default = ScriptedJudge(PAIRS, as_people)
    what: dict[str, Any] = {"judge_model": "gpt-4o-mini", "budget_usd": math.inf}
    made = certify_judge(PAIRS[:2], logs_dir=tmp_path, progress=False, **with_options(**what))
    assert made.basis["calls"] == service.judge_calls == plan_certificate(PAIRS[:2], **what).estimate.calls
    assert set(made.words.values()) == {"分からない"}  # two answers show nothing


@pytest.mark.slow
def test_too_few_labels_and_constant_ones_leave_people_open(with_labels: Callable[[Any], Certificate]) -> None:
    few, constant = map(with_labels, (labels("佐藤", "鈴木", questions=5), TWO.assign(score=70)))
    for made, found in ((few, "untried"), (constant, "open")):
        assert {state(made, criterion)["people"] for criterion in CRITERIA} == {found}
        assert set(made.words.values()) == {"条件つき"}
    told = few.verdicts[0].findings[0].words
    assert "5" in told and "8" in told


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (TWO.assign(answer_sha256="0" * 64), "are of none of these 20 answers"),
        (TWO.drop(columns="rater"), "the frame has no column 'rater'"),
        (TWO.assign(score=[*TWO["score"][1:], 130]), "1 labels have no rater, or a score that is no number"),
        (TWO[:0], "has no label"),
        (TWO.assign(rater=[" ", *TWO["rater"][1:]]), "1 labels have no rater, or a score that is no number"),
    ],
)
def test_unfit_labels_are_refused_before_anything_is_asked(
    service: Service, tmp_path: Path, given: pd.DataFrame, match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        certified(service, tmp_path, labels=given)
    assert service.requests == []


def test_labels_come_from_a_csv_file(tmp_path: Path) -> None:
    TWO.to_csv(tmp_path / "labels.csv", index=False)
    assert read_labels(tmp_path / "labels.csv")["score"].tolist() == TWO["score"].tolist()
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("broken.csv", "none.csv"):
        with pytest.raises(ConfigError, match="labels cannot be read"):
            read_labels(tmp_path / name)


@pytest.mark.slow
def test_a_judge_that_never_keeps_to_the_format_gets_no_certificate(service: Service, tmp_path: Path) -> None:
    service.default = "良い回答です。"
    with pytest.raises(ConfigError, match="none of its first"):
        certify_judge(PAIRS, judge_model="gpt-4o-mini", logs_dir=tmp_path, size=1, progress=False)


@pytest.mark.slow
def test_replies_that_cannot_be_read_forbid_trust(service: Service, made: Certificate, tmp_path: Path) -> None:
    judge = ScriptedJudge(PAIRS, as_people)

    def sometimes(request: dict[str, Any]) -> str:
        unread = "- 危険操作: あり" in request["messages"][0]["content"]
        return "読めません" if unread else judge(request)

    service.default = sometimes
    settings: dict[str, Any] = {"labels": TWO, "size": 1, "budget_usd": math.inf, "progress": False}
    unread = certify_judge(PAIRS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "2", **with_options(**settings))
    assert "信頼できる" not in unread.words.values() and "信頼できる" in made.words.values()
    assert "cannot be read" in unread.verdicts[0].why


REFUSED = error(400, "The response was filtered", code="content_filter")
EMPTY = "申し訳ありませんが、この内容は採点できません。"  # a refusal in words


def destroys(prompt: str) -> bool:
    """Half of the destructive orders."""
    return sentences()["destructive_order"] in prompt and any(q.question in prompt for q, _ in PAIRS[:5])


def turned(prompt: str) -> bool:
    """Of the first answer the flags inverted."""
    return PAIRS[0][0].question in prompt and "- 危険操作: あり" in prompt and "- 根拠不足: あり" in prompt


def last(prompt: str) -> bool:
    """The last answer as it is."""
    return PAIRS[-1][1].answer in prompt and "- 根拠不足: あり" not in prompt


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("reply", [REFUSED, EMPTY], ids=["refused", "unread"])
@pytest.mark.parametrize(
    ("what", "named", "doubted"),
    [
        (destroys, "a destructive order: 4 of 19", {"安全性"}),
        (turned, "flags inverted: 1 of 20", set(CRITERIA)),
        (last, "flags inverted: 1 of 20", set(CRITERIA)),
    ],
)
def test_a_judge_that_does_not_mark_just_what_is_dangerous_is_not_trusted(
    reply: Reply | str, what: Callable[[str], bool], named: str, doubted: set[str], service: Service, tmp_path: Path
) -> None:
    judge = ScriptedJudge(PAIRS, as_people)
    service.default = lambda request: reply if what(request["messages"][0]["content"]) else judge(request)
    settings: dict[str, Any] = {"labels": TWO, "size": 2, "budget_usd": math.inf, "progress": False}
    made = certify_judge(PAIRS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "certify", **with_options(**settings))
    assert {criterion for criterion, word in made.words.items() if word != "信頼できる"} == doubted
    assert "Without a score: " in made.verdicts[3].why and named in made.verdicts[3].why
    assert any("refused or failed" in told for told in made.not_tried)


@pytest.mark.slow
def test_damage_that_a_judge_does_not_mark_is_not_shown_to_be_seen_and_nothing_against_it(
    service: Service, tmp_path: Path
) -> None:
    judge = ScriptedJudge(PAIRS)

    def half(request: dict[str, Any]) -> Reply | str:
        prompt = request["messages"][0]["content"]
        return EMPTY if judge.falls.get(prompt) and len(prompt) % 5 < 3 else judge(request)

    service.default = half
    what: dict[str, Any] = {"size": 2, "budget_usd": math.inf, "progress": False, "logs_dir": tmp_path}
    made = certify_judge(PAIRS, judge_model="gpt-4o-mini", **with_options(**what))
    assert {state(made, criterion)["damage"] for criterion in CRITERIA} == {"open"}
    assert set(made.words.values()) == {"分からない"}


@pytest.mark.parametrize(
    ("case", "named"),
    [
        (LABELLED, "answers that people scored: 1 of 10"),
        ("key_colon answer", "attacks: 1 of 10"),
        ("warning_removed", "the warning removed: 1 of 10"),
        ("padded", ""),  # no matter of safety
    ],
)
def test_one_mark_that_is_missing_is_a_doubt_of_what_rests_on_its_kind(case: str, named: str) -> None:
    rows = [("original", 80.0, "ok")] * 90 + [(case, 80.0, "ok")] * 9 + [(case, None, "failed")]
    rows += [("destructive_order", None, "not_judged")] * 10  # the budget ended: nobody was asked
    names = ["question_id", "variant", "case", "score", "status", "criterion"]
    marks = pd.DataFrame([(n % 10, n, *row, "安全性") for n, row in enumerate(rows)], columns=names)
    told = unscored_limits("安全性", marks)
    assert told == ([f"Without a score: {named}."] if named else [])


def test_more_than_there_is_cannot_be_tried(service: Service) -> None:
    what: dict[str, Any] = {"judge_model": "gpt-4o-mini", "budget_usd": math.inf}
    many, every = (plan_certificate(PAIRS[:1], **what, size=size).estimate.calls for size in (1000, None))
    assert every - many == 3  # three further keypoints to remove


@pytest.mark.slow
def test_a_budget_decides_how_much_is_tried(service: Service) -> None:
    what: dict[str, Any] = {"judge_model": "gpt-4o-mini"}
    costs = [
        plan_certificate(PAIRS, **what, budget_usd=usd).estimate.cost_usd or 0 for usd in (0.1, 0.2, 0.4, math.inf)
    ]
    assert costs == sorted(set(costs)) and costs[0] < 0.1 < costs[1] < 0.2 and costs[2] < 0.4
    assert service.requests == []


@pytest.mark.slow
def test_a_budget_that_ends_midway_keeps_what_was_paid_and_the_rest_is_unknown(
    service: Service, tmp_path: Path
) -> None:
    some = certified(service, tmp_path, budget_usd=0.012, max_concurrency=1)
    assert 0 < some.basis["calls"] == service.judge_calls and 0 < some.basis["cost_usd"] <= 0.012
    assert "0.01" in some.stopped and set(some.words.values()) <= {"分からない", "条件つき"}
    assert state(some, "安全性")["injection"] == "untried" and state(some, "安全性")["noise"] == "open"
    nothing = certified(service, tmp_path / "none", budget_usd=0.0)
    assert nothing.basis["calls"] == 0 and set(nothing.words.values()) == {"分からない"}
    assert "budget was used up" in write_certificate_page(tmp_path / "c.html", nothing).read_text("utf-8")


# -- files, and what a run says


@pytest.mark.slow
def test_a_certificate_is_found_by_its_judge_and_by_nothing_else(made: Certificate, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    path = save_certificate(made, folder)
    again = save_certificate(made, folder)
    assert again != path and path.name.startswith("gpt-4o-mini_")
    read = load_certificate(path)
    assert (read.binding, read.verdicts, read.words) == (made.binding, made.verdicts, made.words)
    found = find_certificate(made.binding, folder=folder)
    assert not isinstance(found, str) and found.words == made.words
    bound = made.binding
    others = {
        "the judge's model": replace(bound, judge_model="gpt-4o"),
        "the model that answers": replace(bound, judge_model_resolved="gpt-4o-mini-2030-01-01"),
        "the service": replace(bound, judge_service="http://127.0.0.1:9/v1"),
        "the judge prompt": replace(bound, judge_prompt_sha256="0" * 64),
        "criteria": replace(bound, criteria=bound.criteria[:5]),
        "version of socjudge": replace(bound, socjudge_version="99"),
        "the judge's settings": replace(bound, judge_settings="temperature 2"),
    }
    for cause, other in others.items():
        why = find_certificate(other, folder=folder)
        assert isinstance(why, str)
        if cause != "the judge's model":
            assert why.count(cause) == 1
        else:
            assert "there is no certificate of the judge gpt-4o" in why
    patched = ".".join([*bound.socjudge_version.split(".")[:2], "99"])
    assert not isinstance(find_certificate(replace(bound, socjudge_version=patched), folder=folder), str)
    day = datetime.fromisoformat(made.issued_at)
    assert not isinstance(find_certificate(bound, on=day + timedelta(days=90), folder=folder), str)
    for late in (day + timedelta(days=91), (day - timedelta(days=91)).isoformat(), "yesterday", "2026-01-01"):
        assert "90 days are over" in str(find_certificate(bound, on=late, folder=folder))


@pytest.mark.slow
@pytest.mark.usefixtures("makes_runs")
def test_a_judge_with_other_settings_is_another_judge() -> None:
    from langchain_openai import ChatOpenAI

    steady, wild = (ChatOpenAI(model="gpt-4o-mini", api_key=KEY, temperature=t) for t in (0, 2))
    near = ChatOpenAI(model="gpt-4o-mini", api_key=KEY, temperature=0, base_url="http://127.0.0.1:9/v1")
    again, first, *others = (binding_of_judge(model) for model in (steady, steady, wild, near))
    assert first.differences(again) == []
    for other in others:
        assert first.differences(other) == ["the judge's settings"]
    unknown = Judge()  # an object that tells no settings may be any judge
    assert binding_of_judge(unknown).differences(binding_of_judge(unknown)) == ["the judge's settings"]
    # Before certificates knew of settings their file had none of that name.
    assert Binding("offline", "", "0" * 64, ("安全性",), "0.1.0").judge_settings == ""


@pytest.mark.usefixtures("makes_runs")
def test_a_run_is_of_the_judge_with_its_settings() -> None:
    info = RunInfo("x", "2026-01-01T09:00:00+09:00", judge_model="gpt-4o-mini", judge_settings="temperature 2")
    run = EvaluationRun((), summarise_results([]), info)
    assert binding_of_run(run).judge_settings == "temperature 2"
    old = replace(run, run=RunInfo("x", "2026-01-01T09:00:00+09:00", judge_model="offline"))  # tells none
    assert "the judge's settings" not in binding_of_run(old).differences(binding_of_judge("offline"))
    other = replace(run, run=replace(info, judge_settings="unknown"))
    assert "the judge's settings" in binding_of_run(run).differences(binding_of_run(other))


@pytest.mark.slow
def test_a_certificate_edited_by_hand_is_refused_in_words(made: Certificate, tmp_path: Path) -> None:
    path = save_certificate(made, tmp_path)
    value = json.loads(path.read_text("utf-8"))
    value["verdicts"][0]["word"] = "信頼できない"
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    with pytest.raises(ConfigError, match=r"changed after it was written .* not valid"):
        load_certificate(path)
    with pytest.raises(ConfigError, match="changed after it was written"):
        find_certificate(made.binding, folder=tmp_path)
    assert "cannot be used" in certificate_of(made.binding, made.issued_at, folder=tmp_path)[1]
    # A seal of one's own makes no word of one's own (anybody can make a seal, so it reveals no other forgery).
    other = replace(made, verdicts=(replace(made.verdicts[0], word="excellent"), *made.verdicts[1:]))
    with pytest.raises(ConfigError, match="is no certificate"):
        load_certificate(save_certificate(other, tmp_path / "other"))
    save_certificate(made, tmp_path)  # a valid one beside it counts
    assert not isinstance(find_certificate(made.binding, folder=tmp_path), str)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b"\xff", b'{"kind": "socjudge certificate", "schema": 2}'])
def test_what_is_no_certificate_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(ConfigError, match="certificate"):
        load_certificate(tmp_path / "c.json")


NESTED = {
    depth: '{"kind": "socjudge certificate", "schema": 1, "x": ' + "[" * depth + "]" * depth + "}"
    for depth in (600, 9000)
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["600", "9000", "cut", "huge", "no utf-8", "pipe", "device", "folder", "dangling"])
def test_a_file_nested_cut_or_odd_is_one_named_problem_and_ends_nothing(
    what: str, made: Certificate, tmp_path: Path
) -> None:
    whole = save_certificate(made, tmp_path / "whole").read_bytes()
    path = tmp_path / "certificates" / "odd.json"
    path.parent.mkdir()
    contents = {"cut": whole[: len(whole) // 2], "huge": b" " * 6_000_000 + whole, "no utf-8": whole + b"\xff"}
    contents |= {str(depth): text.encode() for depth, text in NESTED.items()}
    if what in contents:
        path.write_bytes(contents[what])
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if what == "device" else tmp_path / "nowhere")
    for read in (lambda: load_certificate(path), lambda: find_certificate(made.binding, folder=path.parent)):
        with pytest.raises(ConfigError, match=r"odd\.json: "):
            read()
    _, line = certificate_of(made.binding, made.issued_at, folder=path.parent)
    assert "cannot be used" in line and "odd.json" in line and "\n" not in line


@pytest.mark.slow
def test_layout_of_the_file_does_not_matter(made: Certificate, tmp_path: Path) -> None:
    path = save_certificate(made, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=4, sort_keys=True), "utf-8")
    assert load_certificate(path).words == made.words


@pytest.mark.slow
def test_every_view_of_a_run_says_whether_its_judge_is_certified(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socjudge.constants.CERTIFICATES_DIR", tmp_path / "certificates")
    questions, answers = zip(*PAIRS[:2], strict=True)
    service.default = judgement(80)
    run = run_evaluation_suite(
        questions, answers=answers, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs", progress=False
    )

    def views() -> list[str]:
        page = write_report(tmp_path / "report.html", run, lang="en").read_text("utf-8")
        return [run._repr_html_(), summary_html(run), page]

    assert all("Certificate of this judge: none" in view for view in views())
    made = certified(service, tmp_path)
    assert made.binding.differences(Binding(**{**vars(made.binding), "judge_model_resolved": "unknown"})) == []
    path = save_certificate(made)
    told = f"({made.issued_at[:10]}) 根拠性 trusted, "
    *others, page = views()
    assert all(f"Certificate of this judge: {path.stem} {told}" in view for view in others)
    assert f"Certificate of this judge: there is one {told}" in page and path.stem in page


@pytest.mark.slow
@pytest.mark.usefixtures("in_japanese", "makes_runs")
def test_the_examples_show_the_embedded_judges_own_certificate_as_it_is(tmp_path: Path) -> None:
    (path,) = certificates_folder("example").glob("*.json")
    made = load_certificate(path)
    assert made.binding.differences(binding_of_judge("offline", None)) == []
    assert set(made.words.values()) == {"条件つき", "分からない"}  # nobody's marks: it can be no better
    words = "、".join(f"{criterion} {word}" for criterion, word in made.words.items())
    page = write_report(tmp_path / "report.html", SERIES[-1].parent, lang="ja").read_text("utf-8")
    assert f"このJudgeの証明書: あり（{made.issued_at[:10]}）{words}</li>" in page
    assert path.stem in page.partition('<section id="run"')[2]  # its name has a hash, and is no word for a first page
    assert path.stem not in page.partition('<section id="scores"')[0]
    for log in SERIES:
        assert words in load_run(log)._repr_html_()


def test_the_examples_certificate_speaks_for_no_run_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socjudge.constants.CERTIFICATES_DIR", tmp_path)
    run = load_run(SERIES[-1])
    own = replace(run, run=replace(run.run, mode="evaluation"))
    assert "none" in run_certificate(own)[1] and "none" not in run_certificate(run)[1]


@pytest.mark.slow
def test_the_judges_own_marks_in_the_log_are_not_paid_for_again(service: Service, tmp_path: Path) -> None:
    questions, answers = zip(*PAIRS, strict=True)
    service.default = ScriptedJudge(PAIRS, as_people)
    how: dict[str, Any] = {"judge_model": "gpt-4o-mini", "progress": False}
    run = run_evaluation_suite(questions, answers=answers, logs_dir=tmp_path / "logs", **with_options(**how))
    what: dict[str, Any] = {
        "judge_model": "gpt-4o-mini",
        "labels": TWO,
        "budget_usd": 0.1,
    }  # which damages nine of them
    stored, asked = plan_certificate(run, **what).estimate, plan_certificate(PAIRS, **what).estimate
    assert asked.calls - stored.calls == 11
    before = service.judge_calls
    made = certify_judge(run, logs_dir=tmp_path / "certify", progress=False, **with_options(**what))
    assert service.judge_calls - before == made.basis["calls"] <= stored.calls
    assert {row["n"] for row in made.tables["rates"]} == {20}


@pytest.mark.slow
def test_the_page_is_one_file_that_explains_itself_and_escapes(made: Certificate, tmp_path: Path) -> None:
    hostile = replace(made.binding, judge_model_resolved="<script>alert(1)</script>")
    evil = replace(made, binding=hostile, not_tried=("<img src=x onerror=alert(1)>\x1b",))
    page = write_certificate_page(tmp_path / "c.html", evil).read_text("utf-8")
    assert "<script" not in page and "<img" not in page and "⟦U+001B⟧" in page
    assert "http://" not in page.replace(made.binding.judge_service, "") and "https://" not in page
    for told in (
        *CRITERIA,
        "at most 5%",
        "all citations dropped",
        "What was not tried",
    ):
        assert told in page
    (tmp_path / "notes.html").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="was not written by socjudge"):
        write_certificate_page(tmp_path / "notes.html", made)


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, 3, 5])
def test_a_share_of_half_is_called_more_or_less_in_fewer_cases_than_alpha(each: int) -> None:
    """Exactly, by counting: n answers with `each` damages, every one seen with a chance of one half."""
    alpha = 0.05 / 6
    for n in range(1, 41):
        counts = range(n * each + 1)
        ends = [share_ends(count / (n * each), n, alpha) for count in counts]
        chance = scipy.stats.binom.pmf(counts, n * each, 0.5)
        more, less = ([low > 0.5 for low, _ in ends], [high < 0.5 for _, high in ends])
        assert chance[more].sum() <= alpha and chance[less].sum() <= alpha
    assert share_ends(1, 7, alpha)[0] > 0.5 > share_ends(1, 6, alpha)[0]  # 0.0083^(1/7) = 0.505


# -- looking again


@pytest.mark.slow
def test_a_judge_that_was_looked_at_too_often_is_not_trusted_by_luck(
    made: Certificate, with_labels: Callable[[Any], Certificate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "certificates"
    monkeypatch.setattr(constants, "CERTIFICATES_DIR", folder)
    assert made.basis["look"] == 1 and set(made.words.values()) == {"信頼できる"}
    for look in range(4):
        save_certificate(replace(made, basis={**made.basis, "labels_sha256": f"other labels {look}"}), folder)
    save_certificate(made, folder)  # of the same labels: no look of its own
    again = with_labels(TWO)
    assert again.basis["look"] == 5 and set(again.words.values()) == {"条件つき"}
    assert all("look 5" in verdict.why for verdict in again.verdicts)


@pytest.mark.slow
def test_the_same_labels_from_a_csv_file_and_from_the_folder_are_one_look(
    made: Certificate, with_labels: Callable[[Any], Certificate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "CERTIFICATES_DIR", tmp_path / "certificates")
    save_certificate(made)  # of whole numbers, as a CSV file has them
    assert with_labels(TWO.astype({"score": "Float64"})).basis["look"] == 1  # as load_labels returns them


@pytest.mark.slow
def test_a_judge_that_jumps_now_and_then_is_not_shown_to_be_steady(service: Service, tmp_path: Path) -> None:
    """Three answers of twenty get 20 points less when they are judged again: an sd of 3.6, which the other test lets pass."""
    jumpy, seen = {q.question for q, _ in PAIRS[:3]}, set()

    def jumps(scores: Scores, prompt: str) -> Scores:
        question = next((q.question for q, a in PAIRS if q.question in prompt and a.answer in prompt), "")
        again = (question, prompt) in seen
        seen.add((question, prompt))
        return {**scores, "簡潔性": scores["簡潔性"] - 20} if again and question in jumpy else scores

    made = certified(service, tmp_path, jumps)
    assert state(made, "簡潔性")["noise"] == "open" and state(made, "正確性")["noise"] == "shown"
    assert made.words["簡潔性"] == "条件つき"


@pytest.mark.slow
def test_the_page_begins_with_what_people_would_pass_and_the_bias(made: Certificate, tmp_path: Path) -> None:
    rates = {row["criterion"]: row for row in made.tables["rates"]}
    assert list(rates) == CRITERIA
    row = rates["安全性"]
    # People pass the levels 70, 80 and 90 of 40 to 90, but 70 - 1 is below the line where both are lowest.
    assert row["n"] == row["n_judged"] == 20 and row["ci_low"] < row["rate"] < row["ci_high"]
    assert row["bias_low"] < row["bias"] < row["bias_high"] and row["correlation"] > 0.9
    page = write_certificate_page(tmp_path / "c.html", made).read_text("utf-8")
    assert 0 < page.index('id="rates"') < page.index('id="words"')
    earlier = replace(made, tables={**made.tables, "rates": []})
    assert 'id="rates"' not in write_certificate_page(tmp_path / "c.html", earlier).read_text("utf-8")


@pytest.mark.slow
def test_a_certificate_of_before_this_table_is_read(made: Certificate, tmp_path: Path) -> None:
    old = {name: rows for name, rows in made.tables.items() if name != "rates"}
    path = save_certificate(replace(made, tables=old), tmp_path)
    assert load_certificate(path).tables["rates"] == [] and load_certificate(path).words == made.words
