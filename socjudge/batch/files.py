"""Write the request files of a batch, as JSON lines within the service's limits. Parse the files of replies."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from ..base.atomic_files import replacing
from ..base.messages import os_reason, say
from ..base.redact import redact
from ..errors import ConfigError
from ..runs.logs import from_json, to_json

# The service's limits for one file: https://developers.openai.com/api/docs/guides/batch
MAX_REQUESTS = 50_000
MAX_BYTES = 200_000_000
URL: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_CUSTOM_ID = re.compile(r"round(\d{1,9})-s(\d{1,9})-(?:a|r(\d{1,9})-t(\d{1,9}))", re.ASCII)


@dataclass(frozen=True)
class Line:
    """Describe one line of a request file: a request for an answer or, if `repeat` is given, for a judgement of it.

    - sample: the position of the answer among the answers of the run, from 0.
    - repeat: the position of the judgement among the repeated judgements of this answer, from 0. It is None in a
      request for an answer.
    - turn: the number of earlier replies to this request that could not be parsed. It is part of the line's name. A
      reply therefore counts only once, even if its file is collected several times.
    """

    sample: int
    repeat: int | None = None
    turn: int = 0

    @property
    def name(self) -> str:
        """Return the line's name. It is the same in every round."""
        return f"s{self.sample}-a" if self.repeat is None else f"s{self.sample}-r{self.repeat}-t{self.turn}"

    def custom_id(self, round_number: int) -> str:
        """Return the id of this request in a round. The service returns it with the reply."""
        return f"round{round_number}-{self.name}"


def parse_custom_id(custom_id: str, round_number: int) -> Line | None:
    """Return the line that has this id. Return None if it is not an id of this round."""
    match = _CUSTOM_ID.fullmatch(custom_id)
    if match is None or int(match[1]) != round_number:
        return None
    return Line(int(match[2])) if match[3] is None else Line(int(match[2]), int(match[3]), int(match[4]))


@dataclass
class RequestFile:
    """Describe one file of requests, all for one model, and its state.

    - requests: the number of requests. answers: how many of them request an answer, not a judgement.
    - creating: whether the service may have a batch of this file although the batch's id is not known here.
    - status: "prepared", "uploaded", or the batch's status at the service.
    - completed, failed: how many requests were completed and how many failed, as the service last reported.
    - problem: why the service refused the file; empty if it did not.
    - collected: whether the replies are in the journal.
    """

    name: str
    model: str
    requests: int = 0
    answers: int = 0
    size_bytes: int = 0
    file_id: str = ""
    creating: bool = False
    batch_id: str = ""
    status: str = "prepared"
    completed: int = 0
    failed: int = 0
    problem: str = ""
    collected: bool = False


def write_requests(
    folder: Path, stem: str, requests: Iterable[tuple[Line, str, dict[str, Any]]], *, max_requests: int
) -> list[RequestFile]:
    """Write request files `stem-001.jsonl`, `stem-002.jsonl` … within the service's limits.

    Each file is for one model.

    requests: (line, custom id, body), grouped by model.

    Raises ConfigError if a single request is larger than a file may be.
    """
    written: list[RequestFile] = []
    with contextlib.ExitStack() as opened:
        for line, custom_id, body in requests:
            request = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
            raw = to_json(request, indent=False) + b"\n"
            if len(raw) > MAX_BYTES:
                raise ConfigError(say("batch.request_too_large", request=custom_id, size=len(raw), most=MAX_BYTES))
            file = written[-1] if written else RequestFile("", "")
            is_full = file.requests >= min(max_requests, MAX_REQUESTS) or file.size_bytes + len(raw) > MAX_BYTES
            if is_full or file.model != body["model"]:
                opened.close()
                file = RequestFile(f"{stem}-{len(written) + 1:03d}.jsonl", body["model"])
                written.append(file)
                handle = opened.enter_context(replacing(folder / file.name))
            handle.write(raw)
            file.requests, file.size_bytes = file.requests + 1, file.size_bytes + len(raw)
            file.answers += line.repeat is None
    return written


def load_requests(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (custom id, body) for each request in a file. Raises ConfigError if the file is gone or damaged."""
    try:
        with path.open("rb") as file:
            for raw in file:
                request = orjson.loads(raw)
                yield request["custom_id"], request["body"]
    except OSError as error:
        raise ConfigError(say("batch.requests_unreadable", path=path, reason=os_reason(error))) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(say("batch.requests_changed", path=path, reason=error)) from None


@dataclass(frozen=True)
class Failure:
    """Describe why a request failed. The fields have the names that the errors of OpenAI's SDK have."""

    message: str
    status_code: int = 0
    code: str = ""
    param: str = ""


def parse_replies(raw: bytes) -> Iterator[tuple[str, Any]]:
    """Yield (custom id, reply) for each line of an output or error file.

    The reply is the body of the service's response or, if the request failed, a Failure. A line that cannot be read
    gives ("", Failure).
    """
    for line in io.BytesIO(raw):  # splitting the bytes would copy them all
        if line.strip():
            try:
                yield _parse_reply(from_json(line))
            except (ValueError, AttributeError, TypeError) as error:
                yield "", Failure(say("batch.no_batch_line", reason=error))


def _parse_reply(line: dict[str, Any]) -> tuple[str, Any]:
    custom_id, response, error = line.get("custom_id"), line.get("response"), line.get("error")
    custom_id = custom_id if isinstance(custom_id, str) else ""
    status: Any = 0
    body: Any = None
    if isinstance(response, dict):
        status, body = response.get("status_code"), response.get("body")
        status = status if isinstance(status, int) else 0
        if not error and isinstance(body, dict):
            error = body.get("error")
    if not error and status == 200:
        return custom_id, body
    said = error if isinstance(error, dict) else {"message": error or body}
    message, code, param = (said.get(name) for name in ("message", "code", "param"))
    text = redact(str(message or code or say("batch.no_reason")))[:300]
    return custom_id, Failure(text, status, str(code or ""), str(param or ""))
