"""A Decision within a conversation: tools that were used stay available, and those offered stay offered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.index import Index
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Match
from orchestrator.routing import explain
from orchestrator.routing.conversation import offered_before, used_lately

USED = "used earlier in this conversation"
OFFERED = "offered before"

ASKED_NOW = 0.5
"""A match is asked for by this turn when its score is at least this share of the best one's."""

MOST_USED = 3
"""So many used tools are kept, the latest ones: each takes the place of a match that may be right."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The matches, those to keep among the first, and whether the turn goes on with what was offered."""

    matches: list[Match]
    same_topic: bool


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
    return _keep(
        [found.get(match.tool.key, match) for match in matches],
        request.limit,
        used=[found[key] for key in used if key in found],
        offered=[found[key] for key in offered_before(request.conversation) if key in found],
        leans=leans,
        nothing_fits=nothing_fits,
    )


def _keep(
    matches: Sequence[Match],
    limit: int,
    *,
    used: Sequence[Match],
    offered: Sequence[Match],
    leans: bool,
    nothing_fits: bool,
) -> Kept:
    """The matches, those to keep among the first `limit`, best first; the rest behind them.

    `used` are those of the tools used lately, `offered` those of the last offer. A turn that leans on
    earlier ones, or asks for something offered, keeps the offer and adds what is new; a turn on another topic starts
    afresh, and only used tools stay.
    """
    best = max((match.score for match in matches[:limit]), default=0.0)
    now = [] if nothing_fits else [match for match in matches[:limit] if match.score >= ASKED_NOW * best]
    before = {match.tool.key for match in offered}
    same_topic = bool(before) and (leans or nothing_fits or any(match.tool.key in before for match in now))
    used = used[: min(MOST_USED, limit // 2)]
    asked = {match.tool.key for match in now}
    # What is new may take half of an answer that keeps an offer.
    room = -(-limit // 2) if same_topic else limit - sum(match.tool.key not in asked for match in used)
    wanted = {match.tool.key: match for match in [*now[:room], *used, *(offered if same_topic else matches)]}
    held = list(wanted.values())[:limit]
    keys = {match.tool.key for match in held}
    place = {match.tool.key: number for number, match in enumerate(matches)}
    held.sort(key=lambda match: place.get(match.tool.key, len(place)))
    return Kept([*held, *(match for match in matches if match.tool.key not in keys)], same_topic)


def in_order(keys: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """The same keys, those of the last offer first and as they stood there, new ones behind."""
    place = {key: number for number, key in enumerate(offered)}
    return tuple(sorted(keys, key=lambda key: place.get(key, len(place)))) if place else tuple(keys)
