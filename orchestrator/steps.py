"""The step from one catalogue to the next: which tools stay, which go and which come, by whole servers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue import Catalogue
from orchestrator.models import Tool

MOST_NEW = 0.3
"""Share of the tools above which building anew is the quicker way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`moved` gives each earlier tool's place, -1 where its server has changed; the others are at `new`.

    A server with any change goes and comes with all its tools.
    """

    moved: NDArray[np.int64]
    new: NDArray[np.int64]
    gone: Sequence[Tool]
    come: Sequence[Tool]


def step_between(before: Catalogue, now: Catalogue) -> Step | None:
    """None where so much has changed that nothing is gained by a step."""
    moved = np.full(len(before), -1, np.int64)
    is_new = np.ones(len(now), np.bool_)
    for server, place in now.places.items():
        old = before.places.get(server)
        if old is not None and before.hashes[old] == now.hashes[place]:
            moved[old] = np.arange(place.start, place.stop)
            is_new[place] = False
    new = is_new.nonzero()[0]
    if len(new) > MOST_NEW * len(now):
        return None
    gone = [before.tools[place] for place in (moved < 0).nonzero()[0].tolist()]
    return Step(moved=moved, new=new, gone=gone, come=[now.tools[place] for place in new.tolist()])
