"""Tools in each provider's shape, and a model's call mapped back to a tool.

Names: OpenAI and Anthropic allow `[a-zA-Z0-9_-]{1,64}`, MCP allows `[A-Za-z0-9._-]{1,128}`. A name that had to be
changed carries a hash of the key, so it stays unique and the same in every Decision.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from orchestrator.errors import InvalidArguments, InvalidInput, UnknownTool
from orchestrator.models import Tool

Provider = Literal["openai", "openai-chat", "anthropic", "mcp"]
"""`openai` is the Responses API's shape, `openai-chat` the Chat Completions API's."""

EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCall:
    """A model's call: the tool it means, its checked arguments, and the provider's id for the answer."""

    tool: Tool
    arguments: dict[str, Any]
    call_id: str = ""


def export(tools: Sequence[Tool], provider: Provider) -> list[dict[str, Any]]:
    """Definitions in the order given; the same tools give the same bytes."""
    if provider not in get_args(Provider):
        raise InvalidInput(f"provider {provider!r}: choose one of {', '.join(get_args(Provider))}")
    return [_shape(tool, exported_name(tool, provider), provider) for tool in tools]


def exported_name(tool: Tool, provider: Provider = "openai") -> str:
    """A legal, unique name: `server_name`, with a hash of the key whenever characters had to give way."""
    allowed, length = (r"[^A-Za-z0-9._-]", 128) if provider == "mcp" else (r"[^A-Za-z0-9_-]", 64)
    plain = f"{tool.server}__{tool.name}" if tool.server else tool.name
    safe = re.sub(allowed, "_", plain)
    if safe == plain and len(safe) <= length and "__" not in tool.server and "__" not in tool.name:
        return safe
    digest = hashlib.sha256(tool.key.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: length - 9]}_{digest}"


def _shape(tool: Tool, name: str, provider: Provider) -> dict[str, Any]:
    schema = parameters(tool)
    if provider == "anthropic":
        return {"name": name, "description": tool.description, "input_schema": schema}
    if provider == "mcp":
        return {"name": name, "description": tool.description, "inputSchema": schema}
    function = {"name": name, "description": tool.description, "parameters": schema, "strict": False}
    return {"type": "function", "function": function} if provider == "openai-chat" else {"type": "function", **function}


def parameters(tool: Tool) -> dict[str, Any]:
    """The tool's input schema as every provider wants it: of type object, with properties."""
    return {**EMPTY_SCHEMA, **(tool.input_schema or {})}


def resolve(tools: Sequence[Tool], call: Any) -> ResolvedCall:
    """See Decision.resolve."""
    name, arguments, call_id = _read_call(call)
    by_name = {exported_name(tool, provider): tool for provider in ("openai", "mcp") for tool in tools}
    tool = by_name.get(name) or next((tool for tool in tools if tool.key == name), None)
    if tool is None:
        raise UnknownTool(f"the model called {name!r}, which was not offered; offered: {', '.join(sorted(by_name))}")
    return ResolvedCall(tool=tool, arguments=check_arguments(tool, arguments), call_id=call_id)


def _read_call(call: Any) -> tuple[str, Any, str]:
    """Name, arguments and id out of any provider's call, as an object or as a dict."""
    inner = _get(call, "function") or call
    name = _get(inner, "name")
    if not isinstance(name, str):
        raise InvalidInput(f"not a tool call: {call!r}; give the call with its name and its arguments")
    arguments = next((v for key in ("arguments", "input") if (v := _get(inner, key)) is not None), {})
    return name, arguments, str(_get(call, "call_id") or _get(call, "id") or "")


def _get(record: Any, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key, None)


def check_arguments(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Arguments (a dict, or JSON text as OpenAI sends it) that fit the tool's schema; raises InvalidArguments."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except json.JSONDecodeError as error:
            raise InvalidArguments(f"{tool.key}: arguments are not JSON ({error}): {arguments[:200]!r}") from error
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"{tool.key}: arguments are {type(arguments).__name__}, not an object")
    schema = parameters(tool)
    try:
        validator = validator_for(schema)
        validator.check_schema(schema)
        problems = sorted(
            validator(schema).iter_errors(dict(arguments)), key=lambda problem: list(problem.absolute_path)
        )
    except SchemaError as error:
        raise InvalidArguments(f"{tool.key}: its own input schema is broken ({error.message}); fix the tool") from error
    if problems:
        where = "; ".join(f"{'.'.join(map(str, p.absolute_path)) or 'arguments'}: {p.message}" for p in problems[:5])
        raise InvalidArguments(f"{tool.key}: {where[:1000]}")
    return dict(arguments)
