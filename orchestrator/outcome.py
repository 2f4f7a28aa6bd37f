"""From candidates to a Decision: what was said outright, floors, order, recommendation, token cap, reasons."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator import explain
from orchestrator.continuing import continued
from orchestrator.costs import Costs
from orchestrator.decision import Decision
from orchestrator.features import Positions
from orchestrator.flagged import flag_warnings, set_beside
from orchestrator.index import Index
from orchestrator.models import Fusion, Kind, Match, Rejected, RouteRequest, Stage, Tool
from orchestrator.options import Options
from orchestrator.search import Candidates, Search
from orchestrator.stages import select
from orchestrator.stages.conversation import offered_before
from orchestrator.stages.explicit import Explicit
from orchestrator.stages.keep import in_order
from orchestrator.stages.merge import merge
from orchestrator.stages.understand import Understood, clean

ASKED_CLEARLY = 0.75
"""The least score of a capability that is asked for by a phrase of several words beside something else."""
ASKED_LOOSELY = 0.3
"""The same for a phrase of one word, which may mean something else ("Google Calendar")."""
DEPRECATED = 0.8
"""What a deprecated tool's probability is multiplied with."""
SURE_OF_CLAUSE = 0.5
"""A part of the task recommends a tool of its own when that tool is more likely right than not."""
OWN_EVIDENCE = 0.2
"""A tool of a named server is lifted when its probability is at least this share of that server's best."""
MOST_LIFTED = 5
"""So many tools of a named server are lifted: one with 80 tools that all fit a little must not fill the answer."""


@dataclass(slots=True)
class Outcome:
    """What the stages of one request have found so far."""

    index: Index
    request: RouteRequest
    understood: Understood
    options: Options
    explicit: Explicit = field(default_factory=Explicit)
    always: dict[int, tuple[float, str]] = field(default_factory=dict)
    settled: bool = False
    allowed: NDArray[np.bool_] | None = None
    gate_confidence: float = 0.0
    semantic_ran: bool = False
    vector: NDArray[np.float32] | None = None

    def find_always(self) -> None:
        """Always-available capabilities, by clause: position to least score and phrase."""
        open_clauses = 0
        for clause in self.understood.clauses:
            hits = self.index.always.match(clause.text)
            open_clauses += not any(hit.settles for hit in hits)
            for hit in hits:
                score = 1.0 if hit.settles else ASKED_CLEARLY if hit.clear else ASKED_LOOSELY
                if score > self.always.get(hit.tool, (0.0, ""))[0]:
                    self.always[hit.tool] = (score, hit.phrase)
        self.settled = bool(self.always) and not open_clauses

    def find_explicit(self) -> None:
        """Servers that the query names, and which tools filters and negations leave."""
        self.explicit = self.index.servers.find(self.understood.text)
        if self.explicit.wanted or self.explicit.unwanted or self.request.filters:
            self.settled = False
            self.allowed = allowed = self._allowed()
            if allowed is not None:
                self.always = {tool: asked for tool, asked in self.always.items() if allowed[tool]}

    @property
    def leans(self) -> bool:
        """Whether earlier turns tell what the query means."""
        return bool(self.understood.earlier) or self.understood.text != clean(self.request.query)

    def named(self) -> Positions | None:
        """The tools of the servers that the query asks for; None if it asks for none."""
        if not self.explicit.wanted:
            return None
        return np.flatnonzero(self._of_servers(self.explicit.wanted))

    def _allowed(self) -> NDArray[np.bool_] | None:
        unwanted = set(self.explicit.unwanted) - set(self.explicit.wanted)
        if not unwanted and not self.request.filters:
            return None
        allowed = np.ones(len(self.index.catalogue), np.bool_)
        for label in self.request.filters.items():
            having = np.zeros_like(allowed)
            having[self.index.labelled.get(label, [])] = True
            allowed &= having
        return allowed & ~self._of_servers(unwanted)

    def _of_servers(self, servers: Iterable[str]) -> NDArray[np.bool_]:
        keyword = self.index.keyword
        return np.isin(keyword.server_of, [keyword.servers.index(server) for server in servers])


@dataclass(slots=True)
class _Ranked:
    """Candidates in their final order, with scores and evidence."""

    positions: list[int]
    scores: dict[int, float]
    evidence: dict[int, dict[str, float]]
    confidence: float
    best_of_clauses: list[str]


