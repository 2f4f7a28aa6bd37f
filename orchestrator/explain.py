"""Why: the words and fields that matched, what was lacking, and why others were left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.models import Match, Rejected, Tool
from orchestrator.postings import Columns
from orchestrator.stages.keyword import FIELDS
from orchestrator.stages.understand import Understood

MAX_REJECTED = 20
_SHOWN_WORDS = 6
_BY_STRENGTH = ("name", "server", "keywords", "description", "parameters")
_STRONGEST = [next((f for f in _BY_STRENGTH if bits & 1 << FIELDS.index(f)), "") for bits in range(1 << len(FIELDS))]
"""The field to name for each combination of fields' bits."""


def words_in(columns: Columns, understood: Understood, positions: Sequence[int]) -> list[dict[str, tuple[str, ...]]]:
    """For each tool, by field, the query's words that stand in it; a word is named once, in its strongest field."""
    strongest = np.argsort(-columns.idf, kind="stable")
    held = columns.holding(np.array(positions, np.int64))[strongest].T
    words = [columns.words[row] for row in strongest.tolist()]
    said = [understood.words.get(word, word) for word in words]
    found: list[dict[str, tuple[str, ...]]] = [{} for _ in positions]
    places, rows = held.nonzero()
    for place, row, bits in zip(places.tolist(), rows.tolist(), held[places, rows].tolist(), strict=True):
        own, field = found[place], _STRONGEST[bits]
        own[field] = (*own.get(field, ()), said[row])
    return found


def why(evidence: Mapping[str, float], words: Mapping[str, tuple[str, ...]], notes: Sequence[str] = ()) -> str:
    """One line for a person: what was said outright, the words by field, and the meaning."""
    parts = list(notes)
    for field, found in words.items():
        more = f" and {len(found) - _SHOWN_WORDS} more" if len(found) > _SHOWN_WORDS else ""
        parts.append(f"{field}: {', '.join(found[:_SHOWN_WORDS])}{more}")
    if (meaning := evidence.get("semantic")) is not None:
        parts.append(f"meaning {meaning:.2f}")
    return "; ".join(parts) or "no word and little meaning in common"


def beyond_limit(matches: Sequence[Match], understood: Understood, last: Match | None, limit: int) -> list[Rejected]:
    """Why candidates that scored did not make the answer: what they lack that the last match has."""
    has = _said(last) if last else set()
    in_order = [word for word in map(understood.words.__getitem__, understood.terms) if word in has]
    rejected = []
    for match in matches[:MAX_REJECTED]:
        said = _said(match)
        lacks = [word for word in in_order if word not in said][:_SHOWN_WORDS]
        more = f"; lacks {', '.join(lacks)}" if lacks else ""
        rejected.append(Rejected(tool=match.tool.key, why=f"score {match.score:.2f}, below the {limit} matches{more}"))
    return rejected


def _said(match: Match) -> set[str]:
    return set().union(*match.words.values())


def left_out(tools: Sequence[Tool], said: str) -> list[Rejected]:
    """The tools of a server that the query wants left out."""
    return [Rejected(tool=tool.key, why=f"the query leaves out {said!r}") for tool in tools]
