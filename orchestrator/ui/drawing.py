"""The layout of a graph of tools as an SVG drawing, in pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from orchestrator.records.relation import NEEDS, SIMILAR, USED_WITH, Edge

# A tool's box, the gap between two columns, and the height of a row, in pixels:
_WIDTH = 220
_HEIGHT = 34
_GAP = 150
_ROW = 54
Pair = tuple[str, str]
"""The keys of two tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A tool in a drawing."""

    key: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """The relations from one tool to another: the arrow's path, and the place of the label with their types."""

    source: str
    to: str
    types: str
    weak: bool
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDrawing:
    """Tools in columns by their distance from the first tools, and the arrows between them."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


def graph(edges: Sequence[Edge], hops: Mapping[str, int]) -> GraphDrawing | None:
    """Return the drawing of the edges, or None without edges.

    Args:
        edges: The relations to draw.
        hops: The distance of each tool from the first tools. Other tools are in the first column.
    """
    if not edges:
        return None
    columns = _columns(edges, hops)
    nodes: dict[str, Node] = {}
    for column, keys in enumerate(columns):
        for row, key in enumerate(keys):
            nodes[key] = Node(key=key, x=column * (_WIDTH + _GAP) + 1, y=row * _ROW + 10)
    arrows = [
        _arrow(edges, nodes[source], nodes[to]) for (source, to), edges in _by_pair(edges).items()
    ]
    return GraphDrawing(
        nodes=tuple(nodes.values()),
        arrows=tuple(arrows),
        width=len(columns) * (_WIDTH + _GAP),
        height=max(map(len, columns)) * _ROW + 10,
    )


def _columns(edges: Sequence[Edge], hops: Mapping[str, int]) -> list[list[str]]:
    """Return the tools of the edges in columns, by their distance from the first tools."""
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.to))
    # `groupby` joins neighbours only.
    in_order = sorted(keys, key=lambda key: hops.get(key, 0))
    columns = groupby(in_order, key=lambda key: hops.get(key, 0))
    return [list(column) for _, column in columns]


def _by_pair(edges: Sequence[Edge]) -> dict[Pair, list[Edge]]:
    """Group the edges by source and target. Skip an edge without a direction between tools that have another edge."""
    pairs: dict[Pair, list[Edge]] = {}
    for edge in edges:
        forwards = (edge.source, edge.to)
        backwards = (edge.to, edge.source)
        is_linked = forwards in pairs or backwards in pairs
        if is_linked and edge.type in (SIMILAR, USED_WITH):
            continue
        pairs.setdefault(forwards, []).append(edge)
    return pairs


def _arrow(edges: Sequence[Edge], source: Node, to: Node) -> Arrow:
    """Draw an arrow from side to side, or a bow on the right within a column."""
    start_y = source.y + _HEIGHT / 2
    end_y = to.y + _HEIGHT / 2
    start_x = source.x
    end_x = to.x
    if source.x <= to.x:
        start_x += _WIDTH
    if source.x >= to.x:
        end_x += _WIDTH
    bend = (start_x + end_x) / 2
    if source.x == to.x:
        bend = start_x + 60
    types = [edge.type.replace("_", " ") for edge in edges]
    return Arrow(
        source=source.key,
        to=to.key,
        types=", ".join(types),
        weak=not any(edge.origin == "stated" or edge.type == NEEDS for edge in edges),
        path=f"M {start_x} {start_y} C {bend} {start_y} {bend} {end_y} {end_x} {end_y}",
        x=bend,
        y=(start_y + end_y) / 2,
    )


def curve(shares: Sequence[float | None]) -> list[tuple[float, float]]:
    """Return the points of shares from left to right, in equal steps over 560 x 120. Unknown shares have no point."""
    step = 560 / max(len(shares) - 1, 1)
    points = []
    for number, share in enumerate(shares):
        if share is not None:
            points.append((round(number * step, 1), round(120 * (1 - share), 1)))
    return points
