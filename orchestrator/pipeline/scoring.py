"""Both legs over one Index: a query's candidates, with each leg's probabilities and the features behind them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Mask
from orchestrator.index import language
from orchestrator.index.calibration import (
    UNKNOWN_NO_TOOL_SIMILARITY,
    Calibration,
    Probabilities,
    blend,
    most_by_meaning,
    most_by_words,
    supported,
    top_features,
)
from orchestrator.index.features import (
    ASKED,
    CandidateSet,
    Positions,
    Rows,
    highest,
    keyword_features,
    query_features,
    rows_of,
    second_features,
    semantic_features,
    union,
)
from orchestrator.index.index import Index
from orchestrator.index.keyword import KeywordScores
from orchestrator.index.relations.requirements import REQUIRING, Requirement, identified_in
from orchestrator.index.semantic import SemanticIndex
from orchestrator.pipeline.odds import asks_for_a_tool, server_support, unasked_changes
from orchestrator.pipeline.sentences import best_candidates, ordered, ordered_shares, sentences_of
from orchestrator.pipeline.understand import Understood

_CLAUSE_WIDTH = 10
"""The number of a leg's candidates for each clause, and among the tools of named servers."""
_TERMS = ASKED.index("log_terms")

UNCONTRASTED = 20.0
"""The factor on cosines for an embedder without a contrast matrix. The matrix is fitted from this multiple
of the identity."""

Chances = NDArray[np.float64]
"""The probability of each tool to be right for each part alone, shape [parts, tools]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseScores:
    """Findings for the whole task or one of its parts, with one row for each candidate.

    Attributes:
        positions: The candidates [rows].
        rows: Their features [rows, features].
        query: The features of the query.
        overlap: Whether a candidate shares a word with the query [rows].
        support: The factor from each candidate's server [rows].
        keyword: The candidates' probabilities by the keyword leg [rows].
        semantic: The candidates' probabilities by the semantic leg [rows]. None if it did not run.
        chances: The candidates' probabilities from the legs that ran [rows].
        confidence: The probability that the best candidate is right.
        second: The features of the encoder for other languages [rows, features]. None if it did not run.
    """

    positions: Positions
    rows: Rows
    query: list[float]
    overlap: Mask
    support: Probabilities
    keyword: Probabilities
    semantic: Probabilities | None
    chances: Probabilities
    confidence: float
    second: Rows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Findings of a search for the whole task, and for its clauses if there are several.

    Attributes:
        search: The search.
        of_task: The findings for the whole task.
        clauses: The findings for each clause.
        no_tool_similarity: The task's cosine with requests that need no tool, if the embedder provides it.
    """

    search: "Search"
    of_task: ClauseScores
    clauses: tuple[ClauseScores, ...] = ()
    no_tool_similarity: float = UNKNOWN_NO_TOOL_SIMILARITY

    def of_clauses(self, positions: Positions, *, with_server_prior: bool = True) -> Chances:
        """Return the probability of each of these tools for each clause alone, shape [clauses, positions].

        Args:
            positions: The tools.
            with_server_prior: Multiply the odds with the support from the tool's server.
        """
        table = np.zeros((len(self.clauses), len(positions)))
        for of_clause, clause in zip(table, self.clauses, strict=True):
            chances = clause.chances
            if with_server_prior:
                chances = supported(chances, clause.support)
            rows, is_candidate = rows_of(positions, clause.positions)
            of_clause[is_candidate] = chances[rows[is_candidate]]
        return table

    @property
    def gate_confidence(self) -> float:
        """The keyword leg's confidence in its best tool: the lowest of all clauses, limited by the words."""
        parts = (self.of_task, *self.clauses)
        limits = [most_by_words(part.chances, part.rows, part.query) for part in parts]
        confidences = [part.confidence for part in parts]
        return min(*limits, *confidences)

    def confidence(self, mask: Mask | None = None) -> float:
        """Return the confidence in the best candidate among those in the mask [candidates]."""
        of_task = self.of_task
        allowed = slice(None) if mask is None else mask
        chances = of_task.chances[allowed]
        rows = of_task.rows[allowed]
        calibration = self.search.calibration
        if of_task.semantic is None:
            return (
                of_task.confidence
                if mask is None
                else calibration.gate.of_best(chances, rows, of_task.query)
            )
        if not len(chances):
            return 0.0
        if of_task.second is not None:
            return language.confidence(calibration, chances, of_task.second[allowed], of_task.query)
        clauses = None
        if self.clauses:
            clauses = self.of_clauses(of_task.positions, with_server_prior=False)[:, allowed]
        features = top_features(
            chances, rows, of_task.query, clauses, self.search.unfamiliar or 0.0
        )
        limit = most_by_meaning(chances, rows, of_task.overlap[allowed], self.no_tool_similarity)
        return min(calibration.confidence.chance(features), limit)


