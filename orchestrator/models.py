"""The records of routing: tools, requests and matches. Frozen; they pass Temporal's default converter as they are."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import NoneType
from typing import Any, TypeVar

from orchestrator.digests import digest
from orchestrator.errors import InvalidCatalogue, InvalidInput
from orchestrator.forms import Form, check_forms
from orchestrator.tenants import check_tenant

MAX_LIMIT = 50
MAX_QUERY_CHARS = 100_000
MAX_CONVERSATION_CHARS = 500_000


class Kind(StrEnum):
    """What a tool is, and so which executor calls it."""

    MCP = "mcp"
    AGENT = "agent"
    INTEGRATION = "integration"
    WORKFLOW = "workflow"
    BUILTIN = "builtin"


class Stage(StrEnum):
    """The stage that settled a Decision."""

    ALWAYS = "always"
    EXPLICIT = "explicit"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    NONE = "none"


class RouteHint(StrEnum):
    """Which legs to run: by the gate, keyword alone, or always both."""

    AUTO = "auto"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"


class Fusion(StrEnum):
    """How the legs' answers become one order."""

    LEARNT = "learnt"
    WEIGHTED = "weighted"
    RRF = "rrf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """MCP's hints about a tool; None is "not said"."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def replayable(self) -> bool:
        """Whether a call whose answer was lost may be sent again."""
        return bool(self.idempotent or self.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One callable capability. `hash` names its definition and survives a shortened schema.

    InvalidCatalogue where a field is of another type.
    """

    server: str
    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    kind: Kind = Kind.MCP
    keywords: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: Annotations = Annotations()
    hash: str = ""

    def __post_init__(self) -> None:
        if not self.hash:
            check_forms(self, _TOOL_FORMS, InvalidCatalogue)
            object.__setattr__(self, "kind", _member(Kind, "kind", self.kind))
            object.__setattr__(self, "hash", _definition_hash(self))

    @property
    def key(self) -> str:
        """`server:name`; the server never holds a colon."""
        return f"{self.server}:{self.name}"

    @property
    def filtered_by(self) -> dict[str, str]:
        """What filters ask for: its kind, server and name, which hide labels called so, and its other labels."""
        return {**self.labels, "kind": str(self.kind), "server": self.server, "name": self.name}


_TOOL_FORMS: dict[str, Form] = {
    "server": ((str,), 'whose tool it is, "" for nobody\'s'),
    "name": ((str,), "a text"),
    "description": ((str,), "a text"),
    "input_schema": ((Mapping, NoneType), "a JSON Schema of type object as a dict, or None"),
    "keywords": ((tuple, list), "a tuple of texts"),
    "labels": ((Mapping,), "a dict of texts"),
    "annotations": ((Annotations,), "Annotations"),
}


def _definition_hash(tool: Tool) -> str:
    """64 bits of SHA-256, as 16 hexadecimal digits, over everything that a caller or an index depends on."""
    hints = tool.annotations
    content = [
        tool.server,
        tool.name,
        tool.description,
        tool.input_schema,
        str(tool.kind),
        list(tool.keywords),
        tool.labels,
        [hints.read_only, hints.destructive, hints.idempotent, hints.open_world],
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest(text, 16)


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
    value) must hold; earlier turns of a conversation count towards what the query means. With `coverage` the matches
    are not `limit` many but the fewest that hold all needed tools with that probability, at most 50.
    """

    query: str
    tenant: str = ""
    limit: int = 10
    conversation: tuple[Turn, ...] = ()
    filters: dict[str, str] = field(default_factory=dict)
    route_hint: RouteHint = RouteHint.AUTO
    token_cap: int | None = None
    fusion: Fusion | None = None
    coverage: float | None = None

    def __post_init__(self) -> None:
        for name, kind in (("route_hint", RouteHint), ("fusion", Fusion)):
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                object.__setattr__(self, name, _member(kind, name, value))

    def validate(self) -> None:
        """Raises InvalidInput or UnknownTenant for what cannot be routed."""
        check_forms(self, _FORMS)
        _check_records(self)
        if not self.query.strip():
            raise InvalidInput("query is empty: give the task in words")
        if len(self.query) > MAX_QUERY_CHARS:
            raise InvalidInput(f"query has {len(self.query):,} characters: at most {MAX_QUERY_CHARS:,} are read")
        said = sum(len(turn.text) for turn in self.conversation)
        if said > MAX_CONVERSATION_CHARS:
            most = f"at most {MAX_CONVERSATION_CHARS:,} are read"
            raise InvalidInput(f"the conversation has {said:,} characters: {most}, so give its last turns only")
        check_limit(self.limit)
        if self.token_cap is not None and self.token_cap < 1:
            raise InvalidInput(f"token_cap={self.token_cap!r}: give a number of tokens above 0, or none")
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise InvalidInput(f"coverage={self.coverage!r}: give a probability between 0 and 1, e.g. 0.9, or none")
        check_tenant(self.tenant)


def check_limit(limit: int) -> None:
    """Raises InvalidInput for a number of matches that no Decision has."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit={limit!r}: give 1 to {MAX_LIMIT}")


def turns_of(conversation: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns as a RouteRequest holds them; InvalidInput for what is no sequence, one Turn by itself say."""
    if not isinstance(conversation, Iterable):
        raise InvalidInput(f"conversation={conversation!r:.80}: give Turn records in a list, oldest first")
    return tuple(conversation)


_FORMS: dict[str, Form] = {
    "query": ((str,), "the task as a text"),
    "tenant": ((str,), "org:ID or user:ID"),
    "limit": ((int,), f"1 to {MAX_LIMIT}"),
    "conversation": ((tuple, list), "a tuple of Turn records, oldest first"),
    "filters": ((Mapping,), "a mapping of texts, e.g. {'kind': 'agent'}"),
    "token_cap": ((int, NoneType), "a number of tokens above 0, or none"),
    "coverage": ((int, float, NoneType), "a probability between 0 and 1, e.g. 0.9, or none"),
}


def _check_records(request: RouteRequest) -> None:
    """Raises InvalidInput for filters and turns of the wrong type."""
    if not all(isinstance(value, str) for value in request.filters.values()):
        raise InvalidInput(f"filters={request.filters!r:.80}: give texts, e.g. {{'kind': 'agent'}}")
    for turn in request.conversation:
        if not isinstance(turn, Turn):
            raise InvalidInput(f"conversation holds {turn!r:.80}: give Turn records, oldest first")
        if not isinstance(turn.text, str):
            raise InvalidInput(f"conversation holds a turn whose text is {turn.text!r:.80}: give a text")
        if not (isinstance(turn.tools, tuple | list) and isinstance(turn.offered, tuple | list)):
            raise InvalidInput("conversation holds a turn whose tools or offered are no tuple: give keys of tools")


_Choice = TypeVar("_Choice", bound=StrEnum)


def _member(kind: type[_Choice], name: str, value: Any) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"{name}={value!r}: give one of {', '.join(kind)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gives:
    """What one tool gives another: the parameter, and the key of the tool that requires it."""

    parameter: str
    tool: str

    def __str__(self) -> str:
        return f"gives the {self.parameter} that {self.tool} requires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A tool and how well it fits.

    `score` is a probability; `evidence` maps each leg that found the tool (always, explicit, keyword, semantic) to
    that leg's own probability, and `required` to the chance that it is called for what another match requires; `words`
    maps a field (name, server, description, parameters) to the query's words in it. `gives`: what it is `required` for.
    `for_parts` are the probabilities that it is right for each of `Decision.parts` alone; empty where routing did not
    find it there.
    """

    tool: Tool
    score: float
    evidence: dict[str, float] = field(default_factory=dict)
    why: str = ""
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gives: Gives | None = None
    for_parts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A candidate that did not become a match, and the reason."""

    tool: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of the whole catalogue's definitions, of the matches' definitions, and the counter's name."""

    before: int
    after: int
    counted_by: str

    @property
    def saved(self) -> float:
        """The share of the catalogue's tokens that the model does not have to read, 0 to 1."""
        return 1 - self.after / self.before if self.before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueVersion:
    """The fingerprint of the catalogue that a Decision was made on, and its size."""

    fingerprint: str
    tools: int


def as_plain(mapping: Mapping[str, float], digits: int = 4) -> dict[str, float]:
    """The same mapping rounded for people and programs to read."""
    return {name: round(value, digits) for name, value in mapping.items()}
