"""Relations: typed edges between two tools, as a catalogue states them or as they were found."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval, MinLen

from orchestrator.common.fields import Give, check
from orchestrator.common.keys import split_key
from orchestrator.errors import InvalidCatalogue

NEEDS, USED_WITH, USED_AFTER, SIMILAR, REPLACES = "needs", "used_with", "used_after", "similar", "replaces"
ASIDE = frozenset({USED_WITH, USED_AFTER, SIMILAR, REPLACES})
"""Of these types an edge says nothing of what a call takes. `needs` and every type of a catalogue's own does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """An edge from the tool that states it to the tool with the key `to`; `weight` is the chance that it holds, 0 to 1.

    InvalidCatalogue where a field is of another type or value.
    """

    to: Annotated[str, MinLen(1), Give("the key of a tool, server:name")]
    type: Annotated[str, MinLen(1), Give(f"{NEEDS}, {', '.join(sorted(ASIDE))}, or a type of your own")] = NEEDS
    weight: Annotated[float, Interval(gt=0, le=1), Give("a number above 0, at most 1")] = 1.0

    def __post_init__(self) -> None:
        check(self, InvalidCatalogue)

    @property
    def name(self) -> str:
        return split_key(self.to)[1]

    @property
    def replaces(self) -> bool:
        """Tell whether `to` is a former name of the tool that states this."""
        return self.type == REPLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation of two tools by key. `origin`: stated, schema (by parameters), text (by what both say of themselves),
    or experience."""

    source: str
    to: str
    type: str
    weight: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A tool within reach of a recommended one: `hops` away, along an edge of this type from the tool `via`."""

    tool: str
    type: str
    hops: int
    via: str

    def __str__(self) -> str:
        directed = self.type in (NEEDS, USED_AFTER, REPLACES)
        return f"{self.via} {self.type} it" if directed else f"{self.type}: {self.via}"
