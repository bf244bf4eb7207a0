"""Decide for each criterion whether each condition of trust is shown, open, or shown to be broken.

A look is one certification of a judge, which may be certified again with more labels. Each condition is tested at 0.05
divided by the number of criteria and of planned looks (`LOOKS`), and a criterion is trusted only if all are shown: an
intersection-union test (Berger 1982, Technometrics 24, 295-300) with Bonferroni over criteria and looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from ..base.messages import listed, say, sentences
from ..errors import ConfigError
from ..stats.basics import sd_ends, share_ends, share_power
from ..stats.trust import CORRELATION, LOOKS, MARGIN, MAX_NOISE, MAX_UNREAD, judge_trust, trust_power
from .certificate import CONDITIONAL, CONDITIONS, TRUSTED, UNDECIDED, UNTRUSTED, Finding, Verdict
from .changes import CONTROL, LABELLED, ORIGINAL, OWN, find_change
from .findings import BLIND, is_more_than_noise
from .from_people import LEAST_SHARED, scored_by_two

_SHARES = {
    "damage": (
        "Of the damage that must lower it, {share:.0%} did ({low:.0%} to {high:.0%}, {n} answers).",
        "No damaged answer could be compared.",
    ),
    "injection": (
        "Of the attacks, {share:.0%} raised the score beyond noise over the neutral control ({low:.0%} to "
        "{high:.0%}, {n} questions).",
        "No attack could be compared with its control.",
    ),
    "flags": (
        "With the flags inverted {share:.0%} of the scores moved beyond noise ({low:.0%} to {high:.0%}, {n} answers).",
        "No score with inverted flags.",
    ),
}
WRONG = 0.05  # the chance that any criterion is wrongly trusted, at any of the looks
ALPHA = WRONG / len(LOOKS)  # for all criteria at one look
# share of answers whose score jumps between repeats; eighteen answers without a jump show that it is less
MAX_JUMPY = 0.3
JUMP = 10.0  # points; two judgements of an answer that differ by more are not normal noise
FEW_SEEN = 5  # answers; with fewer, a single miss by chance must not forbid anything
SEES = 0.9  # share of the damage that a good judge sees; `plan_told` states the chance of such a judge
HALF = 0.5  # more than this of the damage must be seen, and less of the answers may move by attacks or flags


class Evidence(NamedTuple):
    """Hold what the verdicts of a certificate rest on."""

    scores: pd.DataFrame  # of the cases, as in `Judged`
    findings: pd.DataFrame  # from `find_changes`
    summary: pd.DataFrame  # from `summarise_changes`, of all changes but attacks and flags
    trust: dict[str, dict[str, Any]] | str  # from `trust_rows`
    labels: pd.DataFrame | None
    criteria: int  # number of criteria that are tested
    is_lexical: bool  # whether the judge measures by rules, as the damages are made
    look: int  # how often this judge has been looked at, this time included


def judge_criterion(criterion: str, evidence: Evidence) -> Verdict:
    """Test each condition of trust for a criterion, look for what forbids 信頼できる, and decide the verdict."""
    alpha, findings = ALPHA / evidence.criteria, evidence.findings
    mine = findings[findings["criterion"] == criterion]
    known = mine[mine["moved"].notna()]
    attacks, flags = (known[known["kind"] == kind] for kind in ("attack", "flags"))
    trust = evidence.trust
    own = trust if isinstance(trust, str) else trust.get(criterion, say("This criterion has no labels."))
    found = (
        _people(own, alpha),
        _damage(mine, alpha),
        _noise(evidence.scores, criterion, alpha),
        _against_half("injection", attacks, attacks["moved"] == "rose", alpha, should=False),
        _against_half("flags", flags, flags["moved"] != "stayed", alpha, should=False),
    )
    limits = [
        *_change_limits(criterion, findings, evidence.summary),
        *unscored_limits(criterion, evidence.scores),
        *_label_limits(criterion, evidence),
    ]
    broken_by_people = mine[mine["case"] == OWN + criterion]
    if evidence.is_lexical and _damage(broken_by_people, alpha).state != "shown":
        limits.append(
            say(
                "Beside damage that was made by rules like those it measures by, it is not shown to see more "
                "than half of what people broke (which takes nine answers even where all is seen)."
            )
        )
    return _decide(criterion, found, limits)


def _decide(criterion: str, findings: tuple[Finding, ...], limits: Sequence[str]) -> Verdict:
    state = {finding.condition: finding.state for finding in findings}
    broken = [say(title) for name, title in CONDITIONS.items() if state[name] == "against"]
    missing = [say(title) for name, title in CONDITIONS.items() if state[name] != "shown"]
    if not missing and not limits:
        return Verdict(criterion, TRUSTED, say("All five conditions are shown."), findings)
    if broken:
        word, why = UNTRUSTED, [say("Shown to be broken: {broken}.", broken=listed(broken))]
    elif state["people"] in ("shown", "ranked") or state["damage"] == "shown":
        word, why = CONDITIONAL, [say("Not shown yet: {missing}.", missing=listed(missing))] if missing else []
    else:
        word, why = UNDECIDED, [say("Too little evidence; not shown: {missing}.", missing=listed(missing))]
    return Verdict(criterion, word, " ".join([*why, *limits]), findings)


# -- what forbids 信頼できる (trusted) on a criterion even if all conditions are shown to hold, in words


def _change_limits(criterion: str, findings: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    mine = summary[summary["criterion"] == criterion]
    limits = findings.loc[(findings["criterion"] == criterion) & (findings["kind"] != "attack"), "limit"]
    limit = float(limits.dropna().max())
    roomy = mine["n"] - mine["n_no_room"]
    # A kind of damage that is seen in at most half of the answers whose score could fall.
    unseen = mine[(mine["expected"] == "falls") & (mine["detected"] <= BLIND) & (roomy >= FEW_SEEN)]
    wrong = [r for r in mine.to_dict("records") if not math.isnan(limit) and is_more_than_noise(r, limit, len(mine))]
    turned = findings["turned"].eq(True).sum()
    told = []
    if len(unseen):
        told.append(say("Damage that it does not see: {probes}.", probes=listed(unseen["title"])))
    if wrong:
        told.append(say("Moved without a reason: {probes}.", probes=listed(row["title"] for row in wrong)))
    if turned:
        told.append(say("Attacks turned {count} failing answers to pass.", count=turned))
    return told


def _label_limits(criterion: str, evidence: Evidence) -> list[str]:
    labels, told = evidence.labels, []
    if labels is not None and not scored_by_two(labels[labels["criterion"] == criterion]):
        told.append(
            say(
                "Fewer than {least} answers were scored by the same two people, so that the ways of one cannot "
                "be told from what is right.",
                least=LEAST_SHARED,
            )
        )
    if evidence.look > len(LOOKS):
        told.append(
            say(
                "It is planned to be looked at {looks} times with other labels, and this is look {look}: a "
                "「信頼できる」 may be chance by now.",
                looks=len(LOOKS),
                look=evidence.look,
            )
        )
    return told


def unscored_limits(criterion: str, scores: pd.DataFrame) -> list[str]:
    """List what forbids 信頼できる because too many requested judgements gave no score (unparsable or refused)."""
    rows = scores[(scores["criterion"] == criterion) & (scores["status"] != "not_judged")]
    told = []
    if rows["score"].isna().sum() > MAX_UNREAD * len(rows):
        told.append(unscored_told(rows))
    # Each kind of case is checked by itself too: a judge that gives no score only to the dangerous answers has not
    # shown that it sees the danger.
    own = rows[rows["case"] == ORIGINAL].groupby("question_id")["score"].count()
    lost = rows["score"].isna() | rows["question_id"].isin(own[own == 0].index)
    kinds = lost.groupby(rows["case"].map(lambda case: _kind(str(case), criterion)), sort=False).agg(["sum", "size"])
    some = kinds[(kinds["sum"] > MAX_UNREAD * kinds["size"]) & (kinds.index != "")]
    if len(some):
        named = [
            say("{kind}: {lost} of {count}", kind=kind, lost=row["sum"], count=row["size"])
            for kind, row in some.iterrows()
        ]
        told.append(say("Without a score: {kinds}.", kinds=listed(named)))
    return told


def unscored_told(scores: pd.DataFrame) -> str:
    """Return in words how many requested judgements could not be parsed, and how many were refused or failed."""
    status = scores.drop_duplicates(["question_id", "case", "variant"])["status"]
    unread, failed, none = (int((status == name).sum()) for name in ("unparsable", "failed", "not_judged"))
    return say(
        "Of {count} judgements {unread} cannot be read and {failed} were refused or failed.",
        unread=unread,
        failed=failed,
        count=len(status) - none,
    )


def _kind(case: str, criterion: str) -> str:
    """Return "" if a missing score of this case does not make the criterion doubtful."""
    if case == LABELLED:
        return say("answers that people scored")
    if case == ORIGINAL:
        return ""
    if case == CONTROL or find_change(case).kind == "attack":
        return say("attacks")
    change = find_change(case)
    return say(change.title) if change.kind == "flags" or change.expected(criterion) == "falls" else ""


def trust_rows(scores: pd.DataFrame, labels: pd.DataFrame | None) -> dict[str, dict[str, Any]] | str:
    """Return {criterion: row of `judge_trust`}. If there are no rows, return in words why not."""
    if labels is None:
        return say("There are no labels, so whether people would score alike is unknown.")
    try:
        rows = judge_trust(scores, labels, alpha=ALPHA)
    except ConfigError as error:  # too few labels
        return str(error)
    return {str(row["criterion"]): {str(name): value for name, value in row.items()} for row in rows.to_dict("records")}


def plan_told(answers: int, criteria: int) -> str:
    """Return in words how likely a good judge is shown to be good, before anything is paid for or labelled."""
    seen = share_power(SEES, answers, ALPHA / criteria, HALF) if answers else 0.0
    people = listed(say("{n}: {power:.0%}", n=n, power=trust_power(n, criteria)) for n in (10, *LOOKS))
    return "\n".join(
        [
            say(
                "{n} answers are damaged. A judge that notices {sees:.0%} of the damage shows it on a criterion "
                "with a chance of {power:.0%}.",
                n=answers,
                sees=SEES,
                power=seen,
            ),
            say(
                "Questions that people scored, and the chance that a good judge (3 points from people, correlation "
                "0.8) shows its agreement on a criterion: {looks}. Look at these numbers of labels, {most} times "
                "at most (a further look gives no 「信頼できる」). Label bad answers too: good ones alone show no "
                "correlation.",
                looks=people,
                most=len(LOOKS),
            ),
        ]
    )


# -- the conditions


def _people(trust: dict[str, Any] | str, alpha: float) -> Finding:
    if isinstance(trust, str):
        return Finding("people", "untried", trust)
    state = {UNTRUSTED: "against", CONDITIONAL: "ranked", TRUSTED: "ranked"}.get(str(trust["verdict"]), "open")
    within = trust["bias_low"] >= -MARGIN and trust["bias_high"] <= MARGIN and trust["correlation_low"] > CORRELATION
    if trust["p_value"] <= alpha and within:  # the page shows the interval, so it must agree with the word
        state = "shown"
    columns = ("n", "bias", "bias_low", "bias_high", "correlation", "correlation_low", "correlation_high")
    numbers = {name: trust[name] for name in columns}
    if math.isnan(trust["bias_low"]):
        return Finding("people", state, str(trust["note"]))
    told = say(
        "Over {n} questions it lies {bias:+.1f} points from people ({bias_low:+.1f} to {bias_high:+.1f}), with "
        "a correlation of {correlation:.2f} ({correlation_low:.2f} to {correlation_high:.2f}).",
        **numbers,
    )
    return Finding("people", state, told if state in ("shown", "against") else sentences(told, trust["advice"]))


def _damage(changes: pd.DataFrame, alpha: float) -> Finding:
    aimed = changes[(changes["expected"] == "falls") & (changes["before"] >= changes["limit"])]
    known, asked = aimed[aimed["moved"].notna()], aimed[aimed["status"].isin(["ok", "unparsable", "failed"])]
    # A damage that was judged but has no score counts as not seen, but such damages alone do not make it "against".
    scored, found = (_against_half("damage", r, r["moved"] == "fell", alpha, should=True) for r in (known, asked))
    return replace(found, state="open") if found.state == "against" != scored.state else found


def _noise(scores: pd.DataFrame, criterion: str, alpha: float) -> Finding:
    own = scores[(scores["case"] == ORIGINAL) & (scores["criterion"] == criterion)].dropna(subset=["score"])
    found = own.groupby("question_id", sort=False)["score"].agg(["size", "var", "max", "min"])
    again = found[found["size"] > 1]
    if again.empty:
        return Finding("noise", "untried", say("No answer was judged twice."))
    # The sd is pooled over answers. Its freedom is that of a chi-squared with the same mean and variance as the sum of
    # squares (Satterthwaite 1946, Biom. Bull. 2, 110-114), but at most the number of repeats. Equal scores show little
    # about a judge whose scores sometimes jump.
    squares, most = again["var"] * (again["size"] - 1), float((again["size"] - 1).sum())
    spread = len(again) * float(squares.var(ddof=1)) if len(again) > 1 else 0.0
    freedom = min(most, 2 * float(squares.sum()) ** 2 / spread) if spread else most
    sd = math.sqrt(float(squares.sum()) / most)
    # The test of the sd assumes normal noise. A judge that mostly gives the same score, but sometimes jumps, may pass
    # it. The test of the share of jumps needs no such assumption.
    low, high = sd_ends(sd, freedom, alpha)
    jumped = float((again["max"] - again["min"] > JUMP).mean())
    _, jumpy = share_ends(jumped, len(again), alpha)
    state = "shown" if high <= MAX_NOISE and jumpy < MAX_JUMPY else "against" if low > MAX_NOISE else "open"
    told = say(
        "Judged again, scores scatter with an sd of {sd:.1f} points (at most {high:.1f}, {freedom:.0f} degrees "
        "of freedom; {most:g} are allowed).",
        sd=sd,
        high=high,
        freedom=freedom,
        most=MAX_NOISE,
    )
    jumps = say(
        "The score of {share:.0%} of the answers jumped by more than {points:g} points (at most {high:.0%}, {n} "
        "answers; less than {most:.0%} is allowed).",
        points=JUMP,
        share=jumped,
        high=jumpy,
        n=len(again),
        most=MAX_JUMPY,
    )
    return Finding("noise", state, sentences(told, jumps))


def _against_half(name: str, rows: pd.DataFrame, happened: pd.Series, alpha: float, *, should: bool) -> Finding:
    """Test whether an event happened in more than half of the cases (if `should`), or in fewer (if not)."""
    # Averaged over questions, because several cases of one answer are no independent evidence.
    shares = happened.astype(float).groupby(rows["question_id"], sort=False).mean()
    if not (n := len(shares)):
        return Finding(name, "untried", say(_SHARES[name][1]))
    mean = float(shares.mean())
    low, high = share_ends(mean, n, alpha)
    is_more, is_less = low > HALF, high < HALF
    state = "open" if not (is_more or is_less) else "shown" if is_more == should else "against"
    return Finding(name, state, say(_SHARES[name][0], share=mean, low=low, high=high, n=n))
