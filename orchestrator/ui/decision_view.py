"""A Decision as its page shows it: read from the JSON of one that was just made, or of one that was kept."""

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
        try:
            return cls.model_validate(
                value.get("decision", value) if isinstance(value, dict) else value
            )
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
    def found(self) -> str:
        return FOUND_BY[self.stage]
