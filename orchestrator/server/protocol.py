"""`toolroute serve`: an MCP server with `search` and `call_tool` before all configured servers."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.catalogue.export import exported_name, parameters, read_arguments
from orchestrator.catalogue.reading import first_problem
from orchestrator.errors import InvalidArguments, ToolrouteError, UnknownTenant
from orchestrator.records.durable_names import IDEMPOTENCY_KEY
from orchestrator.records.request import MAX_LIMIT, RouteHint
from orchestrator.records.tool import Tool
from orchestrator.server.gateway import Gateway
from orchestrator.server.http_door import TENANT

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        ListResourcesResult,
        ListToolsResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
        ReadResourceResult,
        SubscriptionsListenRequestParams,
        SubscriptionsListenResult,
    )

M = TypeVar("M", bound=BaseModel)

SERVERS = "toolroute://servers"
"""The resource that tells how the caller's servers stand, as JSON."""

_INSTRUCTIONS = (
    "Finds the few tools that fit a task among all configured servers. "
    "First call `search` with the task in words; then call `call_tool` with a match's `tool` and arguments that fit "
    "its `input_schema`."
)

_MOST_NAMED = 40


class SearchArguments(BaseModel):
    """The arguments of `search`."""

    model_config = ConfigDict(extra="forbid")
    query: str = Field(description="The task, in words.", min_length=1)
    limit: int = Field(5, description="How many tools at most.", ge=1, le=MAX_LIMIT)
    route_hint: RouteHint = Field(
        RouteHint.AUTO, description="auto decides whether meaning is searched too; keyword and semantic force it."
    )


def _decoded(arguments: Any) -> Any:
    """Models also write an object's JSON text where the object itself is wanted, and null for none."""
    return read_arguments("call_tool", arguments or "") if isinstance(arguments, str | None) else arguments


class CallArguments(BaseModel):
    """The arguments of `call_tool`."""

    model_config = ConfigDict(extra="forbid")
    tool: str = Field(description="A match's `tool`, such as `time:get_current_time`.")
    arguments: Annotated[dict[str, Any], BeforeValidator(_decoded)] = Field(
        default_factory=dict, description="Arguments that fit its `input_schema`."
    )


def _instructions(servers: Iterable[str]) -> str:
    """What a client's model is told of this server, with the names of those behind it."""
    names = sorted(servers)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{_INSTRUCTIONS} The servers: {', '.join(names[:_MOST_NAMED]) or 'none'}{more}."


def make_server(gateway: Gateway, tenant: str | None = None) -> "Server[Any]":
    """The MCP server. `tenant` is everyone's (stdio); None: each request's own, as the Door found it."""
    from mcp.server.lowlevel import Server
    from mcp.types import ListResourcesResult, ListToolsResult

    async def list_tools(
        context: "ServerRequestContext[Any, Any]", _: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        # Without a tenant of its own this server is behind HTTP, where no session outlives its request.
        session = context.session if tenant else None
        always = await gateway.notices.tools(tenant or _tenant_of(context), session)
        return ListToolsResult(tools=[*_own_tools(), *map(_direct_tool, always)])

    async def call_tool(context: "ServerRequestContext[Any, Any]", params: "CallToolRequestParams") -> "CallToolResult":
        caller = tenant or _tenant_of(context)
        meta = dict(context.meta or {})
        call = partial(
            gateway.call,
            caller,
            idempotency_key=str(meta[IDEMPOTENCY_KEY]) if meta.get(IDEMPOTENCY_KEY) else None,
            on_progress=context.session.report_progress if "progress_token" in meta else None,
        )
        try:
            return await _answer(gateway, caller, params.name, params.arguments or {}, call)
        except ToolrouteError as error:
            return _said(f"{type(error).__name__}: {error}", is_error=True)

    async def list_resources(_: Any, __: "PaginatedRequestParams | None") -> "ListResourcesResult":
        return ListResourcesResult(resources=[_servers_resource()])

    async def read_resource(
        context: "ServerRequestContext[Any, Any]", params: "ReadResourceRequestParams"
    ) -> "ReadResourceResult":
        return await _read(gateway, tenant or _tenant_of(context), str(params.uri))

    async def listen(
        context: "ServerRequestContext[Any, Any]", params: "SubscriptionsListenRequestParams"
    ) -> "SubscriptionsListenResult":
        return await gateway.notices.listen(tenant or _tenant_of(context), context, params)

    return Server(
        "toolroute",
        version=version("toolroute"),
        instructions=_instructions(gateway.config.servers),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_subscriptions_listen=listen,
    )


async def _read(gateway: Gateway, tenant: str, uri: str) -> "ReadResourceResult":
    """How the tenant's servers stand, which is all that there is to read."""
    from mcp import MCPError
    from mcp.types import INVALID_PARAMS, ReadResourceResult, TextResourceContents

    if uri != SERVERS:
        raise MCPError(INVALID_PARAMS, f"no resource {uri}: there is {SERVERS}")
    states = json.dumps(await gateway.states(tenant), ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=SERVERS, mime_type="application/json", text=states)])


async def _answer(
    gateway: Gateway,
    tenant: str,
    name: str,
    arguments: Mapping[str, Any],
    call: "Callable[[str, Mapping[str, Any]], Awaitable[CallToolResult]]",
) -> "CallToolResult":
    if name == "search":
        asked = _parsed(SearchArguments, arguments)
        found = await gateway.search(tenant, asked.query, asked.limit, asked.route_hint)
        return _said(json.dumps(found, ensure_ascii=False), found)
    if name == "call_tool":
        wanted = _parsed(CallArguments, arguments)
        return await call(wanted.tool, wanted.arguments)
    for tool in await gateway.always(tenant):
        if exported_name(tool, "mcp") == name:
            return await call(tool.key, arguments)
    # A key itself is taken too: models write it where a name is wanted.
    return await call(name, arguments)


def _parsed(model: type[M], arguments: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        problem = first_problem(error)
        if model is CallArguments and error.errors()[0]["type"] == "extra_forbidden":
            problem = f"{error.errors()[0]['loc'][0]}: put the tool's own arguments under `arguments`"
        raise InvalidArguments(problem) from None


def _tenant_of(context: "ServerRequestContext[Any, Any]") -> str:
    if context.request is None:
        raise UnknownTenant("this request came through no door: it names no tenant")
    tenant: str = context.request.scope[TENANT]
    return tenant


def _servers_resource() -> Any:
    from mcp.types import Resource

    description = "How each server stands: state, tools, calls in flight, idle time, last error."
    return Resource(uri=SERVERS, name="servers", description=description, mime_type="application/json")


def _own_tools() -> list[Any]:
    from mcp.types import Tool as McpTool
    from mcp.types import ToolAnnotations

    return [
        McpTool(
            name="search",
            description="Find the tools that fit a task, best first, each with its schema, score and why.",
            input_schema=SearchArguments.model_json_schema(),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        McpTool(
            name="call_tool",
            description="Call a tool that `search` found.",
            input_schema=CallArguments.model_json_schema(),
        ),
    ]


def _direct_tool(tool: Tool) -> Any:
    from mcp.types import Tool as McpTool
    from mcp.types import ToolAnnotations

    hints = tool.annotations
    return McpTool(
        name=exported_name(tool, "mcp"),
        description=tool.description,
        input_schema=parameters(tool),
        annotations=ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )


def _said(text: str, structured: dict[str, Any] | None = None, *, is_error: bool = False) -> "CallToolResult":
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=text)], structured_content=structured, is_error=is_error)
