"""Tool definitions in each provider's shape, and the way back from a model's call to a tool.

OpenAI and Anthropic allow names of the form `[a-zA-Z0-9_-]{1,64}`, MCP allows `[A-Za-z0-9._-]{1,128}`. A name that has
to be changed gets a hash of the key, so it is unique and the same in every Decision.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from orchestrator.catalogue.schema import accepted, gathered, plain_names, with_plain_names
from orchestrator.catalogue.schema_checks import UnusableSchema, faults, fitting
from orchestrator.common.digests import digest
from orchestrator.common.json_input import read_json
from orchestrator.errors import InvalidArguments, InvalidInput, UnknownTool
from orchestrator.records.tool import Tool

Provider = Literal["openai", "openai-chat", "anthropic", "mcp"]
"""The shape of definitions. `openai` is the Responses API, `openai-chat` the Chat Completions API."""
Appended = Literal["additional_tools", "tool_search_output", "inline_tools", "tool_reference", "tool_result"]
"""The type of an appended item.

`additional_tools` and `tool_search_output` belong to OpenAI's Responses API. In Anthropic's Messages API,
`inline_tools` and `tool_reference` belong to a system message, and `tool_result` answers a call.
"""

_FORBIDDEN = {"mcp": (r"[^A-Za-z0-9._-]", 128)}
_FORBIDDEN_ELSE = (r"[^A-Za-z0-9_-]", 64)
_HASHED = re.compile(r"_[0-9a-f]{8}$")
_MOST_NAMED, _LONGEST_NAME, _MOST_FAULTS = 30, 80, 5


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

    def run(self) -> Any:
        """Call the tool's function with the arguments and return its result.

        For an async function the result is a coroutine: write `await call.run()`. `run_async` handles both kinds.

        Raises:
            InvalidArguments: The function's own types refuse an argument.
            InvalidInput: The tool is not a function of this process.
        """
        return self._function()(**self.arguments)

    async def run_async(self) -> Any:
        """Call the tool's function from a coroutine and return its result. A function that is not async runs in a
        thread.

        Raises:
            InvalidArguments: The function's own types refuse an argument.
            InvalidInput: The tool is not a function of this process.
        """
        function = self._function()
        if inspect.iscoroutinefunction(function):
            return await function(**self.arguments)
        return await asyncio.to_thread(function, **self.arguments)

    def _function(self) -> Callable[..., Any]:
        if (function := self.tool.function) is None:
            remedy = "call it on its server with Connections.call, or route with Catalogue.of(functions)"
            raise InvalidInput(f"tool {self.tool.key!r} is not a function of this process: {remedy}")
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
    answer = shape in ("tool_search_output", "tool_result")
    if answer != bool(call_id):
        raise InvalidInput(f"call_id {call_id!r}: {shape} {'needs' if answer else 'does not take'} a search call's id")
    if not tools and not answer:
        return []
    if shape in ("inline_tools", "tool_reference"):
        inline = [{"type": "tool_definition", "definition": own} for own in export(tools, "anthropic")]
        named = [{"type": "tool_reference", "name": exported_name(tool)} for tool in tools]
        added = inline if shape == "inline_tools" else named
        return [{"role": "system", "content": [{"type": "tool_addition", "tool": tool} for tool in added]}]
    if shape == "tool_result":
        names = [{"type": "tool_reference", "tool_name": exported_name(tool)} for tool in tools]
        return [{"type": "tool_result", "tool_use_id": call_id, "content": names}]
    definitions = export(tools, "openai")
    if shape == "additional_tools":
        return [{"type": shape, "role": "developer", "tools": definitions}]
    deferred = [{**own, "defer_loading": True} for own in definitions]
    state = {"execution": "client", "status": "completed"}
    return [{"type": shape, "call_id": call_id, **state, "tools": deferred}]


def exported_name(tool: Tool, provider: Provider = "openai") -> str:
    """Return an allowed name that no other tool has: `server__name`, with a hash of the key if that is not enough."""
    forbidden, length = _FORBIDDEN.get(provider, _FORBIDDEN_ELSE)
    plain = f"{tool.server}__{tool.name}" if tool.server else tool.name
    safe = re.sub(forbidden, "_", plain)
    # The name is unique only if the first "__" is the separator and its end does not look like a hash.
    unmistakable = plain.find("__") == (len(tool.server) if tool.server else -1) and not tool.name.startswith("_")
    if safe == plain and len(safe) <= length and unmistakable and not _HASHED.search(safe):
        return safe
    return f"{safe[: length - 9]}_{digest(tool.key, 8)}"


def keys_by_name(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the key for each name: the key itself, the name of a provider, and a plain name that only one tool has."""
    bare: dict[str, list[str]] = {}
    for tool in tools:
        bare.setdefault(tool.name, []).append(tool.key)
    keys = {name: own[0] for name, own in bare.items() if len(own) == 1}
    keys |= {exported_name(tool, provider): tool.key for tool in tools for provider in ("openai", "mcp")}
    return keys | {tool.key: tool.key for tool in tools}


