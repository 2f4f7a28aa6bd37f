"""Embedders: text to unit vectors. The shipped static model, a model2vec folder, or an OpenAI-compatible endpoint."""

import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import EmbedderUnavailable, InvalidConfig, Unauthorised
from orchestrator.options import Options, model_key

Vectors = NDArray[np.float32]
"""Shape [texts, dimension]; every row has length 1, or is zero where the text holds nothing known."""

_BATCH = 512
_MAX_CHARS = 8_000


class Embedder(Protocol):
    """Turns texts into vectors that are compared by their dot product.

    `id` changes whenever the vectors would; `remote` embedders are called in a thread, with a deadline.
    """

    id: str
    dimension: int
    remote: bool

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; raises EmbedderUnavailable when it cannot answer now."""
        ...


def embedder_for(options: Options) -> Embedder:
    """The embedder that `options.embedder` names: `static`, `openai:MODEL`, or a model2vec folder."""
    name = options.embedder
    if name == "static":
        return StaticEmbedder(Path(str(files("orchestrator") / "data" / "embedder")))
    if name.startswith("openai:"):
        return OpenAIEmbedder(name.removeprefix("openai:"), base_url=options.model_url, api_key=model_key())
    if Path(name).is_dir():
        return StaticEmbedder(Path(name))
    raise InvalidConfig(f"embedder {name!r}: give `static`, `openai:MODEL`, or a model2vec folder that exists")


def unit(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


class StaticEmbedder:
    """A static model in model2vec's folder format: a vector a token, weighted, summed, scaled to length 1.

    Opened on first use; a query takes about 0.1 ms and no network.
    """

    remote = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            digest = hashlib.sha256((folder / "model.safetensors").read_bytes())
        except (OSError, json.JSONDecodeError) as error:
            raise InvalidConfig(f"{folder} is no model2vec folder ({error}): it needs config.json, tokenizer.json "
                                "and model.safetensors") from None  # fmt: skip
        self.id = f"static-{digest.hexdigest()[:12]}"
        self._load()

    def _load(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        tensors = load_file(self._folder / "model.safetensors")
        self._rows: NDArray[Any] = tensors["embeddings"]
        self._weights: NDArray[np.float32] | None = tensors.get("weights")
        self._mapping: NDArray[Any] | None = tensors.get("mapping")
        self._tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        unknown = self._tokenizer.token_to_id("[UNK]")
        self._unknown = -1 if unknown is None else unknown
        self.dimension = int(self._rows.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [text[:_MAX_CHARS] for text in texts[start : start + _BATCH]]
            for row, encoding in enumerate(self._tokenizer.encode_batch_fast(batch, add_special_tokens=False), start):
                vectors[row] = self._pool(encoding.ids)
        return unit(vectors)

    def _pool(self, token_ids: list[int]) -> NDArray[np.float32]:
        """The weighted sum of the tokens' vectors; unknown tokens say nothing."""
        ids = np.array([token for token in token_ids if token != self._unknown], np.int64)
        rows = self._rows[ids if self._mapping is None else self._mapping[ids]].astype(np.float32)
        if self._weights is None:
            return np.asarray(rows.sum(axis=0), np.float32)
        return np.asarray(self._weights[ids].astype(np.float32) @ rows, np.float32)


class OpenAIEmbedder:
    """Any endpoint that speaks OpenAI's embeddings protocol. The dimension is learnt from the first answer."""

    remote = True

    def __init__(self, model: str, *, base_url: str = "", api_key: str | None = None, timeout_s: float = 30.0) -> None:
        if not model:
            raise InvalidConfig("embedder 'openai:': name the model, e.g. openai:text-embedding-3-small")
        self.model, self.dimension = model, 0
        self.id = f"openai-{model}"
        self._settings = {"base_url": base_url or None, "api_key": api_key or "none", "timeout": timeout_s}
        self._client: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        return unit(np.concatenate([self._batch(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]))

    def _batch(self, texts: Sequence[str]) -> Vectors:
        import openai

        if self._client is None:
            self._client = openai.OpenAI(max_retries=0, **self._settings)
        try:
            answer = self._client.embeddings.create(model=self.model, input=[t[:_MAX_CHARS] or " " for t in texts])
            vectors = np.array([item.embedding for item in sorted(answer.data, key=lambda i: i.index)], np.float32)
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise Unauthorised(f"the embedding endpoint refused the key (HTTP {error.status_code})") from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            raise EmbedderUnavailable(
                f"embedding model {self.model!r} did not answer: {type(error).__name__}"
            ) from None
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: Vectors, expected: int) -> Vectors:
        if vectors.ndim != 2 or len(vectors) != expected:
            raise EmbedderUnavailable(f"embedding model {self.model!r} answered {vectors.shape} for {expected} texts")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise EmbedderUnavailable(
                f"embedding model {self.model!r} answered {vectors.shape[1]} dimensions after {self.dimension}"
            )
        if not np.isfinite(vectors).all():
            raise EmbedderUnavailable(f"embedding model {self.model!r} answered numbers that are not finite")
        self.dimension = int(vectors.shape[1])
        return vectors
