"""The log of a run by hosted models, made once and copied for each test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socjudge import load_eval_dataset, run_evaluation_suite
from socjudge.runbooks.index import RunbookIndex
from support.run_options import with_options
from support.service import KEY, Reply, Service, serving


def log_run(folder: Path, index: RunbookIndex, reply: Callable[[dict[str, Any]], Reply | str], **models: Any) -> Path:
    """Run the ten questions against a service that replies so, and return the folder with the log."""
    with serving(reply) as service, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", KEY)
        environment.setenv("OPENAI_BASE_URL", service.base_url)
        run_evaluation_suite(
            load_eval_dataset(), index=index, logs_dir=folder, progress=False, **with_options(**models)
        )
    return folder


def copy_log(made: Path, folder: Path, service: Service) -> Path:
    """The folder with a log of `log_run`, as if it had been made with this service."""
    (log,) = made.glob("*.json")
    folder.mkdir()
    told = re.sub(r"http://127\.0\.0\.1:\d+/v1", service.base_url, log.read_text(encoding="utf-8"))
    (folder / log.name).write_text(told, encoding="utf-8")
    return folder
