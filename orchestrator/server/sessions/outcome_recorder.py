"""Recording: a call that follows a search becomes an Outcome of it, once no further call comes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

from orchestrator.errors import ToolrouteError
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Use
from orchestrator.runtime.router import Router

QUIET_S = 30.0
"""Seconds after the last call of a search until its Outcome is recorded."""
_MOST_SEARCHES = 20
"""The number of a conversation's latest searches that a call may belong to."""
_MOST_CONVERSATIONS = 1_000
"""Conversations with an open search. The oldest is recorded with the calls that it has so far."""


class Conversation(NamedTuple):
    """Identifies a client's conversation. `session` is "" for a client without sessions."""

    tenant: str
    actor: str
    session: str

    @property
    def client(self) -> tuple[str, str]:
        """The client, without the session."""
        return self.tenant, self.actor


@dataclass(slots=True, eq=False)
class _Search:
    """A search's Decision, the tools that it returned, and the calls that followed it."""

    decision: Decision
    returned: Collection[str]
    actor: str
    router: Router
    id: str = field(default_factory=lambda: uuid4().hex)
    used: list[Use] = field(default_factory=list)
    under_way: int = 0
    over: bool = False
    timer: asyncio.TimerHandle | None = None


class OutcomeRecorder:
    """Remembers the tools that a client called after a search. No answer waits for it. Failures are passed to `note`.

    A call belongs to the latest search of its conversation that returned the tool. A search after a call begins new
    work, so later calls do not belong to earlier searches. Searches without a call between them all stay open, because
    agents search for several parts of a task at once.
    """

    def __init__(self, router: Router, note: Callable[[str], None]) -> None:
        self._router = router
        self._note = note
        self._open = OrderedDict[Conversation, list[_Search]]()
        self._called = set[Conversation]()
        self._recording: set[asyncio.Task[None]] = set()

    def searched(
        self,
        decision: Decision,
        returned: Collection[str],
        who: Conversation,
        router: Router | None = None,
    ) -> str:
        """Keep a search that a call may follow. Returns its name, which its Outcome gets.

        Args:
            decision: The search's Decision.
            returned: The keys of the returned tools.
            who: The conversation.
            router: The Router that made the Decision, if it is not the recorder's own.
        """
        if who in self._called:
            self._end(who)
        searches = self._open.setdefault(who, [])
        self._open.move_to_end(who)
        search = _Search(decision, returned, who.actor, router or self._router)
        searches.append(search)
        if len(searches) > _MOST_SEARCHES:
            self._finish(searches.pop(0))
        if len(self._open) > _MOST_CONVERSATIONS:
            self._end(next(iter(self._open)))
        return search.id

    def search_of(self, who: Conversation, key: str) -> str:
        """Return the name of the search that a call of this tool follows, or ""."""
        search = self._followed(who, key)
        return search.id if search else ""

    def _followed(self, who: Conversation, key: str) -> _Search | None:
        return next(
            (search for search in reversed(self._open.get(who, [])) if key in search.returned), None
        )

    @contextmanager
    def call(self, who: Conversation, key: str) -> Iterator[Callable[[Use], None]]:
        """Start a call of a tool. The call is recorded only if the yielded function is called."""
        search = self._followed(who, key)
        if self._open.get(who):
            self._called.add(who)
        if search is None:
            yield lambda _: None
            return
        search.under_way += 1
        if search.timer is not None:
            search.timer.cancel()
        try:
            yield search.used.append
        finally:
            search.under_way -= 1
            if search.over:
                self._finish(search)
            elif not search.under_way:
                search.timer = asyncio.get_running_loop().call_later(
                    QUIET_S, self._quiet, who, search
                )

    async def close(self) -> None:
        """Record the remaining searches."""
        for who in list(self._open):
            self._end(who)
        await asyncio.gather(*self._recording)

    def _quiet(self, who: Conversation, search: _Search) -> None:
        self._open[who].remove(search)
        self._finish(search)

    def _end(self, who: Conversation) -> None:
        self._called.discard(who)
        for search in self._open.pop(who, []):
            self._finish(search)

    def _finish(self, search: _Search) -> None:
        """Record the search's Outcome, or have that done when its calls under way have ended."""
        search.over = True
        if search.timer is not None:
            search.timer.cancel()
        if search.used and not search.under_way:
            task = asyncio.create_task(self._keep(search))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)

    async def _keep(self, search: _Search) -> None:
        try:
            await search.router.record(
                search.decision,
                used=search.used,
                actor=search.actor,
                source="serve",
                name=search.id,
            )
        except ToolrouteError as error:
            self._note(f"an outcome was not recorded: {error}")
