"""Say what a user does instead of something that an earlier version had."""

from __future__ import annotations

from .messages import say

_NEAR_THE_LINE = "rejudge (docs/reference.md#judge-again-near-the-line)"
_PROBING = "certify.certify_judge(…).tables (docs/certify.md)"
_AGREEMENT = "judge_agreement, stats.judge_trust (docs/statistics.md)"
_ANOTHER_JUDGE = "rejudge, compare_runs (docs/reference.md#another-judge)"
_EXIT_CODES = "socjudge compare BEFORE AFTER, --summary (docs/reference.md#ci)"
_FAILED = "socjudge rejudge --log LOG --only-failed, rejudge(run, only_failed=True)"
_FRAMES = "to_csv, to_parquet (docs/reference.md#frames-for-other-programs)"
_SPREADSHEET = "LabelPanel (docs/reference.md#answers-for-people-to-score-in-a-spreadsheet)"
_DATASET = "socjudge doctor --dataset FILE (docs/reference.md#commands)"
# Commands stand as they are typed, options with their dashes; the rest are public names and settings.
_INSTEAD = {
    **dict.fromkeys(["--unsure-judge", "--reasons-from"], _NEAR_THE_LINE),
    "--until-certain": "judge_repeats (docs/reference.md#look-several-times-instead-of-once)",
    "plot_criterion_multiples": "plot_criterion_trend",
    **dict.fromkeys(
        ["gate_progress", "gate_questions", "plot_gate_confidence"], "stats.gate_confidence (docs/statistics.md)"
    ),
    **dict.fromkeys(["Probes", "Injections", "Anchoring", "Prompts", "prompt_equivalence", "probe_matrix"], _PROBING),
    **dict.fromkeys(["summarise_probes", "summarise_injections", "summarise_anchoring", "explain_probes"], _PROBING),
    **dict.fromkeys(["probe_judge", "plot_probe_matrix"], _PROBING),
    "estimate_certificate": "certify.plan_certificate(…).estimate (docs/certify.md)",
    **dict.fromkeys(["socjudge import", "import_results"], "load_answers, --answers"),
    "socjudge check": "docs/reference.md#another-tools-scores-as-a-frame",
    **dict.fromkeys(["--marks", "write_marks_sheet", "next_labels"], _SPREADSHEET),
    **dict.fromkeys(["socjudge history", "export_history", "write_table", "load_table"], _FRAMES),
    **dict.fromkeys(["judge_flaws", "plot_cost_agreement", "pairwise_agreement", "rater_consistency"], _AGREEMENT),
    "same_answer_runs": "answer_sha256 (notebooks/03_compare_judges.ipynb)",
    **dict.fromkeys(
        ["plot_verdict_flips", "plot_judge_comparison"],
        "compare_judges, verdict_flips, plot_question_strip (docs/statistics.md)",
    ),
    **dict.fromkeys(["socjudge migrate-judge", "migrate_judge", "plan_migration"], _ANOTHER_JUDGE),
    **dict.fromkeys(["write_migration_page", "bridged_trend", "plot_bridged_trend"], _ANOTHER_JUDGE),
    **dict.fromkeys(["--junit", "--against", "--fail-on"], _EXIT_CODES),
    "--no-cap": "--max-cost-usd inf",
    "--output-tokens": "SOCJUDGE_OUTPUT_TOKENS",
    "--timeout-s": "SOCJUDGE_TIMEOUT_S",
    "--patience-s": "SOCJUDGE_PATIENCE_S",
    "socjudge lab": "make lab, jupyter lab --LabApp.default_url=/lab/tree/notebooks",
    **dict.fromkeys(["DatasetPanel", "save_eval_dataset", "socjudge check-dataset"], _DATASET),
    "CertificatePanel": "socjudge certify, notebook 05 (docs/certify.md)",
    "check_verdicts": "mvp_passed, is_open of load_runs (docs/frames.md)",
    "--write-questions": "questions.json (docs/reference.md#questions-of-the-passages)",
    "like": "docs/reference.md#an-assistant-behind-http",
    **dict.fromkeys(["socjudge batch", "batch"], "socjudge run, run_evaluation_suite"),
    "combine_judges": "rejudge, compare_judges (docs/reference.md#several-judges-under-one-cap)",
    "estimate_run": "plan_run(…).left, plan_run(…).run()",
    **dict.fromkeys(["--repair", "repair_run"], _FAILED),
}


def instead_of(name: str) -> str:
    """What to do instead of a former name, as a sentence; "" for any other name."""
    return say("Instead: {now}", now=_INSTEAD[name]) if name in _INSTEAD else ""
