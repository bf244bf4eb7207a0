"""Ask your own assistant each question once. The assistant is a function, a LangChain chain, or a service."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import constants
from ..base.conditions import UNTOLD
from ..base.messages import listed, say
from ..base.redact import redact
from ..base.showing import one_line
from ..base.texts import without_unseen
from ..errors import ConfigError, NoAnswer, RunStopped, SocJudgeError
from ..models import event_loop
from ..models.gate import RunGate
from ..models.pacing import Account, send_with_retries
from ..records import AssistantAnswer, Completion
from ..settings import open_project
from .http_assistant import HttpAssistant
from .own_answers import as_answer, from_runnable

_MOST_THREADS = 64  # of a function, if no `concurrency` is given
_PLAIN = (str, int, float, bool, type(None))  # types of defaults that a fingerprint can include


class Assistant:
    """Ask your own assistant. Pass this object to `run_evaluation_suite` as `answers=`.

    Parameters
    ----------
    ask
        One of: a function or async function; a LangChain Runnable; the file and name of a function, such as
        "mybot.py:ask"; the name of a table [assistants.NAME] in socjudge.toml; such a table as a dict. A function gets
        the question as its only argument, and returns an AssistantAnswer, a text, or a dict with `answer`. If it has no
        answer, the dict has `error` instead, with the reason. The other keys of the dict are optional:

        - `contexts`: the texts that the answer was made from, in the order in which `[1]`, `[2]` … cite them. Each is a
          text or {"text", "source", "heading"}.
        - `flags`: {"insufficient_evidence", "dangerous_operation", "ambiguous_query": bool}.
        - `model`, `version`, `input_tokens`, `output_tokens`, `cost_usd`.
    name, version
        The name and version of the assistant in logs and comparisons. A function is recognised by its code. A lambda, a
        closure, a partial, a bound method and an object are recognised by their version only. Without a version, a run
        with them cannot be resumed.
    concurrency
        The highest number of calls at the same time. If left out, there is one call until the assistant has answered
        once. After that, there are as many as the assistant accepts.
    timeout_s
        The longest wait for an answer, in seconds. If left out, it is that of the run (`RunOptions.timeout_s`). It cannot
        stop a function that is not async: the function runs on in its thread, and what it calls may be billed. Until it
        returns, it counts against `concurrency` (against 64, if that is left out). Give its client a time-out of its own.

    Raises
    ------
    ConfigError
        If `ask` is none of the kinds above, or an environment variable that a table names is not set.

    Examples
    --------
    >>> import socjudge as sj
    >>> sj.Assistant(lambda question: "隔離します。", name="my-bot", version="3.2")
    <Assistant my-bot, version 3.2>
    """

    def __init__(
        self,
        ask: Callable[..., Any] | str | Mapping[str, Any],
        *,
        name: str = "",
        version: str = "",
        concurrency: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        target: Any = ask
        if isinstance(ask, str):
            target, name = _named(ask), name or ask
        elif isinstance(ask, Mapping):
            target = HttpAssistant(ask, where=f"[assistants.{name or 'assistant'}]")
        self._target = target
        self._http = target if isinstance(target, HttpAssistant) else None
        self._is_runnable = hasattr(target, "ainvoke") and hasattr(target, "invoke")
        table = self._http.table if self._http else None
        self.concurrency = table.concurrency if table and concurrency is None else concurrency
        if self.concurrency is not None and (type(self.concurrency) is not int or self.concurrency < 1):
            raise ConfigError("{name} is {count}, expected 1 or more", name="concurrency", count=self.concurrency)
        self._timeout_s = timeout_s or (table and table.timeout_s)
        self.name, self.service, own_version = name or "assistant", "", ""
        if self._http is not None:
            self.service, own_version = self._http.service, self._http.version
            known: dict[str, Any] | None = self._http.decides
        elif callable(target) or self._is_runnable:
            if not self._is_runnable:
                _check_parameters(target)
            own_name = getattr(target, "__name__", "") or type(target).__name__
            self.name = name or own_name.replace("<lambda>", "function")
            known = _identity(target)
        else:
            raise ConfigError(
                "{found} cannot be asked; give a function, a Runnable of LangChain, the name of a table in "
                'socjudge.toml, or "mybot.py:function"',
                found=getattr(ask, "__name__", type(ask).__name__),  # its repr may show a key
            )
        self.version = str(version or own_version)
        self.is_known = known is not None or bool(self.version)
        # An assistant without a fingerprint gets a new one each time.
        self.fingerprint = _hashes(known or {}) if self.is_known else f"{UNTOLD}{secrets.token_hex(8)}"
        self._account = Account(self.concurrency or 1)
        # A call that runs on in its thread after its time-out keeps its place.
        is_async = self._http is not None or self._is_runnable or inspect.iscoroutinefunction(target)
        self._most = self.concurrency or (sys.maxsize if is_async else _MOST_THREADS)
        self._places = asyncio.Semaphore(self._most)
        self._n_overdue = 0

    def __repr__(self) -> str:
        version = f", version {self.version}" if self.version else ""
        return f"<Assistant {one_line(self.name + version, 120)[1:-1]}>"

    @property
    def told_before(self) -> str:
        """Return the text that the user is shown before the first call: which environment variables are sent to which
        host, and whether an interrupted run cannot be resumed. It may be ""."""
        lines = list[str]()
        if self._http is not None and self._http.variables:
            names = listed(self._http.variables)
            lines.append(say("the values of {names} are sent to {host}", names=names, host=self._http.host))
        if not self.is_known:
            told = say(
                "assistant {name} cannot be told from another by its code, so an interrupted run cannot be resumed; "
                "give it a version for that",
                name=self.name,
            )
            lines.append(told)
        return "\n".join(lines)

    def ask(self, question: str) -> AssistantAnswer:
        """Ask one question and return the answer as a run would record it.

        Raises NoAnswer, with the reason, if the assistant gives no answer.
        """
        return event_loop.wait(self.answer(question, RunGate()))

    async def answer(self, question: str, run: RunGate) -> AssistantAnswer:
        """Ask one question, as part of a run.

        The question is sent again only if the service says when to try again (429 or 503, with Retry-After). NoAnswer
        if the assistant does not answer, for any cause. ConfigError if its reply does not have the form of an answer.
        """
        made, thread = list[AssistantAnswer](), list[asyncio.Future[Any]]()
        timeout_s = self._timeout_s or run.settings.timeout_s

        async def send() -> Completion:
            reply = await self._reply(question, timeout_s, thread)
            made.append(replace(as_answer(reply), question=question))
            return Completion("", self.name, made[-1].usage)

        def counted_usd(completion: Completion) -> float | None:
            run.answer_usd = max(run.answer_usd or 0.0, completion.usage.cost_usd or 0.0)
            return completion.usage.cost_usd

        await self._take_place(timeout_s)
        try:
            done = await send_with_retries(
                send,
                what=self.name,
                account=self._account,
                gate=run,
                timeout_s=timeout_s,
                most_usd=lambda: run.answer_usd,
                counted_usd=counted_usd,
            )
        except (ConfigError, RunStopped, NoAnswer):
            raise
        except SocJudgeError as error:
            raise NoAnswer(str(error)) from None
        finally:
            if thread and not thread[0].done():
                self._n_overdue += 1
                thread[0].add_done_callback(self._leave_late)
            else:
                self._places.release()
        answer = replace(made[-1], processing_time=done.seconds, retries=done.retries)
        if not without_unseen(answer.answer).strip():
            raise NoAnswer("the answer was empty")
        return answer

    async def _take_place(self, timeout_s: float) -> None:
        while True:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._places.acquire()
                return
            except TimeoutError:
                if self._n_overdue >= self._most:
                    raise NoAnswer(
                        "{count} earlier calls of {name} still run after their time-out, which is as many as may run at "
                        "once, so this question was not asked; give what the function calls a time-out of its own",
                        count=self._n_overdue,
                        name=self.name,
                    ) from None

    def _leave_late(self, thread: asyncio.Future[Any]) -> None:
        thread.exception()  # nobody waits for it any more
        self._n_overdue -= 1
        self._places.release()

    async def _reply(self, question: str, timeout_s: float, thread: list[asyncio.Future[Any]]) -> Any:
        if self._http is not None:
            return await self._http.ask(question, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                if self._is_runnable:
                    return from_runnable(await self._target.ainvoke(_input_of(self._target, question)))
                if inspect.iscoroutinefunction(self._target):
                    return await self._target(question)
                thread.append(asyncio.ensure_future(event_loop.in_thread(self._target, question)))
                reply = await asyncio.shield(thread[0])
                return await reply if inspect.isawaitable(reply) else reply
        except TimeoutError:
            raise NoAnswer(
                "no answer within {seconds:g} seconds; give a longer timeout_s if it needs more", seconds=timeout_s
            ) from None
        except SocJudgeError:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            said = one_line(redact(f"{type(error).__name__}: {error}"), 300)
            raise NoAnswer("calling the assistant failed ({said})", said=said) from None


def _named(ask: str) -> Any:
    path, _, function = ask.rpartition(":")
    tables = open_project().assistants
    if ask in tables:
        return HttpAssistant(tables[ask], where=f"[assistants.{ask}]")
    if path.endswith(".py") and function.isidentifier():
        return _load(path, function)
    raise ConfigError(
        "{name} is neither a file nor a table [assistants.…] of socjudge.toml; its tables are {known}",
        name=one_line(ask),
        known=listed(tables) if tables else say("none"),
    )


def _load(path: str, function: str) -> Any:
    # in the working folder, and then in the project's
    place = next((p for p in (Path(path), constants.PROJECT_DIR / path) if p.is_file()), None)
    if place is None:
        raise ConfigError('{path}: no such file; check the path in "mybot.py:function"', path=path)
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(place.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # for modules beside the file
    try:
        spec.loader.exec_module(module)
        return getattr(module, function)
    except Exception as error:
        said = one_line(redact(f"{type(error).__name__}: {error}"), 200)
        raise ConfigError("{path}: {name} cannot be loaded ({said})", path=path, name=function, said=said) from None


def _check_parameters(ask: Any) -> None:
    try:
        inspect.signature(ask).bind("")
    except ValueError:  # some functions that are not written in Python
        pass
    except TypeError as error:
        raise ConfigError(
            "{found} cannot be called with a question ({reason}); it gets the question as its only argument, so what "
            "else it needs must have defaults",
            found=getattr(ask, "__name__", type(ask).__name__),  # its repr may show a key
            reason=error,
        ) from None


def _hashes(parts: Mapping[str, Any]) -> str:
    """Hash each part for itself, as in `body=… url=…`, so that a comparison can name the parts that differ."""
    told = {name: json.dumps(parts[name], sort_keys=True, ensure_ascii=False) for name in sorted(parts) if parts[name]}
    hashes = [f"{name}={hashlib.sha256(text.encode()).hexdigest()[:12]}" for name, text in told.items()]
    return " ".join(hashes) or "version"


def _identity(ask: Any) -> dict[str, Any] | None:
    """Return by what a function is recognised when a run is resumed: by its code, and that of its whole file, but not by
    what it imports. None for anything else, whose answers may depend on code or data elsewhere."""
    is_plain = inspect.isfunction(ask) and not hasattr(ask, "__wrapped__") and not ask.__closure__
    if not is_plain or ask.__name__ == "<lambda>":
        return None
    defaults = [*(ask.__defaults__ or ()), *(ask.__kwdefaults__ or {}).values()]
    if not all(isinstance(value, _PLAIN) for value in defaults):
        return None
    file = Path(ask.__code__.co_filename)
    try:
        if file.is_file():  # helper functions are in the same file
            module, source = file.stem, file.read_bytes()
        else:  # a notebook cell
            module, source = "__main__", inspect.getsource(ask).encode()
    except (OSError, TypeError):
        return None
    function = f"{module}:{ask.__qualname__}"
    return {"function": function, "code": source.decode("utf-8", "replace"), "defaults": repr(defaults)}


def _input_of(chain: Any, question: str) -> Any:
    try:
        schema = chain.get_input_jsonschema()
    except Exception:
        return question
    names = list(schema.get("properties", {})) if schema.get("type") == "object" else []
    wanted = [name for name in ("question", "input", "query") if name in names] or (names if len(names) == 1 else [])
    return {wanted[0]: question} if wanted else question
