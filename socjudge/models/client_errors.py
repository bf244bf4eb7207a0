"""Say what an error of somebody else's client means: a wrong set-up, a refused request, or a failure to be retried."""

from __future__ import annotations

from ..base.messages import say
from ..base.service_errors import read_error
from ..errors import ConfigError, RequestRefused, names_content
from .pacing import Model, Retryable


def failure_of(model: Model, error: BaseException, remedy: str) -> Exception:
    """Choose socjudge's exception by the status code, because every provider has its own exception classes."""
    told = read_error(error)
    reason = model.redact(told.words or str(error))[:300]
    if isinstance(error, TypeError | NotImplementedError):
        return ConfigError(
            "{model} cannot be called: {reason}; {remedy}", model=model.name, reason=reason, remedy=remedy
        )
    said = f"{type(error).__name__}: {reason}"
    status = status_of(error)
    name = model.name.partition(":")[2] or model.name
    about_content = names_content(
        *told.codes, getattr(error, "code", None), told.about, type(error).__name__, model=name
    )
    if status in (401, 404) or (status == 403 and not about_content):
        return ConfigError(
            "{model}: check the key and the model's name ({status}): {said}",
            model=model.name,
            status=status,
            said=said,
            of_one=status != 401,
        )
    # Some clients raise errors without a status, such as ValueError. Their words do not reveal an outage.
    if status in (400, 413, 422) or (about_content and (status is None or status in (403, 451))):
        about_content |= status == 413
        refused = say(
            "{where} refused the request ({status}): {said}",
            where=model.name,
            status=status or type(error).__name__,
            said=said,
        )
        return RequestRefused(refused, about_content=about_content)
    # It is unknown here whether a failure without a status was processed.
    return Retryable(said, refused=status == 429, may_be_billed=status is None)


def status_of(error: BaseException) -> int | None:
    given = (getattr(error, "status_code", None), getattr(error, "code", None))
    return next((each for each in given if isinstance(each, int)), None)
