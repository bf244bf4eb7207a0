"""Read tables of any tool: CSV, JSONL, Parquet, Excel or a frame.

Tables of Ragas, LangSmith and Langfuse are recognised by their column names. A table is wide (a row per answer, a
column per criterion) or long (a row per score). The scale of its scores is given by the user, known from the tool, or
evident because all scores are yes or no.
"""

from __future__ import annotations

import io
import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.messages import listed, say
from ...base.sheets import table_text
from ...records import UNKNOWN
from .rows import NONE, SHARE, WORDS, Imported, Row, Scale, as_mark, text_of, unfit

NAMES = WORDS["columns"]
OURS, RAGAS, LANGSMITH = "socjudge", "Ragas", "LangSmith"
_OF_OURS = ("run_id", "criterion", "score")  # columns of an exported `load_scores`
_OF_RAGAS = ("user_input", "response")
_FEEDBACK = "feedback."  # prefix of LangSmith's columns


def read_table(frame: pd.DataFrame, path: Path, *, columns: Mapping[str, Any] | None, scale: Scale | None) -> Imported:
    """Read a table of scores.

    path: the file, for messages. columns: the argument of `import_results`. scale: the scale that the user gave, or
    None.
    """
    told = dict(columns or {})
    wanted = told.pop("marks", None)
    _check_columns(frame, told, wanted, path)
    places = {
        what: told.get(what) or next((name for name in names if name in frame.columns), None)
        for what, names in NAMES.items()
    }
    tool, known = _tool(frame)
    is_long = wanted is None and {"criterion", "score"} <= {what for what in places if places[what] is not None}
    if is_long:
        frame, marks = _widened(frame, places, path)
    else:
        marks = _mark_columns(frame, places, wanted, path, tool)
    scale = scale or known
    points = {name: _points(frame[column], name, scale, path) for name, column in marks.items()}
    rows = _rows(frame, places, points, path, is_long)
    again = sum(row.answer_repeat > 0 for row in rows) if places["answer_repeat"] is None else 0
    told_as = [say("history.import_repeats", count=again)] if again else []
    told_as += filter(None, (_two_scales(marks, name, scale) for name, marks in points.items()))
    return Imported(tool, tuple(rows), tuple(told_as))


def _check_columns(frame: pd.DataFrame, told: Mapping[str, Any], wanted: Any, path: Path) -> None:
    """Raise ConfigError if the user named a column that the table does not have, or an unknown key.

    Raise it also if two columns of the table have the same name.

    told: `columns` without the key "marks". wanted: the value of the key "marks".
    """
    if unknown := [name for name in told if name not in NAMES]:
        raise unfit(path, say("history.import_no_part", names=listed(unknown), known=listed([*NAMES, "marks"])))
    named = [*told.values(), *(wanted.values() if isinstance(wanted, Mapping) else wanted or ())]
    if missing := [str(name) for name in named if name not in frame.columns]:
        raise unfit(path, say("history.import_no_column", names=listed(missing), known=listed(map(str, frame.columns))))
    if twice := sorted({str(name) for name in frame.columns[frame.columns.duplicated()]}):
        raise unfit(path, say("history.import_column_twice", names=listed(twice)))


def _tool(frame: pd.DataFrame) -> tuple[str, Scale | None]:
    """Return the tool that wrote the table, and the scale of its scores. The column names show which tool it was.

    The tool is "table" if it is not recognised. The scale is None if the tool has no fixed scale.
    """
    if all(name in frame.columns for name in _OF_OURS):
        return OURS, Scale(0, 100)
    if any(str(name).startswith(_FEEDBACK) for name in frame.columns):
        return LANGSMITH, None
    if all(name in frame.columns for name in _OF_RAGAS):
        return RAGAS, SHARE
    if {"traceId", "name", "value"} <= set(frame.columns):
        return "Langfuse", None
    return "table", None


