"""Trials: a query whose right tools are known, tried on an Index by each leg, with those tools there and taken away."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import Calibration
from orchestrator.index.coverage import conformity
from orchestrator.index.embed import Embedder, no_tool_of
from orchestrator.index.index import Index
from orchestrator.index.prerequisites import Requirement, raised_among
from orchestrator.records.request import MAX_LIMIT
from orchestrator.records.tool import Tool
from orchestrator.routing.found import Candidates, Opening
from orchestrator.routing.parts import raised_by_parts
from orchestrator.routing.search import Search
from orchestrator.routing.select import kept_of
from orchestrator.routing.support import supported_behind_best
from orchestrator.routing.understand import understand

WIDTH = 30
"""Candidates of a leg, as `route` looks at by default: how sure it is depends on them."""
DEEP = 3 * MAX_LIMIT
"""The same for a coverage set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one way of searching says of a query: how sure it is of its best tool, and whether that is right.

    `absent`: how sure it is where the right tools are taken away. `order`: the best 50, as positions in the catalogue.
    `needs`: how many of the best hold all right tools, infinite where 50 do not; `conformity`: see coverage.py.
    """

    confidence: float
    right: bool
    absent: float
    order: tuple[int, ...]
    conformity: float
    needs: float
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A query's claims by the keyword leg alone and by both; not answerable: no tool there is right.

    `opening` is what opens the gate between them, `opening_absent` the same where the right tools are taken away.
    """

    query: str
    answerable: bool
    opening: Opening
    opening_absent: Opening
    keyword: Claim
    both: Claim


def tried(
    index: Index, maps: Calibration, embedder: Embedder, query: str, right: Collection[int], *, deep: bool = False
) -> Trial:
    """The query tried on the index; `right` are the positions of the tools that answer it.

    `deep`: the orders are those of a coverage set, which looks at more candidates.
    """
    understood = understand(query, known=index.keyword.terms, names=index.keyword.terms_of_names)
    vectors = embedder.embed(understood.texts)
    others = np.ones(len(index.catalogue), np.bool_)
    others[list(right)] = False

    def search(width: int, allowed: NDArray[np.bool_] | None) -> _Found:
        found = Search(index, understood, maps, width=width, allowed=allowed)
        words = found.by_keyword()
        both = found.by_both(index.semantic(embedder), vectors, no_tool_of(embedder))
        orders = [_ordered(one, index.catalogue.tools, found.unmet) for one in (words, both)]
        return _Found(words.opening, words.sure, found.confidence(both), *orders)

    there, away = search(WIDTH, None), search(WIDTH, others)
    far = search(DEEP, None) if deep else there
    return Trial(
        query=query,
        answerable=bool(right),
        opening=there.opening,
        opening_absent=away.opening,
        keyword=_claim(next(iter(there.words), -1), far.words, there.sure_by_words, away.sure_by_words, right),
        both=_claim(next(iter(there.both), -1), far.both, there.sure, away.sure, right),
    )


class _Found(NamedTuple):
    """What opens the gate, how sure the keyword leg and both are of their best, and the scores of each, best first."""

    opening: Opening
    sure_by_words: float
    sure: float
    words: dict[int, float]
    both: dict[int, float]


def _ordered(
    found: Candidates, tools: Sequence[Tool], unmet: Callable[[int], tuple[Requirement, ...]]
) -> dict[int, float]:
    """The scores of the best 50, best first, as `route` has them: servers and parts heard, sources raised, deprecated
    tools lowered."""
    kept = kept_of(tools, found.chosen.tolist())
    own = supported_behind_best(found.keyword if found.merged is None else found.merged, found.support) * kept
    chances = raised_by_parts(own, found.of_clauses() * kept)
    scores = dict(zip(found.chosen.tolist(), chances.tolist(), strict=True))
    scores |= {position: raised.score for position, raised in raised_among(scores, unmet).items()}
    return dict(sorted(scores.items(), key=lambda scored: -scored[1])[:MAX_LIMIT])


def _claim(best: int, scores: Mapping[int, float], confidence: float, absent: float, right: Collection[int]) -> Claim:
    """best: the position of the tool that the confidence is about, -1 for none."""
    places = [place for place, position in enumerate(scores, start=1) if position in right]
    return Claim(
        confidence=confidence,
        right=best in right,
        absent=absent,
        order=tuple(scores),
        conformity=conformity(list(scores.values()), [position in right for position in scores], len(right)),
        needs=max(places, default=0) if len(places) == len(right) else inf,
        scores=tuple(scores.values()),
    )
