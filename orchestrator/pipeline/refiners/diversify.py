"""Diversify: no source fills the answer while others wait."""

from collections import Counter

from orchestrator.pipeline.state import Found, Ranking, Task

SHARE = 0.6
"""The most of the answer that one server has while another one's tools wait."""


def diversify(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Put tools of a server that has its share already behind those that wait; the order stays otherwise."""
    tools, most = task.index.catalogue.tools, max(1, int(SHARE * task.most))
    taken = Counter[str]()
    first, later = list[int](), list[int]()
    for position in ranking.order:
        server = tools[position].server
        taken[server] += 1
        (first if taken[server] <= most else later).append(position)
    return ranking.reordered((*first, *later))
