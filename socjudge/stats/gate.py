"""Measure how sure a run's pass verdict is: whether the run would pass again, and whether its true mean scores pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.messages import listed, say, sentences
from ..base.pass_rule import PassRule, frame_rule, frame_spans, reaches
from ..base.verdict import frame_undecided
from ..errors import ConfigError
from .basics import Floats, low_high, need_columns, pass_rate_interval, plain_floats

Bools = NDArray[np.bool_]

LEVEL = 0.95  # level of the intervals, and how sure a verdict must be
DRAWS = 20_000
# repeats beyond the first, summed over the questions, from which the noise can be estimated; with fewer, repeats that
# happen to be equal gave a wrong verdict in up to 17 % of our simulations
LEAST_FREEDOM = 3
PIVOTAL = 0.05  # a question decides if it changes the verdict in at least this share of re-runs


def gate_confidence(results: pd.DataFrame, *, noise: float | None = None) -> pd.DataFrame:
    """Measure how sure the MVP verdict of each run is, and which of its questions decide it. There is one row per run.

    Parameters
    ----------
    results
        One row per judged answer, from `load_results`. With the columns pass_threshold and pass_rate_required, each
        run's own pass rule is used; without them, today's rule.
    noise
        The sd, in points, of a question's mean score between repeats of answering and judging, if you know it. If not
        given, it is estimated from the repeats, pooled over questions, and taken to be at least half of the step in
        which the scores come. With fewer than three repeats beyond the first ones, the probabilities are missing. A run
        without a verdict has no probabilities and, if its questions lack single scores, no pass rate.

    Returns
    -------
    DataFrame
        - run_id: if the frame has it
        - n: questions with a score
        - n_missing: judged answers without a score
        - passed: questions that pass, counted as in the log; needed: how many of the n questions must pass
        - mvp_passed: whether the run passes by the log's count, where an answer without a score and a missing score
          count as 0 points
        - pass_rate: passed / n; pass_rate_low, pass_rate_high: its Wilson interval, about all questions that resemble
          these
        - repeat_sd: the noise (given or estimated), points
        - p_rerun: probability that the run passes if the same questions are answered and judged again, as many times as
          now
        - p_true: probability that the run passes on the mean scores that endless repeats of these questions would have
        - verdict: 合格 (passed) if p_true is at least 0.95 and the run passes in the log, even with 0 points for each
          missing score; 不合格 (failed) if p_true is at most 0.05 and the run fails in the log, even with 100 points for
          each missing score; 判定保留 (undecided) in all other cases
        - deciding_questions: ids of the questions that decide the verdict, as text, the most decisive first: those that
          may pass or fail if the run is repeated (each with a probability of at least 0.05), and then change its verdict
        - note (in the language of the messages)

    Notes
    -----
    The model: a question's true score is normal around the run's mean, and a repeat is normal around the true score.
    The noise is the same for all questions. The random draws take into account that it is not known exactly.

    Source: Morris (1983), J. Am. Stat. Assoc. 78, 47-55.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> marks = [90, 85, 80, 95, 90, 85, 72, 60, 50, 40]
    >>> results = pd.DataFrame({"question_id": range(10), "average_score": marks})
    >>> sj.stats.gate_confidence(results, noise=5.0)[["n", "passed", "needed", "mvp_passed", "verdict"]]
        n  passed  needed  mvp_passed verdict
    0  10       7       7        True    判定保留
    """
    who = "gate_confidence"
    need_columns(results, ["question_id", "average_score"], who, "load_results")
    if results.empty:
        raise ConfigError("{who}: the frame has no row; widen the filters, or load a run with results", who=who)
    if "run_id" not in results.columns:
        return pd.DataFrame([_gate_row(results, noise, who)])
    runs = results.groupby("run_id", observed=True, sort=True)
    return pd.DataFrame([{"run_id": run_id, **_gate_row(part, noise, who)} for run_id, part in runs])


def _repeats(part: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return a row per question and repeat, and "judge repeats" if only the judge repeated its work, else "repeats"."""
    keys = [name for name in ("answer_repeat", "judge_repeat") if name in part.columns and part[name].nunique() > 1]
    # With several answers to a question, each answer is one repeat, and the judge's repeats of it are averaged. The
    # reason: a re-run would make a new answer, and would judge it as often as now.
    repeat = part[keys[0]] if keys else pd.Series(range(len(part)), index=part.index)
    marks = pd.DataFrame(
        {
            "question_id": part["question_id"],
            "repeat": repeat,
            "score": plain_floats(part["average_score"]),
            "missing": part["average_score"].isna(),
        }
    )
    each = marks.groupby(["question_id", "repeat"], observed=True, sort=False).agg({"score": "mean", "missing": "sum"})
    return each.reset_index(), "judge repeats" if keys == ["judge_repeat"] else "repeats"


