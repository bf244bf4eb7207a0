"""Where the scatter of scores comes from, and what to buy to make a mean surer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from ..base.messages import listed, say, sentences
from ..errors import ConfigError
from .basics import OVERALL, Floats, need_columns, plain_floats

Codes = NDArray[np.int64]

LEVEL = 0.95
SIMULATIONS = 4_000  # fewer for large frames
_METHOD = f"ANOVA, Henderson's method 1; {LEVEL:.0%} generalised confidence interval (Weerahandi 1993)"

# The factors of the model, each by the columns that name its levels; the residual is the judge's repeat. A factor whose
# levels are those of an earlier one (a single answer per question) cannot be told from it and is left out. Where the
# levels of a factor are single rows, it cannot be told from the residual, which then goes by its name.
_FACTORS = {
    "question": ["question_id"],
    "judge": ["judge"],
    "question:judge": ["question_id", "judge"],
    "answer": ["question_id", "answer"],
    "answer:judge": ["question_id", "answer", "judge"],
}
_REPEAT = "judge_repeat"
_ASKS = {
    "question": "stats.noise_question",
    "judge": "stats.noise_judge",
    "question:judge": "stats.noise_question_judge",
    "answer": "stats.noise_answer",
    "answer:judge": "stats.noise_answer_judge",
    "judge_repeat": "stats.noise_judge_repeat",
    "criterion": "stats.noise_criterion",
    "question:criterion": "stats.noise_question_criterion",
}
_BUY = {
    "question": "stats.noise_needs_questions",
    "judge": "stats.noise_needs_judges",
    "question:judge": "stats.noise_needs_judges",
    "answer": "stats.noise_needs_answers",
    "answer:judge": "stats.noise_needs_judges_and_repeats",
    "judge_repeat": "stats.noise_needs_judge_repeats",
    "criterion": "stats.noise_needs_criteria",
    "question:criterion": "stats.noise_needs_questions_and_criteria",
}

# What can be bought, and the component that must be known to say what it brings.
_OPTIONS = {"questions": "question", "answer_repeats": "answer", "judge_repeats": "judge_repeat", "judges": "judge"}
_MORE = {
    "questions": "stats.plan_more_questions",
    "answer_repeats": "stats.plan_more_answers",
    "judge_repeats": "stats.plan_more_judge_repeats",
    "judges": "stats.plan_more_judges",
}
_ONLY = {
    "questions": "stats.plan_only_questions",
    "answer_repeats": "stats.plan_only_answers",
    "judge_repeats": "stats.plan_only_judge_repeats",
    "judges": "stats.plan_only_judges",
}
_UNKNOWN = {
    **dict.fromkeys(("n_questions", "answer_repeats", "judge_repeats", "judges", "calls")),
    "se": math.nan,
    "reaches_target": False,
}


def judge_noise(scores: pd.DataFrame, *, by: str = "judge_model", seed: int = 0) -> pd.DataFrame:
    """Variance components of the scores, one row per criterion (and 総合, the mean over criteria) and component.

    Parameters
    ----------
    scores
        One row per judged answer and criterion, of one run with repeats or of several judges on the same stored
        answers.
    by
        What names a judge.
    seed
        For the intervals.

    Returns
    -------
    DataFrame
        - criterion
        - component: question, judge, question:judge (they differ on a question), answer (the same question answered
          again), answer:judge, judge_repeat (the same answer judged again by the same judge); for 総合 also criterion and
          question:criterion
        - variance: points²; 0 where the estimate was negative, missing where the design cannot tell
        - sd: points
        - share: of the sum of the six; missing for the two of criteria, which are not noise of the mean
        - sd_low, sd_high: see `socjudge.stats.noise.variance_components`
        - n: levels of that component
        - n_missing: marks that could not be read
        - method, note (in the language of the messages)

    Notes
    -----
    Where a component cannot be told from another, the two are together in the one that is estimated, and the notes say
    so and what would tell them apart. Assumes that the effects add up, with the same spread everywhere; ends of the
    scale make both only roughly true. Two judges cannot tell how far judges differ in general: the interval is as wide
    as that, and the note says so.

    Sources: Henderson (1953), Biometrics 9, 226-252; Searle, Casella and McCulloch (1992), Variance Components, 5.3;
    Brennan (2001), Generalizability Theory.

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": range(4), "criterion": "安全性", "judge_model": "A"})
    >>> one = one.assign(run_id="r", answer_repeat=0)
    >>> two = [one.assign(judge_repeat=0, score=[90, 80, 40, 10]), one.assign(judge_repeat=1, score=[80, 80, 50, 10])]
    >>> noise = sj.stats.judge_noise(pd.concat(two)).set_index(["criterion", "component"])
    >>> round(float(noise.loc[("安全性", "judge_repeat"), "sd"]), 1)  # points
    5.0
    """
    marks = _marks(scores, by, "judge_noise")
    missing = scores["score"].isna().groupby(scores["criterion"].astype(object)).sum()
    criteria = [*dict.fromkeys(marks["criterion"].sort_values())]
    rows = []
    for criterion in [*criteria, OVERALL]:
        part = _overall(marks) if criterion == OVERALL else marks[marks["criterion"] == criterion]
        count = int(missing.sum() if criterion == OVERALL else missing.get(criterion, 0))
        found = _components(part.dropna(subset=["score"]), _FACTORS, _REPEAT, seed)
        total = sum(value["variance"] for value in found.values())
        for name in [*_FACTORS, _REPEAT]:
            rows.append(_component_row(criterion, name, found, total, count))
    extra = _components(
        _criterion_table(marks), {"question": ["question_id"], "criterion": ["criterion"]}, "question:criterion", seed
    )
    rows += [
        _component_row(OVERALL, name, extra, math.nan, int(missing.sum()))
        for name in ("criterion", "question:criterion")
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(criterion=pd.Categorical(frame["criterion"], categories=[*criteria, OVERALL], ordered=True))


def plan_repeats(
    scores: pd.DataFrame, *, target_se: float, same_questions: bool = False, by: str = "judge_model", seed: int = 0
) -> pd.DataFrame:
    """What to buy for a run's mean score to have the wanted standard error, one row per way.

    Parameters
    ----------
    scores, by, seed
        As in `judge_noise`.
    target_se
        The wanted standard error, in points.
    same_questions
        The error when these very questions are asked again, instead of that of a mean for all questions like them; the
        number of questions then stays.

    Returns
    -------
    DataFrame
        - option: "now", more of one thing alone ("questions", "answer_repeats", "judge_repeats", "judges"), and
          "cheapest" (fewest calls, up to 10 repeats and 4 judges)
        - n_questions, answer_repeats, judge_repeats, judges: missing where no number of them is enough or their effect
          was not measured
        - calls: to the assistant and the judges
        - se: points, of that design; where none is enough, the least that this way can reach
        - reaches_target
        - n: judged answers behind the estimate
        - method, note (in the language of the messages)

    Notes
    -----
    The components are those of `judge_noise` for 総合, taken as known; a component that was not measured counts as 0, and
    the note of "now" names it.

    Source: Brennan (2001), Generalizability Theory, chapter 4 (D studies).

    Examples
    --------
    >>> import pandas as pd
    >>> import socjudge as sj
    >>> one = pd.DataFrame({"question_id": range(4), "answer_sha256": range(4), "criterion": "安全性", "judge_model": "A"})
    >>> one = one.assign(run_id="r", answer_repeat=0)
    >>> two = [one.assign(judge_repeat=0, score=[90, 80, 40, 10]), one.assign(judge_repeat=1, score=[80, 80, 50, 10])]
    >>> plan = sj.stats.plan_repeats(pd.concat(two), target_se=10)
    >>> plan.loc[plan["option"].isin(["now", "questions"]), ["option", "n_questions", "se"]].round(1)
          option  n_questions    se
    0        now            4  17.4
    1  questions           13   9.7
    """
    if not target_se > 0:
        raise ConfigError(say("stats.target_se", found=target_se))
    marks = _overall(_marks(scores, by, "plan_repeats")).dropna(subset=["score"])
    found = _components(marks, _FACTORS, _REPEAT, seed)
    variance = {name: found[name]["variance"] if name in found else 0.0 for name in [*_FACTORS, _REPEAT]}
    if same_questions:
        variance["question"] = 0.0
    now = _design(marks)
    rows = [{"option": "now", **_priced(now, variance, target_se)}]
    for place, (option, component) in enumerate(_OPTIONS.items()):
        if option == "questions" and same_questions:
            continue
        known = component in found
        rows.append({"option": option, **(_enough(now, place, variance, target_se) if known else _UNKNOWN)})
    rows.append({"option": "cheapest", **_cheapest(now, variance, target_se, same_questions, found)})
    unmeasured = [name for name in [*_FACTORS, _REPEAT] if name not in found]
    for row in rows:
        row |= {"n": len(marks), "method": _METHOD, "note": _plan_note(row, unmeasured, target_se)}
    frame = pd.DataFrame(rows)
    counts = ["n_questions", "answer_repeats", "judge_repeats", "judges", "calls"]
    return frame.astype(dict.fromkeys(counts, "Int64"))


def _marks(scores: pd.DataFrame, by: str, who: str) -> pd.DataFrame:
    """The scores with the columns judge and answer that the model speaks of."""
    need_columns(scores, [by, "question_id", "answer_sha256", "criterion", "score"], who, "load_scores")
    answer = scores["answer_sha256"].astype(str)
    if "answer_repeat" in scores.columns:  # an assistant that says the same twice has still answered twice
        answer = answer + "/" + scores["answer_repeat"].astype(str)
    marks = scores.assign(judge=scores[by], answer=answer, score=plain_floats(scores["score"]))
    if marks["score"].notna().sum() == 0:
        raise ConfigError(say("stats.no_score", who=who))
    return marks


def _overall(marks: pd.DataFrame) -> pd.DataFrame:
    """One row per judged answer with the mean over its criteria, missing unless all were scored."""
    names = ("run_id", "judge_repeat")
    keys = ["question_id", "judge", "answer", *(name for name in names if name in marks.columns)]
    grouped = marks.groupby(keys, sort=False, observed=True)["score"]
    return grouped.mean().where(grouped.count() == grouped.size()).reset_index()


def _criterion_table(marks: pd.DataFrame) -> pd.DataFrame:
    table = marks.groupby(["question_id", "criterion"], observed=True)["score"].mean().dropna().reset_index()
    return table.astype({"criterion": str})


def _levels(part: pd.DataFrame, factors: dict[str, list[str]], residual: str) -> tuple[dict[str, Codes], str]:
    """The level of each row in each factor that can be told from the others, and the name of the residual."""
    kept: dict[str, Codes] = {}
    for name, columns in factors.items():
        level: Codes = np.asarray(part.groupby(columns, observed=True, sort=False).ngroup(), dtype=np.int64)
        if level.max() + 1 == len(level):
            return kept, name
        if level.max() > 0 and all(len(_both(other, level)[0]) > other.max() + 1 for other in kept.values()):
            kept[name] = level
    return kept, residual


def _both(code: Codes, other: Codes) -> tuple[Codes, Codes]:
    """Of the levels of two factors that occur together: the first's level, and in how many rows."""
    pairs, counts = np.unique(code * (other.max() + 1) + other, return_counts=True)
    return pairs // (other.max() + 1), counts


