"""Define the command line: all commands with what `--help` says about them, and `main`."""

from __future__ import annotations

import gc
import io
import re
import sys
import traceback
import warnings
from typing import Any

import typer

from .. import constants
from ..base.former_names import instead_of
from ..base.messages import say
from .ask import ask, index
from .certify import certify
from .history import compare, doctor, report
from .project import choose_project, init, open_app, show_settings
from .run import rejudge, run, unfinished
from .shared import TO_CORRECT, Explained, Grouped, echo

app = typer.Typer(
    cls=Explained,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich's boxes cut Japanese text short
    help=say(
        "Is the SOC runbook assistant good enough to use? Index the runbooks, ask it something, run the evaluation.\n\n"
        "Models: 'offline' is the embedded default (no key, no cost, not an LLM); a plain name such as 'gpt-4o-mini' "
        "goes to OPENAI_BASE_URL or OpenAI with OPENAI_API_KEY; 'anthropic:…', 'google_genai:…' go through LangChain; "
        "'auto' is the model that socjudge.toml names; where it names none, {default} when a key or base URL is set, "
        "else 'offline'; 'decisions:…' is a decision model, which only judges.",
        default=constants.DEFAULT_JUDGE_MODEL,
    ),
)
app.callback()(choose_project)
# In the order of --help: what is used every day, then the rest.
_COMMANDS: dict[str, tuple[Any, str]] = {
    "ask": (
        ask,
        'Ask the assistant. No judge is called.\n\nExample: socjudge ask "What comes first after a malware alert?" ',
    ),
    "run": (
        run,
        "Answer and judge every question, print the verdict, leave a log.\n\n"
        "A run that was broken off is taken up where it stopped; `socjudge unfinished` lists such runs. Exit code 0: "
        "passed; 1: not passed; 2: something to correct; 3: no verdict; 4: no certificate, where one is required; 5: "
        "not agreed to.",
    ),
    "rejudge": (
        rejudge,
        "Judge the stored answers of a log again, with another judge or prompt; the assistant is not asked.\n\n"
        "Example: socjudge rejudge --log judge_eval_20260101_090000.json --judge-model gpt-4o",
    ),
    "compare": (
        compare,
        "Did the change help? Compare two runs of the same questions by the same judge, question by question; or two "
        "judges or prompts on the same answers. No model is called.",
    ),
    "report": (
        report,
        "Write one self-contained HTML file about a run: verdict, charts, every answer, the change since the run "
        "before.\n\n"
        "Example: socjudge report report.html --log judge_eval_20260101_090000.json",
    ),
    "app": (
        open_app,
        "Serve the panels on one page, at the address that is printed (needs the extra lab). Further arguments go to "
        "Voilà, such as --theme=dark.",
    ),
    "init": (init, "Lay out an evaluation project of your own. Files that are there already are left alone."),
    "settings": (
        show_settings,
        "Show the settings of this project, and where each value comes from. They stand in socjudge.toml.",
    ),
    "index": (index, "Build the search index of the runbooks; only what changed is embedded again."),
    "unfinished": (
        unfinished,
        "List the runs that were broken off; start one again with the same options to go on.",
    ),
    "doctor": (
        doctor,
        "Check questions, runbooks and logs: what is wrong with each, and what to do. Changes nothing.\n\n"
        "Exit code 0: nothing wrong; 1: errors or warnings were found; 2: could not look.",
    ),
    "certify": (
        certify,
        "May this judge's scores be believed? One word per criterion (「信頼できる」, 「条件つき」, 「信頼できない」, 「分からない」), kept as "
        "a certificate.\n\n"
        "From damaged answers, attacks, noise, flags and people's scores (--labels); the cost is shown first. --check "
        "looks for a valid certificate of today's judge. Exit code 0: no criterion is 「信頼できない」 or 「分からない」; 1: one "
        "is; 2: something to correct; 4: no valid certificate.\n\n"
        "Example: socjudge certify --log judge_eval_20260101_090000.json --judge-model gpt-4o-mini --labels "
        "eval/human_labels",
    ),
}
for _name, (_command, _about) in _COMMANDS.items():
    # Voilà takes what `app` does not know.
    _more = {"allow_extra_args": True, "ignore_unknown_options": True} if _name == "app" else None
    _help = say(_about)
    # In the list of commands, typer would cut a sentence without spaces, as in Japanese, and show "...".
    _first = re.split(r"(?<=。)|(?<=\.) |\n", _help)[0]
    app.command(_name, cls=Grouped, help=_help, short_help=_first, context_settings=_more)(_command)

# The base class of all complaints of typer about what was typed.
_UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Run the `socjudge` command. Warnings are printed as plain lines."""
    gc.set_threshold(100_000, 20, 20)  # at first, it takes a tenth of a question's CPU and finds nothing
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # there is none under pythonw
            stream.reconfigure(errors="replace")  # a Japanese Windows pipe has no ✅
    warnings.showwarning = lambda message, *_, **__: echo(f"socjudge: {message}", err=True)
    try:
        sys.exit(app(prog_name="socjudge", standalone_mode=False))
    except _UsageError as error:
        error.show(told := io.StringIO())
        echo(told.getvalue(), nl=False, err=True)
        named = re.search(r"'(\S+)'", error.message)  # the command, where it is not an option
        if instead := instead_of(getattr(error, "option_name", None) or f"socjudge {named and named[1]}"):
            echo(instead, err=True)
        sys.exit(error.exit_code)
    except Exception:  # Python would exit with 1, which means "not passed" here
        echo(traceback.format_exc(), err=True)
        sys.exit(TO_CORRECT)
