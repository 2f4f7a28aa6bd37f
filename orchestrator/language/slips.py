"""Slips of the hand in a query: a word that nobody uses is read as the catalogue's word that is one slip away.

Only a word that neither the catalogue nor the shipped model's vocabulary has: "plants" stays plants, where tools speak
of plans. What it gives: `python -m benchmarks.slips`.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping
from functools import cache
from importlib.resources import files
from string import ascii_lowercase

from orchestrator.index.text import stem
from orchestrator.language.words import MAX_CUT

SHORTEST = 5
"""Letters of the shortest word that is corrected; one slip makes too many shorter words of one another."""
LONGEST = 30
"""Letters of the longest one: what is longer is no word, and what is one slip away from it grows with its square."""
MOST = 12
"""Words of a query that are looked at; a text with more unknown ones is in a language that the catalogue is not in."""

_WORD = re.compile(rf"(?<![\w@./'’\"“-])[A-Za-z][a-z]{{{SHORTEST - 1},}}(?![\w@/\"”-]|\.\w|['’](?!s\b))")


def may_be_slip(word: str) -> bool:
    """Whether a word in lower case is one that nobody uses."""
    return SHORTEST <= len(word) <= LONGEST and word not in vocabulary()


def slips(text: str, known: Container[str]) -> dict[str, str]:
    """Each misspelt word of a query, in lower case, to the one meant. `known`: the catalogue's stemmed terms."""
    unknown = dict.fromkeys(word for word in _words(text[:MAX_CUT]) if (own := stem(word)) and own not in known)
    odd = list(filter(may_be_slip, unknown))
    found = {word: _meant(word, known) for word in odd[:MOST]}
    return {word: right for word, right in found.items() if right}


def respelt(text: str, read: Mapping[str, str]) -> str:
    """The text with its misspelt words as they are meant."""
    return _WORD.sub(lambda found: read.get(found.group().lower(), found.group()), text) if read else text


def _words(text: str) -> Iterator[str]:
    """The words that may be misspelt: no names, identifiers, addresses or quoted texts."""
    for found in _WORD.finditer(text):
        word = found.group()
        if word.islower() or not text[: found.start()].strip():
            yield word.lower()


def _meant(word: str, known: Container[str]) -> str:
    """The catalogue's word one slip away, "" where there is none or more than one.

    Two neighbours swapped are the likeliest slip: of the real words near, the only one that they make is meant. An
    unlikely slip is none in a short word, nor beside a real word that no tool says ("pasted", between "posted" and
    "passed").
    """
    real_words = vocabulary()
    near = [near for near in _one_slip_away(word) if near in real_words or near in known]
    swapped = [near for near in near if near in real_words and sorted(near) == sorted(word)]
    near = swapped if len(swapped) == 1 else near
    meant = {near: own for near in near if (own := stem(near)) in known}
    real = {near: own for near, own in meant.items() if near in real_words} or meant
    if len(set(real.values())) != 1:
        return ""
    if any(_is_likely(word, near) for near in real):
        return min(real)
    others = any(near in real_words and near not in meant and stem(near) for near in near)
    return "" if others or len(word) <= SHORTEST else min(real)


def _is_likely(word: str, meant: str) -> bool:
    """Whether a letter was left out, struck twice or swapped with its neighbour, and no other struck in its place."""
    if len(meant) > len(word) or sorted(meant) == sorted(word):
        return True
    twice = (place for place in range(1, len(word)) if word[place - 1] == word[place])
    return any(word[:place] + word[place + 1 :] == meant for place in twice)


def _one_slip_away(word: str) -> set[str]:
    """What one insertion, deletion, change or swap of neighbours makes of this word; its first letter stays."""
    found: set[str] = set()
    for place in range(1, len(word) + 1):
        before, after = word[:place], word[place:]
        found.update(before + letter + after for letter in ascii_lowercase)
        if after:
            found.add(before + after[1:])
            found.update(before + letter + after[1:] for letter in ascii_lowercase)
        if len(after) > 1:
            found.add(before + after[1] + after[0] + after[2:])
    return found - {word}


@cache
def vocabulary() -> frozenset[str]:
    """The whole words that the shipped embedding model knows."""
    text = (files("orchestrator") / "data" / "embedder" / "tokenizer.json").read_text(encoding="utf-8")
    return frozenset(word for word in json.loads(text)["model"]["vocab"] if not word.startswith("##"))
