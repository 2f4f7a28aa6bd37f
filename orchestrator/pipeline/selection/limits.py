"""The limits of a Decision: matches are held to a cap of tokens and to its size, with shorter schemas if necessary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from orchestrator.catalogue.export import export
from orchestrator.catalogue.shrink import LADDER
from orchestrator.catalogue.tokens import compact, count_tokens, plain_size
from orchestrator.index.index import Index, extra_size
from orchestrator.records.tool import Match, Tokens, Tool

MAX_BYTES = 128 * 1024
"""The maximum size of a Decision without its query and parts. It is part of workflow histories, with each
of its plans."""
MATCH_BYTES, OTHER_BYTES = 800, 8 * 1024
"""The part of MAX_BYTES for a match's evidence, and the part for everything except the matches (measured:
390 and 5,000)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The matches within cap and size.

    Attributes:
        kept: The first matches, with shortened schemas if necessary.
        dropped: The matches that did not fit.
        room: The name of the limit that the matches were last held to.
        tokens: The tokens of all definitions, and those of the matches.
        warnings: Warnings for the caller.
    """

    kept: list[Match]
    dropped: list[Match]
    room: str
    tokens: Tokens
    warnings: tuple[str, ...] = ()


def fit(
    matches: Sequence[Match], cap: int, size_of: Callable[[Tool], int]
) -> tuple[list[Match], list[Match]]:
    """Return the matches within a cap, and the dropped ones.

    All schemas shrink together, step by step. Below the smallest form the last matches are dropped, because a tool
    without a schema cannot be called. The best match is kept as long as it fits.

    Args:
        matches: The matches, best first.
        cap: The maximum number of tokens or bytes.
        size_of: Returns the tokens or bytes of a match's tool.
    """
    for shrink in LADDER:
        shrunk = [replace(match, tool=shrink(match.tool)) for match in matches]
        sizes = [size_of(match.tool) for match in shrunk]
        if sum(sizes) <= cap:
            return shrunk, []
    fitting = 0
    total = 0
    for size in sizes:
        total += size
        if total > cap:
            break
        fitting += 1
    return shrunk[:fitting], list(matches[fitting:])


def fit_matches(
    index: Index,
    matches: Sequence[Match],
    positions: Sequence[int],
    *,
    cap: int | None,
) -> Fitted:
    """Return the matches within a cap of tokens and the byte limit of a Decision.

    Args:
        index: The tenant's index.
        matches: The matches, best first.
        positions: Their positions.
        cap: The maximum number of tokens, or None.
    """
    sizes = index.sizes
    token_counts = {
        id(index.tools[position]): int(sizes.tokens[position]) for position in positions
    }

    def tokens_of(tool: Tool) -> int:
        # A shortened tool is another object.
        count = token_counts.get(id(tool))
        return definition_tokens(tool) if count is None else count

    room = f"{cap} tokens"
    fitting = list(matches)
    dropped: list[Match] = []
    warnings: tuple[str, ...] = ()
    if cap is not None:
        fitting, dropped = fit(fitting, cap, tokens_of)
    most_bytes = MAX_BYTES - OTHER_BYTES - MATCH_BYTES * len(fitting)
    full_bytes = int(sizes.plain[list(positions[: len(fitting)])].sum())
    if full_bytes > most_bytes and sum(_size(match.tool) for match in fitting) > most_bytes:
        room = f"{MAX_BYTES // 1024} KiB"
        warnings = (
            f"the matches' definitions are shortened to {room}: lower `limit` to keep more of each",
        )
        fitting, too_large = fit(fitting, most_bytes, _size)
        dropped = [*too_large, *dropped]
    after = sum(tokens_of(match.tool) for match in fitting)
    tokens = Tokens(before=sizes.tokens_total, after=after)
    return Fitted(kept=fitting, dropped=dropped, room=room, tokens=tokens, warnings=warnings)


def definition_tokens(tool: Tool) -> int:
    """Return the estimated tokens of a definition in its present form."""
    return count_tokens(_definition(tool))


def _size(tool: Tool) -> int:
    return plain_size(_definition(tool)) + extra_size(tool)


def _definition(tool: Tool) -> str:
    return compact(export([tool], "openai")[0])
