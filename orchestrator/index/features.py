"""Features: a row of numbers for each candidate, comparable between queries and catalogues, for the fitted maps.

The task "list my repos" with two candidates gives, for the keyword leg, a matrix of two rows:

                            kw_share_of_best  kw_share_of_ceiling  ...  kw_pairs
    github:list_repos       1.0               0.41                 ...  0.3
    github:list_issues      0.6               0.25                 ...  0.0

To add a feature, append its name to `KEYWORD` or `SEMANTIC`, return its column from the function of that leg, and fit
the maps again (`python -m research.confidence`).
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Integers, Mask
from orchestrator.index.keyword import NAME_BIT, KeywordIndex, KeywordScores
from orchestrator.index.semantic import SemanticIndex

Positions = Integers
"""Candidates as positions in the catalogue, shape [candidates]."""
Rows = NDArray[np.float64]
"""Shape [candidates, features]."""
Column = NDArray[Any]
"""One value for each candidate, shape [candidates]."""

QUERY = ("log_terms", "log_tools", "unknown")
ASKED = (*QUERY, "known_weight")
"""The features of a query. The maps of the legs read only QUERY."""
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
    "kw_pairs",
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
    "contrast_behind_best",
    "contrast_margin",
    "contrast_in_server",
)
SECOND = ("second_z", "second_cos")
"""The features of the encoder for other languages."""
_LEAST = 1e-9
"""The least divisor, for queries whose words no tool has."""


def query_features(
    scores: KeywordScores, parts: Sequence[Mapping[str, float]]
) -> list[list[float]]:
    """Return ASKED of each part: its terms, the catalogue's tools, the weight of unknown words and of the known ones.

    The last is their summed inverse document frequency, in tens.

    Args:
        scores: The BM25 scores.
        parts: The weighted terms of each part.
    """
    log_tools = math.log1p(scores.tools)
    rows = []
    for weights, known in zip(parts, scores.known_weights, strict=True):
        total = sum(weights.values()) or 1.0
        rows.append([math.log1p(len(weights)), log_tools, 1 - known.weight / total, known.idf / 10])
    return rows


class CandidateSet:
    """The candidates of each part of a query, part after part, the whole query first.

    Attributes:
        positions: The tool of each row of features [rows].
        rows: The range of rows of each part.
        clauses: The parts directly after the whole, which also judge its candidates.
    """

    def __init__(self, parts: Sequence[Positions], clauses: int) -> None:
        sizes = [len(positions) for positions in parts]
        self.clauses = slice(1, 1 + clauses)
        self.positions = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self.rows = [slice(start, end) for start, end in pairwise([0, *accumulate(sizes)])]
        self._part = np.arange(len(parts)).repeat(sizes) if len(parts) > 1 else None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def of_task(self) -> slice:
        """The rows of the whole query."""
        return self.rows[0]

    def per_row(self, of_parts: NDArray[Any]) -> NDArray[Any]:
        """Return each row's part of an array: [parts, ...] to [rows, ...], or to [1, ...] for a single part."""
        if self._part is None:
            return of_parts
        return of_parts[self._part]

    def pick(self, of_parts: NDArray[Any], columns: Integers) -> NDArray[Any]:
        """Return each row's value for its part and column, from [parts, columns] to [rows]."""
        part = 0 if self._part is None else self._part
        return np.asarray(of_parts[part, columns])


def keyword_features(index: KeywordIndex, scores: KeywordScores, candidates: CandidateSet) -> Rows:
    """Return the KEYWORD features of the candidates.

    Args:
        index: The index.
        scores: The BM25 scores.
        candidates: The candidates.
    """
    if not len(candidates):
        return np.zeros((0, len(KEYWORD)))
    positions = candidates.positions
    servers = index.server_of[positions]
    score = candidates.pick(scores.parts, positions).astype(np.float64)
    ranking = _ranking(score, candidates)
    best = candidates.per_row(np.maximum(ranking.best, _LEAST))
    ceiling = candidates.per_row(np.maximum(scores.ceilings, _LEAST))
    shared_weight = _shared_weight(scores, candidates)
    share_of_best = score / best
    columns: dict[str, Column] = {
        "kw_share_of_best": share_of_best,
        "kw_share_of_ceiling": score / ceiling,
        "kw_margin": ranking.margins / best,
        "kw_log_rank": np.log1p(ranking.ranks),
        "kw_best_clause": _best_clause_share(scores, candidates, share_of_best),
        "kw_server": scores.servers[servers],
        "name_in_query": shared_weight.idf_in_name
        / np.maximum(index.name_weight[positions], _LEAST),
        "query_in_name": shared_weight.in_name,
        "query_in_tool": shared_weight.in_tool,
        "server_in_query": candidates.pick(scores.server_name_shares, servers),
        "kw_pairs": candidates.pick(scores.pairs, positions)
        * index.postings.single_mention[positions]
        / 10,
    }
    return _matrix(columns, KEYWORD)


