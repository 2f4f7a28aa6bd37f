"""The tool `search` of the gateway: the best tools for a task, and the complete definitions of named tools."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.common.recent import Recent
from orchestrator.errors import InvalidArguments, ToolrouteError
from orchestrator.index.flags import VOUCHED
from orchestrator.mcp.listing.offers import Offer
from orchestrator.pipeline.selection.limits import definition_tokens, fit
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Match, Tool
from orchestrator.runtime.prewarm import servers_to_prewarm
from orchestrator.runtime.router import Router
from orchestrator.server.apps import is_visible_to
from orchestrator.server.audit_trail import AuditTrail
from orchestrator.server.gateway_tools import SearchArguments
from orchestrator.server.search_answer import complete_definition, matches_shown
from orchestrator.server.sessions.client_profile import current, warnings_within
from orchestrator.server.sessions.outcome_recorder import Conversation, OutcomeRecorder
from orchestrator.server.tenant_servers import TenantServers
from orchestrator.trust.audit import Entry
from orchestrator.trust.server_texts import error_for_model, has_plain_name

_MAX_TOKENS = 8_000
"""The maximum number of tokens of the definitions in an answer, the same as for a call's result."""
_REPEAT_AFTER_S = 600.0
"""Seconds after which a conversation is warned about the same server again."""
_MAX_CONVERSATIONS = 1_000
"""Conversations whose warnings are remembered. A forgotten one is only warned again."""


class ToolSearch:
    """Searches the tools of one tenant's servers, as its client's profile shows them.

    Args:
        router: Routes the tasks.
        outcomes: Learns which tools are called after a search.
        audit: Gets a line for each search.
        max_prewarmed: The maximum number of servers that are connected while the model thinks.
    """

    def __init__(
        self, router: Router, outcomes: OutcomeRecorder, audit: AuditTrail, max_prewarmed: int
    ) -> None:
        self._router = router
        self._outcomes = outcomes
        self._audit = audit
        self._max_prewarmed = max_prewarmed
        self._server_warnings = ServerWarnings()

    async def answer(
        self, servers: TenantServers, who: Conversation, arguments: SearchArguments
    ) -> dict[str, Any]:
        """Return the matches for a query, the definitions of the named tools, or both, as JSON.

        Args:
            servers: The tenant's servers.
            who: The client's conversation.
            arguments: The arguments of the client's call.

        Raises:
            InvalidArguments: Nothing is asked for.
            UnknownTool: All named tools are unknown.
        """
        if not (arguments.query or arguments.describe):
            raise InvalidArguments(
                "query is empty: write the task in words, or name tools in `describe`"
            )
        described: dict[str, Any] = {}
        if arguments.describe:
            described = await self._describe(servers, who, arguments.describe)
        if not arguments.query:
            return described
        answer = await self._search(servers, who, arguments)
        if described:
            answer["tools"] = described["tools"]
            answer["warnings"] += described["warnings"]
        return answer

    async def _search(
        self, servers: TenantServers, who: Conversation, arguments: SearchArguments
    ) -> dict[str, Any]:
        """Return the best tools for a task, with their probabilities, the confidence and warnings."""
        began = time.perf_counter()
        profile = current()
        unlisted = await servers.unlisted()
        decision = await self._router.route(
            RouteRequest(
                query=arguments.query,
                tenant=who.tenant,
                limit=arguments.limit,
                route_hint=arguments.route_hint,
                token_cap=3 * _MAX_TOKENS,  # A warning below names the definitions that do not fit.
                filters=profile.filters,
                only=profile.patterns,
                actor=who.actor,
            )
        )
        offers = await servers.offers({match.tool.server for match in decision.matches})
        hidden = {match.tool.key for match in decision.matches if not _has_plain_name(match.tool)}
        usable = [
            match
            for match in decision.matches
            if match.tool.key not in hidden and _is_usable(match.tool, servers, offers, unlisted)
        ]
        fitting, too_long = fit(usable[:1], _MAX_TOKENS, definition_tokens)
        matches = [*(fitting or too_long), *usable[1 : arguments.limit]]
        search_id = self._outcomes.searched(decision, {match.tool.key for match in matches}, who)
        for match in matches:
            servers.shown_definitions[match.tool.key] = match.tool
        servers.pool.warm(servers_to_prewarm(usable, self._max_prewarmed))
        ms = (time.perf_counter() - began) * 1000
        self._audit.note(
            Entry(event="search", tenant=who.tenant, actor=who.actor, decision=search_id, ms=ms)
        )
        return {
            **_answer(decision, matches, offers, first_complete=bool(fitting)),
            "warnings": [
                *warnings_within(
                    profile, _plain_warnings(decision, hidden), servers.pool.config.servers
                ),
                *map(_too_long_warning, too_long),
                *self._server_warnings.new_for(who, _server_warnings(servers, unlisted, matches)),
            ],
        }

    async def _describe(
        self, servers: TenantServers, who: Conversation, keys: Sequence[str]
    ) -> dict[str, Any]:
        """Return the complete definitions of tools within the token limit. A warning names each unknown tool."""
        with self._audit.request(
            Entry(event="describe", tenant=who.tenant, actor=who.actor)
        ) as fields:
            tools, errors = await _known_tools(servers, keys)
            if errors and not tools:
                raise errors[0]
            fitting, dropped = _fitting(tools)
            definitions = await _definitions(servers, fitting)
            fields["result"] = "ok"
            fields["tool"] = " ".join(definition["tool"] for definition in definitions)
        warnings = [error_for_model(str(error)) for error in errors]
        if dropped:
            names = ", ".join(current().shown_key(tool.key) for tool in dropped)
            limit = f"the limit of {_MAX_TOKENS:,} tokens is reached"
            warnings.append(f"{names}: {limit}; describe these tools separately")
        return {"tools": definitions, "warnings": warnings}


