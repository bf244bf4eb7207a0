"""Compare two runs of the same questions.

The result shows whether a change of the assistant helped. If the judge, the prompt or the criteria changed instead, it
shows how far the scores of the same answers differ. For another judge, it also shows which points correspond to the
pass line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..base.conditions import Difference, conditions_of, differences
from ..base.messages import listed, say
from ..base.pass_rule import frame_rule, reaches
from ..base.showing import block, escape
from ..base.texts import visible
from ..base.verdict import frame_undecided
from ..errors import ConfigError
from ..records import EvalQuestion, EvaluationRun
from ..runs.logs import load_run, named_log
from ..stats.basics import MIN_QUESTIONS, OVERALL, need_columns, plain_floats
from ..stats.bridge import bridge_judges
from ..stats.comparison import compare_groups, pair_scores, question_pairs, same_answers
from ..stats.conclusion import is_shown

_JUDGING = ("judge", "judge prompt", "criteria")
_NEEDED = ["run_id", "question_id", "criterion", "score"]
_SHOWN = 20  # questions that a line names; `questions` has all
_NUMBERS = """<style>.socjudge .dataframe :is(th, td) { text-align: right; padding: .15em .5em; }
.socjudge .dataframe :is(th, td):first-child { text-align: left; }</style>"""
FLIPS = ("不合格→合格", "合格→不合格")  # fail to pass, pass to fail
_DIRECTIONS = {
    (True, True): "合格のまま", (False, False): "不合格のまま", (False, True): FLIPS[0], (True, False): FLIPS[1],
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Hold the result of `compare_runs`. It displays itself in a notebook cell and in a terminal."""

    before: str  # ids of the two runs
    after: str
    differences: pd.DataFrame = field(repr=False)  # this and the next two: as in `compare_runs`
    questions: pd.DataFrame = field(repr=False)
    conditions: pd.DataFrame = field(repr=False)
    finding: str  # the result in words, as `compare_judges` gives it for 総合
    notes: tuple[str, ...] = ()  # what was left out of the comparison, and what cannot be known
    # for two judges: which points of the second correspond to the pass line of the first, or why this cannot be said
    corresponding: str = ""
    # the frame of `bridge_judges` from which this text comes; empty if there are too few questions for it
    bridge: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)

    @property
    def lines(self) -> list[str]:
        """Return the result in words, one line per fact. Near the top are the questions whose verdict changed."""
        words = " ／ ".join(self.conditions["phrase"]) or say("no recorded condition differs")
        changed = say("changed: {conditions}", conditions=words)
        lines = [self.finding, self.corresponding, *_turned(self.questions), _criteria_seen(self.differences), changed]
        return [*filter(None, lines), *self.notes]

    @property
    def table(self) -> pd.DataFrame:
        """Return `differences` as texts in the language of the messages, as all views show it."""
        found = self.differences
        columns = {
            "baseline_mean": (say("Before"), ".1f"),
            "mean": (say("After"), ".1f"),
            "mean_difference": (say("Difference"), "+.1f"),
            "ci_low": (say("95 % from"), "+.1f"),
            "ci_high": (say("95 % to"), "+.1f"),
            "p_holm": (say("adjusted p"), ".3f"),
            "detectable_difference": (say("Detectable"), ".1f"),
        }
        texts: dict[str, Any] = {
            say("Criterion"): found["criterion"].astype(str),
            say("Number of questions"): found["n"].astype(str),
        }
        for name, (head, shape) in columns.items():
            texts[head] = [f"{value:{shape}}" if value == value else "–" for value in plain_floats(found[name])]
        return pd.DataFrame(texts)

    def __repr__(self) -> str:
        return visible("\n".join([*self.lines, self.table.to_string(index=False)]))

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, border=0, escape=True)
        row, title = _overall(self.differences), say("Did the change help?")
        kind = ("good" if row["mean_difference"] > 0 else "bad") if is_shown(row, row["p_value"]) else "grey"
        return block(
            kind,
            f"<b>{escape(title)}</b>",
            *map(escape, self.lines),
            f'{_NUMBERS}<div style="overflow-x: auto" tabindex="0">{table}</div>',
        )


