"""Select: makes a Decision from a ranked state, with its stage, its matches within a cap, and the recommended tools."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.common.keys import split_key
from orchestrator.experience.calls import Calls
from orchestrator.index.calibration import Probabilities, log_odds, supported
from orchestrator.index.relations.near_duplicates import are_alike, bare
from orchestrator.pipeline.conversation import in_order, keep_earlier, offered_before, used_lately
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.selection.explain import MAX_REJECTED, rejected, warnings_of
from orchestrator.pipeline.selection.limits import Fitted, fit_matches
from orchestrator.pipeline.selection.matches import Overlap, matches_of
from orchestrator.pipeline.selection.popularity import by_popularity
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.decision import Decision, NamedServer
from orchestrator.records.tool import Match, Stage, Tool

SURE_OF_CLAUSE = 0.5
"""The minimum probability with which a clause of the task recommends its tool."""
WITHIN = 0.8
"""The minimum share of the best tool's probability for a second tool to be recommended with it."""
_LEAST = 1e-6
"""How far from 0 and 1 probabilities are kept, where their odds fall to those of the confidence."""


def select(state: State) -> Decision:
    """Return the Decision for a ranked state. The caller fills in `timings_ms`."""
    task = state.task
    index = task.index
    if task.understood.asks_nothing:
        state = replace(state, confidence=0.0)
    stage = _stage(state)
    leaders = _leaders(state)
    if stage is Stage.NONE and not any(state.scores.values()):
        state = _most_popular(state)
    overlap = Overlap.of(state, task.request.limit + MAX_REJECTED)
    fitted = _fitted_matches(state, overlap, stage)
    recommended, twins = _recommended(state, fitted, leaders)
    matches, state = _limit_probabilities(fitted.matches, state)
    related, graph = index.graph.excerpt(*recommended, more=used_together(task.experience, index))
    offered_keys = [index.keys[position] for position in fitted.positions]
    return Decision(
        query=task.request.query,
        tenant=task.request.tenant,
        stage=fitted.stage,
        confidence=state.confidence if matches else 0.0,
        gate_confidence=state.gate_confidence,
        semantic_ran=state.semantic_ran,
        matches=matches,
        recommended=recommended,
        servers=_servers_to_connect(state, recommended),
        tokens=fitted.limits.tokens,
        catalogue=index.catalogue.version,
        rejected=rejected(state, overlap, fitted.positions, matches, fitted.limits),
        warnings=(
            *state.warnings,
            *fitted.limits.warnings,
            *_twin_warnings(recommended, twins),
            *warnings_of(state, fitted.stage, fitted.positions, fitted.limits.room, leaders),
        ),
        offered=in_order(offered_keys, fitted.continued),
        parts=_parts(state),
        named_servers=_named_servers(state),
        related=related,
        graph=graph,
        leans=task.leans,
        about=state.about,
        needs=tuple(need.text for need in task.understood.needs),
        usage=state.usage,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FittedMatches:
    """The matches of a Decision.

    Attributes:
        stage: The stage that settled the Decision.
        matches: The matches that fit.
        positions: Their positions.
        limits: The limits that they were held to, and the matches that did not fit.
        continued: The keys of the earlier offer that a turn continues with.
    """

    stage: Stage
    matches: tuple[Match, ...]
    positions: Sequence[int]
    limits: Fitted
    continued: tuple[str, ...]


def _fitted_matches(state: State, overlap: Overlap, stage: Stage) -> _FittedMatches:
    """Return the first matches that fit. Tools of earlier turns are among them."""
    matches, positions, continued = _within_conversation(
        state, overlap, nothing_matches=stage is Stage.NONE
    )
    fitted = fit_matches(state.task.index, matches, positions, cap=state.task.request.token_cap)
    # Recommended only from the matches that fit: a tool whose definition was dropped cannot be called.
    if fitted.dropped and not fitted.kept:
        stage = Stage.NONE
    matches_kept = fitted.kept
    if stage is Stage.NONE:
        matches_kept = [
            replace(match, why=f"low probability: {match.why}") for match in matches_kept
        ]
    return _FittedMatches(
        stage=stage,
        matches=tuple(matches_kept),
        positions=positions[: len(matches_kept)],
        limits=fitted,
        continued=continued,
    )


def _limit_probabilities(matches: Sequence[Match], state: State) -> tuple[tuple[Match, ...], State]:
    """Return the matches and the state. If the first match is more probable than the confidence, others lose with it.

    The confidence is the probability that the first match is right, and is fitted to more than the tool's own
    probability. The odds of all tools fall by the factor by which those of the first match fall to the confidence. In a
    task of several parts, the tools of the other parts only get the confidence at most (docs/decisions/confidence.md).
    """
    if not matches or matches[0].probability <= state.confidence:
        return tuple(matches), state
    first = matches[0].probability
    chances = np.array([match.probability for match in matches])
    limited_chances = _limited(chances, first, state).tolist()
    limited_matches = [
        replace(match, probability=chance)
        for match, chance in zip(matches, limited_chances, strict=True)
    ]
    scores = np.array([*state.scores.values()])
    limited_scores = _limited(scores, first, state).tolist()
    state = replace(state, scores=dict(zip(state.scores, limited_scores, strict=True)))
    return tuple(limited_matches), state


def _limited(chances: Probabilities, first: float, state: State) -> Probabilities:
    """Return the probabilities as they fall with the first match's probability to the confidence."""
    if state.task.understood.several_clauses:
        return np.minimum(chances, state.confidence)
    fall = log_odds(state.confidence, _LEAST) - log_odds(first, _LEAST)
    return supported(np.minimum(chances, 1 - _LEAST), math.exp(fall))


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
) -> tuple[list[Match], Sequence[int], tuple[str, ...]]:
    """Return the first `limit` matches, earlier turns' among them, their positions, and the offer that stays."""
    turns = state.task.request.conversation
    limit = state.task.request.limit
    if not turns:
        return matches_of(state, overlap, limit), overlap.positions[:limit], ()
    with_earlier = keep_earlier(
        matches_of(state, overlap, len(overlap.positions)),
        _earlier(state),
        turns,
        limit,
        leans=state.task.leans,
        nothing_matches=nothing_matches,
    )
    matches = with_earlier.matches[:limit]
    positions = [state.task.index.catalogue.positions[match.tool.key] for match in matches]
    return matches, positions, offered_before(turns) if with_earlier.same_topic else ()


