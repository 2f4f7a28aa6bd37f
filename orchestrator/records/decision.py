"""The Decision: the answer of routing, and its analysis of the task. It stays valid when the catalogue changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.common.fields import named
from orchestrator.common.json_input import read_json, reading
from orchestrator.errors import InvalidInput
from orchestrator.records.delta import Delta
from orchestrator.records.relation import Edge, Related
from orchestrator.records.request import Turn
from orchestrator.records.tool import CatalogueVersion, Match, Rejected, Stage, Tokens, Tool
from orchestrator.records.usage import Usage

if TYPE_CHECKING:  # At run time, records import no package of a higher layer.
    from orchestrator.catalogue.export import Provider
    from orchestrator.catalogue.resolve import ResolvedCall

MIN_CONFIDENCE = 0.3
"""The minimum confidence for a planned tool. A suggestion needs only `Options.floor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A thing that a task names.

    Attributes:
        text: The words in the task.
        kind: `tool`, `server`, `identifier`, `path` or `url`.
        means: The tool keys or the server names that these words mean.

    Examples:
        >>> from orchestrator import Entity
        >>> Entity(text="GitHub", kind="server", means=("github",)).means
        ('github',)
    """

    text: str
    kind: str
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The analysis of a task, made without a language model.

    Attributes:
        entities: The things that the task names.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl", pipeline="koi") as router:
        ...     decision = router.route_sync("show issue #42 on github")
        >>> [(entity.kind, entity.text) for entity in decision.about.entities]
        [('server', 'github')]
    """

    entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server that a task names.

    Attributes:
        said: The words in the task.
        server: The name of the server. Empty for a configured server without listed tools.
        left_out: Whether the task also excludes the server.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("show the issue on github").named_servers[0].server
        'github'
    """

    said: str
    server: str = ""
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a RouteRequest: the matches, the recommendation, the servers to connect, and the evidence.

    Attributes:
        query: The task.
        tenant: The tenant for whom the task was routed.
        stage: The stage that settled the Decision.
        confidence: The probability that `matches[0]` is right, 0 to 1.
        gate_confidence: The keyword leg's probability that its own best tool is right, 0 to 1.
        semantic_ran: Whether the semantic leg ran.
        matches: The matches, best first.
        recommended: The keys of the tools to use first. Empty if the stage is `none`.
        servers: The names of the MCP servers to connect: those of the recommended tools.
        tokens: The tokens of all definitions and of the matches' definitions.
        catalogue: The version of the catalogue.
        rejected: Tools that are no matches, with the reasons.
        timings_ms: Milliseconds for each stage that ran.
        warnings: Warnings for the caller.
        offered: The keys of the matches in the order of `tools()`. It is best first. In a conversation, tools of
            earlier turns come first, in the order in which they were offered.
        parts: The texts of the clauses that were searched separately. Empty if the task has only one.
        named_servers: The servers that the task names. A plan uses no other server in place of one of these.
        related: At most ten tools within two hops of the recommended tools, nearest first.
        graph: The edges among the recommended and the related tools.
        leans: Whether the task is understood only with the earlier turns of the conversation.
        about: The analysis of the task, if the preset makes one.
        needs: The tools that the task needs, in the words of a language model.
        usage: The tokens that a language model used for this Decision.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     decision = router.route_sync("refund a charge")
        >>> decision.recommended
        ('stripe:refund_charge',)
        >>> decision.tools("anthropic")[0]["name"]
        'stripe__refund_charge'
    """

    query: str
    tenant: str
    stage: Stage
    confidence: float
    gate_confidence: float
    semantic_ran: bool
    matches: tuple[Match, ...]
    recommended: tuple[str, ...]
    servers: tuple[str, ...]
    tokens: Tokens
    catalogue: CatalogueVersion
    rejected: tuple[Rejected, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    named_servers: tuple[NamedServer, ...] = ()
    related: tuple[Related, ...] = ()
    graph: tuple[Edge, ...] = ()
    leans: bool = False
    about: About | None = None
    needs: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)

    def __repr__(self) -> str:
        summary = f"confidence={self.confidence:.2f}, recommended={self.recommended}, {len(self.matches)} matches"
        return f"Decision({self.query[:60]!r}, {str(self.stage)!r}, {summary})"

    def tool(self, key: str) -> Tool | None:
        """Return the matched tool with this key (`server:name`), or None."""
        return next((match.tool for match in self.matches if match.tool.key == key), None)

    @named
    def tools(self, provider: "Provider" = "openai") -> list[Any]:
        """Return the matches as tool definitions for a model, in the order of `offered`.

        The names are unique, and the provider allows them. Each definition is a dict. The type is Any so that type
        checkers accept the definitions as every provider's own types.

        Args:
            provider: The shape of the definitions: `openai` (Responses API), `openai-chat`, `anthropic` or `mcp`.
        """
        from orchestrator.catalogue.export import export

        return export(_in_order(self), provider)

    @named
    def delta(self, previous: "Decision | Delta | None" = None) -> Delta:
        """Return the tools that this Decision adds to the tools that the model already has.

        In a conversation, give each turn the Delta of the turn before. A Decision that recommends nothing adds nothing.

        Args:
            previous: The Decision or the Delta of the turn before. Default: the model has no tools yet.
        """
        return Delta.between(_offered_by(previous), _in_order(self), adds=bool(self.recommended))

    @named
    def turn(self, *used: str, role: str = "user") -> Turn:
        """Return this Decision's task as a turn for the conversation of the next request.

        Args:
            used: The keys of the tools that were used in this turn.
            role: The role of the speaker.
        """
        return Turn(text=self.query, role=role, tools=used, offered=self.offered)

    def resolve(self, call: Any) -> "ResolvedCall":
        """Map a model's tool call to the tool that it means and to checked arguments.

        Args:
            call: The call, as an object or a dict of any provider.

        Raises:
            UnknownTool: The model used a name that was not offered.
            InvalidArguments: The arguments do not fit the tool's schema.
        """
        from orchestrator.catalogue.resolve import resolve

        return resolve([match.tool for match in self.matches], call)

    @named
    def to_json(self, *, definitions: bool = True) -> dict[str, Any]:
        """Return the Decision as JSON, in the form of `toolroute route -o json`.

        Args:
            definitions: Whether each match contains its tool's `definition`. `from_json` needs them. Without them the
                numbers are rounded, as on the command line.
        """
        from pydantic_core import to_jsonable_python

        if definitions:
            complete: dict[str, Any] = to_jsonable_python(self)
            for match, record in zip(self.matches, complete["matches"], strict=True):
                record |= {"definition": record["tool"], **_named(match.tool)}
            return complete
        short: dict[str, Any] = to_jsonable_python(
            self, exclude={"matches", "named_servers", "leans"}
        )
        return short | {
            "confidence": round(self.confidence, 4),
            "gate_confidence": round(self.gate_confidence, 4),
            "timings_ms": {stage: round(ms, 3) for stage, ms in self.timings_ms.items()},
            "matches": [_match_json(match) for match in self.matches],
        }

    @classmethod
    @named
    def from_json(cls, data: Mapping[str, Any] | str) -> "Decision":
        """Return the Decision that `to_json` wrote, also in another process.

        JSON contains no Python functions. If the catalogue was made from functions,
        use `catalogue[call.tool.key].function`.

        Args:
            data: The JSON as a text or as a mapping.

        Raises:
            InvalidInput: The JSON is not a Decision, or it has no definitions.
        """
        from pydantic import TypeAdapter

        with reading("the Decision's JSON", "give what Decision.to_json() returns"):
            read = read_json(data) if isinstance(data, str) else data
            if not isinstance(read, Mapping):
                raise InvalidInput(f"it is a {type(read).__name__}, not an object")
            if "matches" not in read:
                raise InvalidInput("it has no `matches`")
            if not all("definition" in match for match in read["matches"]):
                raise InvalidInput("it has no definitions: write it with to_json(definitions=True)")
            matches = [{**match, "tool": match["definition"]} for match in read["matches"]]
            return TypeAdapter(cls).validate_python({**read, "matches": matches})


def _offered_by(previous: object) -> tuple[Tool, ...]:
    """Return the tools that the model has since the turn before."""
    if isinstance(previous, Decision):
        return _in_order(previous)
    if isinstance(previous, Delta):
        return previous.offered
    if previous is None:
        return ()
    remedy = "give the Decision or the Delta of the turn before"
    raise InvalidInput(f"previous={previous!r:.80}: {remedy}")


def _in_order(decision: Decision) -> tuple[Tool, ...]:
    positions = {key: number for number, key in enumerate(decision.offered)}
    tools = [match.tool for match in decision.matches]
    return tuple(sorted(tools, key=lambda tool: positions.get(tool.key, len(positions))))


def _named(tool: Tool) -> dict[str, str]:
    return {"tool": tool.key, "server": tool.server, "name": tool.name, "kind": str(tool.kind)}


def _match_json(match: Match) -> dict[str, Any]:
    from pydantic_core import to_jsonable_python

    rounded = {
        "probability": round(match.probability, 4),
        "evidence": {leg: round(score, 4) for leg, score in match.evidence.items()},
    }
    record: dict[str, Any] = to_jsonable_python(match, exclude={"tool", "words"})
    return _named(match.tool) | record | rounded
