"""The order of the candidates: legs merged, floors under what was said outright, and what all of it is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.prerequisites import Raised, Requirement, is_banned, raised_among
from orchestrator.records.request import Fusion
from orchestrator.routing import select
from orchestrator.routing.conversation import used_lately
from orchestrator.routing.found import Candidates, ClauseFound
from orchestrator.routing.merge import merge
from orchestrator.routing.outcome import Outcome
from orchestrator.routing.parts import in_turn, raised_by_parts
from orchestrator.routing.search import Search
from orchestrator.routing.support import supported, supported_behind_best
from orchestrator.routing.understand import Clause

SURE_OF_CLAUSE = 0.5
"""A part of the task recommends a tool of its own when that tool is more likely right than not."""
OWN_EVIDENCE = 0.2
"""A tool of a named server is lifted when its probability is at least this share of that server's best."""
WORTH_TELLING = 0.1
"""A tool that moved up for a part is told so when it is right for that part with at least this chance."""
MOST_LIFTED = 5
"""So many tools of a named server are lifted: one with 80 tools that all fit a little must not fill the answer."""
LITTLE = 0.5
"""A tool whose odds its server lowers to less than this share is told so."""


@dataclass(slots=True)
class Ranked:
    """Candidates in their final order, with scores and evidence."""

    positions: list[int]
    scores: dict[int, float]
    evidence: dict[int, dict[str, float]]
    confidence: float
    best_of_parts: list[str]
    """Keys of the best tools of each named server and each clause, where there are several; some may be the same."""
    moved_up: dict[int, str] = field(default_factory=dict)
    """The part for which a tool stands higher than the whole task would set it."""
    raised: dict[int, Raised] = field(default_factory=dict)
    """The tools that score higher for what they give to others."""
    lowered: set[int] = field(default_factory=set)
    """The tools that score much lower for their server, which has less of what is asked."""
    parts: tuple[str, ...] = ()
    """The texts of the parts that were searched for by themselves, where there are several."""
    for_parts: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Each tool's chance to be right for each of these alone."""


def always_only(outcome: Outcome) -> Ranked:
    positions = sorted(outcome.always, key=lambda position: -outcome.always[position][0])
    return Ranked(
        positions=positions,
        scores={position: outcome.always[position][0] for position in positions},
        evidence={position: {"always": 1.0} for position in positions},
        confidence=1.0,
        best_of_parts=[outcome.index.catalogue.tools[position].key for position in positions],
    )


