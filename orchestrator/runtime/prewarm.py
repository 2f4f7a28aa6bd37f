"""The choice of servers to connect in advance: those that the next calls of a task probably need."""

from collections.abc import Sequence

from orchestrator.records.tool import Kind, Match

_LEAST = 0.3
"""The probability from which a server is connected. At .2, two thirds more connections are useless
(`benchmarks.warming`).
"""


def servers_to_prewarm(matches: Sequence[Match], most: int) -> tuple[str, ...]:
    """Return at most `most` MCP servers, the most probable first.

    The probability of a server is that at least one of its matches is right, as if the matches were independent.
    """
    unlikely: dict[str, float] = {}
    for match in matches:
        if match.tool.kind is Kind.MCP:
            unlikely[match.tool.server] = unlikely.get(match.tool.server, 1.0) * (1 - match.score)
    probable = [server for server, none in sorted(unlikely.items(), key=lambda own: own[1]) if 1 - none >= _LEAST]
    return tuple(probable[:most])