def _components(part: pd.DataFrame, factors: dict[str, list[str]], residual: str, seed: int) -> dict[Any, Any]:
    """The components that this design can tell, by name."""
    if len(part) < 2:
        return {}
    levels, rest = _levels(part, factors, residual)
    return variance_components(part["score"], levels, residual=rest, seed=seed).to_dict("index")


def variance_components(
    score: ArrayLike, levels: Mapping[str, ArrayLike], *, residual: str = "residual", seed: int = 0
) -> pd.DataFrame:
    """Variance components of random effects that add up, one row (index: the factor, the residual last) each.

    Parameters
    ----------
    score
        One value per observation.
    levels
        For each factor the level of each observation, counted from 0, crossed or nested, balanced or not.
    residual
        The name of what is left.
    seed
        For the intervals.

    Returns
    -------
    DataFrame
        - variance: 0 where the estimate was negative
        - low, high: 95 % interval, 0 or more; missing where nothing varies
        - levels

    Notes
    -----
    The interval: in normal data simulated on the same design the estimates are sums of uncorrelated parts (in balanced
    designs the mean squares); each is taken as chi-squared with the mean and variance that it has there, and the ends
    are quantiles over draws of them.

    Sources: Henderson (1953), Biometrics 9, 226-252; Weerahandi (1993), J. Am. Stat. Assoc. 88, 899-905; Satterthwaite
    (1946), Biometrics Bull. 2, 110-114.
    """
    y = np.asarray(score, dtype=float)
    codes = {name: np.asarray(level, dtype=np.int64) for name, level in levels.items()}
    solve = _henderson(list(codes.values()), len(y))
    found = solve(y[:, None])[:, 0]
    variance = found.clip(min=0)
    rng = np.random.default_rng(seed)
    times = int(np.clip(2_000_000 // len(y), 100, SIMULATIONS))
    simulated = np.sqrt(variance[-1]) * rng.standard_normal((len(y), times))
    for part, code in zip(variance, codes.values(), strict=False):
        simulated += np.sqrt(part) * rng.standard_normal((code.max() + 1, times))[code]
    low, high = _variance_intervals(found, solve(simulated), rng)
    counts = [*(code.max() + 1 for code in codes.values()), len(y)]
    return pd.DataFrame({"variance": variance, "low": low, "high": high, "levels": counts}, index=[*codes, residual])


def _variance_intervals(found: Floats, simulated: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Ends of the intervals of the components (rows, residual last) from their estimates in simulations (columns)."""
    scatter = np.cov(simulated[::-1]).reshape(len(found), len(found))
    if np.trace(scatter) < 1e-12:
        return np.full(len(found), math.nan), np.full(len(found), math.nan)
    # From the residual outwards: estimates = mixing @ parts, the parts uncorrelated. The bit added is for variances of 0.
    root = np.linalg.cholesky(scatter + 1e-12 * np.trace(scatter) * np.eye(len(found)))
    mixing = root / np.diag(root)
    parts, means = (np.linalg.solve(mixing, values[::-1]) for values in (found, simulated.mean(axis=1)))
    freedom = np.maximum(2 * (means / np.diag(root)) ** 2, 1)[:, None]  # no sum of squares has less than one
    drawn = parts.clip(min=0)[:, None] * freedom / rng.chisquare(freedom, (len(found), SIMULATIONS))
    low, high = np.quantile((mixing @ drawn).clip(min=0), [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=1)
    return low[::-1], high[::-1]


def _henderson(codes: list[Codes], n: int) -> Callable[[Floats], Floats]:
    """The function that estimates the components (residual last) from columns of data on this design.

    Each factor's sum of squares Σ total² / count, less that of the mean, is set equal to its expectation."""
    counts = [np.bincount(code) for code in codes]

    def expectation(weights: Floats, code: Codes, other: Codes) -> float:
        """Σ over levels of both: (rows in both)² × the weight of the first's level."""
        level, rows = _both(code, other)
        return float((weights[level] * rows**2).sum())

    whole = np.zeros(n, dtype=int)
    lines = [*codes, np.arange(n), whole]
    weights = [*(1 / count for count in counts), np.ones(n), np.array([1 / n])]
    table = np.array(
        [
            [*(expectation(w, line, code) for code in codes), float(line.max() + 1)]
            for w, line in zip(weights, lines, strict=True)
        ]
    )
    inverse = np.linalg.pinv(table[:-1] - table[-1])

    adding = [scipy.sparse.csr_array((np.ones(n), (line, np.arange(n)))) for line in lines[:-1]]

    def solve(y: Floats) -> Floats:
        centred = y - y.mean(axis=0)
        squares = [w @ (totals @ centred) ** 2 for w, totals in zip(weights[:-1], adding, strict=True)]
        return np.asarray(inverse @ np.array(squares))

    return solve


def _component_row(criterion: str, name: str, found: dict[Any, Any], total: float, missing: int) -> dict[str, Any]:
    value = found.get(name, {"variance": math.nan, "low": math.nan, "high": math.nan, "levels": 0})
    variance = value["variance"]
    told = [say(_ASKS[name])]
    order = [*_FACTORS, _REPEAT]
    if name in order and name in found and name == [other for other in order if other in found][-1] and name != _REPEAT:
        told.append(say("stats.noise_includes", components=listed(order[order.index(name) + 1 :])))
    if name not in found:
        told.append(say("stats.noise_untold", remedy=say(_BUY[name])))
    elif variance == 0:
        told.append(say("stats.noise_zero"))
    elif value["levels"] <= 3:
        told.append(say("stats.noise_few_levels", count=value["levels"]))
    return {
        "criterion": criterion,
        "component": name,
        "variance": variance,
        "sd": math.sqrt(variance),
        "share": variance / total if total > 0 else math.nan,
        "sd_low": math.sqrt(value["low"]),
        "sd_high": math.sqrt(value["high"]),
        "n": int(value["levels"]),
        "n_missing": missing,
        "method": _METHOD,
        "note": sentences(*told),
    }


def _design(marks: pd.DataFrame) -> tuple[int, int, int, int]:
    """Questions, answers per question, judgements per answer and judge, judges: of the run as it is (rounded means)."""
    questions, judges = marks["question_id"].nunique(), marks["judge"].nunique()
    answers = marks.drop_duplicates(["question_id", "answer"]).shape[0] / questions
    pairs = marks.drop_duplicates(["question_id", "answer", "judge"]).shape[0]
    return questions, max(1, round(answers)), max(1, round(len(marks) / pairs)), judges


def _variance_of_mean(design: tuple[int, int, int, int], variance: dict[str, float]) -> float:
    q, a, r, j = design
    return (
        variance["question"] / q
        + variance["judge"] / j
        + variance["question:judge"] / (q * j)
        + variance["answer"] / (q * a)
        + variance["answer:judge"] / (q * a * j)
        + variance[_REPEAT] / (q * a * j * r)
    )


def _priced(design: tuple[int, int, int, int], variance: dict[str, float], target: float) -> dict[str, Any]:
    q, a, r, j = design
    se = math.sqrt(_variance_of_mean(design, variance))
    counts = {"n_questions": q, "answer_repeats": a, "judge_repeats": r, "judges": j, "calls": q * a * (1 + j * r)}
    return {**counts, "se": se, "reaches_target": se <= target * (1 + 1e-9)}


def _with(design: tuple[int, int, int, int], place: int, count: int) -> tuple[int, int, int, int]:
    q, a, r, j = (count if i == place else value for i, value in enumerate(design))
    return q, a, r, j


def _enough(design: tuple[int, int, int, int], place: int, variance: dict[str, float], target: float) -> dict[str, Any]:
    """The design with as many of one thing as the target takes; the variance is fixed + part / count."""
    fixed = _variance_of_mean(_with(design, place, 10**12), variance)
    part = _variance_of_mean(_with(design, place, 1), variance) - fixed
    if target**2 <= fixed:
        names = ("n_questions", "answer_repeats", "judge_repeats", "judges")
        counts = {name: None if i == place else design[i] for i, name in enumerate(names)}
        return {**counts, "calls": None, "se": math.sqrt(fixed), "reaches_target": False}
    count = max(design[place], math.ceil(part / (target**2 - fixed) - 1e-9))
    return _priced(_with(design, place, count), variance, target)


def _cheapest(
    design: tuple[int, int, int, int], variance: dict[str, float], target: float, same_questions: bool, found: Any
) -> dict[str, Any]:
    """The fewest calls that reach the target with at least today's questions, varying only what was measured."""
    counts = [range(1, 11), range(1, 11), range(1, 5)]
    components = list(_OPTIONS.values())[1:]
    ranges = [
        count if component in found else (now,)
        for count, component, now in zip(counts, components, design[1:], strict=True)
    ]
    designs = [(design[0], a, r, j) for a, r, j in product(*ranges)]
    plans = [
        _priced(plan, variance, target) if same_questions else _enough(plan, 0, variance, target) for plan in designs
    ]
    reached = [plan for plan in plans if plan["reaches_target"]]
    if reached:
        return min(reached, key=lambda plan: (plan["calls"], plan["se"]))
    return {**_UNKNOWN, "se": min(plan["se"] for plan in plans)}


def _plan_note(row: dict[str, Any], unmeasured: list[str], target: float) -> str:
    option, se = row["option"], row["se"]
    if option == "now":
        left_out = ", ".join(name for name in unmeasured if name != "question")
        return sentences(
            say("stats.plan_now", se=se), say("stats.plan_left_out", components=left_out) if left_out else ""
        )
    if math.isnan(se):
        return sentences(say("stats.plan_unmeasured", more=say(_MORE[option])), say(_BUY[_OPTIONS[option]]))
    if not row["reaches_target"]:
        if option == "cheapest":
            return say("stats.plan_range_unreached", target=target, se=se)
        return say("stats.plan_unreached", more=say(_MORE[option]), target=target, se=se)
    calls = say("stats.plan_calls", calls=row["calls"], se=se)
    return calls if option == "cheapest" else sentences(say(_ONLY[option]), calls)
