"""Select: makes a Decision from a ranked state, with its stage, its matches within a cap, and its recommended and
rejected tools.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.export import export
from orchestrator.catalogue.shrink import LADDER
from orchestrator.catalogue.tokens import ESTIMATE, EXACT, compact, counter_named, plain_size
from orchestrator.common.keys import split_key
from orchestrator.experience.calls import Calls
from orchestrator.index.calibration import supported
from orchestrator.index.graph import are_alike, bare
from orchestrator.index.index import Index, extra_size
from orchestrator.pipeline.conversation import in_order, keep_earlier, offered_before, used_lately
from orchestrator.pipeline.explain import MAX_REJECTED, Overlap, rejected, warnings_of, why
from orchestrator.pipeline.legs.always import always_for
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.state import State
from orchestrator.records.decision import Decision
from orchestrator.records.tool import Kind, Match, Stage, Tokens, Tool

SURE_OF_CLAUSE = 0.5
"""The minimum probability with which a clause of the task recommends its own tool."""
MANY = {"stars": 10_000, "downloads": 1_000_000}
"""The numbers of stars and of downloads that count as 1. Smaller numbers count by their logarithm."""
FRESH_DAYS = 730
"""The age in days at which a release counts 0. A release of today counts 1."""
DEPRECATED = 0.8
"""The factor on the probability of a tool that is labelled deprecated."""
WITHIN = 0.8
"""The minimum share of the best tool's probability for a second tool to be recommended with it."""


def select(state: State) -> Decision:
    """Return the Decision for a ranked state. The caller fills in `timings_ms`."""
    task = state.task
    if task.understood.asks_nothing:
        state = replace(state, confidence=0.0)
    stage, best_of = _stage(state), _best_of_clauses(state)
    if stage is Stage.NONE and not any(state.scores.values()):
        state = _most_popular(state)
    overlap = _overlap(state, state.order[: task.request.limit + MAX_REJECTED])
    kept, offered = _within_conversation(state, overlap, nothing_fits=stage is Stage.NONE)
    fitted = fit_matches(task.index, kept, cap=task.request.token_cap, exact=task.options.exact_tokens)
    matches = fitted.kept
    if stage is Stage.NONE or (fitted.dropped and not matches):
        stage = Stage.NONE
        matches = tuple(replace(match, why=f"low probability: {match.why}") for match in matches)
    unflagged = [match for match in matches if match.tool.key not in task.index.flags]
    recommended = () if stage is Stage.NONE else recommend(unflagged, best_of, task.calls)
    twins = _twins(state, unflagged, recommended)
    recommended = tuple(dict.fromkeys((*recommended, *twins)))[:2]
    related, graph = task.index.graph.excerpt(
        *recommended, more=lambda tool: used_together(task.experience, task.index, tool)
    )
    tools = {match.tool.key: match.tool for match in matches}
    connect = [tools[key].server for key in recommended if tools[key].kind is Kind.MCP]
    said = task.understood.said if state.candidates and state.candidates.clauses else ()
    return Decision(
        query=task.request.query,
        tenant=task.request.tenant,
        stage=stage,
        confidence=state.confidence if matches else 0.0,
        gate_confidence=state.gate_confidence,
        semantic_ran=state.semantic_ran,
        matches=matches,
        recommended=recommended,
        servers=tuple(dict.fromkeys(filter(None, connect))),
        tokens=fitted.tokens,
        catalogue=task.index.catalogue.version,
        rejected=rejected(state, overlap, matches, fitted.dropped, fitted.room),
        warnings=(
            *state.warnings,
            *fitted.warnings,
            *(_twins_named(recommended[0], twin) for twin in twins[:1]),
            *warnings_of(state, stage, matches, fitted.room, frozenset(best_of)),
        ),
        offered=in_order(tuple(tools), offered),
        parts=tuple(clause.text for clause in said),
        named_servers=state.explicit.named,
        related=related,
        graph=graph,
        leans=task.leans,
        about=state.about,
        needs=tuple(need.text for need in task.understood.needs),
        usage=state.usage,
    )


def _within_conversation(state: State, overlap: Overlap, *, nothing_fits: bool) -> tuple[list[Match], tuple[str, ...]]:
    """Return the first `limit` matches, earlier turns' among them, and the keys that these turns were offered."""
    turns, limit = state.task.request.conversation, state.task.request.limit
    if not turns:
        return _matches(state, overlap, limit), ()
    own = _matches(state, overlap, len(overlap.positions))
    kept = keep_earlier(own, _earlier(state), turns, limit, leans=state.task.leans, nothing_fits=nothing_fits)
    return kept.matches[:limit], offered_before(turns) if kept.same_topic else ()


def nothing_fits(state: State) -> bool:
    """Return True if no tool is good enough.

    If a task names a server, that server's tools are given even with a low confidence.
    """
    return state.task.understood.asks_nothing or (state.confidence < state.task.options.floor and not state.lifted)


