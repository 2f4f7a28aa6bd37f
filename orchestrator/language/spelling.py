"""Spelling: the known names at one slip of the hand from a word, found in an index of deletions."""

from collections.abc import Iterable

SHORTEST = 4
"""Letters of the shortest word that is corrected; below, one slip makes too many words of one another."""


class Speller:
    """Names, ready to be found by words that are one insertion, deletion, change or swap of neighbours away."""

    def __init__(self, names: Iterable[str]) -> None:
        self._named: dict[str, set[str]] = {}
        for name in names:
            if len(name) >= SHORTEST:
                for variant in _deletions(name):
                    self._named.setdefault(variant, set()).add(name)

    def near(self, word: str) -> list[str]:
        """The names one slip away, in alphabetical order; the cost does not grow with their number."""
        if len(word) < SHORTEST:
            return []
        found = {name for variant in _deletions(word) for name in self._named.get(variant, ())}
        return sorted(name for name in found if _one_slip(word, name))


def _deletions(word: str) -> set[str]:
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def _one_slip(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    a, b = one[start:], other[start:]
    if a[1:] == b[1:] or a == b[1:] or a[1:] == b:
        return True
    return len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0] and a[2:] == b[2:]
