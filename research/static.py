"""The exported model with numpy only, as used by the measurements."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from research.bags import bags
from research.losses import unit


class StaticEmbedder:
    """Returns unit vectors [N, 256], float32. A text without known tokens gets the zero vector."""

    def __init__(self, tokenizer: Tokenizer, matrix: np.ndarray) -> None:
        self._tokenizer, self._matrix = tokenizer, matrix

    @classmethod
    def load(cls, folder: Path) -> "StaticEmbedder":
        tensors = load_file(folder / "model.safetensors")
        matrix = tensors["embeddings"].astype(np.float32) * tensors["weights"][:, None]
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")), matrix)

    def embed(self, texts: list[str]) -> np.ndarray:
        return unit(np.asarray(bags(texts, self._tokenizer) @ self._matrix))[0]
