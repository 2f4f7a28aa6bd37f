"""Texts as bags of tokens: a sparse count matrix, so that pooling is one sparse product."""

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from tokenizers import Tokenizer

UNKNOWN_ID = 1


class TextTable:
    """Numbers texts as they are added. `bags` returns all of them as a CSR matrix [N, V] of token counts, float32."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number: dict[str, int] = {}

    def add(self, text: str) -> int:
        number = self._number.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def add_all(self, texts: Iterable[str]) -> np.ndarray:
        return np.array([self.add(text) for text in texts], np.int64)

    def bags(self, tokenizer: Tokenizer) -> sparse.csr_matrix:
        return bags(self.texts, tokenizer)


def bags(texts: list[str], tokenizer: Tokenizer) -> sparse.csr_matrix:
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
    ids = [row[row != UNKNOWN_ID] for row in ids]
    ends = np.cumsum([0, *map(len, ids)])
    columns = np.concatenate(ids) if ids else np.zeros(0, np.int32)
    shape = (len(texts), tokenizer.get_vocab_size())
    return sparse.csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape)