class _Meaning(NamedTuple):
    """The semantic leg's measurements.

    Attributes:
        semantic: The semantic side of the index.
        cosines: The cosine of each tool with each part [parts, tools].
        contrasted: The vectors whose products with the tools' vectors tell sister tools apart [parts, dimension].
        no_tool: The cosine of each part with requests that need no tool [parts], or None.
        second: The cosines of the encoder for other languages [parts, tools], or None.
    """

    semantic: SemanticIndex
    cosines: NDArray[np.float32]
    contrasted: NDArray[np.float32]
    no_tool: NDArray[Any] | None
    second: NDArray[np.float32] | None


class _Evidence(NamedTuple):
    """The features and probabilities of the candidates of all parts [rows]."""

    rows: Rows
    overlap: Mask
    keyword: Probabilities
    semantic: Probabilities | None
    chances: Probabilities
    second: Rows | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """One query against one Index.

    Attributes:
        index: The index.
        understood: The query.
        calibration: The maps from features to probabilities.
        width: The number of a leg's candidates for the whole task.
        allowed: False for tools that filters or the task exclude [tools]. They are ignored completely.
        named: The tools of servers that the query names. The best of them are always candidates.
        unfamiliar_to: Returns the share of a text's tokens that the embedder hardly knows, or None.
    """

    index: Index
    understood: Understood
    calibration: Calibration
    width: int = 30
    allowed: Mask | None = None
    named: Positions | None = None
    unfamiliar_to: Callable[[str], float | None] = lambda _: None

    @cached_property
    def unfamiliar(self) -> float | None:
        """The share of the task's tokens that the embedder does not know well, or None if it does not show tokens."""
        return self.unfamiliar_to(self.understood.asked)

    @property
    def unknown(self) -> float:
        """The share of the task's words, by weight, that no tool has."""
        return self._queries[0][ASKED.index("unknown")]

    @cached_property
    def words(self) -> KeywordScores:
        """The keyword leg's scores of the whole and of its parts."""
        task = self.understood
        terms = [task.terms, *(part.terms for part in task.parts)]
        pairs = [task.pairs, *(part.pairs for part in task.parts)]
        # The keyword index has no flagged tools, so it need not be restricted to the others.
        among = None if self.allowed is self.index.unflagged else self.allowed
        return self.index.keyword.score(*terms, pairs=pairs, among=among)

    @cached_property
    def _queries(self) -> list[list[float]]:
        """The features of the whole query and of each part."""
        parts = self.understood.parts
        return query_features(self.words, [self.understood.terms, *(part.terms for part in parts)])

    @cached_property
    def _by_words(self) -> list[Positions]:
        """The keyword leg's candidates for each part."""
        return self._best(self.words.parts)

    def by_keyword(self) -> Candidates:
        """Return the candidates that share a term with the query, and the tools that provide their required values."""
        return self._describe(CandidateSet(self._by_words, len(self.understood.parts)))

    def by_meaning(
        self,
        semantic: SemanticIndex,
        vectors: NDArray[np.float32],
        no_tool: NDArray[np.float32] | None = None,
        contrast: NDArray[np.float32] | None = None,
        second: NDArray[np.float32] | None = None,
        *,
        words: bool = True,
    ) -> Candidates:
        """Return the candidates of both legs, each scored by both, or without `words` those of the semantic leg.

        Args:
            semantic: The semantic side of the index.
            vectors: Embeddings of the whole task and its parts [1 + parts, dimension].
            no_tool: The embedding of requests that need no tool.
            contrast: The embedder's contrast matrix. Without one, cosines on the same scale take its place.
            second: The cosines of the encoder for other languages [1 + parts, tools].
            words: Include the keyword leg.
        """
        cosines = semantic.score(vectors, self.allowed)
        best = [self._best(cosines)]
        if second is not None:
            if self.allowed is not None:
                second = np.where(self.allowed, second, np.float32(-1))
            best.append(self._best(second))
        if words:
            best.append(self._by_words)
        tools = cosines.shape[1]
        parts = [union(tools, *of_part) for of_part in zip(*best, strict=True)]
        if self.allowed is not None:
            parts = [positions[self.allowed[positions]] for positions in parts]
        meaning = _Meaning(
            semantic=semantic,
            cosines=cosines,
            contrasted=vectors * UNCONTRASTED if contrast is None else vectors @ contrast,
            no_tool=None if no_tool is None else vectors @ no_tool,
            second=second,
        )
        return self._describe(CandidateSet(parts, len(self.understood.parts)), meaning, words=words)

    def _best(self, scores: NDArray[np.float32]) -> list[Positions]:
        """Return the best tools of each part by one leg's scores [parts, tools].

        For the whole task these include the named servers' best tools, and the tools that provide required values.
        """
        of_task = scores[0]
        tools = len(of_task)
        width = max(self.width // 3, 5)
        # A tool that serves only one clause scores low for the task, so each clause brings its own candidates.
        of_clauses = [highest(clause, _CLAUSE_WIDTH) for clause in scores[1:]]
        further = of_clauses
        if width != _CLAUSE_WIDTH:
            further = [highest(clause, width) for clause in scores[1:]]
        positions = union(tools, highest(of_task, self.width), *further)
        # The words of a named server's tool may differ from those of the task.
        if self.named is not None and len(self.named):
            best_named = self.named[highest(of_task[self.named], _CLAUSE_WIDTH)]
            positions = union(tools, positions, best_named)
        order = (-of_task[positions]).argsort(kind="stable")
        sources = self._sources(positions[order[:REQUIRING]])
        if len(sources):
            positions = union(tools, positions, sources)
        return [positions, *map(np.sort, of_clauses)]

    def _sources(self, best: Positions) -> Positions:
        """Return the allowed tools that provide the needs of these tools."""
        tools = best.tolist()
        positions: list[int] = []
        for requirements in self.unmet(tools).values():
            for requirement in requirements:
                positions += requirement.sources
        for hops in self.index.graph.needed(tools).values():
            positions += [hop.position for hop in hops]
        sources = np.array(positions, np.int64)
        return sources if self.allowed is None else sources[self.allowed[sources]]

    def unmet(self, tools: Sequence[int]) -> dict[int, list[Requirement]]:
        """Return, by tool, the required values that the task does not give and other tools may provide."""
        return self.index.prerequisites.unmet(tools, self._identified)

    @cached_property
    def _identified(self) -> frozenset[str]:
        """The terms of the things that the task identifies by a number."""
        return identified_in(self.understood.asked)

    def _describe(
        self, candidates: CandidateSet, meaning: _Meaning | None = None, *, words: bool = True
    ) -> Candidates:
        """Return the candidates with features and probabilities, part by part."""
        evidence = self._evidence(candidates, meaning, words)
        servers = self.index.keyword.server_of[candidates.positions]
        support = server_support(servers, evidence.chances, len(self.understood.terms))
        parts = []
        for query, rows in zip(self._queries, candidates.rows, strict=True):
            chances = evidence.chances[rows]
            features = evidence.rows[rows]
            second = None if evidence.second is None else evidence.second[rows]
            part = ClauseScores(
                positions=candidates.positions[rows],
                rows=features,
                query=query,
                overlap=evidence.overlap[rows],
                support=support[rows],
                keyword=evidence.keyword[rows],
                semantic=None if evidence.semantic is None else evidence.semantic[rows],
                chances=chances,
                confidence=self._part_confidence(
                    chances, features, query, second, semantic=meaning is not None
                ),
                second=second,
            )
            parts.append(part)
        no_tool = None if meaning is None else meaning.no_tool
        return Candidates(
            search=self,
            of_task=parts[0],
            clauses=tuple(parts[1:]),
            no_tool_similarity=UNKNOWN_NO_TOOL_SIMILARITY if no_tool is None else float(no_tool[0]),
        )

    def _evidence(
        self, candidates: CandidateSet, meaning: _Meaning | None, words: bool
    ) -> _Evidence:
        """Return the features and probabilities of all candidates by the legs that ran."""
        calibration = self.calibration
        queries = candidates.per_row(np.array(self._queries))
        factor = unasked_changes(self.index, self.understood, candidates)
        overlap = (candidates.pick(self.words.parts, candidates.positions) > 0) & words
        rows = keyword_features(self.index.keyword, self.words, candidates)
        keyword = supported(calibration.keyword(rows, queries) * overlap, factor)
        if meaning is None:
            keyword = self._reordered(candidates, keyword)
            return _Evidence(
                rows=rows, overlap=overlap, keyword=keyword, semantic=None, chances=keyword
            )
        by_meaning = semantic_features(
            meaning.semantic, meaning.cosines, candidates, meaning.contrasted, self.allowed
        )
        rows = np.concatenate([rows, by_meaning], axis=1)
        semantic = supported(calibration.semantic(by_meaning, queries), factor)
        chances = semantic
        if words:
            merged = supported(calibration.merged(rows, queries), factor)
            chances = blend(keyword, semantic, merged)
            # The maps of other languages are fitted to the order without sentences, which are English.
            if meaning.second is None:
                chances = self._reordered(candidates, chances)
        if meaning.no_tool is not None:
            asking = asks_for_a_tool(self.understood, meaning.no_tool, meaning.cosines.max(axis=1))
            chances = supported(chances, candidates.per_row(asking))
        second = None
        if meaning.second is not None:
            second = second_features(meaning.second, candidates, self.allowed)
            semantic = language.in_other_language(calibration.languages, semantic, second)
            chances = language.in_other_language(calibration.languages, chances, second)
        return _Evidence(
            rows=rows,
            overlap=overlap,
            keyword=keyword,
            semantic=semantic,
            chances=chances,
            second=second,
        )

    def _reordered(self, candidates: CandidateSet, chances: Probabilities) -> Probabilities:
        """Return the probabilities [rows] after the sentences of the whole task's best candidates are read."""
        of_task = candidates.of_task
        best = best_candidates(chances[of_task])
        read = self.read(candidates.positions[of_task][best])
        asked = self._queries[0][_TERMS]
        after = ordered(self.calibration.order, chances[of_task], best, read, asked)
        return np.concatenate([after, chances[of_task.stop :]])

    def read(self, positions: Positions) -> Rows:
        """Return the values of these tools for `order_features` [positions, 3]."""
        # Both legs read mostly the same tools.
        unread = [position for position in positions.tolist() if position not in self._read]
        if unread:
            self._read.update(zip(unread, self._rows_read(unread), strict=True))
        return np.array([self._read[position] for position in positions.tolist()]).reshape(-1, 3)

    @cached_property
    def _read(self) -> dict[int, NDArray[np.float64]]:
        """The values that were read before, by the tool's position."""
        return {}

    def _rows_read(self, positions: list[int]) -> Rows:
        index = self.index
        tools = [
            index.derived(("sentences", position), partial(sentences_of, index.tools[position]))
            for position in positions
        ]
        shares = ordered_shares(self.understood.asked, tools)
        return np.column_stack([shares, [tool.length for tool in tools]])

    def _part_confidence(
        self,
        chances: Probabilities,
        rows: Rows,
        query: list[float],
        second: Rows | None,
        *,
        semantic: bool,
    ) -> float:
        if second is not None:
            return language.confidence(self.calibration, chances, second, query)
        if semantic:
            return self.calibration.confidence.of_best(chances, rows, query, self.unfamiliar or 0.0)
        return self.calibration.gate.of_best(chances, rows, query)
