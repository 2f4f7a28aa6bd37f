"""Features: a row of numbers for each candidate, comparable between queries and catalogues, for the fitted maps."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.embed import SemanticIndex
from orchestrator.index.keyword import NAME_BIT, KeywordIndex, KeywordScores

Positions = NDArray[np.int64]
"""Candidates as positions in the catalogue, shape [candidates]."""
Rows = NDArray[np.float64]
"""Shape [candidates, features]."""

QUERY = ("log_terms", "log_tools", "unknown")
ASKED = (*QUERY, "known_weight")
"""The features of a query. The maps of the legs read only QUERY."""
KEYWORD = tuple(
    "kw_share_of_best kw_share_of_ceiling kw_margin kw_log_rank kw_best_clause kw_server name_in_query query_in_name "
    "query_in_tool server_in_query kw_pairs".split()
)
SEMANTIC = tuple("cos cos_behind_best cos_margin cos_log_rank cos_z cos_best_clause cos_server cos_clause_rank".split())


def query_features(scores: KeywordScores, parts: Sequence[Mapping[str, float]]) -> list[list[float]]:
    """Return ASKED of each part: its terms, the catalogue's tools, the weight of unknown words and of the known ones.

    The last is their summed inverse document frequency, in tens.
    """
    size = math.log1p(scores.tools)
    return [
        [math.log1p(len(weighted)), size, 1 - known / (sum(weighted.values()) or 1.0), says / 10]
        for weighted, (known, says) in zip(parts, scores.says, strict=True)
    ]


class CandidateSet:
    """The candidates of each part of a query, part after part, the whole query first.

    `clauses` are the parts directly after the whole, which also judge its candidates. `positions` [rows] has the tool
    of each row of features. `rows` has the range of each part.
    """

    def __init__(self, parts: Sequence[Positions], clauses: int) -> None:
        self.clauses = slice(1, 1 + clauses)
        self.positions = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self.rows = [slice(*bounds) for bounds in pairwise([0, *accumulate(map(len, parts))])]
        self._part = np.arange(len(parts)).repeat([len(own) for own in parts]) if len(parts) > 1 else None

    def __len__(self) -> int:
        return len(self.positions)

    def own(self, of_parts: NDArray[Any]) -> NDArray[Any]:
        """Return each row's part of an array: [parts, ...] to [rows, ...], or to [1, ...] for a single part."""
        return of_parts if self._part is None else of_parts[self._part]

    def at(self, of_parts: NDArray[Any], columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return each row's value for its part and column, from [parts, columns] to [rows]."""
        return of_parts[0][columns] if self._part is None else of_parts[self._part, columns]


def keyword_features(index: KeywordIndex, scores: KeywordScores, chosen: CandidateSet) -> Rows:
    """Return the KEYWORD features of the chosen candidates.

    Args:
        index: The index.
        scores: The BM25 scores.
        chosen: The candidates.
    """
    if not len(chosen):
        return np.zeros((0, len(KEYWORD)))
    positions = chosen.positions
    own = chosen.at(scores.parts, positions).astype(np.float64)
    best, margins, ranks = _ranked(own, chosen)
    most = chosen.own(np.maximum(best, 1e-9))
    servers = index.server_of[positions]
    held, named, said = _holdings(scores, chosen)
    rows = np.empty((len(chosen), len(KEYWORD)))
    rows[:, 0] = rows[:, 4] = own / most
    rows[:, 1] = own / chosen.own(np.maximum(scores.ceilings, 1e-9))
    rows[:, 2] = margins / most
    rows[:, 3] = np.log1p(ranks)
    rows[:, 5] = scores.servers[servers]
    rows[:, 6] = said / np.maximum(index.name_weight[positions], 1e-9)
    rows[:, 7] = named
    rows[:, 8] = held
    rows[:, 9] = chosen.at(scores.named, servers)
    rows[:, 10] = chosen.at(scores.pairs, positions) * index.postings.one[positions] / 10
    if len(clauses := scores.parts[chosen.clauses]):
        whole = chosen.rows[0]
        shares = clauses[:, positions[whole]] / np.maximum(clauses.max(axis=1, keepdims=True), 1e-9)
        rows[whole, 4] = shares.max(axis=0)
    return rows


def semantic_features(
    index: SemanticIndex,
    cosines: NDArray[np.float32],
    chosen: CandidateSet,
    among: NDArray[np.bool_] | None = None,
    spread: tuple[Rows, Rows] | None = None,
) -> Rows:
    """Return the SEMANTIC features of the chosen candidates.

    Args:
        index: The index.
        cosines: Cosines, shape [parts, tools].
        chosen: The candidates.
        among: True for each searched tool [tools].
        spread: Mean and standard deviation of all tools' cosines [parts], if these are only some of the tools.
    """
    if not len(chosen):
        return np.zeros((0, len(SEMANTIC)))
    positions = chosen.positions
    exact = cosines.astype(np.float64)
    own = chosen.at(exact, positions)
    best, margins, ranks = _ranked(own, chosen)
    mean, deviation = _spread(exact, among) if spread is None else spread
    near, place_of = np.unique(index.server_of[positions], return_inverse=True)
    servers = chosen.at(index.server_scores(exact, near, among), place_of)
    rows = np.empty((len(chosen), len(SEMANTIC)))
    rows[:, 0] = own
    rows[:, 1] = rows[:, 5] = own - chosen.own(best)
    rows[:, 2] = margins
    rows[:, 3] = rows[:, 7] = np.log1p(ranks)
    rows[:, 4] = (own - chosen.own(mean)) / chosen.own(deviation)
    rows[:, 6] = servers
    for place in chosen.rows:
        rows[place, 6] -= servers[place].max(initial=-1)
    if len(clauses := exact[chosen.clauses]):
        whole = chosen.rows[0]
        behind = clauses[:, positions[whole]] - clauses.max(axis=1, keepdims=True)
        rows[whole, 5] = behind.max(axis=0)
        rows[whole, 7] = _best_rank(behind)
    return rows


def _spread(cosines: Rows, among: NDArray[np.bool_] | None) -> tuple[Rows, Rows]:
    share = (np.ones(cosines.shape[1]) if among is None else among) / (
        cosines.shape[1] if among is None else among.sum()
    )
    mean = cosines @ share
    return mean, np.sqrt(np.maximum((cosines * cosines) @ share - mean * mean, 1e-12))


def _ranked(values: Rows, chosen: CandidateSet) -> tuple[Rows, Rows, NDArray[np.int64]]:
    """Return each part's best value, and each value's lead over its part's best other value and its rank in its part.

    Leads are negative for all but the best. Ranks begin at 0. Equal values keep their order.
    """
    best = np.zeros(len(chosen.rows))
    margins, ranks = np.empty(len(values)), np.empty(len(values), np.int64)
    for part, rows in enumerate(chosen.rows):
        own = values[rows]
        order = (-own).argsort(kind="stable")
        ranks[rows][order] = np.arange(len(own))
        if len(own):
            first, second = own[order[0]], own[order[1]] if len(own) > 1 else 0.0
            best[part] = first
            margins[rows] = own - first
            margins[rows][order[0]] = first - second
    return best, margins, ranks


def _best_rank(clauses: NDArray[Any]) -> Rows:
    """Return the log of each candidate's best rank by any clause [clauses, candidates]: a tool may serve one alone."""
    ranks = (-clauses).argsort(axis=1, kind="stable").argsort(axis=1)
    return np.asarray(np.log1p(ranks.min(axis=0)), np.float64)


def _holdings(scores: KeywordScores, chosen: CandidateSet) -> tuple[Rows, Rows, Rows]:
    """Return the share of its part's weight that each candidate holds, that its name holds, and its name's weight."""
    columns = scores.columns
    weight = columns.idf * scores.asked
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
    fields = columns.held.take(chosen.positions, axis=1)
    held, named = (fields > 0).astype(np.float64), (fields & NAME_BIT > 0).astype(np.float64)
    said = columns.idf_of_all * (scores.asked > 0)  # As the names' weights are.
    rows = np.arange(len(chosen))
    return chosen.at(share @ held, rows), chosen.at(share @ named, rows), chosen.at(said @ named, rows)


def union(size: int, *several: Positions) -> Positions:
    """Return all of these positions within `size`, in order, each once."""
    there = np.zeros(size, np.bool_)
    for positions in several:
        there[positions] = True
    return there.nonzero()[0]


def places_among(chosen: Positions, positions: Positions) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the places of these positions among the chosen ones, which are ascending, and True for those found. Both
    [positions].
    """
    if not len(chosen):
        return np.zeros(len(positions), np.int64), np.zeros(len(positions), np.bool_)
    places = chosen.searchsorted(positions).clip(max=len(chosen) - 1)
    return places, chosen[places] == positions


def highest(scores: NDArray[np.float32], width: int) -> Positions:
    """Return the positions of the best `width` scores that are not 0, in no order."""
    # Selecting among thousands of equal values, and nonzero of floats, take ten times as long each.
    found: Positions = (scores != 0).nonzero()[0]
    if len(found) > width:
        found = found[scores[found].argpartition(len(found) - width)[-width:]]
    return found