def _best_clause_share(
    scores: KeywordScores, candidates: CandidateSet, share_of_best: Column
) -> Column:
    """Return the share of a clause's best score. Candidates of the whole query have that of their best clause."""
    clauses = scores.parts[candidates.clauses]
    if not len(clauses):
        return share_of_best
    column = share_of_best.copy()
    best = np.maximum(clauses.max(axis=1, keepdims=True), _LEAST)
    shares = clauses[:, candidates.positions[candidates.of_task]] / best
    column[candidates.of_task] = shares.max(axis=0)
    return column


def semantic_features(
    index: SemanticIndex,
    cosines: NDArray[np.float32],
    candidates: CandidateSet,
    contrasted: NDArray[np.float32],
    among: Mask | None = None,
) -> Rows:
    """Return the SEMANTIC features of the candidates.

    Args:
        index: The index.
        cosines: Cosines, shape [parts, tools].
        candidates: The candidates.
        contrasted: The vectors whose products with the tools' vectors tell sister tools apart [parts, dimension].
        among: True for each searched tool [tools].
    """
    if not len(candidates):
        return np.zeros((0, len(SEMANTIC)))
    exact = cosines.astype(np.float64)
    cosine = candidates.pick(exact, candidates.positions)
    ranking = _ranking(cosine, candidates)
    mean, deviation = _spread(exact, among)
    behind_best = cosine - candidates.per_row(ranking.best)
    log_rank = np.log1p(ranking.ranks)
    best_clause = behind_best
    clause_rank = log_rank
    clauses = exact[candidates.clauses]
    if len(clauses):
        behind = clauses[:, candidates.positions[candidates.of_task]] - clauses.max(
            axis=1, keepdims=True
        )
        best_clause = behind_best.copy()
        best_clause[candidates.of_task] = behind.max(axis=0)
        clause_rank = log_rank.copy()
        clause_rank[candidates.of_task] = _best_rank(behind)
    contrast = _contrast(index, contrasted, candidates)
    contrast_ranking = _ranking(contrast, candidates)
    columns: dict[str, Column] = {
        "cos": cosine,
        "cos_behind_best": behind_best,
        "cos_margin": ranking.margins,
        "cos_log_rank": log_rank,
        "cos_z": (cosine - candidates.per_row(mean)) / candidates.per_row(deviation),
        "cos_best_clause": best_clause,
        "cos_server": _behind_best_server(index, exact, candidates, among),
        "cos_clause_rank": clause_rank,
        "contrast_behind_best": contrast - candidates.per_row(contrast_ranking.best),
        "contrast_margin": contrast_ranking.margins,
        "contrast_in_server": _behind_best_of_server(index, contrast, candidates),
    }
    return _matrix(columns, SEMANTIC)


def second_features(
    cosines: NDArray[np.float32], candidates: CandidateSet, among: Mask | None = None
) -> Rows:
    """Return the SECOND features of the candidates: the cosine, also in deviations above the part's mean.

    Args:
        cosines: The second encoder's cosines, shape [parts, tools].
        candidates: The candidates.
        among: True for each searched tool [tools].
    """
    exact = cosines.astype(np.float64)
    cosine = candidates.pick(exact, candidates.positions)
    mean, deviation = _spread(exact, among)
    above = (cosine - candidates.per_row(mean)) / candidates.per_row(deviation)
    return _matrix({"second_z": above, "second_cos": cosine}, SECOND)


def _contrast(
    index: SemanticIndex, contrasted: NDArray[np.float32], candidates: CandidateSet
) -> Column:
    """Return the product of each candidate's vector with the contrasted vector of its part."""
    vectors = index.vectors[candidates.positions]
    column = np.empty(len(candidates))
    for part, rows in enumerate(candidates.rows):
        column[rows] = vectors[rows] @ contrasted[part]
    return column


def _behind_best_of_server(
    index: SemanticIndex, values: Column, candidates: CandidateSet
) -> Column:
    """Return each value less the best one of its server in its part."""
    servers, server_row = np.unique(index.server_of[candidates.positions], return_inverse=True)
    column = values.copy()
    for rows in candidates.rows:
        best = np.full(len(servers), -np.inf)
        np.maximum.at(best, server_row[rows], values[rows])
        column[rows] -= best[server_row[rows]]
    return column


def _behind_best_server(
    index: SemanticIndex, cosines: Rows, candidates: CandidateSet, among: Mask | None
) -> Column:
    """Return the cosine of each candidate's server, less that of the best server among its part's candidates."""
    servers, server_row = np.unique(index.server_of[candidates.positions], return_inverse=True)
    column = candidates.pick(index.server_scores(cosines, servers, among), server_row)
    for rows in candidates.rows:
        column[rows] -= column[rows].max(initial=-1)
    return column


