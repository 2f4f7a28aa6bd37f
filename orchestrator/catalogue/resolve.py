"""The way back from a model's call to a tool, with checked arguments."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestrator.catalogue.export import (
    NAMING,
    as_object,
    exported_name,
    own_arguments,
    parameters,
)
from orchestrator.catalogue.schema_checks import UnusableSchema, faults, fitting
from orchestrator.common.json_input import read_json
from orchestrator.errors import InvalidArguments, InvalidInput, UnknownTool
from orchestrator.records.tool import Tool

_MOST_NAMED = 30
"""The parameters that an error for a model names. A schema may have thousands."""
_LONGEST_NAME = 80
"""The characters of a parameter's name in such an error."""
_MOST_FAULTS = 5
"""The faults that such an error names."""


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


def resolve(tools: Sequence[Tool], call: Any) -> ResolvedCall:
    """Map a model's tool call to one of these tools. See `Decision.resolve`."""
    read = _read_call(call)
    by_name = {tool.key: tool for tool in tools}
    # A conversation may change its provider, so the names of all providers count.
    for provider in NAMING:
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
    schema = as_object(tool)
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
