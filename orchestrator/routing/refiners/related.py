"""Related: tools that give what the best tools require come right behind them."""

from dataclasses import replace

from orchestrator.index.prerequisites import Requirement, raised_among
from orchestrator.records.tool import Gives
from orchestrator.routing.conversation import used_lately
from orchestrator.routing.task import Found, Ranking, Task, best_first


def related(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Raise the tools that give what the best require, unless one that was used lately gave it already."""
    if ranking.by_rank or (search := found.search) is None:
        return ranking
    places = task.index.catalogue.positions
    there = {places[key] for key in used_lately(task.request.conversation) if key in places}

    def unmet(position: int) -> list[Requirement]:
        return [own for own in search.unmet(position) if there.isdisjoint(own.sources)]

    raised = raised_among(ranking.scores, unmet)
    if not raised:
        return ranking
    tools = task.index.catalogue.tools
    gives = {
        position: Gives(parameter=own.parameter, tool=tools[own.required_by].key) for position, own in raised.items()
    }
    scores = {**ranking.scores, **{position: own.score for position, own in raised.items()}}
    evidence = {
        **ranking.evidence,
        **{position: {**ranking.evidence[position], "required": own.chance} for position, own in raised.items()},
    }
    return replace(ranking, scores=scores, own=scores, evidence=evidence, order=best_first(scores), gives=gives)
