"""Assistants behind an HTTP proxy, beside the judge: both take the proxy that the environment names, and only that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.http_proxy import PASSWORD, Proxy, proxying
from support.own_bot import Bot, Said, running
from support.service import Service, judgement

import socjudge as sj
from socjudge.errors import NoAnswer
from socjudge.records import EvalQuestion

pytestmark = [  # of the judge's client
    pytest.mark.filterwarnings(f"ignore:{said}:DeprecationWarning")
    for said in ("BasicAuth is deprecated", "The 'proxy_auth' parameter")
]
QUESTION = EvalQuestion(1, "正常系", "初動は。", ("隔離",))
VARIABLES = [name for each in ("http", "https", "all", "no") for name in (f"{each}_proxy", f"{each.upper()}_PROXY")]


@pytest.fixture(autouse=True)
def _no_proxy_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxying() as proxy:
        yield proxy


@pytest.fixture
def bot() -> Iterator[Bot]:
    with running(lambda asked: Said({"reply": "隔離します。"})) as bot:
        yield bot


def asked_of(url: str) -> dict[str, Any]:
    return {"url": f"{url}/ask", "body": {"q": "{question}"}, "answer": "reply"}


def test_a_run_goes_through_the_proxy_that_the_network_requires(
    proxy: Proxy, bot: Bot, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service.default = judgement(90)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    run = sj.run_evaluation_suite(
        [QUESTION], answers=asked_of(bot.url), judge_model="judge-1", logs_dir=tmp_path, progress=False
    )
    assert run.results[0].answer.answer == "隔離します。"
    assert run.results[0].evaluation.scores["正確性"] == 90
    assert {bot.url, service.base_url[:-3]} == {re.sub(r"(//[^/]+).*", r"\1", url) for url in proxy.seen}
    assert proxy.refused == 0


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "direct",
    ["", "*", "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "127.0.0.1:PORT", "127.0.0.1:1", "localhost", "example.org",
     " example.org , 127.0.0.1 ", "http://127.0.0.1", "https://127.0.0.1", "*.0.0.1", "[::1]"],
)  # fmt: skip
def test_the_assistant_is_reached_as_the_judge_is(
    variable: str, direct: str, proxy: Proxy, bot: Bot, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.default = judgement(90)
    monkeypatch.setenv(variable, proxy.url)
    used = []
    for url in (service.base_url, bot.url):
        port = re.sub(r".*:(\d+).*", r"\1", url)
        monkeypatch.setenv("NO_PROXY", direct.replace("PORT", port))
        if url == bot.url:
            assert sj.Assistant(asked_of(url)).ask("初動は。").answer == "隔離します。"
        else:
            sj.evaluate_answer(QUESTION, sj.AssistantAnswer("初動は。", "隔離します。"), model="judge-1")
        used.append(any(f":{port}/" in seen for seen in proxy.seen))
    assert used[0] == used[1]


def test_a_proxy_that_is_set_after_the_first_call_is_taken(
    proxy: Proxy, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.default = judgement(90)
    for seen in (0, 1):
        sj.evaluate_answer(QUESTION, sj.AssistantAnswer("初動は。", "隔離します。"), model="judge-1")
        assert len(proxy.seen) == seen
        monkeypatch.setenv("HTTP_PROXY", proxy.url)


def test_an_address_with_tls_goes_through_a_tunnel(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with pytest.raises(NoAnswer, match="proxy") as told:
        sj.Assistant(asked_of("https://bot.example")).ask("初動は。")
    assert proxy.seen == ["bot.example:443"]
    assert "word" not in str(told.value)


def test_a_proxy_that_asks_for_a_password_is_named_without_it(
    proxy: Proxy, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://soc:wrong-password@{proxy.address}")
    for url in (bot.url, "https://bot.example"):
        monkeypatch.setenv("HTTPS_PROXY", f"http://soc:wrong-password@{proxy.address}")
        with pytest.raises(NoAnswer, match="407.*NO_PROXY") as told:
            sj.Assistant(asked_of(url)).ask("初動は。")
        assert "wrong-password" not in str(told.value)
    assert not bot.asked and PASSWORD not in str(told.value)


def test_nothing_of_netrc_is_sent(bot: Bot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("default login soc password secret-of-another-host\n", "utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    sj.Assistant(asked_of(bot.url)).ask("初動は。")
    assert "Authorization" not in bot.headers[0]
