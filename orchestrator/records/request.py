"""The request: a task, its tenant and its conversation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Literal

from orchestrator.common.fields import Give, Text, check, member, settings
from orchestrator.common.keys import matches_name
from orchestrator.common.tenant import check_tenant
from orchestrator.errors import InvalidInput

MAX_LIMIT = 50
MAX_QUERY_CHARS = 100_000
"""A query is part of the Decision, and the Decision of a workflow history."""
MAX_CONVERSATION_CHARS = 500_000


class RouteHint(StrEnum):
    """The legs to run.

    - `auto`: the gate decides whether the semantic leg runs.
    - `keyword`: only the keyword leg.
    - `semantic`: both legs.
    - `vector` and `graph`: only this list orders the matches, in presets that have it.

    Examples:
        >>> from orchestrator import RouteHint, RouteRequest
        >>> RouteRequest(query="refund a charge", route_hint="keyword").route_hint is RouteHint.KEYWORD
        True
    """

    AUTO = "auto"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    VECTOR = "vector"
    GRAPH = "graph"

    @property
    def ordered_by(self) -> str:
        """The only list that orders the matches, in presets that have it. Empty: all lists do."""
        return {RouteHint.VECTOR: "vectors", RouteHint.GRAPH: "graph"}.get(self, "")


class Fusion(StrEnum):
    """How the scores of the legs are merged: `learnt` (fitted maps), `weighted` (a weighted sum) or `rrf`
    (reciprocal ranks).

    Examples:
        >>> from orchestrator import Fusion, RouteRequest
        >>> RouteRequest(query="refund a charge", fusion="rrf").fusion is Fusion.RRF
        True
    """

    LEARNT = "learnt"
    WEIGHTED = "weighted"
    RRF = "rrf"


if TYPE_CHECKING:  # A constructor also takes the names, and makes members of them.
    AnyHint = RouteHint | Literal["auto", "keyword", "semantic", "vector", "graph"]
    AnyFusion = Fusion | Literal["learnt", "weighted", "rrf"]
else:
    AnyHint = RouteHint
    AnyFusion = Fusion

Keys = Annotated[tuple[str, ...], Give("a tuple of the keys of tools")]


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One earlier turn of a conversation. `Decision.turn()` makes it.

    Attributes:
        text: The text of the turn.
        role: The role of the speaker.
        tools: The keys of the tools that the turn used.
        offered: The keys of the tools that the model had in this turn, in order.

    Examples:
        >>> from orchestrator import Router, Turn
        >>> earlier = Turn(text="list the open pull requests on github", tools=("github:list_pull_requests",))
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("and the closed ones", conversation=[earlier]).leans
        True
    """

    text: Annotated[str, Give("the text of the turn")]
    role: Text = "user"
    tools: Keys = ()
    offered: Keys = ()


