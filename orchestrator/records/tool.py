"""Routing: tools and matches."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from orchestrator.common.digests import digest
from orchestrator.common.fields import Give, Text, check, member
from orchestrator.common.keys import key_of
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.relation import Relation


class Kind(StrEnum):
    """The kinds of tools, by which executors are chosen."""

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


FOUND_BY = {
    Stage.ALWAYS: "an always-available tool",
    Stage.EXPLICIT: "found on a server that the task names",
    Stage.KEYWORD: "found by keyword search",
    Stage.SEMANTIC: "found by keyword and semantic search",
    Stage.NONE: "no tool fits",
}
"""How a Decision's matches were found, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """MCP's hints about a tool; None is "not said"."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class _Local:
    """What only the process of a tool knows: no field, so that no history, hash, JSON or comparison has it."""

    __slots__ = ("_function",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(_Local):
    """One callable capability. `hash` names its definition and survives a shortened schema.

    InvalidCatalogue where a field is of another type.
    """

    server: Annotated[str, Give('whose tool it is, "" for nobody\'s')]
    name: Text
    description: Text = ""
    input_schema: Annotated[dict[str, Any] | None, Give("a JSON Schema of type object as a dict, or None")] = None
    kind: Kind = Kind.MCP
    keywords: Annotated[tuple[str, ...], Give("a tuple of texts")] = ()
    labels: Annotated[dict[str, str], Give("a dict of texts")] = field(default_factory=dict)
    annotations: Annotated[Annotations, Give("Annotations")] = Annotations()
    hash: str = ""
    relations: tuple[Relation, ...] = ()
    title: Text = ""

    def __post_init__(self) -> None:
        check(self, InvalidCatalogue)
        if not self.hash:
            object.__setattr__(self, "kind", member(Kind, "kind", self.kind))
            object.__setattr__(self, "hash", _definition_hash(self))

    def __repr__(self) -> str:
        return f"Tool({self.key!r}, {self.description[:60]!r})"

    @property
    def key(self) -> str:
        """Return `server:name`, or the plain name where no server has the tool. No server holds a colon."""
        return key_of(self.server, self.name)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function behind a tool of this process: it validates its arguments, which it takes by name."""
        return getattr(self, "_function", None)

    def has_replaced(self, key: str) -> bool:
        """Tell whether this tool states that it replaces the one of this key."""
        return any(relation.replaces and relation.to == key for relation in self.relations)

    @property
    def replayable(self) -> bool:
        """Tell whether a call whose answer was lost may be sent again: by its hints, or as its labels say.

        The labels `read_only` and `idempotent` go before those hints; a tool that honours a call's key has
        `idempotency` = `key`.
        """
        hints = {"read_only": self.annotations.read_only, "idempotent": self.annotations.idempotent}
        said = (self.labels.get(name, str(hint)).lower() in ("true", "yes") for name, hint in hints.items())
        return any(said) or self.labels.get("idempotency") == "key"

    @property
    def filtered_by(self) -> dict[str, str]:
        """Return what filters ask for: its kind, server and name, and its labels of other names."""
        return {**self.labels, "kind": str(self.kind), "server": self.server, "name": self.name}


def running(tool: Tool, function: Callable[..., Any] | None) -> Tool:
    """Return the tool, with the function that carries out its calls in this process."""
    object.__setattr__(tool, "_function", function)
    return tool


def altered(tool: Tool, **fields: Any) -> Tool:
    """Return the tool with other fields; its function stays."""
    return running(replace(tool, **fields), tool.function)


def _definition_hash(tool: Tool) -> str:
    """Return 64 bits of SHA-256, as 16 hexadecimal digits, over everything that a caller or an index depends on.

    Each field is named, so that a later one, with its default, leaves the hash of every tool as it is.
    """
    hints = tool.annotations
    relations = [{"to": one.to, "type": one.type, "weight": one.weight} for one in tool.relations]
    content = [
        *(tool.server, tool.name, tool.description, tool.input_schema, str(tool.kind)),
        *(list(tool.keywords), tool.labels),
        [hints.read_only, hints.destructive, hints.idempotent, hints.open_world],
        *([relations] if relations else []),
        *([{"title": tool.title}] if tool.title else []),
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest(text, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gives:
    """A gift of one tool to another: the parameter, and the key of the tool that requires it."""

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
    find it there. `source` is the store that the tool comes from, where routing has several.
    """

    tool: Tool
    score: float
    evidence: dict[str, float] = field(default_factory=dict)
    why: str = ""
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gives: Gives | None = None
    for_parts: tuple[float, ...] = ()
    source: str = ""

    def __repr__(self) -> str:
        return f"Match({self.tool.key!r}, {self.score:.2f})"


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
        """Return the share of the catalogue's tokens that the model does not have to read, 0 to 1."""
        return 1 - self.after / self.before if self.before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueVersion:
    """The fingerprint of the catalogue that a Decision was made on, and its size."""

    fingerprint: str
    tools: int
