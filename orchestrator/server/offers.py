"""Resources, prompts and completions of all servers: listed from the store, fetched from a server connected for it.

Prompts are called `SERVER:NAME`, as tools are. URIs are those of `uris`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptResult,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

from orchestrator.common.keys import split_key
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.listing.offers import Items, Offer
from orchestrator.server.uris import shown_uri, split_uri, with_shown_links

Offers = Mapping[str, Offer]
"""The offers of each server, by server."""


def resources(offers: Offers) -> list[Resource]:
    """Return the servers' resources with URIs that include the server's name."""
    found = _items(offers, lambda offer: offer.resources)
    return [Resource.model_validate(one | {"uri": shown_uri(server, one["uri"])}) for server, one in found]


def templates(offers: Offers) -> list[ResourceTemplate]:
    """Return the servers' resource templates, which include the server's name."""
    found, name = _items(offers, lambda offer: offer.templates), "uriTemplate"
    return [ResourceTemplate.model_validate(one | {name: shown_uri(server, one[name])}) for server, one in found]


def prompts(offers: Offers) -> list[Prompt]:
    """Return the servers' prompts with names that include the server's name."""
    found = _items(offers, lambda offer: offer.prompts)
    return [Prompt.model_validate(one | {"name": f"{server}:{one['name']}"}) for server, one in found]


def _items(offers: Offers, items: Callable[[Offer], Items]) -> Iterable[tuple[str, dict[str, Any]]]:
    return ((server, one) for server, offer in offers.items() for one in items(offer))


def located(uri: str, offers: Offers) -> tuple[str, str]:
    """Return the server and its own URI. A server's own URI, as texts quote it, is taken where one server lists it."""
    if (found := split_uri(uri)) is not None and found[0] in offers:
        return found
    owners = [server for server, offer in offers.items() if any(one["uri"] == uri for one in offer.resources)]
    if len(owners) == 1:
        return owners[0], uri
    raise MCPError(INVALID_PARAMS, f"unknown resource {uri}: use a URI from resources/list or from a result")


async def read(pool: Connections, uri: str, offers: Offers) -> ReadResourceResult:
    """Read a resource from its server.

    Args:
        pool: The tenant's connections.
        uri: The URI that the gateway shows.
        offers: The servers' offers by name.
    """
    server, own = located(uri, offers)
    result, secrets = await pool.request(server, lambda client: client.read_resource(own))
    contents: list[Any] = [
        one.model_copy(update={**_clear(one, secrets.redact_json), "uri": shown_uri(server, one.uri)})
        for one in result.contents
    ]
    return ReadResourceResult(contents=contents, _meta=secrets.redact_json(result.meta))


async def get_prompt(pool: Connections, name: str, arguments: dict[str, str] | None, offers: Offers) -> GetPromptResult:
    """Get a prompt from its server.

    Args:
        pool: The tenant's connections.
        name: The name that the gateway shows.
        arguments: The prompt's arguments.
        offers: The servers' offers by name.
    """
    server, own = located_prompt(name, offers)
    result, secrets = await pool.request(server, lambda client: client.get_prompt(own, arguments))
    for message in result.messages:
        content = with_shown_links(server, message.content)
        message.content = content.model_copy(update=_clear(content, secrets.redact_json))
    description = secrets.redact(result.description) if result.description else None
    return GetPromptResult(messages=result.messages, description=description)


async def complete(pool: Connections, params: CompleteRequestParams, offers: Offers) -> CompleteResult:
    """Complete an argument of a prompt or a resource template. A server without completions is not connected.

    Args:
        pool: The tenant's connections.
        params: The request's parameters.
        offers: The servers' offers by name.
    """
    ref = params.ref
    server, own = located_prompt(ref.name, offers) if isinstance(ref, PromptReference) else located(ref.uri, offers)
    if not offers[server].completes:
        return CompleteResult(completion=Completion(values=[]))
    there = ref.model_copy(update={"name" if isinstance(ref, PromptReference) else "uri": own})
    argument = {"name": params.argument.name, "value": params.argument.value}
    given = params.context.arguments if params.context else None
    result, secrets = await pool.request(server, lambda client: client.complete(there, argument, given))
    result.completion.values = [secrets.redact(value) for value in result.completion.values]
    return result


def located_prompt(name: str, offers: Offers) -> tuple[str, str]:
    """Return the server of a prompt, and its own name for it."""
    server, own = split_key(name)
    if server not in offers or all(one["name"] != own for one in offers[server].prompts):
        raise MCPError(INVALID_PARAMS, f"unknown prompt {name!r}: use a name from prompts/list")
    return server, own


def _clear(content: Any, redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the texts of a content block without secrets."""
    return {name: redact(value) for name in ("text", "description", "meta") if (value := getattr(content, name, None))}
