"""Calls that continue after their client got another answer than their result: a question, or a handle to poll."""

import asyncio
import secrets
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orchestrator.server.sessions.asker import ClientAsker


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call in progress, under an id that only its client knows."""

    asker: ClientAsker
    task: asyncio.Task[Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


class PendingCalls:
    """The pending calls by id, oldest first.

    A call whose client does not come back in time is cancelled. Over the limit, the tenant with the most calls loses
    its oldest, so that no tenant can push out the others.
    """

    def __init__(self) -> None:
        self._calls: dict[str, PendingCall] = {}

    def add(self, call: PendingCall, *, limit: int, seconds: float) -> None:
        """Keep a call until its client comes back.

        Args:
            call: The call.
            limit: The maximum number of calls of all tenants.
            seconds: The number of seconds after which the call is cancelled.
        """
        self._calls[call.id] = call
        # A client may never come back.
        asyncio.get_running_loop().call_later(seconds, self._cancel, call.id)
        if len(self._calls) > limit:
            self._cancel(self._oldest_of_busiest_tenant())

    def get(self, call_id: str) -> PendingCall | None:
        return self._calls.get(call_id)

    def remove(self, call_id: str) -> None:
        """Forget a call. The call itself continues."""
        del self._calls[call_id]

    async def close(self) -> None:
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _oldest_of_busiest_tenant(self) -> str:
        tenants = {call_id: call.asker.who.tenant for call_id, call in self._calls.items()}
        [(busiest, _)] = Counter(tenants.values()).most_common(1)
        return next(call_id for call_id, tenant in tenants.items() if tenant == busiest)

    def _cancel(self, call_id: str) -> None:
        call = self._calls.pop(call_id, None)
        if call is not None:
            call.task.cancel()