def compare_runs(
    before: EvaluationRun | pd.DataFrame | Path | str,
    after: EvaluationRun | pd.DataFrame | Path | str,
    *,
    logs_dir: Path | str | None = None,
) -> RunComparison:
    """Compare two runs of the same questions, paired by question, to see whether a change helped.

    If judge, prompt and criteria are the same, the assistant is compared. The answers may differ, as they do after a
    change of the runbooks or of the assistant's model, prompt or k. If judge, prompt or criteria differ, the judging is
    compared, answer by answer. The runs must then have judged the same stored answers (`rejudge`). For two judges, the
    first sentence says how far apart they are and how many questions pass with each. The second says which points of
    the second judge correspond to the pass line of the first one.

    Parameters
    ----------
    before, after
        Each is a run, the name or path of its log, or its rows from `load_scores`.
    logs_dir
        The folder of the logs, if they are given by name; the project's own folder if left out.

    Returns
    -------
    RunComparison
        - differences: a row per criterion and one (総合, overall) for their mean, with the columns of `compare_judges`
          (baseline_mean: before; mean: after)
        - questions: a row per question: question_id, category; before, after (mean score over criteria and repeats,
          0–100, missing if it cannot be compared); difference (after minus before); direction (合格→不合格, pass to fail;
          不合格→合格, fail to pass; 合格のまま, still a pass; 不合格のまま, still a fail; or 比較対象外, not compared)
        - conditions: a row per condition that differs between the runs: column (of the frames, such as prompt_id);
          condition (its name), before, after, phrase (the difference), all in the language of the messages
        - finding, corresponding, notes: the result and its limits in words
        - bridge: for two judges, the lines between their points, from `bridge_judges`; empty below eight questions

    Raises
    ------
    ConfigError
        If both the judging and the answers differ, because nobody can then tell which of the two changed the scores; if
        the runs have no question in common.

    Notes
    -----
    Intervals, tests and detectable differences are computed as in `compare_judges`, after all answers to a question are
    averaged. They hold for questions like these, with one run before and one run after. Answers vary if the assistant
    is asked again; this variation is part of the noise.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "criterion": "安全性"})
    >>> old, new = one.assign(run_id="A", score=[90, 80, 40, 10]), one.assign(run_id="B", score=[80, 80, 75, 14])
    >>> sj.compare_runs(old, new).questions["direction"].tolist()
    ['合格のまま', '合格のまま', '不合格→合格', '不合格のまま']
    """
    sides = [_side(each, logs_dir) for each in (before, after)]
    ids = [side.run_id for side in sides]
    if ids[0] == ids[1]:
        raise ConfigError(
            "before and after are the same run ({run}); give the one before the change and the one after it", run=ids[0]
        )
    scores = pd.concat([side.scores for side in sides], ignore_index=True).astype({"run_id": object})
    told = conditions_of(scores)
    changed = differences(told[ids[0]], told[ids[1]])
    judging = _judging(changed)
    same = same_answers(scores, *ids)
    if judging and not (len(same) and same.all()):
        raise ConfigError(
            "{changed}: a difference in scores might not come from the assistant; judge both alike first: "
            "rejudge(run, judge_model=…, judge_prompt=…)",
            changed=judging,
        )
    first, second = (side.questions for side in sides)
    both = set.intersection(*(set(side.scores["question_id"]) for side in sides))
    reworded = {name for name in both & first.keys() & second.keys() if _differ(first[name], second[name])}
    common = both - reworded
    if not common:
        raise ConfigError("the two runs share no question, so they cannot be compared; run both on the same questions")
    pooled = scores[scores["question_id"].isin(common)]
    if not judging:  # all answers to a question count as one, because they are what was changed
        pooled = pooled.assign(answer_sha256="")
    found = compare_groups(pooled, ids[0], "run_id", same_answers=bool(judging))
    questions = _questions(scores, pooled, ids)
    words = pd.DataFrame(
        [(each.condition.column, *each.words(), each.phrase()) for each in changed],
        columns=["column", "condition", "before", "after", "phrase"],
    )
    notes = [*_left_out(sides, both, reworded), *_limits(sides, changed, told)]
    if missing := int(_overall(found)["n_missing"]):
        notes.append(say("{count} missing scores are left out", count=missing))
    corresponding, bridge = "", pd.DataFrame()
    names = tuple(told[name].get("judge_model", "") for name in ids)
    columns = {each.condition.column for each in changed}
    if all(names) and names[0] != names[1] and "criteria" not in columns:
        line = frame_rule(sides[0].scores).line
        judges: dict[str, Any] = {"old": names[0], "new": names[1]}
        if _overall(found)["n"] >= MIN_QUESTIONS:
            bridge = bridge_judges(pooled.assign(pass_threshold=line), old=ids[0], new=ids[1], by="run_id")
        corresponding = _corresponding(_overall(found)["n"], bridge, questions, line, judges)
    finding = _overall(found)["conclusion"]
    return RunComparison(ids[0], ids[1], found, questions, words, finding, tuple(notes), corresponding, bridge)


