"""Write a certificate as one HTML page.

The page has the verdict on each criterion, the evidence for it, the rules, and what was not tested.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from ..base.files import checked_page, write_page
from ..base.messages import listed, say
from ..certify.certificate import CONDITIONAL, TRUSTED, UNDECIDED, UNTRUSTED, VALID_DAYS, Certificate
from ..certify.conditions import ALPHA, HALF, JUMP, MAX_JUMPY, WRONG
from ..certify.from_people import LEAST_SHARED
from ..records import is_embedded
from ..stats.basics import MIN_QUESTIONS, OVERALL
from ..stats.trust import CORRELATION, LOOKS, MARGIN, MAX_NOISE
from .page import PAGE_MARK, page_environment

_LOOKS = {TRUSTED: "trusted", CONDITIONAL: "conditional", UNTRUSTED: "untrusted", UNDECIDED: "undecided"}
_MARKS = {"shown": "○", "ranked": "△", "open": "△", "against": "×", "untried": "–"}


def write_certificate_page(path: Path | str, certificate: Certificate) -> Path:
    """Write a certificate, with explanations, as a self-contained HTML file. Return the path of the file.

    `certificate` is from `certify_judge` or `load_certificate`. An existing file is replaced only if socjudge wrote it.
    ConfigError if it did not, or if the folder is missing.

    Examples
    --------
    >>> import socjudge as sj
    >>> question = sj.load_eval_dataset()[0]
    >>> answer = sj.AssistantAnswer(question.question, "1. 端末を隔離する。[出典: malware_response.md > 初動対応]")
    >>> certificate = sj.certify.certify_judge(
    ...     [(question, answer)], judge_model="offline", size=1, logs_dir="logs/certify", progress=False
    ... )
    >>> sj.certify.write_certificate_page("certificate.html", certificate).name
    'certificate.html'
    """
    path = checked_page(path, PAGE_MARK)
    bound = certificate.binding
    issued = datetime.fromisoformat(certificate.issued_at)
    rule = {
        "criteria": len(bound.criteria),
        "alpha": WRONG,
        "each": ALPHA / len(bound.criteria),
        "looks": len(LOOKS),
        "margin": MARGIN,
        "correlation": CORRELATION,
        "least": MIN_QUESTIONS,
        "noise": MAX_NOISE,
        "jump": JUMP,
        "jumpy": MAX_JUMPY,
        "half": HALF,
        "days": VALID_DAYS,
        "shared": LEAST_SHARED,
    }
    html = (
        page_environment()
        .get_template("certificate.html.j2")
        .render(
            certificate=certificate,
            issued=issued,
            until=issued + timedelta(days=VALID_DAYS),
            looks=_LOOKS,
            marks=_MARKS,
            rule=rule,
            facts=_facts(certificate),
            is_offline=is_embedded(bound.judge_model),
            raters=[row for row in certificate.tables["raters"] if row["criterion"] == OVERALL],
        )
    )
    write_page(path, html)
    return path


def _facts(certificate: Certificate) -> list[tuple[str, str]]:
    bound, basis = certificate.binding, certificate.basis
    cost = "–" if basis["cost_usd"] is None else f"${basis['cost_usd']:.4f}"
    answers = "{answers} ({tried} damaged, {labels} scored by {raters} raters)"
    return [
        (say("the judge's model"), bound.judge_model),
        (say("the model that answers"), bound.judge_model_resolved),
        (say("the service"), bound.judge_service or "–"),
        (say("the judge's settings"), bound.judge_settings or "–"),
        (say("the judge prompt"), f"{basis['judge_prompt_id']}, sha256 {bound.judge_prompt_sha256[:12]}"),
        (say("criteria"), listed(bound.criteria)),
        (say("version of socjudge"), bound.socjudge_version),
        (say("Log with the answers"), basis["log"] or "–"),
        (say("Answers used"), say(answers, **{n: basis[n] for n in ("answers", "tried", "labels", "raters")})),
        (say("Cost"), say("{calls} judgements, {cost}", calls=basis["calls"], cost=cost)),
    ]
