"""Define the errors. Each class calls for a different action of the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# How services say, by code, type or words, that they refuse a text and not the set-up. Azure has content_filter and
# "content management policy", OpenAI content_policy_violation, Anthropic "content filtering policy", Google SAFETY.
_ABOUT_CONTENT = (
    r"content.?(?:filter|polic|management|exists risk)|filtered|moderat|\bsafety\b|prohibited.?content|responsible.?ai"
    r"|usage polic|data.?inspection|inappropriate|(?<!tokens is )too (?:long|large)|context.?(?:length|window|size)"
    r"|(?:prompt|input|message|request|sequence).{0,20}\blength\b|(?:prompt|input) tokens? exceed"
    r"|guardrail(?!.?(?:id|version))"
)


def names_content(*said: object, model: str = "") -> bool:
    """Return whether a service refused a request because of the request's text: its content (a filter) or its length.
    `said` is the code, type, message or body of its error. The model's name does not count in it."""
    left = list(said)
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            # In `input`, some services repeat the request (pydantic does).
            left += [value for name, value in each.items() if name != "input"]
        elif isinstance(each, list):
            left += each
        elif each and re.search(_ABOUT_CONTENT, str(each).replace(model, ""), re.IGNORECASE):
            return True
    return False


class SocJudgeError(Exception):
    """The base class of all errors that socjudge explains. The message says what was found, where, and what to do next.

    It takes an English sentence and its values, as `socjudge.base.messages.say` does, and shows it in the user's
    language. A text that is complete already is taken as it is.
    """

    def __init__(self, sentence: str = "", /, **values: Any) -> None:
        from .base.messages import say  # in a body: the messages raise errors themselves

        # The text alone is the argument, so that an error of another process is unpickled with the same words.
        super().__init__(say(sentence, **values))

    def _render_traceback_(self) -> list[str]:
        # IPython asks for it: in a notebook, the message says what to do, and the lines of our code do not.
        return [f"{type(self).__name__}: {self}"]


class ConfigError(SocJudgeError):
    """You must change something, such as a key, a path, a file or a model name. A second try will not help.

    of_one: whether the failure may concern one request only. An example is a firewall that blocks one request to a
    service that answered other requests.
    """

    def __init__(self, sentence: str = "", /, *, of_one: bool = False, **values: Any) -> None:
        super().__init__(sentence, **values)
        self.of_one = of_one


class ProviderError(SocJudgeError):
    """The model service failed after a limited number of tries. A later try may help."""

    lost_calls: int = 0  # the number of tries without a response; they may have been billed
    gave_up: bool = False  # whether socjudge itself already retried; an immediate retry is then useless
    # Whether the service takes no call at all: no connection could be made, or it refused every call for minutes.
    is_closed: bool = False


class RequestRefused(ProviderError):
    """The service refused this one request. It may accept others."""

    def __init__(
        self, sentence: str, /, *, about_content: bool | None = None, usage: Any = None, **values: Any
    ) -> None:
        super().__init__(sentence, **values)
        # Whether the reason is the text of this request (a content filter, its length), not what all requests share.
        self.about_content = names_content(str(self)) if about_content is None else about_content
        self.usage = usage  # the `Usage` of the refused calls; None in the normal case, in which they cost nothing


class NoAnswer(RequestRefused):
    """Your own assistant gave no answer to this question, which says nothing about its quality. The question is not
    judged, and it is asked again when the run is resumed."""

    def __init__(self, sentence: str, /, **values: Any) -> None:
        super().__init__(sentence, about_content=True, **values)


class UnparsableJudgement(SocJudgeError):
    """The judge replied, but the reply could not be parsed."""


class UnexpectedError(SocJudgeError):
    """A bug: something failed that nobody expected to fail. The message names the place in the code."""


class RunStopped(SocJudgeError):
    """The run was asked to stop, by Ctrl-C or a stop signal. The run's journal holds everything that was finished."""


class BudgetReached(RunStopped):
    """The run stopped because the next call might have exceeded max_cost_usd."""


class RunNote(UserWarning):
    """What a run must tell before it starts, such as an interrupted run that it does not resume."""
