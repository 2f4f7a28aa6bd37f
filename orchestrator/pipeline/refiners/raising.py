"""Refiners that raise tools by other evidence than the search.

together      the tools that past tasks used with the best tools
related       the tools that the best tools need
lift_named    the tools of named servers
floor_always  the always-available capabilities
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nlargest

import numpy as np

from orchestrator.experience.co_use import Partner
from orchestrator.experience.memory import Experience
from orchestrator.index.relations.requirements import REQUIRING, Requirement, raised_among
from orchestrator.pipeline.conversation import used_lately
from orchestrator.pipeline.legs.experience import is_allowed
from orchestrator.pipeline.state import State
from orchestrator.records.tool import Gives

BEST, DOUBTS, BELIEVED = 5, 2, 0.5
"""The number of best tools whose partners rise, the number of assumed tasks without the partner, and the factor on the
resulting share. Compared on sets whose tasks use several tools (docs/decisions/experience.md)."""
REQUIRED = "required"
"""The name of the evidence that another match requires a value of the tool."""
LIKELY_ENOUGH = 0.2
"""The minimum share of the best probability on a named server for a tool of that server to be lifted."""
MOST_LIFTED = 5
"""The maximum number of lifted tools of a named server, so that a server with 80 weakly matching tools does not fill
the answer."""


def together(state: State) -> State:
    """Raise the tools that past tasks used with the best ones, where any past task is like this one."""
    past = state.task.experience
    if past is None or state.recalled is None or not state.scores:
        return state
    keys = state.task.index.keys
    chances: dict[int, float] = {}
    notes: dict[int, str] = {}
    for best, position, partner in _partners(state, past, state.order[:BEST]):
        share = partner.tasks / (partner.of + DOUBTS)
        chance = BELIEVED * state.scores[best] * share
        if chance > chances.get(position, 0.0):
            chances[position] = chance
            tasks = f"{partner.tasks} of {partner.of} past tasks"
            notes[position] = f"used with {keys[best]} in {tasks}"
    behind_best = float(np.nextafter(max(state.scores.values()), 0.0))
    scores: dict[int, float] = {}
    for position, chance in chances.items():
        before = state.scores.get(position, 0.0)
        either = before + (1 - before) * chance
        after = min(either, behind_best)
        if after > before:
            scores[position] = after
    return state.raised("used_with", scores, chances, notes)


def _partners(
    state: State, past: Experience, best: Sequence[int]
) -> Iterator[tuple[int, int, Partner]]:
    """Yield each of the best tools with each of its partners: both positions, and their relation."""
    index = state.task.index
    for position in best:
        name = index.keys[position], index.tools[position].hash
        for partner in past.co_use.usual(name):
            if is_allowed(state, partner.name):
                yield position, index.catalogue.positions[partner.name[0]], partner


def related(state: State) -> State:
    """Raise the tools that provide required values of the best tools, unless a recently used tool provided them."""
    recently_used: frozenset[int] = frozenset()
    turns = state.task.request.conversation
    if turns:
        positions = state.task.index.catalogue.positions
        recently_used = frozenset(positions[key] for key in used_lately(turns) if key in positions)
    return _raise_stated(_raise_by_schema(state, recently_used), recently_used)


def _raise_by_schema(state: State, recently_used: frozenset[int]) -> State:
    """Raise the tools that give a value to a required parameter of the best tools."""
    if state.candidates is None:
        return state
    best = nlargest(REQUIRING, state.scores, key=state.scores.__getitem__)
    # A source that was used lately has given its value, so it is not needed again.
    unmet: dict[int, list[Requirement]] = {}
    for tool, requirements in state.candidates.search.unmet(best).items():
        unmet[tool] = [need for need in requirements if recently_used.isdisjoint(need.sources)]
    raised = raised_among(state.scores, unmet)
    if not raised:
        return state
    keys = state.task.index.keys
    scores: dict[int, float] = {}
    chances: dict[int, float] = {}
    gives: dict[int, Gives] = {}
    for position, source in raised.items():
        scores[position] = source.score
        chances[position] = source.chance
        gives[position] = Gives(parameter=source.parameter, tool=keys[source.required_by])
    return replace(state.raised(REQUIRED, scores, chances, {}), gives=gives)


def _raise_stated(state: State, recently_used: frozenset[int]) -> State:
    """Raise the stated needs of the best tools, and their needs, to the probability that they are used together."""
    graph = state.task.index.graph
    chances: dict[int, float] = {}
    notes: dict[int, str] = {}
    for position, hops in graph.needed(state.order[:REQUIRING]).items():
        for hop in hops:
            chance = state.scores[position] * hop.chance
            is_usable = hop.position not in recently_used and state.allows(hop.position)
            if is_usable and chance > chances.get(hop.position, 0.0):
                chances[hop.position] = chance
                notes[hop.position] = f"needed by {hop.edge.source}"
    if not chances:
        return state
    higher = {
        position: chance
        for position, chance in chances.items()
        if chance > state.scores.get(position, 0.0)
    }
    return state.raised(REQUIRED, higher, chances, notes)


def lift_named(state: State) -> State:
    """Lift the best tools of each named server above the floor, if they have evidence besides the server's name."""
    wanted = state.explicit.wanted if state.explicit.mentions else ()
    if not wanted or state.candidates is None:
        return state
    floor = state.task.options.explicit_floor
    lifted: dict[int, float] = {}
    for server in wanted:
        for position in _best_of_server(state, server):
            lifted[position] = floor + (1 - floor) * state.scores[position]
    if not lifted:
        return state
    is_lifted = np.isin(state.candidates.of_task.positions, list(lifted))
    # A server's name says which server, and not which tool: the mean is right more often than the larger one.
    confidence = (state.confidence + state.candidates.confidence(is_lifted)) / 2
    names: dict[str, str] = {}
    for mention in state.explicit.wanting:
        names.setdefault(mention.server, mention.said)
    tools = state.task.index.tools
    notes = {
        position: f'the task names its server as "{names[tools[position].server]}"'
        for position in lifted
    }
    state = replace(state, lifted=tuple(lifted), confidence=confidence)
    return state.raised("explicit", lifted, dict.fromkeys(lifted, floor), notes)


