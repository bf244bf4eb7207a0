"""Decide what a failed request means for a run: a row without scores, a question for the next session, or the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..errors import ConfigError, NoAnswer, ProviderError, RequestRefused, SocJudgeError, UnexpectedError

Who = Literal["assistant", "judge"]
# judgements, with three replies each, after which a judge without any readable reply counts as unusable
MAX_UNREADABLE = 5


# What a failure means (`has_row`, `count`):
#
#   failure                                          row without scores   ends the run
#   NoAnswer, by your own assistant                  yes                  after `most` in a row
#   refused for its content                          yes                  never
#   refused, by one who answered other requests      yes                  never
#   refused, by one who never answered               no                   at once
#   ConfigError of one request, by one who answered  yes                  after `most` in a row; never if it is old
#   any other ConfigError                            no                   at once
#   a bug (UnexpectedError)                          yes                  after `most` in a row
#   the service failed                               no, asked again      after `most` in a row
#   the service failed, and nothing worked so far,
#   or the service takes no call at all              no, asked again      at once


@dataclass
class Failures:
    """Count the failures of a session. `has_answered` says who has ever answered, also in earlier sessions: a refusal by
    one who never did counts as a wrong set-up."""

    most: int  # failures in a row that end the run
    has_answered: dict[Who, bool]
    has_readable: bool  # whether a judgement could ever be read
    judge: str = ""
    own: str = ""  # the name of your own assistant
    worked: bool = False  # until something has worked in this session, an outage counts as a wrong set-up
    # Judgements that the service failed to deliver in this session. A resumed run requests them again.
    n_undelivered: int = 0
    last: SocJudgeError | None = field(default=None)  # of the service or of your own assistant
    _in_a_row: int = 0
    _unanswered: int = 0  # in a row, by your own assistant
    _n_unreadable: int = 0

    def answered(self) -> None:
        self.has_answered["assistant"] = True
        self._unanswered = 0

    def judged(self, status: str, error: str, n_left: int) -> SocJudgeError | None:
        """Count a judgement that came. Return why the run must end, if none of the first ones could be read."""
        self.worked = self.has_answered["judge"] = True
        self._in_a_row = 0
        self.has_readable |= status == "ok"
        self._n_unreadable += status != "ok"
        if self.has_readable or self._n_unreadable < MAX_UNREADABLE or not n_left:
            return None
        words = (
            "{judge}: none of its first {count} judgements could be read, so the rest is not asked for; the last one: "
            "{cause}. Choose another judge, or give it more room (output_tokens); the same run, started again, asks "
            "anew for what could not be read"
        )
        return ConfigError(words, judge=self.judge, count=self._n_unreadable, cause=error[:300])

    def has_row(self, error: SocJudgeError, who: Who) -> bool:
        if isinstance(error, ConfigError):
            return error.of_one and self.has_answered[who]
        if isinstance(error, RequestRefused):
            return error.about_content or self.has_answered[who]
        return isinstance(error, UnexpectedError)

    def count(
        self, error: SocJudgeError, who: Who, *, n: int = 1, is_old: bool = False, n_left: int
    ) -> SocJudgeError | None:
        """Count a failure that leaves `n` judgements without scores. Return why the run must end, or None.
        is_old: the same question failed in an earlier session. Such questions come last, one after the other."""
        if isinstance(error, NoAnswer):
            self._unanswered += not is_old or not self.has_answered["assistant"]
            self.last = error
            return self.unanswered() if n_left and self._unanswered >= self.most else None
        has_row = self.has_row(error, who)
        if isinstance(error, ConfigError | RequestRefused) and not has_row:
            return error
        if isinstance(error, RequestRefused) or (isinstance(error, ConfigError) and is_old):
            return None
        self._in_a_row += 1
        if not isinstance(error, UnexpectedError):
            self.n_undelivered += n
            self.last = error
        if not has_row and (not self.worked or (isinstance(error, ProviderError) and error.is_closed)):
            return error
        if not n_left or self._in_a_row < self.most:
            return None
        if has_row:
            return error  # a bug, or a key that was withdrawn
        down = "{count} questions in a row failed, so the service is taken to be down; the last one: {cause}"
        return ProviderError(down, count=self._in_a_row, cause=error)

    def unanswered(self) -> SocJudgeError | None:
        words = "assistant {name} gave no answer to {count} questions in a row, so the run has stopped ({cause})"
        reason = ProviderError(words, name=self.own, count=self._unanswered, cause=self.last)
        return reason if self._unanswered else None
