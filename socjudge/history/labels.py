"""Read and write people's scores of stored answers: `eval/human_labels/<rater>.jsonl`, or a CSV file."""

from __future__ import annotations

import codecs
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pandas as pd

from .. import constants
from ..base.files import append_line, load_bytes
from ..base.messages import explained, os_reason, say
from ..base.sheets import text_rows
from ..base.texts import DEVICE_NAME, plain_name
from ..errors import ConfigError
from ..runs.log_shape import Score, Whole
from ..runs.logs import to_json

Key = tuple[int | str, str]  # question_id and answer_sha256, which identify a stored answer
NAME = re.compile(r"\w[\w.-]{0,63}")
# What reading a line or a row may raise if it is no label.
UNFIT = (msgspec.MsgspecError, ValueError, RecursionError)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # 007 is a text
_NAMED = 5  # broken lines that a warning names
_COLUMNS = (
    "rater", "question_id", "answer_sha256", "run_id", "criterion", "score", "blind", "comment", "saved_at", "again",
)  # fmt: skip
_NEEDED = ("rater", "question_id", "answer_sha256", "criterion", "score")  # of a CSV file


@dataclass(frozen=True)
class Label:
    question_id: Whole | str
    answer_sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    run_id: str
    scores: Annotated[Mapping[str, Score], msgspec.Meta(min_length=1)]  # {criterion: 0–100}
    comment: str
    blind: bool  # whether the person gave the scores before seeing the judge's scores
    saved_at: str  # ISO 8601 with zone
    seconds: Annotated[float, msgspec.Meta(ge=0)]  # how long the answer was shown before saving
    again: bool = False  # a second time, without seeing the first scores, which measures how steady the rater is

    @property
    def key(self) -> Key:
        return self.question_id, self.answer_sha256


@dataclass(frozen=True)
class RaterFile:
    scores: Mapping[Key, Label]  # those that the rater saved last
    again: Mapping[Key, Label]  # those that the rater gave when the answer was shown a second time
    problem: str = ""  # which lines were left out, why, and what to do; "" if no line was left out


def rater_name(name: str) -> str:
    """Return a rater's name in the form for the file name. Raises ConfigError if the name cannot be used."""
    plain = plain_name(name)
    if any(unicodedata.category(letter) == "Cc" and not letter.isspace() for letter in name):
        plain = ""  # without its control characters it would be another name than what was typed
    if not NAME.fullmatch(plain) or DEVICE_NAME.fullmatch(plain):
        raise ConfigError(
            "rater is {name!r}; expected 1 to 64 letters (also Japanese), digits, . _ or -, the first no . or "
            "-, such as 「佐藤」 or sato-1",
            name=name[:80],
        )
    return plain


def append_label(rater: str, label: Label, folder: Path | None = None) -> Path:
    """Append a person's scores of one answer to the person's file, and return its path."""
    folder = folder or constants.LABELS_DIR
    rater = rater_name(rater)
    path = folder / f"{rater}.jsonl"
    with explained(
        "{path}: the score cannot be written ({reason}); free some disk space or fix the permissions, then save "
        "it again",
        path=path,
    ):
        append_line(path, to_json({"rater": rater, **asdict(label)}, indent=False))
    return path


def read_rater(path: Path) -> RaterFile:
    """Read the scores in a rater's file; none if it does not exist. Raises ConfigError if it cannot be read."""
    with explained("{path}: cannot be read ({reason}); check path and permissions", path=path):
        if not path.exists():
            return RaterFile({}, {})
        raw = load_bytes(path)
    scores: dict[Key, Label] = {}
    again: dict[Key, Label] = {}
    broken: list[str] = []
    for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            label = _dated(msgspec.json.decode(line, type=Label))
        except UNFIT as error:
            broken.append(say("line {number} ({reason})", number=number, reason=error))
        else:
            those = again if label.again else scores
            those.pop(label.key, None)  # removed and added again, so that the last saved comes last
            those[label.key] = label
    words = "{path}: left out: {lines}; correct or delete them, or score these answers again"
    return RaterFile(scores, again, say(words, path=path, lines=_first(broken)) if broken else "")


def _first(found: list[str], separator: str = "; ") -> str:
    return separator.join(found[:_NAMED]) + (" …" if len(found) > _NAMED else "")


