"""Why: the words and fields that matched, what was lacking, and why others were left out."""

from collections.abc import Collection, Mapping, Sequence
from itertools import compress

import numpy as np

from orchestrator.index.bm25 import Columns
from orchestrator.index.keyword import FIELDS
from orchestrator.records.tool import Rejected, Tool
from orchestrator.routing.understand import Understood

MAX_REJECTED = 20
_SHOWN_WORDS = 6
_BY_STRENGTH = ("name", "server", "keywords", "description", "parameters")
_STRONGEST = [next((f for f in _BY_STRENGTH if bits & 1 << FIELDS.index(f)), "") for bits in range(1 << len(FIELDS))]
"""The field to name for each combination of fields' bits."""


class Overlap:
    """The query's words in the best tools, at these positions; gathered once a Decision."""

    def __init__(self, columns: Columns, understood: Understood, positions: Sequence[int]) -> None:
        self.positions = positions
        strongest = np.argsort(-columns.idf, kind="stable")
        known = [columns.words[row] for row in strongest.tolist()]
        self._words = [understood.words.get(word, word) for word in known]
        self._place = {understood.words[term]: place for place, term in enumerate(understood.terms)}
        self._held = columns.held.take(positions, axis=1).take(strongest, axis=0).T

    def by_field(self, count: int) -> list[dict[str, tuple[str, ...]]]:
        """For each of the first tools the words in each field; a word is named once, in its strongest field."""
        found = []
        for bits_of_words in self._held[:count].tolist():
            own: dict[str, tuple[str, ...]] = {}
            for word, bits in zip(self._words, bits_of_words, strict=True):
                if bits:
                    field = _STRONGEST[bits]
                    own[field] = (*own.get(field, ()), word)
            found.append(own)
        return found

    def lacking(self, words: Collection[str]) -> list[list[str]]:
        """For each tool those of these words that it lacks, in the query's order."""
        rows = [row for row, word in enumerate(self._words) if word in words and word in self._place]
        rows.sort(key=lambda row: self._place[self._words[row]])
        wanted = [self._words[row] for row in rows]
        return [list(compress(wanted, lacks)) for lacks in (self._held.take(rows, axis=1) == 0).tolist()]


def why(evidence: Mapping[str, float], words: Mapping[str, tuple[str, ...]], notes: Sequence[str] = ()) -> str:
    """One line for a person: what was said outright, the words by field, and the meaning."""
    parts = list(notes)
    for field, found in words.items():
        more = f" and {len(found) - _SHOWN_WORDS} more" if len(found) > _SHOWN_WORDS else ""
        parts.append(f"{field}: {', '.join(found[:_SHOWN_WORDS])}{more}")
    if (meaning := evidence.get("semantic")) is not None:
        parts.append(f"meaning {meaning:.2f}")
    return "; ".join(parts) or "no word and little meaning in common"


def beyond_limit(tool: Tool, score: float, limit: int, lacks: Sequence[str] = ()) -> Rejected:
    """Why a candidate that scored did not make the answer: what it lacks that the last match has."""
    more = f"; lacks {', '.join(lacks[:_SHOWN_WORDS])}" if lacks else ""
    return Rejected(tool=tool.key, why=f"score {score:.2f}, behind the {limit} matches{more}")


def left_out(tools: Sequence[Tool], said: str) -> list[Rejected]:
    """The tools that the query wants left out."""
    return [Rejected(tool=tool.key, why=f"the query leaves out {said!r}") for tool in tools]
