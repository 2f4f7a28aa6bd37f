"""Both legs over one Index: a query's candidates, with each leg's probabilities and the features behind them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import (
    UNKNOWN_NO_TOOL_SIMILARITY,
    Calibration,
    LogisticMap,
    Probabilities,
    blend,
    most_by_meaning,
    most_by_words,
    supported,
    top_features,
)
from orchestrator.index.embed import SemanticIndex
from orchestrator.index.features import (
    ASKED,
    CandidateSet,
    Positions,
    Rows,
    highest,
    keyword_features,
    places_among,
    query_features,
    semantic_features,
    union,
)
from orchestrator.index.index import Index
from orchestrator.index.keyword import KeywordScores
from orchestrator.index.prerequisites import REQUIRING, Requirement, identified_in
from orchestrator.pipeline.understand import Understood

_CLAUSE_WIDTH = 10
"""The number of a leg's candidates for each clause, and among the tools of named servers."""
_FIRST_WORDS = 64
"""The number of words that are looked up one by one. A task's language is visible in its first words."""
SHORT, LONG, LEAST = 8, 20, 0.05
"""A task of up to SHORT terms asks for one thing, which several servers may do equally well. A task of LONG terms has
several steps. LEAST is added to the probability of each server's best tool. Chosen on the development sets."""
CHANGES_UNASKED = 0.2
"""The factor on the odds of a tool that may change something, if its part of the task only reads and a twin of the tool
only reads."""
NEARER, STEEPER, LEAST_ASKED = 0.5, 6.0, 0.2
"""A part of a task is doubted if it is almost as near to texts that need no tool as to its best tool: the difference at
which the doubt begins, its slope, and the smallest factor on the odds. Chosen on our own tasks and the development
sets."""

Chances = NDArray[np.float64]
"""The probability of each tool to be right for each part alone, shape [parts, tools]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseScores:
    """Findings for the whole task or one of its parts: candidates [rows] with features and probabilities.

    Attributes:
        support: The factor from each candidate's server.
        chances: The candidates' probabilities from the legs that ran.
        sure: The probability that the best candidate is right.
    """

    chosen: Positions
    rows: Rows
    query: list[float]
    overlap: NDArray[np.bool_]
    support: Probabilities
    keyword: Probabilities
    semantic: Probabilities | None
    chances: Probabilities
    sure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Findings of a search for the whole task, and for its clauses if there are several.

    Attributes:
        no_tool_similarity: The task's cosine with requests that need no tool, if the embedder provides it.
    """

    search: "Search"
    whole: ClauseScores
    clauses: tuple[ClauseScores, ...] = ()
    no_tool_similarity: float = UNKNOWN_NO_TOOL_SIMILARITY

    def of_clauses(self, positions: Positions, *, with_server_prior: bool = True) -> Chances:
        """Return the probability of each of these tools for each clause alone, shape [clauses, positions]."""
        chances = np.zeros((len(self.clauses), len(positions)))
        for row, clause in zip(chances, self.clauses, strict=True):
            places, known = places_among(clause.chosen, positions)
            own = supported(clause.chances, clause.support) if with_server_prior else clause.chances
            row[known] = own[places[known]]
        return chances

    @property
    def gate_confidence(self) -> float:
        """The keyword leg's confidence in its best tool: the lowest of all clauses, limited by the words."""
        every = (self.whole, *self.clauses)
        words = min(most_by_words(own.chances, own.rows, own.query) for own in every)
        return min(words, *(own.sure for own in every))

    def confidence(self, mask: NDArray[np.bool_] | None = None) -> float:
        """Return the confidence in the best candidate among those in the mask [candidates]."""
        whole, kept = self.whole, slice(None) if mask is None else mask
        chances, rows, maps = whole.chances[kept], whole.rows[kept], self.search.calibration
        if whole.semantic is None:
            return whole.sure if mask is None else _chance(maps.gate, chances, rows, whole.query)
        if not len(chances):
            return 0.0
        clauses = self.of_clauses(whole.chosen, with_server_prior=False)[:, kept] if self.clauses else None
        sure = maps.confidence.chance(top_features(chances, rows, whole.query, clauses, self.search.unfamiliar or 0.0))
        return min(sure, most_by_meaning(chances, rows, whole.overlap[kept], self.no_tool_similarity))


