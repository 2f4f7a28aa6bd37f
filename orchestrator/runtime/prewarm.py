"""The choice of servers to connect in advance, because the next calls of a task probably need them."""

from collections import defaultdict
from collections.abc import Sequence

from orchestrator.records.tool import Match

_MIN_PROBABILITY = 0.3
"""The probability from which a server is connected. At .2, a fifth more connections are useless and no more servers are
connected in time (`benchmarks.warming`, `warm=2` without past tasks).
"""


def servers_to_prewarm(matches: Sequence[Match], most: int) -> tuple[str, ...]:
    """Return at most `most` MCP servers, the most probable first.

    The probability of a server is that at least one of its matches is right, as if the matches were independent.
    """
    improbable = defaultdict[str, float](lambda: 1.0)
    """By server: the probability that none of its matches is right."""
    for match in matches:
        if match.tool.kind.is_served:
            improbable[match.tool.server] *= 1 - match.probability
    ranked = sorted(improbable, key=improbable.__getitem__)
    return tuple(server for server in ranked if 1 - improbable[server] >= _MIN_PROBABILITY)[:most]
