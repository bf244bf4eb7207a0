"""Random runs against a plain oracle: what the scripted service gave, by the specification's rules, is what every view says.

A seed decides all: questions, judges, faults, refusals, where it is broken off, what is judged again. The oracle knows
the service's own record of its calls and the log's JSON, and nothing of socjudge. A law that does not hold is noted, so
that one seed tells all that is wrong with it; seed 42 of 6 blocks is in block 0. Two hundred runs take 100 s of CPU:
SOCJUDGE_EXAMPLES=200 python -m pytest tests/runs/test_random_runs.py"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.command_line import socjudge_here
from support.own_prices import set_prices
from support.runs import with_options
from support.scripted_world import ASSISTANT, CHEAPER, FILTERED, PRICES, Own, World, paid
from support.service import CRITERIA, KEY, serving

import socjudge as sj
from socjudge import constants
from socjudge.report import page
from socjudge.runbooks.index import RunbookIndex

SEEDS = range(int(os.environ.get("SOCJUDGE_EXAMPLES", "2")))
BLOCKS = -(-len(SEEDS) // 10)
MOST_STARTS = 7
DEAREST = 0.08  # dollars: more than any of these calls can cost
Begin = Callable[..., sj.EvaluationRun]


# -- the oracle


@dataclass(frozen=True)
class Truth:
    """The specification's summary. best: whether it passes with full marks for what was not read."""

    total: int
    passed: int
    mean: Fraction
    mvp: bool
    best: bool
    n_unscored: int
    means: dict[int, Fraction | None] = field(compare=False)  # by place in the log: 0–100, None if not read

    @property
    def is_open(self) -> bool:
        return self.best and not self.mvp

    @property
    def code(self) -> int:
        return 0 if self.mvp else 3 if self.is_open else 1


def judge_by_hand(rows: list[tuple[int, Fraction | None]], line: int, rate: float) -> Truth:
    """The pass rule of the specification over (question, mean of its six marks, None if unread)."""

    def outcome(unread: int) -> tuple[int, Fraction, bool]:
        points: dict[int, list[Fraction]] = {}
        for question, mean in rows:
            points.setdefault(question, []).append(Fraction(unread) if mean is None else mean)
        means = [sum(each, Fraction()) / len(each) for each in points.values()]
        passed, overall = sum(mean >= line for mean in means), sum(means, Fraction()) / len(means)
        return passed, overall, passed >= Fraction(str(rate)) * len(means) and overall >= line

    passed, mean, mvp = outcome(0)
    unread = sum(mean is None for _, mean in rows)
    total = len({question for question, _ in rows})
    return Truth(total, passed, mean, mvp, outcome(100)[2], unread, {i: mean for i, (_, mean) in enumerate(rows)})


# -- a run of the world, and its laws


