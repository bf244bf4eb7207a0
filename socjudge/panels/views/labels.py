"""Return what LabelPanel shows, as HTML. Texts are escaped by `escape` of base/showing.py."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.messages import say
from ...base.pass_rule import average
from ...base.showing import block, escape, flags_html
from ...history.labels import Label
from ...records import Evaluation
from ..state.labelling import LabelItem, LabelSession


def progress_html(session: LabelSession) -> str:
    """Return HTML that says how many answers the rater has scored."""
    done = say("{done}/{total} answers", done=session.done, total=session.total)
    line = [f"<b>{done}</b>", escape(say("{rater}", rater=session.rater))]
    if session.done == session.total:
        line.append(say("✅ All are scored"))
    if session.is_again:
        line.append(
            say(
                "🔁 The same answer again. Score it without recalling your scores (this measures how steady scoring is)"
            )
        )
    problem = [escape(session.problem)] if session.problem else []
    return block("warn" if session.problem else "", "　".join(line), *problem)


def item_html(item: LabelItem) -> str:
    """Return an answer to score as HTML, with its question, keypoints and context, but without the judge's scores."""
    question, answer = item.question, item.answer
    points = "".join(f"<li>{escape(point)}</li>" for point in question.expected_keypoints)
    keypoints = f"{say('Expected points')}<ul>{points}</ul>" if points else say("Expected points: not recorded")
    return block(
        "",
        f'<div class="question"><b>Q. {escape(question.question)}</b>　{escape(question.category)}</div>{keypoints}'
        f"{flags_html(answer)}{say('Answer')}<pre>{escape(answer.answer)}</pre>"
        f"<details><summary>{say('Context')}</summary><pre>{escape(answer.context)}</pre></details>",
    )


def judged_html(title: str, label: Label, evaluations: Sequence[Evaluation]) -> str:
    """Return, as HTML, a table of the rater's scores and of each judgement by the judge, with the judge's reasons.
    The column of an unparsable judgement has no scores. There are no judgements if they must not be shown yet."""
    several = len(evaluations) > 1
    names = [f"Judge{f' {n}' if several else ''}" for n in range(1, len(evaluations) + 1)]
    read = [evaluation if evaluation.status == "ok" else None for evaluation in evaluations]
    head = "".join(f'<th scope="col">{name}</th>' for name in [say("Criterion"), say("You"), *names])
    rows = [
        _row(criterion, [score, *(each.scores.get(criterion) if each else None for each in read)])
        for criterion, score in label.scores.items()
    ]
    rows.append(_row(say("Mean"), [average(label.scores), *(each.average_score if each else None for each in read)]))
    reasons = "".join(_reasons(name, evaluation) for name, evaluation in zip(names, evaluations, strict=True))
    table = f'<table class="scores"><tr>{head}</tr>{"".join(rows)}</table>'
    return block("good", f"{escape(title)}{table}{reasons}")


def _row(name: str, values: Sequence[float | None]) -> str:
    texts = ("―" if value is None else f"{value:.1f}".removesuffix(".0") for value in values)
    cells = "".join(f"<td>{text}</td>" for text in texts)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def _reasons(name: str, evaluation: Evaluation) -> str:
    if evaluation.status != "ok":
        return f"<div>{escape(say('{name}: could not be scored {error}', name=name, error=evaluation.error))}</div>"
    reasons = "".join(
        f"<li><b>{escape(criterion)}</b>: {escape(reason)}</li>"
        for criterion, reason in evaluation.rationale.items()
        if reason
    )
    comment = evaluation.overall_comment
    comment = escape(say("Overall comment: {comment}", comment=comment)) if comment else ""
    title = say("{name}: reasons", name=name)
    return f"<details open><summary>{title}</summary><ul>{reasons}</ul>{comment}</details>"
