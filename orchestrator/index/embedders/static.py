"""The static embedder: a model2vec folder, such as the shipped model. It adds up one vector for each token."""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.embedder import Vectors, unit
from orchestrator.index.embedders.tokenizer import tokenizer_of

FILES = ("config.json", "model.safetensors", "tokenizer.json")
"""The files that a model2vec folder needs."""
_CONTRAST = "contrast.npy"
"""The file of the contrast matrix in a model's folder. It is optional, and `python -m research.contrast` makes it."""
_CONTINUING = re.compile(rb'"##(?:[^"\\]|\\.)+": *(\d+)')
"""The entry of a token that continues a word, in the JSON of a WordPiece vocabulary. To decode the whole JSON takes a
new process 20 ms."""
_WORD = re.compile(r"(?<![A-Za-z0-9_])[^\W\d_]+(?![A-Za-z0-9_])")
"""Letters that are not part of an identifier. Identifiers are split into pieces in any language."""
_BATCH = 512
_FEW = 8
_MOST_KNOWN, _LONGEST_KNOWN = 50_000, 60
"""The number of words whose tokens are cached, and the maximum number of characters of such a word."""
_MAX_CHARS = 8_000


def read_model(folder: Path) -> tuple[bytes, bytes]:
    """Return the files of a static model's vectors and of its tokenizer."""
    return (folder / "model.safetensors").read_bytes(), (folder / "tokenizer.json").read_bytes()


def _read_contrast(folder: Path) -> NDArray[np.float32] | None:
    file = folder / _CONTRAST
    if not file.exists():
        return None
    return np.asarray(np.load(file, allow_pickle=False), np.float32)


def static_id(model: bytes, tokenizer: bytes) -> str:
    """Return the id of the static embedder with these two files."""
    # The last part names the way in which `embed_tools` reads a tool, because the stored vectors depend on it.
    digest = hashlib.sha256(model)
    digest.update(tokenizer)
    return f"static-{digest.hexdigest()[:12]}-facets"


class StaticEmbedder:
    """A static model in model2vec's folder format: the weighted sum of a vector per token, scaled to length 1.

    It opens on first use. A query takes about 0.1 ms and no network.

    Attributes:
        no_tool: The embedding of requests that need no tool [dimension], or None if its config.json has no such text.
        contrast: The matrix that tells the tools of one server apart: `query @ contrast @ tool` is the log-odds of a
            tool among its sisters, up to a constant [dimension, dimension]. None if the folder has no `contrast.npy`.
    """

    remote = False

    def __init__(self, folder: Path) -> None:
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            model, tokenizer = read_model(folder)
            self._load(model, tokenizer)
            self.contrast = _read_contrast(folder)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise InvalidConfig(
                f"{folder} is not a model2vec folder ({error}): it needs {', '.join(FILES)}"
            ) from None
        talk = config.get("no_tool") if isinstance(config, dict) else None
        self.no_tool = unit(self._pool(self._cut(talk))[None])[0] if isinstance(talk, str) else None
        self.id = static_id(model, tokenizer)

    def _load(self, model: bytes, tokenizer: bytes) -> None:
        from safetensors.numpy import load

        tensors = load(model)
        self._rows: NDArray[Any] = tensors["embeddings"]
        self._weights: NDArray[np.float32] | None = tensors.get("weights")
        self._mapping: NDArray[Any] | None = tensors.get("mapping")
        self._tokenizer = tokenizer_of(tokenizer)
        self._definition = tokenizer
        # A tokenizer without this token cuts its text into several.
        unknown = self._tokenizer.encode("[UNK]", True)
        self._unknown = unknown[0] if len(unknown) == 1 else -1
        self._by_word = b'"BertPreTokenizer"' in tokenizer
        self._ids_of_word: dict[str, list[int]] = {}
        self.dimension = int(self._rows.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [text[:_MAX_CHARS] for text in texts[start : start + _BATCH]]
            for row, ids in enumerate(self._ids(batch), start):
                vectors[row] = self._pool(ids)
        return unit(vectors)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text."""
        if len(texts) > _FEW:
            return self._tokenizer.encode_all(list(texts), True)
        cut = self._words if self._by_word else self._cut
        return [cut(text) for text in texts]

    def unfamiliar(self, text: str) -> float:
        """Return the share of the tokens of a text's words that are unknown or only continue a word, 0 to 1.

        The tokenizer knows most words of its training languages. The share is .03 to .08 in English requests, and .3 to
        .6 in languages that it splits into pieces. In scripts that it does not have, it is .8.
        """
        words = " ".join(_WORD.findall(text[:_MAX_CHARS]))
        (ids,) = self._ids([words])
        strange = [token for token in ids if token in self._strange]
        return len(strange) / max(len(ids), 1)

    @cached_property
    def _strange(self) -> frozenset[int]:
        """The tokens that only continue a word, and the unknown token."""
        numbers = _CONTINUING.findall(self._definition)
        return frozenset([*map(int, numbers), self._unknown])

    def _cut(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, True)

    def _words(self, text: str) -> list[int]:
        """Split a text at spaces, as the tokenizer itself does first, so that each word is tokenized only once."""
        if len(self._ids_of_word) > _MOST_KNOWN:
            self._ids_of_word.clear()
        ids: list[int] = []
        for word in text.split(" "):
            word_ids = self._ids_of_word.get(word)
            if word_ids is None:
                word_ids = self._cut(word)
                if len(word) <= _LONGEST_KNOWN:
                    self._ids_of_word[word] = word_ids
            ids += word_ids
        return ids

    def _pool(self, token_ids: list[int]) -> NDArray[np.float32]:
        """Return the weighted sum of the tokens' vectors. Unknown tokens are ignored."""
        ids = np.array([token for token in token_ids if token != self._unknown], np.int64)
        numbers = ids if self._mapping is None else self._mapping[ids]
        rows = self._rows[numbers].astype(np.float32)
        if self._weights is None:
            return np.asarray(rows.sum(axis=0), np.float32)
        return np.asarray(self._weights[ids].astype(np.float32) @ rows, np.float32)
