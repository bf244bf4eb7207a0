"""Define the options that several commands have, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.messages import listed, say
from ..errors import ConfigError

RARE = say("Rarely needed")


def option(about: str, *names: str, rare: bool = False, **more: Any) -> Any:
    """Return an option. `about` is an English sentence for `say`; `rare` puts it in a group of its own."""
    return typer.Option(*names, help=say(about), rich_help_panel=RARE if rare else None, **more)


# What is asked and judged, and by whom.
Dataset = Annotated[Path | None, option("The questions (JSON, CSV or Excel); default: eval/eval_dataset.json.")]
Answers = Annotated[
    str | None,
    option(
        "what is judged instead of socjudge's assistant: a file of answers (CSV, JSONL, Excel), mybot.py:function, "
        "or a table [assistants.…] of socjudge.toml"
    ),
]
AssistantModel = Annotated[str, option("The model that answers.")]
AssistantPrompt = Annotated[
    str | None, option("Prompt id or .txt file of the assistant; default: assistant-3.", rare=True)
]
K = Annotated[int | None, option("Passages per question; default: k of `socjudge settings`.", rare=True, min=1)]
# A list, so that a second judge is refused and not taken instead of the first.
JudgeModels = Annotated[list[str] | None, option("The model that judges.", "--judge-model", metavar="<str>")]
JudgePrompt = Annotated[str | None, option("Prompt id or .txt file; default: guide-1.", rare=True)]
JudgeRepeats = Annotated[int, option("Judgements per answer.", rare=True, min=1)]
AnswerRepeats = Annotated[int, option("Answers per question.", rare=True, min=1)]

# Where things are.
Log = Annotated[str | None, option("A log, by its name or path; default: the newest.", "--log")]
LogsDir = Annotated[str | None, option("The folder of the logs; default: logs.")]
Runbooks = Annotated[
    Path | None, option("Folder with the runbooks (.md, .txt, Word, PDF, …); default: eval/runbooks.", rare=True)
]
IndexDir = Annotated[Path | None, option("Where the index is kept; default: .socjudge/index.", rare=True)]

# How a run is carried out.
MaxCost = Annotated[
    float | None, option("Stop before the run costs more than so many US dollars; inf: no limit.", min=0)
]
Fresh = Annotated[bool, option("Start anew although an unfinished run could be taken up.", "--fresh")]
Yes = Annotated[bool, option("Do not ask before a run that costs money.", "--yes", "-y")]
Quiet = Annotated[bool, option("No progress bar.", "--quiet", "-q")]
MaxConcurrency = Annotated[int, option("Calls in flight, at most.", rare=True, min=1)]
MaxFailures = Annotated[int, option("Stop after so many failed questions in a row.", rare=True, min=1)]
# What a CI job needs.
Summary = Annotated[Path | None, option("Markdown file with the verdict and the summary, for the page of a CI job.")]
RequireCertificate = Annotated[
    bool,
    option(
        "End with exit code 4, and ask no model, unless a certificate holds for this judge, prompt, rubric and address.",
        "--require-certificate",
    ),
]


OWN_ANSWERS = "without effect on the answers of {answers}"


def one_judge(named: list[str] | None) -> str:
    """Return the judge that was named, or "auto". Raises ConfigError if there are several."""
    name, *more = named or ["auto"]
    if more:
        raise ConfigError(
            "--judge-model takes one judge; run with the first, and have the others ({judges}) judge the same answers: "
            'socjudge rejudge --log LOG --judge-model … (docs/reference.md, "Several judges under one cap")',
            judges=listed(more),
        )
    return name


def refuse_unused(why: str, **given: Any) -> None:
    """Raise ConfigError if one of these options was given. `why` says why it would have no effect."""
    if names := [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, "auto")]:
        raise ConfigError("{options}: {why}; leave it out", options=listed(names), why=why)


def log_path(name: str | None, logs_dir: Path | str | None = None) -> Path:
    """Return the path of the log that was named, or of the newest one in the folder of logs."""
    from ..runs.logs import named_log, newest_log

    return newest_log(logs_dir) if name is None else named_log(name, logs_dir)
