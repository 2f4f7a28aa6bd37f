"""Tools as others define them: a record of JSON in any of several spellings becomes a Tool, and a Tool a record."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.errors import InvalidCatalogue
from orchestrator.records.forms import misspelt, spellings
from orchestrator.records.tool import Annotations, Kind, Tool

MAX_DEPTH = 64
"""Levels of objects and lists within one tool."""
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def _clean(value: Any, depth: int = 0) -> Any:
    """The same JSON value with lone surrogates (legal in JSON, illegal in UTF-8) replaced in every text."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if depth > MAX_DEPTH:
        raise InvalidCatalogue(f"nested deeper than {MAX_DEPTH} levels: no tool needs that")
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def _label_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


class _Hints(BaseModel):
    """MCP's annotations in the spelling of the protocol, or in Python's."""

    model_config = ConfigDict(extra="ignore", strict=True)
    read_only: bool | None = Field(None, validation_alias=AliasChoices("readOnlyHint", "read_only_hint", "read_only"))
    destructive: bool | None = Field(
        None, validation_alias=AliasChoices("destructiveHint", "destructive_hint", "destructive")
    )
    idempotent: bool | None = Field(
        None, validation_alias=AliasChoices("idempotentHint", "idempotent_hint", "idempotent")
    )
    open_world: bool | None = Field(
        None, validation_alias=AliasChoices("openWorldHint", "open_world_hint", "open_world")
    )


class _Record(BaseModel):
    """A tool as strangers write it: our own form, MCP's (`inputSchema`) or a function definition's (`parameters`), also
    where that stands under `function`."""

    model_config = ConfigDict(extra="ignore")
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


def tool_from(record: Any) -> Tool:
    """A Tool from a decoded JSON object; InvalidCatalogue says which field is wrong and what it holds."""
    if not isinstance(record, Mapping):
        raise InvalidCatalogue(f"the record is no JSON object: {repr(record)[:80]}")
    if isinstance(function := record.get("function"), Mapping):
        record = {**record, **function}
    record = {name: _clean(value) for name, value in record.items() if value is not None}  # null says nothing.
    if slip := misspelt(record, _FIELD_OF):
        raise InvalidCatalogue("{!r} is no field: did you mean {!r}?".format(*slip))
    hints = record.get("annotations")
    if isinstance(hints, Mapping) and (slip := misspelt(hints, _HINT_OF)):
        raise InvalidCatalogue("annotations: {!r} is no hint: did you mean {!r}?".format(*slip))
    try:
        parsed = _Record.model_validate(record)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        shown = repr(problem.get("input"))[:80]
        if problem["type"] == "missing":
            raise InvalidCatalogue(f"{field}: missing in {shown}: a tool has at least a name") from None
        wanted = problem["msg"].replace("tuple", "list")  # As JSON calls it.
        raise InvalidCatalogue(f"{field}: {wanted}, but it is {shown}") from None
    if ":" in parsed.server:
        raise InvalidCatalogue(f"server {parsed.server!r} holds a colon, which separates server and name: rename it")
    given = parsed.annotations.model_dump() if parsed.annotations else {}
    return Tool(**{**dict(parsed), "annotations": Annotations(**given)})


_FIELD_OF, _HINT_OF = spellings(_Record), spellings(_Hints)


def tool_to_json(tool: Tool) -> dict[str, Any]:
    """The tool as a line of tools.jsonl holds it; fields with nothing in them are left out."""
    hints = {
        "readOnlyHint": tool.annotations.read_only,
        "destructiveHint": tool.annotations.destructive,
        "idempotentHint": tool.annotations.idempotent,
        "openWorldHint": tool.annotations.open_world,
    }
    optional = {
        "keywords": list(tool.keywords),
        "labels": tool.labels,
        "annotations": {name: hint for name, hint in hints.items() if hint is not None},
    }
    return {
        "server": tool.server,
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "kind": str(tool.kind),
        **{name: value for name, value in optional.items() if value},
    }