def _matrix(columns: Mapping[str, Column], names: Sequence[str]) -> Rows:
    """Return columns side by side in the order of the names."""
    matrix = np.empty((len(columns[names[0]]), len(names)))
    for number, name in enumerate(names):
        matrix[:, number] = columns[name]
    return matrix


def _spread(cosines: Rows, among: Mask | None) -> tuple[Rows, Rows]:
    """Return mean and standard deviation of each part's cosines with the searched tools."""
    searched = cosines if among is None else cosines[:, among]
    # A product with a vector would run on all threads of BLAS, which spin while they wait.
    count = max(searched.shape[1], 1)  # Filters may leave no tool.
    mean = searched.sum(axis=1) / count
    variance = np.einsum("ij,ij->i", searched, searched) / count - mean * mean
    return mean, np.sqrt(np.maximum(variance, 1e-12))


class _Ranking(NamedTuple):
    """Values compared within their part.

    Attributes:
        best: Each part's best value [parts].
        margins: Each value's lead over its part's best other value, negative for all but the best [rows].
        ranks: Each value's rank in its part, from 0 [rows]. Equal values keep their order.
    """

    best: Rows
    margins: Column
    ranks: Integers


def _ranking(values: Column, candidates: CandidateSet) -> _Ranking:
    ranking = _Ranking(
        best=np.zeros(len(candidates.rows)),
        margins=np.empty(len(values)),
        ranks=np.empty(len(values), np.int64),
    )
    for part, rows in enumerate(candidates.rows):
        of_part = values[rows]
        if not len(of_part):
            continue
        order = (-of_part).argsort(kind="stable")
        best = of_part[order[0]]
        # A tool without a rival leads by all that it has.
        second = of_part[order[1]] if len(order) > 1 else 0.0
        ranking.best[part] = best
        ranking.ranks[rows][order] = np.arange(len(order))
        ranking.margins[rows] = of_part - best
        ranking.margins[rows][order[0]] = best - second
    return ranking


def _best_rank(clauses: NDArray[Any]) -> Rows:
    """Return the log of each candidate's best rank by any clause [clauses, candidates]: a tool may serve one alone."""
    ranks = (-clauses).argsort(axis=1, kind="stable").argsort(axis=1)
    return np.asarray(np.log1p(ranks.min(axis=0)), np.float64)


class _SharedWeight(NamedTuple):
    """The weight of a part's words in its candidates.

    Attributes:
        in_tool: The share of the words' weight that the tool holds.
        in_name: The share of the words' weight that the tool's name holds.
        idf_in_name: The summed inverse document frequency of the words in the tool's name, as of the names' weights.
    """

    in_tool: Column
    in_name: Column
    idf_in_name: Column


def _shared_weight(scores: KeywordScores, candidates: CandidateSet) -> _SharedWeight:
    columns = scores.columns
    # A rare word says more about the tool that holds it than a frequent one.
    weight = columns.idf * scores.word_weights
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), _LEAST)
    asked_idf = columns.idf_of_all * (scores.word_weights > 0)
    fields = columns.field_bits.take(candidates.positions, axis=1)
    in_tool = (fields > 0).astype(np.float64)
    in_name = (fields & NAME_BIT > 0).astype(np.float64)
    rows = np.arange(len(candidates))
    return _SharedWeight(
        in_tool=candidates.pick(share @ in_tool, rows),
        in_name=candidates.pick(share @ in_name, rows),
        idf_in_name=candidates.pick(asked_idf @ in_name, rows),
    )


def union(size: int, *several: Positions) -> Positions:
    """Return all of these positions within `size`, in order, each once."""
    is_member = np.zeros(size, np.bool_)
    for positions in several:
        is_member[positions] = True
    return is_member.nonzero()[0]


def rows_of(positions: Positions, candidates: Positions) -> tuple[Integers, Mask]:
    """Return the row of each position among candidates, and whether it is one of them. Both [positions].

    Args:
        positions: The positions to find.
        candidates: The candidates, ascending.
    """
    if not len(candidates):
        return np.zeros(len(positions), np.int64), np.zeros(len(positions), np.bool_)
    rows = candidates.searchsorted(positions).clip(max=len(candidates) - 1)
    return rows, candidates[rows] == positions


def highest(scores: NDArray[np.float32], width: int) -> Positions:
    """Return the positions of the best `width` scores that are not 0, in no order."""
    # Selecting among thousands of equal values, and nonzero of floats, take ten times as long each.
    scored: Positions = (scores != 0).nonzero()[0]
    if len(scored) <= width:
        return scored
    best = scores[scored].argpartition(len(scored) - width)[-width:]
    return scored[best]
