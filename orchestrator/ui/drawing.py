"""The geometry of what pages draw: a dial, a graph of tools, and a curve. Units are those of the drawing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.records.relation import NEEDS, SIMILAR, USED_WITH, Edge

_WIDTH, _HEIGHT, _GAP, _ROW = 220, 34, 150, 54
_RADIUS = 40


def on_dial(share: float, radius: float = _RADIUS) -> str:
    """Return the point of a share on a half circle about (50, 50), as `x y`: 0 is left, 1 right."""
    angle = math.pi * (1 - min(max(share, 0.0), 1.0))
    return f"{50 + radius * math.cos(angle):.1f} {50 - radius * math.sin(angle):.1f}"


def arc(share: float) -> str:
    """Return the path of a dial's arc from 0 to a share."""
    return f"M {on_dial(0)} A {_RADIUS} {_RADIUS} 0 0 1 {on_dial(share)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A tool in a drawing."""

    key: str
    x: int
    y: int
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """The relations of one tool to another: the path of their arrow, and where their types are written."""

    types: str
    weak: bool
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDrawing:
    """Tools in columns by their distance from the first ones, and arrows between them."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]

    @property
    def width(self) -> int:
        return max(node.x for node in self.nodes) + _WIDTH + _GAP

    @property
    def height(self) -> int:
        return max(node.y for node in self.nodes) + _ROW


def graph(edges: Sequence[Edge], hops: Mapping[str, int]) -> GraphDrawing | None:
    """Return the drawing of edges, None where there is no edge. hops: the column of each tool, 0 for all others."""
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.to))
    columns: dict[int, list[str]] = {}
    for key in sorted(keys, key=lambda key: hops.get(key, 0)):
        columns.setdefault(hops.get(key, 0), []).append(key)
    nodes = {
        key: Node(key=key, x=column * (_WIDTH + _GAP) + 1, y=row * _ROW + 10)
        for column, own in enumerate(columns.values())
        for row, key in enumerate(own)
    }
    arrows = [_arrow(own, nodes[source], nodes[to]) for (source, to), own in _by_pair(edges).items()]
    return GraphDrawing(nodes=tuple(nodes.values()), arrows=tuple(arrows)) if nodes else None


def _by_pair(edges: Sequence[Edge]) -> dict[tuple[str, str], list[Edge]]:
    """Return the edges from one tool to another; one without a direction where no other is known."""
    pairs: dict[tuple[str, str], list[Edge]] = {}
    for edge in edges:
        pair, back = (edge.source, edge.to), (edge.to, edge.source)
        if edge.type not in (SIMILAR, USED_WITH) or not {pair, back} & pairs.keys():
            pairs.setdefault(pair, []).append(edge)
    return pairs


def _arrow(edges: Sequence[Edge], source: Node, to: Node) -> Arrow:
    """Lead from side to side; within a column in a bow on its right."""
    start, end = source.y + _HEIGHT / 2, to.y + _HEIGHT / 2
    x0 = source.x + (_WIDTH if source.x <= to.x else 0)
    x1 = to.x + (_WIDTH if source.x >= to.x else 0)
    bend = (x0 + x1) / 2 if source.x != to.x else x0 + 60
    return Arrow(
        types=", ".join(edge.type.replace("_", " ") for edge in edges),
        weak=all(edge.origin != "stated" and edge.type != NEEDS for edge in edges),
        path=f"M {x0} {start} C {bend} {start} {bend} {end} {x1} {end}",
        x=bend,
        y=(start + end) / 2,
    )


def curve(shares: Iterable[float | None], width: float = 560, height: float = 120) -> list[tuple[float, float]]:
    """Return the points of shares from left to right, in equal steps; an unknown one is left out."""
    known = list(shares)
    step = width / max(len(known) - 1, 1)
    return [(round(n * step, 1), round(height * (1 - share), 1)) for n, share in enumerate(known) if share is not None]