def _best_of_server(state: State, server: str) -> list[int]:
    """Return the tools of a named server that are lifted, the most probable first."""
    tools = state.task.index.tools
    of_server = [position for position in state.scores if tools[position].server == server]
    supported = [position for position in of_server if _has_evidence(state, position)]
    # Past tasks may have moved a tool that none of them used ahead of a tool with a higher probability.
    best = sorted(supported, key=lambda position: -state.scores[position])[:MOST_LIFTED]
    return [
        position
        for position in best
        if state.scores[position] >= LIKELY_ENOUGH * state.scores[best[0]]
    ]


def _has_evidence(state: State, position: int) -> bool:
    """Return True if the tool is similar to the task, or shares a word with it that is not in its server's name."""
    keyword = state.task.index.keyword
    if state.evidence[position].get("semantic", 0.0) >= state.task.options.floor:
        return True
    server_name = keyword.server_terms[int(keyword.server_of[position])]
    further_terms = [term for term in state.task.understood.terms if term not in server_name]
    return bool((keyword.postings.columns(further_terms).documents == position).any())


def floor_always(state: State) -> State:
    """Give the always-available capabilities that are asked for their least scores."""
    if not state.always:
        return state
    floors: dict[int, float] = {}
    notes: dict[int, str] = {}
    for position, match in state.always.items():
        floors[position] = max(match.score, state.scores.get(position, 0.0))
        notes[position] = f'always available, asked for by "{match.phrase}"'
    state = state.raised("always", floors, dict.fromkeys(floors, 1.0), notes)
    if state.scores[state.order[0]] == 1.0:
        return replace(state, confidence=1.0)
    return state
