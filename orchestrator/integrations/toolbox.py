"""The Toolbox: it routes a framework's own tools turn by turn, and records the results of their calls."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from temporalio.exceptions import FailureError, is_cancelled_exception

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.digests import digest
from orchestrator.common.fields import named
from orchestrator.common.json_input import nearly
from orchestrator.common.recent import Recent
from orchestrator.common.tenant import LOCAL
from orchestrator.errors import InvalidInput, MissingExtra, ToolrouteError
from orchestrator.extras import install_command
from orchestrator.records.decision import Decision
from orchestrator.records.delta import Delta
from orchestrator.records.outcome import Use
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.tool import Kind, Tool
from orchestrator.runtime.router import Router
from orchestrator.temporal.workflow.tool_router import ToolRouter

logger = logging.getLogger(__name__)

Who = str | Callable[[Any], str]
"""A tenant or an actor: a name, or a function from the framework's own context to the name."""
OnDecision = Callable[[Decision], object]
"""Gets each Decision, for example to log it. If it raises an error, the log has a warning and the agent continues."""
AgentTool = TypeVar("AgentTool")
_TURNS = 10
_TURN_CHARS = 10_000
_TASK_CHARS = 100_000
_KEPT_TURNS = 2_000
"""The turns and characters of a conversation that are read, those of a task, and the turns whose tools are kept, so
that a framework's repeated call of the same turn gets the same tools."""
_SETS = 8
"""The sets of an agent's tools that have a router. Each keeps an index in memory, and an agent has few sets."""
_FAILURES = (ToolrouteError, FailureError)
"""The errors of routing and recording, in process and in a workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A user's text and the calls that answered it. `calls` has each tool's name, and whether its last call worked."""

    text: str
    calls: Mapping[str, bool] = field(default_factory=dict)

    def with_call(self, name: str, *, ok: bool) -> "Exchange":
        """Return this with a further call of the tool of this name."""
        return replace(self, calls={**self.calls, name: ok})

    def as_turn(self, keys: Mapping[str, str]) -> Turn:
        """Return this as a turn before the task. `keys` has the tools' keys by their names."""
        tools = tuple(keys[name] for name in self.calls if name in keys)
        return Turn(text=self.text[:_TURN_CHARS], tools=tools)


@dataclass(frozen=True, slots=True)
class _Turn:
    """The tools of one turn.

    Attributes:
        names: The names of the offered tools.
        tools: All tools of the turn, by name.
        decision: The Decision with which the turn is recorded.
    """

    names: tuple[str, ...] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    decision: Decision | None = None


