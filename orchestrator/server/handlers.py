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
    RequestParams,
    Resource,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.listing.skills import EXTENSION as SKILLS
from orchestrator.mcp.tasks import EXTENSION as TASKS
from orchestrator.mcp.tasks import TaskParams
from orchestrator.server import offers
from orchestrator.server.apps import EXTENSION as APPS
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import ClientAsker, Context
from orchestrator.server.sessions.client_profile import current
from orchestrator.server.sessions.clients import ServerResource
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.sessions.questions import HandOver
from orchestrator.server.sessions.task_handles import UpdateTaskParams
from orchestrator.trust.audit import Entry, arguments_digest
from orchestrator.trust.server_texts import definition_for_model, error_for_model

R = TypeVar("R")

SERVERS = "toolroute://servers"
"""The URI of the resource with the state of the caller's servers, as JSON."""
_RESOURCE = Resource(
    uri=SERVERS,
    name="servers",
    description="The state of each server: its tools, its calls in progress, idle time, last error.",
    mime_type="application/json",
)


_NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}
"""The hint of a list that any server may change at any time, and that belongs to one tenant."""


class GetSkillParams(RequestParams):
    """The parameters of `skills/get`."""

    uri: str


class GatewayServer(Server[Any]):
    """An MCP server that sends notifications of changed lists, and passes apps, skills and tasks on."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for extension in (APPS, SKILLS, TASKS):
            self.extensions[extension] = {}

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *given: Any, **named: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, *given, **named)


class Handlers:
    """Answers the requests about everything but tools.

    Args:
        gateway: The gateway.
        caller: Returns who sends a request, and confines it to its profile.
    """

    def __init__(self, gateway: Gateway, caller: Callable[[Context], Conversation]) -> None:
        self._gateway = gateway
        self.caller = caller
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
        add("skills/list", PaginatedRequestParams, self.list_skills)
        add("skills/get", GetSkillParams, self.get_skill)
        add("tasks/get", TaskParams, self.get_task)
        add("tasks/update", UpdateTaskParams, self.update_task)
        add("tasks/cancel", TaskParams, self.cancel_task)
        add("logging/setLevel", SetLevelRequestParams, self.set_level)
        server.add_notification_handler(
            "notifications/initialized", NotificationParams, self.initialized
        )
        server.add_notification_handler(
            "notifications/roots/list_changed", NotificationParams, self.roots_changed
        )

    async def answered(
        self,
        context: Context,
        params: Any,
        answer: Callable[[], Awaitable[R]],
        hand_over: HandOver | None = None,
    ) -> Any:
        """Return the answer to a request. Servers may ask its client meanwhile.

        Args:
            context: The request's context.
            params: The request's parameters.
            answer: Makes the answer.
            hand_over: Returns the handle of a request that takes long. None: the client waits.
        """
        asker = ClientAsker(context, self.caller(context), self._gateway.clients.log_level(context))
        return await self._gateway.questions.answered(asker, params, answer, hand_over)

    async def list_resources(self, context: Context, _: Any) -> ListResourcesResult:
        offered = await self._resource_offers(self.caller(context).tenant)
        return ListResourcesResult(resources=[_RESOURCE, *offers.resources(offered)])

    async def list_templates(self, context: Context, _: Any) -> ListResourceTemplatesResult:
        offered = await self._resource_offers(self.caller(context).tenant)
        return ListResourceTemplatesResult(resource_templates=offers.templates(offered))

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> Any:
        who = self.caller(context)
        if params.uri == SERVERS:
            states = json.dumps(await self._gateway.states(who.tenant), ensure_ascii=False)
            contents = TextResourceContents(uri=SERVERS, mime_type="application/json", text=states)
            return ReadResourceResult(contents=[contents])

        async def answer() -> ReadResourceResult:
            offered = await self._resource_offers(who.tenant)
            with self._audited(who, "resource", uri=params.uri) as fields:
                server, uri = offers.located(params.uri, offered)
                fields["server"] = server
                result = await offers.read(self._gateway.servers(who.tenant).pool, server, uri)
                fields["result"] = "ok"
            self._gateway.apps.opened(who, params.uri)
            return result

        return await self.answered(context, params, _raising_mcp(answer))

    async def list_skills(self, context: Context, _: Any) -> dict[str, Any]:
        listed = await self._resource_offers(self.caller(context).tenant)
        return {"skills": offers.skills(listed), **_NOT_CACHED}

    async def get_skill(self, context: Context, params: GetSkillParams) -> dict[str, Any]:
        listed = await self._resource_offers(self.caller(context).tenant)
        return {"skill": offers.skill(params.uri, listed), **_NOT_CACHED}

    async def get_task(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return self._gateway.tasks.state(self.caller(context), params.task_id)

    async def update_task(self, context: Context, params: UpdateTaskParams) -> dict[str, Any]:
        return self._gateway.tasks.update(self.caller(context), params)

    async def cancel_task(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return self._gateway.tasks.cancel(self.caller(context), params.task_id)

    async def list_prompts(self, context: Context, _: Any) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=offers.prompts(await self._prompt_offers(self.caller(context).tenant))
        )

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> Any:
        who = self.caller(context)

        async def answer() -> Any:
            offered = await self._prompt_offers(who.tenant)
            with self._audited(
                who, "prompt", name=params.name, arguments=params.arguments
            ) as fields:
                server, name = offers.located_prompt(params.name, offered)
                fields["server"] = server
                pool = self._gateway.servers(who.tenant).pool
                result = await offers.get_prompt(pool, server, name, params.arguments)
                fields["result"] = "ok"
            return result

        return await self.answered(context, params, _raising_mcp(answer))

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        tenant = self.caller(context).tenant
        offered = await self._gateway.offers(tenant)
        pool = self._gateway.servers(tenant).pool
        return await _raising_mcp(lambda: offers.complete(pool, params, offered))()

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        tenant = self.caller(context).tenant
        subscribed = self._subscribed(tenant, context)
        if params.uri not in subscribed:
            subscribed[params.uri] = await self._follow(tenant, params.uri)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        tenant = self.caller(context).tenant
        subscribed = self._subscribed(tenant, context)
        if params.uri in subscribed:
            self._unfollow(tenant, subscribed.pop(params.uri))
        return EmptyResult()

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Send the events that a client of 2026-07-28 asks for, for as long as it listens."""
        tenant = self.caller(context).tenant
        followed = list[ServerResource]()
        if tenant not in self._listening:
            self._listening[tenant] = ListenHandler(self._gateway.clients.bus(tenant))
        try:
            for uri in params.notifications.resource_subscriptions or ():
                followed.append(await self._follow(tenant, uri))
            return await self._listening[tenant](context, params)
        finally:
            for resource in followed:
                self._unfollow(tenant, resource)

    async def set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._gateway.clients.set_log_level(context, params.level)
        pool = self._gateway.servers(self.caller(context).tenant).pool
        pool.set_log_level(params.level)
        return EmptyResult()

    async def initialized(self, context: Context, _: Any) -> None:
        self._gateway.clients.opened(self.caller(context).tenant, context)

    async def roots_changed(self, context: Context, _: Any) -> None:
        """Notify the servers if this is the only client. The roots of other clients are requested with each request."""
        if context.request is None:
            pool = self._gateway.servers(self.caller(context).tenant).pool
            pool.roots_changed()

    async def _resource_offers(self, tenant: str) -> offers.Offers:
        """Return the offers of the servers whose resources the profile shows."""
        return await self._gateway.offers(tenant) if current().spec.resources else {}

    async def _prompt_offers(self, tenant: str) -> offers.Offers:
        """Return the offers of the servers whose prompts the profile shows."""
        return await self._gateway.offers(tenant) if current().spec.prompts else {}

    def _audited(
        self, who: Conversation, event: str, **asked: Any
    ) -> AbstractContextManager[dict[str, Any]]:
        """Write a line with a digest of the request's values, because a URI may contain anything."""
        entry = Entry(
            event=event, tenant=who.tenant, actor=who.actor, arguments=arguments_digest(asked)
        )
        return self._gateway.audit.request(entry)

    def _subscribed(self, tenant: str, context: Context) -> dict[str, ServerResource]:
        return self._gateway.clients.subscribed(
            context, lambda resource: self._unfollow(tenant, resource)
        )

    async def _follow(self, tenant: str, uri: str) -> ServerResource:
        resource = offers.located(uri, await self._resource_offers(tenant))
        subscriptions = self._gateway.servers(tenant).subscriptions
        await _raising_mcp(lambda: subscriptions.add(*resource))()
        return resource

    def _unfollow(self, tenant: str, resource: ServerResource) -> None:
        self._gateway.servers(tenant).subscriptions.remove(*resource)


def _raising_mcp(answer: Callable[[], Awaitable[R]]) -> Callable[[], Awaitable[R]]:
    """Wrap a handler so that a toolroute error becomes a protocol error, which clients show.

    A server's own error has no text that acts on its reader.
    """

    async def raising() -> R:
        try:
            return await answer()
        except ToolrouteError as error:
            message = f"{type(error).__name__}: {error_for_model(str(error))}"
            raise MCPError(INVALID_PARAMS, message) from None
        except MCPError as error:
            data = definition_for_model(error.data)
            raise MCPError(error.code, error_for_model(error.message), data) from None

    return raising
