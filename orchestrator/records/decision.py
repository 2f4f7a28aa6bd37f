"""The Decision: what routing answers, complete enough to stay valid when the catalogue changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.common.json_input import read_json, reading
from orchestrator.errors import InvalidInput
from orchestrator.records.about import About
from orchestrator.records.delta import Delta
from orchestrator.records.relation import Edge, Related
from orchestrator.records.request import Turn
from orchestrator.records.tool import CatalogueVersion, Match, Rejected, Stage, Tokens, Tool
from orchestrator.records.usage import Usage

if TYPE_CHECKING:  # Records import nothing above them.
    from orchestrator.catalogue.export import Provider, ResolvedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server that a task names, in the words `said`.

    `server` is the name of the server, or "" for a configured server whose tools are not listed. `left_out` is True if
    the task also says that it does not want the server.
    """

    said: str
    server: str = ""
    left_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a RouteRequest: matches best first, what to use, what to connect, and the evidence.

    `confidence` is the probability that `matches[0]` is right; `gate_confidence` the keyword leg's for its own best
    tool; `timings_ms` names every stage that ran. `servers` are those worth connecting, not all that matched.
    `offered` is the order of `tools()`: best first, but within a conversation as earlier turns were offered them.
    `parts` are the texts of the clauses that routing searched for by themselves, where there are several.
    `named_servers`: a plan puts no other server in the place of one that the task names. `related` are the tools within
    two hops of the recommended ones, at most ten, and `graph` the edges among all of these. It `leans` where only the
    turns before say what the task means. `about` is a preset's analysis of the task: a question about tools is answered
    there. `needs` are those that a language model wrote of the task, and `usage` is what it took for this Decision.
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
        found = f"confidence={self.confidence:.2f}, recommended={self.recommended}, {len(self.matches)} matches"
        return f"Decision({self.query[:60]!r}, {str(self.stage)!r}, {found})"

    def tool(self, key: str) -> Tool | None:
        """Return the matched tool with this `server:name`, or None."""
        return next((match.tool for match in self.matches if match.tool.key == key), None)

    def tools(self, provider: "Provider" = "openai") -> list[Any]:
        """Return the matches as tool definitions for a model, as `offered`, with legal and unique names.

        Each is a dict. They are typed as Any, so that type checkers take them for every provider's own types.
        """
        from orchestrator.catalogue.export import export

        return export(_in_order(self), provider)

    def delta(self, previous: "Decision | Delta | None" = None) -> Delta:
        """Return what this Decision adds to what the model was offered before: by an earlier Decision, or so far.

        In a conversation hand each turn the Delta of the one before it. What recommends nothing adds nothing.
        """
        if isinstance(previous, Decision):
            previous = Delta(new=_in_order(previous))
        seen = previous.offered if previous else ()
        return Delta.between(seen, _in_order(self), adds=bool(self.recommended))

    def turn(self, *used: str, role: str = "user") -> Turn:
        """Return this Decision's query as a turn for the next request, with the keys of the tools that were used."""
        return Turn(text=self.query, role=role, tools=used, offered=self.offered)

    def resolve(self, call: Any) -> "ResolvedCall":
        """Map a model's tool call (object or dict of any provider) to this Decision's tool and checked arguments.

        Raises UnknownTool for a name that was not offered and InvalidArguments for arguments against the schema.
        """
        from orchestrator.catalogue.export import resolve

        return resolve([match.tool for match in self.matches], call)

    def to_json(self, *, definitions: bool = True) -> dict[str, Any]:
        """Return the Decision as JSON: the contract of `toolroute route -o json`, and what `from_json` needs.

        Args:
            definitions: Whether each match has its tool's `definition`. Without them `from_json` cannot read it, and
                figures are rounded: this is what the command line prints.
        """
        from pydantic_core import to_jsonable_python

        if definitions:
            whole: dict[str, Any] = to_jsonable_python(self)
            for match, own in zip(self.matches, whole["matches"], strict=True):
                own |= {"definition": own["tool"], **_named(match.tool)}
            return whole
        shown: dict[str, Any] = to_jsonable_python(self, exclude={"matches", "named_servers", "leans"})
        return shown | {
            "confidence": round(self.confidence, 4),
            "gate_confidence": round(self.gate_confidence, 4),
            "timings_ms": {stage: round(ms, 3) for stage, ms in self.timings_ms.items()},
            "matches": [_match_json(match) for match in self.matches],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> "Decision":
        """Return the Decision that `to_json` has written, also in another process: calls are resolved as before.

        A function is not written: `catalogue[call.tool.key].function` has it where the catalogue is made of functions.

        Raises:
            InvalidInput: It is no Decision, or one without definitions.
        """
        from pydantic import TypeAdapter

        with reading("the Decision's JSON", "give what Decision.to_json() returns"):
            read = read_json(data) if isinstance(data, str) else data
            if not isinstance(read, Mapping) or not all("definition" in own for own in read.get("matches", [{}])):
                raise InvalidInput("it holds no definitions: write it with to_json(definitions=True)")
            matches = [{**own, "tool": own["definition"]} for own in read["matches"]]
            return TypeAdapter(cls).validate_python({**read, "matches": matches})


def _in_order(decision: Decision) -> tuple[Tool, ...]:
    """Return the matched tools as `offered`."""
    place = {key: number for number, key in enumerate(decision.offered)}
    tools = [match.tool for match in decision.matches]
    return tuple(sorted(tools, key=lambda tool: place.get(tool.key, len(place))))


def _named(tool: Tool) -> dict[str, str]:
    return {"tool": tool.key, "server": tool.server, "name": tool.name, "kind": str(tool.kind)}


def _match_json(match: Match) -> dict[str, Any]:
    from pydantic_core import to_jsonable_python

    rounded = {"score": round(match.score, 4), "evidence": {leg: round(own, 4) for leg, own in match.evidence.items()}}
    shown: dict[str, Any] = to_jsonable_python(match, exclude={"tool", "words"})
    return _named(match.tool) | shown | rounded
