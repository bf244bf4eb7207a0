"""socjudge: is the SOC runbook assistant good enough to use, and can the judge that says so be trusted?

The public names are resolved on first use, so that `import socjudge` stays quick and loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import methods as _methods  # gives the records theirs
from ._version import __version__

_HOMES = {
    "build_index": "runbooks.index",
    "load_index": "runbooks.index",
    "open_index": "runbooks.index",
    "RunbookIndex": "runbooks.index",
    "handle_query": "judging.assistant",
    "load_eval_dataset": "judging.dataset",
    "save_eval_dataset": "judging.dataset",
    "dataset_notes": "judging.dataset",
    "Assistant": "judging.own_assistant",
    "as_answer": "judging.own_answers",
    "load_answers": "judging.stored_answers",
    "evaluate_answer": "judging.judge",
    "run_evaluation_suite": "runs.suite",
    "rejudge": "runs.suite",
    "prepare_batch": "batch.api",
    "submit_batch": "batch.api",
    "batch_status": "batch.api",
    "collect_batch": "batch.api",
    "unfinished_runs": "runs.unfinished",
    "estimate_run": "runs.estimate",
    "save_evaluation_results": "runs.logs",
    "load_run": "runs.load",
    "summary_text": "base.verdict",
    "show_table": "base.showing",
    "use_language": "base.messages",
    "check_logs": "history.doctor",
    "check_verdicts": "history.doctor",
    "export_history": "history.export",
    "find_logs": "history.examples",
    "load_history": "history.frames",
    "load_runs": "history.frames",
    "load_results": "history.frames",
    "load_scores": "history.frames",
    "run_results": "history.frames",
    "run_scores": "history.frames",
    "summarise_scores": "stats.basics",
    "same_answer_runs": "stats.comparison",
    "compare_judges": "stats.comparison",
    "compare_cohorts": "stats.comparison",
    "compare_runs": "report.effect",
    "verdict_flips": "stats.comparison",
    "judge_agreement": "stats.agreement",
    "pairwise_agreement": "stats.agreement",
    "combine_judges": "stats.several_judges",
    "rater_consistency": "stats.raters",
    "judge_vs_people": "stats.people",
    "judge_as_annotator": "stats.people",
    "corrected_means": "stats.correction",
    "corrected_pass_rate": "stats.correction",
    "next_labels": "stats.correction",
    "judge_flaws": "stats.trust",
    "judge_trust": "stats.trust",
    "gate_progress": "stats.sequential",
    "gate_confidence": "stats.gate",
    "gate_questions": "stats.gate",
    "judge_noise": "stats.noise",
    "plan_repeats": "stats.noise",
    "bridge_judges": "stats.bridge",
    "bridged_verdicts": "stats.bridge",
    "bridged_trend": "stats.bridge",
    "Probes": "certify.probes",
    "summarise_probes": "certify.probe_findings",
    "probe_matrix": "certify.probe_findings",
    "explain_probes": "certify.probe_findings",
    "Injections": "certify.injections",
    "summarise_injections": "certify.injections",
    "Prompts": "certify.two_prompts",
    "prompt_equivalence": "certify.two_prompts",
    "Anchoring": "certify.anchoring",
    "summarise_anchoring": "certify.anchoring",
    "certify_judge": "certify.issue",
    "estimate_certificate": "certify.issue",
    "binding_of_judge": "certify.issue",
    "binding_of_run": "certify.certificate",
    "save_certificate": "certify.certificate",
    "load_certificate": "certify.certificate",
    "find_certificate": "certify.certificate",
    "write_certificate_page": "report.certificate",
    "plot_probe_matrix": "charts.certify",
    "plot_category_breakdown": "charts.scores",
    "plot_score_distribution": "charts.scores",
    "plot_gate_confidence": "charts.scores",
    "plot_criterion_multiples": "charts.runs",
    "plot_criterion_trend": "charts.runs",
    "plot_question_strip": "charts.runs",
    "plot_bridged_trend": "charts.runs",
    "plot_judge_comparison": "charts.judges",
    "plot_verdict_flips": "charts.judges",
    "plot_cost_agreement": "charts.judges",
    "japanese_text": "charts.style",
    "judge_colours": "charts.style",
    "import_results": "history.imports.importing",
    "load_labels": "history.labels",
    "write_marks_sheet": "history.marks_sheet",
    "RunPanel": "panels.run",
    "AskPanel": "panels.ask",
    "HistoryExplorer": "panels.history",
    "PromptLab": "panels.prompts",
    "CertificatePanel": "panels.certificate",
    "DatasetPanel": "panels.dataset",
    "app": "panels.app",
    "LabelPanel": "panels.labels",
    "write_report": "report.page",
    "write_log_report": "report.page",
    "Prompt": "prompts.templates",
    "load_prompt": "prompts.templates",
    "save_prompt": "prompts.saved",
    "AssistantAnswer": "records",
    "EvalQuestion": "records",
    "Evaluation": "records",
    "EvaluationRun": "records",
    "Flags": "records",
    "Passage": "records",
    "Rubric": "records",
    "RunOptions": "records",
    "Project": "settings",
    "open_project": "settings",
    "SocJudgeError": "errors",
    "ConfigError": "errors",
    "ProviderError": "errors",
    "UnparsableJudgement": "errors",
    "RunStopped": "errors",
    "BudgetReached": "errors",
}
__all__ = ["__version__", *sorted(_HOMES)]

if TYPE_CHECKING:
    from .base.messages import use_language
    from .base.showing import show_table
    from .base.verdict import summary_text
    from .batch.api import batch_status, collect_batch, prepare_batch, submit_batch
    from .certify.anchoring import Anchoring, summarise_anchoring
    from .certify.certificate import binding_of_run, find_certificate, load_certificate, save_certificate
    from .certify.injections import Injections, summarise_injections
    from .certify.issue import binding_of_judge, certify_judge, estimate_certificate
    from .certify.probe_findings import explain_probes, probe_matrix, summarise_probes
    from .certify.probes import Probes
    from .certify.two_prompts import Prompts, prompt_equivalence
    from .charts.certify import plot_probe_matrix
    from .charts.judges import plot_cost_agreement, plot_judge_comparison, plot_verdict_flips
    from .charts.runs import plot_bridged_trend, plot_criterion_multiples, plot_criterion_trend, plot_question_strip
    from .charts.scores import plot_category_breakdown, plot_gate_confidence, plot_score_distribution
    from .charts.style import japanese_text, judge_colours
    from .errors import BudgetReached, ConfigError, ProviderError, RunStopped, SocJudgeError, UnparsableJudgement
    from .history.doctor import check_logs, check_verdicts
    from .history.examples import find_logs
    from .history.export import export_history
    from .history.frames import load_history, load_results, load_runs, load_scores, run_results, run_scores
    from .history.imports.importing import import_results
    from .history.labels import load_labels
    from .history.marks_sheet import write_marks_sheet
    from .judging.assistant import handle_query
    from .judging.dataset import dataset_notes, load_eval_dataset, save_eval_dataset
    from .judging.judge import evaluate_answer
    from .judging.own_answers import as_answer
    from .judging.own_assistant import Assistant
    from .judging.stored_answers import load_answers
    from .panels.app import app
    from .panels.ask import AskPanel
    from .panels.certificate import CertificatePanel
    from .panels.dataset import DatasetPanel
    from .panels.history import HistoryExplorer
    from .panels.labels import LabelPanel
    from .panels.prompts import PromptLab
    from .panels.run import RunPanel
    from .prompts.saved import save_prompt
    from .prompts.templates import Prompt, load_prompt
    from .records import AssistantAnswer, EvalQuestion, Evaluation, EvaluationRun, Flags, Passage, Rubric, RunOptions
    from .report.certificate import write_certificate_page
    from .report.effect import compare_runs
    from .report.page import write_log_report, write_report
    from .runbooks.index import RunbookIndex, build_index, load_index, open_index
    from .runs.estimate import estimate_run
    from .runs.load import load_run
    from .runs.logs import save_evaluation_results
    from .runs.suite import rejudge, run_evaluation_suite
    from .runs.unfinished import unfinished_runs
    from .settings import Project, open_project
    from .stats.agreement import judge_agreement, pairwise_agreement
    from .stats.basics import summarise_scores
    from .stats.bridge import bridge_judges, bridged_trend, bridged_verdicts
    from .stats.comparison import compare_cohorts, compare_judges, same_answer_runs, verdict_flips
    from .stats.correction import corrected_means, corrected_pass_rate, next_labels
    from .stats.gate import gate_confidence, gate_questions
    from .stats.noise import judge_noise, plan_repeats
    from .stats.people import judge_as_annotator, judge_vs_people
    from .stats.raters import rater_consistency
    from .stats.sequential import gate_progress
    from .stats.several_judges import combine_judges
    from .stats.trust import judge_flaws, judge_trust


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'socjudge' has no attribute {name!r}")
    try:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        from .base.extras import missing_extra

        raise missing_extra(error, wanted=f"socjudge.{name}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
