"""Matches: the ranked tools of a state with their evidence, the words that they share with the task, and a reason."""

from collections.abc import Collection, Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.bm25 import Columns
from orchestrator.index.keyword import FIELDS
from orchestrator.pipeline.legs.always import always_for
from orchestrator.pipeline.state import State
from orchestrator.pipeline.understand import Understood
from orchestrator.records.tool import Match, Tool

SHOWN_WORDS = 6
"""The number of words that a reason names."""
DEPRECATED = 0.8
"""The factor on the probability of a tool that is labelled deprecated."""
_BY_STRENGTH = ("name", "server", "keywords", "description", "parameters")


def _strongest_field(bits: int) -> str:
    """Return the field to name for a combination of fields' bits."""
    fields = [field for field in _BY_STRENGTH if bits & 1 << FIELDS.index(field)]
    return fields[0] if fields else ""


_STRONGEST = [_strongest_field(bits) for bits in range(1 << len(FIELDS))]


class Overlap:
    """The query's words in the best tools, gathered once for a Decision.

    Attributes:
        positions: The tools.
    """

    def __init__(self, columns: Columns, understood: Understood, positions: Sequence[int]) -> None:
        self.positions = positions
        rarest_first = np.argsort(-columns.idf, kind="stable")
        terms = [columns.words[row] for row in rarest_first.tolist()]
        self._words = [understood.words.get(term, term) for term in terms]
        self._order = list(dict.fromkeys(understood.words[term] for term in understood.terms))
        self._fields = columns.field_bits.take(positions, axis=1).take(rarest_first, axis=0).T

    @classmethod
    def of(cls, state: State, count: int) -> "Overlap":
        """Return the overlap of the task with the first tools of a state."""
        understood = state.task.understood
        if state.candidates:
            columns = state.candidates.search.words.columns
        else:
            columns = state.task.index.keyword.postings.columns(understood.terms)
        return cls(columns, understood, state.order[:count])

    def by_field(self, count: int) -> list[dict[str, tuple[str, ...]]]:
        """Return the matched words by field for each of the first tools. Each word is in its strongest field only."""
        of_tools = []
        for fields_of_words in self._fields[:count].tolist():
            words: dict[str, tuple[str, ...]] = {}
            for word, bits in zip(self._words, fields_of_words, strict=True):
                if bits:
                    field = _STRONGEST[bits]
                    words[field] = (*words.get(field, ()), word)
            of_tools.append(words)
        return of_tools

    def lacks(self, words: Collection[str]) -> list[list[str]]:
        """Return for each tool those of these words that it lacks, in the query's order."""
        matched_words = [word for word in self._order if word in words and word in self._words]
        rows = [self._words.index(word) for word in matched_words]
        is_missing = self._fields.take(rows, axis=1) == 0
        return [list(compress(matched_words, of_tool)) for of_tool in is_missing.tolist()]


def why(
    evidence: Mapping[str, float], words: Mapping[str, tuple[str, ...]], notes: Sequence[str] = ()
) -> str:
    """Return one line for a person: the notes, the words by field, and the semantic similarity.

    Args:
        evidence: The probabilities by leg.
        words: The matched words by field.
        notes: The remarks.
    """
    reasons = list(notes)
    for field, in_field in words.items():
        further = len(in_field) - SHOWN_WORDS
        more = f" and {further} more" if further > 0 else ""
        reasons.append(f"{field}: {', '.join(in_field[:SHOWN_WORDS])}{more}")
    if "semantic" in evidence:
        reasons.append(f"semantic search: probability {evidence['semantic']:.2f}")
    return "; ".join(reasons) or "no word in common with the task, and little similarity"


def matches_of(state: State, overlap: Overlap, count: int) -> list[Match]:
    """Return the first `count` matches, in order.

    Args:
        state: The state with the scores.
        overlap: The task's words in the best tools, of at least `count` tools if there are as many.
        count: The maximum number of matches.
    """
    index = state.task.index
    positions = overlap.positions[:count]
    for_clauses = _for_clauses(state, positions)
    matches = []
    for position, words in zip(positions, overlap.by_field(count), strict=True):
        evidence = state.evidence.get(position, {})
        notes = list(state.notes.get(position, ()))
        gives = state.gives.get(position)
        if gives:
            notes.append(str(gives))
        origins = index.origins.get(index.keys[position])
        match = Match(
            tool=index.tools[position],
            probability=state.scores[position],
            evidence=dict(evidence),
            why=why(evidence, words, notes),
            words=words,
            gives=gives,
            for_parts=for_clauses.get(position, ()),
            source=origins[0] if origins else "",
        )
        matches.append(match)
    return matches


def _for_clauses(state: State, positions: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Return each tool's probability for each clause alone, at least the probability of a requested capability."""
    if state.candidates is None or not state.candidates.clauses:
        return {}
    clauses = state.task.understood.several_clauses
    of_clauses = state.candidates.of_clauses(np.array(positions, np.int64))
    chances = of_clauses * kept_of(state.task.index.tools, positions)
    # The needs that a language model read are searched like clauses, behind them.
    chances = chances.round(4)[: len(clauses)]
    for row, clause in zip(chances, clauses, strict=True):
        by_capability = always_for(state, clause.text)
        least = [by_capability.get(position, 0.0) for position in positions]
        np.maximum(row, least, out=row)
    of_tools = map(tuple, chances.T.tolist())
    return dict(zip(positions, of_tools, strict=True))


def kept_of(tools: Sequence[Tool], positions: Sequence[int]) -> NDArray[np.float64]:
    """Return the share of its probability that each tool keeps [positions]. Deprecated tools lose some."""
    is_deprecated = [
        tools[position].labels.get("maturity") == "deprecated" for position in positions
    ]
    return np.where(is_deprecated, DEPRECATED, 1.0)
