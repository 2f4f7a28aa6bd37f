"""The handlers of `toolroute serve` for everything but tools: resources, prompts, completions, logs and changes."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

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
    GetPromptResult,
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
from orchestrator.mcp.server_requests import APPS
from orchestrator.mcp.tasks import EXTENSION as TASKS, TaskParams
from orchestrator.server import offers
from orchestrator.server.gateway import Gateway
from orchestrator.server.sessions.asker import Context
from orchestrator.server.sessions.clients import ServerResource
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.server.sessions.task_handles import UpdateTaskParams
from orchestrator.server.tenant_servers import TenantServers
from orchestrator.trust.audit import Entry, arguments_digest
from orchestrator.trust.server_texts import definition_for_model, error_for_model

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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for extension in (APPS, SKILLS, TASKS):
            self.extensions[extension] = {}

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **options: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, *args, **options)


class Handlers:
    """Answers the requests about everything but tools.

    Args:
        gateway: The gateway.
        caller: Returns the conversation of a request, and confines the request to its profile.
    """

    def __init__(self, gateway: Gateway, caller: Callable[[Context], Conversation]) -> None:
        self._gateway = gateway
        self._caller = caller
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

    async def list_resources(self, context: Context, _: Any) -> ListResourcesResult:
        servers = await self._servers(context)
        resources = offers.resources(await servers.resource_offers())
        return ListResourcesResult(resources=[_RESOURCE, *resources])

    async def list_templates(self, context: Context, _: Any) -> ListResourceTemplatesResult:
        servers = await self._servers(context)
        templates = offers.templates(await servers.resource_offers())
        return ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> Any:
        who = self._caller(context)
        servers = await self._gateway.up_to_date_servers(who.tenant)
        if params.uri == SERVERS:
            states = json.dumps(await servers.states(), ensure_ascii=False)
            contents = TextResourceContents(uri=SERVERS, mime_type="application/json", text=states)
            return ReadResourceResult(contents=[contents])

        async def read() -> ReadResourceResult:
            offered = await servers.resource_offers()
            with self._audited(who, "resource", uri=params.uri) as fields:
                server, uri = offers.located(params.uri, offered)
                fields["server"] = server
                result = await offers.read(servers.pool, server, uri)
                fields["result"] = "ok"
            self._gateway.apps.opened(who, params.uri)
            return result

        with _protocol_errors():
            return await self._gateway.questions.answered(context, who, params, read)

    async def list_skills(self, context: Context, _: Any) -> dict[str, Any]:
        servers = await self._servers(context)
        return {"skills": offers.skills(await servers.resource_offers()), **_NOT_CACHED}

    async def get_skill(self, context: Context, params: GetSkillParams) -> dict[str, Any]:
        servers = await self._servers(context)
        skill = offers.skill(params.uri, await servers.resource_offers())
        return {"skill": skill, **_NOT_CACHED}

    async def get_task(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return self._gateway.tasks.state(self._caller(context), params.task_id)

    async def update_task(self, context: Context, params: UpdateTaskParams) -> dict[str, Any]:
        return self._gateway.tasks.update(self._caller(context), params)

    async def cancel_task(self, context: Context, params: TaskParams) -> dict[str, Any]:
        return self._gateway.tasks.cancel(self._caller(context), params.task_id)

    async def list_prompts(self, context: Context, _: Any) -> ListPromptsResult:
        servers = await self._servers(context)
        return ListPromptsResult(prompts=offers.prompts(await servers.prompt_offers()))

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> Any:
        who = self._caller(context)
        servers = await self._gateway.up_to_date_servers(who.tenant)

        async def get() -> GetPromptResult:
            offered = await servers.prompt_offers()
            asked = {"name": params.name, "arguments": params.arguments}
            with self._audited(who, "prompt", **asked) as fields:
                server, name = offers.located_prompt(params.name, offered)
                fields["server"] = server
                result = await offers.get_prompt(servers.pool, server, name, params.arguments)
                fields["result"] = "ok"
            return result

        with _protocol_errors():
            return await self._gateway.questions.answered(context, who, params, get)

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        servers = await self._servers(context)
        with _protocol_errors():
            return await offers.complete(servers.pool, params, await servers.all_offers())

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        servers = await self._servers(context)
        subscribed = self._subscribed(servers, context)
        if params.uri not in subscribed:
            subscribed[params.uri] = await _follow(servers, params.uri)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        servers = await self._servers(context)
        resource = self._subscribed(servers, context).pop(params.uri, None)
        if resource is not None:
            servers.subscriptions.remove(*resource)
        return EmptyResult()

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Send the events that a client of 2026-07-28 asks for, for as long as it listens."""
        servers = await self._servers(context)
        tenant = servers.tenant
        followed = list[ServerResource]()
        if tenant not in self._listening:
            self._listening[tenant] = ListenHandler(self._gateway.clients.bus(tenant))
        try:
            for uri in params.notifications.resource_subscriptions or ():
                followed.append(await _follow(servers, uri))
            return await self._listening[tenant](context, params)
        finally:
            for resource in followed:
                servers.subscriptions.remove(*resource)

    async def set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._gateway.clients.set_log_level(context, params.level)
        servers = await self._servers(context)
        servers.pool.set_log_level(params.level)
        return EmptyResult()

    async def initialized(self, context: Context, _: Any) -> None:
        self._gateway.clients.opened(self._caller(context).tenant, context)

    async def roots_changed(self, context: Context, _: Any) -> None:
        """Notify the servers if this is the only client. The roots of other clients are requested with each request."""
        if context.request is None:
            servers = await self._servers(context)
            servers.pool.roots_changed()

    async def _servers(self, context: Context) -> TenantServers:
        """Return the servers of the client's tenant."""
        return await self._gateway.up_to_date_servers(self._caller(context).tenant)

    def _audited(
        self, who: Conversation, event: str, **asked: Any
    ) -> AbstractContextManager[dict[str, Any]]:
        """Write a line with a digest of the request's values, because a URI may contain anything."""
        entry = Entry(
            event=event, tenant=who.tenant, actor=who.actor, arguments=arguments_digest(asked)
        )
        return self._gateway.audit.request(entry)

    def _subscribed(self, servers: TenantServers, context: Context) -> dict[str, ServerResource]:
        return self._gateway.clients.subscribed(
            context, lambda resource: servers.subscriptions.remove(*resource)
        )


async def _follow(servers: TenantServers, uri: str) -> ServerResource:
    resource = offers.located(uri, await servers.resource_offers())
    with _protocol_errors():
        await servers.subscriptions.add(*resource)
    return resource


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Raise a toolroute error as a protocol error, which clients show.

    A server's own error has no text that acts on its reader.
    """
    try:
        yield
    except ToolrouteError as error:
        message = f"{type(error).__name__}: {error_for_model(str(error))}"
        raise MCPError(INVALID_PARAMS, message) from None
    except MCPError as error:
        data = definition_for_model(error.data)
        raise MCPError(error.code, error_for_model(error.message), data) from None
