"""The Toolbox: a framework's own tools, routed turn by turn, and what became of the calls."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import MissingExtra, ToolrouteError
from orchestrator.records.decision import Decision
from orchestrator.records.delta import Delta
from orchestrator.records.digests import digest
from orchestrator.records.outcome import Use
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.tool import Kind, Tool
from orchestrator.routing.router import Router
from orchestrator.temporal.workflow import ToolRouter

logger = logging.getLogger(__name__)

Who = str | Callable[[Any], str]
"""A tenant or an actor: a name, or a function from the framework's own context to it."""
T = TypeVar("T")
K = TypeVar("K")
_TURNS, _TURN_CHARS, _TASK_CHARS = 10, 10_000, 100_000
_CONVERSATIONS, _SETS = 1_000, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A user's text and the calls that answered it: each tool's name, and whether its last call worked."""

    text: str
    calls: Mapping[str, bool] = field(default_factory=dict)


class Toolbox:
    """Chooses among a framework's tools, and remembers which of them each task used.

    Tools are routed by the Router's settings, embedder and Experience, whatever else it knows; in a workflow a
    ToolRouter routes by its plugin's catalogue. `keep` names tools that are always offered; `limit` is how many tools a
    turn may add. What cannot be routed is offered all tools, with a warning in the log.
    """

    def __init__(
        self,
        router: Router | ToolRouter | None = None,
        *,
        tenant: Who = "",
        actor: Who = "",
        limit: int = 10,
        keep: Sequence[str] = (),
    ) -> None:
        self.router = router or Router(Catalogue())
        self.tenant = tenant or (router.tenant if isinstance(router, ToolRouter) else "")
        self.actor, self.limit, self.keep = actor, limit, tuple(keep)
        self._routers = OrderedDict[str, Router]()
        self._offered = OrderedDict[str, tuple[str, ...]]()
        self._turns = OrderedDict[str, tuple[tuple[str, ...], Decision | None]]()

    def alone(self) -> "Toolbox":
        """Return a Toolbox that knows of no conversation yet, as each execution of a workflow needs."""
        return Toolbox(self.router, tenant=self.tenant, actor=self.actor, limit=self.limit, keep=self.keep)

    async def choose(self, tools: Sequence[Tool], said: Sequence[Exchange], context: Any = None) -> tuple[str, ...]:
        """Return the names to offer for the last exchange, in order: those of earlier turns first, unchanged.

        Within a turn, and after it as long as the process lives, the answer is the same.
        """
        tenant = named(self.tenant, context)
        key = _key(tenant, said)
        if key not in self._turns:
            known = {tool.name: tool for tool in tools}
            called = [name for exchange in said for name in exchange.calls]
            before = dict.fromkeys([*self.keep, *self._offered.get(_key(tenant, said[:-1]), ()), *called])
            seen = tuple(known[name] for name in before if name in known)
            decision = await self.decide(tools, said, tenant)
            delta = decision.delta(Delta(new=seen)) if decision else Delta.between(seen, tools)
            names = tuple(tool.name for tool in delta.offered if tool.name in known)
            _put(self._turns, key, (names, decision), _CONVERSATIONS)
            _put(self._offered, key, names, _CONVERSATIONS)
        return self._turns[key][0]

    async def record(
        self, tools: Sequence[Tool], said: Sequence[Exchange], context: Any = None, *, name: str = ""
    ) -> None:
        """Remember what the last exchange used; under one `name` it counts once. A failure is logged, not raised."""
        tenant = named(self.tenant, context)
        _, decision = self._turns.pop(_key(tenant, said), ((), None))
        mine = {tool.name: tool for tool in tools}
        used = [Use(tool=mine[own].key, ok=ok) for own, ok in said[-1].calls.items() if own in mine] if said else []
        if decision is None or not used:
            return
        try:
            await self.over(tools).record(decision, used=used, actor=named(self.actor, context), name=name)
        except ToolrouteError as error:
            logger.warning("what the task used is not remembered: %s", error)

    async def decide(self, tools: Sequence[Tool], said: Sequence[Exchange], tenant: str) -> Decision | None:
        """Return the Decision for the last exchange, None where there is none to make."""
        if not said or not said[-1].text.strip():
            return None
        keys = {tool.name: tool.key for tool in tools}
        earlier = [
            Turn(text=one.text[:_TURN_CHARS], tools=tuple(keys[own] for own in one.calls if own in keys))
            for one in said[-_TURNS:-1]
        ]
        try:
            request = RouteRequest(query=said[-1].text[:_TASK_CHARS], tenant=tenant, limit=self.limit)
            return await self.over(tools).route(request, conversation=earlier)
        except ToolrouteError as error:
            logger.warning("all %d tools are offered: %s", len(tools), error)
            return None

    def over(self, tools: Sequence[Tool]) -> Router | ToolRouter:
        """Return what routes among these tools; the latest sets are kept."""
        if isinstance(self.router, ToolRouter):
            return self.router
        catalogue = Catalogue(tools)
        found = self._routers.get(catalogue.fingerprint) or self.router.over(catalogue)
        _put(self._routers, catalogue.fingerprint, found, _SETS)
        return found


def own_tool(name: str, description: str | None, schema: Mapping[str, Any] | None) -> Tool:
    """Return the Tool of a framework's own: nobody's server, so that its name is the one that the model reads."""
    return Tool(server="", name=name, description=description or "", input_schema=dict(schema or {}), kind=Kind.BUILTIN)


def missing(extra: str, error: ImportError) -> MissingExtra:
    """Return what an integration raises where its framework is not installed."""
    return MissingExtra(f"{error}: install it with pip install 'toolroute[{extra}]'")


def now(work: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns, for a framework's calls that are not async, whatever loop runs around them."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def named(who: Who, context: Any) -> str:
    """Return the tenant or actor of the framework's own context."""
    return who(context) if callable(who) else who


def _key(tenant: str, said: Sequence[Exchange]) -> str:
    return digest("\0".join([tenant, *(exchange.text for exchange in said)]), 32)


def _put(kept: OrderedDict[str, K], key: str, value: K, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
