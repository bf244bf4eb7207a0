"""Say what a user does instead of something that an earlier version had."""

from __future__ import annotations

from .messages import say

# Commands stand as they are typed, options with their dashes; the rest are public names and settings.
_INSTEAD = {
    "--unsure-judge": "former.near_line",
    "--reasons-from": "former.near_line",
    "--until-certain": "former.several_looks",
    "gate_progress": "former.gate",
    "socjudge import": "former.answers_of_another_tool",
    "import_results": "former.answers_of_another_tool",
    "socjudge check": "former.scores_of_another_tool",
    "--marks": "former.labels",
    "write_marks_sheet": "former.labels",
    "next_labels": "former.labels",
    "socjudge history": "former.frames",
    "export_history": "former.frames",
    "write_table": "former.frames",
    "load_table": "former.frames",
    "judge_flaws": "former.agreement",
    "plot_cost_agreement": "former.agreement",
    "plot_verdict_flips": "former.flips",
    "socjudge migrate-judge": "former.another_judge",
    "plan_migration": "former.another_judge",
    "migrate_judge": "former.another_judge",
    "write_migration_page": "former.another_judge",
    "bridged_trend": "former.another_judge",
    "plot_bridged_trend": "former.another_judge",
    "--junit": "former.job",
    "--against": "former.changes",
    "--fail-on": "former.changes",
    "--no-cap": "former.no_cap",
    "--output-tokens": "former.limits_of_calls",
    "--timeout-s": "former.limits_of_calls",
    "--patience-s": "former.limits_of_calls",
    "socjudge lab": "former.lab",
    "DatasetPanel": "former.dataset",
    "CertificatePanel": "former.certificate",
    "socjudge check-dataset": "former.check_dataset",
    "check_verdicts": "former.check_verdicts",
    "--write-questions": "former.questions",
    "like": "former.http_tables",
    "socjudge batch": "former.live_run",
    "batch": "former.live_run",
    "combine_judges": "former.several_judges",
    "--repair": "former.only_failed",
    "repair_run": "former.only_failed",
}


def instead_of(name: str) -> str:
    """Return one sentence on what to do instead of a former name, with the place that shows how. Return "" for any
    other name."""
    key = _INSTEAD.get(name)
    return "" if key is None else say(key)
