"""Relations: typed edges between two tools, as a catalogue states them or as they were found."""

from dataclasses import dataclass

from orchestrator.common.forms import Form, check_forms
from orchestrator.errors import InvalidCatalogue

NEEDS, USED_WITH, USED_AFTER, SIMILAR, REPLACES = "needs", "used_with", "used_after", "similar", "replaces"
ASIDE = frozenset({USED_WITH, USED_AFTER, SIMILAR, REPLACES})
"""Of these types an edge says nothing of what a call takes. `needs` and every type of a catalogue's own does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """An edge from the tool that states it to the tool with the key `to`; `weight` is the chance that it holds, 0 to 1.

    InvalidCatalogue where a field is of another type or value.
    """

    to: str
    type: str = NEEDS
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_forms(self, _FORMS, InvalidCatalogue)

    @property
    def name(self) -> str:
        return self.to.partition(":")[2]

    @property
    def replaces(self) -> bool:
        """Tell whether `to` is a former name of the tool that states this."""
        return self.type == REPLACES


_FORMS = {
    "to": Form((str,), "the key of a tool, server:name", lambda key: ":" in key),
    "type": Form((str,), f"{NEEDS}, {', '.join(sorted(ASIDE))}, or a type of your own", bool),
    "weight": Form((int, float), "a number above 0, at most 1", lambda weight: 0 < weight <= 1),
}


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
