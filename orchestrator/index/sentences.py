"""Sentences: how much of a request a single sentence of a tool has, in the same order.

Descriptions have examples of requests, such as "Use when the user asks who edited a page". No word of such an example
is rare, and words like "who" are not indexed at all, but their order tells much:

    request     who edit the privaci polici                a b c d e
    sentence    use when the user ask who edit a page      c a b          a b: 2 of 5 words
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from orchestrator.index.text import described, named, plain_stems, spaced, stop_stems
from orchestrator.records.tool import Tool

MAX_SENTENCES, MAX_CHARS, MAX_WORDS = 16, 1_000, 60
"""The part of a description, and of a request, that is read. Examples of requests stand at the beginning."""
_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FIRST_LETTER = ord("a")


class Sentences(NamedTuple):
    """A tool's sentences.

    Attributes:
        stems: The stems of each sentence, separated by spaces, which takes a tenth of the memory of a list.
        length: The logarithm of the number of words.
    """

    stems: tuple[str, ...]
    length: float


def sentences_of(tool: Tool) -> Sentences:
    """Return the sentences of a tool's description, and the words of its name and title as the last one."""
    text = described(tool)[:MAX_CHARS]
    sentences = [*_END.split(text)[:MAX_SENTENCES], spaced(named(tool))]
    return Sentences(
        stems=tuple(" ".join(plain_stems(sentence)) for sentence in sentences),
        length=math.log1p(len(text.split())),
    )


def ordered_shares(request: str, tools: Sequence[Sentences]) -> NDArray[np.float64]:
    """Return the greatest share of a request in one sentence of each tool, in the same order [tools, 2].

    The first column is the share of all words, the second one that of the words that are no stop words. A name has no
    stop words, so in the first column it counts as if it had those of the request: "add a note" is all in `add_note`.

    Args:
        request: The request.
        tools: The sentences of each tool.
    """
    words = plain_stems(request)[:MAX_WORDS]
    letters = _letter_of_each(words)
    stop_letters = {ord(letters[word]): None for word in letters.keys() & stop_stems()}
    written = _letters(words, letters)
    contents = written.translate(stop_letters)
    shares = np.zeros((len(tools), 3))
    for row, sentences in enumerate(tools):
        spelt = [_letters(sentence.split(), letters) for sentence in sentences.stems]
        contained = [sentence.translate(stop_letters) for sentence in spelt]
        shares[row] = (
            _longest(written, set(spelt)),
            _longest(contents, set(contained)),
            _longest(contents, {contained[-1]}),
        )
    asked = max(len(written), 1)
    asked_contents = max(len(contents), 1)
    shares /= [asked, asked_contents, asked_contents]
    sentence, content, name = shares.T
    return np.column_stack([np.maximum(sentence, name), content])


def _letter_of_each(words: Sequence[str]) -> dict[str, str]:
    unique = dict.fromkeys(words)
    return {word: chr(_FIRST_LETTER + number) for number, word in enumerate(unique)}


def _letters(words: Sequence[str], letters: dict[str, str]) -> str:
    """Return one letter for each of the words that has one, because strings are compared much faster than lists."""
    return "".join([letters[word] for word in words if word in letters])


def _longest(written: str, sentences: set[str]) -> int:
    """Return the length of the longest common subsequence with one of the sentences."""
    longest = 0
    for sentence in sentences:
        if len(sentence) > longest:
            longest = max(longest, LCSseq.similarity(written, sentence))
    return longest
