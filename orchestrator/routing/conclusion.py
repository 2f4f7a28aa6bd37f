"""From candidates to a Decision: stage, matches, recommendation, coverage set, token cap."""

from collections.abc import Mapping
from dataclasses import replace
from textwrap import shorten

from orchestrator.index.coverage import CoverageSet, Legs
from orchestrator.language.outdated import is_outdated
from orchestrator.records.decision import Decision
from orchestrator.records.request import MAX_LIMIT
from orchestrator.records.tool import Gives, Kind, Match, Stage
from orchestrator.routing import explain, select
from orchestrator.routing.continuing import continued, in_order
from orchestrator.routing.conversation import offered_before
from orchestrator.routing.costs import Costs
from orchestrator.routing.flagged import set_beside
from orchestrator.routing.forbidden import forbidden_tools
from orchestrator.routing.found import Candidates
from orchestrator.routing.outcome import Outcome
from orchestrator.routing.ranking import Ranked, always_only, by_standing, rank
from orchestrator.routing.remarks import against, rejected, warnings_of
from orchestrator.routing.search import Search


def conclude(outcome: Outcome, search: Search | None, found: Candidates | None) -> Decision:
    """The Decision. Without a search (an always-available capability settled the request) only those capabilities."""
    ranked = always_only(outcome) if search is None or found is None else rank(outcome, search, found)
    if outcome.asks_nothing:
        ranked.confidence = 0.0
    stage = _stage(outcome, ranked, searched=search is not None)
    if stage is Stage.NONE and not any(ranked.scores.values()):
        ranked = by_standing(outcome)
    outcome.covering = _cover(outcome, ranked, MAX_LIMIT)
    columns = search.columns if search else outcome.index.keyword.postings.columns(outcome.understood.terms)
    overlap = explain.Overlap(columns, outcome.understood, ranked.positions[: outcome.limit + explain.MAX_REJECTED])
    candidates = _matches(outcome, ranked, overlap)
    if not outcome.explicit.wanted and outcome.covering is None:
        candidates = select.spread(candidates, outcome.limit)
    offered: tuple[str, ...] = ()
    if outcome.request.conversation:
        candidates, offered = _in_conversation(outcome, candidates, nothing_fits=stage is Stage.NONE)
    if outcome.index.flagged:
        candidates = _with_flagged(outcome, candidates)
    costs = Costs(outcome.index, outcome.options, outcome.request.token_cap)
    kept = costs.fit(candidates[: outcome.limit])
    if costs.dropped and outcome.covering is not None:
        outcome.covering = _cover(outcome, ranked, len(kept))
    stage = Stage.NONE if costs.dropped and not kept else stage
    if stage is Stage.NONE:
        kept = [replace(match, why=f"low: {match.why}") for match in kept]
    by_key = {match.tool.key: match for match in kept}
    recommended = [] if stage is Stage.NONE else _recommended(outcome, ranked, by_key)
    connect = [match.tool.server for match in recommended if match.tool.kind is Kind.MCP]
    return Decision(
        query=outcome.request.query,
        tenant=outcome.request.tenant,
        stage=stage,
        confidence=ranked.confidence if kept else 0.0,
        gate_confidence=outcome.gate_confidence,
        semantic_ran=outcome.semantic_ran,
        matches=tuple(kept),
        recommended=tuple(match.tool.key for match in recommended),
        servers=tuple(dict.fromkeys(filter(None, connect))),
        tokens=costs.tokens(kept),
        catalogue=outcome.index.whole.version,
        rejected=rejected(outcome, ranked, overlap, candidates, by_key, costs),
        timings_ms=outcome.timings_ms,
        warnings=(*outcome.warnings, *warnings_of(outcome, stage, ranked, kept, costs), *against(outcome, recommended)),
        offered=in_order(tuple(by_key), offered),
        coverage=outcome.covering.coverage if outcome.covering else None,
        parts=ranked.parts,
    )


def _recommended(outcome: Outcome, ranked: Ranked, by_key: Mapping[str, Match]) -> list[Match]:
    """The one or two matches to use first; no flagged tool is among them."""
    unflagged = [match for key, match in by_key.items() if key not in outcome.index.flags]
    return [by_key[key] for key in select.recommend(unflagged, ranked.best_of_parts)]


def _with_flagged(outcome: Outcome, candidates: list[Match]) -> list[Match]:
    """The candidates with the flagged tools beside them, which take no place in a coverage set."""
    understood, flagged = outcome.understood, outcome.index.flagged
    found = set_beside(
        outcome.index,
        candidates,
        asked=understood.terms.keys(),
        vector=outcome.vector,
        filters=outcome.request.filters,
        unwanted=outcome.explicit.unwanted,
        forbidden=forbidden_tools(understood.forbidden, understood.asked, flagged, lambda _: range(len(flagged))),
    )
    if outcome.covering is None:
        return found
    needed = candidates[: outcome.limit]
    keys = {match.tool.key for match in needed}
    return [*needed, *(match for match in found if match.tool.key not in keys)]


