"""Say what an error of a service's client means: a wrong set-up, a refused request, or a failure to be retried."""

from __future__ import annotations

import re
from typing import Any

from ..base.messages import say
from ..base.service_errors import Told, better_url, read_error
from ..errors import ConfigError, RequestRefused, names_content
from .endings import ended_line
from .pacing import Model, Retryable

# What services say with one status and another: that the key is wrong, that nothing is left, and that nobody is there.
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|missing|expired|no) api.?key|api.?key.{0,12}(?:invalid|not valid)", re.I
)
_SPENT = re.compile(
    r"insufficient.(?:quota|balance|credit|fund)|credit balance|out of credits|monthly (?:limit|quota)", re.I
)
_NOBODY = re.compile(r"unexpected endpoint|unknown endpoint|no such (?:route|endpoint)|cannot post", re.IGNORECASE)
CONTEXT = re.compile(r"context (?:length|window|size)(?:\D{0,40}?(\d+))?", re.IGNORECASE)
_PASSING = (200, 408, 409, 425, 429)  # and all from 500


def failure_of(
    model: Model, error: BaseException, told: Told | None = None, *, base_url: str | None = None, remedy: str = ""
) -> Exception:
    """Choose socjudge's exception. `base_url`: what OPENAI_BASE_URL holds, or None if the model is not called by it."""
    told = told or read_error(error)
    said, status = _words(model, told), status_of(error)
    if isinstance(error, TypeError | NotImplementedError):
        return ConfigError("{model} cannot be called: {reason}; {remedy}", model=model.name, reason=said, remedy=remedy)
    all_said = " ".join([told.about, *told.codes])
    about_content = names_content(
        *told.codes, getattr(error, "code", None), told.about, type(error).__name__, model=model.own_name
    )
    if status is None:
        # The words of a client's own error, such as a ValueError, do not reveal an outage or what was processed.
        said = f"{type(error).__name__}: {said}"
        return (
            _refusal(model, type(error).__name__, told, said) if about_content else Retryable(said, may_be_billed=True)
        )
    meant = status
    if status in (200, 400) and _NOBODY.search(told.about):
        meant = 404
    elif status in (400, 403) and _BAD_KEY.search(all_said):
        meant = 401
    if about_content and meant not in (401, 404, *_PASSING[1:]) and (meant < 500 or told.codes):
        return _refusal(model, status, told, said)
    if meant in (401, 403, 404, 405) and (wrong := _wrong_set_up(model, meant, status, told, said, base_url)):
        return wrong
    if meant == 402 or (meant in (400, 429) and _SPENT.search(all_said)):
        return ConfigError(
            "{where}: the account's quota is used up ({status}): {said}", where=model.where, status=status, said=said
        )
    if meant not in _PASSING and meant < 500:
        return _refusal(model, status, told, said, about_content=about_content or status == 413)
    return Retryable(
        f"HTTP {status} ({said})",
        refused=meant == 429,
        retry_after_s=retry_after_s(getattr(getattr(error, "response", None), "headers", {})),
        down=meant in (502, 503, 504),
        may_be_billed=meant in (408, 504, 524),  # what stands behind a gateway may have replied, and billed it
    )


def _wrong_set_up(
    model: Model, meant: int, status: int, told: Told, said: str, base_url: str | None
) -> ConfigError | None:
    if meant == 404 and (ended := ended_line(model.own_name, model.service)):
        return ConfigError(ended, of_one=True)
    better = better_url(base_url or "") if meant > 403 and model.own_name not in told.words else ""
    if better:
        words = "{where}: no chat service at this address ({status}); set OPENAI_BASE_URL to {better}"
        return ConfigError(words, where=model.where, status=meant, better=better, of_one=True)
    sentences = {
        404: "{where}: no such model or path (404); check its name and {address}: {said}",
        401: "{where} refused the key ({status}): check {key}. It said: {said}",
        403: "{where} refused access ({status}): check {key}, and what it names: {said}",
    }
    if meant not in sentences:
        return None
    key, address = (
        ("OPENAI_API_KEY", "OPENAI_BASE_URL") if base_url is not None else (say("the key"), say("the address"))
    )
    return ConfigError(
        sentences[meant], where=model.where, status=status, key=key, address=address, said=said, of_one=meant != 401
    )


def _refusal(model: Model, status: int | str, told: Told, said: str, *, about_content: bool = True) -> RequestRefused:
    if CONTEXT.search(told.about):
        said = say(
            "{said}. Start the server with a larger context (docs/reference.md#servers), or ask for less: fewer "
            "passages (k), a lower output_tokens",
            said=said,
        )
    words = "{where} refused the request ({status}): {said}"
    return RequestRefused(words, where=model.where, status=status, said=said, about_content=about_content)


def _words(model: Model, told: Told) -> str:
    words = model.redact(told.words)
    if len(words) > 300:  # the cause often stands last
        words = f"{words[:140]} … {words[-150:]}"
    return words or say("it gave no reason")


def status_of(error: BaseException) -> int | None:
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    return next((each for each in given if isinstance(each, int)), None)


def retry_after_s(headers: Any) -> float | None:
    """Return the seconds in the Retry-After header. None if there is no such header, or if it holds a date."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit_s
        except (KeyError, ValueError, TypeError):
            continue
        return seconds if seconds > 0 else None
    return None
