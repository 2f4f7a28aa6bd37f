"""Floors: explicitly named servers and always-available phrases take precedence over search results."""

from dataclasses import replace

import numpy as np

from orchestrator.pipeline.state import State

OWN_EVIDENCE = 0.2
"""The minimum share of the best probability on a named server for a tool of that server to be lifted."""
MOST_LIFTED = 5
"""The maximum number of lifted tools of a named server, so that a server with 80 weakly matching tools does not fill
the answer."""


def lift_named(state: State) -> State:
    """Lift the best tools with their own evidence of each named server above the floor."""
    if not state.explicit.wanted or state.candidates is None:
        return state
    tools, floor = state.task.index.catalogue.tools, state.task.options.explicit_floor
    lifted: dict[int, float] = {}
    for server in state.explicit.wanted:
        own = [place for place in state.order if tools[place].server == server and _has_own_evidence(state, place)]
        # Past tasks may have moved a tool that none of them used ahead of a tool with a higher probability.
        own = sorted(own, key=lambda place: -state.scores[place])[:MOST_LIFTED]
        strong = [place for place in own if state.scores[place] >= OWN_EVIDENCE * state.scores[own[0]]]
        lifted |= {place: floor + (1 - floor) * state.scores[place] for place in strong}
    if not lifted:
        return state
    mask = np.isin(state.candidates.whole.positions, list(lifted))
    confidence = max(state.confidence, state.candidates.confidence(mask))
    said = {m.server: m.said for m in reversed(state.explicit.mentions) if not m.unwanted}
    state = replace(state, lifted=tuple(lifted), confidence=confidence)
    state = state.rescored(lifted).with_evidence("explicit", dict.fromkeys(lifted, floor))
    return state.noted({place: f'the task names its server as "{said[tools[place].server]}"' for place in lifted})


def _has_own_evidence(state: State, position: int) -> bool:
    """Return True if the tool is similar to the task, or shares a word with it that is not in its server's name."""
    keyword = state.task.index.keyword
    if state.evidence[position].get("semantic", 0.0) >= state.task.options.floor:
        return True
    server = keyword.server_terms[int(keyword.server_of[position])]
    columns = keyword.postings.columns(term for term in state.task.understood.terms if term not in server)
    return bool((columns.documents == position).any())


def floor_always(state: State) -> State:
    """Give the always-available capabilities that are asked for their least scores."""
    if not state.always:
        return state
    floors = {place: max(own.score, state.scores.get(place, 0.0)) for place, own in state.always.items()}
    state = state.rescored(floors).with_evidence("always", dict.fromkeys(floors, 1.0))
    if state.scores[state.order[0]] == 1.0:
        state = replace(state, confidence=1.0)
    return state.noted({place: f'always available, asked for by "{own.phrase}"' for place, own in state.always.items()})
