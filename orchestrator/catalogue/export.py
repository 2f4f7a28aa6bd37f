"""Tool definitions in each provider's shape, and the way back from a model's call to a tool.

OpenAI and Anthropic allow names of the form `[a-zA-Z0-9_-]{1,64}`, MCP allows `[A-Za-z0-9._-]{1,128}`. A name that has
to be changed gets a hash of the key, so it is unique and the same in every Decision.
"""

import asyncio
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from orchestrator.catalogue.schema import accepted, gathered, plain_names, with_plain_names
from orchestrator.catalogue.schema_checks import UnusableSchema, faults, fitting
from orchestrator.common.digests import digest
from orchestrator.common.json_input import read_json
from orchestrator.errors import InvalidArguments, InvalidInput, UnknownTool
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
_MOST_NAMED = 30
"""The parameters that an error for a model names. A schema may have thousands."""
_LONGEST_NAME = 80
"""The characters of a parameter's name in such an error."""
_MOST_FAULTS = 5
"""The faults that such an error names."""


_NAMING: tuple[Provider, ...] = ("openai", "mcp")
"""One provider for each set of rules for names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCall:
    """A model's tool call, mapped to a tool.

    Attributes:
        tool: The tool that the call means.
        arguments: The checked arguments.
        call_id: The provider's id of the call, for the answer.

    Examples:
        >>> from orchestrator import Catalogue, Router
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> with Router(Catalogue.of(add)) as router:
        ...     decision = router.route_sync("add two numbers")
        >>> decision.resolve({"name": "add", "arguments": {"a": 2, "b": 3}}).run()
        5
    """

    tool: Tool
    arguments: dict[str, Any]
    call_id: str = ""

    def __repr__(self) -> str:
        return f"ResolvedCall({self.tool.key!r}, {self.arguments!r})"

    def run(self, **context: Any) -> Any:
        """Call the tool's function with the arguments and return its result.

        For an async function the result is a coroutine: write `await call.run()`. `run_async` handles both kinds.

        Args:
            context: The values of parameters that an agent framework fills, such as pydantic-ai's RunContext.

        Raises:
            InvalidArguments: The function's own types refuse an argument.
            InvalidInput: The tool is not a function of this process, or a value is missing in `context`.
        """
        return self._function()(**{**self.arguments, **context})

    async def run_async(self, **context: Any) -> Any:
        """Call the tool's function from a coroutine and return its result. A function that is not async runs in
        a thread.

        Args:
            context: The values of parameters that an agent framework fills, such as pydantic-ai's RunContext.

        Raises:
            InvalidArguments: The function's own types refuse an argument.
            InvalidInput: The tool is not a function of this process, or a value is missing in `context`.
        """
        function = self._function()
        arguments = {**self.arguments, **context}
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        returned = await asyncio.to_thread(function, **arguments)
        return await returned if inspect.isawaitable(returned) else returned

    def _function(self) -> Callable[..., Any]:
        function = self.tool.function
        if function is None:
            remedy = (
                "call it on its server with Connections.call, or route with Catalogue.of(functions)"
            )
            raise InvalidInput(
                f"tool {self.tool.key!r} is not a function of this process: {remedy}"
            )
        return function


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
    for provider in _NAMING:
        keys |= {exported_name(tool, provider): tool.key for tool in tools}
    return keys | {tool.key: tool.key for tool in tools}


def _shape(tool: Tool, name: str, provider: Provider) -> dict[str, Any]:
    if provider == "mcp":
        definition = {
            "name": name,
            "description": tool.description,
            "inputSchema": _as_object(tool),
        }
        return {"name": name, "title": tool.title, **definition} if tool.title else definition
    description = tool.description or tool.title
    if provider == "anthropic":
        return {"name": name, "description": description, "input_schema": offered_schema(tool)}
    schema = accepted(_as_object(tool))
    # OpenAI's strict mode demands that each parameter is required, and refuses most schemas.
    function = {"name": name, "description": description, "parameters": schema, "strict": False}
    if provider == "openai-chat":
        return {"type": "function", "function": function}
    return {"type": "function", **function}


def parameters(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema of type object, with all its parameters as properties."""
    return gathered(_as_object(tool))


