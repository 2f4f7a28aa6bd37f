"""The relations of one catalogue: values that tools require of each other, stated relations, and near-duplicates.

"Post it in the announcements channel" asks for `post_message`, which requires a `channel_id`. `list_channels` provides
it, although the task does not mention that. Schemas show it: by a parameter's description that names the source tool,
otherwise by the parameter's name.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from orchestrator.catalogue.schema import gathered
from orchestrator.common.keys import key_of
from orchestrator.index.documents import Document, Documents
from orchestrator.index.intent import READING_VERBS, name_words
from orchestrator.index.text import spaced, terms
from orchestrator.records.relation import ASIDE, NEEDS, SIMILAR, Edge, Related
from orchestrator.records.tool import Tool

REQUIRING = 5
"""The number of best tools whose needs are added. Tools after them are hardly ever called."""
CALLED = 0.5
"""The probability that a required value comes from another tool, if the requiring tool is right. Chosen on the
development sets (docs/decisions/ranking.md)."""
BEHIND = 0.95
"""The maximum probability of a source of a value, as a share of the probability of the requiring tool, so that the
source stays behind it."""

_CREDENTIALS = frozenset("token session cookie".split())
"""Parameters of these names are searched as a whole, and tools that change something may provide them. `max_tokens` is
not one of them."""
_IDENTIFIERS = frozenset("id ids uid gid uuid guid key slug handle".split())
_CONFIGURED = frozenset("api access secret private public".split())
"""A key with one of these names comes from the configuration and not from a tool."""
_TOOL = re.compile(r"(?<![\w-])[A-Za-z]\w*(?:(?<=_)|-|(?<=[a-z])(?=[A-Z]))[\w-]*\w")
"""A name that can only be the name of a tool: `get_links`, `get-links`, `getLinks`."""
_MOST_WORDS = 1_000
"""The maximum number of a task's words that are searched for identifiers."""

HOPS, MOST = 2, 10
"""The maximum number of steps that `reach` follows, and of tools that it returns."""
NEEDED_HOPS = 3
"""The maximum number of steps for needs, because a needed tool may need another tool. With one step, recall@10 is 25
points lower on tools with stated dependencies. A fourth step improves nothing (docs/decisions/ranking.md)."""
HOLDS = 0.95
"""The probability that a stated need is asked for if the tool that states it is right. Measured on tools with stated
dependencies: .97 at one step, .89 within two, .85 within three."""
ALIKE = 0.6
"""The share of words that the descriptions of near-duplicates have in common."""
DESCRIBED = 400
"""The number of characters of a description that are compared."""
_SPELLING = str.maketrans("", "", "_-./")
"""Signs in which two spellings of a name differ."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required parameter, the terms of the thing it identifies, and the positions of the tools that provide it."""

    parameter: str
    thing: frozenset[str]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """A source's score, its probability to be called for a parameter, the parameter, and the tool that requires it."""

    score: float
    chance: float
    parameter: str
    required_by: int


def raised_among(
    scores: Mapping[int, float], unmet: Mapping[int, Iterable[Requirement]]
) -> dict[int, Raised]:
    """Return the sources among these tools that score higher because the best tools require them.

    Args:
        scores: Scores by position. Sources of the same parameter share the probability.
        unmet: The unmet requirements of the best REQUIRING tools.
    """
    raised: dict[int, Raised] = {}
    for tool, requirements in unmet.items():
        score = scores[tool]
        for requirement in requirements:
            sources = [source for source in requirement.sources if source in scores]
            chance = CALLED * score / max(len(sources), 1)
            for source in sources:
                before = scores[source]
                after = min(before + (1 - before) * chance, BEHIND * score)
                best = raised[source].score if source in raised else before
                if after > best:
                    raised[source] = Raised(after, chance, requirement.parameter, tool)
    return raised