def _shape(tool: Tool, name: str, provider: Provider) -> dict[str, Any]:
    if provider == "mcp":
        titled = {"title": tool.title} if tool.title else {}
        return {"name": name, **titled, "description": tool.description, "inputSchema": _as_object(tool)}
    description = tool.description or tool.title
    schema = accepted(_as_object(tool))
    if provider == "anthropic":
        return {"name": name, "description": description, "input_schema": with_plain_names(schema)}
    function = {"name": name, "description": description, "parameters": schema, "strict": False}
    return {"type": "function", "function": function} if provider == "openai-chat" else {"type": "function", **function}


def parameters(tool: Tool) -> dict[str, Any]:
    """Return the tool's input schema of type object, with all its parameters as properties."""
    return gathered(_as_object(tool))


def _as_object(tool: Tool) -> dict[str, Any]:
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    return {**schema, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def resolve(tools: Sequence[Tool], call: Any) -> ResolvedCall:
    """Map a model's tool call to one of these tools. See `Decision.resolve`."""
    name, arguments, call_id = _read_call(call)
    by_name = {exported_name(tool, provider): tool for provider in ("openai", "mcp") for tool in tools}
    tool = by_name.get(name) or next((tool for tool in tools if tool.key == name), None)
    if tool is None:
        raise UnknownTool(
            f"the model called {name!r}, which was not offered; the offered tools: {', '.join(sorted(by_name))}"
        )
    own = plain_names(parameters(tool))
    named = {own.get(name, name): value for name, value in read_arguments(tool.key, arguments).items()}
    return ResolvedCall(tool=tool, arguments=check_arguments(tool, named), call_id=call_id)


def _read_call(call: Any) -> tuple[str, Any, str]:
    """Return the name, the arguments and the id of any provider's call, given as an object or a dict."""
    inner = _get(call, "function") or call
    name = _get(inner, "name")
    if not isinstance(name, str):
        raise InvalidInput(f"not a tool call: {call!r}; give the call with its name and its arguments")
    arguments: Any = next((v for key in ("arguments", "input") if (v := _get(inner, key)) is not None), {})
    return name, arguments, str(_get(call, "call_id") or _get(call, "id") or "")


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
        if not (problems := faults(schema, read)[:_MOST_FAULTS]):
            return read
        if (again := fitting(schema, read)) is not None:
            return again
    except UnusableSchema:
        return read
    raise InvalidArguments(f"{tool.key}: {'; '.join(problems)[:1000]}; its parameters: {_taken(tool)}")


def _taken(tool: Tool) -> str:
    """Return the names of the tool's parameters, required ones first and marked."""
    schema = parameters(tool)
    required = schema["required"] if isinstance(schema.get("required"), list) else []
    names = [f"{name} (required)" for name in schema["properties"] if name in required]
    names += [name for name in schema["properties"] if name not in required]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(name[:_LONGEST_NAME] for name in names[:_MOST_NAMED]) or 'none'}{more}"


def read_arguments(key: str, arguments: Any) -> dict[str, Any]:
    """Return arguments as a dict, without the tool's schema.

    Half of a surrogate pair, from a model's cut emoji, would break a connection with all its calls.

    Raises:
        InvalidArguments: The arguments cannot be a JSON object.
    """
    from pydantic_core import to_jsonable_python

    for _ in range(2):  # Some models encode the arguments twice.
        try:
            arguments = read_json(arguments.strip() or "{}") if isinstance(arguments, str) else arguments
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