def load_labels(folder: Path | str | None = None) -> pd.DataFrame:
    """Return people's scores in the form that `judge_agreement` takes as `labels`: one row per rater, answer and
    criterion.

    `folder` has one file per rater; eval/human_labels if left out. If it does not exist, the frame has no rows. Or
    it is a CSV file (UTF-8 or cp932) with the columns rater, question_id, answer_sha256, criterion and score, and
    perhaps further columns of the frame, such as `load_labels(…).to_csv(path, index=False)` writes. If it does not
    say otherwise, its scores are not blind, and saved_at is when the file was saved. A question_id such as 7 is a
    whole number, 007 is a text.

    The columns are:

    - rater: the name of the rater's file without its extension; for a CSV file, its column `rater`
    - question_id, answer_sha256, run_id
    - criterion (ordered)
    - score: 0–100; if a rater corrected a score, the last one
    - blind: whether the rater scored the answer before seeing the judge's scores
    - comment
    - saved_at: UTC
    - again: whether this is the rater's second score of the answer, which shows how steady the rater is
      (`judge_agreement(labels, by="again")`)

    A UserWarning names what is left out: damaged lines, files that cannot be read or whose name cannot be a
    rater's, and rows of a CSV file without a score. ConfigError if a CSV file cannot be read, or has invalid cells,
    which it names.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.history.load_labels("no_such_folder").empty
    True
    """
    folder = Path(folder or constants.LABELS_DIR)
    rows = _csv_rows(folder) if folder.is_file() or folder.suffix.lower() == ".csv" else _folder_rows(folder)
    frame = pd.DataFrame(rows, columns=_COLUMNS, dtype=object)
    whole = all(isinstance(name, int) for name in frame["question_id"])
    order = pd.CategoricalDtype(list(dict.fromkeys(frame["criterion"])), ordered=True)
    frame = frame.assign(
        question_id=frame["question_id"].astype("int64" if whole else object),
        criterion=frame["criterion"].astype(order),
        saved_at=pd.to_datetime([datetime.fromisoformat(text) for text in frame["saved_at"]], utc=True),
    )
    types = {"rater": "category", "run_id": "category", "score": "Float64", "blind": "boolean", "again": "boolean"}
    types |= {"answer_sha256": "str", "comment": "str", "saved_at": "datetime64[us, UTC]"}
    return frame.astype(types)


def _folder_rows(folder: Path) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            rater, file = rater_name(path.stem), read_rater(path)
        except ConfigError as error:
            told = say("{path} is left out: {reason}; rename or remove it", path=path, reason=error)
            warnings.warn(told, stacklevel=3)
            continue
        if file.problem:
            warnings.warn(file.problem, stacklevel=3)
        rows += [row for label in (*file.scores.values(), *file.again.values()) for row in _rows(rater, label)]
    return rows


def _rows(rater: str, label: Label) -> list[tuple[Any, ...]]:
    more = label.blind, label.comment, label.saved_at, label.again
    return [(rater, *label.key, label.run_id, criterion, score, *more) for criterion, score in label.scores.items()]


def _csv_rows(path: Path) -> list[tuple[Any, ...]]:
    try:
        table = text_rows(load_bytes(path))
    except (OSError, ValueError) as error:
        words = "{path}: labels cannot be read ({reason}); name the folder of LabelPanel or a CSV file"
        raise ConfigError(words, path=path, reason=os_reason(error) if isinstance(error, OSError) else error) from None
    head = [name.strip() for name in table[0]] if table else []
    if missing := [name for name in _NEEDED if name not in head]:
        raise ConfigError("{named}: labels lack the columns {missing}", named=path, missing=", ".join(missing))
    saved_at = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    wrong: list[str] = []
    empty: list[str] = []
    for number, cells in enumerate(table[1:], start=2):
        # The rater stays as typed: `same_raters` says which names are one person's.
        row = {name: cell if name == "rater" else cell.strip() for name, cell in zip(head, cells, strict=False)}
        if not row.get("score"):
            if any(row.values()):
                empty.append(str(number))
            continue
        try:
            label = _csv_label({"saved_at": saved_at} | {name: cell for name, cell in row.items() if cell.strip()})
            key = row["rater"], label.key, row["criterion"], label.again
            if key in found:
                raise ValueError(say("the same person has scored this answer and criterion already"))
            found[key] = _rows(row["rater"], label)[0]
        except UNFIT as error:
            wrong.append(say("line {number} ({reason})", number=number, reason=error))
    if wrong:
        raise ConfigError("{path}: correct these and load it again: {lines}", path=path, lines=_first(wrong))
    if empty:
        words = "{path}: {count} rows without a score are left out as not scored (rows {rows})"
        warnings.warn(say(words, path=path, count=len(empty), rows=_first(empty, ", ")), stacklevel=3)
    return list(found.values())


def _csv_label(row: dict[str, str]) -> Label:
    """Return the score in a row of a CSV file. One of UNFIT says what is wrong with the row."""
    if blank := [name for name in _NEEDED if name not in row]:
        raise ValueError(say("{names}: empty", names=", ".join(blank)))
    question, facts = row["question_id"], {name: row.get(name, "false").casefold() for name in ("blind", "again")}
    told = {
        "run_id": "", "comment": "", **row, "seconds": 0, "scores": {row["criterion"]: float(row["score"])},
        "question_id": int(question) if _WHOLE.fullmatch(question) else question,
        **{name: {"true": True, "false": False}.get(fact, fact) for name, fact in facts.items()},
    }  # fmt: skip
    return _dated(msgspec.convert(told, Label))


def _dated(label: Label) -> Label:
    moment = datetime.fromisoformat(label.saved_at)
    if moment.tzinfo is None or not 2000 <= moment.year < 2200:  # the years that every frame can hold
        words = "saved_at is {found}; expected a time with a zone, such as 2026-01-31T09:00:00+09:00"
        raise ValueError(say(words, found=label.saved_at))
    return label