class Prerequisites:
    """The requirements between one catalogue's tools, computed for each tool on first use.

    Args:
        documents: The texts of the tools.
        positions: The position of each tool, by key.
        places: The positions of each server's tools.
        named: The positions of the tools whose name or server has a term.
    """

    def __init__(
        self,
        documents: Documents,
        positions: Mapping[str, int],
        places: Mapping[str, slice],
        named: Callable[[str], Iterable[int]],
    ) -> None:
        self._documents = documents
        self._positions = positions
        self._places = places
        self._named = named
        self._known: dict[int, tuple[Requirement, ...]] = {}

    def of(self, position: int) -> tuple[Requirement, ...]:
        """Return the requirements of a tool that other tools can provide."""
        if position not in self._known:
            self._known[position] = tuple(self._requirements(self._documents[position]))
        return self._known[position]

    def unmet(
        self, tools: Iterable[int], identified: frozenset[str]
    ) -> dict[int, list[Requirement]]:
        """Return, by tool, the requirements for things that are not among the identified ones.

        Args:
            tools: The tools.
            identified: The terms of the things that a task itself identifies.
        """
        unmet: dict[int, list[Requirement]] = {}
        for tool in tools:
            unmet[tool] = [need for need in self.of(tool) if need.thing.isdisjoint(identified)]
        return unmet

    def _requirements(self, document: Document) -> Iterator[Requirement]:
        for parameter, description in _required(document.tool).items():
            thing = _identified(parameter, document)
            sources = self._named_in(description, document.tool) or self._giving(thing, document)
            if sources:
                yield Requirement(parameter, thing or frozenset(terms(parameter)), sources)

    def _named_in(self, description: str, tool: Tool) -> tuple[int, ...]:
        """Return the tools of the same server that a parameter's description names."""
        keys = dict.fromkeys(key_of(tool.server, name) for name in _TOOL.findall(description))
        keys.pop(tool.key, None)
        return tuple(self._positions[key] for key in keys if key in self._positions)

    def _giving(self, thing: frozenset[str], document: Document) -> tuple[int, ...]:
        """Return the server's tools that are named most nearly for the thing."""
        by_distance: dict[int, list[int]] = {}
        for position in self._near(document, thing):
            about = _about(self._documents[position])
            if about and (thing <= about or about <= thing):
                by_distance.setdefault(len(about ^ thing), []).append(position)
        return tuple(by_distance[min(by_distance)]) if by_distance else ()

    def _near(self, document: Document, thing: frozenset[str]) -> Iterator[int]:
        """Yield the server's tools named with one of the thing's terms that may give it unasked."""
        place = self._places[document.tool.server]
        named = chain.from_iterable(map(self._named, thing))
        # Reading a tool takes a millisecond: no other server's is read.
        for position in sorted(set(named).intersection(range(place.start, place.stop))):
            other = self._documents[position]
            gives = thing <= _CREDENTIALS or _asks(other)
            if gives and not _requires(other, thing, _about(other)):
                yield position


def _required(tool: Tool) -> dict[str, str]:
    """Return the tool's required parameters, each with its description."""
    schema = gathered(tool.input_schema or {})
    required = schema.get("required")
    if not isinstance(required, list):
        return {}
    shapes = schema.get("properties")
    descriptions: dict[str, str] = {}
    for parameter in required:
        if not isinstance(parameter, str):
            continue
        shape = shapes.get(parameter) if isinstance(shapes, dict) else None
        description = shape.get("description") if isinstance(shape, dict) else None
        descriptions[parameter] = description if isinstance(description, str) else ""
    return descriptions


def _requires(document: Document, *things: frozenset[str]) -> bool:
    return any(_identified(parameter, document) in things for parameter in _required(document.tool))


def _identified(parameter: str, document: Document) -> frozenset[str]:
    """Return the terms of the thing that a parameter identifies. For a plain `id` these are the tool's own terms."""
    *before, last = spaced(parameter).lower().split() or [""]
    if last in _CREDENTIALS:
        return frozenset(terms(last))
    is_configured = last == "key" and not _CONFIGURED.isdisjoint(before)
    if last not in _IDENTIFIERS or is_configured:
        return frozenset()
    thing = frozenset(terms(" ".join(before)))
    # "issueIdOrKey" is an issue's, "key_id" a key's.
    return thing - _FORMS or thing or _about(document)


