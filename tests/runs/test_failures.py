"""What a failure means for a run, decided without one."""

from __future__ import annotations

import pytest

from socjudge.errors import ConfigError, NoAnswer, ProviderError, RequestRefused, SocJudgeError, UnexpectedError
from socjudge.runs.failures import MAX_UNREADABLE, Failures, Who

MOST = 3


def failures(*, answered: bool = True, worked: bool = True) -> Failures:
    found = Failures(MOST, dict.fromkeys(("judge", "assistant"), answered), False, judge="j", own="bot")
    found.worked = worked
    return found


def closed() -> ProviderError:
    error = ProviderError("no connection")
    error.is_closed = True
    return error


FILTERED = RequestRefused("a content filter", about_content=True)
REFUSED = RequestRefused("no such parameter", about_content=False)
BLOCKED = ConfigError("403", of_one=True)
NO_KEY = ConfigError("401")
BUG = UnexpectedError("unexpected KeyError: 'x' (socjudge/judging/judge.py:3)")
DOWN = ProviderError("HTTP 503")
SILENT = NoAnswer("the answer was empty")


@pytest.mark.parametrize(
    ("error", "has_row", "ends_after"),  # ends_after: so many in a row, None: never
    [
        pytest.param(FILTERED, True, None, id="refused for its text"),
        pytest.param(REFUSED, True, None, id="refused"),
        pytest.param(BLOCKED, True, MOST, id="blocked, or the key was withdrawn"),
        pytest.param(NO_KEY, False, 1, id="wrong set-up"),
        pytest.param(BUG, True, MOST, id="a bug in one row"),
        pytest.param(DOWN, False, MOST, id="down"),
        pytest.param(closed(), False, 1, id="takes no call"),
    ],
)
@pytest.mark.parametrize("who", ["judge", "assistant"])
def test_a_failure_of_who_has_answered_before(
    error: SocJudgeError, has_row: bool, ends_after: int | None, who: Who
) -> None:
    run = failures()
    assert run.has_row(error, who) == has_row
    ended = [run.count(error, who, n_left=9) is not None for _ in range(2 * MOST)]
    assert (ended.index(True) + 1 if True in ended else None) == ends_after


@pytest.mark.parametrize(
    ("error", "has_row", "ends"),
    [
        (FILTERED, True, False),
        (REFUSED, False, True),
        (BLOCKED, False, True),
        (NO_KEY, False, True),
        (BUG, True, False),
    ],
)
def test_who_never_answered_may_refuse_all_questions(error: SocJudgeError, has_row: bool, ends: bool) -> None:
    run = failures(answered=False, worked=False)
    assert run.has_row(error, "judge") == has_row
    assert (run.count(error, "judge", n_left=9) is not None) == ends


def test_an_outage_before_anything_worked_is_a_wrong_set_up() -> None:
    assert failures(worked=False).count(DOWN, "judge", n_left=9) is DOWN


def test_a_success_ends_the_row_of_failures_and_the_last_question_ends_no_run() -> None:
    run = failures()
    for _ in range(3):
        assert [run.count(DOWN, "judge", n_left=9) for _ in range(MOST - 1)] == [None] * (MOST - 1)
        assert run.judged("ok", "", 9) is None
    assert [run.count(DOWN, "judge", n_left=0) for _ in range(2 * MOST)] == [None] * 2 * MOST
    assert run.n_undelivered == 3 * (MOST - 1) + 2 * MOST and run.last is DOWN
    assert "questions in a row failed, so the service is taken to be down" in str(run.count(DOWN, "judge", n_left=9))


def test_a_refusal_of_one_question_is_no_undelivered_judgement() -> None:
    run = failures()
    for error in (FILTERED, REFUSED, BUG, SILENT):
        run.count(error, "judge", n=2, n_left=9)
    assert run.n_undelivered == 0
    run.count(BLOCKED, "judge", n=2, n_left=9)
    assert run.n_undelivered == 2
    run.count(BLOCKED, "judge", n=2, is_old=True, n_left=9)  # it was refused before, and keeps its row
    assert run.n_undelivered == 2


def test_a_silent_assistant_ends_the_run_and_an_old_silence_does_not() -> None:
    run = failures()
    assert run.has_row(SILENT, "assistant") and run.unanswered() is None
    found = [run.count(SILENT, "assistant", n_left=9) for _ in range(MOST)]
    assert found[:-1] == [None] * (MOST - 1)
    assert "assistant bot gave no answer to 3 questions in a row" in str(found[-1]) and "was empty" in str(found[-1])
    run.answered()
    assert [run.count(SILENT, "assistant", is_old=True, n_left=9) for _ in range(MOST)] == [None] * MOST
    silent = failures(answered=False)
    assert [silent.count(SILENT, "assistant", is_old=True, n_left=9) for _ in range(MOST)][-1] is not None


def test_a_judge_that_nobody_can_read_ends_the_run_unless_one_was_read() -> None:
    run = failures()
    found = [run.judged("unparsable", "no JSON", 9) for _ in range(MAX_UNREADABLE)]
    assert found[:-1] == [None] * (MAX_UNREADABLE - 1)
    assert "j: none of its first 5 judgements could be read" in str(found[-1])
    run = failures()
    assert run.judged("ok", "", 9) is None
    assert [run.judged("unparsable", "no JSON", 9) for _ in range(9)] == [None] * 9