class Toolbox:
    """Chooses among a framework's tools, and records which of them each task used.

    If routing fails, all tools are offered, and the log has a warning.

    Args:
        router: The Router that gives the settings, the embedder and the Experience. Its own tools are not used.
            Default: a Router that learns only in this process. In a workflow, a ToolRouter routes with the catalogue of
            its plugin.
        tenant: The tenant of the tasks, as a text or as a function of the framework's context. Default: `local`.
        actor: The person who asks, as a text or as a function of the framework's context.
        limit: The maximum number of tools that a turn may add.
        keep: The names of tools that are always offered.
        on_decision: Is called with each Decision.
        enforce: Whether a call of a tool that is not offered is refused. A model may call a hidden tool from memory, or
            from an earlier turn.

    Raises:
        InvalidInput: A setting has a wrong value or is unknown.
    """

    @named
    def __init__(
        self,
        router: Router | ToolRouter | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 10,
        keep: Sequence[str] = (),
        on_decision: OnDecision | None = None,
        enforce: bool = False,
    ) -> None:
        if not isinstance(router, Router | ToolRouter | None):
            raise InvalidInput(
                f"router is a {type(router).__name__}: give a Router, e.g. Router(store=FOLDER)"
            )
        # A text is a sequence of texts too: its letters would be names.
        if isinstance(keep, str):
            raise InvalidInput(f"keep={keep!r}: give a list of tool names")
        checked_tenant = LOCAL if callable(tenant) else tenant or LOCAL
        RouteRequest(query="any", tenant=checked_tenant, limit=limit).validate()
        self.router = router or Router(Catalogue())
        self.tenant = tenant or (router.tenant if isinstance(router, ToolRouter) else "")
        self.actor = actor
        self.limit = limit
        self.keep = tuple(keep)
        self.enforce = enforce
        self._on_decision = on_decision
        self._warned = set[str]()
        self._routers = Recent[str, Router](_SETS)
        self._turns = Recent[str, _Turn](_KEPT_TURNS)

    def alone(self) -> "Toolbox":
        """Return a Toolbox that knows no conversation yet. Each execution of a workflow needs its own."""
        toolbox = copy(self)
        vars(toolbox).update(_turns=Recent[str, _Turn](_KEPT_TURNS))
        return toolbox

    async def choose(
        self,
        agent_tools: Sequence[AgentTool],
        tool_of: Callable[[AgentTool], Tool],
        exchanges: Sequence[Exchange],
        context: Any,
        *,
        name: str = "",
    ) -> list[AgentTool]:
        """Return the framework's own tools to offer for the last exchange. Tools of earlier turns come first.

        Within a turn, no offered tool disappears. Tools that join during a turn, for example with a handoff to another
        agent, are routed when they join.

        Args:
            agent_tools: The framework's tools.
            tool_of: Makes a Tool of one of them.
            exchanges: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant` and `actor`.
            name: The framework's own name of this turn. It distinguishes equal conversations.
        """
        tools = [tool_of(tool) for tool in agent_tools]
        names = [tool.name for tool in tools]
        self.check_kept(names)
        tenant = who_is(self.tenant, context)
        actor = who_is(self.actor, context)
        key = _turn_key(tenant, exchanges, name)
        # Without a name or a call, the same texts may be those of another conversation.
        has_begun = bool(name or (exchanges and exchanges[-1].calls))
        turn = self._turns.get(key) if has_begun else None
        if turn is None or not turn.tools.keys() >= {*names}:
            turn = await self._routed(turn, tools, exchanges, tenant, actor)
            for turn_key in (key, _key(tenant, exchanges)):
                self._turns[turn_key] = turn
        by_name = dict(zip(names, agent_tools, strict=True))
        return [by_name[name] for name in turn.names if name in by_name]

    async def _routed(
        self,
        begun: _Turn | None,
        tools: Sequence[Tool],
        exchanges: Sequence[Exchange],
        tenant: str,
        actor: str,
    ) -> _Turn:
        """Return the turn with the tools that a Decision adds to those of earlier turns."""
        earlier = begun or self._turns.get(_key(tenant, exchanges[:-1])) or _Turn()
        # Tools that were called stay, because a model reads its own earlier calls as an offer.
        called = [name for exchange in exchanges for name in exchange.calls]
        before = list(dict.fromkeys([*self.keep, *earlier.names, *called]))
        by_name = {tool.name: tool for tool in tools}
        offered_before = tuple(by_name[name] for name in before if name in by_name)
        decision = await self.decide(tools, exchanges, tenant, actor)
        delta = (
            decision.delta(Delta(new=offered_before))
            if decision
            else Delta.between(offered_before, tools)
        )
        # Earlier tools come first and unchanged, so that the provider's cache of the prompt holds.
        offered = [tool.name for tool in delta.offered]
        names = tuple(dict.fromkeys([*before, *offered]))
        turn = begun or _Turn()
        return _Turn(names, {**turn.tools, **by_name}, decision or turn.decision)

    def check_kept(self, names: Collection[str]) -> None:
        """Raise InvalidInput for a misspelt name in `keep`. Warn once about a name that only other agents may have."""
        unknown = set(self.keep).difference(names)
        for name in unknown - self._warned:
            similar = nearly(name, names)
            if similar:
                raise InvalidInput(f"keep: unknown tool {name!r}; did you mean {similar!r}?")
            self._warned.add(name)
            logger.warning("keep: none of these %d tools has the name %r", len(names), name)

    def refusal(
        self, tool: str, exchanges: Sequence[Exchange], context: Any, *, name: str = ""
    ) -> str:
        """Return the reason for refusing a call: with `enforce`, the turn does not offer the tool.

        It is "" if the call is allowed.

        Args:
            tool: The name of the tool.
            exchanges: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant`.
            name: The framework's own name of this turn.
        """
        key = _turn_key(who_is(self.tenant, context), exchanges, name)
        turn = self._turns.get(key, _Turn())
        if not self.enforce or tool in turn.names:
            return ""
        offered = ", ".join(turn.names) or "nothing"
        return f"{tool} was not offered for this task and is not called; offered: {offered}"

    async def record(
        self, exchanges: Sequence[Exchange], context: Any = None, *, name: str = ""
    ) -> None:
        """Record the tools that the last exchange used. A failure is logged, not raised.

        Args:
            exchanges: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant` and `actor`.
            name: The framework's own name of this turn. A turn that is recorded again under its name counts once.
        """
        key = _turn_key(who_is(self.tenant, context), exchanges, name)
        turn = self._turns.get(key)
        # Without a Decision there is nothing that the calls could confirm.
        if turn is None or turn.decision is None:
            return
        used = list[Use]()
        for tool_name, ok in exchanges[-1].calls.items():
            if tool_name in turn.tools:
                used.append(Use(tool=turn.tools[tool_name].key, ok=ok))
        if not used:
            return
        router = self.over([*turn.tools.values()])
        actor = who_is(self.actor, context)
        try:
            await router.record(turn.decision, used=used, actor=actor, name=key if name else "")
        except _FAILURES as error:
            _check_not_cancelled(error)
            logger.warning("the outcome of the task was not recorded: %s", error)

    async def decide(
        self, tools: Sequence[Tool], exchanges: Sequence[Exchange], tenant: str, actor: str = ""
    ) -> Decision | None:
        """Return the Decision for the last exchange. None if there is no text, or if routing fails.

        Args:
            tools: The tools.
            exchanges: The exchanges of the conversation, oldest first.
            tenant: The tenant.
            actor: The person who asks.
        """
        if not exchanges or not exchanges[-1].text.strip():
            return None
        query = exchanges[-1].text[:_TASK_CHARS]
        keys = {tool.name: tool.key for tool in tools}
        earlier = [exchange.as_turn(keys) for exchange in exchanges[-_TURNS:-1]]
        try:
            request = RouteRequest(query=query, tenant=tenant, limit=self.limit, actor=actor)
            decision: Decision = await self.over(tools).route(request, conversation=earlier)
        except _FAILURES as error:
            _check_not_cancelled(error)
            logger.warning("routing failed, so all %d tools are offered: %s", len(tools), error)
            return None
        report(self._on_decision, decision)
        return decision

    def over(self, tools: Sequence[Tool]) -> Any:
        """Return the Router for these tools, or the ToolRouter in a workflow. Routers of the latest sets are kept."""
        if isinstance(self.router, ToolRouter):
            return self.router
        catalogue = Catalogue(tools)
        fingerprint = catalogue.fingerprint
        router = self._routers.get(fingerprint) or self.router.with_catalogue(catalogue)
        self._routers[fingerprint] = router
        return router


