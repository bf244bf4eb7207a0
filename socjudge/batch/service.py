"""Use the service's endpoints for files and batches, through OpenAI's SDK."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import time
from collections.abc import Iterator
from datetime import datetime

import openai
from openai.types import Batch

from ..base.messages import explained, say
from ..base.redact import redact
from ..errors import ConfigError, ProviderError, RequestRefused, SocJudgeError
from ..models import pacing
from ..models.opening import open_model
from .files import URL, RequestFile
from .state import BatchState, save_state

TIMEOUT_S = 600.0  # seconds; a file may have 200 MB
_LABEL = "socjudge_file"


def open_client(state: BatchState) -> openai.OpenAI:
    """Open a client for the service that the job was prepared for.

    Raises ConfigError if there is no key, or if the environment names another service.
    """
    model = open_model(state.source.judge_model)  # raises ConfigError without a key
    prepared_for, here = state.key["judge_service"], getattr(model, "service", "")
    if here != prepared_for:
        now = here or say("batch.not_set")
        raise ConfigError(say("batch.other_service", folder=state.folder, prepared_for=prepared_for, here=now))
    return _client(*(os.environ.get(name, "").strip() for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")))


@functools.lru_cache(maxsize=4)
def _client(api_key: str, base_url: str) -> openai.OpenAI:
    return openai.OpenAI(api_key=api_key or "none", base_url=base_url or None, timeout=TIMEOUT_S, max_retries=2)


def submit_file(client: openai.OpenAI, state: BatchState, file: RequestFile) -> None:
    """Upload the file and create its batch, unless this was done already.

    Each id from the service is written to the disk before the next call. Raises ConfigError and ProviderError as
    `batch.submit_batch` does.
    """
    if not file.file_id:
        path = state.folder / file.name
        with explained("batch.requests_unreadable", path=path):
            handle = path.open("rb")
        with handle, _service_errors(state):
            file.file_id = client.files.create(file=(file.name, handle, "application/jsonl"), purpose="batch").id
        file.status = "uploaded"
        save_state(state)
    batch = _create(client, state, file)
    with _service_errors(state):
        file.batch_id, file.status = batch.id, batch.status
    save_state(state)


def _create(client: openai.OpenAI, state: BatchState, file: RequestFile) -> Batch:
    """Create at the service the batch of an uploaded file. If an earlier call created it but got no reply, find that
    batch instead.
    """
    label, tries = f"{state.run['run_id']}/{file.name}", 3
    for n in range(1, tries + 1):
        if file.creating and (found := _find_batch(client, state, label)) is not None:
            return found
        file.creating = True
        save_state(state)
        try:
            with _service_errors(state):
                # The SDK must not retry: after a lost reply, a retry would create a second batch.
                return client.with_options(max_retries=0).batches.create(
                    input_file_id=file.file_id, endpoint=URL, completion_window="24h", metadata={_LABEL: label}
                )
        except SocJudgeError as error:
            cause = error.__context__
            if isinstance(cause, openai.APIStatusError) and cause.status_code < 500:
                file.creating = False  # the service refused, so there is none
                if cause.status_code in (400, 404):
                    file.file_id = ""  # the upload itself may be wrong
                save_state(state)
            if n == tries or not isinstance(error, ProviderError) or isinstance(error, RequestRefused):
                raise
        time.sleep(random.uniform(0, pacing.BACKOFF_S * 2**n))
    raise AssertionError("the last try returns or raises")


def _find_batch(client: openai.OpenAI, state: BatchState, label: str) -> Batch | None:
    """Return the newest batch at the service that socjudge created with this label. Return None if there is none."""
    too_old = datetime.fromisoformat(state.run["started_at"]).timestamp() - 86_400
    with _service_errors(state):
        for batch in client.batches.list(limit=100):
            if (batch.metadata or {}).get(_LABEL) == label:
                return batch
            if batch.created_at < too_old:
                break
    return None


def update_file(client: openai.OpenAI, file: RequestFile) -> Batch:
    """Read the state of the file's batch from the service, record it in `file`, and return the batch."""
    with _service_errors(file.batch_id):
        batch = client.batches.retrieve(file.batch_id)
        file.status = batch.status
        if batch.request_counts is not None:
            file.completed, file.failed = batch.request_counts.completed, batch.request_counts.failed
        errors = (batch.errors.data if batch.errors is not None else None) or []
    said = []
    for error in errors[:3]:
        text = f"{error.code}: {error.message}"
        said.append(say("batch.at_line", said=text, line=error.line) if error.line else text)
    more = [say("batch.more_errors", count=len(errors) - 3)] if len(errors) > 3 else []
    file.problem = redact("; ".join([*said, *more]))[:600]
    return batch


def download(client: openai.OpenAI, file_id: str) -> bytes | None:
    """Download an output or error file from the service. Return None if the service no longer has it."""
    try:
        with _service_errors(file_id):
            return client.files.content(file_id).read()
    except ConfigError as error:
        if isinstance(error.__context__, openai.NotFoundError):
            return None
        raise


@contextlib.contextmanager
def _service_errors(what: BatchState | str) -> Iterator[None]:
    """Turn errors that OpenAI's SDK raises in a `with` block into socjudge's errors: ConfigError or ProviderError.

    The SDK's error is kept as `__context__`.

    what: what the message names: the job, or the id of the batch or file at the service.
    """
    name = what if isinstance(what, str) else str(what.folder)
    try:
        yield
    except openai.APIStatusError as error:
        status, said = error.status_code, redact(error.message)[:300]
        if status in (401, 403):
            raise ConfigError(say("batch.key_refused", name=name, status=status, said=said)) from None
        if status == 404:
            raise ConfigError(say("batch.not_found", name=name, said=said)) from None
        if status == 429 and error.code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise ConfigError(say("batch.quota", name=name, said=said)) from None
        if status in (408, 409, 425, 429) or status >= 500:
            raise ProviderError(say("batch.try_later", name=name, status=status, said=said)) from None
        raise RequestRefused(say("batch.refused", name=name, status=status, said=said)) from None
    except openai.APIConnectionError as error:
        why = redact(str(error.__cause__ or error))[:300]
        raise ProviderError(say("batch.unreachable", name=name, reason=why)) from None
    except (openai.APIError, ValueError, TypeError, AttributeError) as error:
        why = redact(f"{type(error).__name__}: {error}")[:200]
        raise ProviderError(say("batch.no_response", name=name, reason=why)) from None
