"""Explains a Decision: the matched words and fields, the reasons for rejected tools, and warnings."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from itertools import compress
from typing import Any

import numpy as np

from orchestrator.common.keys import split_key
from orchestrator.index.bm25 import Columns
from orchestrator.index.flags import mentions
from orchestrator.index.index import Index
from orchestrator.index.keyword import FIELDS
from orchestrator.pipeline.state import State, Task
from orchestrator.pipeline.understand import Understood
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Near
from orchestrator.records.request import within
from orchestrator.records.tool import Match, Rejected, Stage

MAX_REJECTED = 20
_SHOWN_WORDS = 6
_MOST_COMPARED = 2_000
_BY_STRENGTH = ("name", "server", "keywords", "description", "parameters")
_STRONGEST = [next((f for f in _BY_STRENGTH if bits & 1 << FIELDS.index(f)), "") for bits in range(1 << len(FIELDS))]
"""The field to name for each combination of fields' bits."""


class Overlap:
    """The query's words in the best tools at these positions, gathered once for a Decision."""

    def __init__(self, columns: Columns, understood: Understood, positions: Sequence[int]) -> None:
        self.positions = positions
        strongest = np.argsort(-columns.idf, kind="stable")
        known = [columns.words[row] for row in strongest.tolist()]
        self._words = [understood.words.get(word, word) for word in known]
        self._place = {understood.words[term]: place for place, term in enumerate(understood.terms)}
        self._held = columns.held.take(positions, axis=1).take(strongest, axis=0).T

    def by_field(self, count: int) -> list[dict[str, tuple[str, ...]]]:
        """Return the matched words by field for each of the first tools. Each word is in its strongest field only."""
        found = []
        for bits_of_words in self._held[:count].tolist():
            own: dict[str, tuple[str, ...]] = {}
            for word, bits in zip(self._words, bits_of_words, strict=True):
                if bits:
                    field = _STRONGEST[bits]
                    own[field] = (*own.get(field, ()), word)
            found.append(own)
        return found

    def lacks(self, words: Collection[str]) -> list[list[str]]:
        """Return for each tool those of these words that it lacks, in the query's order."""
        rows = [row for row, word in enumerate(self._words) if word in words and word in self._place]
        rows.sort(key=lambda row: self._place[self._words[row]])
        wanted = [self._words[row] for row in rows]
        return [list(compress(wanted, lacks)) for lacks in (self._held.take(rows, axis=1) == 0).tolist()]


def explained(decision: Decision, past: Sequence[Near] = ()) -> dict[str, Any]:
    """Return the JSON contract of `toolroute explain -o json`: a Decision, the words, and the past tasks like it."""
    shown = decision.to_json(definitions=False)
    for match, entry in zip(decision.matches, shown["matches"], strict=True):
        entry["words"] = {field: list(found) for field, found in match.words.items()}
    tasks = [{"query": near.query, "used": [*near.used], "cosine": round(near.cosine, 4)} for near in past]
    return {**shown, **({"past_tasks": tasks} if tasks else {})}


def why(evidence: Mapping[str, float], words: Mapping[str, tuple[str, ...]], notes: Sequence[str] = ()) -> str:
    """Return one line for a person: the notes, the words by field, and the semantic similarity.

    Args:
        evidence: The probabilities by leg.
        words: The matched words by field.
        notes: The remarks.
    """
    parts = list(notes)
    for field, found in words.items():
        more = f" and {len(found) - _SHOWN_WORDS} more" if len(found) > _SHOWN_WORDS else ""
        parts.append(f"{field}: {', '.join(found[:_SHOWN_WORDS])}{more}")
    if (meaning := evidence.get("semantic")) is not None:
        parts.append(f"semantic search: probability {meaning:.2f}")
    return "; ".join(parts) or "no word in common with the task, and little similarity"


