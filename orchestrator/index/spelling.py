"""Spelling: a word of a task that nobody uses is read as the one word of the catalogue that is one slip away."""

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from rapidfuzz.distance.OSA import distance

from orchestrator.index.text import stem

SHORTEST, LONGEST = 5, 30
"""Letters of a word that is corrected: one slip makes too many shorter words of one another."""
MOST = 12
"""Unknown words of a task that are looked at; a text with more is in a language that the catalogue is not in."""


def nearest(word: str, known: Iterable[str]) -> Sequence[str]:
    """Return the known words one insertion, deletion, change or swap of neighbours away, at most five."""
    return [other for other in known if distance(word, other, score_cutoff=1) <= 1][:5]


def corrections(words: Iterable[str], known: Container[str]) -> dict[str, str]:
    """Return each misspelt word, in lower case, with the one word of the catalogue that it may be.

    known: the catalogue's stems. A word that the shipped embedding model knows is no slip, whatever the catalogue says.
    """
    found: dict[str, str] = {}
    for word in [word for word in dict.fromkeys(words) if _may_be_slip(word) and stem(word) not in known][:MOST]:
        alike = (other for size in (-1, 0, 1) for other in _by_shape().get((word[0], len(word) + size), ()))
        near = nearest(word, (other for other in alike if stem(other) in known))
        if len({stem(other) for other in near}) == 1:
            found[word] = near[0]
    return found


def _may_be_slip(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha() and word not in vocabulary()


@cache
def vocabulary() -> frozenset[str]:
    """Return the whole words that the shipped embedding model knows."""
    text = (files("orchestrator") / "data" / "embedder" / "tokenizer.json").read_text(encoding="utf-8")
    return frozenset(word for word in json.loads(text)["model"]["vocab"] if not word.startswith("##"))


@cache
def _by_shape() -> Mapping[tuple[str, int], Sequence[str]]:
    """Return the vocabulary by first letter and length."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for word in sorted(vocabulary()):
        found[word[0], len(word)].append(word)
    return found
