"""Relations: typed edges between two tools."""

from dataclasses import dataclass
from typing import Annotated

from orchestrator.common.fields import Give, check
from orchestrator.common.keys import split_key
from orchestrator.errors import InvalidCatalogue

NEEDS, USED_WITH, USED_AFTER, SIMILAR, REPLACES = (
    "needs",
    "used_with",
    "used_after",
    "similar",
    "replaces",
)
ASIDE = frozenset({USED_WITH, USED_AFTER, SIMILAR, REPLACES})
"""Relation types that do not describe the arguments of a call. `needs` and all types of your own do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation that a catalogue states: from the tool that states it to another tool.

    Attributes:
        to: The key of the other tool.
        type: `needs`, `used_with`, `used_after`, `similar`, `replaces`, or a type of your own.
        weight: The probability that the relation holds, above 0 and at most 1.

    Raises:
        InvalidCatalogue: A field has a wrong type or value.

    Examples:
        >>> from orchestrator import Relation, Tool
        >>> tool = Tool(server="stripe", name="refund", relations=(Relation(to="stripe:charge", type="replaces"),))
        >>> tool.has_replaced("stripe:charge")
        True
    """

    to: Annotated[str, Give("the key of a tool, server:name", min_length=1)]
    type: Annotated[
        str, Give(f"{NEEDS}, {', '.join(sorted(ASIDE))}, or a type of your own", min_length=1)
    ] = NEEDS
    weight: Annotated[float, Give("a number above 0, at most 1", gt=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        check(self, InvalidCatalogue)

    @property
    def name(self) -> str:
        return split_key(self.to)[1]

    @property
    def replaces(self) -> bool:
        """True if `to` is an earlier name of the tool."""
        return self.type == REPLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation between two tools, with its origin.

    Attributes:
        source: The key of the first tool.
        to: The key of the second tool.
        type: The type of the relation.
        weight: The probability that the relation holds, 0 to 1.
        origin: `stated` (in the catalogue), `schema` (the parameters), `text` (the descriptions of both tools) or
            `experience` (past tasks).

    Examples:
        >>> from orchestrator import Edge
        >>> Edge(source="github:merge", to="github:list_prs", type="needs", weight=0.8, origin="schema").type
        'needs'
    """

    source: str
    to: str
    type: str
    weight: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A tool near a recommended one.

    Attributes:
        tool: The key of the tool.
        type: The type of the last edge on the way to it.
        hops: The number of edges from the recommended tool.
        via: The key of the tool before it on the way.

    Examples:
        >>> from orchestrator import Related
        >>> str(Related(tool="github:list_prs", type="needs", hops=1, via="github:merge"))
        'github:merge needs it'
    """

    tool: str
    type: str
    hops: int
    via: str

    def __str__(self) -> str:
        directed = self.type in (NEEDS, USED_AFTER, REPLACES)
        return f"{self.via} {self.type} it" if directed else f"{self.type}: {self.via}"
