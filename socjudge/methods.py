"""What the records do beside holding values: their methods that lead to wings above them, given to them here at the top.

`import socjudge` runs this, so no record is without them. What is heavy is imported when such a method is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import settings
from .base import messages, showing, verdict
from .records import AssistantAnswer, Evaluation, EvaluationResult, EvaluationRun, Passage, RunInfo, RunSummary, Usage
from .runs.certainty import Certainty

if TYPE_CHECKING:
    import pandas as pd


def results_frame(self: EvaluationRun) -> pd.DataFrame:
    """One row per judged answer, with the columns of `load_results(text=True)`."""
    from .history.frames import judges_history

    return judges_history(self).results


def scores_frame(self: EvaluationRun) -> pd.DataFrame:
    """One row per criterion score, with the columns of `load_scores(text=True)`."""
    from .history.frames import judges_history

    return judges_history(self).scores


def wide_frame(self: EvaluationRun) -> pd.DataFrame:
    """One row per question, its marks side by side: see `socjudge.history.frames.run_wide`."""
    from .history.frames import run_wide

    return run_wide(self)


def write_report(self: EvaluationRun, path: Path | str, *, lang: str = "ja") -> Path:
    """Write the report of this run as one HTML file, and return where it is: `socjudge.write_report(path, run)`."""
    from .report.page import write_report

    return write_report(path, self, lang=lang)


def _gate_progress(*args: Any, **keywords: Any) -> Any:
    """`stats.sequential.gate_progress`, loaded when a run first wants to know whether it is certain."""
    from .stats.sequential import gate_progress

    return gate_progress(*args, **keywords)


Certainty.gate_progress = staticmethod(_gate_progress)


messages.language_of_project = settings.project_language
showing.yen_per_usd = settings.yen_per_usd


def _run_html(self: EvaluationRun) -> str:
    """A run as a small table, and whether its judge has a certificate."""
    from .certify.certificate import run_certificate_line

    return showing.run_html(self, run_certificate_line(self))


def _give(record: type, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        setattr(record, name, method)


_give(Passage, __repr__=showing.passage_line, _repr_html_=showing.passage_html)
_give(Usage, _repr_html_=showing.usage_html)
_give(AssistantAnswer, __repr__=showing.answer_line, _repr_html_=lambda self: showing.answer_html(self.question, self))
_give(Evaluation, __repr__=showing.evaluation_line, _repr_html_=showing.evaluation_html)
_give(EvaluationResult, __repr__=showing.result_line, _repr_html_=showing.result_html)
_give(RunSummary, _repr_markdown_=verdict.summary_text)
_give(RunInfo, __repr__=showing.info_line, _repr_html_=showing.info_html)
_give(EvaluationRun, __repr__=showing.run_line, _repr_html_=_run_html)
_give(
    EvaluationRun,
    results_frame=results_frame, scores_frame=scores_frame, wide_frame=wide_frame, write_report=write_report,
)  # fmt: skip
