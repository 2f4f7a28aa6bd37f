"""Why: the words and fields that matched, what was lacking, and why others were left out."""

from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.index import Index
from orchestrator.models import Match, Rejected, Tool
from orchestrator.stages.keyword import FIELDS
from orchestrator.stages.understand import Understood

MAX_REJECTED = 20
_SHOWN_WORDS = 6
_BY_STRENGTH = ("name", "server", "keywords", "description", "parameters")
_STRONGEST = [next((f for f in _BY_STRENGTH if bits & 1 << FIELDS.index(f)), "") for bits in range(1 << len(FIELDS))]
"""The field to name for each combination of fields' bits."""


def words_in(index: Index, understood: Understood, positions: Sequence[int]) -> list[dict[str, tuple[str, ...]]]:
    """For each tool, by field, the query's words that stand in it; a word is named once, in its strongest field."""
    found: list[dict[str, list[str]]] = [{} for _ in positions]
    postings = index.keyword.postings
    if postings is None or not positions:
        return [{} for _ in positions]
    ordered = sorted(understood.terms, key=lambda term: -postings.idf.get(term, 0.0))
    held = postings.holding(ordered, np.array(positions, np.int64)).tolist()
    for term, row in zip(ordered, held, strict=True):
        for words, bits in zip(found, row, strict=True):
            if bits:
                words.setdefault(_STRONGEST[bits], []).append(understood.words[term])
    return [{field: tuple(words) for field, words in row.items()} for row in found]


def why(evidence: Mapping[str, float], words: Mapping[str, tuple[str, ...]], notes: Sequence[str] = ()) -> str:
    """One line for a person: what was said outright, the words by field, and the meaning."""
    parts = list(notes)
    for field, found in words.items():
        more = f" and {len(found) - _SHOWN_WORDS} more" if len(found) > _SHOWN_WORDS else ""
        parts.append(f"{field}: {', '.join(found[:_SHOWN_WORDS])}{more}")
    if (meaning := evidence.get("semantic")) is not None:
        parts.append(f"meaning {meaning:.2f}")
    return "; ".join(parts) or "no word and little meaning in common"


def lacking(understood: Understood, words: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The query's words that the tool says nowhere."""
    said = {word for found in words.values() for word in found}
    return tuple(understood.words[term] for term in understood.terms if understood.words[term] not in said)


def beyond_limit(matches: Sequence[Match], understood: Understood, last: Match | None, limit: int) -> list[Rejected]:
    """Why candidates that scored did not make the answer: what they lack that the last match has."""
    has = {word for found in (last.words if last else {}).values() for word in found}
    rejected = []
    for match in matches[:MAX_REJECTED]:
        lacks = [word for word in lacking(understood, match.words) if word in has][:_SHOWN_WORDS]
        more = f"; lacks {', '.join(lacks)}" if lacks else ""
        rejected.append(Rejected(tool=match.tool.key, why=f"score {match.score:.2f}, below the {limit} matches{more}"))
    return rejected


def left_out(tools: Sequence[Tool], said: str) -> list[Rejected]:
    """The tools of a server that the query wants left out."""
    return [Rejected(tool=tool.key, why=f"the query leaves out {said!r}") for tool in tools]