def _stage(state: State) -> Stage:
    if state.settled and state.always:
        return Stage.ALWAYS
    if not state.scores or nothing_fits(state):
        return Stage.NONE
    first = state.order[0]
    if state.evidence.get(first, {}).get("always") and state.scores[first] == 1.0:
        return Stage.ALWAYS
    if first in state.lifted:
        return Stage.EXPLICIT
    return Stage.SEMANTIC if state.semantic_ran else Stage.KEYWORD


def _overlap(state: State, positions: Sequence[int]) -> Overlap:
    understood, candidates = state.task.understood, state.candidates
    postings = state.task.index.keyword.postings
    columns = candidates.search.words.columns if candidates else postings.columns(understood.terms)
    return Overlap(columns, understood, positions)


def _matches(state: State, overlap: Overlap, count: int) -> list[Match]:
    """Return the first `count` matches, in order."""
    tools, origins, shown = state.task.index.catalogue.tools, state.task.index.origins, overlap.positions[:count]
    for_clauses = _for_clauses(state, shown)
    found = []
    for position, words in zip(shown, overlap.by_field(len(shown)), strict=True):
        evidence, gives = state.evidence.get(position, {}), state.gives.get(position)
        notes = (*state.notes.get(position, ()), *([str(gives)] if gives else []))
        found.append(
            Match(
                tool=tools[position],
                score=state.scores[position],
                evidence=dict(evidence),
                why=why(evidence, words, notes),
                words=words,
                gives=gives,
                for_parts=for_clauses.get(position, ()),
                source=next(iter(origins.get(tools[position].key, ())), ""),
            )
        )
    return found


def _for_clauses(state: State, positions: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Return each tool's probability for each clause alone, at least the probability of a requested capability."""
    if state.candidates is None or not state.candidates.clauses:
        return {}
    said = state.task.understood.said
    kept = kept_of(state.task.index.catalogue.tools, positions)
    chances = (state.candidates.of_clauses(np.array(positions, np.int64)) * kept).round(4)[: len(said)]
    place = {position: number for number, position in enumerate(positions)}
    for own, clause in zip(chances, said, strict=True):
        for position, least in always_for(state, clause.text).items():
            if position in place:
                own[place[position]] = max(least, own[place[position]])
    return dict(zip(positions, map(tuple, chances.T.tolist()), strict=True))


def _best_of_clauses(state: State) -> tuple[str, ...]:
    """Return the keys of the best tools of named servers and of clauses, the highest probability first."""
    tools = state.task.index.catalogue.tools
    if state.candidates is None:
        return tuple(tools[position].key for position in state.order)
    leading = {tools[position].server: position for position in reversed(state.lifted)}
    first = [position for position in state.lifted if position in leading.values()]
    sure: dict[int, float] = {}
    for clause in state.candidates.clauses:
        if len(clause.positions):
            best = int(np.argmax(clause.chances))
            tool, own = int(clause.positions[best]), float(supported(np.array(clause.confidence), clause.support[best]))
            sure[tool] = max(own, sure.get(tool, 0.0))
    surest = sorted((place for place, own in sure.items() if own >= SURE_OF_CLAUSE), key=lambda place: -sure[place])
    return tuple(tools[position].key for position in (*(first if len(first) > 1 else ()), *surest))


def _earlier(state: State) -> list[Match]:
    """Return the tools that earlier turns used or offered and that are still allowed, as matches."""
    turns, catalogue = state.task.request.conversation, state.task.index.catalogue
    keys = dict.fromkeys((*used_lately(turns), *offered_before(turns)))
    places = [catalogue.positions[key] for key in keys if key in catalogue.positions]
    return [
        Match(tool=catalogue.tools[place], score=state.scores.get(place, 0.0), why="no word in common with the task")
        for place in places
        if state.allows(place)
    ]


def _most_popular(state: State) -> State:
    """Return, where nothing matched at all, the tools most used and best kept, with no claim."""
    positions = [place for place in by_popularity(state.task.index.catalogue.tools) if state.allows(place)]
    scores = dict.fromkeys(positions[: state.task.request.limit], 0.0)
    return replace(state, scores=scores, evidence={}, notes={}, gives={}, lifted=(), confidence=0.0)


def repeated(tools: Sequence[Tool], window: Sequence[int]) -> set[int]:
    """Return the positions that have a near-duplicate of an earlier tool from another server."""
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
    matches: Sequence[Match], best_of_clauses: Sequence[str] = (), calls: Callable[[Tool], Calls] = lambda _: Calls()
) -> tuple[str, ...]:
    """Return the keys of the one or two recommended tools.

    Two are recommended if the best two are within 20 % and one is stable and one emerging, or if the task has several
    clauses or names several servers, and another clause or server has its own best tool. If no label gives the
    maturity, the calls decide.

    Args:
        matches: The matches, best first.
        best_of_clauses: The best tool of each clause.
        calls: Returns a tool's past calls.
    """
    if not matches:
        return ()
    best = matches[0]
    if len(matches) > 1 and matches[1].score >= WITHIN * best.score:
        ages = {match.tool.labels.get("maturity") or calls(match.tool).maturity for match in matches[:2]}
        if ages == {"stable", "emerging"}:
            return best.tool.key, matches[1].tool.key
    others = {match.tool.key for match in matches[1:]} if best_of_clauses else ()
    other = next((key for key in best_of_clauses if key in others), None)
    return (best.tool.key, other) if other else (best.tool.key,)


