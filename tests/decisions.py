"""Tools and Decisions for tests of what comes after routing."""

from collections.abc import Sequence
from typing import Any

from orchestrator.records.decision import Decision
from orchestrator.records.tool import Annotations, CatalogueVersion, Kind, Match, Stage, Tokens, Tool

TEXT = {"type": "string"}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


NOW = Tool(
    server="time",
    name="get_current_time",
    description="Get current time in a specific timezone",
    input_schema=schema("timezone", timezone=TEXT),
    annotations=Annotations(read_only=True),
)
CONVERT = Tool(
    server="time",
    name="convert_time",
    description="Convert time between timezones",
    input_schema=schema(
        "source_timezone", "time", "target_timezone", source_timezone=TEXT, time=TEXT, target_timezone=TEXT
    ),
    annotations=Annotations(read_only=True),
)
ADD_NOTE = Tool(
    server="notes",
    name="add_note",
    description="Add a note with a title and a body",
    input_schema=schema("title", title=TEXT, body=TEXT),
    kind=Kind.BUILTIN,
)
READ = Tool(
    server="files",
    name="read_file",
    description="Read a text file",
    input_schema=schema("path", path=TEXT),
    kind=Kind.BUILTIN,
    annotations=Annotations(read_only=True),
)
DELETE = Tool(
    server="files",
    name="delete_file",
    description="Delete a file for good",
    input_schema=schema("path", path=TEXT),
    kind=Kind.BUILTIN,
    annotations=Annotations(destructive=True),
)
ALL = (NOW, CONVERT, ADD_NOTE, READ, DELETE)

PUBLISH = Tool(
    server="reports",
    name="publish_report",
    description="Publish a report under a title",
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
        matches=tuple(Match(tool=tool, score=0.9 - 0.1 * place) for place, tool in enumerate(tools)),
        recommended=tuple(tool.key for tool in tools[:1]),
        servers=(),
        tokens=Tokens(before=0, after=0, counted_by="estimate"),
        catalogue=CatalogueVersion(fingerprint="0" * 16, tools=len(tools)),
    )