class Trial:
    """What a user does with a world, and the laws that did not hold."""

    def __init__(self, world: World, folder: Path, index: RunbookIndex, url: str) -> None:
        self.world, self.folder, self.index, self.url = world, folder, index, url
        self.logs, self.broken, self.is_stuck = folder / "logs", list[str](), False
        self.renamed = " (the replies name a cheaper model)" if world.renames == CHEAPER else ""
        self.truths: dict[str, Truth] = {}  # by log
        self.bills: dict[str, dict[str, float | None]] = {}  # likewise, where it is known which calls are whose
        self.questions = [
            sj.EvalQuestion(i, "正常系", f"問い#{i}#の手順を教えてください。", ("要点",)) for i in range(world.n)
        ]
        self.dataset = folder / "questions.json"
        plain = [
            {"id": q.id, "category": q.category, "question": q.question, "expected_keypoints": ["要点"]}
            for q in self.questions
        ]
        self.dataset.write_text(json.dumps(plain, ensure_ascii=False), encoding="utf-8")

    def law(self, holds: bool, said: str) -> None:
        if not holds and said not in self.broken:
            self.broken.append(said)

    def written(self) -> list[Path]:
        return sorted(self.logs.glob("judge_eval_*.json"))

    def work(self, what: str, begin: Begin, command: list[str] | None, judge: str) -> list[Path]:
        """Start it again and again until there is a log; gives it, or []. begin: by the library, command: by the command
        line."""
        world, before, first = self.world, set(self.written()), len(self.world.calls)
        done_at: list[tuple[str, int, int]] = []
        for number in range(MOST_STARTS):
            so_far = sum(call.against_cap for call in world.calls[first:])
            by_command = command is not None and world.draw.random() < 0.4
            cap, seen = world.begin(number, so_far, by_command=by_command), len(world.calls)
            told, run = self.by_command(command or [], cap) if by_command else self.by_library(begin, cap)
            logs = [path for path in self.written() if path not in before]
            counted = sum(call.against_cap for call in world.calls[first:])
            if cap is not None and len(world.calls) > seen:
                self.law(counted <= cap + 1e-9, f"{what}: the cap is exceeded")
                self.law(
                    "the budget" not in told.lower() or counted + DEAREST > cap,
                    f"{what}: the budget stops what it has room for",
                )
            # A judge of whom nothing could be read stops it too, and names the last cause.
            refused = any(FILTERED in line and "could be read" not in line for line in told.splitlines())
            self.law(not refused, f"{what}: a content refusal stops {'a resume' if number else 'its first start'}")
            unfinished = sj.unfinished_runs(self.logs)
            when = "in the end" if logs else "while it is broken off"
            self.check_money(f"{what}: {when}", first, [*map(log_cost, logs), *(each.cost_usd for each in unfinished)])
            if logs:
                break
            for each in unfinished:
                self.law(each.done <= each.total, f"{what}: more is done than there is")
            done_at += [(each.run.judge_model, each.done, world.start) for each in unfinished]
        else:
            self.is_stuck = True
            self.law(False, f"{what}: cannot be finished ({told.strip()[:200]})")
            return []
        self.law(not unfinished, f"{what}: a journal is left over")
        (log,) = logs
        truth = self.check_rows(what, log, done_at)
        if by_command:
            self.law(run == truth.code, f"{what}: the exit code")
        else:
            self.check_summary(f"{what}: the run", vars(run.summary), truth)
        bill = paid(world.calls[first:])
        for name in ("calls", "input_tokens", "output_tokens"):
            sums = sum(usage[name] for usage in log_usages(log))
            self.law(sums == bill[name], f"{what}: {name} of the logs do not add up")
        self.bills[log.name] = bill
        self.law(json.loads(log.read_text("utf-8"))["run"]["judge_model"] == judge, f"{what}: another judge")
        return logs

    def by_library(self, begin: Begin, cap: float | None) -> tuple[str, Any]:
        """One start: what was said of why it ended, if it was not finished; the run."""
        world, results = self.world, iter(range(1, 1000))

        def on_result(_: Any) -> None:
            if world.fate == "ctrl-c" and next(results) == world.fate_at // 2 + 1:
                raise KeyboardInterrupt

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                options: dict[str, Any] = {"max_concurrency": world.at_once, "max_failures": 4}
                run = begin(stop=world.stop, on_result=on_result, max_cost_usd=cap, **options)
                told = ""
            except KeyboardInterrupt:
                run, told = None, ""
            except sj.SocJudgeError as problem:
                run, told = None, f"{type(problem).__name__}: {problem}"
                fine = not isinstance(problem, sj.ConfigError) or "judgements could be read" in told
                self.law(fine, f"stopped by {told[:200]}")
        return "\n".join([told, *(str(each.message) for each in caught)]), run

    def by_command(self, command: list[str], cap: float | None) -> tuple[str, int]:
        at_once = f"--max-concurrency={self.world.at_once}"
        given = [*command, "--yes", "--quiet", "--max-failures=4", at_once, f"--logs-dir={self.logs}"]
        given += [] if cap is None else [f"--max-cost-usd={cap!r}"]
        done = socjudge_here(*given, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=self.url)
        self.law("Traceback" not in done.stderr, f"traceback: {done.stderr[-300:]}")
        return done.stderr, done.returncode

    def check_money(self, what: str, first: int, costs: list[float | None]) -> None:
        right = paid(self.world.calls[first:])["cost_usd"]
        here = None if None in costs else sum(cost or 0.0 for cost in costs)
        self.law(same(here, right), f"{what}, the money of logs and journals does not add up{self.renamed}")

    def check_rows(self, what: str, path: Path, done_at: list[tuple[str, int, int]]) -> Truth:
        """The log's rows against the service's record, and its summary against the oracle's."""
        world, log = self.world, json.loads(path.read_text("utf-8"))
        info, rows = log["run"], log["results"]
        judge, places = info["judge_model"], Counter(
            (row["question_id"], row["answer_repeat"], row["judge_repeat"]) for row in rows
        )  # fmt: skip
        wanted = {
            (q, a, j)
            for q in range(world.n)
            for a in range(info["answer_repeats"])
            for j in range(info["judge_repeats"])
        }
        self.law(set(places) == wanted and set(places.values()) == {1}, f"{what}: rows are not each exactly once")
        used, answers, points, last = Counter[int](), dict[Any, set[str]](), list[Any](), list[tuple[str, int]]()
        for row in rows:
            marks, question = row["evaluation"], row["question_id"]
            answers.setdefault((question, row["answer_repeat"]), set()).add(row["answer"])
            status, call = marks["status"], None
            if said := re.search(r"採点#(\d+)#", marks["overall_comment"] if status == "ok" else marks["raw_text"]):
                call = world.calls[int(said[1])]
                used[call.serial] += 1
                self.law((call.model, call.question) == (judge, question), f"{what}: another's marks")
            refused = (judge, question) in world.refused
            no_answer = row["answer"] == "" and (info["rejudged_from"] or (ASSISTANT, question) in world.refused)
            again = any(c.got == "refused" and (c.model, c.question) == (judge, question) for c in world.calls)
            must, may = refused or bool(no_answer), again  # it may also refuse to reply once more
            self.law(
                status == "failed" if must else status != "failed" or may, f"{what}: {status} but refused is {refused}"
            )
            if status == "ok":
                right = call is not None and call.got == "mark" and tuple(marks["scores"].values()) == call.marks
                self.law(right, f"{what}: marks are not what the service gave")
                points.append((question, Fraction(sum(call.marks if call else ()), len(CRITERIA))))
                self.law(marks["passed"] == (points[-1][1] >= world.line), f"{what}: passed of a row")
            else:
                self.law(
                    status == "failed" or (call is not None and call.got == "unread"), f"{what}: unread without a reply"
                )
                points.append((question, None))
            if status != "failed" and call is not None:
                last.append((status, call.start))
        self.law(set(used.values()) <= {1}, f"{what}: one reply counts twice")
        self.law(all(len(each) == 1 for each in answers.values()), f"{what}: one answer repeat has several answers")
        for name, done, start in done_at:
            if name == judge:
                kept = [status for status, at in last if at <= start]
                self.law(kept.count("ok") <= done, f"{what}: unfinished_runs counts too little as done")
                self.law(done <= len(kept), f"{what}: unfinished_runs counts as done what is asked again")
        truth = self.truths[path.name] = judge_by_hand(points, world.line, world.rate)
        self.check_summary(f"{what}: the log", log["summary"], truth)
        return truth

    def check_summary(self, what: str, summary: Any, truth: Truth) -> None:
        rate = truth.passed / truth.total
        here = [
            summary[name]
            for name in ("total_questions", "passed_questions", "pass_rate", "average_score", "mvp_passed")
        ]
        right = [truth.total, truth.passed, pytest.approx(rate), pytest.approx(float(truth.mean)), truth.mvp]
        self.law(
            here == right,
            f"{what}: summary {here}, by hand {truth.passed} of {truth.total}, {float(truth.mean):.2f}, {truth.mvp}",
        )
        self.law(summary["n_unscored"] == truth.n_unscored, f"{what}: n_unscored")

    # -- the views

    def check_views(self) -> None:
        runs, results, scores = (load(self.logs) for load in (sj.load_runs, sj.load_results, sj.load_scores))
        self.law(set(runs["log"]) == set(self.truths), "load_runs: not the logs there are")
        gates = sj.stats.gate_confidence(results).set_index("run_id")
        for row in runs.to_dict("records"):
            log, truth = row["log"], self.truths[row["log"]]
            self.check_summary("load_runs", row, truth)
            read = [mean for mean in truth.means.values() if mean is not None]
            self.law(row["n_results"] == len(truth.means), "load_runs: n_results")
            self.law(same(row["mean_score"], float(sum(read) / len(read)) if read else None), "load_runs: mean_score")
            for name, right in self.bills.get(log, {}).items():
                self.law(same(row[name], right), f"load_runs: {name}{self.renamed}")
            own, marks = (frame[frame["log"] == log] for frame in (results, scores))
            right = [None if mean is None else float(mean) for mean in truth.means.values()]
            self.law(
                len(own) == len(right) and all(map(same, own["average_score"], right)), "load_results: average_score"
            )
            unread = marks.groupby(["question_id", "answer_repeat", "judge_repeat"], sort=False)["score"].agg(
                ["mean", "count"]
            )
            self.law(
                [n or None for n in unread["count"]] == [None if m is None else 6 for m in right],
                "load_scores: missing marks",
            )
            self.law(all(map(same, unread["mean"], right)), "load_scores: score")
            gate = gates.loc[row["run_id"]]
            self.law(gate["mvp_passed"] == truth.mvp, "gate_confidence: mvp_passed")
            self.law(gate["n_missing"] == truth.n_unscored, "gate_confidence: n_missing")
        self.check_texts(*self.world.draw.choice(sorted(self.truths.items())))
        found = sj.history.check_logs(self.logs)
        wrong = found[found["problem"] != "unscored"]
        self.law(wrong.empty, f"doctor: {wrong['problem'].tolist()} {wrong['what'].tolist()}")
        there = {log for log, truth in self.truths.items() if truth.n_unscored}
        self.law(set(found["file"]) == there, "doctor: other logs with unscored rows")

    def check_texts(self, log: str, truth: Truth) -> None:
        run, headline = sj.load_run(self.logs / log), "✅ MVP合格" if truth.mvp else "❌ MVP不合格"
        headline = "" if truth.is_open else headline
        text = sj.summary_text(run)
        self.law(headline in text and f"合格問題数: {truth.passed}問" in text, "summary_text: verdict")
        self.law(("undecided" in text) == truth.is_open, "summary_text: undecided")
        html = sj.write_report(self.folder / "report.html", run, lang="ja").read_text("utf-8")
        section = html[html.index('<section id="verdict"') :]
        heads, numbers = re.findall(r"<h2>([^<]*)", section), re.findall(r"<dd>(\d+)", section)
        self.law(headline in heads[0], "report: headline")
        self.law(("⚠️ 判定保留" in heads[0]) == truth.is_open, "report: undecided")
        self.law(numbers[:2] == [str(truth.total), str(truth.passed)], "report: counts")
        icon = "✅" if truth.mvp else "⚠️" if truth.is_open else "❌"
        self.law(f"<title>{icon}" in html, "report: title")


