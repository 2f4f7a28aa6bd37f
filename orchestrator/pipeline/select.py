"""Select: makes a Decision from a ranked state, with its stage, its matches within a cap, and the recommended tools."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from orchestrator.common.keys import split_key
from orchestrator.experience.calls import Calls
from orchestrator.index.calibration import log_odds, supported
from orchestrator.index.graph import are_alike, bare
from orchestrator.pipeline.conversation import in_order, keep_earlier, offered_before, used_lately
from orchestrator.pipeline.explain import MAX_REJECTED, rejected, warnings_of
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.matches import Overlap, fit_matches, matches_of
from orchestrator.pipeline.state import State
from orchestrator.records.decision import Decision, NamedServer
from orchestrator.records.tool import Match, Stage, Tool

SURE_OF_CLAUSE = 0.5
"""The minimum probability with which a clause of the task recommends its tool."""
MANY = {"stars": 10_000, "downloads": 1_000_000}
"""The numbers of stars and of downloads that count as 1. Smaller numbers count by their logarithm."""
FRESH_DAYS = 730
"""The age in days at which a release counts 0. A release of today counts 1."""
WITHIN = 0.8
"""The minimum share of the best tool's probability for a second tool to be recommended with it."""
_LEAST = 1e-6
"""How far from 0 and 1 probabilities are kept, where their odds fall to those of the confidence."""
_AGES = {"stable": 0, "emerging": 1, "": 2, "deprecated": 3}
"""The order of maturities, for a task without any match."""


def select(state: State) -> Decision:
    """Return the Decision for a ranked state. The caller fills in `timings_ms`."""
    task = state.task
    index = task.index
    request = task.request
    if task.understood.asks_nothing:
        state = replace(state, confidence=0.0)
    stage = _stage(state)
    leaders = _leaders(state)
    if stage is Stage.NONE and not any(state.scores.values()):
        state = _most_popular(state)
    overlap = Overlap.of(state, request.limit + MAX_REJECTED)
    found, positions, offered = _within_conversation(
        state, overlap, nothing_matches=stage is Stage.NONE
    )
    fitted = fit_matches(index, found, positions, cap=request.token_cap)
    matches = tuple(fitted.kept)
    positions = positions[: len(matches)]
    if fitted.dropped and not matches:
        stage = Stage.NONE
    if stage is Stage.NONE:
        matches = tuple(replace(match, why=f"low probability: {match.why}") for match in matches)
    # Recommended only from the matches that fit: a tool whose definition was dropped cannot be called.
    recommended, twins = _recommended(state, stage, matches, positions, leaders)
    confidence = state.confidence if matches else 0.0
    matches, state = _limit_probabilities(matches, state)
    related, graph = index.graph.excerpt(*recommended, more=used_together(task.experience, index))
    keys = tuple(index.keys[position] for position in positions)
    warnings = (
        *state.warnings,
        *fitted.warnings,
        *_twin_warnings(recommended, twins),
        *warnings_of(state, stage, positions, fitted.room, leaders),
    )
    return Decision(
        query=request.query,
        tenant=request.tenant,
        stage=stage,
        confidence=confidence,
        gate_confidence=state.gate_confidence,
        semantic_ran=state.semantic_ran,
        matches=matches,
        recommended=recommended,
        servers=_servers_to_connect(state, recommended),
        tokens=fitted.tokens,
        catalogue=index.catalogue.version,
        rejected=rejected(state, overlap, positions, matches, fitted),
        warnings=warnings,
        offered=in_order(keys, offered) if offered else keys,
        parts=_parts(state),
        named_servers=_named_servers(state),
        related=related,
        graph=graph,
        leans=task.leans,
        about=state.about,
        needs=tuple(need.text for need in task.understood.needs),
        usage=state.usage,
    )


def _limit_probabilities(matches: Sequence[Match], state: State) -> tuple[tuple[Match, ...], State]:
    """Return the matches and the state. If the first match is more probable than the confidence, others lose with it.

    The confidence is the probability that the first match is right, and is fitted to more than the tool's own
    probability. The odds of all tools fall by the factor by which those of the first match fall to the confidence. In a
    task of several parts, the tools of the other parts only get the confidence at most (docs/decisions/confidence.md).
    """
    if not matches or matches[0].probability <= state.confidence:
        return tuple(matches), state
    before = np.array([*(match.probability for match in matches), *state.scores.values()])
    if state.task.understood.several_clauses:
        limited = np.minimum(before, state.confidence).tolist()
    else:
        fall = log_odds(state.confidence, _LEAST) - log_odds(matches[0].probability, _LEAST)
        limited = supported(np.minimum(before, 1 - _LEAST), math.exp(fall)).tolist()
    fallen = tuple(
        replace(match, probability=probability)
        for match, probability in zip(matches, limited[: len(matches)], strict=True)
    )
    scores = dict(zip(state.scores, limited[len(matches) :], strict=True))
    return fallen, replace(state, scores=scores)