def rejected(
    state: State, overlap: Overlap, kept: Sequence[Match], dropped: Sequence[Match], room: str
) -> tuple[Rejected, ...]:
    """Return at most MAX_REJECTED other tools with reasons: too large, excluded, or beyond the limit.

    Args:
        state: The state.
        overlap: The matched words.
        kept: The matches.
        dropped: Matches that did not fit into `room`.
        room: The maximum number of tokens.
    """
    catalogue, limit = state.task.index.catalogue, len(kept)
    reasons = [
        Rejected(tool=match.tool.key, why=f"its definition is larger than the limit of {room}") for match in dropped
    ]
    reasons += [again for match in kept for again in _defined_again(state, match.tool.key)]
    for server in [server for server in state.explicit.unwanted if server not in state.explicit.wanted]:
        said = next(m.said for m in state.explicit.mentions if m.server == server)
        own = catalogue.of_server(server)
        reasons += [
            Rejected(tool=tool.key, why=f"the task excludes the server {said!r}") for tool in own[:MAX_REJECTED]
        ]
    shown = {match.tool.key for match in (*kept, *dropped)}
    last = set().union(*kept[-1].words.values()) if kept else set()
    first = "the only match" if limit == 1 else f"the {limit} matches"
    for position, lacks in zip(overlap.positions, overlap.lacks(last), strict=True):
        key = catalogue.tools[position].key
        if key not in shown:
            more = f"; without the words: {', '.join(lacks[:_SHOWN_WORDS])}" if lacks else ""
            reasons.append(
                Rejected(
                    tool=key,
                    why=f"probability {state.scores[position]:.2f}, ranked after {first}{more}",
                )
            )
    return tuple(reasons[:MAX_REJECTED])


def _defined_again(state: State, key: str) -> list[Rejected]:
    """Return the other definitions of a key, which further sources have."""
    first, *others = state.task.index.origins.get(key, ("",))
    why = "another definition of this key; the definition of {!r} is used, because that source comes first"
    return [Rejected(tool=key, why=f"source {other!r} has {why.format(first)}") for other in others]


LEAST_FOREIGN = 0.3
"""The least `Search.foreign` of a task whose language the static embedder hardly knows. 13 of 11,780 tasks of the
English sets reach it, 39 of 14,000 over catalogues of six tools (`python -m research.abroad --warnings`), and 232
of 340 tasks of our own in ten other languages."""
LATIN_ENDS, OTHER_SCRIPT = 0x250, 0.5
"""The first letter after the Latin letters, and the least share of such letters in a task in another script than the
tools. The tools have less than a tenth of the task's share."""
FOREIGN = (
    "the static embedder hardly knows the language of this task, and the tools have few of its words, so expect wrong "
    "matches; set a multilingual embedder (TOOLROUTE_EMBEDDER=openai:MODEL), or let a language model read the task "
    "(TOOLROUTE_UNDERSTAND=model)"
)


def _is_foreign(state: State, kept: Sequence[Match]) -> bool:
    """Return True if semantic search was needed for a language that the embedder and the tools hardly know."""
    if state.gate_open or state.candidates is None or state.task.options.embedder != "static":
        return False
    search, asked = state.candidates.search, _beyond_latin(state.task.understood.asked)
    if search.unfamiliar is None:
        return False
    said = _beyond_latin(" ".join(match.tool.description for match in kept))
    return search.foreign >= LEAST_FOREIGN or (asked >= OTHER_SCRIPT and said < asked / 10)


def _beyond_latin(text: str) -> float:
    letters = [letter >= chr(LATIN_ENDS) for letter in text if letter.isalpha()]
    return sum(letters) / max(len(letters), 1)