def same(here: Any, right: float | None) -> bool:
    """Whether two numbers are the same, one that is missing being none."""
    return pd.isna(here) if right is None else not pd.isna(here) and here == pytest.approx(right)


def is_torn(path: Path) -> bool:
    """Whether a log has an answer without scores."""
    rows = json.loads(path.read_text("utf-8"))["results"]
    return any(row["evaluation"]["status"] != "ok" and row["answer"] for row in rows)


def log_usages(path: Path) -> list[dict[str, Any]]:
    info = json.loads(path.read_text("utf-8"))["run"]
    return [info["assistant_usage"], info["judge_usage"]]


def log_cost(path: Path) -> float | None:
    costs = [usage["cost_usd"] for usage in log_usages(path)]
    return None if None in costs else sum(costs)


@contextmanager
def trial(seed: int, folder: Path, index: RunbookIndex) -> Iterator[Trial]:
    world = World(seed)
    folder.mkdir()
    with serving(world.http) as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("OPENAI_BASE_URL", service.base_url)
        set_prices(folder, patch, PRICES)
        patch.setattr(constants, "JUDGE_PASS_THRESHOLD", float(world.line))
        patch.setattr(constants, "JUDGE_PASS_RATE", world.rate)
        patch.setattr(page, "run_charts", lambda *_: {})  # drawing them takes most of a report
        yield Trial(world, folder, index, service.base_url)


