"""Related: what the best tools need comes right behind them, as the catalogue states it or as schemas say."""

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.index.graph import Hop
from orchestrator.index.prerequisites import REQUIRING, Requirement, raised_among
from orchestrator.pipeline.conversation import used_lately
from orchestrator.pipeline.state import Found, Ranking, Task, best_first
from orchestrator.records.tool import Gives

REQUIRED = "required"


def related(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Raise the tools that give what the best require, unless one that was used lately gave it already."""
    places = task.index.catalogue.positions
    there = frozenset(places[key] for key in used_lately(task.request.conversation) if key in places)
    return _stated(task, found, _by_schema(task, found, ranking, there), there)


def _by_schema(task: Task, found: Found, ranking: Ranking, there: frozenset[int]) -> Ranking:
    if ranking.by_rank or (search := found.search) is None:
        return ranking

    def unmet(position: int) -> list[Requirement]:
        return [own for own in search.unmet(position) if there.isdisjoint(own.sources)]

    raised = raised_among(ranking.scores, unmet)
    if not raised:
        return ranking
    tools = task.index.catalogue.tools
    gives = {
        position: Gives(parameter=own.parameter, tool=tools[own.required_by].key) for position, own in raised.items()
    }
    chances = {position: own.chance for position, own in raised.items()}
    return replace(
        with_raised(ranking, {position: own.score for position, own in raised.items()}, chances), gives=gives
    )


def _stated(task: Task, found: Found, ranking: Ranking, there: frozenset[int]) -> Ranking:
    """Raise what the best tools state to need, and what that needs, to the chance that it is asked for with them."""
    chances, steps = dict[int, float](), dict[int, Hop]()
    for position in ranking.order[:REQUIRING]:
        for step in task.index.graph.needed(position):
            chance = ranking.scores[position] * step.chance
            if step.position in there or not found.allows(step.position) or chance <= chances.get(step.position, 0.0):
                continue
            chances[step.position], steps[step.position] = chance, step
    if not steps:
        return ranking
    notes = {position: f"needed by {step.edge.source}" for position, step in steps.items()}
    if ranking.by_rank:
        ranking = replace(ranking, order=_behind(task, ranking.order, chances))
    own = ranking.scores
    scores = {position: chance for position, chance in chances.items() if chance > own.get(position, 0.0)}
    return replace(with_raised(ranking, scores, chances), notes=ranking.noted(notes))


def with_raised(
    ranking: Ranking, scores: Mapping[int, float], chances: Mapping[int, float], leg: str = REQUIRED
) -> Ranking:
    """Return the ranking with these scores, and the chances behind them as the evidence of a leg."""
    every = {**dict.fromkeys(chances, 0.0), **ranking.scores, **scores}
    evidence = {
        **ranking.evidence,
        **{place: {**ranking.evidence.get(place, {}), leg: chance} for place, chance in chances.items()},
    }
    order = (*ranking.order, *(chances.keys() - ranking.scores.keys())) if ranking.by_rank else best_first(every)
    return replace(ranking, scores=every, own=every, evidence=evidence, order=tuple(dict.fromkeys(order)))


def _behind(task: Task, order: tuple[int, ...], needed: Mapping[int, float]) -> tuple[int, ...]:
    """Return the order with what each of the best needs right behind it."""
    found = dict[int, None]()
    for position in order[:REQUIRING]:
        steps = task.index.graph.needed(position)
        found.update(dict.fromkeys((position, *(step.position for step in steps if step.position in needed))))
    return tuple(dict.fromkeys((*found, *order)))
