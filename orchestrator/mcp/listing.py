"""A server's listing, all pages of it or an error, as Tool records."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from orchestrator.catalogue.formats import tool_from
from orchestrator.errors import InvalidCatalogue
from orchestrator.mcp.config import ServerSpec
from orchestrator.mcp.repairs import LeftOut
from orchestrator.records.redact import Secrets
from orchestrator.records.tool import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ListToolsResult

MAX_PAGES = 1_000
MAX_TOOLS = 50_000
_COUNT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything that a server offers: its tools, and how many prompts, resources and resource templates."""

    tools: tuple[Tool, ...]
    prompts: int = 0
    resources: int = 0
    resource_templates: int = 0


async def list_tools(client: "Client", spec: ServerSpec, secrets: Secrets, left_out: LeftOut) -> tuple[Tool, ...]:
    """All tools that the entry leaves in, in the server's order, without those that cannot be read, unless none can;
    InvalidCatalogue for a listing that is broken, endless or repeats a name."""
    server = spec.name
    records = await _pages(partial(tools_page, client), "tools", server)
    read = [(record.name, _tool(server, record, secrets)) for record in records if spec.lists(record.name)]
    tools = tuple(tool for _, tool in read if isinstance(tool, Tool))
    for name, problem in read:
        if isinstance(problem, InvalidCatalogue):
            if not tools:
                raise InvalidCatalogue(secrets.scrub(f"server {server!r}: its tool {name!r}: {problem}"))
            left_out.tell(repr(name), str(problem), secrets)
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise InvalidCatalogue(
                f"server {server!r} lists the tool {tool.name!r} twice, so a call of it would be ambiguous; "
                "none of its tools is used until the server is fixed"
            )
        seen.add(tool.name)
    return tools


async def tools_page(client: "Client", **asked: Any) -> "ListToolsResult":
    """Return a page of the listing, its output schemas emptied: the library would refuse answers of calls that ran."""
    from mcp import MCPError
    from mcp.types import METHOD_NOT_FOUND, ListToolsResult

    try:
        page = await client.list_tools(**asked)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND or client.server_capabilities.tools is not None:
            raise
        return ListToolsResult(tools=[])  # It says that it has none, only prompts or resources.
    for tool in page.tools:
        if (schema := tool.output_schema) is not None:
            schema.clear()
    return page


async def take_inventory(client: "Client", server: str, tools: tuple[Tool, ...]) -> Inventory:
    """The given tools, and counts of what else the server says it has, as far as it tells within 5 s.

    Some say that they have prompts or resources and list none: that costs nobody their tools.
    """
    offers, counts = client.server_capabilities, dict.fromkeys(("prompts", "resources", "resource_templates"), 0)
    asked = {
        "prompts": client.list_prompts if offers.prompts else None,
        "resources": client.list_resources if offers.resources else None,
        "resource_templates": client.list_resource_templates if offers.resources else None,
    }
    with anyio.move_on_after(_COUNT_S):
        for field, fetch in asked.items():
            with suppress(Exception):
                counts[field] = len(await _pages(fetch, field, server)) if fetch else 0
    return Inventory(tools=tools, **counts)


async def _pages(fetch: Callable[..., Awaitable[Any]], field: str, server: str) -> list[Any]:
    """Follows cursors to the end. The server is asked, never the client's cache, which may hold an older listing.

    An empty cursor is one too (the protocol of 2026 says so), but some servers mean the end by it: they give the first
    page for it again.
    """
    items: list[Any] = []
    first: tuple[list[Any], str | None] | None = None
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await fetch(cursor=cursor, cache_mode="bypass")
        found = getattr(page, field), page.next_cursor
        if cursor == "" and found == first:
            return items
        first = first or found
        items.extend(found[0])
        cursor = found[1]
        if cursor is None:
            return items
        if cursor in cursors:
            raise InvalidCatalogue(
                f"server {server!r} repeats a page of its {field} without end (the same cursor twice)"
            )
        if len(items) > MAX_TOOLS:
            raise InvalidCatalogue(f"server {server!r} lists more than {MAX_TOOLS:,} {field}; that is refused")
        cursors.add(cursor)
    raise InvalidCatalogue(f"server {server!r} lists its {field} on more than {MAX_PAGES:,} pages; that is refused")


def _tool(server: str, record: Any, secrets: Secrets) -> Tool | InvalidCatalogue:
    fields = record.model_dump(by_alias=True, mode="json", exclude_none=True, include=_READ)
    try:
        return tool_from({**_without_secrets(fields, secrets), "server": server, "name": record.name})
    except InvalidCatalogue as error:
        return error


def _without_secrets(value: Any, secrets: Secrets) -> Any:
    """A definition's texts scrubbed; what a call has to hold as the server says it (names, types) stays, whatever the
    secrets are."""
    if isinstance(value, str):
        return secrets.scrub_result(value)
    if isinstance(value, list):
        return [_without_secrets(item, secrets) for item in value]
    if isinstance(value, dict):
        kept = {name for name in _SAID & value.keys() if not isinstance(value[name], dict)}
        return {name: item if name in kept else _without_secrets(item, secrets) for name, item in value.items()}
    return value


_READ = {"name", "description", "input_schema", "annotations"}
_SAID = {"required", "type", "$ref"}
