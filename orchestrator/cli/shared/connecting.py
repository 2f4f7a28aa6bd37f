"""The progress of commands that connect servers: a bar on a terminal, and a line now and then elsewhere."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from orchestrator.cli.shared.output import Bar, note, progress

if TYPE_CHECKING:
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import ServerReport

_LINE_S = 10.0
"""Seconds between two progress lines, if the output is not a terminal."""
_MOST_NAMED = 4
"""The number of servers that a line of progress names for each phase."""


@asynccontextmanager
async def connecting(
    connections: "Connections", label: str, total: int
) -> AsyncIterator[Callable[["ServerReport | None"], None]]:
    """Show the progress while `total` servers connect. The yielded function counts a server and notes its report.

    Args:
        connections: The servers.
        label: The text before the progress.
        total: The number of servers.
    """
    with progress(label) as bar:
        connected = _Connected(connections, bar, total)
        showing = asyncio.create_task(connected.show_phases())
        try:
            yield connected.count
        except asyncio.CancelledError:
            # Without a word, the user would press Ctrl-C again and leave a broken cache.
            if "installing" in connections.phases().values():
                note(
                    "interrupted: a running installation is rolled back to keep its cache intact (up to 20 s)"
                )
            raise
        finally:
            showing.cancel()


class _Connected:
    """Counts the servers that have connected or failed."""

    def __init__(self, connections: "Connections", bar: Bar, total: int) -> None:
        self._connections = connections
        self._bar = bar
        self._total = total
        self._done = 0
        self._failed: list[str] = []
        bar(0, total)

    def count(self, report: "ServerReport | None" = None) -> None:
        self._done += 1
        if report is not None:
            note(report.line)
            if report.error:
                self._failed.append(report.server)
        self._bar(self._done, self._total)

    async def show_phases(self) -> None:
        """Show the phases of the other servers, again and again."""
        is_terminal = sys.stderr.isatty()
        while True:
            await asyncio.sleep(1 if is_terminal else _LINE_S)
            phases = phases_in_words(self._connections.phases(), self._failed)
            if phases and is_terminal:
                self._bar(self._done, self._total, phases)
            elif phases:
                note(f"{self._done} of {self._total} done; {phases}")


def phases_in_words(phases: Mapping[str, str], failed: Sequence[str]) -> str:
    """Return a phrase such as "installing a, b; listing c; waiting d, e and 3 more; failed f"."""
    if not phases:
        return ""
    by_phase: dict[str, list[str]] = {}
    for server, phase in phases.items():
        by_phase.setdefault(phase, []).append(server)
    if "waiting" in by_phase:
        by_phase["waiting"] = by_phase.pop("waiting")  # Last.
    if failed:
        by_phase["failed"] = [*failed]
    return "; ".join(f"{phase} {_few(servers)}" for phase, servers in by_phase.items())


def _few(servers: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(servers) - _MOST_NAMED
    names = ", ".join(servers[:_MOST_NAMED])
    return f"{names} and {more} more" if more > 0 else names