Task = Annotated[str, Give("the task as a text")]
Tenant = Annotated[str, Give("org:ID or user:ID")]
Limit = Annotated[int, Give(f"1 to {MAX_LIMIT}", ge=1, le=MAX_LIMIT)]
Conversation = Annotated[tuple[Turn, ...], Give("a tuple of Turn records, oldest first")]


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A task to route.

    Attributes:
        query: The task in words.
        tenant: The tenant. Only its tools may match. A Router takes `local` as default, and a worker requires a tenant.
        limit: The maximum number of matches, 1 to 50.
        conversation: Earlier turns, oldest first. They count towards the meaning of the task.
        filters: Conditions that every match must meet: `kind`, `server`, `name` or a label, each with its value.
        route_hint: The legs to run.
        token_cap: The maximum size of the matches' definitions, in tokens. Default: no limit.
        fusion: How the scores of the legs are merged. Default: the pipeline's own way.
        context: Preferred labels, most important first. A label that would leave no tool is ignored.

    Examples:
        >>> from orchestrator import RouteRequest, Router
        >>> request = RouteRequest(query="refund a charge", limit=3, filters={"server": "stripe"})
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync(request).recommended
        ('stripe:refund_charge',)
    """

    query: Task
    tenant: Tenant = ""
    limit: Limit = 10
    conversation: Conversation = ()
    filters: Annotated[dict[str, str], Give("a mapping of texts, e.g. {'kind': 'agent'}")] = field(
        default_factory=dict
    )
    route_hint: AnyHint = RouteHint.AUTO
    token_cap: Annotated[int | None, Give("a number of tokens above 0, or none", gt=0)] = None
    fusion: AnyFusion | None = None
    context: Annotated[
        dict[str, str],
        Give("a mapping of texts, most important first, e.g. {'language': 'python'}"),
    ] = field(default_factory=dict)
    context_order: tuple[str, ...] = ()
    """The names in `context`, most important first. JSON on its way through Temporal is sorted by name, so the order is
    kept here.
    """
    only: Annotated[
        tuple[str, ...], Give("a tuple of patterns, e.g. ('github:*', '!github:delete_*')")
    ] = ()
    """Patterns of keys. A match fits one of the patterns, if there are any, and none of the patterns that begin
    with `!`.
    """
    actor: Annotated[str, Give("the person who asks, as a text")] = ""
    """The person who asks. Another single person's past tasks raise no tool to .7 for them."""

    def __post_init__(self) -> None:
        if isinstance(self.context, dict):
            names = (
                self.context_order
                if {*self.context_order} == self.context.keys()
                else tuple(self.context)
            )
            object.__setattr__(self, "context_order", names)
            object.__setattr__(self, "context", {name: self.context[name] for name in names})
        for name, kind in (("route_hint", RouteHint), ("fusion", Fusion)):
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                object.__setattr__(self, name, member(kind, name, value))

    def validate(self) -> None:
        """Check the request.

        Raises:
            InvalidInput: The query is empty or too long, or a setting is out of range.
            UnknownTenant: The tenant is missing or malformed.
        """
        self.check_settings()
        if not self.query.strip():
            raise InvalidInput("query is empty: give the task in words")
        if len(self.query) > MAX_QUERY_CHARS:
            raise InvalidInput(
                f"query too long: {len(self.query):,} characters, limit {MAX_QUERY_CHARS:,}"
            )
        characters = sum(len(turn.text) for turn in self.conversation)
        if characters > MAX_CONVERSATION_CHARS:
            size = f"{characters:,} characters, limit {MAX_CONVERSATION_CHARS:,}"
            raise InvalidInput(f"conversation too long: {size}; give only its last turns")

    def check_settings(self) -> None:
        """Check the request without the length of its texts."""
        check(self)
        for turn in self.conversation:
            check(turn)
        if self.fusion is not None and self.route_hint is RouteHint.KEYWORD:
            raise InvalidInput(
                f"fusion={str(self.fusion)!r} has no effect with route_hint='keyword', which has one list to order by: "
                "leave one of them out"
            )
        check_tenant(self.tenant)


def turns_of(conversation: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns as a tuple.

    Raises:
        InvalidInput: The conversation is not a sequence, for example a single Turn.
    """
    if not isinstance(conversation, Iterable):
        raise InvalidInput(
            f"conversation={conversation!r:.80}: give Turn records in a list, oldest first"
        )
    return tuple(conversation)


def within(key: str, patterns: Iterable[str]) -> bool:
    """Return True if a tool's key fits the patterns of `RouteRequest.only`.

    An exclusion also excludes other spellings of a name (`common.keys`).
    """
    all_patterns = list(patterns)
    included = [pattern for pattern in all_patterns if not pattern.startswith("!")]
    if included and not any(fnmatchcase(key, pattern) for pattern in included):
        return False
    return not any(
        matches_name(key, pattern[1:]) for pattern in all_patterns if pattern.startswith("!")
    )
