"""What routing is asked: the task, for whom, within which conversation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from annotated_types import Gt, Interval

from orchestrator.common.fields import Give, Text, check, member, settings
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


Keys = Annotated[tuple[str, ...], Give("a tuple of the keys of tools")]


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One earlier turn of a conversation, the keys of the tools that it used, and of those it was offered, in order.

    `Decision.turn()` makes one.
    """

    text: Annotated[str, Give("what was said as a text")]
    role: Text = "user"
    tools: Keys = ()
    offered: Keys = ()


Task = Annotated[str, Give("the task as a text")]
Tenant = Annotated[str, Give("org:ID or user:ID")]
Limit = Annotated[int, Interval(ge=1, le=MAX_LIMIT), Give(f"1 to {MAX_LIMIT}")]
Conversation = Annotated[tuple[Turn, ...], Give("a tuple of Turn records, oldest first")]


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A task to route.

    `token_cap` limits the tokens of the matches' definitions; every filter (`kind`, `server`, `name` or a label =
    value) must hold, while of `context`, most important first, as much holds as leaves a tool; earlier turns of a
    conversation count towards what the query means.
    """

    query: Task
    tenant: Tenant = ""
    limit: Limit = 10
    conversation: Conversation = ()
    filters: Annotated[dict[str, str], Give("a mapping of texts, e.g. {'kind': 'agent'}")] = field(default_factory=dict)
    route_hint: RouteHint = RouteHint.AUTO
    token_cap: Annotated[int | None, Gt(0), Give("a number of tokens above 0, or none")] = None
    fusion: Fusion | None = None
    context: Annotated[
        dict[str, str], Give("a mapping of texts, most important first, e.g. {'language': 'python'}")
    ] = field(default_factory=dict)
    context_order: tuple[str, ...] = ()
    """The context's names, most important first; made of it, as JSON on its way through Temporal is sorted by name."""
    only: Annotated[tuple[str, ...], Give("a tuple of patterns, e.g. ('github:*', '!github:delete_*')")] = ()
    """Patterns of keys: a match fits one of them, if any is given, and none that begins with `!`."""

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
        check(self)
        for turn in self.conversation:
            check(turn)
        check_tenant(self.tenant)


def turns_of(conversation: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns as a RouteRequest holds them; InvalidInput for what is no sequence, one Turn by itself say."""
    if not isinstance(conversation, Iterable):
        raise InvalidInput(f"conversation={conversation!r:.80}: give Turn records in a list, oldest first")
    return tuple(conversation)


def within(key: str, patterns: Iterable[str]) -> bool:
    """Return whether a tool's key fits the patterns of `RouteRequest.only`."""
    given = list(patterns)
    wanted = [pattern for pattern in given if not pattern.startswith("!")]
    return (not wanted or any(fnmatchcase(key, pattern) for pattern in wanted)) and not any(
        fnmatchcase(key, pattern[1:]) for pattern in given if pattern.startswith("!")
    )
