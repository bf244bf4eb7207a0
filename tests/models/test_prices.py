"""An address never proves a price: list prices are those of the seller's own address."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from support.own_prices import set_prices
from support.service import Service

import socjudge as sj
from socjudge import constants
from socjudge.models.opening import open_model
from socjudge.models.prices import price_usd
from socjudge.settings import keep_free

pytestmark = pytest.mark.usefixtures("real_addresses")
QUESTIONS = [sj.EvalQuestion(n, "正常系", f"質問{n}です", ("端末の隔離",)) for n in range(2)]
ANSWERS = [sj.AssistantAnswer(q.question, "端末を隔離します。", "文脈") for q in QUESTIONS]


@pytest.mark.parametrize(
    ("model", "at", "usd"),
    [
        ("gpt-4o", "api.openai.com", 12.5),
        ("gpt-4o", "https://api.openai.com/v1", 12.5),
        ("gpt-4o", "http://api.openai.com/v1", None),
        ("gpt-4o", "https://api.openai.com:8443/v1", None),
        ("gpt-4o", "https://api.openai.com.evil.example/v1", None),
        ("gpt-4o", "https://gateway.example/api.openai.com/v1", None),
        ("gpt-4o", "http://localhost:4000/v1", None),
        ("gpt-4o", "https://ours.openai.azure.com/openai/v1", None),  # the name is that of a deployment
        ("gpt-4o", "", None),
    ],
)
def test_a_list_price_is_that_of_the_sellers_own_address(model: str, at: str, usd: float | None) -> None:
    assert price_usd(model, 1e6, 1e6, at) == usd


def test_a_price_of_zero_is_that_of_a_server_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(tmp_path, monkeypatch, {"gpt-4o": (0, 0), "gpt-4.1": (1, 1)})
    assert price_usd("gpt-4o", 1e6, 1e6, "http://localhost:4000/v1") == 0
    assert price_usd("gpt-4o", 1e6, 1e6, "api.openai.com") == 12.5
    assert price_usd("gpt-4.1", 1e6, 1e6, "api.openai.com") == 2  # what was agreed with the seller


def run(tmp_path: Path, judge: Any = "gpt-4o-mini", **keywords: Any) -> sj.EvaluationRun:
    return sj.run_evaluation_suite(
        QUESTIONS, answers=ANSWERS, judge_model=judge, logs_dir=tmp_path / "logs", progress=False, **keywords
    )


def test_a_gateways_price_is_unknown_said_before_and_holds_no_cap(service: Service, tmp_path: Path) -> None:
    plan = sj.plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs")
    assert plan.left.cost_usd is None and "an address does not prove a price" in plan.cost_note
    assert f"gpt-4o-mini at {service.base_url}" in plan.cost_note and "an address does not" in plan._repr_html_()
    with pytest.raises(sj.ConfigError, match=r"price of 'gpt-4o-mini' is unknown.*0 if it is free"):
        run(tmp_path, max_cost_usd=1.0)
    assert service.requests == []
    assert run(tmp_path).cost_usd is None


def test_langchain_at_a_gateway_has_no_list_price(service: Service, tmp_path: Path) -> None:
    from langchain_openai import ChatOpenAI

    with pytest.raises(sj.ConfigError, match="is unknown"):
        run(tmp_path, ChatOpenAI(model="gpt-4o-mini"), max_cost_usd=1.0)
    hosted = open_model(ChatOpenAI(model="gpt-4o-mini", base_url="https://api.openai.com/v1"))
    assert hosted.most_usd(sj.records.ModelRequest("judge", (), {})) is not None


def test_what_is_free_at_one_address_is_that_model_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = "http://localhost:4000/v1", "https://gateway.example/v1"
    set_prices(tmp_path, monkeypatch, {f"gpt-4o@{here}": (0, 0), f"llama3:8b@{here}": (0, 0)})
    assert price_usd("gpt-4o", 1e6, 1e6, here) == price_usd("decisions:gpt-4o", 1e6, 1e6, here) == 0
    assert price_usd("gpt-4o", 1e6, 1e6, here, by_anyone=True) == price_usd("llama3:8b", 1e6, 1e6, here) == 0
    assert price_usd("gpt-4o", 1e6, 1e6, there) is price_usd("gpt-4o-mini", 1e6, 1e6, here) is None
    assert price_usd("gpt-4o", 1e6, 1e6, "api.openai.com") == 12.5


def test_a_price_that_is_there_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(tmp_path, monkeypatch, {"sold": (1, 1)})
    for model in ("free@http://localhost:4000/v1", "free@http://localhost:4000/v1", "sold"):
        keep_free(model)  # as two panels do that asked at the same time
    assert sj.open_project().prices["free@http://localhost:4000/v1"] == {"input": 0, "output": 0}
    assert price_usd("sold", 1e6, 0) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("said", ["y", "n"])
def test_the_command_asks_once_whether_it_is_free(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from socjudge.cli.run import ask_what_is_free

    set_prices(tmp_path, monkeypatch, {"another": (1, 1)})
    plan = sj.plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs")
    assert ask_what_is_free(plan, True) is plan
    monkeypatch.setattr(sys, "stdin", Terminal(f"{said}\n{said}\n"))
    assert ask_what_is_free(plan, False).left.cost_usd == (0 if said == "y" else None)
    assert "Is it free of charge?" in capsys.readouterr().err
    kept = (constants.PROJECT_DIR / "socjudge.toml").read_text("utf-8")
    assert (f'[prices."gpt-4o-mini@{service.base_url}"]' in kept) == (said == "y")
    if said == "y":
        again = sj.plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "logs")
        assert ask_what_is_free(again, False) is again  # nothing is asked
        assert run(tmp_path, max_cost_usd=0.01).cost_usd == 0
        assert price_usd("another", 1e6, 0) == 1
        # At another address the same name may be sold: the question comes again, and its answer stands beside the first.
        monkeypatch.setenv("OPENAI_BASE_URL", service.base_url.replace("127.0.0.1", "localhost"))
        elsewhere = sj.plan_run(QUESTIONS, answers=ANSWERS, judge_model="gpt-4o-mini", logs_dir=tmp_path / "elsewhere")
        assert elsewhere.left.cost_usd is None
        monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
        assert ask_what_is_free(elsewhere, False).left.cost_usd == 0
