"""Tools and Decisions for the tests of the steps after routing."""

from collections.abc import Sequence
from typing import Any

from orchestrator import (
    Annotations,
    CatalogueVersion,
    Decision,
    Kind,
    Match,
    Plan,
    PlanRequest,
    Provider,
    ResolvedCall,
    Stage,
    Tokens,
    Tool,
    make_plan,
)
from tests.catalogues import tool

TEXT = {"type": "string"}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


READS, DESTROYS = Annotations(read_only=True), Annotations(destructive=True)
_ZONE = "IANA timezone name (e.g., 'America/New_York', 'Europe/London'). "
_ZONE += "Use 'Etc/UTC' as local timezone if no timezone provided by the user."
NOW = tool(
    "time:get_current_time",
    "Get current time in a specific timezone",
    input_schema=schema("timezone", timezone={**TEXT, "description": _ZONE}),
    annotations=READS,
)
_ZONES = dict.fromkeys(("source_timezone", "time", "target_timezone"), TEXT)
CONVERT = tool(
    "time:convert_time", "Convert time between timezones", input_schema=schema(*_ZONES, **_ZONES), annotations=READS
)
_NOTE, _PATH = schema("title", title=TEXT, body=TEXT), schema("path", path=TEXT)
ADD_NOTE = tool("notes:add_note", "Add a note with a title and a body", input_schema=_NOTE, kind=Kind.BUILTIN)
READ = tool("files:read_file", "Read a text file", input_schema=_PATH, kind=Kind.BUILTIN, annotations=READS)
DELETE = tool(
    "files:delete_file", "Delete a file for good", input_schema=_PATH, kind=Kind.BUILTIN, annotations=DESTROYS
)
ALL = (NOW, CONVERT, ADD_NOTE, READ, DELETE)
PUBLISH = tool(
    "reports:publish_report",
    "Publish a report under a title",
    kind=Kind.WORKFLOW,
    input_schema=schema("title", title=TEXT),
)
"""Stands for the workflow `Publish` of tests/my_workflow.py."""


def decision(query: str, tools: Sequence[Tool] = ALL, *, stage: Stage = Stage.KEYWORD) -> Decision:
    """A Decision with these matches in this order, as routing would give it."""
    return Decision(
        query=query,
        tenant="org:1",
        stage=stage,
        confidence=0.9,
        gate_confidence=0.9,
        semantic_ran=False,
        matches=tuple(Match(tool=tool, probability=0.9 - 0.1 * place) for place, tool in enumerate(tools)),
        recommended=tuple(tool.key for tool in tools[:1]),
        servers=(),
        tokens=Tokens(before=0, after=0),
        catalogue=CatalogueVersion(fingerprint="0" * 16, tools=len(tools)),
    )


async def plan_without_model(found: Decision, **settings: Any) -> Plan:
    return await make_plan(None, PlanRequest(decision=found, **settings))


def export(tools: Sequence[Tool], provider: Provider = "openai") -> list[dict[str, Any]]:
    """The tools as a provider's API takes them."""
    return decision("", tools).tools(provider)


def resolve(tools: Sequence[Tool], call: Any) -> ResolvedCall:
    """The call of a model that was offered these tools."""
    return decision("", tools).resolve(call)


def check_arguments(own: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments of a call as the tool gets them."""
    return resolve([own], {"name": own.key, "arguments": arguments}).arguments