def framework_tool(name: str, description: str | None, schema: Mapping[str, Any] | None) -> Tool:
    """Return the Tool of a framework's own tool. It has no server, so its name is the one that the model reads.

    Args:
        name: The name.
        description: The description.
        schema: The JSON Schema of the arguments.
    """
    return Tool(
        server="",
        name=name,
        description=description or "",
        input_schema=dict(schema or {}),
        kind=Kind.BUILTIN,
    )


def missing(extra: str, error: ImportError) -> MissingExtra:
    """Return the error of an integration that needs a missing framework."""
    return MissingExtra(f"{error}: install it with {install_command(extra)}")


def report(on_decision: OnDecision | None, decision: Decision) -> None:
    """Call `on_decision` with a Decision."""
    if on_decision is None:
        return
    try:
        on_decision(decision)
    except Exception as error:  # Of any kind, because the function is the user's.
        logger.warning("on_decision failed (%s: %s)", type(error).__name__, error)


def who_is(who: Who, context: Any) -> str:
    """Return the tenant or the actor for the framework's own context.

    Raises:
        InvalidInput: The function returned no text.
    """
    name: object = who(context) if callable(who) else who
    if not isinstance(name, str):
        function = getattr(who, "__name__", "the function")
        raise InvalidInput(f"{function} returned {name!r}: return org:ID, user:ID, or ''")
    return name


def _key(tenant: str, exchanges: Sequence[Exchange]) -> str:
    texts = [exchange.text for exchange in exchanges]
    return digest("\0".join([tenant, *texts]), 32)


def _turn_key(tenant: str, exchanges: Sequence[Exchange], name: str) -> str:
    """Return the key of the current turn. A named turn keeps its key when earlier exchanges are cut or summarized."""
    if name:
        exchanges = exchanges[-1:]
    return digest("\0".join([name, _key(tenant, exchanges)]), 32)


def _check_not_cancelled(error: Exception) -> None:
    if is_cancelled_exception(error):
        raise error
