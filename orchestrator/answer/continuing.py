"""A Decision within a conversation: its matches beside the tools of earlier turns."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.answer import explain
from orchestrator.models import Match
from orchestrator.retrieval.index import Index
from orchestrator.route_requests import RouteRequest
from orchestrator.stages.conversation import offered_before, used_lately
from orchestrator.stages.keep import Kept, keep

USED = "used earlier in this conversation"
OFFERED = "offered before"


def continued(
    index: Index,
    request: RouteRequest,
    matches: Sequence[Match],
    allowed: NDArray[np.bool_] | None,
    *,
    leans: bool,
    nothing_fits: bool,
) -> Kept:
    """The matches with the tools that earlier turns used or offered kept among them, and marked in their why."""
    known = {match.tool.key: match for match in matches}
    used = used_lately(request.conversation)
    marks = {**dict.fromkeys(offered_before(request.conversation), OFFERED), **dict.fromkeys(used, USED)}
    shown = {match.tool.key for match in matches[: request.limit]}

    def find(key: str) -> Match | None:
        position = index.catalogue.positions.get(key)
        if position is None or not (allowed is None or allowed[position]):
            return None
        match = known.get(key) or Match(tool=index.catalogue.tools[position], score=0.0)
        if key in shown and marks[key] == OFFERED:
            return match
        why = match.why or explain.why(match.evidence, match.words)
        return replace(match, why=f"{marks[key]}; {why}")

    found = {key: match for key in marks if (match := find(key))}
    return keep(
        [found.get(match.tool.key, match) for match in matches],
        request.limit,
        used=[found[key] for key in used if key in found],
        offered=[found[key] for key in offered_before(request.conversation) if key in found],
        leans=leans,
        nothing_fits=nothing_fits,
    )
