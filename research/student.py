"""The student before training: a vector per token from the teacher, in the teacher's own sentence space."""

import numpy as np
from tokenizers import Tokenizer

from research.bags import bags
from research.teacher import Teacher

DIMENSIONS = 256
SPECIAL = 2  # [PAD], [UNK]: zero vectors


def projection(sentences: np.ndarray) -> np.ndarray:
    """The first principal directions of the teacher's sentence vectors [N, 384] -> [384, 256]."""
    sample = sentences.astype(np.float32)
    values, vectors = np.linalg.eigh(sample.T @ sample / len(sample))
    return np.ascontiguousarray(vectors[:, np.argsort(values)[::-1][:DIMENSIONS]]).astype(
        np.float32
    )


def initial(
    tokenizer: Tokenizer, teacher: Teacher, project: np.ndarray, corpus: list[str]
) -> np.ndarray:
    """Return [V, 256]: every token's teacher embedding, projected. Rare tokens have a higher weight (smooth inverse
    frequency).

    Args:
        tokenizer: The tokenizer.
        teacher: The teacher model.
        project: The projection.
        corpus: The texts for counting tokens.
    """
    tokens = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    matrix = (
        teacher.embed([token.removeprefix("##") for token in tokens]).astype(np.float32) @ project
    )
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-6)
    frequency = np.asarray(bags(corpus, tokenizer).sum(0)).ravel() + 1
    frequency /= frequency.sum()
    matrix *= (1e-3 / (1e-3 + frequency))[:, None]
    matrix[:SPECIAL] = 0
    return matrix
