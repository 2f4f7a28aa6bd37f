"""Sentences: how much of a request a single sentence of a tool has, and the order of the best candidates by it.

Descriptions have examples of requests, such as "Use when the user asks who edited a page". No word of such an example
is rare, and words like "who" are not indexed at all, but their order is good evidence:

    request     who edit the privaci polici                a b c d e
    sentence    use when the user ask who edit a page      c a b          a b: 2 of 5 words

A map then reads how far each of the best candidates is behind the best sentence:

    candidate     odds so far   sentence   contents
    edit_page         1.2         -.5        -.4
    who_edited         .9          0          0
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from orchestrator.common.arrays import Integers
from orchestrator.index.calibration import LogisticMap, Probabilities, log_odds
from orchestrator.index.features import Rows
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
    request_letters = _letters(words, letters)
    contents = request_letters.translate(stop_letters)
    request_length = max(len(request_letters), 1)
    contents_length = max(len(contents), 1)
    shares = np.zeros((len(tools), 2))
    for row, sentences in enumerate(tools):
        spelt = [_letters(sentence.split(), letters) for sentence in sentences.stems]
        contained = [sentence.translate(stop_letters) for sentence in spelt]
        by_sentence = _longest(request_letters, spelt) / request_length
        by_name = _longest(contents, contained[-1:]) / contents_length
        by_content = _longest(contents, contained) / contents_length
        shares[row] = max(by_sentence, by_name), by_content
    return shares


def _letter_of_each(words: Sequence[str]) -> dict[str, str]:
    unique = dict.fromkeys(words)
    return {word: chr(_FIRST_LETTER + number) for number, word in enumerate(unique)}


def _letters(words: Sequence[str], letters: Mapping[str, str]) -> str:
    """Return one letter for each of the words that has one, because strings are compared much faster than lists."""
    return "".join([letters[word] for word in words if word in letters])


def _longest(request_letters: str, sentences: Sequence[str]) -> int:
    """Return the length of the longest common subsequence with one of the sentences."""
    longest = 0
    for sentence in dict.fromkeys(sentences):
        # A shorter sentence cannot have more, and most have no word of the request.
        if len(sentence) > longest:
            longest = max(longest, LCSseq.similarity(request_letters, sentence))
    return longest


SENTENCES_READ = 5
"""The number of candidates whose sentences are read. With twelve, tools that a task needs besides the best one, such as
a sign-in, lose their places."""
_READ = ("odds", "sentence", "contents")
ORDER = (
    *_READ,
    *(f"{name} x described" for name in _READ),
    *(f"{name} x asked" for name in _READ),
)
"""The features that order the best candidates: the log-odds so far, and the shares of the request in one sentence of
the tool, with and without stop words. Each is also multiplied by the length of these tools' descriptions and by that of
the request. Sentences tell much only where they are long enough to quote requests (docs/decisions/ranking.md)."""


def best_candidates(chances: Probabilities) -> Integers:
    """Return the rows of the best candidates, whose sentences are read."""
    return np.asarray((-chances).argsort(kind="stable")[:SENTENCES_READ], np.int64)


def order_features(chances: Probabilities, read: Rows, request_length: float) -> Rows:
    """Return the features ORDER of the best candidates.

    Args:
        chances: Their probabilities so far.
        read: `sentence`, `contents` and `described` of each [candidates, 3].
        request_length: The length of the request.
    """
    behind, described = _compared(read)
    return _order_rows(log_odds(chances, 1e-6), behind, described, request_length)


def _compared(read: Rows) -> tuple[Rows, float]:
    """Return how far the first columns are behind the best value, and the mean of the last column."""
    values = read[:, :-1]
    return values - values.max(axis=0), float(read[:, -1].mean())


def _order_rows(odds: Probabilities, behind: Rows, described: float, request_length: float) -> Rows:
    rows = np.column_stack([odds, behind])
    return np.hstack([rows, rows * described, rows * request_length])


def ordered(
    order: LogisticMap,
    chances: Probabilities,
    best: Integers,
    read: Rows,
    request_length: float,
) -> Probabilities:
    """Return the probabilities of all candidates after the sentences of the best ones are read.

    The other candidates count like the worst of the best ones, so they stay behind. A probability of 0 remains 0.

    Args:
        order: The map.
        chances: The probabilities so far [candidates].
        best: The rows of the best candidates.
        read: As in `order_features`, of the best candidates.
        request_length: As in `order_features`.
    """
    if not len(best):
        return chances
    behind, described = _compared(read)
    of_all = np.tile(behind.min(axis=0), (len(chances), 1))
    of_all[best] = behind
    odds = log_odds(chances, 1e-6)
    unread = order(_order_rows(odds, np.zeros_like(of_all), described, request_length))
    after = order(_order_rows(odds, of_all, described, request_length))
    # Between short descriptions the factors would be negative, and a tool would gain by what its sentences lack.
    return np.minimum(unread, after) * (chances > 0)
