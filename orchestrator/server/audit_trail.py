"""The audit lines of the gateway's requests."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mcp import MCPError

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.server.sessions.client_profile import current
from orchestrator.trust.audit import Audit, Entry


class AuditTrail:
    """Writes a line for each request into the audit log, if there is one."""

    def __init__(self, audit: Audit | None) -> None:
        self._audit = audit

    def note(self, entry: Entry) -> None:
        """Write a line, with the profile of the current request."""
        if self._audit is not None:
            self._audit.note(replace(entry, profile=current().name))

    async def flush(self) -> None:
        """Wait until all lines are written."""
        if self._audit is not None:
            await asyncio.to_thread(self._audit.flush)

    @contextmanager
    def request(self, entry: Entry) -> Iterator[dict[str, Any]]:
        """Write the line of a request at its end, with the fields that are set in the yielded dict.

        A call for which the client has to ask its user first comes again, and is written then.
        """
        began = time.perf_counter()
        fields = dict[str, Any](approval="not asked")
        try:
            yield fields
        except (ToolrouteError, MCPError, asyncio.CancelledError) as error:
            fields["result"] = type(error).__name__
            fields["approval"] = getattr(error, "approval", fields["approval"])
            raise
        finally:
            if "result" in fields:
                self.note(replace(entry, ms=(time.perf_counter() - began) * 1000, **fields))

    def note_changes(self, before: McpConfig, after: McpConfig) -> None:
        """Write a line for each server whose entry was added, changed or removed."""
        for server in dict.fromkeys([*before.entries, *after.entries]):
            if server not in before.entries:
                result = "added"
            elif server not in after.entries:
                result = "removed"
            elif before.entries[server] != after.entries[server]:
                result = "changed"
            else:
                continue
            self.note(Entry(event="configuration", tenant="", server=server, result=result))