def _mark_columns(
    frame: pd.DataFrame, places: Mapping[str, str | None], wanted: Any, path: Path, tool: str
) -> dict[str, Hashable]:
    """Return {criterion: the column with its scores}.

    wanted: the columns that the user named, or None. If it is None, LangSmith's feedback columns, Ragas's number
    columns, or the column "score" are returned. Raises ConfigError if there is no such column.
    """
    if isinstance(wanted, Mapping):
        return dict(wanted)
    if wanted is not None:
        return {str(name): name for name in ([wanted] if isinstance(wanted, str) else wanted)}
    if tool == LANGSMITH:
        return {str(name).removeprefix(_FEEDBACK): name for name in frame.columns if str(name).startswith(_FEEDBACK)}
    if tool == RAGAS:
        numbers = frame.select_dtypes(include=["number", "bool"]).columns
        return {str(name): name for name in numbers if name not in set(places.values())}
    if places["score"] is not None:
        return {str(places["score"]): places["score"]}
    raise unfit(path, say("history.import_which_marks", known=listed(map(str, frame.columns))))


def _widened(
    frame: pd.DataFrame, places: Mapping[str, str | None], path: Path
) -> tuple[pd.DataFrame, dict[str, Hashable]]:
    """Turn a long table into one with a row per answer. Return it, and {criterion: the column with its scores}."""
    criterion, score = places["criterion"], places["score"]
    apart = ("question_id", "question", "answer_repeat", "judge_repeat", "judge", "assistant")
    by = [places[what] for what in apart if places[what] is not None]
    if "run_id" in frame.columns:
        by = ["run_id", *by]
    if not by:
        raise unfit(path, say("history.import_no_id"))
    frame = frame.reset_index(drop=True)
    keys = frame[[*by, criterion]].astype(object).where(frame[[*by, criterion]].notna(), "").astype(str)
    if (doubled := keys.duplicated()).any():
        at = int(np.flatnonzero(doubled)[0])
        raise unfit(path, say("history.import_twice", what=listed(keys.iloc[at])), f"{at + 2}")
    answer = keys[by].agg("\x1f".join, axis=1) if len(by) > 1 else keys[by[0]]
    names = list(dict.fromkeys(frame[criterion].astype(str)))
    wide = frame.assign(_answer=answer).drop_duplicates("_answer").set_index("_answer")
    for what, column in (("mark", score), ("reason", places["reason"])):
        if column is not None:
            parts = frame.assign(_answer=answer).pivot(index="_answer", columns=criterion, values=column)
            for name in names:
                wide[f"{what}\x1f{name}"] = parts[name].reindex(wide.index)
    return wide, {name: f"mark\x1f{name}" for name in names}


def _points(column: pd.Series, name: str, scale: Scale | None, path: Path) -> list[float | None]:
    """Return a column of scores in points (0–100); None for a missing score.

    Raises ConfigError if a score is outside the scale, or if a scale is needed and the user gave none.
    """
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        numbers = column.to_numpy("float64", na_value=math.nan)
    else:
        marks = [as_mark(value, f"{path}: {name}, {row + 2}") for row, value in enumerate(column.tolist())]
        given = [mark for mark in marks if mark is not None]
        if given and all(isinstance(mark, bool) for mark in given):
            return [None if mark is None else 100.0 * mark for mark in marks]
        numbers = np.array([math.nan if mark is None else float(mark) for mark in marks])
    known = ~np.isnan(numbers)
    if scale is None:
        if not np.isin(numbers[known], (0.0, 1.0)).all():
            raise unfit(
                path, say("history.import_no_scale", name=name, low=numbers[known].min(), high=numbers[known].max())
            )
        scale = SHARE
    beyond = known & ((numbers < scale.low) | (numbers > scale.high))
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        scale.points(float(numbers[row]), f"{path}: {name}, {row + 2}")
    points = 100 * (numbers - scale.low) / (scale.high - scale.low)
    return [point if there else None for point, there in zip(points.tolist(), known.tolist(), strict=True)]


