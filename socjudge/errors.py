"""The errors, sorted by who has to act."""

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
    """Whether a service's code, type, message or body gives the request's text (a content filter, its length) as the
    reason.

    In JSON the values count, except those that repeat the request, such as pydantic's `input`. model: its name, which
    is no reason.
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
    """Any failure that socjudge explains. The message says what was found, where, and what to do."""


class ConfigError(SocJudgeError):
    """You must change something (a key, a path, a file, a model name); trying again will not help.

    of_one: whether it may concern only this request, as with a firewall before a service that answered others.
    """

    def __init__(self, message: str = "", *, of_one: bool = False) -> None:
        super().__init__(message)
        self.of_one = of_one


class ProviderError(SocJudgeError):
    """The model service failed after a limited number of tries; trying again later may help.

    lost_calls: tries without a response, which may have been billed. gave_up: whether socjudge itself made those tries,
    so that more are useless. unreachable: no connection could be made.
    """

    lost_calls: int = 0
    gave_up: bool = False
    unreachable: bool = False


class RequestRefused(ProviderError):
    """This one request cannot be answered; others may be.

    about_content: whether the reason is its text (a content filter, its length) and not something all requests share;
    taken from the message unless given. usage: what the refusal cost (a `Usage`), None for nothing, as usual.
    """

    def __init__(self, message: str, *, about_content: bool | None = None, usage: Any = None) -> None:
        super().__init__(message)
        self.about_content = names_content(message) if about_content is None else about_content
        self.usage = usage


class NoAnswer(RequestRefused):
    """Your own assistant gave no answer to this question, which says nothing about its quality. The question is not
    judged, and is asked again when the run is resumed.
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
    """The run was asked to stop (Ctrl-C, a stop signal); its journal has what was finished."""


class BudgetReached(RunStopped):
    """The run stopped because the next call might have exceeded max_cost_usd."""