def _cover(outcome: Outcome, ranked: Ranked, most: int) -> CoverageSet | None:
    """How many of the ranked tools the wanted coverage takes; None where none is wanted, the limit where none fits."""
    wanted = outcome.request.coverage
    if wanted is None:
        return None
    scores = [ranked.scores[position] for position in ranked.positions]
    if not any(scores) or _nothing_fits(outcome, ranked):
        return CoverageSet(count=min(most, outcome.request.limit), coverage=0.0)
    there = len(outcome.index.whole) if outcome.allowed is None else int(outcome.allowed.sum())
    legs: Legs = "both" if outcome.semantic_ran else "keyword"
    return outcome.coverage.smallest(scores, wanted, legs, most=most, everything=len(scores) == there)


def _in_conversation(
    outcome: Outcome, candidates: list[Match], *, nothing_fits: bool
) -> tuple[list[Match], tuple[str, ...]]:
    """The candidates with the tools of earlier turns among the first; to a coverage set they are added. And the keys
    of the last offer where this turn goes on with it."""
    request = replace(outcome.request, limit=outcome.limit)
    continues = continued(
        outcome.index, request, candidates, outcome.allowed, leans=outcome.leans, nothing_fits=nothing_fits
    )
    found, offered = continues.matches, offered_before(request.conversation) if continues.same_topic else ()
    if outcome.covering is None:
        return found, offered
    needed = {match.tool.key for match in candidates[: outcome.limit]}
    kept = {match.tool.key for match in found[: outcome.limit]}
    outcome.covering = replace(outcome.covering, count=min(MAX_LIMIT, len(needed | kept)))
    return sorted(found, key=lambda match: (match.tool.key not in needed, match.tool.key not in kept)), offered


def _nothing_fits(outcome: Outcome, ranked: Ranked) -> bool:
    """Whether no tool is claimed; a task that asks for nothing has none, however low the floor, and one that says
    clearly by which server it is done has that server's, however little is sure."""
    if outcome.asks_nothing:
        return True
    return ranked.confidence < outcome.options.floor and not _clearly_named(outcome, ranked)


def _clearly_named(outcome: Outcome, ranked: Ranked) -> bool:
    """Whether a tool is lifted whose server the task names in the strong form."""
    tools, clear = outcome.index.catalogue.tools, outcome.explicit.clearly_wanted
    return any("explicit" in own and tools[position].server in clear for position, own in ranked.evidence.items())


def _stage(outcome: Outcome, ranked: Ranked, *, searched: bool) -> Stage:
    if not searched:
        return Stage.ALWAYS
    if not ranked.positions or _nothing_fits(outcome, ranked):
        return Stage.NONE
    first = ranked.evidence[ranked.positions[0]]
    if first.get("always") and ranked.scores[ranked.positions[0]] == 1.0:
        return Stage.ALWAYS
    if "explicit" in first:
        return Stage.EXPLICIT
    return Stage.SEMANTIC if outcome.semantic_ran else Stage.KEYWORD


def _matches(outcome: Outcome, ranked: Ranked, overlap: explain.Overlap) -> list[Match]:
    """Matches for the limit, in order; and within a conversation for those of which one may yet be kept."""
    shown = overlap.positions if outcome.request.conversation else overlap.positions[: outcome.limit]
    matches = []
    for position, words in zip(shown, overlap.by_field(len(shown)), strict=True):
        tool, evidence = outcome.index.catalogue.tools[position], ranked.evidence[position]
        gives, score = _gives(outcome, ranked, position), ranked.scores[position]
        why = explain.why(evidence, words, _notes(outcome, ranked, position, gives))
        parts = ranked.for_parts.get(position, ())
        matches.append(
            Match(tool=tool, score=score, evidence=evidence, why=why, words=words, gives=gives, for_parts=parts)
        )
    return matches


def _notes(outcome: Outcome, ranked: Ranked, position: int, gives: Gives | None) -> list[str]:
    evidence, tool = ranked.evidence[position], outcome.index.catalogue.tools[position]
    notes = []
    if "always" in evidence:
        notes.append(f'always available, asked for by "{outcome.always[position][1]}"')
    if "explicit" in evidence:
        said = next(m.said for m in outcome.explicit.mentions if m.server == tool.server and not m.negated)
        notes.append(f'server named by "{said}"')
    if gives is not None:
        notes.append(str(gives))
    if is_outdated(tool.description):
        notes.append("says that it is deprecated")
    if position in ranked.lowered:
        notes.append("its server has less of what is asked")
    if position in ranked.moved_up:
        notes.append(f'moved up for "{shorten(ranked.moved_up[position], 60, placeholder="…")}"')
    return notes


def _gives(outcome: Outcome, ranked: Ranked, position: int) -> Gives | None:
    raised = ranked.raised.get(position)
    if raised is None:
        return None
    return Gives(parameter=raised.parameter, tool=outcome.index.catalogue.tools[raised.required_by].key)