class _Side(NamedTuple):
    run_id: str
    scores: pd.DataFrame
    questions: Mapping[Any, EvalQuestion]  # by id; empty if they are not known


def _side(given: Any, logs_dir: Path | str | None) -> _Side:
    if isinstance(given, (str, Path)):
        given = load_run(named_log(given, logs_dir))
    if isinstance(given, EvaluationRun):
        questions = {result.question.id: result.question for result in given.results}
        return _Side(given.run.run_id, given.scores_frame(), questions)
    if not isinstance(given, pd.DataFrame):
        raise ConfigError(
            "a {kind} cannot be compared; give a run, the name or path of a log, or a frame of load_scores",
            kind=type(given).__name__,
        )
    need_columns(given, _NEEDED, "compare_runs", "load_scores")
    runs = given["run_id"].dropna().unique()
    if len(runs) != 1:
        raise ConfigError(
            "a frame has {count} runs; give one frame with the rows of the run before, and one with those of the run "
            "after",
            count=len(runs),
        )
    return _Side(str(runs[0]), given, {})


def _judging(changed: list[Difference]) -> str:
    judging = [each for each in changed if each.condition.group in _JUDGING]
    columns = {each.condition.column for each in judging}
    # A prompt that only has another name is the same prompt.
    return listed(
        each.phrase() for each in judging if each.condition.column != "prompt_id" or "prompt_sha256" in columns
    )


def _left_out(sides: list[_Side], both: set[Any], reworded: set[Any]) -> list[str]:
    notes = []
    if lonely := set.union(*(set(side.scores["question_id"]) for side in sides)) - both:
        words = "only the {common} questions of both are compared; left out, as only one run has them: {questions}"
        notes.append(say(words, common=len(both - reworded), questions=_names(lonely)))
    if reworded:
        words = "left out, as the text or the key points differ under the same id: {questions}"
        notes.append(say(words, questions=_names(reworded)))
    return notes


def _limits(sides: list[_Side], changed: list[Difference], told: Mapping[Any, Mapping[str, str]]) -> list[str]:
    notes = []
    if any(not told[side.run_id].get(name) for side in sides for name in ("judge_model", "prompt_sha256")):
        notes.append(
            say("a log does not name the judge or its prompt, so whether both were judged alike cannot be told")
        )
    for side in sides:
        if reason := frame_undecided(side.scores):
            notes.append(say("{run} has no verdict ({reason})", run=side.run_id, reason=reason))
    groups = dict.fromkeys(each.condition.group for each in changed if each.condition.group != "dataset")
    if len(groups) > 1:
        words = "several conditions changed ({groups}), so the effect cannot be put down to one of them"
        notes.append(say(words, groups=listed(map(say, groups))))
    return notes


def _differ(one: EvalQuestion, other: EvalQuestion) -> bool:
    # Keypoints are compared only if both questions have them.
    points = (one.expected_keypoints, other.expected_keypoints)
    return one.question != other.question or (all(points) and points[0] != points[1])


