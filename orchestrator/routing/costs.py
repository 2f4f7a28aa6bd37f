"""What definitions cost a model to read, and the matches within a token cap and within what a Decision may hold."""

from collections.abc import Sequence

from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import ESTIMATE, EXACT, compact, counter_named, plain_size
from orchestrator.index.index import Index, size_beside
from orchestrator.options import Options
from orchestrator.records.tool import Match, Tokens, Tool
from orchestrator.routing import select

MAX_BYTES = 128 * 1024
"""Most of a Decision, beside its query and that one's parts: it enters workflow histories, with every plan of it."""
MATCH_BYTES, OTHER_BYTES = 800, 8 * 1024
"""Of these, what a match's evidence and what all but the matches may take (measured: 390 and 5,000)."""


class Costs:
    """Counts one Decision's tokens. Where nothing had to shrink, and by estimate, all comes from the index's counts.

    `room` names the limit that the matches were last held to, `dropped` are those that did not fit, and `note` tells
    that they shrank without having been asked.
    """

    def __init__(self, index: Index, options: Options, cap: int | None) -> None:
        self._index, self._cap, self._whole = index, cap, cap is None
        self._counted_by = EXACT if options.exact_tokens else ESTIMATE
        self.room = f"{cap} tokens"
        self.note = ""
        self.dropped: list[Match] = []
        self._places: list[int] = []

    def fit(self, matches: list[Match]) -> list[Match]:
        """The matches within cap and size, their schemas shrunk as far as needed."""
        kept = matches
        if self._cap is not None:
            kept, self.dropped = select.fit(matches, self._cap, self._cost)
        room = MAX_BYTES - OTHER_BYTES - MATCH_BYTES * len(kept)
        self._places = [self._index.whole.positions[match.tool.key] for match in kept]
        if sum(self._index.sizes[self._places].tolist()) <= room or sum(_size(match.tool) for match in kept) <= room:
            return kept
        self._whole, self.room = False, f"{MAX_BYTES // 1024} KiB"
        self.note = f"the matches' definitions are shortened to {self.room}: a lower limit keeps more of each"
        kept, further = select.fit(kept, room, _size)
        self.dropped = [*further, *self.dropped]
        return kept

    def tokens(self, kept: Sequence[Match]) -> Tokens:
        """Tokens of the whole catalogue and of the matches."""
        if self._counted_by == EXACT:
            before = sum(self._cost(tool) for tool in self._index.whole)
        else:
            before = self._index.tokens_total
        if self._whole and self._counted_by == ESTIMATE:
            after = sum(self._index.tokens[self._places].tolist())
        else:
            after = sum(self._cost(match.tool) for match in kept)
        return Tokens(before=before, after=after, counted_by=self._counted_by)

    def _cost(self, tool: Tool) -> int:
        """Tokens of a definition; by estimate those of a whole one are known."""
        place = self._index.whole.positions.get(tool.key)
        if self._counted_by == ESTIMATE and place is not None and self._index.whole.tools[place] is tool:
            return int(self._index.tokens[place])
        return counter_named(self._counted_by)(_definition(tool))


def definition_tokens(tool: Tool) -> int:
    """Tokens of a definition as it is now, by estimate."""
    return counter_named(ESTIMATE)(_definition(tool))


def _size(tool: Tool) -> int:
    """Bytes of a definition as it is now, perhaps shortened to the cap."""
    return plain_size(_definition(tool)) + size_beside(tool)


def _definition(tool: Tool) -> str:
    return compact(export([tool], "openai")[0])
