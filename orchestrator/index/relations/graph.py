"""The graph of one catalogue: stated relations, values that tools require of each other, and near-duplicates."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from orchestrator.index.relations.near_duplicates import are_alike, are_twins, namesakes_of
from orchestrator.index.relations.requirements import Prerequisites
from orchestrator.records.relation import ASIDE, NEEDS, SIMILAR, Edge, Related
from orchestrator.records.tool import Tool

HOPS, MOST = 2, 10
"""The maximum number of steps that `reach` follows, and of tools that it returns."""
NEEDED_HOPS = 3
"""The maximum number of steps for needs, because a needed tool may need another tool. With one step, recall@10 is 25
points lower on tools with stated dependencies. A fourth step improves nothing (docs/decisions/ranking.md)."""
HOLDS = 0.95
"""The probability that a stated need is asked for if the tool that states it is right. Measured on tools with stated
dependencies: .97 at one step, .89 within two, .85 within three."""
More = Callable[[Tool], Iterable[Edge]]
"""Returns additional edges from a tool that belong to one tenant only."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A tool reached from another.

    Attributes:
        position: The tool.
        hops: The number of steps.
        edge: The edge that led there.
        chance: The probability that the tool is needed if the first one is right.
    """

    position: int
    hops: int
    edge: Edge
    chance: float


class Graph:
    """Edges between the tools of one catalogue, found for each tool when it is first asked for.

    Attributes:
        dangling: Keys in relations that are not tools of this catalogue. These relations are ignored.
        has_namesakes: Whether any two tools have the same name, apart from its spelling.
    """

    def __init__(
        self, tools: Sequence[Tool], positions: Mapping[str, int], prerequisites: Prerequisites
    ) -> None:
        self._tools = tools
        self._keys = list(positions)
        self._positions = positions
        self._prerequisites = prerequisites
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._twins: dict[int, tuple[int, ...]] = {}
        self._namesakes = namesakes_of(tools)
        self.has_namesakes = bool(self._namesakes)
        self.dangling = sorted(_dangling(tools, positions))

    def edges(self, position: int, more: More | None = None) -> tuple[Edge, ...]:
        """Return the edges from a tool, stated ones first, `more` last, each once."""
        if position not in self._edges:
            self._edges[position] = _first_of_each(
                chain(self._stated(position), self._by_schema(position), self._alike(position))
            )
        edges = self._edges[position]
        return edges if more is None else _first_of_each(chain(edges, more(self._tools[position])))

    def reach(self, position: int) -> tuple[Hop, ...]:
        """Return the tools within HOPS hops of a tool, nearest first."""
        return self._walk((position,), self.edges, HOPS)

    def needed(self, tools: Iterable[int]) -> dict[int, tuple[Hop, ...]]:
        """Return, by tool, its stated needs and their needs, nearest first. Tools without relations are left out.

        Cycles are allowed.
        """
        return {
            position: self._walk((position,), self._stated_needs, NEEDED_HOPS)
            for position in tools
            if self._tools[position].relations
        }

    def excerpt(
        self, *keys: str, hops: int = HOPS, more: More | None = None
    ) -> tuple[tuple[Related, ...], tuple[Edge, ...]]:
        """Return the tools within reach of these, nearest first, and the edges among all of them.

        Args:
            keys: The keys of tools.
            hops: The maximum number of steps.
            more: Returns additional edges from a tool.
        """
        start = [self._positions[key] for key in keys if key in self._positions]
        edges = partial(self.edges, more=more)
        related = []
        nodes = dict.fromkeys(start)
        for hop in self._walk(start, edges, hops):
            nodes[hop.position] = None
            related.append(
                Related(
                    tool=hop.edge.to,
                    type=hop.edge.type,
                    hops=hop.hops,
                    via=hop.edge.source,
                )
            )
        return tuple(related), self._edges_among(nodes, more)

    def _edges_among(self, nodes: Collection[int], more: More | None) -> tuple[Edge, ...]:
        """Return the edges from one of these tools to another."""
        edges: list[Edge] = []
        for node in nodes:
            edges += [
                edge for edge in self.edges(node, more) if self._positions.get(edge.to) in nodes
            ]
        return tuple(edges)

    def _walk(
        self, start: Sequence[int], edges: Callable[[int], Sequence[Edge]], hops: int
    ) -> tuple[Hop, ...]:
        """Return the tools that these edges lead to, nearest first, at most MOST."""
        steps: list[Hop] = []
        reached = set(start)
        ahead = deque((position, 0, 1.0) for position in start)
        while ahead and len(steps) < MOST:
            position, hop, chance = ahead.popleft()
            if hop == hops:
                continue
            for edge in edges(position):
                target = self._positions[edge.to]
                if target in reached:
                    continue
                reached.add(target)
                step = Hop(target, hop + 1, edge, chance * HOLDS * edge.weight)
                steps.append(step)
                ahead.append((target, step.hops, step.chance))
        return tuple(steps[:MOST])

    def _stated(self, position: int) -> Iterator[Edge]:
        key = self._keys[position]
        for relation in self._tools[position].relations:
            if relation.to in self._positions and relation.to != key:
                yield Edge(
                    source=key,
                    to=relation.to,
                    type=relation.type,
                    weight=relation.weight,
                    origin="stated",
                )

    def _stated_needs(self, position: int) -> list[Edge]:
        return [edge for edge in self._stated(position) if edge.type not in ASIDE]

    def _by_schema(self, position: int) -> Iterator[Edge]:
        for requirement in self._prerequisites.of(position):
            weight = 1 / len(requirement.sources)
            for source in requirement.sources:
                yield self._edge(position, source, NEEDS, weight, "schema")

    def _alike(self, position: int) -> Iterator[Edge]:
        for namesake in self._namesakes.get(position, ()):
            if namesake != position and are_alike(self._tools[position], self._tools[namesake]):
                yield self._edge(position, namesake, SIMILAR, 1.0, "text")

    def _edge(self, source: int, to: int, type_: str, weight: float, origin: str) -> Edge:
        return Edge(
            source=self._keys[source], to=self._keys[to], type=type_, weight=weight, origin=origin
        )

    def twins(self, position: int) -> tuple[int, ...]:
        """Return the twins of a tool on other servers."""
        if position not in self._namesakes:
            return ()
        if position not in self._twins:
            tool = self._tools[position]
            namesakes = self._namesakes[position]
            self._twins[position] = tuple(
                namesake for namesake in namesakes if are_twins(tool, self._tools[namesake])
            )
        return self._twins[position]

    def with_namesakes(self, positions: Iterable[int]) -> list[int]:
        """Return those of the tools that share their name with another tool of the catalogue, in order."""
        return [position for position in positions if position in self._namesakes]


def _dangling(tools: Sequence[Tool], positions: Mapping[str, int]) -> set[str]:
    """Return the keys that relations name and that no tool has."""
    keys = set()
    for tool in tools:
        keys |= {relation.to for relation in tool.relations if not relation.replaces}
    return keys - positions.keys()


def _first_of_each(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the first of the edges of each type between the same tools."""
    first: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        first.setdefault((edge.to, edge.type), edge)
    return tuple(first.values())
