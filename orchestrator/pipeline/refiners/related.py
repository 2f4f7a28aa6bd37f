"""Related: the needs of the best tools follow directly after them, from the catalogue's relations or from schemas."""

from dataclasses import replace

from orchestrator.index.graph import Hop
from orchestrator.index.prerequisites import REQUIRING, Requirement, raised_among
from orchestrator.pipeline.conversation import used_lately
from orchestrator.pipeline.state import State
from orchestrator.records.tool import Gives

REQUIRED = "required"


def related(state: State) -> State:
    """Raise the tools that provide required values of the best tools, unless a recently used tool provided them."""
    places = state.task.index.catalogue.positions
    there = frozenset(places[key] for key in used_lately(state.task.request.conversation) if key in places)
    return _stated(_by_schema(state, there), there)


def _by_schema(state: State, there: frozenset[int]) -> State:
    if state.candidates is None:
        return state
    search = state.candidates.search

    def unmet(position: int) -> list[Requirement]:
        return [own for own in search.unmet(position) if there.isdisjoint(own.sources)]

    raised = raised_among(state.scores, unmet)
    if not raised:
        return state
    tools = state.task.index.catalogue.tools
    gives = {
        position: Gives(parameter=own.parameter, tool=tools[own.required_by].key) for position, own in raised.items()
    }
    state = state.rescored({position: own.score for position, own in raised.items()})
    state = state.with_evidence(REQUIRED, {position: own.chance for position, own in raised.items()})
    return replace(state, gives=gives)


def _stated(state: State, there: frozenset[int]) -> State:
    """Raise the stated needs of the best tools, and their needs, to the probability that they are used together."""
    chances, steps = dict[int, float](), dict[int, Hop]()
    for position in state.order[:REQUIRING]:
        for step in state.task.index.graph.needed(position):
            chance = state.scores[position] * step.chance
            if step.position in there or not state.allows(step.position) or chance <= chances.get(step.position, 0.0):
                continue
            chances[step.position], steps[step.position] = chance, step
    if not steps:
        return state
    higher = {position: chance for position, chance in chances.items() if chance > state.scores.get(position, 0.0)}
    state = state.rescored(higher).with_evidence(REQUIRED, chances)
    return state.noted({position: f"needed by {step.edge.source}" for position, step in steps.items()})
