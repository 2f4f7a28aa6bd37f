"""Both legs over one Index: the candidates of a query, with each leg's probabilities and the features behind them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.confidence import Calibration, top_features
from orchestrator.features import (
    Positions,
    Rows,
    best_positions,
    keyword_features,
    query_features,
    semantic_features,
)
from orchestrator.index import Index
from orchestrator.stages.keyword import KeywordScores
from orchestrator.stages.semantic import SemanticIndex, SemanticScores
from orchestrator.stages.understand import Understood

Probabilities = NDArray[np.float64]
"""Shape [candidates]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What a search found: positions in the catalogue, and for each the features and the legs' probabilities.

    `semantic` and `merged` are None where the semantic leg did not run; `overlap`: shares a term with the query.
    """

    chosen: Positions
    rows: Rows
    query: list[float]
    keyword: Probabilities
    overlap: NDArray[np.bool_]
    semantic: Probabilities | None = None
    merged: Probabilities | None = None
    cosines: Probabilities | None = None


class Search:
    """One query against one Index. `allowed` [tools] leaves out what filters or negations exclude."""

    def __init__(
        self,
        index: Index,
        understood: Understood,
        calibration: Calibration,
        *,
        width: int,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        self._index, self._understood, self._calibration = index, understood, calibration
        self._width, self._allowed = width, allowed
        scores = index.keyword.score(understood.terms, [clause.terms for clause in understood.clauses])
        self._keyword = scores if allowed is None else _mask_keyword(scores, allowed)
        self._query = query_features(index.keyword, understood.terms)

    def by_keyword(self) -> Candidates:
        """The keyword leg alone: candidates that share at least one term with the query."""
        chosen = best_positions(self._keyword.whole, self._keyword.clauses, self._width)
        return self._describe(chosen[self._keyword.whole[chosen] > 0])

    def by_both(self, semantic: SemanticIndex, vectors: NDArray[np.float32]) -> Candidates:
        """Both legs, each scoring the union of both legs' candidates. vectors: [1 + clauses, dimension]."""
        scores = semantic.score(vectors)
        if self._allowed is not None:
            scores = _mask_semantic(scores, self._allowed)
        words = best_positions(self._keyword.whole, self._keyword.clauses, self._width)
        meaning = best_positions(scores.whole, scores.clauses, self._width)
        chosen = np.union1d(words[self._keyword.whole[words] > 0], meaning)
        if self._allowed is not None:
            chosen = chosen[self._allowed[chosen]]
        return self._describe(chosen, semantic, scores)

    def gate(self, found: Candidates) -> float:
        """The keyword leg's chance that its best tool is right; of several clauses the least sure one's."""
        sure = self._sure(found.keyword, found.rows, self._query)
        if len(self._understood.clauses) < 2:
            return sure
        return min(sure, *(self._clause_gate(number) for number in range(len(self._understood.clauses))))

    def confidence(self, found: Candidates) -> float:
        """The chance that the best candidate is right, after both legs."""
        return self.confidence_among(found, np.ones(len(found.chosen), np.bool_))

    def confidence_among(self, found: Candidates, mask: NDArray[np.bool_]) -> float:
        """The same if only these candidates can be right."""
        if found.merged is None:
            return self._sure(found.keyword[mask], found.rows[mask], self._query)
        if not mask.any():
            return 0.0
        top = top_features(found.merged[mask], found.rows[mask], self._query)
        return float(self._calibration.confidence(top)[0])

    def _sure(self, probabilities: Probabilities, rows: Rows, query: list[float]) -> float:
        if not len(probabilities):
            return 0.0
        return float(self._calibration.gate(top_features(probabilities, rows, query))[0])

    def _clause_gate(self, number: int) -> float:
        clause = self._understood.clauses[number]
        own = self._keyword.clauses[number]
        chosen = best_positions(own, (), 10)
        chosen = chosen[own[chosen] > 0]
        scores = KeywordScores(own, (), self._keyword.servers)
        query = query_features(self._index.keyword, clause.terms)
        rows = keyword_features(self._index.keyword, clause.terms, scores, chosen)
        return self._sure(self._calibration.keyword(_with_query(rows, query)), rows, query)

    def best_of_clause(self, found: Candidates, number: int, score: Probabilities) -> int | None:
        """The best-scored candidate among the three that this clause alone puts first; None if it finds none."""
        if not self._keyword.clauses or not len(found.chosen):
            return None
        own = self._keyword.clauses[number][found.chosen]
        first = np.argsort(-own, kind="stable")[:3]
        first = first[own[first] > 0]
        return int(first[np.argmax(score[first])]) if len(first) else None

    def _describe(
        self, chosen: Positions, semantic: SemanticIndex | None = None, scores: SemanticScores | None = None
    ) -> Candidates:
        words = keyword_features(self._index.keyword, self._understood.terms, self._keyword, chosen)
        overlap = self._keyword.whole[chosen] > 0
        keyword = self._calibration.keyword(_with_query(words, self._query)) * overlap
        if semantic is None or scores is None:
            return Candidates(chosen=chosen, rows=words, query=self._query, keyword=keyword, overlap=overlap)
        meaning = semantic_features(semantic, scores, chosen)
        rows = np.hstack([words, meaning])
        return Candidates(
            chosen=chosen,
            rows=rows,
            query=self._query,
            keyword=keyword,
            overlap=overlap,
            semantic=self._calibration.semantic(_with_query(meaning, self._query)),
            merged=self._calibration.merged(_with_query(rows, self._query)),
            cosines=scores.whole[chosen].astype(np.float64),
        )


def _with_query(rows: Rows, query: list[float]) -> Rows:
    return np.hstack([rows, np.broadcast_to(query, (len(rows), len(query)))])


def _mask_keyword(scores: KeywordScores, allowed: NDArray[np.bool_]) -> KeywordScores:
    return KeywordScores(scores.whole * allowed, tuple(part * allowed for part in scores.clauses), scores.servers)


def _mask_semantic(scores: SemanticScores, allowed: NDArray[np.bool_]) -> SemanticScores:
    def masked(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(allowed, cosines, np.float32(-1)).astype(np.float32)

    return SemanticScores(masked(scores.whole), tuple(masked(part) for part in scores.clauses))
