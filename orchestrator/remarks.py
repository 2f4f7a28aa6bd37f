"""What a Decision says beside its matches: why other tools were left out, and what a person should know."""

from orchestrator import explain
from orchestrator.costs import Costs
from orchestrator.flagged import flag_warnings
from orchestrator.models import Match, Rejected, Stage
from orchestrator.outcome import Outcome
from orchestrator.ranking import Ranked


def rejected(
    outcome: Outcome, candidates: list[Match], kept: list[Match], dropped: list[Match], room: str
) -> tuple[Rejected, ...]:
    limit = outcome.limit
    reasons = [Rejected(tool=match.tool.key, why=f"does not fit into {room}") for match in dropped]
    unwanted = set(outcome.explicit.unwanted) - set(outcome.explicit.wanted)
    for server in unwanted:
        said = next(m.said for m in outcome.explicit.mentions if m.server == server)
        reasons += explain.left_out([tool for tool in outcome.index.catalogue if tool.server == server], said)
    last = kept[-1] if kept else None
    reasons += explain.beyond_limit(candidates[limit:], outcome.understood, last, limit)
    return tuple(reasons[: explain.MAX_REJECTED])


def warnings_of(outcome: Outcome, stage: Stage, ranked: Ranked, kept: list[Match], costs: Costs) -> tuple[str, ...]:
    """How the query was read where that may surprise, and why there is less than was asked for."""
    warnings = [costs.note] if costs.note else []
    warnings += flag_warnings(outcome.index, kept)
    warnings += [
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
    wanted, covering = outcome.request.coverage, outcome.covering
    if wanted is not None and covering is not None and (short := covering.warning(wanted)):
        warnings.append(short)
    if not len(outcome.index.whole):
        warnings.append("the catalogue is empty: add tools with `toolroute tools import` or `toolroute tools sync`")
    elif outcome.allowed is not None and not outcome.allowed.any():
        said = ", ".join(f"{name}={value}" for name, value in outcome.request.filters.items())
        warnings.append(
            f"no tool is left by {said or 'what the query leaves out'}; `toolroute tools list` shows them all"
        )
    elif ranked.positions and not kept and costs.room:
        remedy = "give a larger token cap" if outcome.request.token_cap else "shorten the tools' schemas"
        warnings.append(f"not one definition fits into {costs.room}: {remedy}")
    elif stage is Stage.NONE:
        warnings.append("no tool fits well; the matches are shown for information and marked low")
    return tuple(warnings)
