"""Describe what changes if a new judge replaces the old one (`certify/migration.py`), in words and as one page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from ..base.messages import listed, say
from ..base.showing import escape, table_html
from ..certify.migration import ENOUGH, Migration, MigrationPlan
from .page import checked_page, page_environment, write_page

_SHOWN = 30  # answers with a changed verdict that are listed


def plan_line(plan: MigrationPlan) -> str:
    """Return a sentence that says how many stored answers the two judges will judge."""
    questions = len({case.question_id for case in plan.cases})
    names: dict[str, Any] = {"old": plan.old, "new": plan.new}
    return say("certify.migrate_plan", n=len(plan.cases), stored=plan.stored, questions=questions, **names)


def migration_title(found: Migration) -> str:
    """Return a title with the names of the old and the new judge."""
    return say("certify.migrate_title", old=found.plan.old, new=found.plan.new)


def migration_lines(found: Migration) -> list[str]:
    """Return sentences on what changes with the new judge, and on what to do.

    They also say whether enough answers were judged to know this.
    """
    plan, row, line = found.plan, found.overall, found.plan.rubric.pass_threshold
    names: dict[str, Any] = {"old": plan.old, "new": plan.new}
    passed = int(found.turned["old_passed"].sum())
    count = len(found.turned)
    lines = []
    if pd.isna(row["pass_line"]):
        lines.append(say("certify.migrate_no_line", **names, correlation=row["correlation"]))
    else:
        points, low, high = row["pass_line"], row["pass_line_low"], row["pass_line_high"]
        lines.append(say("certify.migrate_line", **names, line=line, points=points, low=low, high=high))
    share: dict[str, Any] = {"low": found.share_low, "high": found.share_high, "stored": plan.stored}
    turned: dict[str, Any] = {"count": count, "to_fail": passed, "to_pass": count - passed}
    lines.append(say("certify.migrate_turned", line=line, n=found.n, **turned, **share))
    if not pd.isna(row["pass_line"]):
        bridged = int(row["verdict_changes_bridged"])
        lines.append(say("certify.migrate_turned_bridged", points=row["pass_line"], count=bridged))
        key = "certify.migrate_enough" if found.is_enough else "certify.migrate_more"
        left = max(plan.stored - len(plan.cases), 0)
        lines.append(say(key, enough=ENOUGH, more=found.more, left=left))
        if found.one_sided is not None:
            side = say("certify.migrate_side_fail" if found.one_sided else "certify.migrate_side_pass")
            lines.append(say("certify.migrate_one_side", old=plan.old, side=side))
    if row["n_missing"]:
        lines.append(say("certify.migrate_unread", count=int(row["n_missing"])))
    if plan.categories_left:
        lines.append(say("certify.migrate_categories", names=listed(plan.categories_left)))
    return [*lines, say("certify.migrate_next", new=plan.new)]


def migration_html(found: Migration) -> str:
    """Return the sentences of `migration_lines` with their tables, as HTML. All text is escaped."""
    line = found.plan.rubric.pass_threshold
    head = [
        say("certify.column_criterion"), say("certify.migrate_shift"), say("certify.migrate_interval"),
        say("certify.migrate_corresponding", line=line), say("certify.migrate_interval"), say("certify.migrate_changes"),
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (
            row["criterion"], _number(row["shift"], "+.1f"), _between(row["shift_low"], row["shift_high"], "+.1f"),
            _number(row["pass_line"]), _between(row["pass_line_low"], row["pass_line_high"]),
            f"{row['verdict_changes']} / {row['n_answers']}",
        )
        for row in found.bridge.to_dict("records")
    ]  # fmt: skip
    told = "".join(f"<p>{escape(each)}</p>" for each in migration_lines(found)) + _table(head, rows)
    if found.turned.empty:
        return told
    head = [say("certify.column_questions"), say("certify.migrate_old_mark"), say("certify.migrate_new_mark")]
    turned = found.turned.head(_SHOWN).to_dict("records")
    rows = [(row["question_id"], _number(row["old_mean"]), _number(row["new_mean"])) for row in turned]
    more = "<p>…</p>" if len(found.turned) > _SHOWN else ""
    return told + f"<h3>{escape(say('certify.migrate_turned_title'))}</h3>" + _table(head, rows) + more


def write_migration_page(path: Path | str, found: Migration) -> Path:
    """Write a self-contained HTML file that says what changes if a new judge replaces the old one. Return its path.

    Parameters
    ----------
    path
        The file. Its folder must exist. An existing file is replaced only if socjudge wrote it.
    found
        From `migrate_judge`.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        If the folder is missing, or the file exists and socjudge did not write it.

    Examples
    --------
    >>> import socjudge as sj
    >>> callable(sj.certify.write_migration_page)
    True
    """
    path = checked_page(path)
    page = page_environment().get_template("migration.html.j2")
    write_page(path, page.render(title=migration_title(found), body=Markup(migration_html(found))))
    return path


def _table(head: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    cells = ([(row[0], ""), *((number, "number") for number in row[1:])] for row in rows)
    return f'<div class="wide" tabindex="0">{table_html(head, cells)}</div>'


def _number(value: float, shape: str = ".1f") -> str:
    return "–" if pd.isna(value) else format(value, shape)


def _between(low: float, high: float, shape: str = ".1f") -> str:
    return "–" if pd.isna(low) else f"{low:{shape}} – {high:{shape}}"