def offered_schema(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema as each provider accepts it. `own_arguments` reads what a model makes of it."""
    return with_plain_names(accepted(_as_object(tool)))


def own_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's call with the tool's own names."""
    names = plain_names(parameters(tool))
    return {names.get(name, name): value for name, value in arguments.items()}


def _as_object(tool: Tool) -> dict[str, Any]:
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    return {
        **schema,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
    }


def resolve(tools: Sequence[Tool], call: Any) -> ResolvedCall:
    """Map a model's tool call to one of these tools. See `Decision.resolve`."""
    read = _read_call(call)
    by_name = {tool.key: tool for tool in tools}
    # A conversation may change its provider, so the names of all providers count.
    for provider in _NAMING:
        by_name |= {exported_name(tool, provider): tool for tool in tools}
    tool = by_name.get(read.name)
    if tool is None:
        offered = sorted(name for name in by_name if ":" not in name)
        raise UnknownTool(
            f"the model called {read.name!r}, which was not offered; the offered tools: {', '.join(offered)}"
        )
    arguments = own_arguments(tool, read_arguments(tool.key, read.arguments))
    return ResolvedCall(tool=tool, arguments=check_arguments(tool, arguments), call_id=read.call_id)


class _Call(NamedTuple):
    name: str
    arguments: Any
    call_id: str


def _read_call(call: Any) -> _Call:
    """Read any provider's call, given as an object or a dict."""
    inner = _get(call, "function") or call
    name = _get(inner, "name")
    if not isinstance(name, str):
        raise InvalidInput(
            f"not a tool call: {call!r}; give the call with its name and its arguments"
        )
    arguments = _get(inner, "arguments")
    if arguments is None:
        arguments = _get(inner, "input")
    return _Call(
        name=name,
        arguments={} if arguments is None else arguments,
        call_id=str(_get(call, "call_id") or _get(call, "id") or ""),
    )


def _get(record: Any, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key, None)


def check_arguments(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Return the arguments if they fit the tool's schema.

    A text with JSON, a blank text and null are converted if only the converted value fits (`fitting`). If the schema is
    broken or refers to other documents, the server has to check the arguments.

    Args:
        tool: The tool.
        arguments: A dict, or a JSON text as OpenAI sends it.

    Raises:
        InvalidArguments: The arguments do not match the schema.
    """
    read = read_arguments(tool.key, arguments)
    schema = _as_object(tool)
    try:
        problems = faults(schema, read)[:_MOST_FAULTS]
        converted = fitting(schema, read) if problems else read
    except UnusableSchema:
        return read
    if converted is None:
        raise InvalidArguments(
            f"{tool.key}: {'; '.join(problems)[:1000]}; its parameters: {_parameter_names(tool)}"
        )
    return converted


def _parameter_names(tool: Tool) -> str:
    """Return the names of the tool's parameters, required ones first and marked."""
    schema = parameters(tool)
    required = schema.get("required")
    if not isinstance(required, list):
        required = []
    names = [f"{name} (required)" for name in schema["properties"] if name in required]
    names += [name for name in schema["properties"] if name not in required]
    if not names:
        return "none"
    listed = ", ".join(name[:_LONGEST_NAME] for name in names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def read_arguments(key: str, arguments: Any) -> dict[str, Any]:
    """Return arguments as a dict, without the tool's schema.

    Half of a surrogate pair, from a model's cut emoji, would break a connection with all its calls.

    Raises:
        InvalidArguments: The arguments cannot be a JSON object.
    """
    from pydantic_core import to_jsonable_python

    for _ in range(2):  # Some models encode the arguments twice.
        try:
            arguments = (
                read_json(arguments.strip() or "{}") if isinstance(arguments, str) else arguments
            )
        except ValueError as error:
            raise InvalidArguments(f"{key}: arguments are {error}: {arguments[:200]!r}") from None
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"{key}: arguments are {type(arguments).__name__}, not an object")
    read = dict(arguments)
    try:
        json.dumps(read, default=to_jsonable_python, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{key}: arguments cannot be sent as JSON ({error})") from None
    return read
