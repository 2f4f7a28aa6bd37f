"""A server's offer: its instructions, resources, prompts, and the parts of its tools that routing does not use."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.catalogue.tokens import compact
from orchestrator.common.redact import Secrets
from orchestrator.mcp.listing.skills import Skill, pages
from orchestrator.trust.server_texts import items_for_model

if TYPE_CHECKING:
    from mcp import Client

MAX_ITEMS = 10_000
"""The number of items that are read of each list."""
MAX_BYTES = 4 * 2**20
"""The size up to which items of each list are read, as JSON. An item that does not fit is left out."""
_MOST_LEFT_OUT = 1_000
"""The number of items that are left out before the list is read no further."""
_MAX_PAGES = 200
"""The number of pages that are read of each list, so that it always ends."""

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
        skills: The entries of its skills.
        fresh_s: Seconds for which the lists may be used, from the server's answer. 0: no limit. It is not stored.
    """

    model_config = ConfigDict(extra="ignore")
    instructions: str = ""
    resources: Items = Field(default_factory=list)
    templates: Items = Field(default_factory=list)
    prompts: Items = Field(default_factory=list)
    completes: bool = False
    tools: dict[str, dict[str, Any]] = Field(default_factory=dict)
    skills: Items = Field(default_factory=list)
    fresh_s: float = Field(default=0.0, exclude=True)


def stored_offer(text: str) -> Offer:
    """Read a stored offer. It is empty without a record, or if the record has an unknown form."""
    try:
        return Offer.model_validate_json(text) if text else Offer()
    except ValidationError:
        return Offer()


OnOffer = Callable[[str, Offer], Awaitable[None]]
"""Called with a server's name and its offer, after it was read and after each change notification."""


async def read_offer(
    client: "Client",
    tools: dict[str, dict[str, Any]],
    skills: Iterable[Skill],
    secrets: Secrets,
    warn: Callable[[str], None],
) -> Offer:
    """Ask a connected server for its resources, templates and prompts, if it has the capability.

    Texts that act on a model that reads them are left out.

    Args:
        client: The connected client.
        tools: The server's tools.
        skills: The server's skills.
        secrets: Values to redact.
        warn: Called for each list of which items are left out.
    """
    capabilities = client.server_capabilities
    lists = _Lists(warn)
    if capabilities.resources is not None:
        await lists.read(client.list_resources, "resources", "resources")
        await lists.read(client.list_resource_templates, "resource_templates", "templates")
    if capabilities.prompts is not None:
        await lists.read(client.list_prompts, "prompts", "prompts")
    redacted: dict[str, Any] = secrets.redact_json(
        {
            **lists.items,
            "instructions": client.instructions or "",
            "tools": tools,
            "skills": [skill.model_dump(mode="json") for skill in skills],
        }
    )
    for name in (*lists.items, "skills"):
        # In a thread: a server may list thousands of items, and others are served meanwhile.
        redacted[name] = await asyncio.to_thread(items_for_model, redacted[name])
    completes = capabilities.completions is not None
    return Offer(completes=completes, fresh_s=lists.fresh_s, **redacted)


class _Lists:
    """The lists of one server, filled while they are read.

    Attributes:
        items: The records by the field of an Offer.
        fresh_s: Seconds for which all lists may be used, 0 without a limit.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.items: dict[str, Items] = {}
        self.fresh_s = 0.0

    async def read(self, page_at: Callable[..., Awaitable[Any]], name: str, field: str) -> None:
        from mcp import MCPError
        from mcp.types import METHOD_NOT_FOUND

        items = self.items[field] = Items()
        size = left_out = count = 0
        has_more = False
        try:
            async for page in pages(page_at, _MAX_PAGES):
                count += 1
                has_more = bool(page.next_cursor)
                self._limit((page.ttl_ms or 0) / 1000)
                for record in getattr(page, name):
                    item = record.model_dump(by_alias=True, mode="json", exclude_none=True)
                    item_size = len(compact(item))
                    if len(items) == MAX_ITEMS or size + item_size > MAX_BYTES:
                        left_out += 1
                        continue
                    size += item_size
                    items.append(item)
                if left_out > _MOST_LEFT_OUT:
                    break
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:  # Some servers have resources and no templates.
                raise
        if has_more and count == _MAX_PAGES:
            self._warn(
                f"only {len(items):,} of its {field} are read: they stand on more than {_MAX_PAGES} pages, "
                "which is the limit; its maker can put more on each page"
            )
        if left_out:
            limit = f"the limit is {MAX_ITEMS:,} items and {MAX_BYTES // 2**20} MiB of them"
            self._warn(f"at least {left_out:,} of its {field} are left out ({limit})")

    def _limit(self, fresh_s: float) -> None:
        if fresh_s:
            self.fresh_s = min(self.fresh_s or fresh_s, fresh_s)