def _stage(state: State) -> Stage:
    if state.settled and state.always:
        return Stage.ALWAYS
    first = state.first
    # If a task names a server, that server's tools are given even with a low confidence.
    is_doubtful = state.confidence < state.task.options.floor and not state.lifted
    if first is None or is_doubtful or state.task.understood.asks_nothing:
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
    # The best tool of a single named server is the first match already.
    if len(leaders) < 2:
        leaders = []
    chances: dict[int, float] = {}
    for clause in state.candidates.clauses:
        if len(clause.positions):
            best = int(np.argmax(clause.chances))
            position = int(clause.positions[best])
            chance = float(supported(np.array(clause.confidence), clause.support[best]))
            chances[position] = max(chance, chances.get(position, 0.0))
    likely = {position: chance for position, chance in chances.items() if chance >= SURE_OF_CLAUSE}
    return [*leaders, *best_first(likely)]


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
            match = Match(
                tool=index.tools[position],
                probability=state.scores.get(position, 0.0),
                why="no word in common with the task",
            )
            matches.append(match)
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
    state: State, fitted_matches: _FittedMatches, leaders: Sequence[int]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the keys of the recommended tools, and those of the first tool's twins among the matches."""
    index = state.task.index
    if fitted_matches.stage is Stage.NONE:
        return (), []
    unflagged = {
        position: match
        for position, match in zip(fitted_matches.positions, fitted_matches.matches, strict=True)
        if position not in index.flag_reasons
    }
    leading_keys = [index.keys[position] for position in leaders]
    keys = recommend(list(unflagged.values()), leading_keys, state.task.calls)
    if not keys or state.explicit.wanted:
        return keys, []
    twins = index.graph.twins(index.catalogue.positions[keys[0]])
    twin_keys = [index.keys[position] for position in unflagged if position in twins]
    return tuple(dict.fromkeys((*keys, *twin_keys)))[:2], twin_keys


def recommend(
    matches: Sequence[Match],
    leaders: Sequence[str] = (),
    calls: Callable[[Tool], Calls] = lambda _: Calls(),
) -> tuple[str, ...]:
    """Return the keys of the one or two recommended tools.

    Two are recommended if the best two are within 20 %, and one is stable and the other emerging. Two are also
    recommended if the task has several clauses or names several servers, and another clause or server has another best
    tool. If no label gives the maturity, the calls decide.

    Args:
        matches: The matches, best first.
        leaders: The best tool of each clause and named server.
        calls: Returns a tool's past calls.
    """
    if not matches:
        return ()
    best, *alternatives = matches
    if alternatives and alternatives[0].probability >= WITHIN * best.probability:
        ages = {_maturity(match.tool, calls) for match in matches[:2]}
        if ages == {"stable", "emerging"}:
            return best.tool.key, alternatives[0].tool.key
    other_keys = {match.tool.key for match in alternatives}
    second = [key for key in leaders if key in other_keys]
    return (best.tool.key, *second[:1])


def _maturity(tool: Tool, calls: Callable[[Tool], Calls]) -> str:
    return tool.labels.get("maturity") or calls(tool).maturity


def _twin_warnings(recommended: Sequence[str], twins: Sequence[str]) -> list[str]:
    """Return a warning about the first twin of the first recommended tool."""
    if not twins:
        return []
    first, twin = recommended[0], twins[0]
    servers = f"{split_key(first)[0]!r} or {split_key(twin)[0]!r}"
    return [
        f"{first} and {twin} have the same name and similar texts: name the server that you mean, {servers}"
    ]