def rank(outcome: Outcome, search: Search, found: Candidates) -> Ranked:
    """Merge the legs, put the floors under what was said outright, and order."""
    tools = outcome.index.catalogue.tools
    merged = _merged(outcome, found)
    scores, evidence = merged.scores, merged.evidence
    confidence = search.confidence(found)
    raised = _raise_prerequisites(outcome, search, scores, evidence)
    own = dict(scores)
    lifted = _lift_named(outcome, scores, evidence, merged.without_part)
    if lifted:
        confidence = _confidence_among(search, found, lifted, confidence)
    for position, (floor, _) in outcome.always.items():
        scores[position] = max(floor, scores.get(position, 0.0))
        evidence.setdefault(position, {})["always"] = 1.0
    positions = list(scores)
    if lifted or outcome.always or outcome.request.fusion is not Fusion.RRF:
        positions.sort(key=scores.__getitem__, reverse=True)
    if positions and scores[positions[0]] == 1.0:
        confidence = 1.0
    named = _best_named(outcome, scores, lifted)
    rivals = scores if outcome.request.coverage is not None else scores | {p: own[p] for p in lifted}
    positions, moved_up = _in_turn(outcome, found, positions, rivals, named, merged.without_part)
    best_of_parts = [*(named if len(named) > 1 else ()), *_sure_of(found.clauses)]
    return Ranked(
        positions=positions,
        moved_up=moved_up,
        raised=raised,
        lowered=merged.lowered - lifted - outcome.always.keys(),
        scores=scores,
        evidence=evidence,
        confidence=confidence,
        best_of_parts=[tools[position].key for position in best_of_parts],
        parts=tuple(part.text for part in _searched(outcome, found)),
        for_parts=_for_parts(outcome, found, positions),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """Each candidate's score and evidence, in the order of the fusion; those that score much lower for their server;
    and what those that score higher for a part would score without it."""

    scores: dict[int, float]
    evidence: dict[int, dict[str, float]]
    lowered: set[int]
    without_part: dict[int, float]


def _merged(outcome: Outcome, found: Candidates) -> _Merged:
    """Servers lower scores, and parts raise them, but no reciprocal ranks, which are no chances; `rank` orders by what
    is left."""
    fusion = outcome.request.fusion or Fusion.LEARNT
    if found.merged is None or found.semantic is None:
        chances, order = found.keyword, np.argsort(-found.keyword, kind="stable")
    else:
        chances, order = merge(fusion, found.keyword, found.semantic, found.merged)
    kept = select.kept_of(outcome.index.catalogue.tools, found.chosen.tolist())
    by_server = worth = unheard = chances * kept
    if fusion is not Fusion.RRF:
        by_server = supported_behind_best(chances, found.support) * kept
        worth = raised_by_parts(by_server, found.of_clauses() * kept)
        unheard = raised_by_parts(unheard, found.of_clauses(heard=False) * kept)
    lowered = worth * (1 - unheard) < LITTLE * unheard * (1 - worth)
    by_part = worth > by_server
    best_first = found.chosen[order].tolist()
    return _Merged(
        scores=dict(zip(best_first, worth[order].tolist(), strict=True)),
        evidence=dict(zip(best_first, _evidence(found, order), strict=True)),
        lowered=set(found.chosen[lowered].tolist()),
        without_part=dict(zip(found.chosen[by_part].tolist(), by_server[by_part].tolist(), strict=True)),
    )


def _raise_prerequisites(
    outcome: Outcome, search: Search, scores: dict[int, float], evidence: dict[int, dict[str, float]]
) -> dict[int, Raised]:
    """The tools that score higher for what they give to others. What one that was used lately gives is there already,
    and none is looked up that the task forbids to; reciprocal ranks take no part."""
    if outcome.request.fusion is Fusion.RRF:
        return {}
    places, used = outcome.index.catalogue.positions, used_lately(outcome.request.conversation)
    there = {places[key] for key in used if key in places}

    def unmet(position: int) -> list[Requirement]:
        return [own for own in search.unmet(position) if there.isdisjoint(own.sources)]

    raised, tools = raised_among(scores, unmet), outcome.index.catalogue.tools
    if forbidden := outcome.understood.forbidden:
        raised = {position: own for position, own in raised.items() if not is_banned(tools[position], forbidden)}
    for position, own in raised.items():
        scores[position] = own.score
        evidence[position]["required"] = own.chance
    return raised


def _sure_of(parts: Sequence[ClauseFound]) -> list[int]:
    """The best tools of the parts that are surer of theirs than not, with what its server says, the surest first."""
    sure: dict[int, float] = {}
    for part in parts:
        if len(part.chosen):
            best = int(np.argmax(part.chances))
            tool, own = int(part.chosen[best]), float(supported(np.array(part.sure), part.support[best]))
            sure[tool] = max(own, sure.get(tool, 0.0))
    return sorted((p for p in sure if sure[p] >= SURE_OF_CLAUSE), key=lambda p: -sure[p])


def _searched(outcome: Outcome, found: Candidates) -> tuple[Clause, ...]:
    """The parts that were searched for by themselves; what is told, only where both legs ran."""
    understood = outcome.understood
    return (*understood.parts, *understood.told) if found.told else understood.parts


def _for_parts(outcome: Outcome, found: Candidates, positions: list[int]) -> dict[int, tuple[float, ...]]:
    """Each tool's chance to be right for each of these parts alone, at least what it scores where the part asks for it
    as always available; none where there are no parts."""
    if not positions or not (found.clauses or found.told):
        return {}
    kept = select.kept_of(outcome.index.catalogue.tools, positions)
    heard = outcome.request.fusion is not Fusion.RRF
    chances = (found.of_parts(np.array(positions), heard=heard) * kept).round(4)
    for own, part in zip(chances, outcome.understood.parts, strict=False):
        for position, least in outcome.always_for(part.text).items():
            own[positions.index(position)] = max(least, own[positions.index(position)])
    return dict(zip(positions, map(tuple, chances.T.tolist()), strict=True))


def _in_turn(
    outcome: Outcome,
    found: Candidates,
    positions: list[int],
    rivals: dict[int, float],
    named: list[int],
    without_part: Mapping[int, float],
) -> tuple[list[int], dict[int, str]]:
    """The positions so that each part of the task has its tools among the first, and for which part each moved up.

    The best tool of each named server and what is settled, else the best of all, stays ahead; `rivals` are the scores
    by which the others compete. A coverage set keeps its order, which parts have changed by the scores alone.
    """
    parts = (*found.clauses, *found.told)
    if not positions or len(parts) < 2 or outcome.request.fusion is Fusion.RRF:
        return positions, {}
    first = [p for p in positions if p in named or rivals[p] == 1.0] or positions[:1]
    others = sorted((p for p in positions if p not in first), key=lambda p: -rivals[p])
    by_score = [*first, *others]
    chances = found.of_parts(np.array(by_score))
    order = positions
    if outcome.request.coverage is None:
        places = in_turn([rivals[p] for p in by_score], chances, ahead=len(first), most=outcome.limit)
        order = [by_score[place] for place in places]
    by_whole = [*first, *sorted(others, key=lambda p: -without_part.get(p, rivals[p]))]
    before = {position: place for place, position in enumerate(by_whole)}
    best, surest, said = chances.argmax(axis=0).tolist(), chances.max(axis=0).tolist(), _searched(outcome, found)
    now = {position: place for place, position in enumerate(order)}
    moved = {
        position: said[best[place]].text
        for place, position in enumerate(by_score)
        if now[position] < before[position] and surest[place] >= WORTH_TELLING
    }
    return order, moved


def _evidence(found: Candidates, order: NDArray[np.int64]) -> list[dict[str, float]]:
    """Each leg's probability, where the leg has found the tool."""
    overlap, keyword = found.overlap[order].tolist(), found.keyword[order].tolist()
    if found.semantic is None:
        return [{"keyword": word} if held else {} for held, word in zip(overlap, keyword, strict=True)]
    both = zip(overlap, keyword, found.semantic[order].tolist(), strict=True)
    return [{"keyword": word, "semantic": near} if held else {"semantic": near} for held, word, near in both]


def _lift_named(
    outcome: Outcome,
    scores: dict[int, float],
    evidence: dict[int, dict[str, float]],
    without_part: Mapping[int, float],
) -> set[int]:
    """The floor for the best tools of a named server that have evidence of their own, the best by the whole task ahead,
    as the confidence is about it; which were lifted."""
    tools = outcome.index.catalogue.tools
    floor = outcome.options.explicit_floor
    lifted: set[int] = set()
    for server in outcome.explicit.wanted:
        own = [position for position in scores if tools[position].server == server]
        own = [position for position in own if _has_own_evidence(outcome, position, evidence[position])]
        worth = {position: without_part.get(position, scores[position]) for position in own}
        own = sorted(own, key=lambda position: -worth[position])[:MOST_LIFTED]
        best = max((worth[position] for position in own), default=0.0)
        for position in own:
            if worth[position] >= OWN_EVIDENCE * best:
                evidence[position]["explicit"] = floor
                # Within the floor the order by evidence stays.
                scores[position] = floor + (1 - floor) * worth[position]
                lifted.add(position)
    return lifted


def _best_named(outcome: Outcome, scores: dict[int, float], lifted: set[int]) -> list[int]:
    """The best lifted tool of each named server."""
    tools = outcome.index.catalogue.tools
    best: dict[str, int] = {}
    for position in sorted(lifted, key=lambda position: -scores[position]):
        best.setdefault(tools[position].server, position)
    return list(best.values())


def _has_own_evidence(outcome: Outcome, position: int, evidence: dict[str, float]) -> bool:
    """Whether the tool means what is asked, or says a word of it beside its server's name."""
    keyword = outcome.index.keyword
    if evidence.get("semantic", 0.0) >= outcome.options.floor:
        return True
    server = keyword.server_terms[int(keyword.server_of[position])]
    columns = keyword.postings.columns(term for term in outcome.understood.terms if term not in server)
    return bool((columns.documents == position).any())


def _confidence_among(search: Search, found: Candidates, lifted: set[int], otherwise: float) -> float:
    """The confidence when only the tools of the named servers can be right."""
    return max(otherwise, search.confidence_among(found, np.isin(found.chosen, list(lifted))))


def by_standing(outcome: Outcome) -> Ranked:
    """Where nothing matched at all: the tools most used and best kept, with no claim."""
    positions = select.by_standing(outcome.index.catalogue.tools)
    if outcome.allowed is not None:
        positions = [position for position in positions if outcome.allowed[position]]
    positions = positions[: outcome.limit]
    return Ranked(
        positions=positions,
        scores=dict.fromkeys(positions, 0.0),
        evidence={position: {} for position in positions},
        confidence=0.0,
        best_of_parts=[],
    )