def _two_scales(points: list[float | None], name: str, scale: Scale | None) -> str:
    """Return a warning if a column has numbers between 0 and 1 beside whole points above 1; else "".

    Either these numbers were meant as whole points, or the file has two scales.
    """
    if scale is None or scale.high - scale.low < 2:
        return ""
    marks = scale.low + np.array(points, dtype=float) * (scale.high - scale.low) / 100  # as floats, None is NaN
    shares = np.flatnonzero((marks > 1e-6) & (marks < 1 - 1e-6))
    whole = marks[marks > 1 + 1e-6]
    if not len(shares) or not len(whole) or (abs(whole - whole.round()) > 1e-6).any():
        return ""
    return say(
        "history.import_two_scales",
        name=name,
        row=int(shares[0]) + 2,
        count=len(shares),
        mark=float(marks[shares[0]]),
        whole=len(whole),
    )


def _rows(
    frame: pd.DataFrame, places: Mapping[str, str | None], points: Mapping[str, list[float | None]], path: Path, is_long: bool
) -> list[Row]:  # fmt: skip
    def column(what: str) -> list[Any]:
        name = places[what]
        return [None] * len(frame) if name is None else frame[name].tolist()

    if places["question_id"] is None and places["question"] is None:
        raise unfit(path, say("history.import_no_id"))
    criteria = list(points)
    questions = [text_of(value) for value in column("question")]
    reasons = {name: frame[f"reason\x1f{name}"].tolist() for name in criteria if f"reason\x1f{name}" in frame.columns}
    if not is_long and len(criteria) == 1 and places["reason"] is not None:
        reasons = {criteria[0]: column("reason")}
    numbers: dict[str, int] = {}
    seen: dict[Any, int] = {}
    texts = {
        what: [""] * len(frame) if places[what] is None else [text_of(value) for value in column(what)]
        for what in ("answer", "context", "keypoints", "category", "judge", "assistant", "error")
    }
    ids, repeats, judged = column("question_id"), column("answer_repeat"), column("judge_repeat")
    runs = frame["run_id"].astype(str).tolist() if "run_id" in frame.columns else [""] * len(frame)
    unmarked, where = say("history.import_unmarked"), str(path)
    rows = []
    for at, marks in enumerate(zip(*points.values(), strict=True)):
        question = questions[at]
        is_told = ids[at] is not None and ids[at] == ids[at]  # a cell without a value (NaN) is not equal to itself
        question_id = _id(ids[at]) if is_told else numbers.setdefault(question, len(numbers) + 1)
        judge, assistant = texts["judge"][at] or UNKNOWN, texts["assistant"][at] or UNKNOWN
        repeat = repeats[at]
        if repeat is None and judged[at] is None:
            key = (runs[at], question_id, judge, assistant)
            repeat = seen[key] = seen.get(key, -1) + 1
        given = dict(zip(criteria, marks, strict=True))
        rows.append(
            Row(
                question_id, question, texts["answer"][at], given, f"{where}: {at + 2}",
                reasons={name: text_of(values[at]) for name, values in reasons.items()} if reasons else NONE,
                causes={name: unmarked for name, value in given.items() if value is None} if None in marks else NONE,
                context=texts["context"][at], keypoints=(texts["keypoints"][at],) if texts["keypoints"][at] else (),
                category=texts["category"][at], answer_repeat=int(repeat or 0), judge_repeat=int(judged[at] or 0),
                judge=judge, assistant=assistant, error=texts["error"][at], run=runs[at],
            )
        )  # fmt: skip
    return rows


def _id(told: Any) -> int | str:
    if isinstance(told, float) and told.is_integer():
        return int(told)
    return told if isinstance(told, int) and not isinstance(told, bool) else str(told)


def open_table(path: Path) -> pd.DataFrame:
    """Open a file as a frame: CSV or TSV (UTF-8 with or without byte order mark, or cp932), Parquet, or Excel's first
    sheet.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        if kind in (".xlsx", ".xlsm"):
            return pd.read_excel(path)
        return pd.read_csv(io.StringIO(table_text(path.read_bytes())), sep="\t" if kind == ".tsv" else ",")
    except ImportError as error:
        raise unfit(path, say("history.import_extra", reason=error)) from None
    except (ValueError, OSError, KeyError) as error:
        raise unfit(path, str(error)) from None
