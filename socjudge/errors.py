"""Define the errors, by who has to act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# How services say that they refuse a text, not the set-up: by code, type or words. Azure has content_filter and
# "content management policy", OpenAI content_policy_violation, Anthropic "content filtering policy", Google SAFETY.
_ABOUT_CONTENT = (
    r"content.?(?:filter|polic|management|exists risk)|filtered|moderat|\bsafety\b|prohibited.?content|responsible.?ai"
    r"|usage polic|data.?inspection|inappropriate|(?<!tokens is )too (?:long|large)|context.?(?:length|window|size)"
    r"|(?:prompt|input|message|request|sequence).{0,20}\blength\b|(?:prompt|input) tokens? exceed"
    r"|guardrail(?!.?(?:id|version))"
)


def names_content(*said: object, model: str = "") -> bool:
    """Return whether the texts that a service returned give the request's text (a content filter, its length) as the
    reason.

    said: the code, type, message or body of the error. In a JSON body the values are searched, except `input`, which
    repeats the request (as pydantic does). model: the model's name, which is ignored where it occurs.
    """
    left = list(said)
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left += [value for name, value in each.items() if name != "input"]
        elif isinstance(each, list):
            left += each
        elif each and re.search(_ABOUT_CONTENT, str(each).replace(model, ""), re.IGNORECASE):
            return True
    return False


class SocJudgeError(Exception):
    """The base class of all failures that socjudge explains. The message says what was found, where, and what to do."""


class ConfigError(SocJudgeError):
    """You must change something (a key, a path, a file, a model name); a second try will not help.

    of_one: whether the failure may concern only this request, such as a block by a firewall in front of a service that
    answered other requests.
    """

    def __init__(self, message: str = "", *, of_one: bool = False) -> None:
        super().__init__(message)
        self.of_one = of_one


class ProviderError(SocJudgeError):
    """The model service failed after a limited number of tries; a later try may help.

    lost_calls: number of tries without a response, which may have been billed. gave_up: whether socjudge itself made
    the tries, so that an immediate retry is useless. unreachable: no connection could be made.
    """

    lost_calls: int = 0
    gave_up: bool = False
    unreachable: bool = False


class RequestRefused(ProviderError):
    """The service refused this one request; it may answer others.

    about_content: whether the reason is the request's text (a content filter, its length) and not something that all
    requests share; taken from the message if left out. usage: what the refused calls cost (a `Usage`); None, as usual,
    if they cost nothing.
    """

    def __init__(self, message: str, *, about_content: bool | None = None, usage: Any = None) -> None:
        super().__init__(message)
        self.about_content = names_content(message) if about_content is None else about_content
        self.usage = usage


class NoAnswer(RequestRefused):
    """Your own assistant gave no answer to this question. This is no result about its quality: the question is not
    judged, and it is asked again when the run is resumed.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, about_content=True)


class UnparsableJudgement(SocJudgeError):
    """The judge replied, but not in a form that could be parsed.

    raw_text: the reply as received.
    """

    def __init__(self, message: str, raw_text: str = "") -> None:
        super().__init__(message)
        self.raw_text = raw_text


class RunStopped(SocJudgeError):
    """The run was asked to stop (Ctrl-C, a stop signal); its journal holds what was finished."""


class BudgetReached(RunStopped):
    """The run stopped because the next call might have exceeded max_cost_usd."""
