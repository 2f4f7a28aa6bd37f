"""The gateway's own tools as MCP defines them: their names, descriptions and arguments."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from mcp.types import Tool as McpTool, ToolAnnotations
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.catalogue.export import offered_schema
from orchestrator.catalogue.resolve import read_arguments
from orchestrator.common.json_input import first_problem
from orchestrator.errors import InvalidArguments
from orchestrator.records.request import MAX_LIMIT, RouteHint
from orchestrator.records.tool import Tool
from orchestrator.server.sessions.kept_results import ReadArguments
from orchestrator.trust.server_texts import definition_for_model

M = TypeVar("M", bound=BaseModel)


class SearchArguments(BaseModel):
    """The arguments of `search`."""

    model_config = ConfigDict(extra="forbid")
    query: str = Field("", description="The task, in words.")
    limit: int = Field(5, description="The maximum number of tools.", ge=1, le=MAX_LIMIT)
    route_hint: RouteHint = Field(
        RouteHint.AUTO,
        description="auto: keyword search first, and semantic search if it is needed. keyword, semantic: that search.",
    )
    describe: list[str] = Field(
        default_factory=list,
        description="Instead of a query, or together with a query: the `tool` of each match whose whole definition you "
        "need.",
        max_length=MAX_LIMIT,
    )


def _decoded(arguments: Any) -> Any:
    """Read an object's JSON text, which models also write, and null for no arguments."""
    if isinstance(arguments, str | None):
        return read_arguments("call_tool", arguments)
    return arguments


class CallArguments(BaseModel):
    """The arguments of `call_tool`."""

    model_config = ConfigDict(extra="forbid")
    tool: str = Field(description="A match's `tool`, such as `time:get_current_time`.")
    arguments: Annotated[dict[str, Any], BeforeValidator(_decoded)] = Field(
        default_factory=dict, description="Arguments that match its `input_schema`."
    )


SEARCH = McpTool(
    name="search",
    description="Find the tools that a task needs, best first. The first match has its whole definition, the "
    "others only their required parameters. Use `describe` to get their whole definitions.",
    input_schema=SearchArguments.model_json_schema(),
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
CALL_TOOL = McpTool(
    name="call_tool",
    description="Call a tool that `search` found. A match of kind `skill` returns its instructions.",
    input_schema=CallArguments.model_json_schema(),
    annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
)
READ_RESULT = McpTool(
    name="read_result",
    description="Read more of a result that was cut: from an offset, or around a text.",
    input_schema=ReadArguments.model_json_schema(),
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
)


def parsed(model: type[M], arguments: Mapping[str, Any]) -> M:
    """Return the arguments of one of the gateway's tools. Raises InvalidArguments."""
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        problem = f"{first_problem(error)}; it takes: {', '.join(model.model_fields)}"
        first = error.errors()[0]
        if model is CallArguments and first["type"] == "extra_forbidden":
            problem = (
                f"unknown field {first['loc'][0]}: put the tool's own arguments under `arguments`"
            )
        raise InvalidArguments(problem) from None


def pinned_tool(name: str, tool: Tool, meta: dict[str, Any]) -> McpTool:
    """Return a pinned tool in the form that is listed next to `search`.

    Args:
        name: The name under which it is listed.
        tool: The tool as the profile shows it.
        meta: The server's `_meta` for the client.
    """
    hints = {
        f"{hint}_hint": value
        for hint, value in asdict(tool.annotations).items()
        if value is not None
    }
    return McpTool(
        name=name,
        title=tool.title or None,
        description=tool.description,
        input_schema=offered_schema(tool),
        annotations=ToolAnnotations(**hints) if hints else None,
        _meta=definition_for_model(meta) or None,
    )
