"""What definitions cost a model to read, and the matches within a token cap."""

from collections.abc import Sequence

from orchestrator.exports import export
from orchestrator.index import Index
from orchestrator.models import Match, Tokens, Tool
from orchestrator.options import Options
from orchestrator.stages import select
from orchestrator.tokens import ESTIMATE, EXACT, compact, counter_named


class Costs:
    """Counts one Decision's tokens. Without a cap and by estimate, all comes from the index's own counts."""

    def __init__(self, index: Index, options: Options, cap: int | None) -> None:
        self._index, self._cap = index, cap
        self._counted_by = EXACT if options.exact_tokens else ESTIMATE

    def fit(self, matches: list[Match]) -> tuple[list[Match], list[Match]]:
        """The matches within the cap, their schemas shrunk as far as needed, and those dropped."""
        return (matches, []) if self._cap is None else select.fit(matches, self._cap, self._cost)

    def tokens(self, kept: Sequence[Match]) -> Tokens:
        """Tokens of the whole catalogue and of the matches."""
        if self._counted_by == EXACT:
            before = sum(self._cost(tool) for tool in self._index.catalogue)
        else:
            before = self._index.tokens_total
        if self._cap is None and self._counted_by == ESTIMATE:
            positions = self._index.catalogue.positions
            after = int(self._index.tokens[[positions[match.tool.key] for match in kept]].sum()) if kept else 0
        else:
            after = sum(self._cost(match.tool) for match in kept)
        return Tokens(before=before, after=after, counted_by=self._counted_by)

    def _cost(self, tool: Tool) -> int:
        return counter_named(self._counted_by)(compact(export([tool], "openai")[0]))
