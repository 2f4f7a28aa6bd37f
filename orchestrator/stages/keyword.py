"""The keyword leg: BM25 over what a tool says of itself, with its whole server as further evidence.

`rank-bm25` gives the statistics; scoring runs on sparse postings and gives the same numbers (a test holds it to that).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from orchestrator.models import Tool
from orchestrator.text import fields, terms

FIELDS = ("server", "name", "keywords", "description", "parameters")
"""In the order of the bits that `Postings.holding` answers with."""
NAME_BIT = 1 << FIELDS.index("name")
FIELD_WEIGHTS = {"server": 1.0, "name": 2.0, "keywords": 1.0, "description": 1.0, "parameters": 0.5}
Scores = NDArray[np.float32]
"""Shape [tools], in the catalogue's order; 0 where no term overlaps."""


class PositiveBM25(BM25Okapi):  # type: ignore[misc]
    """BM25Okapi with Lucene's inverse document frequency, log(1 + (N - n + .5) / (n + .5)), which is never negative.

    Okapi's own is zero or below for a term in half of the documents, which is every term of a catalogue of two tools.
    Documents may be given as terms, or as mappings of term to weighted count.
    """

    def _initialize(self, corpus: Sequence[Mapping[str, float] | Sequence[str]]) -> dict[str, int]:
        holders: dict[str, int] = {}
        for document in corpus:
            counts = dict(document) if isinstance(document, Mapping) else _count(document)
            self.doc_freqs.append(counts)
            self.doc_len.append(sum(counts.values()))
            for term in counts:
                holders[term] = holders.get(term, 0) + 1
        self.corpus_size = len(self.doc_freqs)
        self.avgdl = sum(self.doc_len) / max(self.corpus_size, 1) or 1.0
        return holders

    def _calc_idf(self, holders: Mapping[str, int]) -> None:
        self.average_idf = 0.0
        self.idf = {term: math.log1p((self.corpus_size - n + 0.5) / (n + 0.5)) for term, n in holders.items()}


def _count(words: Iterable[str]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for word in words:
        counts[word] = counts.get(word, 0.0) + 1.0
    return counts


class Postings:
    """A BM25 model as sparse columns: for each term the documents that hold it and what it adds to each."""

    def __init__(self, model: PositiveBM25, fields_of: Sequence[Mapping[str, int]] | None = None) -> None:
        self.size = int(model.corpus_size)
        self.k1 = float(model.k1)
        self.idf: dict[str, float] = model.idf
        self._ids = {term: number for number, term in enumerate(model.idf)}
        counts = model.doc_freqs
        lengths = np.fromiter((len(document) for document in counts), np.int64, self.size)
        total = int(lengths.sum())
        term_ids = np.fromiter((self._ids[term] for document in counts for term in document), np.int64, total)
        frequency = np.fromiter((count for document in counts for count in document.values()), np.float64, total)
        documents = np.repeat(np.arange(self.size, dtype=np.int32), lengths)
        idf = np.fromiter(model.idf.values(), np.float64, len(model.idf))
        norm = model.k1 * (1 - model.b + model.b * np.asarray(model.doc_len, np.float64) / model.avgdl)
        impact = idf[term_ids] * (frequency * (model.k1 + 1) / (frequency + norm[documents]))
        order = np.argsort(term_ids, kind="stable")
        self._documents = documents[order]
        self._impact = impact[order].astype(np.float32)
        bits = (mask[term] for document, mask in zip(counts, fields_of or (), strict=True) for term in document)
        self._fields = np.fromiter(bits, np.uint8, total)[order] if fields_of else np.ones(total, np.uint8)
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(term_ids, minlength=len(self._ids)))]).tolist()

    def __contains__(self, term: str) -> bool:
        return term in self._ids

    def scores(self, weighted: Mapping[str, float]) -> Scores:
        """The BM25 score of every document for weighted query terms."""
        scores = np.zeros(self.size, np.float32)
        for term, weight in weighted.items():
            number = self._ids.get(term)
            if number is not None:
                start, end = self._starts[number], self._starts[number + 1]
                scores[self._documents[start:end]] += self._impact[start:end] * np.float32(weight)
        return scores

    def holding(self, words: Sequence[str], documents: NDArray[np.int64]) -> NDArray[np.uint8]:
        """For each term and document [terms, documents] the fields that hold it, as bits in FIELDS' order; 0: none."""
        found = np.zeros((len(words), len(documents)), np.uint8)
        place = np.full(self.size, -1, np.int32)
        place[documents] = np.arange(len(documents), dtype=np.int32)
        for row, word in enumerate(words):
            number = self._ids.get(word)
            if number is not None:
                start, end = self._starts[number], self._starts[number + 1]
                places = place[self._documents[start:end]]
                kept = places >= 0
                found[row, places[kept]] = self._fields[start:end][kept]
        return found

    def ceiling(self, weighted: Mapping[str, float]) -> float:
        """What a document would score that held every term without end; unknown terms count as the rarest would."""
        rarest = math.log1p((self.size + 0.5) / 0.5)
        return (self.k1 + 1) * sum(self.idf.get(term, rarest) * weight for term, weight in weighted.items())


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """One query's BM25 scores: of every tool, of every tool for each clause (none if it is one), of every server."""

    whole: Scores
    clauses: tuple[Scores, ...]
    servers: Scores


