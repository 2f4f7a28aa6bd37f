"""Understand a query without any model: its clean text, its clauses, and the terms of each."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.text import stem, terms

MAX_CLAUSES = 8
MIN_CLAUSE_TERMS = 2

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|[\n。！？；]+")
_JOINT = re.compile(
    r",?\s+(?:and\s+(?:then|also|after\s+that|finally|afterwards?)|then|after\s+that|afterwards?|as\s+well\s+as|and)\s+"
    r"|,\s*(?:finally\s+|also\s+|plus\s+)?|\s+[-•*]\s+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A query as the legs read it. `terms` maps each stemmed term to its weight; clauses keep the query's order."""

    text: str
    terms: Mapping[str, float]
    clauses: tuple["Clause", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A part of the query that may be a task of its own."""

    text: str
    terms: Mapping[str, float]


def understand(query: str) -> Understood:
    """The query cleaned and cut; one clause, the whole, where there is no seam worth cutting at."""
    text = clean(query)
    clauses = split_clauses(text)
    if len(clauses) < 2:
        weighted = weigh(text)
        return Understood(text=text, terms=weighted, clauses=(Clause(text=text, terms=weighted),))
    return Understood(
        text=text, terms=weigh(text), clauses=tuple(Clause(text=clause, terms=weigh(clause)) for clause in clauses)
    )


def clean(query: str) -> str:
    """One line of printable text: control characters and lone surrogates become spaces, forms are composed."""
    text = _CONTROL.sub(" ", query)
    return text.strip() if text.isascii() else unicodedata.normalize("NFC", text).strip()


def weigh(text: str) -> dict[str, float]:
    """Each term's weight: the root of its count, so that a repeated word counts more, but not in full.

    Where stop words are all there is ("who am i"), they are kept: then they are what was asked.
    """
    counts = Counter(terms(text)) or Counter(word.lower() for word in text.split()[:20])
    return {term: count**0.5 for term, count in counts.items()}


def split_clauses(text: str) -> list[str]:
    """The parts between sentence ends, commas and "and", as far as each has words enough to stand alone."""
    if len(text) > 4_000:  # A pasted document is context, not a list of tasks.
        return [text]
    clauses: list[str] = []
    for sentence in _SENTENCE.split(text):
        start = len(clauses)
        for part in _JOINT.split(sentence):
            if _stands_alone(part) or len(clauses) == start:
                clauses.append(part)
            else:
                clauses[-1] = f"{clauses[-1]}, {part}"
    clauses = [clause.strip(" ,.;") for clause in clauses if _stands_alone(clause)]
    return (
        clauses if len(clauses) <= MAX_CLAUSES else [*clauses[: MAX_CLAUSES - 1], " ".join(clauses[MAX_CLAUSES - 1 :])]
    )


def _stands_alone(part: str) -> bool:
    return sum(1 for word in part.split() if stem(word.lower().strip(".,!?"))) >= MIN_CLAUSE_TERMS
