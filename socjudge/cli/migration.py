"""Define `socjudge migrate-judge`, the command for a change of the judge. It calls the old and the new judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.messages import say
from ..base.showing import shown_path
from ..records import RunOptions
from .groups import Money, grouped
from .shared import confirm, echo


@grouped
def migrate_judge(
    *,
    old: Annotated[str, typer.Option("--from", help=say("cli.migrate_from"))],
    new: Annotated[str, typer.Option("--to", help=say("cli.migrate_to"))],
    size: Annotated[int, typer.Option(min=8, help=say("cli.migrate_size"))] = 40,
    page: Annotated[Path | None, typer.Option(help=say("cli.migrate_page"))] = None,
    money: Money,
    logs_dir: Annotated[str | None, typer.Option(help=say("cli.logs_read_option"))] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help=say("cli.fresh_option"))] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=say("cli.yes_option"))] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=say("cli.quiet_option"))] = False,
) -> None:
    """Show what would change if a new judge replaced the old one."""
    from ..certify import migration
    from ..report.migration import migration_lines, migration_title, plan_line, write_migration_page
    from ..report.page import checked_page

    plan = migration.plan_migration(logs_dir, old=old, new=new, size=size)
    if page is not None:
        checked_page(page)
    echo(plan_line(plan), err=True)
    confirm(plan.estimate, yes)
    found = migration.migrate_judge(
        plan, max_cost_usd=money.cap, progress=not quiet,
        options=RunOptions(fresh=fresh),
    )  # fmt: skip
    echo("\n".join([migration_title(found), *migration_lines(found)]))
    if page is not None:
        written = write_migration_page(page, found)
        echo(say("cli.migrate_written", page=shown_path(written.absolute())), err=True)
