"""The difference between a catalogue and the next: which tools stay, which go and which come, by whole servers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.records.tool import Tool

MOST_NEW = 0.3
"""Share of the tools above which building anew is the quicker way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """`to` gives each earlier thing's place among the `size` that there are now, -1 if it is gone; others are `new`."""

    to: NDArray[np.int64]
    new: NDArray[np.int64]
    size: int

    @classmethod
    def between(cls, before: NDArray[np.bool_], now: NDArray[np.bool_]) -> Self:
        """From what stays among the earlier and the present things, which are in the same order."""
        to = np.full(len(before), -1, np.int64)
        to[before] = now.nonzero()[0]
        return cls(to=to, new=(~now).nonzero()[0], size=len(now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A server with any change goes and comes with all its tools: `gone` and `come`."""

    changed: Collection[str]
    tools: Moves
    servers: Moves
    gone: Sequence[Tool]
    come: Sequence[Tool]


def difference_between(before: Catalogue, now: Catalogue) -> Difference | None:
    """None where so much has changed that nothing is gained by it."""
    servers = before.places.keys() | now.places.keys()
    # Most tools are the same objects, which tuples compare first.
    return difference_over(before, now, {name for name in servers if before.of_server(name) != now.of_server(name)})


def difference_over(before: Catalogue, now: Catalogue, changed: Collection[str]) -> Difference | None:
    """The same where the servers that have changed are known."""
    earlier, present = _unchanged(before, changed), _unchanged(now, changed)
    tools = Moves.between(earlier.repeat(before.sizes), present.repeat(now.sizes))
    if len(tools.new) > MOST_NEW * len(now):
        return None
    return Difference(
        changed=changed,
        tools=tools,
        servers=Moves.between(earlier, present),
        gone=[before.tools[place] for place in (tools.to < 0).nonzero()[0].tolist()],
        come=[now.tools[place] for place in tools.new.tolist()],
    )


def _unchanged(catalogue: Catalogue, changed: Collection[str]) -> NDArray[np.bool_]:
    return np.array([server not in changed for server in catalogue.places], np.bool_)
