"""`toolroute serve`: an MCP server with `search` and `call_tool` before all configured servers."""

import asyncio
import contextlib
import errno
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.errors import InvalidArguments, InvalidConfig, ToolrouteError, UnknownTenant
from orchestrator.exports import exported_name, parameters, read_arguments
from orchestrator.gateway import Gateway
from orchestrator.mcp.http_door import LOOPBACK, TENANT, Door, Tokens
from orchestrator.models import MAX_LIMIT, RouteHint, Tool
from orchestrator.names import IDEMPOTENCY_KEY
from orchestrator.reading import first_problem

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

PATH = "/mcp"
_GRACE_S = 5.0
"""How long requests under way may take after the signal."""
_TAKEN = (errno.EADDRINUSE, errno.EACCES)
SERVERS = "toolroute://servers"
"""The resource that tells how the caller's servers stand, as JSON."""

_INSTRUCTIONS = (
    "Finds the few tools that fit a task among all configured servers. "
    "First call `search` with the task in words; then call `call_tool` with a match's `tool` and arguments that fit "
    "its `input_schema`."
)


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
        instructions=_INSTRUCTIONS,
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
        raise InvalidArguments(first_problem(error)) from None


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


async def serve_stdio(gateway: Gateway, tenant: str) -> None:
    """Serves one client over standard input and output, until its end or a signal."""
    from mcp.server.lowlevel import NotificationOptions
    from mcp.server.stdio import stdio_server

    server, task = make_server(gateway, tenant), asyncio.current_task()
    stop = task.cancel if task is not None else lambda: None
    with _on_signals(stop), contextlib.suppress(asyncio.CancelledError):
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


@contextlib.contextmanager
def _on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """SIGTERM and SIGINT only ask to stop, so that the connections' processes are closed on the way out."""
    loop, handled = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in handled:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def make_app(gateway: Gateway, tokens: Tokens, hosts: Iterable[str] = LOOPBACK, origins: Iterable[str] = ()) -> Any:
    """The ASGI app: streamable HTTP at /mcp, behind the Door."""
    from mcp.server.transport_security import TransportSecuritySettings

    # The Door looks at hosts and origins itself, once, for every path.
    open_inside = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    # Answers are streams where they take long: a client that hangs up ends its call, and is told of progress.
    app = make_server(gateway).streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, transport_security=open_inside
    )
    return Door(app, tokens, hosts, origins)


async def serve_http(
    app: Any, host: str, port: int, started: Callable[[int], None], stop: Callable[[float], Coroutine[Any, Any, None]]
) -> None:
    """Serves until a signal; `started` is told the port, which 0 leaves to the system.

    Then `stop` has what is still under way answered after so many seconds: uvicorn would only cut it off.
    """
    import uvicorn

    class Server(uvicorn.Server):
        def capture_signals(self) -> Any:
            # uvicorn's own handlers raise the signal again afterwards, before anything else is closed.
            return _on_signals(lambda: setattr(self, "should_exit", True))

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started(listening.getsockname()[1])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping = asyncio.create_task(stop(_GRACE_S))
            await super().shutdown(sockets)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        why, _, _ = (error.strerror or str(error)).partition(" (while")  # Python adds the address, which stands here.
        remedy = "give another --port, or --port 0 for any free one" if error.errno in _TAKEN else "give another --host"
        raise InvalidConfig(f"{host}:{port} cannot be listened on ({why}): {remedy}") from None
    cut_off = round(2 * _GRACE_S)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=cut_off)
    await Server(config).serve([listening])