def what_breaks(seed: int, folder: Path, index: RunbookIndex) -> list[str]:
    """The laws that do not hold for the runs of a seed."""
    with trial(seed, folder, index) as it:
        world, draw = it.world, it.world.draw
        stored = [sj.AssistantAnswer(q.question, f"保存した回答 {q.id}", "文脈") for q in it.questions]
        judge, *more = (Own(name, world) if name in world.own else name for name in world.names)
        how: dict[str, Any] = {"judge_repeats": world.judge_repeats}
        flags = [f"--judge-repeats={world.judge_repeats}"]
        quiet: dict[str, Any] = {"logs_dir": it.logs, "progress": False}
        answering: dict[str, Any] = {
            "assistant_model": ASSISTANT,
            "answer_repeats": world.answer_repeats,
            "index": index,
        }
        command = ["run", f"--dataset={it.dataset}", f"--index-dir={index.index_dir}", f"--assistant-model={ASSISTANT}",
                   f"--answer-repeats={world.answer_repeats}", *flags, f"--judge-model={judge}"]  # fmt: skip
        logs = it.work(
            "run",
            lambda **options: sj.run_evaluation_suite(it.questions, judge_model=judge, **with_options(**{"answers": stored} if world.stored else answering, **how, **quiet, **options)),
            command if world.cli else None, world.names[0],
        )  # fmt: skip
        names = {path: json.loads(path.read_text("utf-8"))["run"]["judge_model"] for path in logs}
        torn = [path for path in logs if names[path] not in world.own and is_torn(path)]
        if torn and draw.random() < 0.8:
            lifted = {pair for pair in sorted(world.refused) if draw.random() < 0.7}
            world.refused -= lifted
            of, old = names[torn[0]], json.loads(torn[0].read_text("utf-8"))
            begin = partial(sj.rejudge, sj.load_run(torn[0]), only_failed=True)
            again = ["rejudge", "--log", str(torn[0]), "--only-failed"]
            for path in it.work("only failed", lambda **options: begin(**with_options(**quiet, **options)), again, of):
                rows = json.loads(path.read_text("utf-8"))["results"]
                kept = [
                    (row["evaluation"]["scores"], row["evaluation"]["overall_comment"], row["answer"])
                    == (was["evaluation"]["scores"], was["evaluation"]["overall_comment"], was["answer"])
                    for row, was in zip(rows, old["results"], strict=True)
                    if was["evaluation"]["status"] == "ok"
                ]
                it.law(all(kept), "only failed: what had not failed is changed")
        for other in [*more, *["mine-c"] * (draw.random() < 0.3)]:
            if logs and not it.is_stuck:
                name = other if isinstance(other, str) else other.name
                again = (
                    ["rejudge", "--log", str(logs[0]), f"--judge-model={name}", *flags]
                    if world.answer_repeats == 1
                    else None
                )
                asked = {"judge_model": other, **how, **quiet}
                begin = lambda **options: sj.rejudge(sj.load_run(logs[0]), **with_options(**asked, **options))  # noqa: B023, E731
                it.work("rejudge", begin, again if isinstance(other, str) else None, name)
        with pytest.MonkeyPatch.context() as patch:
            if draw.random() < 0.5:  # the rule of the log counts, whatever today's is
                patch.setattr(constants, "JUDGE_PASS_THRESHOLD", 70.0)
                patch.setattr(constants, "JUDGE_PASS_RATE", 0.7)
            if it.truths and not it.is_stuck:
                it.check_views()
        return it.broken


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_to_a_run_all_views_say_what_the_service_gave(
    block: int, tmp_path: Path, index: RunbookIndex
) -> None:
    found = {seed: what_breaks(seed, tmp_path / str(seed), index) for seed in SEEDS[block::BLOCKS]}
    assert {seed: broken for seed, broken in found.items() if broken} == {}
