"""The lexicon: example questions by intent and synonyms, both data that a user can edit."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter
from rapidfuzz import fuzz, process

from orchestrator.common.json_input import read_json, reading
from orchestrator.errors import InvalidConfig
from orchestrator.index.embed import Embedder, Vectors, vectors_of
from orchestrator.records.about import GENERAL

NEAR = 0.55
"""The least likeness to an example that tells an intent (docs/decisions.md)."""
_FILE = TypeAdapter(dict[str, tuple[str, ...]])


class Lexicon:
    """Reads the files of the options when they are first needed; without them the shipped examples, and no synonyms."""

    def __init__(self, intents: str, synonyms: str, embedder: Callable[[], Embedder]) -> None:
        self._intents, self._synonyms, self._embedder = intents, synonyms, embedder

    @cached_property
    def synonyms(self) -> Mapping[str, tuple[str, ...]]:
        """The synonyms of words, in lower case."""
        return {word.lower(): own for word, own in _read(self._synonyms).items()} if self._synonyms else {}

    def intent(self, question: str, among: Collection[str]) -> str:
        """Return which of these intents a question has, without the names in it; `general` where none is near."""
        intents, texts, vectors = self._examples
        said = question.lower()
        cosines = vectors @ vectors_of(self._embedder(), [said])[0]
        by_words = process.cdist([said], texts, scorer=fuzz.token_sort_ratio)[0] / 100
        allowed = np.isin(intents, [*among, GENERAL])
        likeness = np.where(allowed, (cosines + by_words) / 2, -1)
        best = int(np.argmax(likeness))
        return intents[best] if likeness[best] >= NEAR else GENERAL

    @cached_property
    def _examples(self) -> tuple[list[str], list[str], Vectors]:
        """Each example's intent, its text without the name X, and its vector."""
        shipped = str(files("orchestrator") / "data" / "intents.json")
        known, given = _read(shipped), _read(self._intents or shipped)
        if unknown := sorted(given.keys() - known.keys()):
            raise InvalidConfig(f"{self._intents!r}: {unknown[0]!r} is no intent: give {', '.join(known)}")
        examples = [(intent, text) for intent, own in given.items() for text in own]
        if not examples:
            raise InvalidConfig(f"{self._intents!r} holds no example: give at least one question of any intent")
        texts = [" ".join(word for word in text.split() if word != "X").lower() for _, text in examples]
        return [intent for intent, _ in examples], texts, vectors_of(self._embedder(), texts)


def _read(file: str) -> Mapping[str, tuple[str, ...]]:
    with reading(file, 'give {"name": ["text", ...]}', InvalidConfig):
        return _FILE.validate_python(read_json(Path(file).read_text(encoding="utf-8")), strict=False)
