"""Define the command line of the dataset: `socjudge check-dataset`. No model is called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from .. import constants
from ..base.messages import listed, say
from ..settings import project_categories
from .shared import echo


def check_dataset(
    path: Annotated[Path | None, typer.Argument(help=say("cli.dataset_path"))] = None,
) -> None:
    """Check a dataset of questions. Print its size and its weak points.

    Raises ConfigError if the dataset has errors.
    """
    from ..judging.dataset import dataset_notes, load_eval_dataset

    path = path or constants.EVAL_DATASET_PATH
    questions = load_eval_dataset(path)
    counts = Counter(question.category for question in questions)
    told = listed(f"{category} {counts[category]}" for category in project_categories())
    echo(say("cli.dataset_fine", path=path, count=len(questions), categories=told))
    for note in dataset_notes(questions):
        echo(f"- {note}")
