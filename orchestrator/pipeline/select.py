"""Select: near-duplicates, the one or two tools to recommend, and the matches within a cap."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.export import export
from orchestrator.catalogue.shrink import LADDER
from orchestrator.catalogue.tokens import ESTIMATE, EXACT, compact, counter_named, plain_size
from orchestrator.experience.calls import Calls
from orchestrator.index.graph import are_alike, bare
from orchestrator.index.index import Index, extra_size
from orchestrator.records.tool import Match, Tokens, Tool

DEPRECATED = 0.8
"""The factor on the probability of a tool that is labelled deprecated."""
WITHIN = 0.8
"""A runner-up is recommended with the best when its probability is at least this share of the best's."""


def repeated(tools: Sequence[Tool], window: Sequence[int]) -> set[int]:
    """Return which of these positions hold a near-duplicate of an earlier one of another server."""
    named: dict[str, list[int]] = {}
    for position in window:
        named.setdefault(bare(tools[position].name), []).append(position)
    if len(named) == len(window):
        return set()
    return {
        position
        for same in named.values()
        for place, position in enumerate(same)
        if any(are_alike(tools[earlier], tools[position]) for earlier in same[:place])
    }


def recommend(
    matches: Sequence[Match], best_of_parts: Sequence[str] = (), calls: Callable[[Tool], Calls] = lambda _: Calls()
) -> tuple[str, ...]:
    """Return the keys of the one or two tools to use first.

    Two when the best two are within 20 % and one is stable and one emerging, or when the task has several parts or
    names several servers, and another one has a best tool of its own. What no label says is read from the calls.
    """
    if not matches:
        return ()
    best = matches[0]
    if len(matches) > 1 and matches[1].score >= WITHIN * best.score:
        ages = {match.tool.labels.get("maturity") or calls(match.tool).maturity for match in matches[:2]}
        if ages == {"stable", "emerging"}:
            return best.tool.key, matches[1].tool.key
    others = {match.tool.key for match in matches[1:]} if best_of_parts else ()
    other = next((key for key in best_of_parts if key in others), None)
    return (best.tool.key, other) if other else (best.tool.key,)


def kept_of(tools: Sequence[Tool], positions: Iterable[int]) -> NDArray[np.float64]:
    """Return the share of its probability that each of these tools keeps: deprecated ones lose some; [positions]."""
    old = [tools[position].labels.get("maturity") == "deprecated" for position in positions]
    return np.where(old, DEPRECATED, 1.0)


def by_popularity(tools: Sequence[Tool]) -> list[int]:
    """Positions ordered by usage, then maintenance: what to show where nothing matched at all."""
    ages = {"stable": 0, "emerging": 1, "deprecated": 3}

    def standing(position: int) -> tuple[float, int, int]:
        labels = tools[position].labels
        return -_number(labels.get("usage", "0")), ages.get(labels.get("maturity", ""), 2), position

    return sorted(range(len(tools)), key=standing)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def fit(matches: Sequence[Match], cap: int, tokens_of: Callable[[Tool], int]) -> tuple[list[Match], list[Match]]:
    """Return the matches within a cap of tokens, and those dropped.

    All schemas shrink together, step by step; below the smallest the tail is dropped, since a tool that cannot be
    called is no tool. The best match is kept while it fits at all.
    """
    for shrink in LADDER:
        shrunk = [replace(match, tool=shrink(match.tool)) for match in matches]
        costs = [tokens_of(match.tool) for match in shrunk]
        if sum(costs) <= cap:
            return shrunk, []
    kept, used = 0, 0
    while kept < len(costs) and used + costs[kept] <= cap:
        used += costs[kept]
        kept += 1
    return shrunk[:kept], list(matches[kept:])


MAX_BYTES = 128 * 1024
"""Most of a Decision, without its query and its parts: it enters workflow histories, with every plan of it."""
MATCH_BYTES, OTHER_BYTES = 800, 8 * 1024
"""Of these, what a match's evidence and what all but the matches may take (measured: 390 and 5,000)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The matches within cap and size. `room` names the limit that they were last held to, `dropped` did not fit."""

    kept: tuple[Match, ...]
    dropped: tuple[Match, ...]
    room: str
    tokens: Tokens
    warnings: tuple[str, ...] = ()


def fit_matches(index: Index, matches: Sequence[Match], *, cap: int | None, exact: bool) -> Fitted:
    """Return the matches within a cap of tokens and the bytes of a Decision, their schemas shrunk as far as needed."""
    counter = counter_named(EXACT if exact else ESTIMATE)

    def cost(tool: Tool) -> int:
        """Tokens of a definition; by estimate those of a whole one are known."""
        place = index.catalogue.positions.get(tool.key)
        if not exact and place is not None and index.catalogue.tools[place] is tool:
            return int(index.sizes.tokens[place])
        return counter(_definition(tool))

    kept, dropped, room = list(matches), list[Match](), f"{cap} tokens"
    warnings: tuple[str, ...] = ()
    if cap is not None:
        kept, dropped = fit(kept, cap, cost)
    most = MAX_BYTES - OTHER_BYTES - MATCH_BYTES * len(kept)
    places = [index.catalogue.positions[match.tool.key] for match in kept]
    if sum(index.sizes.plain[places].tolist()) > most and sum(_size(match.tool) for match in kept) > most:
        room = f"{MAX_BYTES // 1024} KiB"
        warnings = (f"the matches' definitions are shortened to {room}: a lower limit keeps more of each",)
        kept, further = fit(kept, most, _size)
        dropped = [*further, *dropped]
    counted = exact and index.sizes.whole is None  # An excerpt does not hold all: there the estimate stands.
    before = sum(map(cost, index.catalogue)) if counted else index.sizes.tokens_total
    tokens = Tokens(
        before=before, after=sum(cost(match.tool) for match in kept), counted_by=EXACT if exact else ESTIMATE
    )
    return Fitted(kept=tuple(kept), dropped=tuple(dropped), room=room, tokens=tokens, warnings=warnings)


def definition_tokens(tool: Tool) -> int:
    """Return the tokens of a definition as it is now, by estimate."""
    return counter_named(ESTIMATE)(_definition(tool))


def _size(tool: Tool) -> int:
    return plain_size(_definition(tool)) + extra_size(tool)


def _definition(tool: Tool) -> str:
    return compact(export([tool], "openai")[0])