class KeywordIndex:
    """The keyword leg of one catalogue. Tools must be ordered by server, as a Catalogue orders them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        bags = [_bag(tool) for tool in tools]
        self.postings = Postings(PositiveBM25([b for b, _ in bags]), [m for _, m in bags]) if tools else None
        self.name_weight = self._name_weights([mask for _, mask in bags])
        self.servers = sorted({tool.server for tool in tools})
        number = {server: i for i, server in enumerate(self.servers)}
        self.server_of = np.fromiter((number[tool.server] for tool in tools), np.int64, len(tools))
        self.server_terms = [frozenset(terms(server)) for server in self.servers]
        self.server_postings = Postings(PositiveBM25(_server_bags(tools))) if len(self.servers) > 1 else None

    def _name_weights(self, masks: Sequence[Mapping[str, int]]) -> NDArray[np.float64]:
        """How much each tool's name says in all: the summed inverse document frequency of its terms."""
        idf = self.postings.idf if self.postings else {}
        return np.array([sum(idf[term] for term, mask in bits.items() if mask & NAME_BIT) for bits in masks])

    def score(self, whole: Mapping[str, float], clauses: Sequence[Mapping[str, float]] = ()) -> KeywordScores:
        """The leg: weighted terms of the query, and of its clauses where it has several, against every tool."""
        several = clauses if len(clauses) > 1 else ()
        if self.postings is None:
            nothing = np.zeros(0, np.float32)
            return KeywordScores(nothing, (nothing,) * len(several), np.zeros(1, np.float32))
        servers = self.server_postings.scores(whole) if self.server_postings else np.zeros(1, np.float32)
        parts = tuple(self.postings.scores(clause) for clause in several)
        return KeywordScores(self.postings.scores(whole), parts, servers)


def _bag(tool: Tool) -> tuple[dict[str, float], dict[str, int]]:
    """The tool's terms with their weighted counts, and with the fields that hold them."""
    bag: dict[str, float] = {}
    mask: dict[str, int] = {}
    for bit, (field, text) in enumerate(fields(tool)):
        weight = FIELD_WEIGHTS[field]
        for term in terms(text):
            bag[term] = bag.get(term, 0.0) + weight
            mask[term] = mask.get(term, 0) | 1 << bit
    return bag, mask


def _server_bags(tools: Sequence[Tool]) -> list[dict[str, float]]:
    """A document a server: its name three times, and each word of its tools' names and descriptions once a tool."""
    bags: dict[str, dict[str, float]] = {}
    for tool in tools:
        bag = bags.get(tool.server)
        if bag is None:
            bag = bags[tool.server] = dict.fromkeys(terms(tool.server), 3.0)
        for term in set(terms(f"{tool.name} {tool.description}")):
            bag[term] = bag.get(term, 0.0) + 1.0
    return list(bags.values())