def _read_run(part: pd.DataFrame, noise: float | None, who: str) -> tuple[pd.DataFrame, float, float, str]:
    """Return a run's questions, and the noise of a repeat: its sd in points, degrees of freedom, and source."""
    if noise is not None and not noise > 0:
        raise ConfigError(
            "{who}: noise is {noise!r}, expected points above 0 (sd of a question's score between repeats)",
            who=who,
            noise=noise,
        )
    each, source = _repeats(part)
    grouped = each.groupby("question_id", sort=False)
    # mean of the repeats (NaN if none has a score), number of repeats with a score, judged answers without one
    table = grouped.agg(score=("score", "mean"), repeats=("score", "count"), missing=("missing", "sum"))
    if noise is not None:
        return table, noise, math.inf, "stated"
    freedom = float((table["repeats"] - 1).clip(lower=0).sum())
    if freedom < LEAST_FREEDOM:
        return table, math.nan, 0, "unknown"
    squares = float((each["score"] - grouped["score"].transform("mean")).pow(2).sum())
    source = source if squares else f"equal {source}"
    return table, max(math.sqrt(squares / freedom), _step(plain_floats(part["average_score"])) / 2), freedom, source


def _step(scores: pd.Series) -> float:
    """Return the steps, in points, in which the scores come. Repeats that agree may still differ by half a step."""
    values = np.unique(scores.dropna().round(6))
    usual = next((step for step in (10.0, 5.0, 2.0) if not (values % step).any()), 1.0)
    return max(usual, min(float(np.diff(values).min(initial=10.0)), 10.0)) if len(values) > 1 else usual


def _draw(table: pd.DataFrame, repeat_sd: float, freedom: float) -> tuple[Floats, Floats]:
    """Return possible true scores and possible scores in a re-run: one row per draw, one column per scored question."""
    rng = np.random.default_rng(0)
    scored = table[table["repeats"] > 0]
    score, repeats = scored["score"].to_numpy(), scored["repeats"].to_numpy()
    n, mean, error = len(score), float(score.mean()), repeat_sd**2 / repeats
    sd = np.full((DRAWS, 1), repeat_sd)
    if math.isfinite(freedom):
        sd = sd * np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1)))
    shrink, grand = np.zeros((DRAWS, 1)), np.full((DRAWS, 1), mean)
    if n > 3 and repeat_sd > 0:
        # Morris: the variance of true scores is that of the means minus what noise adds. How far to shrink, and to
        # which mean, is itself uncertain, in the same way for all questions.
        spread = max(float(score.var(ddof=1)) - float(error.mean()), 0.0)
        shrink = (n - 3) / (n - 1) * error / (spread + error)
        shrink = (shrink * (1 + math.sqrt(2 / (n - 3)) * rng.standard_normal((DRAWS, 1)))).clip(0, 1)
        grand = mean + math.sqrt((spread + float(error.mean())) / n) * rng.standard_normal((DRAWS, 1))
    scatter = np.sqrt((1 - shrink) / repeats) * sd
    true = (1 - shrink) * score + shrink * grand + scatter * rng.standard_normal((DRAWS, n))
    again = true + sd / np.sqrt(repeats) * rng.standard_normal((DRAWS, n))
    return true.clip(0, 100), again.clip(0, 100)


def _gate(scores: Floats, rule: PassRule) -> Bools:
    """Return for each row of scores whether a run with these scores passes."""
    return np.asarray(rule.is_met(reaches(scores, rule.line).sum(axis=1), scores.shape[1], scores.mean(axis=1)))


def _share(hits: Bools) -> Floats:
    """The share of a number of draws cannot show that a probability is 0 or 1, so the result is never exactly that."""
    return np.asarray((hits.sum(axis=0) + 1) / (len(hits) + 2))


