"""What the fitted maps read: a row of numbers for each candidate, comparable between queries and catalogues."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.stages.keyword import NAME_BIT, KeywordIndex, KeywordScores
from orchestrator.stages.semantic import SemanticIndex, SemanticScores

Positions = NDArray[np.int64]
"""Candidates as positions in the catalogue, shape [candidates]."""
Rows = NDArray[np.float64]
"""Shape [candidates, features]."""

QUERY = ("log_terms", "log_tools", "unknown")
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
)
SEMANTIC = ("cos", "cos_behind_best", "cos_margin", "cos_log_rank", "cos_z", "cos_best_clause", "cos_server")


def query_features(index: KeywordIndex, weighted: Mapping[str, float]) -> list[float]:
    """QUERY: how much was asked, of how large a catalogue, and the share of its weight in words nobody uses."""
    total = sum(weighted.values()) or 1.0
    known = sum(weight for term, weight in weighted.items() if index.postings and term in index.postings)
    return [math.log1p(len(weighted)), math.log1p(len(index.tools)), 1 - known / total]


def keyword_features(
    index: KeywordIndex,
    weighted: Mapping[str, float],
    scores: KeywordScores,
    chosen: Positions,
) -> Rows:
    """KEYWORD, for the chosen candidates."""
    postings = index.postings
    if postings is None or not len(chosen):
        return np.zeros((len(chosen), len(KEYWORD)))
    own = scores.whole[chosen].astype(np.float64)
    best = max(float(scores.whole.max()), 1e-9)
    clause = np.zeros(len(chosen))
    for part in scores.clauses:
        clause = np.maximum(clause, part[chosen] / max(float(part.max()), 1e-9))
    servers = scores.servers[index.server_of[chosen]] / max(float(scores.servers.max()), 1e-9)
    held, named, said = _holdings(index, weighted, chosen)
    total = max(sum(postings.idf.get(term, 0.0) * weight for term, weight in weighted.items()), 1e-9)
    server = np.array([_share(index.server_terms[i], weighted) for i in index.server_of[chosen].tolist()])
    columns = (
        own / best,
        own / max(postings.ceiling(weighted), 1e-9),
        _margins(own) / best,
        np.log1p(_ranks(own)),
        clause if scores.clauses else own / best,
        servers,
        said / np.maximum(index.name_weight[chosen], 1e-9),
        named / total,
        held / total,
        server,
    )
    return np.column_stack(columns)


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
    columns = (
        own,
        own - best,
        _margins(own),
        np.log1p(_ranks(own)),
        (own - float(cosines.mean())) / max(float(cosines.std()), 1e-6),
        clause,
        servers - float(servers.max()),
    )
    return np.column_stack(columns)


def _margins(values: Rows) -> Rows:
    """Each value's lead over the best other one (negative for all but the best)."""
    if len(values) < 2:
        return values.copy()
    top = np.partition(values, -2)[-2:]
    return np.asarray(values - np.where(values == top[1], top[0], top[1]), np.float64)


def _ranks(values: Rows) -> Rows:
    """0 for the best; equal values keep their order."""
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks


def _holdings(index: KeywordIndex, weighted: Mapping[str, float], chosen: Positions) -> tuple[Rows, Rows, Rows]:
    """For each candidate the query's weight that it holds, that its name holds, and its name's weight that is said."""
    if index.postings is None:
        return np.zeros(len(chosen)), np.zeros(len(chosen)), np.zeros(len(chosen))
    known = [term for term in weighted if term in index.postings.idf]
    idf = np.array([index.postings.idf[term] for term in known])
    weight = idf * np.array([weighted[term] for term in known])
    fields = index.postings.holding(known, chosen)
    in_name = (fields & NAME_BIT) > 0
    return weight @ (fields > 0), weight @ in_name, idf @ in_name


def _share(words: frozenset[str], weighted: Mapping[str, float]) -> float:
    return sum(1 for word in words if word in weighted) / len(words) if words else 0.0


def best_positions(whole: NDArray[np.float32], clauses: tuple[NDArray[np.float32], ...], width: int) -> Positions:
    """The best `width` of the whole and the best third of that of each clause, unordered, unique."""
    picks = [_best(whole, width), *(_best(part, max(width // 3, 5)) for part in clauses)]
    return np.unique(np.concatenate(picks))


def _best(scores: NDArray[np.float32], width: int) -> Positions:
    # Zeros are left out first: selecting among thousands of equal values takes ten times as long.
    found = np.flatnonzero(scores)
    if len(found) <= width:
        return found
    return found[np.argpartition(scores[found], len(found) - width)[-width:]]