def conclude(outcome: Outcome, search: Search | None, found: Candidates | None) -> Decision:
    """The Decision. Without a search (an always-available capability settled the request) only those capabilities."""
    ranked = _always_only(outcome) if search is None or found is None else _rank(outcome, search, found)
    stage = _stage(outcome, ranked, searched=search is not None)
    if stage is Stage.NONE and not any(ranked.scores.values()):
        ranked = _by_standing(outcome)
    candidates = _matches(outcome, ranked, stage)
    if not outcome.explicit.wanted:
        candidates = select.spread(candidates, outcome.request.limit)
    if outcome.request.conversation:
        allowed, none = outcome.allowed, stage is Stage.NONE
        candidates = continued(
            outcome.index, outcome.request, candidates, allowed, leans=outcome.leans, nothing_fits=none
        )
    if outcome.index.flagged:
        candidates = set_beside(outcome.index, outcome.request, outcome.explicit.unwanted, candidates, outcome.vector)
    costs = Costs(outcome.index, outcome.options, outcome.request.token_cap)
    kept, dropped = costs.fit(candidates[: outcome.request.limit])
    stage = Stage.NONE if dropped and not kept else stage
    unflagged = [match for match in kept if match.tool.key not in outcome.index.flags]
    recommended = () if stage is Stage.NONE else select.recommend(unflagged, ranked.best_of_clauses)
    connect = {m.tool.key: m.tool.server for m in kept if m.tool.kind is Kind.MCP and m.tool.server}
    return Decision(
        query=outcome.request.query,
        tenant=outcome.request.tenant,
        stage=stage,
        confidence=ranked.confidence if kept else 0.0,
        gate_confidence=outcome.gate_confidence,
        semantic_ran=outcome.semantic_ran,
        matches=tuple(kept),
        recommended=recommended,
        servers=tuple(dict.fromkeys(connect[key] for key in recommended if key in connect)),
        tokens=costs.tokens(kept),
        catalogue=outcome.index.whole.version,
        rejected=_rejected(outcome, candidates, kept, dropped, costs.room),
        warnings=tuple(
            filter(
                None,
                [
                    costs.note,
                    *flag_warnings(outcome.index, kept),
                    *_warnings(outcome, stage, ranked, costs.room if not kept else ""),
                ],
            )
        ),
        offered=in_order([match.tool.key for match in kept], offered_before(outcome.request.conversation)),
    )


def _always_only(outcome: Outcome) -> _Ranked:
    positions = sorted(outcome.always, key=lambda position: -outcome.always[position][0])
    return _Ranked(
        positions=positions,
        scores={position: outcome.always[position][0] for position in positions},
        evidence={position: {"always": 1.0} for position in positions},
        confidence=1.0,
        best_of_clauses=[outcome.index.catalogue.tools[position].key for position in positions],
    )


def _rank(outcome: Outcome, search: Search, found: Candidates) -> _Ranked:
    """Merge the legs, put the floors under what was said outright, and order."""
    tools = outcome.index.catalogue.tools
    if found.merged is None or found.semantic is None:
        probability, order = found.keyword, np.argsort(-found.keyword, kind="stable")
    else:
        fusion = outcome.request.fusion or Fusion.LEARNT
        probability, order = merge(fusion, found.keyword, found.semantic, found.merged)
    scores = {int(found.chosen[i]): float(probability[i]) for i in order}
    evidence = {int(found.chosen[i]): _evidence(found, int(i)) for i in order}
    for position in scores:
        if tools[position].labels.get("maturity") == "deprecated":
            scores[position] *= DEPRECATED
    confidence = search.confidence(found)
    lifted = _lift_named(outcome, scores, evidence)
    if lifted:
        confidence = _confidence_among(search, found, lifted, confidence)
    for position, (floor, _) in outcome.always.items():
        scores[position] = max(floor, scores.get(position, 0.0))
        evidence.setdefault(position, {})["always"] = 1.0
    if outcome.request.fusion is not Fusion.RRF or lifted or outcome.always:
        positions = sorted(scores, key=lambda position: -scores[position])
    else:
        positions = list(scores)
    if positions and scores[positions[0]] == 1.0:
        confidence = 1.0
    surely = [position for position, chance in search.clause_bests() if chance >= SURE_OF_CLAUSE]
    return _Ranked(
        positions=positions,
        scores=scores,
        evidence=evidence,
        confidence=confidence,
        best_of_clauses=[tools[position].key for position in surely],
    )


def _evidence(found: Candidates, i: int) -> dict[str, float]:
    evidence = {"keyword": float(found.keyword[i])} if found.overlap[i] else {}
    if found.semantic is not None:
        evidence["semantic"] = float(found.semantic[i])
    return evidence


def _lift_named(outcome: Outcome, scores: dict[int, float], evidence: dict[int, dict[str, float]]) -> set[int]:
    """The floor for the best tools of a named server that have evidence of their own; which were lifted."""
    tools = outcome.index.catalogue.tools
    floor = outcome.options.explicit_floor
    lifted: set[int] = set()
    for server in outcome.explicit.wanted:
        own = [position for position in scores if tools[position].server == server]
        own = [position for position in own if _has_own_evidence(outcome, position, evidence[position])]
        own = sorted(own, key=lambda position: -scores[position])[:MOST_LIFTED]
        best = max((scores[position] for position in own), default=0.0)
        for position in own:
            if scores[position] >= OWN_EVIDENCE * best:
                evidence[position]["explicit"] = floor
                # Within the floor the order by evidence stays.
                scores[position] = floor + (1 - floor) * scores[position]
                lifted.add(position)
    return lifted


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