def _named_servers(state: State) -> tuple[NamedServer, ...]:
    """Return the servers that the task names."""
    explicit = state.explicit
    return explicit.named if explicit.mentions or explicit.absent else ()


def _parts(state: State) -> tuple[str, ...]:
    """Return the texts of the clauses that were searched one by one."""
    if state.candidates is None or not state.candidates.clauses:
        return ()
    return tuple(clause.text for clause in state.task.understood.several_clauses)


def _servers_to_connect(state: State, recommended: Sequence[str]) -> tuple[str, ...]:
    """Return the MCP servers of the recommended tools."""
    index = state.task.index
    tools = [index.tools[index.catalogue.positions[key]] for key in recommended]
    return tuple(
        dict.fromkeys(tool.server for tool in tools if tool.kind.is_served and tool.server)
    )


def _within_conversation(
    state: State, overlap: Overlap, *, nothing_matches: bool
) -> tuple[list[Match], list[int], tuple[str, ...]]:
    """Return the first `limit` matches, earlier turns' among them, their positions, and the keys of the last offer."""
    turns = state.task.request.conversation
    limit = state.task.request.limit
    if not turns:
        matches = matches_of(state, overlap, limit)
        return matches, list(overlap.positions[:limit]), ()
    candidates = matches_of(state, overlap, len(overlap.positions))
    kept = keep_earlier(
        candidates,
        _earlier(state),
        turns,
        limit,
        leans=state.task.leans,
        nothing_matches=nothing_matches,
    )
    matches = kept.matches[:limit]
    positions = [state.task.index.catalogue.positions[match.tool.key] for match in matches]
    return matches, positions, offered_before(turns) if kept.same_topic else ()


def nothing_matches(state: State) -> bool:
    """Return True if no tool is good enough.

    If a task names a server, that server's tools are given even with a low confidence.
    """
    if state.task.understood.asks_nothing:
        return True
    return state.confidence < state.task.options.floor and not state.lifted


def _stage(state: State) -> Stage:
    if state.settled and state.always:
        return Stage.ALWAYS
    first = state.first
    if first is None or nothing_matches(state):
        return Stage.NONE
    if state.evidence.get(first, {}).get("always") and state.scores[first] == 1.0:
        return Stage.ALWAYS
    if first in state.lifted:
        return Stage.EXPLICIT
    return Stage.SEMANTIC if state.semantic_ran else Stage.KEYWORD


def _leaders(state: State) -> list[int]:
    """Return the best tools of named servers and of clauses, the highest probability first."""
    if state.candidates is None:
        return list(state.scores)
    leaders = first_of_servers(state)
    chances: dict[int, float] = {}
    for clause in state.candidates.clauses:
        if not len(clause.positions):
            continue
        best = int(np.argmax(clause.chances))
        position = int(clause.positions[best])
        confidence = float(supported(np.array(clause.confidence), clause.support[best]))
        chances[position] = max(confidence, chances.get(position, 0.0))
    likely = [position for position, chance in chances.items() if chance >= SURE_OF_CLAUSE]
    likely.sort(key=lambda position: -chances[position])
    return [*(leaders if len(leaders) > 1 else ()), *likely]


def first_of_servers(state: State) -> list[int]:
    """Return the first tool of each named server among the lifted tools."""
    tools = state.task.index.tools
    first: dict[str, int] = {}
    for position in state.lifted:
        first.setdefault(tools[position].server, position)
    return list(first.values())


def _earlier(state: State) -> list[Match]:
    """Return the tools that earlier turns used or offered and that are still allowed, as matches."""
    turns = state.task.request.conversation
    index = state.task.index
    matches = []
    for key in dict.fromkeys((*used_lately(turns), *offered_before(turns))):
        position = index.catalogue.positions.get(key)
        if position is not None and state.allows(position):
            score = state.scores.get(position, 0.0)
            matches.append(
                Match(
                    tool=index.tools[position],
                    probability=score,
                    why="no word in common with the task",
                )
            )
    return matches


