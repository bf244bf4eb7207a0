"""Say what a user does instead of something that an earlier version had."""

from __future__ import annotations

from .messages import say

# Commands stand as they are typed, options with their dashes; the rest are public names and settings.
_INSTEAD = {
    name: sentence
    for names, sentence in (
        (
            ("--unsure-judge", "--reasons-from"),
            'Judge the answers near the pass line again with a second judge: docs/reference.md, "Judge again near '
            'the line".',
        ),
        (
            ("--until-certain",),
            'Have each answer judged several times with judge_repeats: docs/reference.md, "Look several times '
            'instead of once".',
        ),
        (
            ("plot_criterion_multiples",),
            "Use plot_criterion_trend, which draws a small chart for each criterion.",
        ),
        (
            ("gate_progress",),
            "Use stats.gate_confidence: docs/statistics.md.",
        ),
        (
            ("gate_questions",),
            "Use stats.gate_confidence with by='question': docs/statistics.md.",
        ),
        (
            (
                "Probes",
                "Injections",
                "Anchoring",
                "Prompts",
                "summarise_probes",
                "summarise_injections",
                "summarise_anchoring",
                "prompt_equivalence",
                "explain_probes",
                "probe_matrix",
            ),
            "Use certify.probe_judge with only=, and summarise_changes: docs/certify.md.",
        ),
        (
            ("estimate_certificate",),
            "Use certify.plan_certificate, which has the same arguments; its estimate is the cost: docs/certify.md.",
        ),
        (
            ("socjudge import", "import_results"),
            "Bring the answers of another tool in as a file, with --answers, or with load_answers in Python.",
        ),
        (
            ("socjudge check",),
            "Compare the scores of another tool as a DataFrame: docs/reference.md, \"Another tool's scores as a "
            'frame".',
        ),
        (
            ("--marks", "write_marks_sheet", "next_labels"),
            'People score answers in LabelPanel, or in a table: docs/reference.md, "Answers for people to score in '
            'a spreadsheet".',
        ),
        (
            ("socjudge history", "export_history", "write_table", "load_table"),
            'Write the DataFrames of load_scores and its like with to_csv or to_parquet: docs/reference.md, "Frames '
            'for other programs".',
        ),
        (
            ("judge_flaws", "plot_cost_agreement"),
            "Use the tables of judge_agreement and stats.judge_trust: docs/statistics.md.",
        ),
        (
            ("same_answer_runs",),
            "Compare the sets of answer_sha256 of each run_id, as notebook 03 does.",
        ),
        (
            ("pairwise_agreement",),
            "Use judge_agreement with pairs=True: docs/statistics.md.",
        ),
        (
            ("rater_consistency",),
            "Use judge_agreement with by='again': docs/statistics.md.",
        ),
        (
            ("plot_verdict_flips",),
            "Use the tables of compare_judges and verdict_flips: docs/statistics.md.",
        ),
        (
            (
                "socjudge migrate-judge",
                "plan_migration",
                "migrate_judge",
                "write_migration_page",
                "bridged_trend",
                "plot_bridged_trend",
            ),
            'Let the new judge rejudge a log, then compare the two: docs/reference.md, "Another judge".',
        ),
        (
            ("--junit",),
            "In CI, use the exit codes and --summary: docs/reference.md#ci.",
        ),
        (
            ("--against", "--fail-on"),
            "See what changed with socjudge compare BEFORE AFTER; a job fails by the exit codes of run: docs/reference.md#ci.",
        ),
        (
            ("--no-cap",),
            'Write --max-cost-usd inf for no cap: docs/reference.md, "Models".',
        ),
        (
            ("--output-tokens", "--timeout-s", "--patience-s"),
            'Set SOCJUDGE_OUTPUT_TOKENS, SOCJUDGE_TIMEOUT_S or SOCJUDGE_PATIENCE_S: docs/reference.md, "Settings of the calls".',
        ),
        (
            ("socjudge lab",),
            "Run make lab, or jupyter lab --LabApp.default_url=/lab/tree/notebooks in the project's folder.",
        ),
        (
            ("DatasetPanel",),
            "Write the questions (JSON, CSV or Excel) in an editor, and check them with socjudge doctor: "
            'docs/reference.md, "Commands".',
        ),
        (
            ("CertificatePanel",),
            "Make certificates with notebook 05 or with socjudge certify: docs/certify.md.",
        ),
        (
            ("socjudge check-dataset",),
            "`socjudge doctor --dataset FILE` checks the questions, with the runbooks and logs: docs/reference.md, "
            '"Commands".',
        ),
        (
            ("check_verdicts",),
            "Take mvp_passed and is_open of load_runs: docs/frames.md.",
        ),
        (
            ("--write-questions",),
            'Write questions.json yourself: docs/reference.md, "Questions of the passages".',
        ),
        (
            ("like",),
            'Copy the whole table from docs/reference.md, "An assistant behind HTTP".',
        ),
        (
            ("socjudge batch", "batch"),
            'Make a live run, with socjudge run or run_evaluation_suite: docs/reference.md, "Interrupted and large '
            'runs".',
        ),
        (
            ("combine_judges",),
            "Have each judge score the answers with rejudge, and compare them with compare_judges: "
            'docs/reference.md, "Several judges under one cap".',
        ),
        (
            ("estimate_run",),
            "Use plan_run(…).left, which has the same arguments; plan_run(…).run() starts the run.",
        ),
        (
            ("--repair", "repair_run"),
            'Use socjudge rejudge --log LOG --only-failed, or rejudge(run, only_failed=True): docs/reference.md, "Judge '
            'again only what failed".',
        ),
    )
    for name in names
}


def instead_of(name: str) -> str:
    """Return one sentence on what to do instead of a former name, with the place that shows how. Return "" for any
    other name."""
    return say(_INSTEAD[name]) if name in _INSTEAD else ""
