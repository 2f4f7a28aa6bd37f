"""Rerank by the graph: tools that belong to the other candidates come before those that stand alone."""

from orchestrator.pipeline.refiners.health import health
from orchestrator.pipeline.state import Found, Ranking, Task

GRAPH, RELEVANCE, HEALTH = 0.6, 0.4, 0.05
"""The weights as ToolPilot states them; health is a small bonus on top."""
POOL = 30


def graph_rerank(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Order the best candidates by .6 graph + .4 relevance.

    Relevance is the score as a share of the best; the graph's part: edges to other candidates by weight and relevance
    of both, and the relevance of the candidates of the same server.
    """
    pool = ranking.order[:POOL]
    if len(pool) < 2:
        return ranking
    index = task.index
    best = max(ranking.scores[position] for position in pool) or 1.0
    relevance = {position: ranking.scores[position] / best for position in pool}
    linked = dict.fromkeys(pool, 0.0)
    for position in pool:
        for edge in index.graph.edges(position):
            other = index.catalogue.positions[edge.to]
            if other in linked:
                strength = edge.weight * relevance[other] * relevance[position]
                linked[position] += strength
                linked[other] += strength
    tools, most = index.catalogue.tools, max(linked.values()) or 1.0
    dense = dict.fromkeys((tools[position].server for position in pool), 0.0)
    for position in pool:
        dense[tools[position].server] += relevance[position]
    worth = {
        position: GRAPH * (linked[position] / most + dense[tools[position].server] / max(dense.values())) / 2
        + RELEVANCE * relevance[position]
        + HEALTH * health(tools[position], task.calls(tools[position]))
        for position in pool
    }
    return ranking.reordered(sorted(pool, key=lambda position: -worth[position]))
