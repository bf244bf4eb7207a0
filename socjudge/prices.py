"""What calls cost: a kept table of list prices, and estimates before any call is made."""

from __future__ import annotations

import unicodedata

# Measured on Japanese SOC text with OpenAI's o200k vocabulary; the vocabulary itself is a download.
TOKENS_PER_WIDE_CHARACTER = 0.73
TOKENS_PER_NARROW_CHARACTER = 0.3


def price_usd(model: str, input_tokens: float, output_tokens: float) -> float | None:
    """List price of one call in US dollars, or None where the table does not know the model.

    The table is the snapshot inside the installed `genai-prices`: nothing is fetched."""
    import genai_prices

    usage = genai_prices.Usage(input_tokens=round(input_tokens), output_tokens=round(output_tokens))
    try:
        return float(genai_prices.calc_price(usage, model_ref=model).total_price)
    except (LookupError, ValueError):
        return None


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, without a vocabulary."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return round(wide * TOKENS_PER_WIDE_CHARACTER + (len(text) - wide) * TOKENS_PER_NARROW_CHARACTER)
