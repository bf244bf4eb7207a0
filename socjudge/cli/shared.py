"""Define what all commands share: exit codes, and how errors, paths and finished runs are shown."""

from __future__ import annotations

import codecs
import re
import signal
import sys
from pathlib import Path
from typing import Any, Never, get_args

import typer
from typer.core import TyperGroup

from .. import constants
from ..base.messages import Language, say
from ..base.showing import answered_by, in_yen, shown_path
from ..base.texts import visible
from ..base.verdict import FINISHED
from ..errors import SocJudgeError
from ..records import EvaluationRun

AGREED = ("y", "yes", "はい", "ｙ")
# The specification's words, as in FINISHED: Japanese in every language.
COSTS_MONEY = "⚠️ LLM as a Judgeの実行にはコストがかかります: "

# The exit codes of all commands; docs/reference.md#ci has the table.
PASSED, NOT_PASSED, COULD_NOT_JUDGE, UNCERTIFIED = 0, 1, 2, 4

# An error handler for streams without ✅, such as cp932, the encoding of a pipe on Japanese Windows.
PLAIN_SYMBOLS = "socjudge-plain-symbols"
_PLAIN = {"✅": "○", "❌": "×", "⚠": "△", "\ufe0f": ""}


def _plain_symbols(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    plain = "".join(_PLAIN.get(character, "?") for character in error.object[error.start : error.end])
    return plain.encode(error.encoding, "replace").decode(error.encoding), error.end


codecs.register_error(PLAIN_SYMBOLS, _plain_symbols)


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text. Control characters from a model, a service or a file are made visible, because the terminal would
    obey them."""
    typer.echo(visible(text), nl=nl, err=err)


def report_run(finished: EvaluationRun, uncertified: str = "") -> Never:
    """Print the results of a run, and end with the exit code of its verdict.
    `uncertified` says why the judge lacks a required certificate; empty if it does not lack one."""
    from ..base.verdict import run_verdict, summary_text
    from ..certify.certificate import run_certificate_line

    _echo_answers(finished)
    echo("\n" + FINISHED.format(path=shown_path(finished.log_path)) + "\n")
    echo(summary_text(finished))
    verdict = run_verdict(finished)
    if verdict.note:
        echo(verdict.note)
    echo(run_certificate_line(finished))
    info = finished.run
    told = say(
        "Judge: {judge}, assistant: {assistant}, prompt: {prompt}, cost: {cost}, {seconds:.1f} s",
        judge=answered_by(info.judge_model, info.judge_model_resolved),
        assistant=answered_by(info.assistant_model, info.assistant_model_resolved),
        prompt=info.judge_prompt_id,
        cost=cost_text(finished.usage.cost_usd),
        seconds=info.wall_time_s,
    )
    echo(told, err=True)
    if finished.summary.passed_questions < finished.summary.total_questions and finished.log_path is not None:
        log, folder = finished.log_path.name, finished.log_path.parent
        is_usual = folder == constants.LOGS_DIR and Path.cwd().is_relative_to(constants.PROJECT_DIR)
        at = "" if is_usual else f' --logs-dir "{shown_path(folder)}"'
        echo(say("To read the reasons for each criterion: socjudge report --log {log}", log=log + at), err=True)
    if uncertified:
        stop(uncertified, UNCERTIFIED)
    raise typer.Exit({"passed": PASSED, "failed": NOT_PASSED}.get(verdict.outcome, COULD_NOT_JUDGE))


def _echo_answers(finished: EvaluationRun) -> None:
    from ..base.verdict import answer_verdict, of_criteria

    unscored = [result.evaluation.error for result in finished.results if result.evaluation.status != "ok"]
    same = len(unscored) > 1 and len(set(map(_cause, unscored))) == 1
    for result in finished.results:
        evaluation = result.evaluation
        verdict = answer_verdict(evaluation, finished.rubric.pass_threshold)
        if evaluation.status == "ok":
            score = say("{score:5.1f} points", score=evaluation.average_score) + of_criteria(evaluation)
        else:
            cause = _cause(evaluation.error)
            score = say("not scored") if same else say("not scored ({cause})", cause=cause)
        line = f"{verdict.mark} {result.question.id}. {score}  {result.question.category}  {result.question.question}"
        line += f"  ⚠️ {verdict.warning}" if verdict.warning else ""
        echo(" ".join(line.split("\n")))
    if same:
        echo(
            "\n"
            + say(
                "⚠️ all {count} that were not scored have the same cause: {cause}",
                count=len(unscored),
                cause=unscored[0],
            )
        )


def _cause(error: str) -> str:
    evaluation = []
    for lang in get_args(Language):  # the error may be in either language
        refused = re.escape(
            say("{where} refused the request ({status}): {said}", lang=lang, where="", status="@", said="")
        )
        evaluation += [re.escape(say("last with: {cause}", lang=lang, cause="")), refused.replace("@", r"\d+")]
    # The model and the address stand before the cause, and are the same for all answers.
    return re.split("|".join(evaluation), error, maxsplit=1)[-1][:120]


class Explained(TyperGroup):
    """Run the commands of socjudge, and show their errors without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SocJudgeError as error:
            stop(str(error))
        except KeyboardInterrupt:
            echo("\n" + say("Cancelled"), err=True)
            raise typer.Exit(128 + signal.SIGINT) from None  # as a command that a signal ended


class Stopped(typer.Exit):
    """End a command because of an error that was already printed."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(code)
        self.message = message


def stop(message: str, code: int = COULD_NOT_JUDGE) -> Never:
    echo(f"socjudge: {message}", err=True)
    raise Stopped(message, code)


def confirm(estimate: Any, yes: bool) -> None:
    """Show what a run will cost. Unless `yes` is true, end the command if the user does not agree."""
    if not estimate.calls:
        return
    echo(COSTS_MONEY + estimate_text(estimate), err=True)
    if estimate.note:
        echo(estimate.note, err=True)
    ask_to_run(yes)


def ask_to_run(yes: bool, *, question: str = "Run it?", declined: str = "nothing was run") -> None:
    """End the command unless `yes` is true or the user agrees. Without a terminal, nobody can agree.
    `question` and `declined` are sentences for `say`."""
    if yes:
        return
    if not sys.stdin.isatty():
        stop(say("nobody is there to confirm; pass --yes to run it from a script"))
    echo(f"{say(question)} [y/N]: ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in AGREED:
        stop(say(declined))


def estimate_text(estimate: Any) -> str:
    """Return the calls, tokens and price of an estimate as text. If the price is unknown, the text says so."""
    usd = estimate.cost_usd
    price = (
        say("cost unknown")
        if usd is None
        else say("cost about ${usd:.3f} (about {yen:.1f} yen) at list prices", usd=usd, yen=in_yen(usd))
    )
    return say(
        "{calls} calls, about {tokens_in:,} tokens in, {tokens_out:,} out; {price}",
        calls=estimate.calls,
        tokens_in=estimate.input_tokens,
        tokens_out=estimate.output_tokens,
        price=price,
    )


def cost_text(usd: float | None) -> str:
    """Return a text that says how much money was spent, or that this is unknown."""
    return say("unknown") if usd is None else say("${usd:.4f} (about {yen:.1f} yen)", usd=usd, yen=in_yen(usd))
