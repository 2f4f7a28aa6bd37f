"""The relations of one catalogue: stated by its tools, derived from schemas, and near-duplicates."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.index.prerequisites import Prerequisites
from orchestrator.records.relation import ASIDE, NEEDS, SIMILAR, Edge, Related
from orchestrator.records.tool import Tool

HOPS, MOST = 2, 10
"""The maximum number of steps that `reach` follows, and of tools that it returns."""
NEEDED_HOPS = 3
"""The maximum number of steps for needs, because a needed tool may need another tool. With one step, recall@10 is 25
points lower on tools with stated dependencies. A fourth step improves nothing
(docs/decisions/ranking.md)."""
HOLDS = 0.95
"""The probability that a stated need is asked for if the tool that states it is right. Measured on tools with stated
dependencies: .97 at one step, .89 within two, .85 within three."""
ALIKE = 0.6
"""The share of words that the descriptions of near-duplicates have in common."""
DESCRIBED = 400
"""The number of characters of a description that are compared."""


More = Callable[[Tool], Iterable[Edge]]
"""Returns additional edges from a tool that belong to one tenant only."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A tool reached from another: its position and the edge that led there."""

    position: int
    hops: int
    edge: Edge
    chance: float


class Graph:
    """Edges between the tools of one catalogue, found for each tool when it is first asked for."""

    def __init__(self, tools: Sequence[Tool], positions: Mapping[str, int], prerequisites: Prerequisites) -> None:
        self._tools, self._positions, self._prerequisites = tools, positions, prerequisites
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._twins: dict[int, tuple[int, ...]] = {}
        self.dangling = sorted(
            {own.to for tool in tools for own in tool.relations if own.to not in positions and not own.replaces}
        )
        """Keys in relations that are not tools of this catalogue. These relations are ignored."""

    def edges(self, position: int, more: More = lambda _: ()) -> tuple[Edge, ...]:
        """Return the edges from a tool, stated ones first, `more` last, each once."""
        if position not in self._edges:
            found = (*self._stated(position), *self._by_schema(position), *self._alike(position))
            self._edges[position] = _once(found)
        return _once((*self._edges[position], *more(self._tools[position])))

    def reach(self, position: int) -> tuple[Hop, ...]:
        """Return the tools within HOPS hops of a tool, nearest first."""
        return self._walk((position,), self.edges, HOPS)

    def needed(self, position: int) -> tuple[Hop, ...]:
        """Return the stated needs of a tool, and their needs, nearest first. Cycles are allowed."""
        if not self._tools[position].relations:
            return ()
        return self._walk((position,), lambda at: [e for e in self._stated(at) if e.type not in ASIDE], NEEDED_HOPS)

    def excerpt(
        self, *keys: str, hops: int = HOPS, more: More = lambda _: ()
    ) -> tuple[tuple[Related, ...], tuple[Edge, ...]]:
        """Return the tools within reach of these, nearest first, and the edges among all of them."""
        start = [self._positions[key] for key in keys if key in self._positions]
        steps = self._walk(start, lambda at: self.edges(at, more), hops)
        found = [
            Related(tool=step.edge.to, type=step.edge.type, hops=step.hops, via=step.edge.source) for step in steps
        ]
        nodes = dict.fromkeys((*start, *(step.position for step in steps)))
        drawn = {self._tools[position].key for position in nodes}
        return tuple(found), tuple(edge for node in nodes for edge in self.edges(node, more) if edge.to in drawn)

    def _walk(self, start: Sequence[int], edges: Callable[[int], Sequence[Edge]], hops: int) -> tuple[Hop, ...]:
        steps, seen = list[Hop](), set(start)
        ahead = deque((position, 0, 1.0) for position in start)
        while ahead and len(steps) < MOST:
            at, hop, chance = ahead.popleft()
            for edge in edges(at) if hop < hops else ():
                if (position := self._positions[edge.to]) not in seen:
                    seen.add(position)
                    step = Hop(position, hop + 1, edge, chance * HOLDS * edge.weight)
                    steps.append(step)
                    ahead.append((position, step.hops, step.chance))
        return tuple(steps[:MOST])

    def _stated(self, position: int) -> Iterator[Edge]:
        tool = self._tools[position]
        for relation in tool.relations:
            if relation.to in self._positions and relation.to != tool.key:
                yield Edge(source=tool.key, to=relation.to, type=relation.type, weight=relation.weight, origin="stated")

    def _by_schema(self, position: int) -> Iterator[Edge]:
        for requirement in self._prerequisites.of(position):
            for source in requirement.sources:
                yield self._edge(position, source, NEEDS, 1 / len(requirement.sources), "schema")

    def _alike(self, position: int) -> Iterator[Edge]:
        for other in self._named.get(bare(self._tools[position].name), ()):
            if other != position and are_alike(self._tools[position], self._tools[other]):
                yield self._edge(position, other, SIMILAR, 1.0, "text")

    def twins(self, position: int) -> tuple[int, ...]:
        """Return the twins of a tool on other servers."""
        if position not in self._twins:
            named = self._named.get(bare(self._tools[position].name), ())
            found = (other for other in named if are_twins(self._tools[position], self._tools[other]))
            self._twins[position] = tuple(found)
        return self._twins[position]

    def _edge(self, source: int, to: int, type_: str, weight: float, origin: str) -> Edge:
        return Edge(source=self._tools[source].key, to=self._tools[to].key, type=type_, weight=weight, origin=origin)

    @cached_property
    def _named(self) -> Mapping[str, list[int]]:
        """The positions of the tools of each name that several have."""
        found: dict[str, list[int]] = {}
        for position, tool in enumerate(self._tools):
            found.setdefault(bare(tool.name), []).append(position)
        return {name: positions for name, positions in found.items() if len(positions) > 1}


def _once(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the first of the edges of each type between the same tools."""
    found: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        found.setdefault((edge.to, edge.type), edge)
    return tuple(found.values())


def bare(name: str) -> str:
    """Return a name without differences in spelling: `webSearch`, `web_search` and `web-search` are the same."""
    return name.lower().replace("_", "").replace("-", "").replace(".", "").replace("/", "")


def are_alike(one: Tool, other: Tool) -> bool:
    """Return True if tools of two servers have nearly the same texts."""
    mine, theirs = (set(tool.description[:DESCRIBED].lower().split()) for tool in (one, other))
    return one.server != other.server and len(mine & theirs) >= ALIKE * len(mine | theirs)


def are_twins(one: Tool, other: Tool) -> bool:
    """Return True if tools of two servers have the same name, and the text of one contains the text of the other.

    Of 749 public tools of one registry 4 have a twin, of 13,165 tools of several thousand servers 16 %.
    """
    if one.server == other.server or bare(one.name) != bare(other.name):
        return False
    mine, theirs = (set(tool.description[:DESCRIBED].lower().split()) for tool in (one, other))
    return len(mine & theirs) >= ALIKE * min(len(mine), len(theirs))
