"""The handlers of `toolroute serve` for everything but tools: resources, prompts, completions, logs and changes."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler
from mcp.types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from orchestrator.errors import ToolrouteError
from orchestrator.server import offers
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import ClientAsker, Context
from orchestrator.server.sessions.clients import ServerResource
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.trust.audit import Entry, arguments_digest

R = TypeVar("R")
TenantOf = Callable[[Context], str]

SERVERS = "toolroute://servers"
"""The URI of the resource with the state of the caller's servers, as JSON."""
_RESOURCE = Resource(
    uri=SERVERS,
    name="servers",
    description="The state of each server: its tools, its calls in progress, idle time, last error.",
    mime_type="application/json",
)


class GatewayServer(Server[Any]):
    """An MCP server that sends notifications of changed lists to its clients."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *given: Any, **named: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, *given, **named)


class Handlers:
    """Answers the requests about everything but tools."""

    def __init__(self, gateway: Gateway, tenant_of: TenantOf, who_of: Callable[[Context], Conversation]) -> None:
        self._gateway, self._tenant_of, self._who_of = gateway, tenant_of, who_of
        self._listening: dict[str, ListenHandler] = {}

    def register(self, server: Server[Any]) -> None:
        """Add these handlers to a server."""
        add = server.add_request_handler
        add("resources/list", PaginatedRequestParams, self.list_resources)
        add("resources/templates/list", PaginatedRequestParams, self.list_templates)
        add("resources/read", ReadResourceRequestParams, self.read_resource)
        add("resources/subscribe", SubscribeRequestParams, self.subscribe)
        add("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribe)
        add("subscriptions/listen", SubscriptionsListenRequestParams, self.listen)
        add("prompts/list", PaginatedRequestParams, self.list_prompts)
        add("prompts/get", GetPromptRequestParams, self.get_prompt)
        add("completion/complete", CompleteRequestParams, self.complete)
        add("logging/setLevel", SetLevelRequestParams, self.set_level)
        server.add_notification_handler("notifications/initialized", NotificationParams, self.initialized)
        server.add_notification_handler("notifications/roots/list_changed", NotificationParams, self.roots_changed)

    async def answered(self, context: Context, params: Any, answer: Callable[[], Awaitable[R]]) -> Any:
        """Return the answer to a request. Servers may ask its client meanwhile.

        Args:
            context: The request's context.
            params: The request's parameters.
            answer: Makes the answer.
        """
        asker = ClientAsker(context, self._who_of(context), self._gateway.sessions.log_level(context))
        return await self._gateway.questions.answered(asker, params, answer)

    def _audited(self, context: Context, event: str, **asked: Any) -> AbstractContextManager[dict[str, Any]]:
        """Write a line with a digest of the request's values, because a URI may contain anything."""
        who = self._who_of(context)
        entry = Entry(event=event, tenant=who.tenant, actor=who.actor, arguments=arguments_digest(asked))
        return self._gateway.audited(entry)

    async def list_resources(self, context: Context, _: Any) -> ListResourcesResult:
        found = await self._gateway.offers(self._tenant_of(context))
        return ListResourcesResult(resources=[_RESOURCE, *offers.resources(found)])

    async def list_templates(self, context: Context, _: Any) -> ListResourceTemplatesResult:
        found = await self._gateway.offers(self._tenant_of(context))
        return ListResourceTemplatesResult(resource_templates=offers.templates(found))

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> Any:
        tenant = self._tenant_of(context)
        if params.uri == SERVERS:
            states = json.dumps(await self._gateway.states(tenant), ensure_ascii=False)
            contents = TextResourceContents(uri=SERVERS, mime_type="application/json", text=states)
            return ReadResourceResult(contents=[contents])

        async def answer() -> ReadResourceResult:
            found = await self._gateway.offers(tenant)
            with self._audited(context, "resource", uri=params.uri) as line:
                line["server"], _ = offers.located(params.uri, found)
                read = await offers.read(self._gateway.pool(tenant), params.uri, found)
                line["result"] = "ok"
            return read

        return await self.answered(context, params, _raising_mcp(answer))

    async def list_prompts(self, context: Context, _: Any) -> ListPromptsResult:
        return ListPromptsResult(prompts=offers.prompts(await self._gateway.offers(self._tenant_of(context))))

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> Any:
        tenant = self._tenant_of(context)

        async def answer() -> Any:
            found = await self._gateway.offers(tenant)
            with self._audited(context, "prompt", name=params.name, arguments=params.arguments) as line:
                line["server"], _ = offers.located_prompt(params.name, found)
                got = await offers.get_prompt(self._gateway.pool(tenant), params.name, params.arguments, found)
                line["result"] = "ok"
            return got

        return await self.answered(context, params, _raising_mcp(answer))

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        tenant = self._tenant_of(context)
        found = await self._gateway.offers(tenant)
        return await _raising_mcp(lambda: offers.complete(self._gateway.pool(tenant), params, found))()

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        tenant = self._tenant_of(context)
        subscribed = self._gateway.sessions.subscribed(context, lambda resource: self._unfollow(tenant, resource))
        if params.uri not in subscribed:
            subscribed[params.uri] = await self._follow(tenant, params.uri)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        tenant = self._tenant_of(context)
        subscribed = self._gateway.sessions.subscribed(context, lambda resource: self._unfollow(tenant, resource))
        if params.uri in subscribed:
            await self._unfollow(tenant, subscribed.pop(params.uri))
        return EmptyResult()

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Send the events that a client of 2026-07-28 asks for, for as long as it listens."""
        tenant = self._tenant_of(context)
        followed = list[ServerResource]()
        if tenant not in self._listening:
            self._listening[tenant] = ListenHandler(self._gateway.sessions.bus(tenant))
        try:
            for uri in params.notifications.resource_subscriptions or ():
                followed.append(await self._follow(tenant, uri))
            return await self._listening[tenant](context, params)
        finally:
            for resource in followed:
                await self._unfollow(tenant, resource)

    async def _follow(self, tenant: str, uri: str) -> ServerResource:
        resource = offers.located(uri, await self._gateway.offers(tenant))
        await _raising_mcp(lambda: self._gateway.subscriptions(tenant).add(*resource))()
        return resource

    async def _unfollow(self, tenant: str, resource: ServerResource) -> None:
        self._gateway.subscriptions(tenant).remove(*resource)

    async def set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._gateway.sessions.set_log_level(context, params.level)
        pool = self._gateway.pool(self._tenant_of(context))
        pool.set_log_level(params.level)
        return EmptyResult()

    async def initialized(self, context: Context, _: Any) -> None:
        self._gateway.sessions.opened(self._tenant_of(context), context)

    async def roots_changed(self, context: Context, _: Any) -> None:
        """Notify the servers if this is the only client. The roots of other clients are requested with each request."""
        if context.request is None:
            pool = self._gateway.pool(self._tenant_of(context))
            pool.roots_changed()


def _raising_mcp(answer: Callable[[], Awaitable[R]]) -> Callable[[], Awaitable[R]]:
    """Wrap a handler so that a toolroute error becomes a protocol error, which clients show."""

    async def raising() -> R:
        try:
            return await answer()
        except ToolrouteError as error:
            raise MCPError(INVALID_PARAMS, f"{type(error).__name__}: {error}") from None

    return raising
