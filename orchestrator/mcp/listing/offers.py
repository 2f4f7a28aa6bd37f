"""A server's offer: its instructions, resources, prompts, and the parts of its tools that routing does not use."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.common.redact import Secrets

if TYPE_CHECKING:
    from mcp import Client

MAX_ITEMS, _MAX_PAGES = 10_000, 200

Items = list[dict[str, Any]]
"""Records of the protocol as JSON."""


class Offer(BaseModel):
    """The stored offer of one server, without secrets.

    Attributes:
        instructions: The server's instructions for models.
        resources: Its resources.
        templates: Its resource templates.
        prompts: Its prompts.
        completes: True if it completes arguments of prompts and templates.
        tools: `outputSchema`, `icons` and `_meta` by tool name.
    """

    model_config = ConfigDict(extra="ignore")
    instructions: str = ""
    resources: Items = Field(default_factory=list)
    templates: Items = Field(default_factory=list)
    prompts: Items = Field(default_factory=list)
    completes: bool = False
    tools: dict[str, dict[str, Any]] = Field(default_factory=dict)


def stored_offer(text: str) -> Offer:
    """Read a stored offer. It is empty if there is none, or if the record has an unknown form."""
    try:
        return Offer.model_validate_json(text) if text else Offer()
    except ValidationError:
        return Offer()


OnOffer = Callable[[str, Offer], Awaitable[None]]
"""Called with a server's name and its offer, after it was read and after each change notification."""


async def read_offer(client: "Client", tools: dict[str, dict[str, Any]], secrets: Secrets) -> Offer:
    """Ask a connected server for its resources, templates and prompts, if it has the capability.

    Args:
        client: The connected client.
        tools: The server's tools.
        secrets: Values to redact.
    """
    able, found = client.server_capabilities, dict[str, Items]()
    if able.resources is not None:
        found["resources"] = await _pages(client.list_resources, "resources")
        found["templates"] = await _pages(client.list_resource_templates, "resource_templates")
    if able.prompts is not None:
        found["prompts"] = await _pages(client.list_prompts, "prompts")
    clear: dict[str, Any] = secrets.redact_json(
        {**found, "instructions": client.instructions or "", "tools": tools}
    )
    return Offer(completes=able.completions is not None, **clear)


async def _pages(page: Callable[..., Awaitable[Any]], name: str) -> Items:
    from mcp import MCPError
    from mcp.types import METHOD_NOT_FOUND

    items, cursor = Items(), None
    for _ in range(_MAX_PAGES):
        try:
            result = await page(cursor=cursor)
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:  # Some servers have resources and no templates.
                raise
            break
        items += [
            one.model_dump(by_alias=True, mode="json", exclude_none=True)
            for one in getattr(result, name)
        ]
        before, cursor = cursor, result.next_cursor
        if not cursor or cursor == before or len(items) > MAX_ITEMS:
            break
    return items[:MAX_ITEMS]
