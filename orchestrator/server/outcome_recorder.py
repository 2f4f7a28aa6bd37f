"""Recording: a call that follows a search becomes an Outcome of it, once no further call comes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from orchestrator.errors import ToolrouteError
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Use
from orchestrator.runtime.router import Router

QUIET_S = 30.0
"""How long after the last call of a search its Outcome is recorded."""
_SEARCHES = 20
"""The latest searches of a tenant that a call may follow."""


@dataclass(slots=True, eq=False)
class _Search:
    """A search's Decision, and the calls that followed it."""

    decision: Decision
    actor: str
    router: Router
    name: str = field(default_factory=lambda: uuid4().hex)
    used: list[Use] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


class OutcomeRecorder:
    """Remembers which tools a client called after which search. No answer waits for it; `note` says what failed."""

    def __init__(self, router: Router, note: Callable[[str], None], quiet_s: float = QUIET_S) -> None:
        self._router, self._note, self._quiet_s = router, note, quiet_s
        self._searches: dict[str, OrderedDict[str, _Search]] = {}
        self._recording: set[asyncio.Task[None]] = set()

    def searched(self, decision: Decision, actor: str, router: Router | None = None) -> None:
        """Keep a search that a call may follow, and the Router that made it, if it is another one."""
        own = self._searches.setdefault(decision.tenant, OrderedDict())
        made = _Search(decision, actor, router or self._router)
        own[made.name] = made
        while len(own) > _SEARCHES:
            self._record(own.popitem(last=False)[1])

    def called(self, tenant: str, actor: str, key: str, *, ok: bool, ms: float) -> None:
        """Keep a call with its client's latest search that offered the tool."""
        latest = reversed(self._searches.get(tenant, {}).values())
        found = next((search for search in latest if search.actor == actor and search.decision.tool(key)), None)
        if found is None:
            return
        found.used.append(Use(tool=key, ok=ok, ms=ms))
        if found.timer is not None:
            found.timer.cancel()
        found.timer = asyncio.get_running_loop().call_later(self._quiet_s, self._end, tenant, found)

    async def close(self) -> None:
        """Record what is left."""
        for own in self._searches.values():
            for search in own.values():
                self._record(search)
        self._searches.clear()
        await asyncio.gather(*self._recording)

    def _end(self, tenant: str, search: _Search) -> None:
        self._searches.get(tenant, OrderedDict()).pop(search.name, None)
        self._record(search)

    def _record(self, search: _Search) -> None:
        if search.timer is not None:
            search.timer.cancel()
        if search.used:
            task = asyncio.create_task(self._keep(search))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)

    async def _keep(self, search: _Search) -> None:
        try:
            await search.router.record(
                search.decision, used=search.used, actor=search.actor, source="serve", name=search.name
            )
        except ToolrouteError as error:
            self._note(f"an outcome is not remembered: {error}")
