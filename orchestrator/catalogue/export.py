"""Tool definitions in each provider's shape.

OpenAI and Anthropic allow names of the form `[a-zA-Z0-9_-]{1,64}`, MCP allows `[A-Za-z0-9._-]{1,128}`. A name that has
to be changed gets a hash of the key, so it is unique and the same in every Decision.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from orchestrator.catalogue.schema import accepted, gathered, plain_names, with_plain_names
from orchestrator.common.digests import digest
from orchestrator.errors import InvalidInput
from orchestrator.records.tool import Tool

Provider = Literal["openai", "openai-chat", "anthropic", "mcp"]
"""The shape of definitions. `openai` is the Responses API, `openai-chat` the Chat Completions API."""
Appended = Literal[
    "additional_tools", "tool_search_output", "inline_tools", "tool_reference", "tool_result"
]
"""The type of an appended item.

`additional_tools` and `tool_search_output` belong to OpenAI's Responses API. In Anthropic's Messages API,
`inline_tools` and `tool_reference` belong to a system message, and `tool_result` answers a call.
"""

_MCP_NAMES = (r"[^A-Za-z0-9._-]", 128)
_PROVIDER_NAMES = (r"[^A-Za-z0-9_-]", 64)
"""The characters that a name may not have, and its maximum length."""
_HASHED = re.compile(r"_[0-9a-f]{8}$")
"""The end of a name that was changed. A name that ends like this by itself is changed, too, so no two are equal."""
NAMING: tuple[Provider, ...] = ("openai", "mcp")
"""One provider for each set of rules for names."""


def export(tools: Sequence[Tool], provider: Provider) -> list[dict[str, Any]]:
    """Return the definitions of tools, in their order. The same tools always give the same bytes.

    Raises:
        InvalidInput: No provider has this name.
    """
    if provider not in get_args(Provider):
        raise InvalidInput(f"provider {provider!r}: choose one of {', '.join(get_args(Provider))}")
    return [_shape(tool, exported_name(tool, provider), provider) for tool in tools]


def appended(tools: Sequence[Tool], shape: Appended, call_id: str = "") -> list[dict[str, Any]]:
    """Return the tools as items to append to a conversation.

    Without tools there are no items, unless a search has to be answered. The items have the types of openai 3.57 and
    anthropic 2.14. References name tools that the request already has with `defer_loading`.

    Args:
        tools: The tools.
        shape: The kind of item.
        call_id: The id of the search call that is answered, for `tool_search_output` and `tool_result`.
    """
    if shape not in get_args(Appended):
        raise InvalidInput(f"shape {shape!r}: choose one of {', '.join(get_args(Appended))}")
    answers_search = shape in ("tool_search_output", "tool_result")
    if answers_search and not call_id:
        raise InvalidInput(f"call_id {call_id!r}: {shape} needs a search call's id")
    if call_id and not answers_search:
        raise InvalidInput(f"call_id {call_id!r}: {shape} does not take a search call's id")
    if not tools and not answers_search:
        return []
    return [_APPENDED[shape](tools, call_id)]


def _additional_tools(tools: Sequence[Tool], _: str) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": export(tools, "openai")}


def _tool_search_output(tools: Sequence[Tool], call_id: str) -> dict[str, Any]:
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": [{**definition, "defer_loading": True} for definition in export(tools, "openai")],
    }


def _inline_tools(tools: Sequence[Tool], _: str) -> dict[str, Any]:
    definitions = export(tools, "anthropic")
    return _system_message(
        [{"type": "tool_definition", "definition": definition} for definition in definitions]
    )


def _tool_reference(tools: Sequence[Tool], _: str) -> dict[str, Any]:
    return _system_message(
        [{"type": "tool_reference", "name": exported_name(tool)} for tool in tools]
    )


def _system_message(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "system",
        "content": [{"type": "tool_addition", "tool": tool} for tool in tools],
    }


def _tool_result(tools: Sequence[Tool], call_id: str) -> dict[str, Any]:
    names = [{"type": "tool_reference", "tool_name": exported_name(tool)} for tool in tools]
    return {"type": "tool_result", "tool_use_id": call_id, "content": names}


_APPENDED: dict[str, Callable[[Sequence[Tool], str], dict[str, Any]]] = {
    "additional_tools": _additional_tools,
    "tool_search_output": _tool_search_output,
    "inline_tools": _inline_tools,
    "tool_reference": _tool_reference,
    "tool_result": _tool_result,
}


def exported_name(tool: Tool, provider: Provider = "openai") -> str:
    """Return an allowed name that no other tool has: `server__name`, with a hash of the key if that is not enough."""
    forbidden, length = _MCP_NAMES if provider == "mcp" else _PROVIDER_NAMES
    plain = f"{tool.server}__{tool.name}" if tool.server else tool.name
    safe = re.sub(forbidden, "_", plain)
    if safe == plain and len(safe) <= length and _is_unmistakable(tool, plain):
        return safe
    return f"{safe[: length - 9]}_{digest(tool.key, 8)}"


def _is_unmistakable(tool: Tool, name: str) -> bool:
    """Return True if the first "__" is the separator, and the end does not look like a hash."""
    separator = len(tool.server) if tool.server else -1
    if tool.name.startswith("_") or _HASHED.search(name):
        return False
    return name.find("__") == separator


def keys_by_name(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the key for each name: the key itself, the name of a provider, and a plain name that only one tool has."""
    counts = Counter(tool.name for tool in tools)
    keys = {tool.name: tool.key for tool in tools if counts[tool.name] == 1}
    for provider in NAMING:
        keys |= {exported_name(tool, provider): tool.key for tool in tools}
    return keys | {tool.key: tool.key for tool in tools}


def _shape(tool: Tool, name: str, provider: Provider) -> dict[str, Any]:
    if provider == "mcp":
        definition = {
            "name": name,
            "description": tool.description,
            "inputSchema": as_object(tool),
        }
        return {"name": name, "title": tool.title, **definition} if tool.title else definition
    description = tool.description or tool.title
    if provider == "anthropic":
        return {"name": name, "description": description, "input_schema": offered_schema(tool)}
    schema = accepted(as_object(tool))
    # OpenAI's strict mode demands that each parameter is required, and refuses most schemas.
    function = {"name": name, "description": description, "parameters": schema, "strict": False}
    if provider == "openai-chat":
        return {"type": "function", "function": function}
    return {"type": "function", **function}


def parameters(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema of type object, with all its parameters as properties."""
    return gathered(as_object(tool))


def offered_schema(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema as each provider accepts it. `own_arguments` reads the arguments of a call."""
    return with_plain_names(accepted(as_object(tool)))


def own_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's call with the tool's own names."""
    names = plain_names(parameters(tool))
    return {names.get(name, name): value for name, value in arguments.items()}


def as_object(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema as one of type object."""
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    return {
        **schema,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
    }
