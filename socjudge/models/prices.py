"""Compute what calls cost by socjudge.toml or a maintained table of list prices, and estimate it before."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from ..records import ModelRequest, Usage, is_embedded
from ..settings import last_good_project

# Measured on Japanese SOC text with OpenAI's o200k vocabulary, which would have to be downloaded.
TOKENS_PER_WIDE_CHARACTER = 0.73
TOKENS_PER_NARROW_CHARACTER = 0.3
# An average. Japanese has 4.1 with that vocabulary; vocabularies made for Japanese have about twice as much.
MAX_BYTES_PER_TOKEN = 16
LONG = 100_000  # tokens; the price of some models depends on the length of the text from here on


def price_key(model: str, address: str) -> str:
    """Return the name under which `[prices]` has what a model costs at one address alone."""
    return f"{model}@{address}" if address else model


def price_usd(
    model: str, input_tokens: float, output_tokens: float, at: str | None = None, *, by_anyone: bool = False
) -> float | None:
    """Return what a call costs in US dollars at an address (None: anywhere), by your own prices or lists; None if
    unknown. A list price is its seller's alone, unless `by_anyone` asks what another takes for such a model."""
    # Nobody can tell what a server behind another address costs, whatever its models are called.
    # For a name such as "anthropic:claude-…", the part after the provider is looked up too.
    names = dict.fromkeys((model, model.partition(":")[2] or model))
    own = last_good_project().prices  # US dollars per million tokens
    here = next((own[key] for name in names if at and (key := price_key(name, at)) in own), None)
    at = None if by_anyone else at
    mine = here or next((own[name] for name in names if name in own), None)
    if mine is not None and (mine is here or at is None or any(mine.values())):
        return (input_tokens * mine["input"] + output_tokens * mine["output"]) / 1e6
    seller = None if at is None else door_of(at)
    listed = (_list_price(name, seller, round(input_tokens), round(output_tokens)) for name in names)
    # A price of 0 says that a server of your own is free, and not the seller of a model of the same name.
    return next((price for price in listed if price is not None), None if mine is None else 0.0)


def door_of(address: str) -> str:
    """Return an address without its path, as the list of prices has those of sellers. "" if no seller can be there."""
    parts = urlsplit(address if "://" in address else f"https://{address}")
    return f"https://{parts.hostname}" if parts.scheme == "https" and parts.port in (None, 443) else ""


def most_usd_of(model: str, request: ModelRequest, at: str | None = None, *, by_anyone: bool = False) -> float | None:
    """Return the most that one call can cost in US dollars. None if unknown; `at`, `by_anyone`: as for `price_usd`.
    Each byte of the messages counts as a token. The reply counts as the longest that the request allows."""
    given = count_bytes(request.messages) + 20 * len(request.messages)
    return price_usd(model, given, request.max_output_tokens, at, by_anyone=by_anyone)


def usage_of(used: Mapping[str, Any], asked: str, answered: str, at: str, *, sent: int = 0, came: int = 0) -> Usage:
    """Return what one call consumed, read from `used`, the `usage` in the service's response.
    The cost is None if it has no valid counts, or fewer tokens than texts of `sent` and `came` bytes must have."""
    counted_in = _count(used.get("prompt_tokens", used.get("input_tokens")), sent)
    counted_out = _count(used.get("completion_tokens", used.get("output_tokens")), came)
    if counted_in is not None and counted_out is not None:
        counted_out = _count(_with_thoughts(used, counted_in, counted_out), 0)
    if counted_in is None or counted_out is None:
        return Usage(1, counted_in or 0, counted_out or 0, None)
    # The requested model's price comes first, because a gateway may answer under any name.
    costs = (price_usd(model, counted_in, counted_out, at) for model in (asked, answered))
    return Usage(1, counted_in, counted_out, next((cost for cost in costs if cost is not None), None))


def dearest_usd(usage: Usage, at: str, *models: str) -> float | None:
    """Return the call's cost, or its price under one of these models' names if that is higher. None if unknown."""
    if usage.cost_usd is None:
        return None
    prices = (price_usd(model, usage.input_tokens, usage.output_tokens, at, by_anyone=True) for model in models)
    return max(usage.cost_usd, *(price or 0.0 for price in prices))


def count_bytes(messages: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(message["content"].encode()) for message in messages)


def _count(told: Any, size: int) -> int | None:
    if type(told) is not int or not 0 <= told < 2**53:
        return None
    return told if told >= size / MAX_BYTES_PER_TOKEN else None


def _with_thoughts(used: Mapping[str, Any], counted_in: int, counted_out: int) -> int:
    """Add reasoning tokens, which are billed alike, but which some services count separately."""
    found = [counted_out]
    if type(total := used.get("total_tokens")) is int:
        found.append(total - counted_in)
    for name in ("completion_tokens_details", "output_tokens_details", "output_token_details"):
        details = used.get(name)
        for kind, told in details.items() if isinstance(details, Mapping) else ():
            if "reasoning" in kind and type(told) is int and told > counted_out:
                found.append(counted_out + told)
    return max(found)


def _list_price(model: str, seller: str | None, input_tokens: int, output_tokens: int) -> float | None:
    # Looking up a price takes as long as making the call, so prices per token are cached for a quarter of an hour,
    # because some depend on the time of day.
    length = input_tokens if input_tokens > LONG else 1000
    per_token = _prices_per_token(model, seller, length, int(time.time() // 900))
    return None if per_token is None else float(per_token[0] * input_tokens + per_token[1] * output_tokens)


@functools.lru_cache(maxsize=256)
def _prices_per_token(model: str, seller: str | None, length: int, quarter: int) -> tuple[Decimal, Decimal] | None:
    given, both = (_look_up(model, seller, length, written) for written in (0, 1000))
    return None if given is None or both is None else (given / length, (both - given) / 1000)


def _look_up(model: str, seller: str | None, input_tokens: int, output_tokens: int) -> Decimal | None:
    if seller == "" or is_embedded(model):
        return None
    import genai_prices  # takes a tenth of a second

    usage = genai_prices.Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    try:
        found = genai_prices.calc_price(usage, model_ref=model, provider_api_url=seller)
    except (LookupError, ValueError):
        return None
    # The list compares beginnings alone. At Azure, the name is that of the user's own deployment, of any model.
    is_theirs = seller is None or re.fullmatch(found.provider.api_pattern, seller)
    return found.total_price if is_theirs and (seller is None or found.provider.id != "azure") else None


def estimate_tokens(text: str) -> int:
    wide = (
        len(text.encode(errors="replace")) - len(text)
    ) / 2  # a wide character has three bytes, a narrow one has one
    return round(wide * TOKENS_PER_WIDE_CHARACTER + (len(text) - wide) * TOKENS_PER_NARROW_CHARACTER)