class ServerWarnings:
    """The warnings about servers that each conversation has got lately."""

    def __init__(self) -> None:
        self._silent_until = Recent[Conversation, dict[str, float]](_MAX_CONVERSATIONS)
        """By conversation: when each warning may be repeated."""

    def new_for(self, who: Conversation, warnings: Iterable[str]) -> list[str]:
        """Return the warnings that this conversation has not got within the last minutes."""
        now = time.monotonic()
        silent_until = self._silent_until.get(who, {})
        new = [warning for warning in warnings if now >= silent_until.get(warning, 0.0)]
        self._silent_until[who] = silent_until | dict.fromkeys(new, now + _REPEAT_AFTER_S)
        return new


def _is_usable(
    tool: Tool, servers: TenantServers, offers: Mapping[str, Offer], unlisted: Mapping[str, str]
) -> bool:
    """Return True if a client's model can call the tool.

    The stored tools of a server that is not listed yet belong to another entry of that name.
    """
    return (
        servers.can_call(tool)
        and tool.server not in unlisted
        and is_visible_to("model", tool, offers[tool.server])
    )


def _has_plain_name(tool: Tool) -> bool:
    """Return True unless the name acts on its reader. Such a tool is not shown."""
    return tool.labels.get(VOUCHED) == "yes" or has_plain_name(tool.name)


def _plain_warnings(decision: Decision, hidden: Collection[str]) -> list[str]:
    """Return the Decision's warnings that quote no key of a hidden tool."""
    warnings = [
        warning for warning in decision.warnings if not any(key in warning for key in hidden)
    ]
    if hidden:
        servers = ", ".join(sorted({key.partition(":")[0] for key in hidden}))
        warnings.append(
            f"tools of {servers} are not shown, because their names act on their reader; see `toolroute tools list`"
        )
    return warnings


def _answer(
    decision: Decision,
    matches: Sequence[Match],
    offers: Mapping[str, Offer],
    *,
    first_complete: bool,
) -> dict[str, Any]:
    """Return a search's answer without its warnings, with the names that the profile shows."""
    profile = current()
    keys = {match.tool.key for match in matches}
    matching_servers = {match.tool.server for match in matches}
    recommended = [key for key in decision.recommended if key in keys]
    return {
        "matches": matches_shown(
            [replace(match, tool=profile.shown(match.tool)) for match in matches],
            offers,
            {match.tool.server for match in matches if match.tool.key in recommended},
            first_complete=first_complete,
        ),
        "recommended": [profile.shown_key(key) for key in recommended],
        "stage": str(decision.stage),
        "confidence": round(decision.confidence, 2),
        "semantic_ran": decision.semantic_ran,
        "servers": [server for server in decision.servers if server in matching_servers],
    }


def _too_long_warning(match: Match) -> str:
    key = current().shown_key(match.tool.key)
    return f"{key}: the definition has more than {_MAX_TOKENS:,} tokens, so only required parameters are shown"


def _server_warnings(
    servers: TenantServers, unlisted: dict[str, str], matches: Sequence[Match]
) -> list[str]:
    """Return the warnings about servers that could not be listed, or that refused the credentials."""
    refused = servers.pool.refusals(sorted({match.tool.server for match in matches}))
    return [
        *(
            f"the tools of server {name!r} were not searched: {error_for_model(why)}"
            for name, why in unlisted.items()
        ),
        *map(error_for_model, refused),
    ]


async def _known_tools(
    servers: TenantServers, keys: Sequence[str]
) -> tuple[list[Tool], list[ToolrouteError]]:
    """Return the tools with these keys, and an error for each unknown key."""
    tools = list[Tool]()
    errors = list[ToolrouteError]()
    for key in dict.fromkeys(keys):
        try:
            tools.append(await servers.tool(key))
        except ToolrouteError as error:
            errors.append(error)
    return tools, errors


def _fitting(tools: Sequence[Tool]) -> tuple[list[Tool], list[Tool]]:
    """Return the tools whose definitions fit into an answer, shortened if necessary, and the other ones."""
    matches = [Match(tool=tool, probability=1) for tool in tools]
    fitting, dropped = fit(matches, _MAX_TOKENS, definition_tokens)
    return [match.tool for match in fitting], [match.tool for match in dropped]


async def _definitions(servers: TenantServers, tools: Sequence[Tool]) -> list[dict[str, Any]]:
    offers = await servers.offers({tool.server for tool in tools})
    profile = current()
    return [complete_definition(profile.shown(tool), offers[tool.server]) for tool in tools]
