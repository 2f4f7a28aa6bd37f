"""Both legs over one Index: the candidates of a query, with each leg's probabilities and the features behind them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Columns
from orchestrator.index.calibration import (
    NOT_IDLE,
    Calibration,
    Probabilities,
    most_by_meaning,
    most_of_a_question,
    top_features,
)
from orchestrator.index.features import (
    Chosen,
    Positions,
    Rows,
    best_positions,
    keyword_features,
    query_features,
    semantic_features,
    union,
)
from orchestrator.index.index import Index
from orchestrator.index.prerequisites import REQUIRING, Requirement
from orchestrator.index.vectors import SemanticIndex
from orchestrator.language.identified import identified_in
from orchestrator.routing.found import Candidates, ClauseFound
from orchestrator.routing.merge import blend
from orchestrator.routing.modes import DOES_WHAT_IS_ASKED_OF, fitting, only_told
from orchestrator.routing.parts import asking
from orchestrator.routing.support import staying, support, supported
from orchestrator.routing.understand import Clause, Understood

_CLAUSE_WIDTH = 10
"""Candidates of a leg that are looked at for one clause alone."""

_NAMED_WIDTH = 10
"""Candidates of a leg that are looked at among the tools of the servers that the query names."""


class Search:
    """One query against one Index.

    `allowed` [tools] leaves out what filters or negations exclude, as if it were not there; of the tools at `named`,
    those of servers that the query names, the best are candidates even where others score higher; `before` are the
    servers that the conversation may stay with, as numbers of the keyword leg.
    """

    def __init__(
        self,
        index: Index,
        understood: Understood,
        calibration: Calibration,
        *,
        width: int,
        allowed: NDArray[np.bool_] | None = None,
        named: Positions | None = None,
        before: Sequence[int] = (),
    ) -> None:
        self._index, self._understood, self._calibration = index, understood, calibration
        self._width, self._allowed = width, allowed
        self._named = np.zeros(0, np.int64) if named is None else named
        self._before = before
        self._semantic: SemanticIndex | None = None
        self._score(understood.parts)

    def _score(self, parts: Sequence[Clause]) -> None:
        """The keyword leg's scores and candidates of the whole and of these parts."""
        terms = [self._understood.terms, *(part.terms for part in parts)]
        pairs = [self._understood.pairs, *(part.pairs for part in parts)]
        self._keyword = self._index.keyword.score(*terms, pairs=pairs, among=self._allowed)
        self._query = query_features(self._keyword, terms)
        self._queries = np.array(self._query)
        self._words = self._candidates(self._keyword.parts)

    def by_keyword(self) -> Candidates:
        """The keyword leg alone: candidates that share a term with the query, and what the best of them require."""
        return self._describe(self._words)

    def by_both(
        self, semantic: SemanticIndex, vectors: NDArray[np.float32], no_tool: NDArray[np.float32] | None = None
    ) -> Candidates:
        """Both legs, each scoring the union of both legs' candidates. vectors: of what `Understood.texts` has but the
        earlier texts, [1 + parts + told, dimension]. no_tool: where the embedder sets what needs none [dimension]."""
        if self._understood.told:
            self._score((*self._understood.parts, *self._understood.told))
        cosines = semantic.score(vectors, self._allowed)
        self._semantic = semantic
        near = self._candidates(cosines)
        chosen = [union(cosines.shape[1], *both) for both in zip(self._words, near, strict=True)]
        if self._allowed is not None:
            chosen = [positions[self._allowed[positions]] for positions in chosen]
        return self._describe(chosen, cosines, None if no_tool is None else vectors @ no_tool)

    def _candidates(self, parts: NDArray[np.float32]) -> list[Positions]:
        """The best of each part by one leg's scores [parts, tools]; of the whole also the named servers' best, and
        the tools that give what the best require."""
        whole, clauses = parts[0], list(parts[1:])
        chosen = best_positions(whole, clauses, self._width)
        if len(self._named):
            chosen = union(len(whole), chosen, self._named[best_positions(whole[self._named], (), _NAMED_WIDTH)])
        if len(sources := self._sources(chosen[(-whole[chosen]).argsort(kind="stable")[:REQUIRING]])):
            chosen = union(len(whole), chosen, sources)
        return [chosen, *(best_positions(part, (), _CLAUSE_WIDTH) for part in clauses)]

    def _sources(self, best: Positions) -> Positions:
        """The tools that give what these require and the task does not."""
        found = [source for position in best.tolist() for own in self.unmet(position) for source in own.sources]
        sources = np.array(found, np.int64)
        return sources if self._allowed is None else sources[self._allowed[sources]]

    def unmet(self, position: int) -> tuple[Requirement, ...]:
        """What this tool requires that the task does not give and others may."""
        found = self._index.prerequisites.of(position)
        return tuple(own for own in found if not own.met_by(self._identified)) if found else found

    @cached_property
    def _identified(self) -> frozenset[str]:
        return identified_in(self._understood.asked)

    def confidence(self, found: Candidates) -> float:
        """The chance that the best candidate is right, after both legs."""
        return found.sure if found.merged is None else self.confidence_among(found, slice(None))

    def confidence_among(self, found: Candidates, mask: NDArray[np.bool_] | slice) -> float:
        """The same if only these candidates can be right."""
        if found.merged is None or self._semantic is None:
            return self._sure(found.keyword[mask], found.rows[mask], self._query[0])
        if not len(found.merged[mask]):
            return 0.0
        parts = found.of_clauses(heard=False)[:, mask] if found.clauses else None
        top = top_features(found.merged[mask], found.rows[mask], self._query[0], parts)
        most = most_by_meaning(found.merged[mask], found.rows[mask], found.overlap[mask], found.idle)
        most = min(most, most_of_a_question(found.merged[mask], found.fits[mask]))
        return min(self._calibration.confidence.chance(top), most)

    def _sure(self, probabilities: Probabilities, rows: Rows, query: list[float]) -> float:
        if not len(probabilities):
            return 0.0
        return self._calibration.gate.chance(top_features(probabilities, rows, query))

    @property
    def columns(self) -> Columns:
        """The postings of the query's words."""
        return self._keyword.columns

    def _describe(
        self,
        several: list[Positions],
        cosines: NDArray[np.float32] | None = None,
        idle: NDArray[np.float32] | None = None,
    ) -> Candidates:
        """The candidates of the whole, with those of the clauses described beside them. cosines: [parts, tools]; idle:
        each part's with what needs no tool [parts], where that is known."""
        asked = len(self._understood.parts)
        chosen = Chosen(several, asked)
        rows = keyword_features(self._index.keyword, self._keyword, chosen)
        query = chosen.own(self._queries)
        fits = self._fits(chosen, self._searched(len(several)))
        overlap = chosen.at(self._keyword.parts, chosen.positions) > 0
        keyword = chances = supported(self._calibration.keyword(rows, query) * overlap, fits)
        semantic, asks = None, np.ones(len(several))
        if cosines is not None and self._semantic is not None:
            meaning = semantic_features(self._semantic, cosines, chosen, self._allowed)
            rows, semantic, chances = self._with_meaning(meaning, rows, query, keyword, fits)
            if idle is not None:
                asks[1:] = self._asking(idle[1:], cosines[1:])
                chances = supported(chances, chosen.own(asks))
        servers = self._index.keyword.server_of[chosen.positions]
        if self._before:
            stays = staying(np.isin(servers, self._before), chances)
            keyword, chances = supported(keyword, stays), supported(chances, stays)
            semantic = None if semantic is None else supported(semantic, stays)
        beside = support(servers, chances, len(self._understood.terms))
        whole, *parts = chosen.rows
        found = [
            self._clause(
                several[number], rows[own], number, overlap[own], fits[own], chances[own], beside[own], asks[number]
            )
            for number, own in enumerate(parts, start=1)
        ]
        return Candidates(
            chosen=several[0],
            rows=rows[whole],
            query=self._query[0],
            keyword=keyword[whole],
            overlap=overlap[whole],
            fits=fits[whole],
            support=beside[whole],
            sure=self._sure(keyword[whole], rows[whole], self._query[0]) if semantic is None else 0.0,
            semantic=None if semantic is None else semantic[whole],
            merged=None if semantic is None else chances[whole],
            clauses=tuple(found[:asked]),
            told=tuple(found[asked:]),
            idle=NOT_IDLE if idle is None else float(idle[0]),
        )

    def _with_meaning(
        self, meaning: Rows, words: Rows, query: Rows, keyword: Probabilities, fits: Probabilities
    ) -> tuple[Rows, Probabilities, Probabilities]:
        """Both legs' features, the semantic leg's chances, and those of both."""
        rows = np.concatenate([words, meaning], axis=1)
        semantic = supported(self._calibration.semantic(meaning, query), fits)
        return rows, semantic, blend(keyword, semantic, supported(self._calibration.merged(rows, query), fits))

    def _searched(self, count: int) -> tuple[Clause, ...]:
        """The parts that are searched beside the whole; told ones are looked for by both legs alone."""
        parts = self._understood.parts
        return parts if count == 1 + len(parts) else (*parts, *self._understood.told)

    def _fits(self, chosen: Chosen, parts: Sequence[Clause]) -> NDArray[np.float64]:
        """What to multiply the odds of the candidates of the whole and of these parts with, by what they do."""
        said, tools = self._understood, self._index.catalogue.tools
        modes = np.array([said.mode, *(part.mode for part in parts)], np.int64)
        fits = fitting(chosen.own(modes), self._index.keyword.does[chosen.positions])
        for own, told in zip(chosen.rows, (said.tells_of, *(part.tells_of for part in parts)), strict=True):
            if told.verbs:
                covered = only_told([tools[position] for position in chosen.positions[own].tolist()], told)
                fits[own][covered] = DOES_WHAT_IS_ASKED_OF
        if (standing := self._index.standing) is not None:
            fits *= standing[chosen.positions]
        return fits

    def _asking(self, idle: NDArray[np.float32], cosines: NDArray[np.float32]) -> Probabilities:
        """What to multiply the odds of the tools of each part with [parts], as it may ask for nothing."""
        acts = [part.acts for part in (*self._understood.parts, *self._understood.told)]
        return asking(np.array(acts, np.bool_), idle, cosines.max(axis=1))

    def _clause(
        self,
        chosen: Positions,
        rows: Rows,
        number: int,
        overlap: NDArray[np.bool_],
        fits: Probabilities,
        chances: Probabilities,
        support: Probabilities,
        asks: float,
    ) -> ClauseFound:
        query = self._query[number]
        if len(chosen) and self._semantic is not None:
            sure = self._calibration.confidence.chance(top_features(chances, rows, query))
        else:
            sure = self._sure(chances, rows, query)
        return ClauseFound(
            chosen=chosen,
            rows=rows,
            query=query,
            overlap=overlap,
            fits=fits,
            chances=chances,
            support=support,
            sure=sure,
            asking=asks,
        )
