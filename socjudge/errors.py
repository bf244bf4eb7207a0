"""What can go wrong, sorted by who has to act."""

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
    """Whether a service's code, type, words or body give a request's own text (a content filter, its length) as the reason.

    Of JSON the values count, but not what repeats the request, as pydantic's `input` does. model: its name, which is no reason."""
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

    of_one: whether it may be about this one request, where others were answered, as a firewall before the service says."""

    def __init__(self, message: str = "", *, of_one: bool = False) -> None:
        super().__init__(message)
        self.of_one = of_one


class ProviderError(SocJudgeError):
    """The model service failed after a bounded number of tries; trying again later may help.

    lost_calls: tries that got no response and may have been billed all the same. gave_up: whether those tries were
    socjudge's own, so that there is no sense in more of them. unreachable: no connection could be made."""

    lost_calls: int = 0
    gave_up: bool = False
    unreachable: bool = False


class RequestRefused(ProviderError):
    """This one request cannot be answered; others may be.

    about_content: whether the reason is its text (a content filter, its length), not what all requests have in common;
    by the words of the message unless given. usage: what the refusal cost (a `Usage`), None for nothing, as most do."""

    def __init__(self, message: str, *, about_content: bool | None = None, usage: Any = None) -> None:
        super().__init__(message)
        self.about_content = names_content(message) if about_content is None else about_content
        self.usage = usage


class NoAnswer(RequestRefused):
    """An assistant of somebody's own gave no answer to this question. That is no quality of its answers: the question is not
    judged, and is asked again when the run is taken up."""

    def __init__(self, message: str) -> None:
        super().__init__(message, about_content=True)


class UnparsableJudgement(SocJudgeError):
    """The judge replied, but not with the six scores.

    raw_text: the reply as it was received."""

    def __init__(self, message: str, raw_text: str = "") -> None:
        super().__init__(message)
        self.raw_text = raw_text


class RunStopped(SocJudgeError):
    """The run was asked to stop (Ctrl-C, a stop signal); what was finished is in its journal."""


class BudgetReached(RunStopped):
    """The run stopped because the next call might have gone beyond max_cost_usd."""
