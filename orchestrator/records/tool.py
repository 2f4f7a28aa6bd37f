"""The records of tools and matches."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from orchestrator.common.digests import COMPARED_DIGITS, digest
from orchestrator.common.fields import Give, Text, check, member
from orchestrator.common.keys import key_of
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.relation import Relation


class Kind(StrEnum):
    """The kind of a tool. Executors are chosen by kind.

    Examples:
        >>> from orchestrator import Kind, Tool
        >>> Tool(server="agents", name="code_review_agent", kind=Kind.AGENT).kind.value
        'agent'
    """

    MCP = "mcp"
    AGENT = "agent"
    INTEGRATION = "integration"
    WORKFLOW = "workflow"
    BUILTIN = "builtin"
    SKILL = "skill"

    @property
    def is_served(self) -> bool:
        """True for a tool or a skill of an MCP server."""
        return self in (Kind.MCP, Kind.SKILL)


class Stage(StrEnum):
    """The stage that settled a Decision: `always`, `explicit`, `keyword`, `semantic` or `none`.

    Examples:
        >>> from orchestrator import Router, Stage
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("refund a charge").stage is Stage.KEYWORD
        True
    """

    ALWAYS = "always"
    EXPLICIT = "explicit"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    NONE = "none"


FOUND_BY = {
    Stage.ALWAYS: "an always-available tool",
    Stage.EXPLICIT: "found on a server that the task names",
    Stage.KEYWORD: "found by keyword search",
    Stage.SEMANTIC: "found by keyword and semantic search",
    Stage.NONE: "no tool matches",
}
"""How the matches of a Decision were found, in words for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The hints of an MCP server about a tool. None: the server gives no hint.

    Attributes:
        read_only: The tool only reads.
        destructive: The tool may destroy something.
        idempotent: A second call with the same arguments changes nothing.
        open_world: The tool reaches beyond its server, for example the web.

    Raises:
        InvalidCatalogue: A hint is not True, False or None.

    Examples:
        >>> from orchestrator import Annotations, Tool
        >>> Tool(server="time", name="get_current_time", annotations=Annotations(read_only=True)).replayable
        True
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def __post_init__(self) -> None:
        # A text such as "false" would be true, and the tool would need no approval.
        for name in ("read_only", "destructive", "idempotent", "open_world"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise InvalidCatalogue(f"{name}={value!r:.80}: give True, False or None")


class _Local:
    """Data of a tool that only its process knows.

    It is no field, so no history, hash, JSON or comparison contains it.
    """

    __slots__ = ("_function", "_suspicions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(_Local):
    """One callable capability.

    Attributes:
        server: The name of the server. Empty if the tool belongs to no server.
        name: The name of the tool on its server.
        description: The description, for people and models.
        input_schema: The JSON Schema of the arguments.
        kind: The kind, by which an executor is chosen.
        keywords: Further words by which the tool is found.
        labels: Labels, for filters and for limits of calls.
        annotations: The hints of its server.
        hash: Identifies the definition. It stays the same when the schema is shortened.
        relations: The relations that the tool states.
        title: The name for people.

    Raises:
        InvalidCatalogue: A field has a wrong type.

    Examples:
        >>> from orchestrator import Tool
        >>> Tool(server="stripe", name="refund_charge", description="Give a customer their money back").key
        'stripe:refund_charge'
    """

    server: Annotated[str, Give('the name of its server, "" for none')]
    name: Text
    description: Text = ""
    input_schema: Annotated[
        dict[str, Any] | None, Give("a JSON Schema of type object as a dict, or None")
    ] = None
    kind: Kind = Kind.MCP
    keywords: Annotated[tuple[str, ...], Give("a tuple of texts")] = ()
    labels: Annotated[dict[str, str], Give("a dict of texts")] = field(default_factory=dict)
    annotations: Annotated[Annotations, Give("Annotations")] = Annotations()
    hash: str = ""
    relations: Annotated[tuple[Relation, ...], Give("a tuple of Relation records")] = ()
    title: Text = ""

    def __post_init__(self) -> None:
        check(self, InvalidCatalogue)
        if not self.hash:
            object.__setattr__(self, "kind", member(Kind, "kind", self.kind))
            object.__setattr__(self, "hash", _definition_digest(self, 16))

    def __repr__(self) -> str:
        return f"Tool({self.key!r}, {self.description[:60]!r})"

    @property
    def key(self) -> str:
        """The key: `server:name`, or only the name for a tool without a server. A server's name contains no colon."""
        return key_of(self.server, self.name)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function behind a tool of this process. It checks its arguments and takes them by name."""
        return getattr(self, "_function", None)

    @property
    def suspicions(self) -> tuple[str, ...] | None:
        """The reasons why its texts are flagged. None: nobody has read this object yet (`index.flags.suspicions`)."""
        return getattr(self, "_suspicions", None)

    def has_replaced(self, key: str) -> bool:
        """Return True if this tool states that it replaces the tool with this key."""
        return any(relation.replaces and relation.to == key for relation in self.relations)

    @property
    def replayable(self) -> bool:
        """True if a call may be sent again after its answer was lost.

        The labels `read_only` and `idempotent` overrule the hints of the same name. A tool that honours the idempotency
        key of a call has the label `idempotency` with the value `key`.
        """
        hints = {"read_only": self.annotations.read_only, "idempotent": self.annotations.idempotent}
        stated = [self.labels.get(name, str(hint)).lower() for name, hint in hints.items()]
        has_key = self.labels.get("idempotency") == "key"
        return has_key or not {"true", "yes"}.isdisjoint(stated)

    @property
    def filtered_by(self) -> dict[str, str]:
        """The values for filters: the kind, the server, the name, all labels, `read_only` for a tool that only reads,
        and `served` for the tools and skills of MCP servers.
        """
        hints = {"read_only": "true"} if self.annotations.read_only else {}
        if self.kind.is_served:
            hints["served"] = "true"
        return {
            **hints,
            **self.labels,
            "kind": str(self.kind),
            "server": self.server,
            "name": self.name,
        }


def running(tool: Tool, function: Callable[..., Any] | None) -> Tool:
    """Return the tool with the function that carries out its calls in this process."""
    object.__setattr__(tool, "_function", function)
    return tool


def remember_suspicions(tool: Tool, reasons: tuple[str, ...]) -> None:
    """Keep the reasons, because an import, a search and a warning ask for them, and reading takes .2 ms."""
    object.__setattr__(tool, "_suspicions", reasons)


def altered(tool: Tool, **fields: Any) -> Tool:
    """Return the tool with changed fields. It keeps its function."""
    return running(replace(tool, **fields), tool.function)


def as_chosen(live: Tool, catalogue_tool: Tool) -> Tool:
    """Return the live tool with the keywords and labels that a catalogue added to its definition."""
    if live.hash == catalogue_tool.hash:
        return live
    return replace(
        live,
        keywords=catalogue_tool.keywords,
        labels=catalogue_tool.labels,
        kind=catalogue_tool.kind,
        relations=live.relations or catalogue_tool.relations,
        hash="",
    )


def definition_digest(tool: Tool) -> str:
    """Return a digest by which a person approves a definition. It has more digits than `Tool.hash`."""
    return _definition_digest(tool, COMPARED_DIGITS)


def _definition_digest(tool: Tool, digits: int) -> str:
    """Return digits of SHA-256 over everything on which a caller or an index depends.

    A new field with its default value is left out, so that the hashes of existing tools stay the same.
    """
    hints = tool.annotations
    relations = [
        {"to": relation.to, "type": relation.type, "weight": relation.weight}
        for relation in tool.relations
    ]
    content = [
        *(tool.server, tool.name, tool.description, tool.input_schema, str(tool.kind)),
        *(list(tool.keywords), tool.labels),
        [hints.read_only, hints.destructive, hints.idempotent, hints.open_world],
        *([relations] if relations else []),
        *([{"title": tool.title}] if tool.title else []),
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest(text, digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gives:
    """A value that one tool returns and another tool requires.

    Attributes:
        parameter: The parameter that takes the value.
        tool: The key of the tool that requires it.

    Examples:
        >>> from orchestrator import Gives
        >>> str(Gives(parameter="issue_number", tool="github:get_issue"))
        'gives the issue_number that github:get_issue requires'
    """

    parameter: str
    tool: str

    def __str__(self) -> str:
        return f"gives the {self.parameter} that {self.tool} requires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A tool with its probability and the evidence for it.

    Attributes:
        tool: The tool.
        probability: The chance that the tool is needed, 0 to 1. That of the first match is at most the confidence.
        evidence: The probability by each leg that found the tool (`always`, `explicit`, `keyword`, `semantic`).
            `required` is the probability that the tool is called for a value that another match requires.
        why: The evidence in words, for people.
        words: The task's words in the tool, by field (`name`, `server`, `description`, `parameters`).
        gives: The value for which the tool is `required`.
        for_parts: The probability that the tool is right for each of `Decision.parts` alone. Empty if routing did not
            find the tool there.
        source: The name of the store of the tool, if routing has several stores.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("refund a charge").matches[0].tool.key
        'stripe:refund_charge'
    """

    tool: Tool
    probability: float = 0.0
    evidence: dict[str, float] = field(default_factory=dict)
    why: str = ""
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gives: Gives | None = None
    for_parts: tuple[float, ...] = ()
    source: str = ""

    def __repr__(self) -> str:
        return f"Match({self.tool.key!r}, {self.probability:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A candidate that did not become a match.

    Attributes:
        tool: The key of the tool.
        why: The reason.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     decision = router.route_sync("review my code", limit=1)
        >>> "ranked after" in decision.rejected[0].why
        True
    """

    tool: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens that routing saves, by an estimate that is rarely too low.

    Attributes:
        before: The tokens of all definitions of the catalogue.
        after: The tokens of the matches' definitions.

    Examples:
        >>> from orchestrator import Tokens
        >>> Tokens(before=20_000, after=1_000).saved
        0.95
    """

    before: int
    after: int

    @property
    def saved(self) -> float:
        """The share of the catalogue's tokens that the model does not have to read, 0 to 1."""
        return 1 - self.after / self.before if self.before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueVersion:
    """The version of the catalogue with which a Decision was made.

    Attributes:
        fingerprint: The digest of all definitions.
        tools: The number of tools.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("refund a charge").catalogue.tools
        197
    """

    fingerprint: str
    tools: int
