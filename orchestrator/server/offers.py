"""Resources, prompts and completions of all servers: listed from the store, fetched from a server connected for it.

Prompts are called `SERVER:NAME`, as tools are. URIs are those of `uris`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from orchestrator.mcp.listing.offers import Offer
from orchestrator.mcp.passed_messages import answer_meta
from orchestrator.server.uris import shown_uri, split_uri, with_shown_links
from orchestrator.trust.server_texts import definition_for_model

Offers = Mapping[str, Offer]
"""The offers of each server, by server."""


def resources(offers: Offers) -> list[Resource]:
    """Return the servers' resources with URIs that include the server's name."""
    return [
        Resource.model_validate({**item, "uri": shown_uri(server, item["uri"])})
        for server, item in _items(offers, lambda offer: offer.resources)
    ]


def templates(offers: Offers) -> list[ResourceTemplate]:
    """Return the servers' resource templates, which include the server's name."""
    return [
        ResourceTemplate.model_validate(
            {**item, "uriTemplate": shown_uri(server, item["uriTemplate"])}
        )
        for server, item in _items(offers, lambda offer: offer.templates)
    ]


def prompts(offers: Offers) -> list[Prompt]:
    """Return the servers' prompts with names that include the server's name."""
    return [
        Prompt.model_validate({**item, "name": f"{server}:{item['name']}"})
        for server, item in _items(offers, lambda offer: offer.prompts)
    ]


def skills(offers: Offers) -> list[dict[str, Any]]:
    """Return the entries of the servers' skills with addresses that include the server's name."""
    return [
        _shown_skill(server, entry) for server, entry in _items(offers, lambda offer: offer.skills)
    ]


def _items(
    offers: Offers, items_of: Callable[[Offer], Sequence[dict[str, Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each resource, template, prompt or skill with its server."""
    for server, offer in offers.items():
        for item in items_of(offer):
            yield server, item


def skill(uri: str, offers: Offers) -> dict[str, Any]:
    """Return the entry of a skill by the address that a client was shown."""
    for entry in skills(offers):
        if entry["uri"] == uri:
            return entry
    raise MCPError(INVALID_PARAMS, f"unknown skill {uri}: use an address from skills/list")


def _shown_skill(server: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    files = entry["resources"]
    if isinstance(files, list):
        files = [{**file, "uri": shown_uri(server, file["uri"])} for file in files]
    return {**entry, "uri": shown_uri(server, entry["uri"]), "resources": files}


def located(uri: str, offers: Offers) -> tuple[str, str]:
    """Return the server and its own URI. A server's own URI, as texts quote it, is taken where one server lists it."""
    parts = split_uri(uri)
    if parts is not None and parts[0] in offers:
        return parts
    servers = [
        server
        for server, offer in offers.items()
        if any(resource["uri"] == uri for resource in offer.resources)
    ]
    if len(servers) != 1:
        raise MCPError(
            INVALID_PARAMS,
            f"unknown resource {uri}: use a URI from resources/list or from a result",
        )
    return servers[0], uri


def located_prompt(name: str, offers: Offers) -> tuple[str, str]:
    """Return the server of a prompt, and the server's name for it."""
    server, prompt_name = split_key(name)
    if server not in offers or all(
        prompt["name"] != prompt_name for prompt in offers[server].prompts
    ):
        raise MCPError(INVALID_PARAMS, f"unknown prompt {name!r}: use a name from prompts/list")
    return server, prompt_name


async def read(pool: Connections, server: str, uri: str) -> ReadResourceResult:
    """Read a resource from its server.

    Args:
        pool: The tenant's connections.
        server: The server.
        uri: The server's own URI.
    """
    result = await pool.request(server, lambda client: client.read_resource(uri))
    contents: list[Any] = [
        content.model_copy(update={"uri": shown_uri(server, content.uri)})
        for content in result.contents
    ]
    return ReadResourceResult(contents=contents, _meta=answer_meta(result.meta) or None)


async def get_prompt(
    pool: Connections, server: str, name: str, arguments: dict[str, str] | None
) -> GetPromptResult:
    """Get a prompt from its server.

    Args:
        pool: The tenant's connections.
        server: The server.
        name: The server's own name of the prompt.
        arguments: The prompt's arguments.
    """
    result = await pool.request(server, lambda client: client.get_prompt(name, arguments))
    for message in result.messages:
        message.content = with_shown_links(server, message.content)
    return GetPromptResult(
        messages=result.messages,
        description=definition_for_model(result.description or "") or None,
        _meta=answer_meta(result.meta) or None,
    )


async def complete(
    pool: Connections, params: CompleteRequestParams, offers: Offers
) -> CompleteResult:
    """Complete an argument of a prompt or a resource template. A server without completions is not connected.

    Args:
        pool: The tenant's connections.
        params: The request's parameters.
        offers: The servers' offers by name.
    """
    reference = params.ref
    if isinstance(reference, PromptReference):
        server, prompt_name = located_prompt(reference.name, offers)
        server_reference: Any = reference.model_copy(update={"name": prompt_name})
    else:
        server, server_uri = located(reference.uri, offers)
        server_reference = reference.model_copy(update={"uri": server_uri})
    if not offers[server].completes:
        return CompleteResult(completion=Completion(values=[]))
    argument = {"name": params.argument.name, "value": params.argument.value}
    arguments = params.context.arguments if params.context else None
    result = await pool.request(
        server, lambda client: client.complete(server_reference, argument, arguments)
    )
    result.completion.values = definition_for_model(result.completion.values)
    return result
