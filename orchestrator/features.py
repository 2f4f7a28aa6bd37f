"""What the fitted maps read: a row of numbers for each candidate, comparable between queries and catalogues."""

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    known, says = index.postings.says(weighted)
    return [math.log1p(len(weighted)), math.log1p(len(index.tools)), 1 - known / total, says / 10]


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
    best, margins, ranks = _standing(own)
    servers = index.server_of[chosen]
    held, named, said, total = _holdings(scores, chosen)
    rows = np.empty((len(chosen), len(KEYWORD)))
    rows[:, 0] = own / max(best, 1e-9)
    rows[:, 1] = own / max(index.postings.ceiling(weighted), 1e-9)
    rows[:, 2] = margins / max(best, 1e-9)
    rows[:, 3] = np.log1p(ranks)
    rows[:, 4] = rows[:, 0]
    rows[:, 5] = scores.servers[servers] / max(float(scores.servers.max()), 1e-9)
    rows[:, 6] = said / np.maximum(index.name_weight[chosen], 1e-9)
    rows[:, 7] = named / total
    rows[:, 8] = held / total
    rows[:, 9] = index.named_servers(weighted)[servers]
    rows[:, 10] = rows[:, 3]
    if scores.clauses:
        rows[:, 4] = reduce(np.maximum, [part[chosen] / max(float(part.max()), 1e-9) for part in scores.clauses])
        rows[:, 10] = _best_rank(scores.clauses, chosen)
    return rows


def semantic_features(index: SemanticIndex, scores: SemanticScores, chosen: Positions) -> Rows:
    """SEMANTIC, for the chosen candidates."""
    if not len(chosen):
        return np.zeros((0, len(SEMANTIC)))
    cosines = scores.whole.astype(np.float64)
    own = cosines[chosen]
    best, margins, ranks = _standing(own)
    mean = float(cosines.sum()) / len(cosines)
    spread = math.sqrt(max(float(cosines @ cosines) / len(cosines) - mean * mean, 0.0))
    servers = index.server_scores(cosines)[index.server_of[chosen]]
    rows = np.empty((len(chosen), len(SEMANTIC)))
    rows[:, 0] = own
    rows[:, 1] = own - best
    rows[:, 2] = margins
    rows[:, 3] = np.log1p(ranks)
    rows[:, 4] = (own - mean) / max(spread, 1e-6)
    rows[:, 5] = rows[:, 1]
    rows[:, 6] = servers - servers.max()
    rows[:, 7] = rows[:, 3]
    if scores.clauses:
        rows[:, 5] = reduce(np.maximum, [part[chosen] - part.max() for part in scores.clauses])
        rows[:, 7] = _best_rank(scores.clauses, chosen)
    return rows


def _standing(values: NDArray[Any]) -> tuple[float, Rows, NDArray[np.int64]]:
    """The best value, each one's lead over the best other one (negative for all but the best), and ranks.

    Rank 0 is the best; equal values keep their order.
    """
    order = (-values).argsort(kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    best = float(values[order[0]])
    margins = values - best
    margins[order[0]] = best - values[order[1]] if len(values) > 1 else best
    return best, margins, ranks


def _best_rank(clauses: tuple[NDArray[np.float32], ...], chosen: Positions) -> Rows:
    """The log of each candidate's best rank among the candidates by any clause: a tool may serve one clause alone."""
    ranks = [_standing(part[chosen])[2] for part in clauses]
    return np.asarray(np.log1p(reduce(np.minimum, ranks)), np.float64)


def _holdings(scores: KeywordScores, chosen: Positions) -> tuple[Rows, Rows, Rows, float]:
    """For each candidate the query's weight that it holds, that its name holds, and its name's weight that is said.

    The last is the weight of all the query's known words.
    """
    columns, asked = scores.columns, scores.asked[0]
    weight = columns.idf * asked
    fields = columns.held.take(chosen, axis=1)
    held, named = (fields > 0).astype(np.float64), (fields & NAME_BIT > 0).astype(np.float64)
    return weight @ held, weight @ named, (columns.idf * (asked > 0)) @ named, max(float(weight.sum()), 1e-9)


def union(size: int, *several: Positions) -> Positions:
    """All of these positions within `size`, in order, each once."""
    there = np.zeros(size, np.bool_)
    for positions in several:
        there[positions] = True
    return there.nonzero()[0]


def best_positions(whole: NDArray[np.float32], clauses: tuple[NDArray[np.float32], ...], width: int) -> Positions:
    """The best `width` of the whole and the best third of that of each clause, in order, each once."""
    return union(len(whole), _best(whole, width), *(_best(part, max(width // 3, 5)) for part in clauses))


def _best(scores: NDArray[np.float32], width: int) -> Positions:
    # Zeros are left out first: selecting among thousands of equal values takes ten times as long.
    # Booleans first: numpy finds the nonzero among floats ten times as slowly.
    found: Positions = (scores != 0).nonzero()[0]
    if len(found) > width:
        found = found[scores[found].argpartition(len(found) - width)[-width:]]
    return found
