"""What a task says of tools, and the answer to a question about them."""

from dataclasses import dataclass, field

GENERAL, DEFINITION, USAGE, OVERVIEW, SIMILAR = "general", "definition", "usage", "overview", "similar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that a task names, as it stands there. `kind`: tool, server, identifier, path or url.

    `means` are the keys of the tools, or the server.
    """

    text: str
    kind: str
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutTool:
    """A tool of an answer: its key, `how` it belongs there, what it says of itself, and, of one that is defined, what
    it `takes`."""

    tool: str
    how: str
    says: str = ""
    takes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The analysis of a task, without a model.

    `intent`: `definition`, `usage`, `overview` or `similar` for a question about tools, which `tools` answer (and
    `more`, not listed), else `general`. `filters` are suggested, not set. `expanded`: words with synonyms.
    """

    intent: str = GENERAL
    entities: tuple[Entity, ...] = ()
    filters: dict[str, str] = field(default_factory=dict)
    expanded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tools: tuple[AboutTool, ...] = ()
    more: int = 0
