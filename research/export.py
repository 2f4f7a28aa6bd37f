"""Writing the model in model2vec's folder format: int8 rows, their scales in `weights`."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from research.sources import NO_TOOL

CONFIG = {
    "model_type": "model2vec",
    "architectures": ["StaticModel"],
    "tokenizer_name": "toolroute-static",
    "apply_pca": False,
    "normalize": True,
    "hidden_dim": 256,
    "seq_length": 512,
    "max_length": 512,
    "embedding_dtype": "int8",
    "no_tool": NO_TOOL,
}


def quantised(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """matrix [V, D] -> int8 rows [V, D] and the scale of each row [V], float32."""
    scale = np.abs(matrix).max(1) / 127
    rows = np.rint(matrix / np.where(scale > 0, scale, 1)[:, None]).astype(np.int8)
    return rows, scale.astype(np.float32)


def write(folder: Path, tokenizer: Tokenizer, matrix: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    embeddings, weights = quantised(matrix)
    save_file({"embeddings": embeddings, "weights": weights}, folder / "model.safetensors")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
