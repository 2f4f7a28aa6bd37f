"""From a ranking to a Decision: stage, matches, recommendation, token cap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.pipeline import select
from orchestrator.pipeline.conversation import in_order, keep_earlier, offered_before, used_lately
from orchestrator.pipeline.explain import MAX_REJECTED, Overlap, rejected, warnings_of, why
from orchestrator.pipeline.legs.experience import used_together
from orchestrator.pipeline.select import Fitted, fit_matches
from orchestrator.pipeline.state import Found, Ranking, Task
from orchestrator.records.decision import Decision
from orchestrator.records.tool import Kind, Match, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """What a Decision shows: its stage, its matches as they fit, what earlier turns were offered."""

    stage: Stage
    overlap: Overlap
    fitted: Fitted
    matches: tuple[Match, ...]
    offered: tuple[str, ...]


def decide(task: Task, found: Found, ranking: Ranking) -> Decision:
    """Return the Decision for a ranking; `timings_ms` is left to the caller."""
    if task.understood.asks_nothing:
        ranking = replace(ranking, confidence=0.0)
    stage = _stage(task, found, ranking)
    if stage is Stage.NONE and not any(ranking.scores.values()):
        ranking = _by_popularity(task, found)
    return _decision(task, found, ranking, _choose(task, found, ranking, stage))


def _choose(task: Task, found: Found, ranking: Ranking, stage: Stage) -> _Chosen:
    limit = task.request.limit
    overlap = _overlap(task, found, ranking.order[: limit + MAX_REJECTED])
    kept, offered = _within_conversation(task, found, ranking, overlap, limit, nothing_fits=stage is Stage.NONE)
    fitted = fit_matches(task.index, kept, cap=task.request.token_cap, exact=task.options.exact_tokens)
    stage = Stage.NONE if fitted.dropped and not fitted.kept else stage
    low = stage is Stage.NONE
    matches = tuple(replace(match, why=f"low: {match.why}") if low else match for match in fitted.kept)
    return _Chosen(stage=stage, overlap=overlap, fitted=fitted, matches=matches, offered=offered)


def _within_conversation(
    task: Task, found: Found, ranking: Ranking, overlap: Overlap, limit: int, *, nothing_fits: bool
) -> tuple[list[Match], tuple[str, ...]]:
    """Return the first `limit` matches, earlier turns' among them, and the keys that these turns were offered."""
    turns = task.request.conversation
    if not turns:
        return _matches(task, ranking, overlap, limit), ()
    own, earlier = _matches(task, ranking, overlap, len(overlap.positions)), _earlier(task, found, ranking)
    kept = keep_earlier(own, earlier, turns, limit, leans=task.leans, nothing_fits=nothing_fits)
    return kept.matches[:limit], offered_before(turns) if kept.same_topic else ()


def _decision(task: Task, found: Found, ranking: Ranking, chosen: _Chosen) -> Decision:
    matches, stage, fitted = chosen.matches, chosen.stage, chosen.fitted
    unflagged = [match for match in matches if match.tool.key not in task.index.flags]
    none = stage is Stage.NONE or (found.about is not None and bool(found.about.tools))
    recommended = () if none else select.recommend(unflagged, ranking.best_of_parts, task.calls)
    related, graph = task.index.graph.excerpt(
        *recommended, more=lambda tool: used_together(task.experience, task.index, tool)
    )
    used = {match.tool.key: match.tool for match in matches}
    connect = [used[key].server for key in recommended if used[key].kind is Kind.MCP]
    return Decision(
        query=task.request.query,
        tenant=task.request.tenant,
        stage=stage,
        confidence=ranking.confidence if matches else 0.0,
        gate_confidence=found.gate_confidence,
        semantic_ran=found.semantic_ran,
        matches=matches,
        recommended=recommended,
        servers=tuple(dict.fromkeys(filter(None, connect))),
        tokens=fitted.tokens,
        catalogue=task.index.catalogue.version,
        rejected=rejected(task, found, ranking, chosen.overlap, matches, fitted.dropped, fitted.room),
        warnings=(
            *found.warnings,
            *fitted.warnings,
            *ranking.warnings,
            *warnings_of(task, found, ranking, stage, matches, fitted.room),
        ),
        offered=in_order(tuple(used), chosen.offered),
        parts=ranking.parts,
        named_servers=found.explicit.named,
        related=related,
        graph=graph,
        leans=task.leans,
        about=found.about,
        needs=found.needs.texts,
        usage=found.needs.usage + ranking.usage,
    )


def _nothing_fits(task: Task, found: Found, ranking: Ranking) -> bool:
    """Return whether no tool is claimed.

    A task that names a server has that server's, however little is sure.
    """
    if task.understood.asks_nothing:
        return True
    return ranking.confidence < task.options.floor and not ranking.lifted


def _stage(task: Task, found: Found, ranking: Ranking) -> Stage:
    if found.settled and found.always:
        return Stage.ALWAYS
    if not ranking.order or _nothing_fits(task, found, ranking):
        return Stage.NONE
    first = ranking.order[0]
    if ranking.evidence[first].get("always") and ranking.scores[first] == 1.0:
        return Stage.ALWAYS
    if first in ranking.lifted:
        return Stage.EXPLICIT
    return Stage.SEMANTIC if found.semantic_ran else Stage.KEYWORD


def _overlap(task: Task, found: Found, positions: Sequence[int]) -> Overlap:
    keyword = task.index.keyword
    columns = found.search.words.columns if found.search else keyword.postings.columns(task.understood.terms)
    return Overlap(columns, task.understood, positions)


def _matches(task: Task, ranking: Ranking, overlap: Overlap, count: int) -> list[Match]:
    """Return the first `count` matches, in order."""
    tools, origins, shown = task.index.catalogue.tools, task.index.origins, overlap.positions[:count]
    return [
        Match(
            tool=tools[position],
            score=ranking.scores[position],
            evidence=dict(ranking.evidence[position]),
            why=why(ranking.evidence[position], words, _notes(ranking, position)),
            words=words,
            gives=ranking.gives.get(position),
            for_parts=ranking.for_parts.get(position, ()),
            source=next(iter(origins.get(tools[position].key, ())), ""),
        )
        for position, words in zip(shown, overlap.by_field(len(shown)), strict=True)
    ]


def _notes(ranking: Ranking, position: int) -> tuple[str, ...]:
    gives = ranking.gives.get(position)
    return (*ranking.notes.get(position, ()), *([str(gives)] if gives else []))


def _earlier(task: Task, found: Found, ranking: Ranking) -> list[Match]:
    """Return the tools that earlier turns used or offered and that are still allowed, as matches."""
    turns, catalogue = task.request.conversation, task.index.catalogue
    keys = dict.fromkeys((*used_lately(turns), *offered_before(turns)))
    places = [catalogue.positions[key] for key in keys if key in catalogue.positions]
    return [
        Match(tool=catalogue.tools[place], score=ranking.scores.get(place, 0.0), why="no shared word")
        for place in places
        if found.allowed is None or found.allowed[place]
    ]


def _by_popularity(task: Task, found: Found) -> Ranking:
    """Return, where nothing matched at all, the tools most used and best kept, with no claim."""
    allowed = found.allowed
    positions = [p for p in select.by_popularity(task.index.catalogue.tools) if allowed is None or allowed[p]]
    order = tuple(positions[: task.request.limit])
    evidence: Mapping[int, Mapping[str, float]] = {position: {} for position in order}
    return Ranking(order=order, scores=dict.fromkeys(order, 0.0), evidence=evidence, confidence=0.0)
