"""Demote: near-duplicates give way, flagged tools never come first, and deprecated ones get a note."""

from orchestrator.index.documents import is_outdated
from orchestrator.index.flags import VOUCHED
from orchestrator.index.graph import are_twins
from orchestrator.index.intent import action_stems
from orchestrator.index.text import terms
from orchestrator.pipeline.select import repeated
from orchestrator.pipeline.state import State
from orchestrator.records.tool import Tool

LEAST_FLAGGED, MOST_FLAGGED = 0.2, 0.65
"""The minimum probability at which a flagged tool is shown, and its maximum probability, which is below the gate."""


def spread_duplicates(state: State) -> State:
    """Move near-duplicates from other servers behind the other matches."""
    if state.explicit.wanted:
        return state
    state = _accepted_first(_with_twin(state))
    window = state.order[: state.task.most]
    later = repeated(state.task.index.catalogue.tools, window)
    return state.moved(sorted(window, key=lambda place: place in later)) if later else state


def _with_twin(state: State) -> State:
    """Show a twin of the first tool that the search did not find.

    An imitation can add the words of tasks to its text. The imitated tool may lack them, and the imitation would be
    recommended alone.
    """
    window, tools, most = state.order[: state.task.most], state.task.index.catalogue.tools, state.task.most
    twins = state.task.index.graph.twins(window[0]) if window and most > 1 else ()
    usable = [place for place in twins if state.allows(place) and tools[place].key not in state.task.index.flags]
    if not usable or not set(twins).isdisjoint(window):
        return state
    state = state.reordered((*window[: most - 1], usable[0]))
    return state.noted({usable[0]: f"the same tool as {tools[window[0]].key}"})


def _accepted_first(state: State) -> State:
    """Put a tool that was vouched for or used before ahead of twins that were not, in the twin's place."""
    tools, order = state.task.index.catalogue.tools, [*state.order[: state.task.most]]
    for place in range(1, len(order)):
        own = tools[order[place]]
        if not _is_accepted(state, own):
            continue
        for before in range(place):
            if are_twins(tools[order[before]], own) and not _is_accepted(state, tools[order[before]]):
                order.insert(before, order.pop(place))
                break
    return state.moved(order) if order != [*state.order[: state.task.most]] else state


def _is_accepted(state: State, tool: Tool) -> bool:
    return tool.labels.get(VOUCHED) == "yes" or state.task.calls(tool).calls > 0


def append_flagged(state: State) -> State:
    """Set the flagged tools that fit among the others, never first: they were not searched, so no score moves."""
    flagged = state.task.index.flagged
    if flagged is None or state.candidates is None:
        return state
    allowed = flagged if state.allowed is None else flagged & state.allowed
    chances = {place: _flagged_chance(state, place) for place in allowed.nonzero()[0].tolist()}
    fit = {place: min(MOST_FLAGGED, chance) for place, chance in chances.items() if chance >= LEAST_FLAGGED}
    if not fit:
        return state
    first, tools = state.order[:1], state.task.index.catalogue.tools
    state = state.rescored(fit).moved(first)
    return state.noted({place: f"flagged: {'; '.join(state.task.index.flags[tools[place].key])}" for place in fit})


def _flagged_chance(state: State, place: int) -> float:
    """Return the probability that a flagged tool fits, from its cosine and the share of its name's words in the task.

    Without a shared word it is halved. A shared action ("get") does not count.
    """
    name = frozenset(terms(state.task.index.catalogue.tools[place].name))
    shared = name & state.task.understood.terms.keys()
    share = len(shared) / len(name) if shared and (shared == name or shared - action_stems()) else 0.0
    by_meaning = max(0.0, 2 * state.near_flagged.get(place, 0.0) - 0.4) * (1.0 if share else 0.5)
    return max(by_meaning, MOST_FLAGGED * share if share >= 0.5 else 0.0)


def note_deprecated(state: State) -> State:
    """Add a note to tools that call themselves deprecated."""
    tools, factors = state.task.index.catalogue.tools, state.task.index.deprecation_factor
    if factors is None:
        return state
    old = [place for place in state.order[: state.task.most] if factors[place] < 1 and is_outdated(tools[place])]
    return state.noted(dict.fromkeys(old, "its description calls it deprecated"))
