"""socjudge: is the SOC runbook assistant good enough to use, and can the judge that says so be trusted?

The public names are resolved on first use, so that `import socjudge` stays quick and loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "build_index": "retrieval",
    "load_index": "retrieval",
    "open_index": "retrieval",
    "RunbookIndex": "retrieval",
    "handle_query": "assistant",
    "load_eval_dataset": "judge",
    "evaluate_answer": "judge",
    "run_evaluation_suite": "suite",
    "rejudge": "suite",
    "prepare_batch": "batch",
    "submit_batch": "batch",
    "batch_status": "batch",
    "collect_batch": "batch",
    "unfinished_runs": "journal",
    "estimate_run": "estimate",
    "save_evaluation_results": "logs",
    "load_run": "logs",
    "summary_text": "verdict",
    "check_logs": "doctor",
    "check_verdicts": "doctor",
    "export_history": "history_export",
    "load_runs": "history",
    "load_results": "history",
    "load_scores": "history",
    "run_results": "history",
    "run_scores": "history",
    "summarise_scores": "stats",
    "compare_judges": "comparison",
    "verdict_flips": "comparison",
    "judge_agreement": "agreement",
    "pairwise_agreement": "agreement",
    "gate_confidence": "gate",
    "gate_questions": "gate",
    "judge_noise": "noise",
    "plan_repeats": "noise",
    "bridge_judges": "bridge",
    "bridged_verdicts": "bridge",
    "bridged_trend": "bridge",
    "plot_category_breakdown": "charts",
    "plot_score_distribution": "charts",
    "plot_gate_confidence": "charts",
    "plot_criterion_trend": "chart_runs",
    "plot_question_strip": "chart_runs",
    "plot_bridged_trend": "chart_runs",
    "plot_judge_comparison": "chart_judges",
    "plot_verdict_flips": "chart_judges",
    "plot_cost_agreement": "chart_judges",
    "japanese_text": "chart_style",
    "judge_colours": "chart_style",
    "load_labels": "labels",
    "RunPanel": "panel_run",
    "AskPanel": "panel_ask",
    "HistoryExplorer": "panel_history",
    "PromptLab": "panel_prompts",
    "LabelPanel": "panel_labels",
    "write_report": "report",
    "write_log_report": "report",
    "Prompt": "prompts",
    "load_prompt": "prompts",
    "save_prompt": "prompt_files",
    "AssistantAnswer": "records",
    "EvalQuestion": "records",
    "Evaluation": "records",
    "EvaluationRun": "records",
    "Flags": "records",
    "Passage": "records",
    "SocJudgeError": "errors",
    "ConfigError": "errors",
    "ProviderError": "errors",
    "UnparsableJudgement": "errors",
    "RunStopped": "errors",
    "BudgetReached": "errors",
}
__all__ = ["__version__", *sorted(_HOMES)]

if TYPE_CHECKING:
    from .agreement import judge_agreement, pairwise_agreement
    from .assistant import handle_query
    from .batch import batch_status, collect_batch, prepare_batch, submit_batch
    from .bridge import bridge_judges, bridged_trend, bridged_verdicts
    from .chart_judges import plot_cost_agreement, plot_judge_comparison, plot_verdict_flips
    from .chart_runs import plot_bridged_trend, plot_criterion_trend, plot_question_strip
    from .chart_style import japanese_text, judge_colours
    from .charts import plot_category_breakdown, plot_gate_confidence, plot_score_distribution
    from .comparison import compare_judges, verdict_flips
    from .doctor import check_logs, check_verdicts
    from .errors import BudgetReached, ConfigError, ProviderError, RunStopped, SocJudgeError, UnparsableJudgement
    from .estimate import estimate_run
    from .gate import gate_confidence, gate_questions
    from .history import load_results, load_runs, load_scores, run_results, run_scores
    from .history_export import export_history
    from .journal import unfinished_runs
    from .judge import evaluate_answer, load_eval_dataset
    from .labels import load_labels
    from .logs import load_run, save_evaluation_results
    from .noise import judge_noise, plan_repeats
    from .panel_ask import AskPanel
    from .panel_history import HistoryExplorer
    from .panel_labels import LabelPanel
    from .panel_prompts import PromptLab
    from .panel_run import RunPanel
    from .prompt_files import save_prompt
    from .prompts import Prompt, load_prompt
    from .records import AssistantAnswer, EvalQuestion, Evaluation, EvaluationRun, Flags, Passage
    from .report import write_log_report, write_report
    from .retrieval import RunbookIndex, build_index, load_index, open_index
    from .stats import summarise_scores
    from .suite import rejudge, run_evaluation_suite
    from .verdict import summary_text


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'socjudge' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