def _twins(state: State, matches: Sequence[Match], recommended: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the matches that are twins of the first recommended tool. None if the task names a server."""
    if not recommended or state.explicit.wanted:
        return ()
    positions, twins = state.task.index.catalogue.positions, state.task.index.graph.twins
    found = twins(positions[recommended[0]])
    return tuple(match.tool.key for match in matches if positions[match.tool.key] in found)


def _twins_named(first: str, twin: str) -> str:
    (one, _), (other, _) = split_key(first), split_key(twin)
    return (
        f"{first} and {twin} have the same name and similar texts: name the server that you mean, {one!r} or {other!r}"
    )


def kept_of(tools: Sequence[Tool], positions: Iterable[int]) -> NDArray[np.float64]:
    """Return the share of its probability that each tool keeps [positions]. Deprecated tools lose some."""
    old = [tools[position].labels.get("maturity") == "deprecated" for position in positions]
    return np.where(old, DEPRECATED, 1.0)


def by_popularity(tools: Sequence[Tool]) -> list[int]:
    """Return the positions by usage, maintenance and age, for a task without any match."""
    ages = {"stable": 0, "emerging": 1, "deprecated": 3}

    def popularity(position: int) -> tuple[float, float, int]:
        labels = tools[position].labels
        return (
            -_number(labels.get("usage", "0")),
            -maintenance(tools[position]),
            ages.get(labels.get("maturity", ""), 2),
        )

    return sorted(range(len(tools)), key=popularity)


def maintenance(tool: Tool) -> float:
    """Return a tool's maintenance from 0 to 1, by its labels `stars`, `downloads` and `last_release` (an ISO date)."""
    labels = tool.labels
    known = [
        min(1.0, math.log1p(max(_number(labels[name]), 0.0)) / math.log1p(many))
        for name, many in MANY.items()
        if name in labels
    ]
    if "last_release" in labels:
        known.append(_freshness(labels["last_release"]))
    return sum(known) / len(known) if known else 0.0


def _freshness(text: str) -> float:
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    age = datetime.now(UTC) - (day if day.tzinfo else day.replace(tzinfo=UTC))
    return max(0.0, min(1.0, 1 - age.days / FRESH_DAYS))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def fit(matches: Sequence[Match], cap: int, tokens_of: Callable[[Tool], int]) -> tuple[list[Match], list[Match]]:
    """Return the matches within a cap of tokens, and the dropped ones.

    All schemas shrink together, step by step. Below the smallest form the last matches are dropped, because a tool
    without a schema cannot be called. The best match is kept as long as it fits.

    Args:
        matches: The matches, best first.
        cap: The maximum number of tokens.
        tokens_of: Returns a match's tokens.
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
"""The maximum size of a Decision without its query and parts. It is part of workflow histories, with each of its
plans."""
MATCH_BYTES, OTHER_BYTES = 800, 8 * 1024
"""The part of MAX_BYTES for a match's evidence, and the part for everything except the matches (measured: 390 and
5,000)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The matches within cap and size. `room` names the limit that they were last held to, `dropped` did not fit."""

    kept: tuple[Match, ...]
    dropped: tuple[Match, ...]
    room: str
    tokens: Tokens
    warnings: tuple[str, ...] = ()


def fit_matches(index: Index, matches: Sequence[Match], *, cap: int | None, exact: bool) -> Fitted:
    """Return the matches within a cap of tokens and the byte limit of a Decision, with shortened schemas if necessary.

    Args:
        index: The tenant's index.
        matches: The matches, best first.
        cap: The maximum number of tokens, or None.
        exact: Count tokens exactly.
    """
    counter = counter_named(EXACT if exact else ESTIMATE)

    def cost(tool: Tool) -> int:
        """Return the tokens of a definition. The estimate for an unshortened one is known."""
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
        warnings = (f"the matches' definitions are shortened to {room}: lower `limit` to keep more of each",)
        kept, further = fit(kept, most, _size)
        dropped = [*further, *dropped]
    before = sum(map(cost, index.catalogue)) if exact else index.sizes.tokens_total
    tokens = Tokens(
        before=before, after=sum(cost(match.tool) for match in kept), counted_by=EXACT if exact else ESTIMATE
    )
    return Fitted(kept=tuple(kept), dropped=tuple(dropped), room=room, tokens=tokens, warnings=warnings)


def definition_tokens(tool: Tool) -> int:
    """Return the estimated tokens of a definition in its present form."""
    return counter_named(ESTIMATE)(_definition(tool))


def _size(tool: Tool) -> int:
    return plain_size(_definition(tool)) + extra_size(tool)


def _definition(tool: Tool) -> str:
    return compact(export([tool], "openai")[0])
