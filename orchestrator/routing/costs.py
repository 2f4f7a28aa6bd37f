"""What definitions cost a model to read, and the matches within a token cap and within what a Decision may hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import ESTIMATE, EXACT, compact, counter_named, plain_size
from orchestrator.index.index import Index, extra_size
from orchestrator.records.tool import Match, Tokens, Tool
from orchestrator.routing.select import fit

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
    before = sum(map(cost, index.catalogue)) if exact else index.sizes.tokens_total
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
