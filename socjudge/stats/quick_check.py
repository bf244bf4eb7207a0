"""Compare the verdicts of one judge with the verdicts of people, from any two columns, and count how often they are
equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..base.messages import say
from ..errors import ConfigError
from .basics import pass_rate_interval

MIN_LABELS = 10  # answers of a kind; with fewer, an interval covers half of all possible shares

Verdict = bool | float | None


def check_judge(judge: Sequence[Verdict], human: Sequence[Verdict], *, line: float | None = None) -> pd.DataFrame:
    """Measure how often a judge's verdict equals people's verdict.

    There is one row for the answers that people pass, one for those that they fail, and one for all.

    Parameters
    ----------
    judge, human
        One verdict or score per answer, in the same order: True or False, 0 or 1, or points (then give `line`). It is
        None if an answer has none.
    line
        The lowest score with which an answer passes. It is needed if there are scores other than 0 and 1.

    Returns
    -------
    DataFrame
        - of: the answers that people "passed", those that they "failed", or "all"
        - n: answers with both verdicts; n_same: those of them whose two verdicts are equal; n_missing: answers of any
          kind that lack a verdict
        - share, low, high: n_same / n and its 95 % interval (Wilson, as if answers were independent); missing with
          fewer than MIN_LABELS answers
        - n_more: how many more answers of this kind must be labelled before the share can be given

    Raises
    ------
    ConfigError
        If the columns have different lengths, or there are points but no line.

    Notes
    -----
    Source: Wilson (1927), J. Am. Stat. Assoc. 22, 209-212.

    Examples
    --------
    >>> check_judge([True] * 11 + [False], [True] * 12).loc[0, ["n", "n_same"]].tolist()
    [12, 11]
    """
    if len(judge) != len(human):
        raise ConfigError(say("stats.check_lengths", judge=len(judge), human=len(human)))
    pairs = [
        (passes, passed)
        for passes, passed in zip(_verdicts(judge, line), _verdicts(human, line), strict=True)
        if passes is not None and passed is not None
    ]
    rows = []
    for kind, wanted in (("passed", (True,)), ("failed", (False,)), ("all", (True, False))):
        same = [passes == passed for passes, passed in pairs if passed in wanted]
        enough = len(same) >= MIN_LABELS
        low, high = pass_rate_interval(sum(same), len(same)) if enough else (None, None)
        rows.append(
            {
                "of": kind, "n": len(same), "n_same": sum(same), "n_missing": len(judge) - len(pairs),
                "share": sum(same) / len(same) if enough else None, "low": low, "high": high,
                "n_more": max(0, MIN_LABELS - len(same)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows).astype({"share": "Float64", "low": "Float64", "high": "Float64"})


def check_text(table: pd.DataFrame) -> str:
    """Return the table of `check_judge` in words, with one sentence per line.

    There is a line about the answers that people pass, one about those that they fail, and one about missing verdicts,
    if any.
    """
    passed, failed, _ = table.itertuples(index=False)
    told = []
    for row, enough, few in (
        (passed, "stats.check_passed", "stats.check_passed_few"),
        (failed, "stats.check_failed", "stats.check_failed_few"),
    ):
        if row.n_more:
            told.append(say(few, n=row.n, more=row.n_more))
        else:
            told.append(say(enough, share=row.share, n=row.n, low=row.low, high=row.high))
    if passed.n_missing:
        told.append(say("stats.check_missing", count=passed.n_missing))
    return "\n".join(told)


def _verdicts(marks: Sequence[Verdict], line: float | None) -> list[bool | None]:
    """Convert scores to verdicts. Raise ConfigError if there are points but no line."""
    found: list[bool | None] = []
    for row, mark in enumerate(marks, start=1):
        if mark is None or isinstance(mark, bool):
            found.append(mark)
        elif line is not None:
            found.append(mark >= line - 1e-9)
        elif mark in (0, 1):
            found.append(bool(mark))
        else:
            raise ConfigError(say("stats.check_line", row=row, mark=mark))
    return found