@dataclass(frozen=True, kw_only=True)
class Search:
    """One query against one Index.

    Attributes:
        allowed: False for tools that filters or the task exclude [tools]. They are ignored completely.
        named: The tools of servers that the query names. The best of them are always candidates.
    """

    index: Index
    understood: Understood
    calibration: Calibration
    width: int = 30
    allowed: NDArray[np.bool_] | None = None
    named: Positions | None = None
    unfamiliar_to: Callable[[str], float | None] = lambda _: None

    @cached_property
    def unfamiliar(self) -> float | None:
        """The share of the task's tokens that the embedder hardly knows, or None if it does not show tokens."""
        return self.unfamiliar_to(self.understood.asked)

    @cached_property
    def foreign(self) -> float:
        """The share of words with a token that the embedder hardly knows, multiplied by the share that no tool has.

        Words are counted and not tokens, because a rare name is one word of many tokens.
        """
        unknown = self._queries[0][ASKED.index("unknown")]
        if not unknown:  # The words need not be looked up, which takes a tenth of the route of a long task.
            return 0.0
        words = self.understood.asked.split()[:_FIRST_WORDS]
        return unknown * sum(bool(self.unfamiliar_to(word)) for word in words) / max(len(words), 1)

    @cached_property
    def words(self) -> KeywordScores:
        """The keyword leg's scores of the whole and of its parts."""
        parts = (*self.understood.parts,)
        terms = [self.understood.terms, *(part.terms for part in parts)]
        pairs = [self.understood.pairs, *(part.pairs for part in parts)]
        among = None if self.allowed is self.index.unflagged else self.allowed  # The index itself has no others.
        return self.index.keyword.score(*terms, pairs=pairs, among=among)

    @cached_property
    def _queries(self) -> list[list[float]]:
        return query_features(self.words, [self.understood.terms, *(part.terms for part in self.understood.parts)])

    @cached_property
    def _by_words(self) -> list[Positions]:
        return self._best(self.words.parts)

    def by_keyword(self) -> Candidates:
        """Return the candidates that share a term with the query, and the tools that provide their required values."""
        return self._describe(CandidateSet(self._by_words, len(self.understood.parts)))

    def by_meaning(
        self,
        semantic: SemanticIndex,
        vectors: NDArray[np.float32],
        no_tool: NDArray[np.float32] | None = None,
        *,
        words: bool = True,
    ) -> Candidates:
        """Return the candidates of both legs, each scored by both, or without `words` those of the semantic leg.

        Args:
            semantic: The semantic side of the index.
            vectors: Embeddings of the whole task and its parts [1 + parts, dimension].
            no_tool: The embedding of requests that need no tool.
            words: Include the keyword leg.
        """
        cosines = semantic.score(vectors, self.allowed)
        chosen = self._best(cosines)
        if words:
            chosen = [union(cosines.shape[1], *both) for both in zip(self._by_words, chosen, strict=True)]
        if self.allowed is not None:
            chosen = [positions[self.allowed[positions]] for positions in chosen]
        no_tool_similarity = np.full(len(vectors), UNKNOWN_NO_TOOL_SIMILARITY) if no_tool is None else vectors @ no_tool
        spread = semantic.spread(vectors) if semantic.spread else None
        return self._describe(
            CandidateSet(chosen, len(self.understood.parts)), semantic, cosines, no_tool_similarity, spread, words=words
        )

    def _best(self, parts: NDArray[np.float32]) -> list[Positions]:
        """Return the best tools of each part by one leg's scores [parts, tools].

        For the whole task these include the named servers' best tools, and the tools that provide required values.
        """
        whole, clauses = parts[0], list(parts[1:])
        of_clauses = [highest(part, _CLAUSE_WIDTH) for part in clauses]
        wide = max(self.width // 3, 5)
        wider = of_clauses if wide == _CLAUSE_WIDTH else [highest(part, wide) for part in clauses]
        chosen = union(len(whole), highest(whole, self.width), *wider)
        if self.named is not None and len(self.named):
            named = self.named[highest(whole[self.named], _CLAUSE_WIDTH)]
            chosen = union(len(whole), chosen, named)
        if len(sources := self._sources(chosen[(-whole[chosen]).argsort(kind="stable")[:REQUIRING]])):
            chosen = union(len(whole), chosen, sources)
        return [chosen, *map(np.sort, of_clauses)]

    def _sources(self, best: Positions) -> Positions:
        found = [source for position in best.tolist() for own in self.unmet(position) for source in own.sources]
        found += [step.position for position in best.tolist() for step in self.index.graph.needed(position)]
        sources = np.array(found, np.int64)
        return sources if self.allowed is None else sources[self.allowed[sources]]

    def unmet(self, position: int) -> tuple[Requirement, ...]:
        """Return the required values of this tool that the task does not give and other tools may provide."""
        found = self.index.prerequisites.of(position)
        return tuple(own for own in found if own.thing.isdisjoint(self._identified)) if found else found

    @cached_property
    def _identified(self) -> frozenset[str]:
        return identified_in(self.understood.asked)

    def _describe(
        self,
        chosen: CandidateSet,
        semantic: SemanticIndex | None = None,
        cosines: NDArray[np.float32] | None = None,
        no_tool_similarity: NDArray[Any] | None = None,
        spread: tuple[Rows, Rows] | None = None,
        *,
        words: bool = True,
    ) -> Candidates:
        rows = keyword_features(self.index.keyword, self.words, chosen)
        query = chosen.own(np.array(self._queries))
        factor = self._odds_factor(chosen)
        overlap = (chosen.at(self.words.parts, chosen.positions) > 0) & words
        keyword = chances = supported(self.calibration.keyword(rows, query) * overlap, factor)
        near = None
        if semantic is not None and cosines is not None:
            meaning = semantic_features(semantic, cosines, chosen, self.allowed, spread)
            rows = np.concatenate([rows, meaning], axis=1)
            near = supported(self.calibration.semantic(meaning, query), factor)
            chances = blend(keyword, near, supported(self.calibration.merged(rows, query), factor)) if words else near
            if no_tool_similarity is not None:
                chances = supported(chances, chosen.own(self._asking(no_tool_similarity, cosines.max(axis=1))))
        servers = self.index.keyword.server_of[chosen.positions]
        support = _support(servers, chances, len(self.understood.terms))
        sure = self.calibration.gate if near is None else self.calibration.confidence
        unfamiliar = 0.0 if near is None else self.unfamiliar or 0.0
        parts = [
            ClauseScores(
                chosen=chosen.positions[own],
                rows=rows[own],
                query=self._queries[number],
                overlap=overlap[own],
                support=support[own],
                keyword=keyword[own],
                semantic=None if near is None else near[own],
                chances=chances[own],
                sure=_chance(sure, chances[own], rows[own], self._queries[number], unfamiliar),
            )
            for number, own in enumerate(chosen.rows)
        ]
        return Candidates(
            search=self,
            whole=parts[0],
            clauses=tuple(parts[1:]),
            no_tool_similarity=UNKNOWN_NO_TOOL_SIMILARITY
            if no_tool_similarity is None
            else float(no_tool_similarity[0]),
        )

    def _asking(self, no_tool_similarity: NDArray[Any], nearest: NDArray[np.float32]) -> Probabilities:
        """Return the factor for the odds of tools for the whole task and each part [1 + parts].

        It is below 1 for a part that begins with no action and is hardly more similar to a tool than to requests that
        need no tool. Most such sentences only describe the task.
        """
        doubt = np.maximum(0.0, no_tool_similarity - nearest + NEARER)
        acts = [True, *(part.acts for part in self.understood.parts)]
        return np.asarray(np.where(acts, 1.0, np.maximum(LEAST_ASKED, np.exp(-STEEPER * doubt))), np.float64)

    def _odds_factor(self, chosen: CandidateSet) -> Probabilities:
        """Return the factor for each candidate's odds [rows].

        It is below 1 for a deprecated tool, and for a tool that may change something if its part only reads and a twin
        is read-only.
        """
        said = self.understood
        reading = chosen.own(np.array([said.reads, *(part.reads for part in said.parts)], np.bool_))
        left = np.where(reading & self.index.keyword.write_variants[chosen.positions], CHANGES_UNASKED, 1.0)
        return left if self.index.deprecation_factor is None else left * self.index.deprecation_factor[chosen.positions]


def _chance(
    map_: LogisticMap, chances: Probabilities, rows: Rows, query: list[float], unfamiliar: float = 0.0
) -> float:
    return map_.chance(top_features(chances, rows, query, unfamiliar=unfamiliar)) if len(chances) else 0.0


def _support(servers: NDArray[np.int64], chances: Probabilities, terms: int) -> Probabilities:
    """Return the factor for each candidate's odds [rows]: 1 if its server has the best tool, otherwise less.

    A long task usually needs few servers. If a server has a tool that fits one part well, the other parts probably mean
    its tools, too.
    """
    if terms <= SHORT:
        return np.ones(len(chances))
    weight = min(1.0, (terms - SHORT) / (LONG - SHORT))
    best = np.zeros(servers.max(initial=0) + 1)
    np.maximum.at(best, servers, chances)
    return np.asarray(((best[servers] + LEAST) / (best.max() + LEAST)) ** weight, np.float64)