def _gate_row(part: pd.DataFrame, noise: float | None, who: str) -> dict[str, Any]:
    table, repeat_sd, freedom, source = _read_run(part, noise, who)
    rule = frame_rule(part)
    n, unscored = int(table["score"].notna().sum()), int(table["score"].isna().sum())
    # The log's counts if everything missing were 0 points, or 100 points.
    spans = frame_spans(part).groupby(part["question_id"]).mean()
    log_passes, could_pass = (bool(_gate(spans[end].to_numpy()[None, :], rule)[0]) for end in ("low", "high"))
    undecided = frame_undecided(part)
    if log_passes != could_pass:
        undecided = listed(filter(None, [undecided, say("the verdict hangs on the scores that are missing")]))
    log_passes, could_pass = log_passes and not undecided, could_pass or bool(undecided)
    scored = spans.loc[table.index[table["repeats"] > 0]]
    passed = int(reaches(scored["low"], rule.line).sum())
    # Of an undecided run, whose questions lack single scores, nobody knows how many pass.
    is_known = bool(n) and not (undecided and (scored["high"] > scored["low"]).any())
    p_rerun = p_true = math.nan
    verdict, deciding = "判定保留", ""
    if n and math.isfinite(repeat_sd) and not undecided:
        true, again = _draw(table, repeat_sd, freedom)
        p_rerun, p_true = float(_share(_gate(again, rule))), float(_share(_gate(true, rule)))
        # the share of a question's scores that are missing
        lacking = ((spans["high"] - spans["low"]) / 100)[table.index].to_numpy()
        scores = np.zeros((DRAWS, len(table)))
        scores[:, table["repeats"] > 0] = true
        worst, best = (_share(_gate(scores * (1 - lacking) + points * lacking, rule)) for points in (0.0, 100.0))
        if log_passes and worst >= LEVEL:
            verdict = "合格"
        elif not could_pass and best <= 1 - LEVEL:
            verdict = "不合格"
        deciding = ", ".join(map(str, _deciding(table.index[table["repeats"] > 0], again, rule)))
    row: dict[str, Any] = {
        "n": n,
        "n_missing": int(table["missing"].sum()),
        "passed": passed,
        "needed": rule.needed(n),
        "mvp_passed": bool(n and log_passes),
        "pass_rate": passed / n if is_known else math.nan,
        **low_high("pass_rate", pass_rate_interval(passed, n, LEVEL) if is_known else (math.nan, math.nan)),
        "repeat_sd": repeat_sd,
        "p_rerun": p_rerun,
        "p_true": p_true,
        "verdict": verdict,
        "deciding_questions": deciding,
    }
    return {**row, "note": _gate_note(row, source, unscored, undecided)}


def _gate_note(row: dict[str, Any], source: str, unscored: int, undecided: str) -> str:
    if row["n"] == 0:
        return say("No question has a score.")
    if undecided:
        return say("The run has no verdict ({reason}).", reason=undecided)
    low, high = row["pass_rate_low"], row["pass_rate_high"]
    told = [
        say(
            "{passed} of {n} questions passed; 95 % interval of the pass rate {low:.2f} to {high:.2f}.",
            n=row["n"],
            passed=row["passed"],
            low=low,
            high=high,
        )
    ]
    if source == "unknown":
        told.append(
            say(
                "There are no repeats, or too few, so nobody can say how sure it is; run with answer_repeats=3 (with one "
                "or two questions, answer_repeats=4), or state noise=."
            )
        )
    else:
        told.append(
            say(
                "The chance that it passes when run again as it was is {again:.2f}; that its true quality reaches "
                "the pass line, {true:.2f}.",
                again=row["p_rerun"],
                true=row["p_true"],
            )
        )
    if source.endswith("judge repeats"):
        told.append(
            say(
                "Each question was answered once, so these are chances of judging again (the scatter of the "
                "answers is not in them)."
            )
        )
    if source.startswith("equal"):
        told.append(
            say(
                "All repeats have the same points; a noise of ±{sd:g} points, half of their step, is assumed.",
                sd=row["repeat_sd"],
            )
        )
    if unscored:
        told.append(say("Questions without a score, left out of this: {count}.", count=unscored))
    return sentences(*told)


def _deciding(questions: pd.Index, again: Floats, rule: PassRule) -> list[Any]:
    """Return the questions that decide the verdict, the most decisive first. `again` has the scores of simulated re-runs."""
    passes = reaches(again, rule.line)
    # The verdict of each draw if one question's own verdict were reversed. The mean stays the same.
    turned = passes.sum(axis=1, keepdims=True) + np.where(passes, -1, 1) >= rule.needed(passes.shape[1])
    turned &= reaches(again.mean(axis=1, keepdims=True), rule.line)
    pivotal, chance = (turned != _gate(again, rule)[:, None]).mean(axis=0), _share(passes)
    decides = (chance >= 1 - LEVEL) & (chance <= LEVEL) & (pivotal >= PIVOTAL)
    weight = pd.Series(pivotal * chance * (1 - chance), questions)
    return list(weight[decides].sort_values(ascending=False, kind="stable").index)
