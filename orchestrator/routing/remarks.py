"""What a Decision says beside its matches: why other tools were left out, and what a person should know."""

from collections.abc import Iterable
from difflib import get_close_matches

from orchestrator.planning.effects import undoes
from orchestrator.records.tool import Match, Rejected, Stage
from orchestrator.routing import explain
from orchestrator.routing.costs import Costs
from orchestrator.routing.explain import Overlap
from orchestrator.routing.flagged import flag_warnings
from orchestrator.routing.outcome import Outcome
from orchestrator.routing.ranking import Ranked

_MOST_COMPARED = 2_000


def rejected(
    outcome: Outcome, ranked: Ranked, overlap: Overlap, candidates: list[Match], kept: dict[str, Match], costs: Costs
) -> tuple[Rejected, ...]:
    """Why other tools are no matches: too large, left out, or beyond the limit; at most MAX_REJECTED. kept: by key."""
    tools, limit = outcome.index.catalogue.tools, outcome.limit
    reasons = [Rejected(tool=match.tool.key, why=f"does not fit into {costs.room}") for match in costs.dropped]
    for server in set(outcome.explicit.unwanted) - set(outcome.explicit.wanted):
        said = next(m.said for m in outcome.explicit.mentions if m.server == server)
        reasons += explain.left_out([tool for tool in tools if tool.server == server], said)
    for position, said in outcome.forbidden.items():
        reasons += explain.left_out([tools[position]], said)
    flagged = [match for match in candidates[limit:] if match.tool.key in outcome.index.flags]
    reasons += [explain.beyond_limit(match.tool, match.score, limit) for match in flagged]
    told = {outcome.index.catalogue.positions.get(key) for key in (*kept, *(match.tool.key for match in costs.dropped))}
    last = next(reversed(kept.values()), None)
    lacking = overlap.lacking(set().union(*last.words.values()) if last else ())
    reasons += [
        explain.beyond_limit(tools[position], ranked.scores[position], limit, lacks)
        for position, lacks in zip(overlap.positions, lacking, strict=True)
        if position not in told
    ]
    return tuple(reasons[: explain.MAX_REJECTED])


def warnings_of(outcome: Outcome, stage: Stage, ranked: Ranked, kept: list[Match], costs: Costs) -> tuple[str, ...]:
    """How the query was read where that may surprise, and why there is less than was asked for."""
    warnings = [costs.note] if costs.note else []
    warnings += [f'"{said}" is read as what not to do' for said in outcome.understood.forbidden]
    warnings += flag_warnings(outcome.index, kept)
    warnings += [
        f"{mention.said!r} is read as the server {mention.server!r}"
        for mention in outcome.explicit.mentions
        if mention.corrected
    ]
    if wanted := outcome.explicit.wanted:
        lifted = {outcome.index.catalogue.tools[p].server for p, own in ranked.evidence.items() if "explicit" in own}
        for_parts = {key.partition(":")[0] for key in ranked.best_of_parts}
        unfit = (server for server in wanted if server not in lifted | for_parts)
        warnings += [f"the query names the server {server!r}, but none of its tools fits" for server in unfit]
    held_back = {tool.server for tool in outcome.index.flagged}
    for name, near in outcome.explicit.unknown.items():
        if name in held_back:
            warnings.append(f"the tools of the server {name!r} are flagged; `toolroute doctor` tells why")
            continue
        hint = f"did you mean {' or '.join(near)}?" if near else "`toolroute servers` shows the known ones"
        warnings.append(f"no server {name!r} is known here; {hint}")
    coverage, covering = outcome.request.coverage, outcome.covering
    if coverage is not None and stage is Stage.NONE:
        warnings.append(f"coverage {coverage:g} cannot be had here: nothing fits")
    elif coverage is not None and covering is not None and (short := covering.warning(coverage)):
        warnings.append(short)
    return (*warnings, *_why_little(outcome, stage, ranked, kept, costs))


def against(outcome: Outcome, recommended: Iterable[Match]) -> list[str]:
    """What to say of recommended tools that do the opposite of what the task begins with, where it has one part."""
    if outcome.understood.parts:
        return []
    undoing = [match.tool.key for match in recommended if undoes(match.tool, outcome.understood.asked)]
    return [f"{key} does the opposite of what the task begins with: look before it is called" for key in undoing]


def _why_little(outcome: Outcome, stage: Stage, ranked: Ranked, kept: list[Match], costs: Costs) -> list[str]:
    """Why nothing is given, or nothing that fits."""
    if not len(outcome.index.whole):
        add = "add tools with `toolroute tools import` or `toolroute tools sync`, or give a file that holds some"
        return [f"the catalogue of {outcome.request.tenant} is empty: {add}"]
    if outcome.allowed is not None and not outcome.allowed.any():
        said = ", ".join(f"{name}={value}" for name, value in outcome.request.filters.items())
        near = _labels_meant(outcome) or "`toolroute tools list` shows them all"
        return [f"no tool is left by {said or 'what the query leaves out'}; {near}"]
    if ranked.positions and not kept:
        remedy = "give a larger token cap" if outcome.request.token_cap else "shorten the tools' schemas"
        return [f"not one definition fits into {costs.room}: {remedy}"]
    if not kept and not len(outcome.index.catalogue):
        return ["all tools here are flagged, and none of them fits; `toolroute doctor` tells why"]
    if outcome.understood.only_forbids:
        return ["the task says only what is not to be done; the matches are shown for information and marked low"]
    if outcome.asks_nothing:
        return ["the turn asks for nothing; the matches are shown for information and marked low"]
    if stage is Stage.NONE:
        return ["no tool fits well; the matches are shown for information and marked low"]
    return []


def _labels_meant(outcome: Outcome) -> str:
    """Which labels may be meant by filters that no tool has; "" where none is like them."""
    known = outcome.index.labelled
    wrong = [(name, value) for name, value in outcome.request.filters.items() if (name, value) not in known]
    values = {wanted: [value for name, value in known if name == wanted][:_MOST_COMPARED] for wanted, _ in wrong}
    near = [f"{name}={found}" for name, value in wrong for found in get_close_matches(value, values[name], n=2)]
    names = {name for name, _ in known}
    near += [f"{found}={value}" for name, value in wrong for found in get_close_matches(name, names - {name}, n=1)]
    return f"did you mean {' or '.join(near)}?" if near else ""
