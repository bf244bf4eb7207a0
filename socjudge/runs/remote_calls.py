"""Make one call to a model on any machine, for an executor.

A call contains only records and names. The machine that makes the call uses its own key and connection.
"""

from __future__ import annotations

import functools
import socket
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import constants
from .._version import __version__
from ..base.messages import say
from ..base.redact import surprise_text
from ..errors import ConfigError, ProviderError, RequestRefused, RunStopped, SocJudgeError
from ..judging.assistant import answering
from ..judging.dialogue import Dialogue, Finished, advance, replay
from ..judging.judge import judging
from ..models import event_loop
from ..models.opening import Model, open_model
from ..models.pacing import CallSettings, RunGate
from ..prompts.templates import Prompt
from ..records import AssistantAnswer, Completion, EvalQuestion, Evaluation, ModelRequest, Rubric

if TYPE_CHECKING:
    from ..runbooks.index import RunbookIndex

Terms = tuple[tuple[str, Any], ...]
_loading, _lock = threading.Lock(), threading.Lock()
_stopped: set[str] = set()
_gates: defaultdict[str, set[RunGate]] = defaultdict(set)  # the gates of the calls under way, by run


@dataclass(frozen=True)
class RemoteCall:
    """Describe one call to a model by records and names, without a key or an open connection.

    - terms: the settings that must be the same on the machine that makes the call, from `get_terms`.
    - prompt, question: for the judge or the assistant.
    - answer: the answer to judge, or None if the call requests an answer.
    - paid: the judge's earlier replies that could not be parsed.
    - most_usd: the most that the call may spend in US dollars, or None for no limit.
    - index_dir, fingerprint, k: the folder of the runbooks' index, the hash that identifies the index, and the number
      of passages. Only if the call requests an answer.
    """

    run_id: str
    id: str
    model: str
    terms: Terms
    most_usd: float | None
    settings: CallSettings
    prompt: Prompt
    question: EvalQuestion
    answer: AssistantAnswer | None = None
    rubric: Rubric | None = None
    paid: tuple[Completion, ...] = ()
    index_dir: Path = Path()
    fingerprint: str = ""
    k: int = 0

    def __dask_tokenize__(self) -> str:
        """Return an id that no other call has. Dask would make calls with equal ids only once.

        Equal calls are repeats, and each must be made: their replies may differ from one another.
        """
        return self.id


# An answer, an evaluation, a reply after which another request is needed, or the error that says why there is none. The
# number is its cost in US dollars.
Outcome = tuple[AssistantAnswer | Evaluation | Completion | SocJudgeError, float]


def run_remote_call(call: RemoteCall) -> Outcome:
    """Make the call and return its value and its cost in US dollars. An error is returned as the value.

    It is not raised, because an executor would print it with its arguments, or make the call again.
    """
    gate = RunGate(budget=call.most_usd, settings=call.settings)
    value: AssistantAnswer | Evaluation | Completion | SocJudgeError
    try:
        _admit(call.run_id, gate)
        value = _one_reply(call, _open_checked(call.model, call.terms, call.run_id), gate)
    except ConfigError as error:
        value = ConfigError(say("runs.on_worker", error=error, worker=socket.gethostname()))
    except SocJudgeError as error:
        value = error
    except Exception as surprise:  # only this process knows the keys that the text may contain
        value = RequestRefused(surprise_text(surprise)[:300], about_content=False)
    finally:
        with _lock:
            _gates[call.run_id].discard(gate)
            if not _gates[call.run_id]:
                del _gates[call.run_id]
    # Dask pickles an error's causes too, and those of the SDK hold the request with its key
    if isinstance(value, SocJudgeError):
        value = value.with_traceback(None)
        value.__cause__ = value.__context__ = None
    return value, gate.spent_usd


def _one_reply(call: RemoteCall, model: Model, gate: RunGate) -> AssistantAnswer | Evaluation | Completion:
    dialogue: Dialogue[AssistantAnswer] | Dialogue[Evaluation]
    if call.answer is not None and call.rubric is not None:
        dialogue = judging(call.question, call.answer, prompt=call.prompt, rubric=call.rubric)
    else:
        with _loading:  # once for all threads
            index = _load_index(call.index_dir, call.fingerprint)
        dialogue = answering(call.question.question, index=index, k=call.k, prompt=call.prompt)
    request = replay(dialogue, call.paid)
    reply: Completion | ProviderError
    try:
        reply = event_loop.wait(model.complete_async(request, gate))
    except ProviderError as error:
        reply = error
    try:
        advance(dialogue, reply)
    except Finished as finished:
        return finished.value  # type: ignore[no-any-return]
    assert isinstance(reply, Completion)  # the dialogue did not end, so the reply is no error
    return reply


def _admit(run_id: str, gate: RunGate) -> None:
    if event_loop.is_forked():
        raise ConfigError(say("runs.executor_forks"))
    with _lock:
        if run_id in _stopped:
            raise RunStopped(say("runs.stopped"))
        _gates[run_id].add(gate)


def stop_remote_calls(run_id: str) -> None:
    """Stop a run's calls in this process. No further call of the run is begun or retried."""
    with _lock:
        _stopped.add(run_id)
        for gate in _gates.pop(run_id, ()):
            event_loop.get_loop().call_soon_threadsafe(gate.stop)


def get_terms(model: Model) -> Terms:
    """Return the settings for a model's calls that must be the same on all machines of a run: (name, value) pairs."""
    sample = ModelRequest("judge", ({"role": "user", "content": "x" * 1000},), {})
    return (
        (say("runs.version_of_socjudge"), __version__),
        ("BACKGROUND_SECTIONS", "、".join(constants.BACKGROUND_SECTIONS)),
        ("OPENAI_BASE_URL", getattr(model, "service", "")),
        (say("runs.price_of", model=model.name), model.most_usd(sample)),
    )


@functools.lru_cache(maxsize=8)
def _open_checked(name: str, terms: Terms, run_id: str) -> Model:
    """Open the model, once per run and process.

    Raise ConfigError if one of the settings here differs from `terms`, the settings of the machine that started the
    run.
    """
    model = open_model(name)
    for (what, there), (_, here) in zip(terms, get_terms(model), strict=False):
        if there != here:
            raise ConfigError(say("runs.worker_differs", what=what, here=here, there=there))
    return model


@functools.lru_cache(maxsize=2)
def _load_index(index_dir: Path, fingerprint: str) -> RunbookIndex:
    from ..runbooks.index import load_index

    index = load_index(index_dir)
    if index.fingerprint != fingerprint:
        raise ConfigError(say("runs.worker_index", folder=index_dir))
    return index