def _questions(scores: pd.DataFrame, pooled: pd.DataFrame, ids: list[str]) -> pd.DataFrame:
    rows = scores.drop_duplicates("question_id")[[name for name in ("question_id", "category") if name in scores]]
    rows = rows.reset_index(drop=True)
    means = question_pairs(pair_scores(pooled, *ids, by="run_id", who="compare_runs"), OVERALL).reindex(
        rows["question_id"]
    )
    lines = [frame_rule(scores[scores["run_id"] == run_id]).line for run_id in ids]
    before, after = (means[side].to_numpy(dtype=float) for side in ("first", "second"))
    direction = [
        "比較対象外"
        if math.isnan(one) or math.isnan(other)
        else _DIRECTIONS[bool(reaches(one, lines[0])), bool(reaches(other, lines[1]))]
        for one, other in zip(before, after, strict=True)
    ]
    return rows.assign(before=before, after=after, difference=after - before, direction=direction)


def _overall(found: pd.DataFrame) -> dict[Any, Any]:
    return found[found["criterion"] == OVERALL].to_dict("records")[0]  # type: ignore[no-any-return]


def _corresponding(
    count: int, bridge: pd.DataFrame, questions: pd.DataFrame, line: float, judges: dict[str, Any]
) -> str:
    row = {"pass_line_low": math.nan} if bridge.empty else _overall(bridge)
    if math.isnan(row["pass_line_low"]):  # too few questions, no correlation, or a single question decides the line
        words = (
            "{count} questions do not show which points with {new} correspond to {line:g} with {old}; it takes {least} "
            "or more that both order alike"
        )
        return say(words, line=line, count=count, least=MIN_QUESTIONS, **judges)
    told = say(
        "{line:g} points with {old} correspond to about {points:.0f} with {new} (95 % interval {low:.0f} "
        "to {high:.0f}); with the line at {line:g}, {kept} answers change their verdict, and {moved} with "
        "the line at {points:.0f}",
        line=line,
        points=row["pass_line"],
        low=row["pass_line_low"],
        high=row["pass_line_high"],
        kept=row["verdict_changes"],
        moved=row["verdict_changes_bridged"],
        **judges,
    )
    if len(set(reaches(questions["before"].dropna(), line))) > 1:
        return told
    guess = (
        ". With {old} all questions lie on one side of the line, so that this is a guess; add questions on the other "
        "side"
    )
    return told + say(guess, **judges)


def _criteria_seen(found: pd.DataFrame) -> str:
    """Name the criteria that clearly differ, because a criterion can fall although the overall mean does not."""
    moved = [
        say("{criterion} {difference:+.1f}", criterion=row["criterion"], difference=row["mean_difference"])
        for row in found.to_dict("records")
        if row["criterion"] != OVERALL and is_shown(row, row["p_holm"])
    ]
    return say("criteria that differ: {criteria}", criteria=listed(moved)) if moved else ""


def _turned(questions: pd.DataFrame) -> list[str]:
    won, lost = (questions[questions["direction"] == way] for way in FLIPS)
    told = [
        say("now passing ({count}): {questions}", count=len(won), questions=_marks(won)) if len(won) else "",
        say("now failing ({count}): {questions}", count=len(lost), questions=_marks(lost)) if len(lost) else "",
    ]
    return told if any(told) else [say("no question's verdict turned")]


def _marks(questions: pd.DataFrame) -> str:
    words = "{question} ({before:.1f}→{after:.1f})"
    named = [
        say(words, question=row["question_id"], before=row["before"], after=row["after"])
        for row in questions.head(_SHOWN).to_dict("records")
    ]
    return listed(named) + (" …" if len(questions) > _SHOWN else "")


def _names(questions: set[Any]) -> str:
    names = sorted(questions, key=lambda name: (isinstance(name, str), name))
    return ", ".join(map(str, names[:_SHOWN])) + (" …" if len(names) > _SHOWN else "")