def _about(document: Document) -> frozenset[str]:
    """Return the terms of the thing the tool's name is about, without its action, reading verbs and identifiers."""
    return frozenset(terms(" ".join(document.thing[1:]))) - _FORMS


def _asks(document: Document) -> bool:
    """Return True if a tool only reads, or is named a query. Approval does not use this, because a query
    may change something.
    """
    return document.reads or "query" in name_words(document.tool)


_FORMS = frozenset(terms(" ".join(_IDENTIFIERS | READING_VERBS | {"query"})))


def identified_in(task: str) -> frozenset[str]:
    """Return the terms that a task itself identifies, by a number directly after them ("order 4711")."""
    words = task.split()[:_MOST_WORDS]
    identified: set[str] = set()
    for place, word in enumerate(words):
        if not any(letter.isdigit() for letter in word):
            continue
        before = words[max(place - 2, 0) : place]
        if before and terms(before[-1]):
            word = " ".join([*before, word])
        identified.update(terms(word))
    return frozenset(identified)


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
        self._namesakes = _namesakes(tools)
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
        related = []
        nodes = dict.fromkeys(start)
        for hop in self._walk(start, lambda position: self.edges(position, more), hops):
            edge = hop.edge
            nodes[hop.position] = None
            related.append(Related(tool=edge.to, type=edge.type, hops=hop.hops, via=edge.source))
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
        seen = set(start)
        ahead = deque((position, 0, 1.0) for position in start)
        while ahead and len(steps) < MOST:
            position, hop, chance = ahead.popleft()
            if hop == hops:
                continue
            for edge in edges(position):
                target = self._positions[edge.to]
                if target in seen:
                    continue
                seen.add(target)
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
        for other in self._namesakes.get(position, ()):
            if other != position and are_alike(self._tools[position], self._tools[other]):
                yield self._edge(position, other, SIMILAR, 1.0, "text")

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
                other for other in namesakes if are_twins(tool, self._tools[other])
            )
        return self._twins[position]

    def with_namesakes(self, positions: Iterable[int]) -> list[int]:
        """Return those of the tools that share their name with another tool of the catalogue, in order."""
        return [position for position in positions if position in self._namesakes]


def _namesakes(tools: Sequence[Tool]) -> dict[int, list[int]]:
    """Return the positions of all tools with a tool's name, for each tool whose name several have."""
    by_name: dict[str, list[int]] = {}
    for position, tool in enumerate(tools):
        by_name.setdefault(bare(tool.name), []).append(position)
    several = [positions for positions in by_name.values() if len(positions) > 1]
    return {position: positions for positions in several for position in positions}


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


def bare(name: str) -> str:
    """Return a name without differences in spelling: `webSearch`, `web_search` and `web-search` are the same."""
    return name.lower().translate(_SPELLING)


def _described(tool: Tool) -> set[str]:
    return set(tool.description[:DESCRIBED].lower().split())


def are_alike(tool: Tool, other: Tool) -> bool:
    """Return True if tools of two servers have nearly the same texts."""
    if tool.server == other.server:
        return False
    words = _described(tool)
    other_words = _described(other)
    return len(words & other_words) >= ALIKE * len(words | other_words)


def are_twins(tool: Tool, other: Tool) -> bool:
    """Return True if tools of two servers have the same name, and the text of one contains the text of the other.

    Of 749 public tools of one registry 4 have a twin, of 13,165 tools of several thousand servers 16 %
    (`python -m research.twins`).
    """
    if tool.server == other.server or bare(tool.name) != bare(other.name):
        return False
    words = _described(tool)
    other_words = _described(other)
    return len(words & other_words) >= ALIKE * min(len(words), len(other_words))
