"""What the fitted maps read: a row of numbers for each candidate, comparable between queries and catalogues."""

import math
from collections.abc import Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from orchestrator.postings import Columns
from orchestrator.stages.keyword import NAME_BIT, KeywordIndex, KeywordScores
from orchestrator.stages.semantic import SemanticIndex, SemanticScores

Positions = NDArray[np.int64]
"""Candidates as positions in the catalogue, shape [candidates]."""
Rows = NDArray[np.float64]
"""Shape [candidates, features]."""

QUERY = ("log_terms", "log_tools", "unknown")
ASKED = (*QUERY, "known_weight")
"""What is known of a query; the legs' maps read QUERY alone."""
KEYWORD = (
    "kw_share_of_best",
    "kw_share_of_ceiling",
    "kw_margin",
    "kw_log_rank",
    "kw_best_clause",
    "kw_server",
    "name_in_query",
    "query_in_name",
    "query_in_tool",
    "server_in_query",
    "kw_clause_rank",
)
SEMANTIC = (
    "cos",
    "cos_behind_best",
    "cos_margin",
    "cos_log_rank",
    "cos_z",
    "cos_best_clause",
    "cos_server",
    "cos_clause_rank",
)


def query_features(index: KeywordIndex, weighted: Mapping[str, float]) -> list[float]:
    """ASKED: how much was asked, of how large a catalogue, the share of its weight in words nobody uses, and how much
    the others say: their summed inverse document frequency, in tens."""
    total = sum(weighted.values()) or 1.0
    known = sum(weight for term, weight in weighted.items() if term in index.postings)
    says = index.postings.says(weighted) / 10
    return [math.log1p(len(weighted)), math.log1p(len(index.tools)), 1 - known / total, says]


def keyword_features(
    index: KeywordIndex,
    weighted: Mapping[str, float],
    scores: KeywordScores,
    chosen: Positions,
) -> Rows:
    """KEYWORD, for the chosen candidates."""
    if not len(chosen):
        return np.zeros((0, len(KEYWORD)))
    own = scores.whole[chosen].astype(np.float64)
    best = max(float(scores.whole.max()), 1e-9)
    servers = index.server_of[chosen]
    held, named, said, total = _holdings(scores.columns, weighted, chosen)
    rows = np.empty((len(chosen), len(KEYWORD)))
    rows[:, 0] = own / best
    rows[:, 1] = own / max(index.postings.ceiling(weighted), 1e-9)
    rows[:, 2] = _margins(own) / best
    rows[:, 3] = np.log1p(_ranks(own))
    rows[:, 4] = _best_clause(scores, chosen) if scores.clauses else rows[:, 0]
    rows[:, 5] = scores.servers[servers] / max(float(scores.servers.max()), 1e-9)
    rows[:, 6] = said / np.maximum(index.name_weight[chosen], 1e-9)
    rows[:, 7] = named / total
    rows[:, 8] = held / total
    rows[:, 9] = index.named_servers(weighted)[servers]
    rows[:, 10] = _best_rank(scores.clauses, chosen) if scores.clauses else rows[:, 3]
    return rows


def _best_clause(scores: KeywordScores, chosen: Positions) -> Rows:
    """For each candidate its largest share of the best score of a clause."""
    shares = [part[chosen] / max(float(part.max()), 1e-9) for part in scores.clauses]
    return np.asarray(reduce(np.maximum, shares), np.float64)


def semantic_features(index: SemanticIndex, scores: SemanticScores, chosen: Positions) -> Rows:
    """SEMANTIC, for the chosen candidates."""
    if not len(chosen):
        return np.zeros((0, len(SEMANTIC)))
    cosines = scores.whole
    own = cosines[chosen].astype(np.float64)
    best = float(cosines.max())
    clause = own - best
    if scores.clauses:
        clause = np.max([part[chosen] - part.max() for part in scores.clauses], axis=0)
    servers = index.server_scores(cosines, chosen)
    rows = np.empty((len(chosen), len(SEMANTIC)))
    rows[:, 0] = own
    rows[:, 1] = own - best
    rows[:, 2] = _margins(own)
    rows[:, 3] = np.log1p(_ranks(own))
    rows[:, 4] = (own - float(cosines.mean())) / max(float(cosines.std()), 1e-6)
    rows[:, 5] = clause
    rows[:, 6] = servers - float(servers.max())
    rows[:, 7] = _best_rank(scores.clauses, chosen) if scores.clauses else rows[:, 3]
    return rows


def _margins(values: Rows) -> Rows:
    """Each value's lead over the best other one (negative for all but the best)."""
    if len(values) < 2:
        return values.copy()
    second, first = np.partition(values, -2)[-2:].tolist()
    return np.asarray(values - np.where(values == first, second, first), np.float64)


def _ranks(values: Rows | NDArray[np.float32]) -> Rows:
    """0 for the best; equal values keep their order."""
    ranks = np.empty(len(values))
    ranks[(-values).argsort(kind="stable")] = np.arange(len(values))
    return ranks


def _best_rank(clauses: tuple[NDArray[np.float32], ...], chosen: Positions) -> Rows:
    """The log of each candidate's best rank among the candidates by any clause: a tool may serve one clause alone."""
    ranks = [_ranks(part[chosen]) for part in clauses]
    return np.asarray(np.log1p(reduce(np.minimum, ranks)), np.float64)


def _holdings(columns: Columns, weighted: Mapping[str, float], chosen: Positions) -> tuple[Rows, Rows, Rows, float]:
    """For each candidate the query's weight that it holds, that its name holds, and its name's weight that is said.

    The last is the weight of all the query's known words.
    """
    asked = np.array([weighted.get(word, 0.0) for word in columns.words])
    weight = columns.idf * asked
    words, places, fields = columns.within(chosen)
    own, in_name = weight[words], (fields & NAME_BIT) > 0
    in_names = own * in_name, (columns.idf * (asked > 0))[words] * in_name
    held, named, said = (np.bincount(places, part, len(chosen)).astype(np.float64) for part in (own, *in_names))
    return held, named, said, max(float(weight.sum()), 1e-9)


def best_positions(whole: NDArray[np.float32], clauses: tuple[NDArray[np.float32], ...], width: int) -> Positions:
    """The best `width` of the whole and the best third of that of each clause, unordered, unique."""
    best = _best(whole, width)
    if not clauses:
        return np.sort(best)
    return np.unique(np.concatenate([best, *(_best(part, max(width // 3, 5)) for part in clauses)]))


def _best(scores: NDArray[np.float32], width: int) -> Positions:
    # Zeros are left out first: selecting among thousands of equal values takes ten times as long.
    # Booleans first: numpy finds the nonzero among floats ten times as slowly.
    found: Positions = (scores != 0).nonzero()[0]
    if len(found) > width:
        found = found[scores[found].argpartition(len(found) - width)[-width:]]
    return found
