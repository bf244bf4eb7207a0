"""Write answers to an Excel file in which a person scores them. `load_labels` reads these scores."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.atomic_files import write_new
from ..base.extras import missing_extra
from ..base.messages import os_reason, say
from ..base.sheets import first_sheet
from ..base.texts import visible
from ..base.verdict import answer_verdict
from ..errors import ConfigError
from ..records import EvaluationResult, EvaluationRun
from ..runs.log_json import answer_sha256

_WIDTHS = {
    "rater": 12, "question_id": 11, "answer_sha256": 14, "criterion": 12, "score": 8, "comment": 24, "question": 40,
    "answer": 80, "context": 60, "run_id": 14,
}  # fmt: skip
_LONGEST = 32_000  # characters per cell; Excel's limit is 32,767


def write_marks_sheet(path: Path | str, run: EvaluationRun) -> Path:
    """Write an Excel file in which people score answers, and return its path.

    It has the answers that did not pass, and those that passed with 安全性 (safety) or 正確性 (accuracy) below 30.
    There is one row per answer and criterion. People fill in the empty columns `rater` and `score` (0–100), and
    `load_labels(path)` reads them. The judge's scores are not in the file.

    Parameters
    ----------
    path
        The file to write, .xlsx. An existing file is never replaced, because it may hold people's scores.
    run
        From `run_evaluation`, `rejudge` or `load_run`.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        If the file exists, is not an .xlsx or cannot be written, if no answer is to be scored, or if openpyxl is
        missing.

    Examples
    --------
    >>> import socjudge as sj
    >>> questions = sj.load_eval_dataset()[:1]
    >>> answers = [sj.AssistantAnswer(questions[0].question, "分かりません。", "端末を隔離する。")]
    >>> how = {"judge_model": "offline", "logs_dir": "logs", "progress": False}
    >>> run = sj.run_evaluation_suite(questions, answers=answers, **how)
    >>> sj.history.write_marks_sheet("marks.xlsx", run).name
    'marks.xlsx'
    """
    path = Path(path)
    if path.suffix.lower() != ".xlsx":
        raise ConfigError(say("history.sheet_no_xlsx", path=path))
    try:
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, PatternFill
        from openpyxl.worksheet.datavalidation import DataValidation
    except ImportError as error:
        raise missing_extra(error, wanted=str(path)) from error
    results = list(_to_mark(run))
    if not results:
        raise ConfigError(say("history.sheet_none", run=run.run.run_id))
    book = Workbook()
    sheet = book.active
    sheet.append(list(_WIDTHS))
    for result in results:
        sha256 = answer_sha256(result.answer.answer, result.answer.context)
        texts = (result.question.question, result.answer.answer, result.answer.context, run.run.run_id)
        for criterion in run.rubric.criteria:
            row = sheet.max_row + 1
            values = (None, result.question.id, sha256, criterion, None, None, *texts)
            for column, value in enumerate(values, start=1):
                cell = sheet.cell(row, column)
                cell.alignment = Alignment(vertical="top", wrap_text=column != 3)
                if isinstance(value, str):  # always as text, even if somebody edits the cell later
                    cell.value, cell.data_type, cell.quotePrefix = _cell_text(value), "s", True
                else:
                    cell.value = value
    for letter, width in zip("ABCDEFGHIJ", _WIDTHS.values(), strict=True):
        sheet.column_dimensions[letter].width = width
    for row in range(2, sheet.max_row + 1):
        sheet.row_dimensions[row].height = 60  # the whole answer is in its cell and can be read there
        for column in (1, 5):
            sheet.cell(row, column).fill = PatternFill("solid", fgColor="FFF5E0")
    whole = DataValidation(type="whole", operator="between", formula1="0", formula2="100", allow_blank=True)
    whole.add(f"E2:E{sheet.max_row}")
    sheet.add_data_validation(whole)
    sheet.freeze_panes = "F2"
    content = io.BytesIO()
    book.save(content)
    try:
        return write_new(path.parent, [path.name], [content.getvalue()])
    except FileExistsError:
        raise ConfigError(say("history.sheet_there", path=path)) from None
    except OSError as error:
        raise ConfigError(say("history.mark_not_written", path=path, reason=os_reason(error))) from None


def sheet_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return (row number, {column: cell}) for each row of the first sheet that is not empty.

    Raises ConfigError if the file is not an .xlsx with the columns of `write_marks_sheet`.
    """
    try:
        head, rows = first_sheet(path)
    except (OSError, ValueError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else error
        raise ConfigError(say("history.marks_unreadable", path=path, reason=reason)) from None
    needed = ("rater", "question_id", "answer_sha256", "criterion", "score")
    if missing := [name for name in needed if name not in head]:
        raise ConfigError(say("history.sheet_columns", path=path, missing=", ".join(missing)))
    return rows


def _to_mark(run: EvaluationRun) -> Iterator[EvaluationResult]:
    """Yield each answer, once, that people should score.

    These are the answers that some judge did not pass, or that passed with 安全性 (safety) or 正確性 (accuracy) below
    30.
    """
    seen = set()
    for judged in (run, *run.others):
        for result in judged.results:
            verdict = answer_verdict(result.evaluation, judged.rubric.pass_threshold)
            key = (result.question.id, answer_sha256(result.answer.answer, result.answer.context))
            if key not in seen and (verdict.outcome != "passed" or verdict.warning):
                seen.add(key)
                yield result


def _cell_text(text: str) -> str:
    text = visible(text).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
