"""The reader: a small cross-encoder that reads a request and a tool together, in numpy.

`models/reader` of the repository has the weights. They come from all-MiniLM-L6-v2 (Apache-2.0) and were trained on the
scores that a language model gave to tools (docs/decisions/ranking.md). A row of a weight is bytes with one factor.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from orchestrator.common.arrays import Mask
from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.tokenizer import tokenizer_of
from orchestrator.index.text import spaced
from orchestrator.records.tool import Tool

LAYERS, APART, HEADS = 6, 3, 12
"""The first APART layers read the request and the tool alone. The others read both together."""
MOST_ASKED, MOST_TOOL = 42, 60
"""The maximum number of tokens of a request, and of a tool."""
KEPT = 500
"""The number of tools whose states after the first APART layers are kept, each at most 46 kB."""
MOST_CHARS = 220
"""The number of a description's characters that are read."""

Floats = NDArray[np.float32]


def text_of(tool: Tool) -> str:
    """Return the text of a tool for the reader: its server, its name and the beginning of its description."""
    words = " ".join(tool.description.split())
    return f"{spaced(tool.server)} {spaced(tool.name)}: {words[:MOST_CHARS]}".lower()


_PARTS = ("reader.safetensors", "tokenizer.json")


def missing_parts(folder: str | Path) -> list[str]:
    """Return the files that a folder lacks to be a reader."""
    return [name for name in _PARTS if not (Path(folder) / name).is_file()]


@cache
def reader_at(folder: str) -> "Reader":
    """Return the process's reader of a folder. Opened twice, it would take its memory twice."""
    return Reader(folder)


