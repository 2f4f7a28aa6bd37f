"""What routing is asked: the task, for whom, within which conversation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType

from orchestrator.common.forms import Form, check_forms, member
from orchestrator.common.tenant import check_tenant
from orchestrator.errors import InvalidInput

MAX_LIMIT = 50
MAX_QUERY_CHARS = 100_000
MAX_CONVERSATION_CHARS = 500_000


class RouteHint(StrEnum):
    """The legs to run: by the gate, keyword alone, or always both. `vector` and `graph` order by that list alone."""

    AUTO = "auto"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    VECTOR = "vector"
    GRAPH = "graph"

    @property
    def ordered_by(self) -> str:
        """The list of a preset that alone is to order; "" for all."""
        return {RouteHint.VECTOR: "vectors", RouteHint.GRAPH: "graph"}.get(self, "")


class Fusion(StrEnum):
    """The ways to merge the legs' answers."""

    LEARNT = "learnt"
    WEIGHTED = "weighted"
    RRF = "rrf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One earlier turn of a conversation, the keys of the tools that it used, and of those it was offered, in order.

    `Decision.turn()` makes one.
    """

    text: str
    role: str = "user"
    tools: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A task to route.

    `token_cap` limits the tokens of the matches' definitions; every filter (`kind`, `server`, `name` or a label =
    value) must hold, while of `context`, most important first, as much holds as leaves a tool; earlier turns of a
    conversation count towards what the query means.
    """

    query: str
    tenant: str = ""
    limit: int = 10
    conversation: tuple[Turn, ...] = ()
    filters: dict[str, str] = field(default_factory=dict)
    route_hint: RouteHint = RouteHint.AUTO
    token_cap: int | None = None
    fusion: Fusion | None = None
    context: dict[str, str] = field(default_factory=dict)
    context_order: tuple[str, ...] = ()
    """The context's names, most important first; made of it, as JSON on its way through Temporal is sorted by name."""

    def __post_init__(self) -> None:
        if isinstance(self.context, dict):
            names = self.context_order if {*self.context_order} == self.context.keys() else tuple(self.context)
            object.__setattr__(self, "context_order", names)
            object.__setattr__(self, "context", {name: self.context[name] for name in names})
        for name, kind in (("route_hint", RouteHint), ("fusion", Fusion)):
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                object.__setattr__(self, name, member(kind, name, value))

    def validate(self) -> None:
        """Raise InvalidInput or UnknownTenant for what cannot be routed."""
        self.check_settings()
        if not self.query.strip():
            raise InvalidInput("query is empty: give the task in words")
        if len(self.query) > MAX_QUERY_CHARS:
            raise InvalidInput(f"query has {len(self.query):,} characters: at most {MAX_QUERY_CHARS:,} are read")
        said = sum(len(turn.text) for turn in self.conversation)
        if said > MAX_CONVERSATION_CHARS:
            most = f"at most {MAX_CONVERSATION_CHARS:,} are read"
            raise InvalidInput(f"the conversation has {said:,} characters: {most}, so give its last turns only")

    def check_settings(self) -> None:
        """Do the same for all but what the texts say and how long they are."""
        check_forms(self, _FORMS)
        for turn in self.conversation:
            if not isinstance(turn, Turn):
                raise InvalidInput(f"conversation holds {turn!r:.80}: give Turn records, oldest first")
            check_forms(turn, _TURN_FORMS)
        check_tenant(self.tenant)


def turns_of(conversation: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns as a RouteRequest holds them; InvalidInput for what is no sequence, one Turn by itself say."""
    if not isinstance(conversation, Iterable):
        raise InvalidInput(f"conversation={conversation!r:.80}: give Turn records in a list, oldest first")
    return tuple(conversation)


_FORMS: dict[str, Form] = {
    "query": Form((str,), "the task as a text"),
    "tenant": Form((str,), "org:ID or user:ID"),
    "limit": Form((int,), f"1 to {MAX_LIMIT}", lambda limit: 1 <= limit <= MAX_LIMIT),
    "conversation": Form((tuple, list), "a tuple of Turn records, oldest first"),
    "filters": Form(
        (Mapping,),
        "a mapping of texts, e.g. {'kind': 'agent'}",
        lambda filters: all(isinstance(value, str) for value in filters.values()),
    ),
    "context": Form(
        (Mapping,),
        "a mapping of texts, most important first, e.g. {'language': 'python'}",
        lambda context: all(isinstance(value, str) for value in context.values()),
    ),
    "token_cap": Form((int, NoneType), "a number of tokens above 0, or none", lambda cap: cap >= 1),
}
_TURN_FORMS: dict[str, Form] = {
    "text": Form((str,), "what was said as a text"),
    "tools": Form((tuple, list), "a tuple of the keys of tools"),
    "offered": Form((tuple, list), "a tuple of the keys of tools"),
}
