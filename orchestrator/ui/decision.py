"""Shows a Decision: its stages, the gate and the graph, as part of a page or as one file.

It is read from the JSON of a Decision that was just made, or of one that was kept.
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
)

from orchestrator.common.json_input import first_problem, read_json
from orchestrator.errors import InvalidInput
from orchestrator.records.relation import Edge, Related
from orchestrator.records.tool import FOUND_BY, CatalogueVersion, Rejected, Stage, Tokens
from orchestrator.ui import drawing
from orchestrator.ui.templates import file

_FORM = "give what `toolroute route -o json`, `explain -o json` or `run -o json` prints"


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ShownMatch(_Plain):
    """A match, with its `evidence` by leg. The JSON of `route` has its description in the definition."""

    tool: str
    kind: str
    probability: FiniteFloat
    evidence: dict[str, FiniteFloat] = {}
    why: str = ""
    description: str = Field(
        "", validation_alias=AliasChoices("description", AliasPath("definition", "description"))
    )
    source: str = ""
    for_parts: tuple[FiniteFloat, ...] = ()


class ShownTask(_Plain):
    """A similar past task."""

    query: str
    used: tuple[str, ...]


class Shown(_Plain):
    """A Decision."""

    query: str
    tenant: str = ""
    stage: Stage
    confidence: FiniteFloat
    gate_confidence: FiniteFloat
    semantic_ran: bool
    parts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    recommended: tuple[str, ...] = ()
    catalogue: CatalogueVersion
    tokens: Tokens
    timings_ms: dict[str, FiniteFloat] = {}
    warnings: tuple[str, ...] = ()
    matches: tuple[ShownMatch, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    related: tuple[Related, ...] = ()
    graph: tuple[Edge, ...] = ()
    past_tasks: tuple[ShownTask, ...] = ()

    @classmethod
    def of(cls, value: Any) -> "Shown":
        """Read a Decision from its JSON, or from that of a run or plan. Raises InvalidInput for another form."""
        decision = value.get("decision", value) if isinstance(value, dict) else value
        try:
            return cls.model_validate(decision)
        except ValidationError as error:
            raise InvalidInput(
                f"this is no Decision: {first_problem(error, 'the file')}; {_FORM}"
            ) from None

    @classmethod
    def read(cls, text: bytes) -> "Shown":
        """Read a file's text."""
        try:
            return cls.of(read_json(text.decode("utf-8-sig")))
        except ValueError as error:
            raise InvalidInput(f"this is {error}; {_FORM}") from None

    @property
    def by_probability(self) -> list[ShownMatch]:
        """The matches in the order of the number that the page shows."""
        return sorted(self.matches, key=lambda match: -match.probability)

    @property
    def found_by(self) -> str:
        return FOUND_BY[self.stage]


LEGS = {
    "always": "always-available",
    "explicit": "named server",
    "keyword": "keyword search",
    "semantic": "semantic search",
    "experience": "past tasks",
    "required": "required by another",
    "used_with": "used together",
}
"""The name of each leg on the pages. A leg of your own pipeline keeps its name."""


_NUMBER = re.compile(r"^\w+ \d\.\d\d, ")
MOST_SHOWN = 200
"""The number of entries of each list that a page shows. A request returns at most 50 matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedStage:
    """A stage of a Decision: its result, and its duration or None if that is not measured."""

    name: str
    result: str
    ms: float | None = None


def view(decision: Shown, gate: float) -> dict[str, Any]:
    """Return the values that the templates show for a Decision.

    Args:
        decision: The Decision.
        gate: The keyword confidence, 0 to 1, from which on no semantic search is needed.
    """
    hops = {related.tool: related.hops for related in decision.related}
    durations = [ms for stage, ms in decision.timings_ms.items() if stage != "total"]
    return {
        "shown": decision,
        "most": MOST_SHOWN,
        "first": frozenset(decision.recommended),
        "path": path(decision, gate),
        "longest": max(durations, default=0) or 1,
        "gate": gate,
        "legs": LEGS,
        "kinds": {match.kind for match in decision.matches},
        "clauses": [
            (clause, _best_for(decision, number))
            for number, clause in enumerate(decision.parts[:MOST_SHOWN])
        ],
        "rejected": _by_reason(decision),
        "graph": drawing.graph(decision.graph[:MOST_SHOWN], hops),
        "gate_outcome": _gate_outcome(decision, gate),
    }


def _best_for(decision: Shown, clause: int) -> str:
    """Return the key of the best match for one clause, or an empty text."""
    probabilities = [
        (match.for_parts[clause], match.tool)
        for match in decision.matches
        if len(match.for_parts) > clause
    ]
    probability, tool = max(probabilities, default=(0.0, ""))
    return tool if probability > 0 else ""


def _by_reason(decision: Shown) -> dict[str, list[str]]:
    """Return the rejected tools by reason, without the number that differs for each tool."""
    by_reason: dict[str, list[str]] = {}
    for rejected in decision.rejected[:MOST_SHOWN]:
        reason = _NUMBER.sub("", rejected.why)
        by_reason.setdefault(reason, []).append(rejected.tool)
    return by_reason


def path(decision: Shown, gate: float) -> list[PassedStage]:
    """Return the stages in the order in which they ran, with the gate after the keyword leg."""
    stages = []
    for name, ms in list(decision.timings_ms.items())[:MOST_SHOWN]:
        if name == "total":
            continue
        stages.append(PassedStage(name=name, result=_result_of(name, decision), ms=ms))
        if name == "keyword":
            stages.append(PassedStage(name="gate", result=_gate_outcome(decision, gate)))
    return stages


def _gate_outcome(decision: Shown, gate: float) -> str:
    """Return the outcome of the gate in words. Some pipelines never run the semantic leg."""
    if decision.semantic_ran:
        return "semantic search ran as well"
    if decision.gate_confidence >= gate:
        return "keyword search was enough"
    return "no semantic search ran"


def _result_of(stage: str, decision: Shown) -> str:
    """Return the result of a stage in words. A leg of the user's has none, because its evidence has another name."""
    if stage == "load":
        return f"{decision.catalogue.tools:,} tools"
    if stage == "understand":
        return f"{len(decision.parts)} clauses" if decision.parts else "one clause"
    if stage == "select":
        recommended = ", ".join(decision.recommended[:MOST_SHOWN]) or "none"
        return f"{len(decision.matches)} matches, use first: {recommended}"
    by_leg = [
        (match.evidence[stage], match.tool)
        for match in decision.matches
        if match.evidence.get(stage)
    ]
    if not by_leg:
        return "found none of the matches" if stage in LEGS else ""
    probability, best = max(by_leg)
    return f"found {len(by_leg)} of the matches, best: {best} with {probability:.2f}"


def as_file(value: dict[str, Any], gate: float) -> str:
    """Return a Decision's page as one self-contained HTML file. `value` is the output of `explain -o json`."""
    return file("file.html", **view(Shown.of(value), gate))