def _stage(outcome: Outcome, ranked: _Ranked, *, searched: bool) -> Stage:
    if not searched:
        return Stage.ALWAYS
    if not ranked.positions or ranked.confidence < outcome.options.floor:
        return Stage.NONE
    first = ranked.evidence[ranked.positions[0]]
    if first.get("always") and ranked.scores[ranked.positions[0]] == 1.0:
        return Stage.ALWAYS
    if "explicit" in first:
        return Stage.EXPLICIT
    return Stage.SEMANTIC if outcome.semantic_ran else Stage.KEYWORD


def _by_standing(outcome: Outcome) -> _Ranked:
    """Where nothing matched at all: the tools most used and best kept, with no claim."""
    positions = select.by_standing(outcome.index.catalogue.tools)
    if outcome.allowed is not None:
        positions = [position for position in positions if outcome.allowed[position]]
    positions = positions[: outcome.request.limit]
    return _Ranked(
        positions=positions,
        scores=dict.fromkeys(positions, 0.0),
        evidence={position: {} for position in positions},
        confidence=0.0,
        best_of_clauses=[],
    )


def _matches(outcome: Outcome, ranked: _Ranked, stage: Stage) -> list[Match]:
    """Matches for the limit and for what may be told of the rejected, in order; marked low where nothing fits."""
    low = "low: " if stage is Stage.NONE else ""
    limit = outcome.request.limit
    shown = ranked.positions[: limit + explain.MAX_REJECTED]
    words = explain.words_in(outcome.index, outcome.understood, shown)
    matches = []
    for rank, (position, own) in enumerate(zip(shown, words, strict=True)):
        tool = outcome.index.catalogue.tools[position]
        evidence = ranked.evidence[position]
        # Those beyond the limit only become reasons of rejection: theirs are made of the words alone.
        why = low + explain.why(evidence, own, _notes(outcome, position, tool, evidence)) if rank < limit else ""
        matches.append(Match(tool=tool, score=ranked.scores[position], evidence=evidence, why=why, words=own))
    return matches


def _notes(outcome: Outcome, position: int, tool: Tool, evidence: dict[str, float]) -> list[str]:
    notes = []
    if "always" in evidence:
        notes.append(f'always available, asked for by "{outcome.always[position][1]}"')
    if "explicit" in evidence:
        said = next(m.said for m in outcome.explicit.mentions if m.server == tool.server and not m.negated)
        notes.append(f'server named by "{said}"')
    return notes


def _rejected(
    outcome: Outcome, candidates: list[Match], kept: list[Match], dropped: list[Match], room: str
) -> tuple[Rejected, ...]:
    limit = outcome.request.limit
    reasons = [Rejected(tool=match.tool.key, why=f"does not fit into {room}") for match in dropped]
    unwanted = set(outcome.explicit.unwanted) - set(outcome.explicit.wanted)
    for server in unwanted:
        said = next(m.said for m in outcome.explicit.mentions if m.server == server)
        reasons += explain.left_out([tool for tool in outcome.index.catalogue if tool.server == server], said)
    last = kept[-1] if kept else None
    reasons += explain.beyond_limit(candidates[limit:], outcome.understood, last, limit)
    return tuple(reasons[: explain.MAX_REJECTED])


def _warnings(outcome: Outcome, stage: Stage, ranked: _Ranked, none_fits: str) -> list[str]:
    warnings = [
        f"{mention.said!r} is read as the server {mention.server!r}"
        for mention in outcome.explicit.mentions
        if mention.corrected
    ]
    lifted = {outcome.index.catalogue.tools[p].server for p, own in ranked.evidence.items() if "explicit" in own}
    unfit = (server for server in outcome.explicit.wanted if server not in lifted)
    warnings += [f"the query names the server {server!r}, but none of its tools fits" for server in unfit]
    held_back = {tool.server for tool in outcome.index.flagged}
    for name, near in outcome.explicit.unknown.items():
        if name in held_back:
            warnings.append(f"the tools of the server {name!r} are flagged; `toolroute doctor` tells why")
            continue
        hint = f"did you mean {' or '.join(near)}?" if near else "`toolroute servers` shows the known ones"
        warnings.append(f"no server {name!r} is known here; {hint}")
    if not len(outcome.index.whole):
        warnings.append("the catalogue is empty: add tools with `toolroute tools import` or `toolroute tools sync`")
    elif outcome.allowed is not None and not outcome.allowed.any():
        said = ", ".join(f"{name}={value}" for name, value in outcome.request.filters.items())
        warnings.append(
            f"no tool is left by {said or 'what the query leaves out'}; `toolroute tools list` shows them all"
        )
    elif ranked.positions and none_fits:
        remedy = "give a larger token cap" if outcome.request.token_cap else "shorten the tools' schemas"
        warnings.append(f"not one definition fits into {none_fits}: {remedy}")
    elif stage is Stage.NONE:
        warnings.append("no tool fits well; the matches are shown for information and marked low")
    return warnings
