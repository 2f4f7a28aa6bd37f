"""Other forms of tools: a JSON object in one of several spellings becomes a Tool, and a Tool becomes an object."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.common.json_input import slip, spellings
from orchestrator.common.keys import key_of
from orchestrator.common.lines import whole_pairs
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Annotations, Kind, Tool

RELATIONS = "toolroute/relations"
"""The name in a tool's `_meta` that has its relations."""
MAX_DEPTH = 64
"""The maximum number of levels of objects and lists in one tool."""


def _spelt(hint: str, name: str) -> Any:
    names = AliasChoices(f"{hint}Hint", f"{name}_hint", name)
    return Field(None, validation_alias=names, serialization_alias=f"{hint}Hint")


class _Hints(BaseModel):
    """MCP's annotations, in the spelling of the protocol or of Python."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)
    read_only: bool | None = _spelt("readOnly", "read_only")
    destructive: bool | None = _spelt("destructive", "destructive")
    idempotent: bool | None = _spelt("idempotent", "idempotent")
    open_world: bool | None = _spelt("openWorld", "open_world")
    title: str | None = Field(None, exclude=True)


class _Relation(BaseModel):
    """An edge to another tool. A `to` without a server means a tool of the same server. Further fields are refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    to: Annotated[str, Field(min_length=1)]
    type: Annotated[str, Field(min_length=1)] = "needs"
    weight: Annotated[float, Field(gt=0, le=1)] = 1.0

    def of(self, server: str) -> Relation:
        to = self.to if ":" in self.to else key_of(server, self.to)
        return Relation(to=to, type=self.type, weight=self.weight)


def _label_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


class _Record(BaseModel):
    """A tool in a foreign form: our own, MCP's (`inputSchema`) or that of a function definition (`parameters`, also
    within `function`).
    """

    model_config = ConfigDict(extra="ignore", defer_build=True)
    server: str = ""
    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    input_schema: dict[str, Any] | None = Field(
        None, validation_alias=AliasChoices("input_schema", "inputSchema", "parameters")
    )
    kind: Kind = Kind.MCP
    keywords: tuple[str, ...] = ()
    labels: dict[str, Annotated[str, BeforeValidator(_label_text)]] = Field(default_factory=dict)
    annotations: _Hints | None = None
    relations: tuple[_Relation, ...] = ()
    title: str = ""


def tool_from(record: Any, server: str = "") -> Tool:
    """Return a Tool from a decoded JSON object.

    Args:
        record: The object.
        server: The server of the tool, if the record names none.

    Raises:
        InvalidCatalogue: A field is wrong. The message names the field and its value.
    """
    if not isinstance(record, Mapping):
        raise InvalidCatalogue(f"the record is not a JSON object: {repr(record)[:80]}")
    parsed = _parsed(_flat(record))
    server = parsed.server or server
    if ":" in server:
        raise InvalidCatalogue(
            f"server {server!r} contains a colon, which separates server and name: rename it"
        )
    hints = parsed.annotations or _Hints(title=None)
    relations = dict.fromkeys(relation.of(server) for relation in parsed.relations)
    fields = dict(parsed)
    fields["server"] = server
    fields["title"] = parsed.title or hints.title or ""
    fields["annotations"] = Annotations(**hints.model_dump())
    fields["relations"] = tuple(relations)
    return Tool(**fields)


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with the fields that another form has within `function` or `_meta`. null counts as missing."""
    flat = dict(record)
    function = record.get("function")
    if isinstance(function, Mapping):
        flat |= function
    meta = flat.get("_meta")
    if isinstance(meta, Mapping) and RELATIONS in meta:
        flat["relations"] = meta[RELATIONS]
    return {name: _clean(value) for name, value in flat.items() if value is not None}


def _parsed(record: dict[str, Any]) -> _Record:
    misspelt = slip(record, spellings(_Record))
    if misspelt:
        raise InvalidCatalogue(misspelt)
    hints = record.get("annotations")
    misspelt = slip(hints, spellings(_Hints), "hint") if isinstance(hints, Mapping) else ""
    if misspelt:
        raise InvalidCatalogue(f"annotations: {misspelt}")
    try:
        return _Record.model_validate(record)
    except ValidationError as error:
        raise InvalidCatalogue(_problem(error)) from None


def tool_to_json(tool: Tool) -> dict[str, Any]:
    """Return the tool in the form of a line of tools.jsonl. Empty fields are left out."""
    hints = _Hints(**{f"{name}_hint": hint for name, hint in asdict(tool.annotations).items()})
    record = {
        "server": tool.server,
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "kind": str(tool.kind),
    }
    optional = {
        "title": tool.title,
        "keywords": list(tool.keywords),
        "labels": tool.labels,
        "annotations": hints.model_dump(by_alias=True, exclude_none=True),
        "relations": [asdict(relation) for relation in tool.relations],
    }
    return record | {name: value for name, value in optional.items() if value}


def _clean(value: Any, depth: int = 0) -> Any:
    """Return the value with lone surrogates replaced in every text. JSON allows them, and UTF-8 does not."""
    if isinstance(value, str):
        return whole_pairs(value)
    if depth > MAX_DEPTH:
        raise InvalidCatalogue(
            f"the tool is nested deeper than {MAX_DEPTH} levels: flatten its schema"
        )
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def _problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    field = ".".join(map(str, problem["loc"]))
    value = f"{problem.get('input')!r:.80}"
    if problem["type"] == "missing":
        return f"{field}: missing in {value}: a tool needs at least a name"
    message = problem["msg"].replace("tuple", "list")  # JSON calls a tuple a list.
    return f"{field}: {message}, but it is {value}"
