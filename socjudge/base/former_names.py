"""Say what a user does instead of something that an earlier version had."""

from __future__ import annotations

from .messages import say

# Commands stand as they are typed, options with their dashes; the rest are public names and settings.
_INSTEAD = {
    name: sentence
    for sentence, names in {
        (
            'Judge the answers near the pass line again with a second judge: docs/reference.md, "Judge again near '
            'the line".'
        ): ["--unsure-judge", "--reasons-from"],
        (
            'Have each answer judged several times with judge_repeats: docs/reference.md, "Look several times '
            'instead of once".'
        ): ["--until-certain"],
        "Use plot_criterion_trend, which draws a small chart for each criterion.": ["plot_criterion_multiples"],
        "Use stats.gate_confidence, for single questions with by='question': docs/statistics.md.": [
            "gate_progress",
            "gate_questions",
        ],
        "Use certify.probe_judge with only=, and summarise_changes: docs/certify.md.": [
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
        ],
        "Use certify.plan_certificate, which has the same arguments; its estimate is the cost: docs/certify.md.": [
            "estimate_certificate"
        ],
        "Bring the answers of another tool in as a file, with --answers, or with load_answers in Python.": [
            "socjudge import",
            "import_results",
        ],
        (
            'Compare the scores of another tool as a DataFrame: docs/reference.md, "Another tool\'s scores as a frame".'
        ): ["socjudge check"],
        (
            'People score answers in LabelPanel, or in a table: docs/reference.md, "Answers for people to score in a '
            'spreadsheet".'
        ): ["--marks", "write_marks_sheet", "next_labels"],
        (
            'Write the DataFrames of load_scores and its like with to_csv or to_parquet: docs/reference.md, "Frames '
            'for other programs".'
        ): ["socjudge history", "export_history", "write_table", "load_table"],
        (
            "Use the tables of judge_agreement (with pairs=True or by='again') and stats.judge_trust: "
            "docs/statistics.md."
        ): ["judge_flaws", "plot_cost_agreement", "pairwise_agreement", "rater_consistency"],
        "Compare the sets of answer_sha256 of each run_id, as notebook 03 does.": ["same_answer_runs"],
        "Use the tables of compare_judges and verdict_flips: docs/statistics.md.": ["plot_verdict_flips"],
        'Let the new judge rejudge a log, then compare the two: docs/reference.md, "Another judge".': [
            "socjudge migrate-judge",
            "plan_migration",
            "migrate_judge",
            "write_migration_page",
            "bridged_trend",
            "plot_bridged_trend",
        ],
        (
            "See what changed with socjudge compare BEFORE AFTER; in CI, use the exit codes of run and --summary: "
            "docs/reference.md#ci."
        ): ["--junit", "--against", "--fail-on"],
        'Write --max-cost-usd inf for no cap: docs/reference.md, "Models".': ["--no-cap"],
        (
            'Set SOCJUDGE_OUTPUT_TOKENS, SOCJUDGE_TIMEOUT_S or SOCJUDGE_PATIENCE_S: docs/reference.md, "Settings of '
            'the calls".'
        ): ["--output-tokens", "--timeout-s", "--patience-s"],
        "Run make lab, or jupyter lab --LabApp.default_url=/lab/tree/notebooks in the project's folder.": [
            "socjudge lab"
        ],
        (
            "Write the questions (JSON, CSV or Excel) in an editor, and check them with socjudge doctor --dataset "
            'FILE: docs/reference.md, "Commands".'
        ): ["DatasetPanel", "save_eval_dataset", "socjudge check-dataset"],
        "Make certificates with notebook 05 or with socjudge certify: docs/certify.md.": ["CertificatePanel"],
        "Take mvp_passed and is_open of load_runs: docs/frames.md.": ["check_verdicts"],
        'Write questions.json yourself: docs/reference.md, "Questions of the passages".': ["--write-questions"],
        'Copy the whole table from docs/reference.md, "An assistant behind HTTP".': ["like"],
        (
            'Make a live run, with socjudge run or run_evaluation_suite: docs/reference.md, "Interrupted and large '
            'runs".'
        ): ["socjudge batch", "batch"],
        (
            "Have each judge score the answers with rejudge, and compare them with compare_judges: "
            'docs/reference.md, "Several judges under one cap".'
        ): ["combine_judges"],
        "Use plan_run(…).left, which has the same arguments; plan_run(…).run() starts the run.": ["estimate_run"],
        (
            "Use socjudge rejudge --log LOG --only-failed, or rejudge(run, only_failed=True): docs/reference.md, "
            '"Judge again only what failed".'
        ): ["--repair", "repair_run"],
    }.items()
    for name in names
}


def instead_of(name: str) -> str:
    """What to do instead of a former name, as a sentence; "" for any other name."""
    return say(_INSTEAD[name]) if name in _INSTEAD else ""