def _most_popular(state: State) -> State:
    """Return, where nothing matched at all, the tools most used and best kept, with no claim."""
    allowed = [
        position for position in by_popularity(state.task.index.tools) if state.allows(position)
    ]
    scores = dict.fromkeys(allowed[: state.task.request.limit], 0.0)
    return replace(state, scores=scores, evidence={}, notes={}, gives={}, lifted=(), confidence=0.0)


def repeated(tools: Sequence[Tool], window: Sequence[int]) -> set[int]:
    """Return the positions that have a near-duplicate of an earlier tool from another server.

    Args:
        tools: All tools.
        window: The positions to compare, in order.
    """
    same_name: dict[str, list[int]] = {}
    for position in window:
        same_name.setdefault(bare(tools[position].name), []).append(position)
    duplicates = set()
    for positions in same_name.values():
        for place, position in enumerate(positions):
            if any(are_alike(tools[earlier], tools[position]) for earlier in positions[:place]):
                duplicates.add(position)
    return duplicates


def _recommended(
    state: State,
    stage: Stage,
    matches: Sequence[Match],
    positions: Sequence[int],
    leaders: Sequence[int],
) -> tuple[tuple[str, ...], list[str]]:
    """Return the keys of the recommended tools, and those of the first tool's twins among the matches."""
    index = state.task.index
    if stage is Stage.NONE:
        return (), []
    pairs = zip(matches, positions, strict=True)
    unflagged = [match for match, position in pairs if position not in index.flag_reasons]
    keys = recommend(unflagged, [index.keys[position] for position in leaders], state.task.calls)
    if not keys or state.explicit.wanted:
        return keys, []
    twins = index.graph.twins(index.catalogue.positions[keys[0]])
    shown_twins = [
        position
        for position in positions
        if position in twins and position not in index.flag_reasons
    ]
    twin_keys = [index.keys[position] for position in shown_twins]
    return tuple(dict.fromkeys((*keys, *twin_keys)))[:2], twin_keys


def recommend(
    matches: Sequence[Match],
    leaders: Sequence[str] = (),
    calls: Callable[[Tool], Calls] = lambda _: Calls(),
) -> tuple[str, ...]:
    """Return the keys of the one or two recommended tools.

    Two are recommended if the best two are within 20 % and one is stable and one emerging, or if the task has several
    clauses or names several servers, and another clause or server has a best tool of its own. If no label gives the
    maturity, the calls decide.

    Args:
        matches: The matches, best first.
        leaders: The best tool of each clause and named server.
        calls: Returns a tool's past calls.
    """
    if not matches:
        return ()
    best, *others = matches
    if others and others[0].probability >= WITHIN * best.probability:
        ages = {
            match.tool.labels.get("maturity") or calls(match.tool).maturity for match in matches[:2]
        }
        if ages == {"stable", "emerging"}:
            return best.tool.key, others[0].tool.key
    if not leaders:
        return (best.tool.key,)
    other_keys = {match.tool.key for match in others}
    second = [key for key in leaders if key in other_keys]
    return (best.tool.key, *second[:1])


def _twin_warnings(recommended: Sequence[str], twins: Sequence[str]) -> list[str]:
    """Return a warning about the first twin of the first recommended tool."""
    if not twins:
        return []
    first, twin = recommended[0], twins[0]
    servers = f"{split_key(first)[0]!r} or {split_key(twin)[0]!r}"
    return [
        f"{first} and {twin} have the same name and similar texts: name the server that you mean, {servers}"
    ]


def by_popularity(tools: Sequence[Tool]) -> list[int]:
    """Return the positions by usage, maintenance and age, for a task without any match."""

    def popularity(position: int) -> tuple[float, float, int]:
        labels = tools[position].labels
        age = _AGES.get(labels.get("maturity", ""), _AGES[""])
        return -_number(labels.get("usage", "0")), -maintenance(tools[position]), age

    return sorted(range(len(tools)), key=popularity)


def maintenance(tool: Tool) -> float:
    """Return a tool's maintenance from 0 to 1, by its labels `stars`, `downloads` and `last_release` (an ISO date)."""
    labels = tool.labels
    shares = []
    for name, many in MANY.items():
        if name in labels:
            count = max(_number(labels[name]), 0.0)
            shares.append(min(1.0, math.log1p(count) / math.log1p(many)))
    if "last_release" in labels:
        shares.append(_freshness(labels["last_release"]))
    return sum(shares) / len(shares) if shares else 0.0


def _freshness(text: str) -> float:
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    if day.tzinfo is None:
        day = day.replace(tzinfo=UTC)
    age = datetime.now(UTC) - day
    return max(0.0, min(1.0, 1 - age.days / FRESH_DAYS))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