class Reader:
    """Scores how well a tool fits a request. It is opened once and may be used by several threads.

    Args:
        folder: A folder with `reader.safetensors` and `tokenizer.json`.

    Raises:
        InvalidConfig: The folder is no reader.
    """

    def __init__(self, folder: str | Path) -> None:
        from safetensors.numpy import load_file

        folder = Path(folder)
        try:
            stored = load_file(folder / "reader.safetensors")
            self._tokenizer = tokenizer_of((folder / "tokenizer.json").read_bytes())
            self._words = stored.pop("word.weight")
            self._factors = stored.pop("word.scale")
            self._weights = _restored(stored)
            self._start, self._end = self._tokenizer.encode("[CLS][SEP]", True)
            self._tool_states = lru_cache(KEPT)(self._read_tool)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise InvalidConfig(
                f"{folder} is no reader ({error}): give a folder with reader.safetensors and tokenizer.json"
            ) from None

    def scores(self, request: str, tools: Sequence[Tool]) -> Floats:
        """Return a score for each tool. Only differences between tools of the same request have a meaning [tools]."""
        with _one_thread():
            return self._scores(request, tools)

    def _scores(self, request: str, tools: Sequence[Tool]) -> Floats:
        # Each row has the request, then a tool, then nothing up to the length of the longest tool.
        request_states = self._alone(request, MOST_ASKED)
        states_of_tools = [self._tool_states(text_of(tool)) for tool in tools]
        middle, dimension = request_states.shape
        longest = max(map(len, states_of_tools))
        states = np.zeros((len(tools), middle + longest, dimension), np.float32)
        states[:, :middle] = request_states
        mask = np.zeros(states.shape[:2], np.bool_)
        mask[:, :middle] = True
        for row, of_tool in enumerate(states_of_tools):
            end = middle + len(of_tool)
            states[row, middle:end] = of_tool
            mask[row, middle:end] = True
        for number in range(APART, LAYERS):
            states = self._layer(number, states, mask)
        of_request = states[:, :middle].mean(axis=1)
        of_tools = _mean(states[:, middle:], mask[:, middle:])
        return self._head(of_request, of_tools)

    def _read_tool(self, text: str) -> NDArray[np.float16]:
        # They do not depend on the request, so they are kept for the next one.
        return self._alone(text, MOST_TOOL).astype(np.float16)

    def _alone(self, text: str, most: int) -> Floats:
        """Return the states of a text that is read alone [tokens, dimension]."""
        # A half of a surrogate pair has no bytes.
        written = text.encode("utf-8", "replace").decode()
        tokens = self._tokenizer.encode(written, False)
        ids = [self._start, *tokens[: most - 2], self._end]
        factors = self._factors[ids]
        words = self._words[ids] * factors[..., None]
        positions = self._weights["pos.weight"][: len(ids)]
        states = self._norm("norm", words + positions)[None]
        mask = np.ones(states.shape[:2], np.bool_)
        for number in range(APART):
            states = self._layer(number, states, mask)
        return np.asarray(states[0], np.float32)

    def _layer(self, number: int, states: Floats, mask: Mask) -> Floats:
        name = f"layers.{number}"
        states = self._norm(f"{name}.n1", states + self._attention(name, states, mask))
        inner = _gelu(self._dense(f"{name}.i", states))
        return self._norm(f"{name}.n2", states + self._dense(f"{name}.u", inner))

    def _attention(self, name: str, states: Floats, mask: Mask) -> Floats:
        texts, tokens, dimension = states.shape
        mixed = self._dense(f"{name}.qkv", states)
        # [query key value, texts, heads, tokens, dimension of a head]
        by_head = mixed.reshape(texts, tokens, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        query, key, value = by_head
        scale = np.float32(sqrt(dimension / HEADS))
        weights = query @ key.swapaxes(-1, -2) / scale
        # A token that is not there gets no attention.
        penalty = np.where(mask, np.float32(0), np.float32(-1e4))
        weights += penalty[:, None, None, :]
        of_heads = _softmax(weights) @ value
        together = of_heads.swapaxes(1, 2).reshape(states.shape)
        return self._dense(f"{name}.o", together)

    def _head(self, request: Floats, tools: Floats) -> Floats:
        lengths = np.linalg.norm(request, axis=1) * np.linalg.norm(tools, axis=1)
        cosines = (request * tools).sum(axis=1) / lengths
        both = np.concatenate([request * tools, np.abs(request - tools)], axis=1)
        further = self._dense("head.2", _gelu(self._dense("head.0", both)))[:, 0]
        return np.asarray(self._weights["scale"] * cosines + further, np.float32)

    def _dense(self, name: str, states: Floats) -> Floats:
        flat = states.reshape(-1, states.shape[-1]) @ self._weights[f"{name}.weight"].T
        flat += self._weights[f"{name}.bias"]
        return np.asarray(flat.reshape(*states.shape[:-1], -1), np.float32)

    def _norm(self, name: str, states: Floats) -> Floats:
        centred = states - states.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        scaled = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return np.asarray(scaled, np.float32)


def _one_thread() -> AbstractContextManager[object]:
    """Keep BLAS to one thread, if threadpoolctl is installed. More threads spin while they wait (twice the CPU)."""
    pools = _thread_pools()
    return nullcontext() if pools is None else pools.limit(limits=1, user_api="blas")


@cache
def _thread_pools() -> Any:
    try:
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None


def _restored(stored: Mapping[str, NDArray[np.generic]]) -> dict[str, Floats]:
    """Return the weights as floats."""
    restored = {name: tensor.astype(np.float32) for name, tensor in stored.items()}
    for name in restored:
        layer, _, kind = name.rpartition(".")
        if kind == "weight" and f"{layer}.scale" in restored:
            restored[name] = restored[name] * restored[f"{layer}.scale"][:, None]
    return restored


def _mean(states: Floats, mask: Mask) -> Floats:
    """Return the mean over the tokens that are there [texts, dimension]."""
    total = (states * mask[..., None]).sum(axis=1)
    return np.asarray(total / mask.sum(axis=1, keepdims=True), np.float32)


def _gelu(values: Floats) -> Floats:
    inner = values + np.float32(0.044715) * values * values * values
    return np.asarray(values * (1 + np.tanh(np.float32(0.7978846) * inner)) / 2, np.float32)


def _softmax(weights: Floats) -> Floats:
    """Return the weights as shares of each row."""
    powers = np.exp(weights - weights.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return np.asarray(powers, np.float32)
