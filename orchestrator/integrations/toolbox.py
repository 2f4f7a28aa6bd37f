"""The Toolbox: it routes a framework's own tools turn by turn, and records the results of their calls."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from temporalio.exceptions import FailureError, is_cancelled_exception

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.digests import digest
from orchestrator.common.extras import install_command
from orchestrator.common.fields import named
from orchestrator.common.json_input import nearly
from orchestrator.common.tenant import LOCAL
from orchestrator.errors import InvalidInput, MissingExtra, ToolrouteError
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
K = TypeVar("K")
N = TypeVar("N")
Own = TypeVar("Own")
_TURNS, _TURN_CHARS, _TASK_CHARS = 10, 10_000, 100_000
_KEPT_TURNS, _SETS = 2_000, 8
_FAILURES = (ToolrouteError, FailureError)
"""The errors of routing and recording, in process and in a workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A user's text and the calls that answered it. `calls` has each tool's name, and whether its last call worked."""

    text: str
    calls: Mapping[str, bool] = field(default_factory=dict)


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
        if isinstance(keep, str):
            raise InvalidInput(f"keep={keep!r}: give a list of tool names")
        RouteRequest(
            query="any", tenant=LOCAL if callable(tenant) else tenant or LOCAL, limit=limit
        ).validate()
        self.router = router or Router(Catalogue())
        self.tenant = tenant or (router.tenant if isinstance(router, ToolRouter) else "")
        self.actor, self.limit, self.keep, self.enforce = actor, limit, tuple(keep), enforce
        self._on_decision, self._warned = on_decision, set[str]()
        self._routers = OrderedDict[str, Router]()
        self._turns = OrderedDict[str, _Turn]()

    def alone(self) -> "Toolbox":
        """Return a Toolbox that knows no conversation yet. Each execution of a workflow needs its own."""
        other = copy(self)
        vars(other).update(_turns=OrderedDict())
        return other

    async def choose(
        self,
        own: Sequence[Own],
        tool_of: Callable[[Own], Tool],
        said: Sequence[Exchange],
        context: Any,
        *,
        name: str = "",
    ) -> list[Own]:
        """Return the framework's own tools to offer for the last exchange. Tools of earlier turns come first.

        Within a turn, no offered tool disappears. Tools that join during a turn, such as those of an agent that takes
        over, are routed when they join.

        Args:
            own: The framework's tools.
            tool_of: Makes a Tool of one of them.
            said: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant` and `actor`.
            name: The framework's own name of this turn. It distinguishes equal conversations.
        """
        tools = [tool_of(tool) for tool in own]
        tenant, known = who_is(self.tenant, context), {tool.name: tool for tool in tools}
        self.check_kept(known)
        key = _turn_key(tenant, said, name)
        turn = self._turns.get(key) if name or (said and said[-1].calls) else None
        if turn is None or known.keys() - turn.tools.keys():
            earlier = turn or self._turns.get(_key(tenant, said[:-1])) or _Turn()
            called = [call for exchange in said for call in exchange.calls]
            before = dict.fromkeys([*self.keep, *earlier.names, *called])
            seen = tuple(known[tool] for tool in before if tool in known)
            decision = await self.decide(tools, said, tenant, who_is(self.actor, context))
            delta = decision.delta(Delta(new=seen)) if decision else Delta.between(seen, tools)
            names = dict.fromkeys([*before, *(tool.name for tool in delta.offered)])
            turn = turn or _Turn()
            turn = _Turn(tuple(names), {**turn.tools, **known}, decision or turn.decision)
            for kept_as in (key, _key(tenant, said)):
                put(self._turns, kept_as, turn, _KEPT_TURNS)
        given = {tool.name: one for tool, one in zip(tools, own, strict=True)}
        return [given[name] for name in turn.names if name in given]

    def check_kept(self, known: Collection[str]) -> None:
        """Raise InvalidInput for a misspelt name in `keep`. Warn once about a name that only other agents may have."""
        for name in {*self.keep} - {*known} - self._warned:
            if near := nearly(name, known):
                raise InvalidInput(f"keep: unknown tool {name!r}; did you mean {near!r}?")
            self._warned.add(name)
            logger.warning("keep: none of these %d tools has the name %r", len(known), name)

    def refusal(self, tool: str, said: Sequence[Exchange], context: Any, *, name: str = "") -> str:
        """Return the reason for refusing a call: with `enforce`, the turn does not offer the tool. Empty if the call is
        allowed.

        Args:
            tool: The name of the tool.
            said: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant`.
            name: The framework's own name of this turn.
        """
        turn = self._turns.get(_turn_key(who_is(self.tenant, context), said, name), _Turn())
        if not self.enforce or tool in turn.names:
            return ""
        return f"{tool} was not offered for this task and is not called; offered: {', '.join(turn.names) or 'nothing'}"

    async def record(
        self, said: Sequence[Exchange], context: Any = None, *, name: str = ""
    ) -> None:
        """Record the tools that the last exchange used. A failure is logged, not raised.

        Args:
            said: The exchanges of the conversation, oldest first.
            context: The argument for functions for `tenant` and `actor`.
            name: The framework's own name of this turn. A turn that is recorded again under its name counts once.
        """
        key = _turn_key(who_is(self.tenant, context), said, name)
        turn = self._turns.get(key)
        if turn is None or turn.decision is None:
            return
        used = [
            Use(tool=turn.tools[own].key, ok=ok)
            for own, ok in said[-1].calls.items()
            if own in turn.tools
        ]
        if not used:
            return
        router, actor = self.over([*turn.tools.values()]), who_is(self.actor, context)
        try:
            await router.record(turn.decision, used=used, actor=actor, name=key if name else "")
        except _FAILURES as error:
            _check_not_cancelled(error)
            logger.warning("the outcome of the task was not recorded: %s", error)

    async def decide(
        self, tools: Sequence[Tool], said: Sequence[Exchange], tenant: str, actor: str = ""
    ) -> Decision | None:
        """Return the Decision for the last exchange. None if there is no text, or if routing fails.

        Args:
            tools: The tools.
            said: The exchanges of the conversation, oldest first.
            tenant: The tenant.
            actor: The person who asks.
        """
        if not said or not said[-1].text.strip():
            return None
        keys = {tool.name: tool.key for tool in tools}
        earlier = [
            Turn(
                text=one.text[:_TURN_CHARS],
                tools=tuple(keys[own] for own in one.calls if own in keys),
            )
            for one in said[-_TURNS:-1]
        ]
        try:
            request = RouteRequest(
                query=said[-1].text[:_TASK_CHARS], tenant=tenant, limit=self.limit, actor=actor
            )
            decision: Decision = await self.over(tools).route(request, conversation=earlier)
        except _FAILURES as error:
            _check_not_cancelled(error)
            logger.warning("routing failed, so all %d tools are offered: %s", len(tools), error)
            return None
        told(self._on_decision, decision)
        return decision

    def over(self, tools: Sequence[Tool]) -> Any:
        """Return the Router for these tools, or the ToolRouter in a workflow. Routers of the latest sets are kept."""
        if isinstance(self.router, ToolRouter):
            return self.router
        catalogue = Catalogue(tools)
        found = self._routers.get(catalogue.fingerprint) or self.router.with_catalogue(catalogue)
        put(self._routers, catalogue.fingerprint, found, _SETS)
        return found


def own_tool(name: str, description: str | None, schema: Mapping[str, Any] | None) -> Tool:
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


def told(on_decision: OnDecision | None, decision: Decision) -> None:
    """Call `on_decision` with a Decision."""
    try:
        if on_decision is not None:
            on_decision(decision)
    except Exception as error:
        logger.warning("on_decision failed (%s: %s)", type(error).__name__, error)


def who_is(who: Who, context: Any) -> str:
    """Return the tenant or the actor for the framework's own context.

    Raises:
        InvalidInput: The function returned no text.
    """
    found = who(context) if callable(who) else who
    if not isinstance(found, str):
        raise InvalidInput(
            f"{getattr(who, '__name__', 'the function')} returned {found!r}: return org:ID, user:ID, or ''"
        )
    return found


def _key(tenant: str, said: Sequence[Exchange]) -> str:
    return digest("\0".join([tenant, *(exchange.text for exchange in said)]), 32)


def _turn_key(tenant: str, said: Sequence[Exchange], name: str) -> str:
    """Return the key of the current turn. A named turn keeps its key when earlier exchanges are cut or summarized."""
    return digest("\0".join([name, _key(tenant, said[-1:] if name else said)]), 32)


def _check_not_cancelled(error: Exception) -> None:
    if is_cancelled_exception(error):
        raise error


def put(kept: OrderedDict[N, K], key: N, value: K, most: int) -> None:
    """Store a value as the latest of at most `most` values.

    Args:
        kept: The values.
        key: The key of the value.
        value: The value.
        most: The maximum number of values.
    """
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