def warnings_of(
    state: State, stage: Stage, kept: Sequence[Match], room: str, best_of_clauses: Collection[str]
) -> list[str]:
    """Return warnings about unexpected readings of the query, and about fewer matches than requested.

    Args:
        state: The state.
        stage: The Decision's stage.
        kept: The matches.
        room: The maximum number of tokens.
        best_of_clauses: The best tool of each clause.
    """
    task = state.task
    said, index = task.understood, task.index
    warnings = [f'no tool has the word "{slip}": it was read as "{word}"' for slip, word in said.corrected.items()]
    warnings += [f'"{part}" was read as an exclusion and was not searched' for part in said.left_out]
    warnings += [FOREIGN] if _is_foreign(state, kept) else []
    warnings += [
        f"{match.tool.key} is flagged and shown without the flagged text: {'; '.join(index.flags[match.tool.key])}"
        for match in kept
        if match.tool.key in index.flags
    ]
    warnings += [
        f"the definition of {match.tool.key} mentions {', '.join(phrases)}: read it before you use the tool"
        for match in kept
        if match.tool.key not in index.flags and (phrases := _mentions(index, match.tool.key))
    ]
    wanted = task.request.route_hint
    if wanted.ordered_by and not state.lists.get(wanted.ordered_by):
        warnings.append(f"route_hint={wanted!s}: this pipeline has no results of that leg, so all legs were used")
    fits = {index.catalogue.tools[p].server for p in state.lifted} | {split_key(k)[0] for k in best_of_clauses}
    fits |= {match.tool.server for match in kept[:1] if stage is not Stage.NONE}
    warnings += [
        f"the task names the server {server!r}, but no tool of that server matches"
        for server in state.explicit.wanted
        if server not in fits
    ]
    for name in state.explicit.absent:
        is_known = name in index.servers.named
        why = "which is configured but not listed yet; run `toolroute tools sync`" if is_known else "which is unknown"
        near = "" if is_known else f"; similar names: {', '.join(get_close_matches(name, index.servers.named))}"
        warnings.append(f"the task names the server {name!r}, {why}{near}")
    for server in dict.fromkeys(state.explicit.unwanted):
        if server in state.explicit.wanted:
            warnings.append(f"the task both asks for and excludes the server {server!r}: its tools may match")
        else:
            warnings.append(f"the task excludes the server {server!r}: its tools do not match")
    return warnings + _why_little(state, stage, kept, room)


def _mentions(index: Index, key: str) -> tuple[str, ...]:
    """Return the phrases that a tool's texts mention. Cached, because this is slower than all other warnings."""
    return index.derived(("mentions", key), lambda: mentions(index.catalogue[key]))


def _why_little(state: State, stage: Stage, kept: Sequence[Match], room: str) -> list[str]:
    """Return the reason why there are no matches, or only matches with a low probability."""
    task = state.task
    if not len(task.index.catalogue):
        add = "add tools with `toolroute tools import` or `toolroute tools sync`, or give a file with tools"
        return [f"the catalogue of {task.request.tenant} is empty: {add}"]
    if state.allowed is not None and not state.allowed.any():
        only = task.request.only
        if only and not any(within(tool.key, only) for tool in task.index.catalogue):
            return ["no tool matches the patterns of `only`, or of the profile: correct the patterns"]
        said = ", ".join(f"{name}={value}" for name, value in task.request.filters.items())
        near = _labels_meant(task) or "`toolroute tools list` shows them all"
        if not said:
            return [f"no tool is left, because the task excludes all of them; {near}"]
        return [f"no tool matches the filters {said}; {near}"]
    if state.scores and not kept:
        remedy = "raise token_cap" if task.request.token_cap else "shorten the tools' schemas"
        return [f"every definition is larger than the limit of {room}: {remedy}"]
    if task.understood.asks_nothing:
        return ["the task only excludes tools; the matches are for information and have a low probability"]
    if stage is Stage.NONE:
        return ["no tool matches well; the matches are for information and have a low probability"]
    return []


def _labels_meant(task: Task) -> str:
    """Return a hint with labels that are similar to filters that no tool has, or ""."""
    known, filters = task.index.labelled, task.request.filters
    wrong = [(name, value) for name, value in filters.items() if (name, value) not in known]
    values = {wanted: [value for name, value in known if name == wanted][:_MOST_COMPARED] for wanted, _ in wrong}
    near = [f"{name}={found}" for name, value in wrong for found in get_close_matches(value, values[name], n=2)]
    names = {name for name, _ in known}
    near += [f"{found}={value}" for name, value in wrong for found in get_close_matches(name, names - {name}, n=1)]
    return f"did you mean {' or '.join(near)}?" if near else ""
