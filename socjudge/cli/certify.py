"""The command line of the probes: `socjudge probe`, whether a judge marks down what it should, and only that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import constants
from ..base.messages import say
from .shared import COULD_NOT_JUDGE, cap_of, confirm, echo, or_exit


def probe(
    log: Annotated[str, typer.Argument(help=say("cli.probe_log"))],
    judge_model: Annotated[str, typer.Option(help=say("cli.probe_judge"))] = "auto",
    judge_prompt: Annotated[str | None, typer.Option(help=say("cli.probe_prompt"))] = None,
    repeats: Annotated[int, typer.Option(min=1, help=say("cli.probe_repeats"))] = 2,
    per_probe: Annotated[int | None, typer.Option(min=1, help=say("cli.probe_per_probe"))] = None,
    injection: Annotated[bool, typer.Option("--injection", help=say("cli.probe_injection"))] = False,
    anchoring: Annotated[bool, typer.Option("--anchoring", help=say("cli.probe_anchoring"))] = False,
    hardening: Annotated[bool, typer.Option("--hardening", help=say("cli.probe_hardening"))] = False,
    max_cost_usd: Annotated[float | None, typer.Option(min=0, help=say("cli.probe_max_cost"))] = None,
    no_cap: Annotated[bool, typer.Option("--no-cap", help=say("cli.no_cap_option"))] = False,
    logs_dir: Annotated[str | None, typer.Option(help=say("cli.probe_logs_dir"))] = None,
    chart: Annotated[Path | None, typer.Option(help=say("cli.probe_chart"))] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=say("cli.probe_yes"))] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=say("cli.probe_quiet"))] = False,
) -> None:
    """Put damaged answers before a judge."""
    from ..certify import anchoring as anchors
    from ..certify import injection as attacks
    from ..certify import probes
    from ..certify import two_prompts as prompts
    from ..certify.probe_findings import explain_probes, summarise_probes
    from ..models.budget import as_budget
    from ..runs.finished_parts import forget_parts
    from ..runs.load import load_run
    from ..runs.unfinished import journal_folder

    run = or_exit(load_run, log)
    judge: dict[str, Any] = {"judge_model": judge_model, "judge_prompt": judge_prompt}
    both: dict[str, Any] = {"judge_model": judge_model, "plain": judge_prompt}
    estimate = or_exit(probes.estimate_probes, run, **judge, repeats=repeats, per_probe=per_probe)
    if injection:
        estimate += or_exit(attacks.estimate_injections, run, **judge, per_attack=per_probe)
    if anchoring:
        estimate += or_exit(anchors.estimate_anchoring, run, **judge, repeats=repeats)
    if hardening:
        estimate += or_exit(prompts.estimate_prompts, run, **both)
    confirm(estimate, yes)

    budget = as_budget(cap_of(max_cost_usd, no_cap))
    options: dict[str, Any] = {
        "max_cost_usd": budget, "logs_dir": logs_dir or constants.LOGS_DIR / "certify", "progress": not quiet,
    }  # fmt: skip
    probing = or_exit(probes.run_probes, run, **judge, repeats=repeats, per_probe=per_probe, **options)
    judged = [probing.judged]
    for text in explain_probes(probing.changes).values():
        echo(f"{text}\n")
    if chart is not None:
        from ..charts.certify import plot_probe_matrix

        figure: Any = plot_probe_matrix(summarise_probes(probing.changes)).figure
        figure.savefig(chart)
    if injection:
        found = or_exit(attacks.run_injections, run, **judge, per_attack=per_probe, **options)
        judged.append(found.judged)
        echo(attacks.explain_injections(found.gains))
    if anchoring:
        moved = or_exit(anchors.run_anchoring, run, **judge, repeats=repeats, **options)
        judged += moved.judged
        echo(anchors.explain_anchoring(moved.moves))
    if hardening:
        compared = or_exit(prompts.compare_prompts, run, **both, **options)
        judged += [compared.plain, compared.hardened]
        echo(prompts.explain_prompts(compared.differences))
    if any(each.stopped for each in judged):
        echo(say("certify.budget_ended", cost=budget.spent_usd), err=True)
        raise typer.Exit(COULD_NOT_JUDGE)
    forget_parts(journal_folder(options["logs_dir"]), [each.log_path for each in judged])
